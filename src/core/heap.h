// A 4-ary array heap of (key, node) pairs whose nodes know their positions.
//
// Among binary, 4-ary, 8-ary and pairing heaps none was faster beyond the noise; this one has no
// pointers to chase and is the simplest to check. Keys are compared by signed difference, so keys
// that wrap around are ordered right as long as the live ones span less than 2^63.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::core {

// Signed difference of two wrapping counters.
inline int64_t WrapDiff(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// NodeT has an array `heap_pos[]`; `slot` says which element belongs to this heap. A node is at
// most once in a heap. Reserve() before use in the data path: Push never allocates within it.
template <typename NodeT>
class IndexedHeap {
 public:
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] size_t size() const { return entries_.size(); }
  [[nodiscard]] int64_t top_key() const { return entries_[0].key; }
  [[nodiscard]] NodeT* top() const { return entries_[0].node; }
  [[nodiscard]] int64_t key_at(uint32_t i) const { return entries_[i].key; }
  [[nodiscard]] NodeT* node_at(uint32_t i) const { return entries_[i].node; }

  void Reserve(size_t n) {
    if (n > entries_.capacity())
      entries_.reserve(n < 2 * entries_.capacity() ? 2 * entries_.capacity() : n);
  }
  void Push(NodeT* node, int64_t key, int slot) {
    entries_.push_back({key, node});
    SiftUp(static_cast<uint32_t>(entries_.size() - 1), slot);
  }
  void Erase(NodeT* node, int slot) {
    const uint32_t i = node->heap_pos[slot];
    const Entry last = entries_.back();
    entries_.pop_back();
    if (i >= entries_.size()) return;
    const bool up = WrapDiff(last.key, entries_[i].key) < 0;
    entries_[i] = last;
    if (up) {
      SiftUp(i, slot);
    } else {
      SiftDown(i, slot);
    }
  }
  void Update(NodeT* node, int64_t key, int slot) {
    const uint32_t i = node->heap_pos[slot];
    const int64_t change = WrapDiff(key, entries_[i].key);
    if (change == 0) return;
    entries_[i].key = key;
    if (change < 0) {
      SiftUp(i, slot);
    } else {
      SiftDown(i, slot);
    }
  }

 private:
  struct Entry {
    int64_t key;
    NodeT* node;
  };
  static constexpr uint32_t kArity = 4;

  void Place(uint32_t i, const Entry& entry, int slot) {
    entries_[i] = entry;
    entry.node->heap_pos[slot] = i;
  }
  void SiftUp(uint32_t i, int slot) {
    const Entry entry = entries_[i];
    while (i != 0) {
      const uint32_t parent = (i - 1) / kArity;
      if (WrapDiff(entries_[parent].key, entry.key) <= 0) break;
      Place(i, entries_[parent], slot);
      i = parent;
    }
    Place(i, entry, slot);
  }
  void SiftDown(uint32_t i, int slot) {
    const Entry entry = entries_[i];
    const uint32_t n = static_cast<uint32_t>(entries_.size());
    for (;;) {
      const uint32_t first = i * kArity + 1;
      if (first >= n) break;
      const uint32_t end = first + kArity < n ? first + kArity : n;
      uint32_t smallest = first;
      for (uint32_t j = first + 1; j < end; ++j) {
        if (WrapDiff(entries_[j].key, entries_[smallest].key) < 0) smallest = j;
      }
      if (WrapDiff(entries_[smallest].key, entry.key) >= 0) break;
      Place(i, entries_[smallest], slot);
      i = smallest;
    }
    Place(i, entry, slot);
  }

  std::vector<Entry> entries_;
};

}  // namespace weir::core
