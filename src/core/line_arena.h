// Memory for many small parts of one kind, side by side in large pieces. Private to the scheduler.
//
// Ten thousand groups do not fit into the caches, and neither do the addresses of their pages into
// those of the processor if each part lies wherever the heap had room. Packed, all nodes are on
// about a thousand pages instead of seven thousand.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace weir::core {

inline constexpr size_t kLineBytes = 64;

// Gives out runs of cache lines. A run that was given back is used again for one of the same
// length; memory goes back to the system with the arena. Runs no destructor.
class LineArena {
 public:
  static constexpr size_t kMaxLines = 16;  // of a run

  LineArena() = default;
  ~LineArena();
  LineArena(const LineArena&) = delete;
  LineArena& operator=(const LineArena&) = delete;

  // Aligned to a line, not initialised. Requires: 0 < lines <= kMaxLines. Allocates now and then.
  [[nodiscard]] void* Take(size_t lines);
  // Requires: `run` came from Take(lines). Never allocates.
  void GiveBack(void* run, size_t lines);

 private:
  struct Free {
    Free* next;
  };
  struct Piece {
    void* memory;
    size_t bytes;
  };
  void Grow();

  std::array<Free*, kMaxLines + 1> free_{};  // by length
  std::vector<Piece> pieces_;
  char* next_ = nullptr;  // what is left of the last piece
  char* end_ = nullptr;
};

}  // namespace weir::core
