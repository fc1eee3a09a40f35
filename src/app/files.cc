#include "app/files.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace weir::app {
namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

tl::unexpected<Error> FailOn(const char* what, const std::string& path, int error) {
  return Fail(ErrorCode::kIo, fmt::format("cannot {} {}: {}", what, path, std::strerror(error)),
              error);
}

}  // namespace

Result<std::string> ReadTextFile(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return FailOn("open", path, errno);
  std::string text;
  char buffer[64 * 1024];
  size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) {
    text.append(buffer, count);
    if (text.size() > kMaxInputBytes) {
      return Fail(
          ErrorCode::kResourceExhausted,
          fmt::format("cannot read {}: it is larger than {} MiB", path, kMaxInputBytes >> 20));
    }
  }
  if (std::ferror(file.get()) != 0) return FailOn("read", path, errno);
  return text;
}

Result<void> WriteTextFile(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (std::fflush(stdout) != 0) return FailOn("write", "standard output", errno);
    return {};
  }
  File file(std::fopen(path.c_str(), "wbe"));
  if (!file) return FailOn("create", path, errno);
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size()) {
    return FailOn("write", path, errno);
  }
  // A full disk may show only when the last bytes are written out.
  if (std::fclose(file.release()) != 0) return FailOn("write", path, errno);
  return {};
}

scenario::TableStyle TerminalStyle() {
  scenario::TableStyle style;
  if (isatty(STDOUT_FILENO) == 0) return style;
  struct winsize size {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.columns = size.ws_col;
  style.color = std::getenv("NO_COLOR") == nullptr;
  return style;
}

}  // namespace weir::app
