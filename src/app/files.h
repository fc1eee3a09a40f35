// Files and the terminal, as the subcommands need them.
#pragma once

#include <string>

#include "base/result.h"
#include "scenario/report.h"

namespace weir::app {

inline constexpr size_t kMaxInputBytes = 16 * 1024 * 1024;

// Errors: kIo with the errno; kResourceExhausted above kMaxInputBytes.
[[nodiscard]] Result<std::string> ReadTextFile(const std::string& path);
// Replaces the file as a whole, by a new one that takes its name: when writing fails, what was
// there before stays. Pipes, terminals and devices are written as they are, and so is an existing
// file whose place cannot be taken (its directory is not writable). Errors: kIo.
[[nodiscard]] Result<void> WriteTextFile(const std::string& path, const std::string& text);

// Checks before a long run that WriteTextFile will find its place. An empty name is fine. Errors:
// kIo.
[[nodiscard]] Result<void> CheckWritable(const std::string& path);

// "-", and whatever leads there: /dev/stdout, the file it was redirected to.
[[nodiscard]] bool IsStandardOutput(const std::string& path);
// Whether two names lead to one file, be it there or not.
[[nodiscard]] bool IsSameFile(const std::string& a, const std::string& b);

// The width of standard output if it is a terminal, else 100; colours only there and if NO_COLOR is
// not set.
[[nodiscard]] scenario::TableStyle TerminalStyle();

}  // namespace weir::app
