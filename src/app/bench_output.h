// What `weir bench` and `weir demo` share on the terminal and in files.
#pragma once

#include <string>

#include "base/result.h"
#include "base/time.h"

namespace weir::app {

// What the caller got wrong, rather than the machine: exit status 2 instead of 1.
[[nodiscard]] bool IsUsageError(ErrorCode code);

// A line on stderr that is drawn over again on a terminal; elsewhere a line for each step.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void Show(const std::string& what, double done);
  void Clear();

 private:
  const bool on_terminal_;
  std::string shown_;
  TimePoint drawn_{};
};

}  // namespace weir::app
