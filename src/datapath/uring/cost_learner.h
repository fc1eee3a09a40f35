// Collects the windows from which core::CostModel corrects itself. Internal. Threads: the owner.
#pragma once

#include <optional>

#include "base/time.h"
#include "core/cost_model.h"

namespace weir::uring {

class CostLearner {
 public:
  explicit CostLearner(bool enabled) : enabled_(enabled) {}

  // A transfer completed; `full`: the device has been kept full.
  void Record(Direction direction, int64_t bytes, int64_t cost, bool full) {
    if (!enabled_) return;
    window_.Add(direction, bytes, cost);
    ++completions_;
    if (!full) ++idle_completions_;
  }

  // A window that has become long enough, if the device was full nearly all the time in it.
  [[nodiscard]] std::optional<core::CostModel::Window> TakeWindow(TimePoint now) {
    if (!enabled_ || now - started_ < kLength) return std::nullopt;
    std::optional<core::CostModel::Window> full;
    // A window that nothing ended in time belongs to a load that comes and goes.
    if (completions_ >= kMinCompletions && idle_completions_ <= completions_ / kIdleShare &&
        now - started_ < 2 * kLength) {
      window_.elapsed_ns = (now - started_).count();
      full = window_;
    }
    window_ = core::CostModel::Window{};
    completions_ = 0;
    idle_completions_ = 0;
    started_ = now;
    return full;
  }

 private:
  static constexpr Duration kLength = std::chrono::milliseconds(100);
  static constexpr uint64_t kMinCompletions = 32;
  static constexpr uint64_t kIdleShare = 20;  // at most one completion in so many

  const bool enabled_;
  core::CostModel::Window window_;
  TimePoint started_{};
  uint64_t completions_ = 0;
  uint64_t idle_completions_ = 0;
};

}  // namespace weir::uring
