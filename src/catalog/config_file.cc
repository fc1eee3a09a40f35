// The one edge of the catalog's parsing: reads weir.toml from the file system.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "catalog/config.h"

namespace weir::catalog {
namespace {

tl::unexpected<Error> CannotRead(const std::string& path, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Fail(code, fmt::format("{}: cannot be read: {}", path, std::strerror(error)), error);
}

}  // namespace

Result<Config> ReadConfigFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotRead(path, errno);
  // One byte more than allowed, so that ParseConfig sees that it is too much.
  std::string text;
  char buffer[64 * 1024];
  while (text.size() <= kMaxFileBytes) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      ::close(fd);
      return CannotRead(path, error);
    }
    if (got == 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  ::close(fd);
  return ParseConfig(text, path);
}

}  // namespace weir::catalog
