// `weir volume`: a directory served through a mount on which everybody's I/O gets what their group
// was promised. The front door of this folder.
//
// Processes: RunVolume's own is the supervisor: single-threaded, it holds the mount, and starts the
// daemon, which does the work, again when it dies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/resource_params.h"
#include "base/result.h"
#include "datapath/uring/engine.h"
#include "datapath/volume/attribution.h"
#include "datapath/volume/backing.h"

namespace weir::volume {

// Requests that the scheduler sees at one time; more wait in the kernel, in order of arrival.
inline constexpr uint32_t kDefaultOutstanding = 8192;
inline constexpr uint32_t kLeastOutstanding = 64;
inline constexpr uint32_t kMostOutstanding = 60'000;
inline constexpr int kMostMetadataThreads = 64;

enum class TransportKind : uint8_t {
  kResumable,  // /dev/fuse: a daemon that dies is replaced, and programs notice nothing
  kFast,       // FUSE over io_uring: less CPU; a daemon that dies takes open files along
};

// A node of the tree of groups: parents before children, as catalog::TreeNode.
struct GroupSpec {
  std::string path;
  int parent = -1;
  ResourceParams params;
  bool leaf = true;
};

// The groups once the engine has them, in the order of VolumeOptions::groups.
struct VolumeGroups {
  std::vector<std::string> paths;
  std::vector<core::GroupId> ids;
  size_t fallback = 0;  // index of the group of what nothing else claims
};

struct BackingStart {
  int directory_fd = -1;
  // Shared with the supervisor and all daemons before and after; zeros at first.
  std::span<std::byte> state;
  bool fresh = true;  // no daemon has used `state` before
};
using BackingFactory = std::function<Result<std::unique_ptr<Backing>>(const BackingStart&)>;
using AttributionFactory =
    std::function<Result<std::unique_ptr<Attribution>>(Engine*, const VolumeGroups&)>;

struct VolumeOptions {
  std::string directory;
  std::string mountpoint;
  TransportKind transport = TransportKind::kResumable;
  bool allow_suid = false;
  bool allow_devices = false;
  bool read_only = false;
  int metadata_threads = 4;
  uint32_t outstanding = kDefaultOutstanding;
  int64_t buffer_bytes = int64_t{1} << 30;         // payloads in memory at one time
  Duration stop_limit = std::chrono::seconds(10);  // of waiting for users when asked to stop

  EngineOptions engine;  // capacity, cost model, depth, pieces; the rest is set here
  int64_t fixed_depth = 0;
  std::vector<GroupSpec> groups;  // may be empty
  std::string default_group;      // a path of a leaf in `groups`; empty: one more group, "default"
  bool quiet = false;

  size_t state_bytes = 0;  // for `backing`
  BackingFactory backing;
  AttributionFactory attribution;  // none: everybody is in the default group
};

// Serves until SIGTERM, SIGINT or an unmount. Returns the process's exit status: 0 ended cleanly, 1
// failed (the message is on stderr). Requires: the process has one thread.
// Errors: all found before the mount is made: kInvalidArgument, kNotFound, kUnavailable, kIo.
[[nodiscard]] Result<int> RunVolume(const VolumeOptions& options);

}  // namespace weir::volume
