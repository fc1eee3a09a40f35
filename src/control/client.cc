#include "control/client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "control/protocol.h"

namespace weir::control {
namespace {

constexpr size_t kMaxAnswerBytes = 256 * 1024 * 1024;

int MillisecondsUntil(TimePoint end) {
  const Duration left = end - MonotonicNow();
  return static_cast<int>(std::clamp<int64_t>(left.count() / 1'000'000 + 1, 0, 1'000'000));
}

}  // namespace

Result<Client> Client::Connect(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("socket {}: a path has 1 to {} bytes",
                                                         path, sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return Fail(ErrorCode::kIo, fmt::format("no socket: {}", std::strerror(errno)), errno);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return Client(fd, path);
  }
  const int error = errno;
  ::close(fd);
  switch (error) {
    case ENOENT:
      return Fail(ErrorCode::kNotFound,
                  fmt::format("socket {}: there is none; is `weir volume` running? --socket names "
                              "another",
                              path),
                  error);
    case ECONNREFUSED:
      return Fail(
          ErrorCode::kUnavailable,
          fmt::format("socket {}: nobody listens; the daemon has ended, start it again", path),
          error);
    case EACCES:
    case EPERM:
      return Fail(
          ErrorCode::kFailedPrecondition,
          fmt::format("socket {}: only root and the user of the daemon may use it; try sudo", path),
          error);
    default:
      return Fail(ErrorCode::kIo, fmt::format("socket {}: {}", path, std::strerror(error)), error);
  }
}

Client::~Client() {
  if (fd_ >= 0) ::close(fd_);
}
Client::Client(Client&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      in_(std::move(other.in_)),
      next_id_(other.next_id_) {}
Client& Client::operator=(Client&& other) noexcept {
  std::swap(fd_, other.fd_);
  path_.swap(other.path_);
  in_.swap(other.in_);
  std::swap(next_id_, other.next_id_);
  return *this;
}

Result<std::string> Client::Call(std::string_view op, std::string_view args, Duration patience) {
  const TimePoint end = MonotonicNow() + patience;
  const auto gone = [&](std::string_view why) {
    return Fail(ErrorCode::kUnavailable, fmt::format("socket {}: {}", path_, why));
  };
  const std::string request = RequestLine(next_id_++, op, args);
  size_t sent = 0;
  while (true) {
    const bool sending = sent < request.size();
    pollfd watch = {fd_, static_cast<short>(sending ? POLLOUT | POLLIN : POLLIN), 0};
    const int ready = ::poll(&watch, 1, MillisecondsUntil(end));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      return Fail(
          ErrorCode::kDeadlineExceeded,
          fmt::format("socket {}: no answer to {} in {:.0f} s", path_, op, ToSeconds(patience)));
    }
    if ((watch.revents & POLLOUT) != 0 && sending) {
      const ssize_t n =
          ::send(fd_, request.data() + sent, request.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN && errno != EINTR) return gone("the daemon has ended");
      if (n > 0) sent += static_cast<size_t>(n);
    }
    if ((watch.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    char buffer[64 * 1024];
    const ssize_t got = ::recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return gone("the daemon has ended");
    const size_t before = in_.size();
    in_.append(buffer, static_cast<size_t>(got));
    const size_t line = in_.find('\n', before);
    if (line == std::string::npos) {
      if (in_.size() > kMaxAnswerBytes) return gone("the answer does not end");
      continue;
    }
    Result<std::string> answer = ParseAnswer(std::string_view(in_).substr(0, line));
    in_.erase(0, line + 1);
    return answer;
  }
}

Result<std::string> FindSocket(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator files(directory, error);
  for (const auto end = std::filesystem::directory_iterator(); !error && files != end;
       files.increment(error)) {
    std::error_code ignored;
    if (files->is_socket(ignored)) found.push_back(files->path().string());
  }
  // What daemons that were killed left behind does not count.
  if (found.size() > 1) {
    std::erase_if(found, [](const std::string& path) {
      const Result<Client> client = Client::Connect(path);
      return !client && client.error().code == ErrorCode::kUnavailable;
    });
  }
  std::sort(found.begin(), found.end());
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return Fail(
        ErrorCode::kNotFound,
        fmt::format("there is no socket in {}; is `weir volume` running? --socket names one "
                    "elsewhere",
                    directory));
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("there are {} sockets; choose one with --socket: {}", found.size(),
                          JoinNames(found)));
}

}  // namespace weir::control
