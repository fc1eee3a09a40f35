#include "core/line_arena.h"

#include <algorithm>
#include <new>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define WEIR_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef WEIR_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace weir::core {

namespace {

// A piece of the largest size starts at a multiple of it, so that one huge page can back it.
constexpr size_t kFirstPiece = size_t{16} << 10;
constexpr size_t kLargestPiece = size_t{2} << 20;

size_t AlignmentOf(size_t bytes) { return bytes == kLargestPiece ? kLargestPiece : kLineBytes; }

// What nobody may touch is a fault under AddressSanitizer, as it would be with the heap.
void Forbid([[maybe_unused]] void* from, [[maybe_unused]] size_t bytes) {
#ifdef WEIR_ADDRESS_SANITIZER
  __asan_poison_memory_region(from, bytes);
#endif
}
void Allow([[maybe_unused]] void* from, [[maybe_unused]] size_t bytes) {
#ifdef WEIR_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(from, bytes);
#endif
}

}  // namespace

LineArena::~LineArena() {
  for (const Piece& piece : pieces_) {
    Allow(piece.memory, piece.bytes);
    ::operator delete (piece.memory, std::align_val_t{AlignmentOf(piece.bytes)});
  }
}

// What is left of the piece before is less than a run, and stays unused.
void LineArena::Grow() {
  const size_t bytes =
      pieces_.empty() ? kFirstPiece : std::min(2 * pieces_.back().bytes, kLargestPiece);
  pieces_.reserve(pieces_.size() + 1);
  next_ = static_cast<char*>(::operator new (bytes, std::align_val_t{AlignmentOf(bytes)}));
  end_ = next_ + bytes;
  pieces_.push_back({next_, bytes});
  Forbid(next_, bytes);
}

void* LineArena::Take(size_t lines) {
  WEIR_CHECK(lines != 0 && lines <= kMaxLines);
  const size_t bytes = lines * kLineBytes;
  if (Free* run = free_[lines]; run != nullptr) {
    free_[lines] = run->next;
    Allow(run, bytes);
    return run;
  }
  if (static_cast<size_t>(end_ - next_) < bytes) Grow();
  char* run = next_;
  next_ += bytes;
  Allow(run, bytes);
  return run;
}

void LineArena::GiveBack(void* run, size_t lines) {
  WEIR_CHECK(lines != 0 && lines <= kMaxLines);
  free_[lines] = ::new (run) Free{free_[lines]};
  Forbid(static_cast<char*>(run) + sizeof(Free), lines * kLineBytes - sizeof(Free));
}

}  // namespace weir::core
