#include "app/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/text.h"

namespace weir::app {
namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

constexpr int kMaxLinks = 40;  // followed, as the kernel does
constexpr int kMaxTemporaryNames = 100;

tl::unexpected<Error> FailOn(const char* what, const std::string& path, int error) {
  return Fail(ErrorCode::kIo, fmt::format("cannot {} {}: {}", what, path, std::strerror(error)),
              error);
}

Result<void> Write(std::FILE* file, const std::string& path, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) {
    return FailOn("write", path, errno);
  }
  // A full disk may show only when the last bytes are written out.
  if (std::fflush(file) != 0) return FailOn("write", path, errno);
  return {};
}

// Through symbolic links: what they lead to is written, they stay.
std::filesystem::path Resolved(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path target = path;
  for (int links = 0; links < kMaxLinks && std::filesystem::is_symlink(target, ignored); ++links) {
    const std::filesystem::path next = std::filesystem::read_symlink(target, ignored);
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return target;
}

// A new file in `directory` with the permissions of any new file. -1 with errno.
int OpenTemporary(const std::string& directory, std::string* name) {
  for (int i = 0; i < kMaxTemporaryNames; ++i) {
    *name = fmt::format("{}/.weir-{}-{}.tmp", directory, ::getpid(), i);
    const int fd = ::open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

Result<void> WriteInPlace(const std::string& path, const std::string& text) {
  const File file(std::fopen(path.c_str(), "wbe"));
  return file ? Write(file.get(), path, text) : FailOn("open", path, errno);
}

// `old`: of the file that is there, or nullptr.
Result<void> Replace(const std::string& path, const std::filesystem::path& target,
                     const struct stat* old, const std::string& text) {
  std::string temporary;
  const int fd = OpenTemporary(DirectoryOf(target.string()), &temporary);
  // In a directory where nothing can be made an existing file may still be written.
  if (fd < 0) return old != nullptr ? WriteInPlace(path, text) : FailOn("create", path, errno);
  File file(::fdopen(fd, "wb"));
  Result<void> done = file ? Write(file.get(), path, text) : FailOn("write", path, errno);
  if (done && old != nullptr) {
    // Only root may give files away.
    [[maybe_unused]] const int owner_kept = ::fchown(fd, old->st_uid, old->st_gid);
    if (::fchmod(fd, old->st_mode & 07777) != 0) done = FailOn("write", path, errno);
  }
  file.reset();
  if (done && std::rename(temporary.c_str(), target.c_str()) == 0) return {};
  if (done) {
    // Its place cannot be taken (a mount point, a sticky directory): it may still be written.
    done = old != nullptr ? WriteInPlace(path, text) : FailOn("create", path, errno);
  }
  ::unlink(temporary.c_str());
  return done;
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

bool IsStandardOutput(const std::string& path) {
  if (path == "-") return true;
  struct stat named {};
  struct stat output {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &output) == 0 &&
         named.st_dev == output.st_dev && named.st_ino == output.st_ino;
}

Result<void> WriteTextFile(const std::string& path, const std::string& text) {
  if (IsStandardOutput(path)) return Write(stdout, "standard output", text);
  struct stat st {};
  const bool exists = ::stat(path.c_str(), &st) == 0;
  if (exists && !S_ISREG(st.st_mode)) return WriteInPlace(path, text);
  return Replace(path, Resolved(path), exists ? &st : nullptr, text);
}

Result<void> CheckWritable(const std::string& path) {
  if (path.empty() || IsStandardOutput(path)) return {};
  struct stat st {};
  if (::stat(path.c_str(), &st) == 0) {
    if (S_ISDIR(st.st_mode)) {
      return Fail(ErrorCode::kIo,
                  fmt::format("cannot write {}: it is a directory; give a file name", path),
                  EISDIR);
    }
    return ::access(path.c_str(), W_OK) == 0 ? Result<void>() : FailOn("write", path, errno);
  }
  if (errno != ENOENT) return FailOn("write", path, errno);
  const std::filesystem::path target = Resolved(path);
  if (target.filename().empty()) {
    return Fail(ErrorCode::kIo, fmt::format("cannot write {}: it lacks a file name", path), ENOENT);
  }
  const std::string directory = DirectoryOf(target.string());
  struct stat parent {};
  if (::stat(directory.c_str(), &parent) == 0 && !S_ISDIR(parent.st_mode)) {
    return FailOn("write", path, ENOTDIR);
  }
  if (::access(directory.c_str(), W_OK | X_OK) == 0) return {};
  return Fail(ErrorCode::kIo,
              fmt::format("cannot write {}: {}: {}; give a file in a directory that can be written",
                          path, directory, std::strerror(errno)),
              errno);
}

bool IsSameFile(const std::string& a, const std::string& b) {
  if (IsStandardOutput(a) && IsStandardOutput(b)) return true;
  if (a == "-" || b == "-") return false;
  struct stat first {};
  struct stat second {};
  const bool a_exists = ::stat(a.c_str(), &first) == 0;
  const bool b_exists = ::stat(b.c_str(), &second) == 0;
  if (a_exists != b_exists) return false;
  if (a_exists) return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  std::error_code failed;
  const auto resolved_a = std::filesystem::weakly_canonical(Resolved(a), failed);
  if (failed) return false;
  const auto resolved_b = std::filesystem::weakly_canonical(Resolved(b), failed);
  return !failed && resolved_a == resolved_b;
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
