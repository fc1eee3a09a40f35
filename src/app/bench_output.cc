#include "app/bench_output.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/monotonic_clock.h"

namespace weir::app {

namespace {

constexpr Duration kRedraw = std::chrono::milliseconds(80);

tl::unexpected<Error> CannotWrite(const std::string& file, const std::string& why, int error) {
  return Fail(ErrorCode::kIo, fmt::format("cannot write {}: {}", file, why), error);
}

std::string DirectoryOf(const std::string& file) {
  const std::string parent = std::filesystem::path(file).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

Result<void> CheckWritable(const std::string& file) {
  if (file.empty() || file == "-") return {};
  struct stat st {};
  if (::stat(file.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
    return CannotWrite(file, "it is a directory; give a file name", EISDIR);
  }
  const std::string directory = DirectoryOf(file);
  if (::access(directory.c_str(), W_OK) == 0) return {};
  return CannotWrite(file, fmt::format("{}: {}", directory, std::strerror(errno)), errno);
}

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
