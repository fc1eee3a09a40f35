// Making and ending the mount of a volume. Internal. Threads: one.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "datapath/volume/protocol.h"

namespace weir::volume {

struct MountOptions {
  std::string directory;   // what is served; for the mount table and messages
  std::string mountpoint;  // a directory
  uint32_t root_mode = 0;  // of the served directory, as st_mode
  bool allow_suid = false;
  bool allow_devices = false;
  bool read_only = false;
  InitChoice init;
};

struct Mounted {
  int device_fd = -1;  // of /dev/fuse; non-blocking
  InitResult init;
};

// Unmounts a volume whose daemon and supervisor died, if one is there. Says so.
void TakeRemainsOff(const std::string& mountpoint);

// Whether `mountpoint` can carry the volume of `directory`; both as given. Errors: kNotFound,
// kInvalidArgument (not a directory; inside the served one), kIo.
[[nodiscard]] Result<void> CheckMountpoint(const std::string& directory,
                                           const std::string& mountpoint);

// Opens /dev/fuse, mounts, and exchanges INIT. Nothing is mounted after an error. Errors:
// kUnavailable (no /dev/fuse, no right to mount, a kernel that is too old); kIo.
[[nodiscard]] Result<Mounted> MountVolume(const MountOptions& options);

// "Y" of the fuse module's parameter enable_uring, and a kernel that has it at all.
enum class OverIoUring : uint8_t { kEnabled, kDisabled, kUnknownToKernel };
[[nodiscard]] OverIoUring OverIoUringState();

}  // namespace weir::volume
