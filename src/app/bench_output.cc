#include "app/bench_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/monotonic_clock.h"

namespace weir::app {

namespace {

constexpr Duration kRedraw = std::chrono::milliseconds(80);

}  // namespace

bool IsUsageError(ErrorCode code) {
  return code == ErrorCode::kInvalidArgument || code == ErrorCode::kNotFound ||
         code == ErrorCode::kFailedPrecondition;
}

ProgressLine::ProgressLine() : on_terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::Show(const std::string& what, double done) {
  if (!on_terminal_) {
    if (what == shown_) return;
    shown_ = what;
    fmt::print(stderr, "{}\n", what);
    return;
  }
  const TimePoint now = MonotonicNow();
  if (now - drawn_ < kRedraw && what == shown_) return;
  shown_ = what;
  drawn_ = now;
  fmt::print(stderr, "\r{:3.0f} %  {:.70}\x1b[K", done * 100, what);
  std::fflush(stderr);
}

void ProgressLine::Clear() {
  if (on_terminal_ && drawn_ != TimePoint{}) {
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }
  drawn_ = TimePoint{};
}

}  // namespace weir::app
