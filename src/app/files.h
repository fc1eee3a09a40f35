// Files and the terminal, as the subcommands need them.
#pragma once

#include <string>

#include "base/result.h"
#include "scenario/report.h"

namespace weir::app {

inline constexpr size_t kMaxInputBytes = 16 * 1024 * 1024;

// Errors: kIo with the errno; kResourceExhausted above kMaxInputBytes.
[[nodiscard]] Result<std::string> ReadTextFile(const std::string& path);
// Replaces the file; "-" is standard output. Errors: kIo.
[[nodiscard]] Result<void> WriteTextFile(const std::string& path, const std::string& text);

// The width of standard output if it is a terminal, else 100; colours only there and if NO_COLOR is
// not set.
[[nodiscard]] scenario::TableStyle TerminalStyle();

}  // namespace weir::app
