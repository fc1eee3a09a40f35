// Descriptors (O_PATH) of nodes, so that most operations need not open one. Internal.
//
// Two kinds. *Cached* ones are opened again when somebody needs them: at most a named number, the
// one unused for longest goes first. *Pinned* ones are the only way to a node (it has no name any
// more, or its file system has no file handles): the state region records them, and they stay.
//
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

#include "datapath/volume/metadata_fd.h"

namespace weir::volume {

class DescriptorCache {
 public:
  explicit DescriptorCache(size_t max_cached) : max_per_shard_(max_cached / kShards + 1) {}
  ~DescriptorCache();
  DescriptorCache(const DescriptorCache&) = delete;
  DescriptorCache& operator=(const DescriptorCache&) = delete;

  // Null: not there.
  [[nodiscard]] SharedFd Find(uint64_t node);
  // The first descriptor of a node stays: the result is the one to use.
  SharedFd Add(uint64_t node, SharedFd fd);
  // From now on the descriptor of the node stays until Drop().
  void Pin(uint64_t node, SharedFd fd);
  void Drop(uint64_t node);

 private:
  static constexpr size_t kShards = 16;
  struct Entry {
    SharedFd fd;
    bool pinned = false;
    std::list<uint64_t>::iterator position{};  // in `order`, of cached ones
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, Entry> entries;
    std::list<uint64_t> order;  // cached ones, used last at the front
  };
  Shard& ShardOf(uint64_t node) { return shards_[(node ^ (node >> 32)) % kShards]; }

  const size_t max_per_shard_;
  std::array<Shard, kShards> shards_;
};

}  // namespace weir::volume
