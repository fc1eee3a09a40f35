#include "datapath/volume/node_table.h"

#include <cstring>

#include "base/check.h"

namespace weir::volume {

namespace {

// The state word: the generation above, these below. Zero (a fresh region) is free.
enum State : uint32_t { kFree = 0, kLive = 1 };

constexpr uint64_t Word(uint32_t generation, State state) {
  return static_cast<uint64_t>(generation) << 32 | state;
}
constexpr uint32_t GenerationOf(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
constexpr State StateOf(uint64_t word) { return static_cast<State>(word & UINT32_MAX); }

// 0 is no entry; index 1 with generation 0 is the id of the root, which has none.
constexpr uint32_t kFirstEntry = 2;

constexpr size_t kBuckets = 1u << 16;
constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15u;

}  // namespace

struct alignas(64) NodeTable::Header {
  std::atomic<uint32_t> used;  // entries below have been live at some time
  NodeHints root;
};

// 128 bytes. Zero bytes are a free entry.
struct alignas(128) NodeTable::Entry {
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> lookups;
  NodeIdentity identity;
  std::atomic<int32_t> descriptor_plus_1;  // 0: none
  NodeHints hints;

  [[nodiscard]] uint64_t IdAt(uint32_t index) const {
    return static_cast<uint64_t>(GenerationOf(word.load(std::memory_order_acquire))) << 32 | index;
  }
};

size_t NodeTable::StateBytes() {
  static_assert(sizeof(Entry) == 128 && sizeof(Header) <= sizeof(Entry));
  return sizeof(Entry) * (size_t{kMaxNodes} + 2);
}

NodeTable::NodeTable(std::span<std::byte> region, uint32_t max_nodes)
    : max_nodes_(max_nodes),
      header_(reinterpret_cast<Header*>(region.data())),
      entries_(reinterpret_cast<Entry*>(region.data() + sizeof(Entry))),
      root_hints_(&header_->root),
      buckets_(kBuckets, kNoEntry) {
  WEIR_CHECK(region.size() >= StateBytes() && max_nodes <= kMaxNodes);
}

void NodeTable::Recover(const PinnedNode& pinned) {
  const std::lock_guard lock(mutex_);
  header_->root.writers.store(0, std::memory_order_relaxed);
  uint32_t used = header_->used.load(std::memory_order_relaxed);
  if (used > kMaxNodes + 1) used = kMaxNodes + 1;
  next_.resize(used, kNoEntry);
  // Downwards, so that low entries are used again first and high pages stay untouched.
  for (uint32_t index = used; index-- > kFirstEntry;) {
    Entry& entry = entries_[index];
    entry.hints.writers.store(0, std::memory_order_relaxed);
    if (StateOf(entry.word.load(std::memory_order_acquire)) != kLive) {
      // A descriptor in it was not pinned yet, or is no longer.
      entry.descriptor_plus_1.store(0, std::memory_order_relaxed);
      free_.push_back(index);
      continue;
    }
    Link(index);
    ++size_;
    const int fd = entry.descriptor_plus_1.load(std::memory_order_relaxed) - 1;
    if (fd >= 0 && !pinned(entry.IdAt(index), entry.identity, fd)) {
      entry.descriptor_plus_1.store(0, std::memory_order_relaxed);
    }
  }
}

NodeTable::Entry* NodeTable::EntryOf(uint64_t node) const {
  const auto index = static_cast<uint32_t>(node);
  if (index == kNoEntry || index >= header_->used.load(std::memory_order_acquire)) return nullptr;
  Entry& entry = entries_[index];
  return entry.word.load(std::memory_order_acquire) == Word(GenerationOf(node), kLive) ? &entry
                                                                                       : nullptr;
}

uint32_t NodeTable::FindIndex(const NodeIdentity& identity) const {
  const size_t bucket = (identity.inode * kGoldenRatio) >> 48;
  for (uint32_t index = buckets_[bucket]; index != kNoEntry; index = next_[index]) {
    const NodeIdentity& other = entries_[index].identity;
    if (other.inode == identity.inode && other.type == identity.type &&
        other.handle == identity.handle) {
      return index;
    }
  }
  return kNoEntry;
}

void NodeTable::Link(uint32_t index) {
  uint32_t& first = buckets_[(entries_[index].identity.inode * kGoldenRatio) >> 48];
  next_[index] = first;
  first = index;
}

void NodeTable::Unlink(uint32_t index) {
  uint32_t* link = &buckets_[(entries_[index].identity.inode * kGoldenRatio) >> 48];
  while (*link != index) {
    WEIR_CHECK(*link != kNoEntry);
    link = &next_[*link];
  }
  *link = next_[index];
}

std::optional<NodeTable::Remembered> NodeTable::Remember(const NodeIdentity& identity, int pin) {
  const std::lock_guard lock(mutex_);
  if (const uint32_t known = FindIndex(identity); known != kNoEntry) {
    Entry& entry = entries_[known];
    entry.lookups.fetch_add(1, std::memory_order_relaxed);
    return Remembered{.node = entry.IdAt(known)};
  }
  uint32_t index = kNoEntry;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    uint32_t used = header_->used.load(std::memory_order_relaxed);
    if (used < kFirstEntry) used = kFirstEntry;
    if (used > max_nodes_ + 1) return std::nullopt;
    index = used;
    next_.resize(index + 1, kNoEntry);
    header_->used.store(index + 1, std::memory_order_release);
  }
  Entry& entry = entries_[index];
  const uint32_t generation = GenerationOf(entry.word.load(std::memory_order_relaxed)) + 1;
  entry.identity = identity;
  entry.lookups.store(1, std::memory_order_relaxed);
  entry.descriptor_plus_1.store(pin + 1, std::memory_order_relaxed);
  entry.hints.size.store(0, std::memory_order_relaxed);
  entry.hints.modified_ns.store(0, std::memory_order_relaxed);
  entry.hints.writers.store(0, std::memory_order_relaxed);
  entry.hints.set_id.store(0, std::memory_order_relaxed);
  entry.word.store(Word(generation, kLive), std::memory_order_release);
  Link(index);
  ++size_;
  return Remembered{.node = entry.IdAt(index), .pinned = pin >= 0};
}

std::optional<uint64_t> NodeTable::Known(const NodeIdentity& identity) const {
  const std::lock_guard lock(mutex_);
  const uint32_t index = FindIndex(identity);
  if (index == kNoEntry) return std::nullopt;
  return entries_[index].IdAt(index);
}

std::optional<NodeIdentity> NodeTable::Find(uint64_t node) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = EntryOf(node);
  if (entry == nullptr) return std::nullopt;
  return entry->identity;
}

bool NodeTable::Pin(uint64_t node, int fd) {
  const std::lock_guard lock(mutex_);
  Entry* entry = EntryOf(node);
  if (entry == nullptr || entry->descriptor_plus_1.load(std::memory_order_relaxed) != 0) {
    return false;
  }
  entry->descriptor_plus_1.store(fd + 1, std::memory_order_release);
  return true;
}

bool NodeTable::Forget(uint64_t node, uint64_t lookups) {
  const std::lock_guard lock(mutex_);
  Entry* entry = EntryOf(node);
  if (entry == nullptr) return false;
  const uint64_t have = entry->lookups.load(std::memory_order_relaxed);
  if (lookups < have) {
    entry->lookups.store(have - lookups, std::memory_order_relaxed);
    return false;
  }
  const auto index = static_cast<uint32_t>(node);
  entry->word.store(Word(GenerationOf(node), kFree), std::memory_order_release);
  entry->descriptor_plus_1.store(0, std::memory_order_relaxed);
  Unlink(index);
  free_.push_back(index);
  --size_;
  return true;
}

void NodeTable::ForEach(const std::function<void(uint64_t)>& each) const {
  const uint32_t used = header_->used.load(std::memory_order_acquire);
  for (uint32_t index = 1; index < used; ++index) {
    if (StateOf(entries_[index].word.load(std::memory_order_acquire)) == kLive) {
      each(entries_[index].IdAt(index));
    }
  }
}

NodeHints* NodeTable::Hints(uint64_t node) const {
  if (node == kRootNode) return root_hints_;
  Entry* entry = EntryOf(node);
  return entry == nullptr ? nullptr : &entry->hints;
}

size_t NodeTable::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

}  // namespace weir::volume
