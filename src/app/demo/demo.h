// `weir demo`: the isolation experiments of the OceanBase article, live on a scratch file.
#pragma once

#include <string>

#include "base/result.h"

namespace weir::app::demo {

struct DemoOptions {
  std::string directory = ".";
  std::string html = "weir-demo.html";
  double seconds_scale = 1;  // of all runs, kMinSecondsScale .. 1
};

inline constexpr double kMinSecondsScale = 0.02;

// The exit status: 0 every promise held, 1 one was missed, 128 + signal after a signal. Errors:
// those of BenchFile, Calibrate and Session; kIo (the page).
[[nodiscard]] Result<int> RunDemo(const DemoOptions& options);

}  // namespace weir::app::demo
