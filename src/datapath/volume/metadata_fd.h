// A file descriptor that closes itself, and one that several threads may hold. Internal.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

namespace weir::volume {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Whoever drops it last closes it, so that nobody uses a number that means another file by now.
using SharedFd = std::shared_ptr<Fd>;

}  // namespace weir::volume
