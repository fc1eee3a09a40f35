// A closed loop of reads or writes on a Target through plain io_uring: what calibration measures
// with. Not the engine: no scheduling, one thread, one kind of request at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/resource_params.h"
#include "base/result.h"
#include "base/time.h"
#include "core/cost_model.h"
#include "device/target.h"

namespace weir::device {

inline constexpr int kMaxLoadDepth = 256;
inline constexpr int64_t kLoadBufferBytes = int64_t{32} << 20;  // of all outstanding requests

struct LoadKind {
  Direction direction = Direction::kRead;
  core::Access access = core::Access::kRandom;
  int64_t bytes = core::kReferenceBytes;
  friend bool operator==(const LoadKind&, const LoadKind&) = default;
};

// The most outstanding requests of this size that fit the buffers.
[[nodiscard]] int MaxDepth(int64_t bytes);

struct Slice {
  double iops = 0;
  double median_latency_ns = 0;  // at depth 1, else 0
  uint64_t completions = 0;
};

class LoadRing {
 public:
  // `target` and `cancel` (may be null) must outlive this. Errors: kUnavailable (no io_uring here),
  // kResourceExhausted (memory).
  [[nodiscard]] static Result<LoadRing> Open(const Target* target, const std::atomic<bool>* cancel);

  LoadRing(LoadRing&&) noexcept;
  LoadRing& operator=(LoadRing&&) noexcept;
  ~LoadRing();

  // From then on everything ends with kDeadlineExceeded, even with requests outstanding; after that
  // this can only be destroyed.
  void SetDeadline(TimePoint deadline);

  // Runs for `length`, longer (up to `at_most`) on a slow device until enough has completed. The
  // first fifth is not counted. All requests are back when it returns. Errors: kIo (names request
  // and errno; or the device does not answer), kCancelled, kDeadlineExceeded.
  // Requires: 1 <= depth <= MaxDepth(kind.bytes); bytes a multiple of 512, at most the target's.
  [[nodiscard]] Result<Slice> Run(const LoadKind& kind, int depth, Duration length,
                                  Duration at_most);

  // Writes the target from its start until `deadline`, and flushes. Returns how many bytes were
  // written: a multiple of kLayoutChunk, less than the target's if time ran out. Errors: as Run.
  static constexpr int64_t kLayoutChunk = int64_t{1} << 20;
  [[nodiscard]] Result<int64_t> LayOut(TimePoint deadline,
                                       const std::function<void(int64_t)>& on_progress);

 private:
  struct Impl;
  explicit LoadRing(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::device
