#include "datapath/volume/metadata_cache.h"

namespace weir::volume {

// Pinned descriptors belong to the state region: a successor goes on with them.
DescriptorCache::~DescriptorCache() {
  for (Shard& shard : shards_) {
    for (auto& [node, entry] : shard.entries) {
      if (entry.pinned) static_cast<void>(entry.fd->release());
    }
  }
}

SharedFd DescriptorCache::Find(uint64_t node) {
  Shard& shard = ShardOf(node);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(node);
  if (found == shard.entries.end()) return nullptr;
  Entry& entry = found->second;
  if (!entry.pinned) shard.order.splice(shard.order.begin(), shard.order, entry.position);
  return entry.fd;
}

SharedFd DescriptorCache::Add(uint64_t node, SharedFd fd) {
  Shard& shard = ShardOf(node);
  SharedFd evicted;  // closed after the lock
  const std::lock_guard lock(shard.mutex);
  const auto [found, added] = shard.entries.try_emplace(node);
  Entry& entry = found->second;
  if (!added) return entry.fd;
  entry.fd = std::move(fd);
  shard.order.push_front(node);
  entry.position = shard.order.begin();
  SharedFd result = entry.fd;
  if (shard.order.size() > max_per_shard_) {
    const auto oldest = shard.entries.find(shard.order.back());
    evicted = std::move(oldest->second.fd);
    shard.entries.erase(oldest);
    shard.order.pop_back();
  }
  return result;
}

void DescriptorCache::Pin(uint64_t node, SharedFd fd) {
  Shard& shard = ShardOf(node);
  const std::lock_guard lock(shard.mutex);
  const auto [found, added] = shard.entries.try_emplace(node);
  Entry& entry = found->second;
  if (!added && !entry.pinned) shard.order.erase(entry.position);
  entry.fd.swap(fd);
  entry.pinned = true;
}

void DescriptorCache::Drop(uint64_t node) {
  Shard& shard = ShardOf(node);
  SharedFd dropped;
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(node);
  if (found == shard.entries.end()) return;
  if (!found->second.pinned) shard.order.erase(found->second.position);
  dropped = std::move(found->second.fd);
  shard.entries.erase(found);
}

}  // namespace weir::volume
