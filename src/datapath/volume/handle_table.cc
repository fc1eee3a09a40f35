#include "datapath/volume/handle_table.h"

#include "base/check.h"

namespace weir::volume {

namespace {

// The state word: the generation above, these below. Zero (a fresh region) is free.
enum State : uint32_t { kFree = 0, kOpen = 1, kClosing = 2 };

constexpr uint64_t Word(uint32_t generation, State state) {
  return static_cast<uint64_t>(generation) << 32 | state;
}
constexpr uint32_t GenerationOf(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
constexpr State StateOf(uint64_t word) { return static_cast<State>(word & UINT32_MAX); }

// A handle is a generation and an entry's index + 1, so that 0 is none.
constexpr uint64_t HandleOf(uint64_t word, uint32_t index) {
  return static_cast<uint64_t>(GenerationOf(word)) << 32 | (index + 1);
}

}  // namespace

struct alignas(64) HandleTable::Header {
  std::atomic<uint32_t> used;  // entries below have been open at some time
};

struct alignas(64) HandleTable::Entry {
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> node;
  std::atomic<uint64_t> unique;
  std::atomic<int32_t> fd;
  std::atomic<int32_t> direct_fd;
  std::atomic<uint32_t> flags;
  std::atomic<uint32_t> answer_flags;
  std::atomic<uint32_t> directory;
};

size_t HandleTable::StateBytes() {
  static_assert(sizeof(Entry) == 64 && sizeof(Header) == 64);
  return sizeof(Entry) * (size_t{kMaxOpenFiles} + 1);
}

HandleTable::HandleTable(std::span<std::byte> region, uint32_t max_open)
    : max_open_(max_open),
      header_(reinterpret_cast<Header*>(region.data())),
      entries_(reinterpret_cast<Entry*>(region.data() + sizeof(Header))) {
  WEIR_CHECK(region.size() >= StateBytes() && max_open <= kMaxOpenFiles);
}

OpenFile HandleTable::Contents(const Entry& entry) {
  return OpenFile{.fd = entry.fd.load(std::memory_order_acquire),
                  .direct_fd = entry.direct_fd.load(std::memory_order_acquire),
                  .node = entry.node.load(std::memory_order_acquire),
                  .flags = entry.flags.load(std::memory_order_acquire),
                  .answer_flags = entry.answer_flags.load(std::memory_order_acquire),
                  .directory = entry.directory.load(std::memory_order_acquire) != 0};
}

void HandleTable::Recover(const std::function<bool(const OpenFile&)>& open) {
  uint32_t used = header_->used.load(std::memory_order_relaxed);
  if (used > kMaxOpenFiles) used = kMaxOpenFiles;
  for (uint32_t index = used; index-- > 0;) {
    Entry& entry = entries_[index];
    const uint64_t word = entry.word.load(std::memory_order_acquire);
    if (StateOf(word) == kOpen && open(Contents(entry))) {
      size_.fetch_add(1, std::memory_order_relaxed);
      opened_for_.emplace(entry.unique.load(std::memory_order_relaxed), HandleOf(word, index));
      continue;
    }
    entry.word.store(Word(GenerationOf(word), kFree), std::memory_order_release);
    free_.push_back(index);
  }
}

std::optional<uint64_t> HandleTable::Open(const OpenFile& file, uint64_t unique) {
  const std::lock_guard lock(mutex_);
  uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    index = header_->used.load(std::memory_order_relaxed);
    if (index >= max_open_) return std::nullopt;
    header_->used.store(index + 1, std::memory_order_release);
  }
  Entry& entry = entries_[index];
  const uint64_t word = Word(GenerationOf(entry.word.load(std::memory_order_relaxed)) + 1, kOpen);
  entry.node.store(file.node, std::memory_order_relaxed);
  entry.unique.store(unique, std::memory_order_relaxed);
  entry.fd.store(file.fd, std::memory_order_relaxed);
  entry.direct_fd.store(file.direct_fd, std::memory_order_relaxed);
  entry.flags.store(file.flags, std::memory_order_relaxed);
  entry.answer_flags.store(file.answer_flags, std::memory_order_relaxed);
  entry.directory.store(file.directory ? 1 : 0, std::memory_order_relaxed);
  entry.word.store(word, std::memory_order_release);
  size_.fetch_add(1, std::memory_order_relaxed);
  return HandleOf(word, index);
}

HandleTable::Entry* HandleTable::EntryOf(uint64_t handle) const {
  const auto number = static_cast<uint32_t>(handle);
  if (number == 0 || number > header_->used.load(std::memory_order_acquire)) return nullptr;
  return &entries_[number - 1];
}

std::optional<OpenFile> HandleTable::Find(uint64_t handle) const {
  const Entry* entry = EntryOf(handle);
  const uint64_t word = Word(GenerationOf(handle), kOpen);
  if (entry == nullptr || entry->word.load(std::memory_order_acquire) != word) return std::nullopt;
  const OpenFile file = Contents(*entry);
  // Closed and opened as another in between: then what was read may be a mixture. (Its loads
  // acquire, so this one comes after them.)
  if (entry->word.load(std::memory_order_relaxed) != word) return std::nullopt;
  return file;
}

std::optional<uint64_t> HandleTable::OpenedFor(uint64_t unique) const {
  const auto found = opened_for_.find(unique);
  if (found == opened_for_.end() || !Find(found->second).has_value()) return std::nullopt;
  return found->second;
}

std::optional<OpenFile> HandleTable::Close(uint64_t handle) {
  Entry* entry = EntryOf(handle);
  if (entry == nullptr) return std::nullopt;
  uint64_t word = Word(GenerationOf(handle), kOpen);
  if (!entry->word.compare_exchange_strong(word, Word(GenerationOf(handle), kClosing),
                                           std::memory_order_acq_rel)) {
    return std::nullopt;
  }
  size_.fetch_sub(1, std::memory_order_relaxed);
  return Contents(*entry);
}

void HandleTable::Reuse(uint64_t handle) {
  Entry* entry = EntryOf(handle);
  WEIR_CHECK(entry != nullptr);
  const std::lock_guard lock(mutex_);
  entry->word.store(Word(GenerationOf(handle), kFree), std::memory_order_release);
  free_.push_back(static_cast<uint32_t>(handle) - 1);
}

void HandleTable::ForEach(const std::function<void(uint64_t)>& each) const {
  const uint32_t used = header_->used.load(std::memory_order_acquire);
  for (uint32_t index = 0; index < used; ++index) {
    const uint64_t word = entries_[index].word.load(std::memory_order_acquire);
    if (StateOf(word) == kOpen) each(HandleOf(word, index));
  }
}

}  // namespace weir::volume
