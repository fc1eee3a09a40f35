#include "control/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

namespace weir::control {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kReadBytes = 64 * 1024;
constexpr auto kNoDescriptorsPause = std::chrono::milliseconds(100);

tl::unexpected<Error> Cannot(std::string_view what, const std::string& path, int error) {
  return Fail(ErrorCode::kIo,
              fmt::format("control socket {}: {}: {}", path, what, std::strerror(error)), error);
}

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("control socket {}: a path has 1 to {} bytes", path,
                            sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Removes what a process that died left there.
Result<void> MakeRoom(const std::string& path, const sockaddr_un& address) {
  struct stat st = {};
  if (::lstat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) return {};
    return Cannot("cannot be looked at", path, errno);
  }
  if (!S_ISSOCK(st.st_mode)) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("control socket {}: there is a file of this name; remove it", path));
  }
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return Cannot("no socket", path, errno);
  const int connected =
      ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  ::close(probe);
  if (connected == 0 || error == EAGAIN) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("control socket {}: another process listens there; stop it or choose "
                            "another path",
                            path));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return Cannot("cannot be removed", path, errno);
  return {};
}

// A listener and the connections it accepted all have the listener's name.
void CloseNamed(const std::string& path) {
  std::error_code error;
  std::vector<int> named;
  std::filesystem::directory_iterator entries("/proc/self/fd", error);
  for (const auto end = std::filesystem::directory_iterator(); !error && entries != end;
       entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    sockaddr_un address = {};
    socklen_t size = sizeof address;
    if (fd < 0 || ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    if (address.sun_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path)) continue;
    if (path == std::string(address.sun_path,
                            ::strnlen(address.sun_path, size - offsetof(sockaddr_un, sun_path)))) {
      named.push_back(fd);
    }
  }
  for (const int fd : named) ::close(fd);
}

Result<int> Listen(const std::string& path, bool take_over) {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address) return tl::unexpected(address.error());
  if (take_over) CloseNamed(path);
  std::error_code made;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, made);
  if (Result<void> room = MakeRoom(path, *address); !room) {
    return tl::unexpected(std::move(room.error()));
  }
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Cannot("no socket", path, errno);
  // The mode of the socket's file is that of the descriptor, so it is never more open than this.
  if (::fchmod(fd, 0600) != 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    ::close(fd);
    return Cannot("cannot listen", path, error);
  }
  return fd;
}

struct Client {
  int fd = -1;
  std::string in;
  std::string out;
  size_t sent = 0;
  bool ending = false;  // close once `out` is sent
  bool reading = true;  // what poll is asked for
  size_t searched = 0;  // of `in`, without '\n'
};

}  // namespace

std::string AnswerLine(std::string_view line, Handler* handler) {
  std::string id;
  Result<Request> request = ParseRequest(line, &id);
  if (!request) return ErrorLine(id, request.error());
  Result<std::string> result = handler->Handle(*request);
  if (!result) return ErrorLine(request->id, result.error());
  return OkLine(request->id, *result);
}

// poll(2), not epoll: there are few clients, and a process that dies while its descriptors live on
// leaves nothing behind but sockets with the name of this one.
struct Server::Impl {
  ServerOptions options;
  int listener = -1;
  ino_t inode = 0;  // of the socket's file
  std::map<int, Client> clients;
  size_t buffered = 0;
  std::atomic<bool> stopping{false};
  std::thread thread;

  ~Impl() {
    stopping = true;
    if (listener >= 0) ::shutdown(listener, SHUT_RDWR);  // wakes the thread
    if (thread.joinable()) thread.join();
    for (auto& [fd, client] : clients) ::close(fd);
    // Not if somebody has put another there.
    struct stat st = {};
    if (listener >= 0 && ::lstat(options.path.c_str(), &st) == 0 && st.st_ino == inode) {
      ::unlink(options.path.c_str());
    }
    if (listener >= 0) ::close(listener);
  }

  Result<void> Open() {
    const Result<int> listening = Listen(options.path, options.take_over);
    if (!listening) return tl::unexpected(listening.error());
    listener = *listening;
    struct stat st = {};
    if (::lstat(options.path.c_str(), &st) == 0) inode = st.st_ino;
    return {};
  }

  void Run() {
    std::vector<pollfd> watched;
    while (!stopping) {
      watched.clear();
      // Beyond the maximum, connections wait in the kernel's queue.
      const short accept = clients.size() < kMaxClients ? POLLIN : 0;
      watched.push_back({listener, accept, 0});
      for (const auto& [fd, client] : clients) {
        watched.push_back({fd, static_cast<short>(client.reading ? POLLIN : POLLOUT), 0});
      }
      if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return;
      for (const pollfd& ready : watched) {
        if (ready.revents == 0 || stopping) continue;
        if (ready.fd == listener) {
          Accept();
          continue;
        }
        const auto client = clients.find(ready.fd);
        if (client != clients.end() && !Serve(&client->second, ready.revents)) Drop(ready.fd);
      }
    }
  }

  void Accept() {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // No descriptors left: what is waiting would wake us at once again.
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(kNoDescriptorsPause);
      return;
    }
    ucred peer = {};
    socklen_t size = sizeof peer;
    const bool known = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    Client client;
    client.fd = fd;
    if (!known || (peer.uid != 0 && peer.uid != ::geteuid())) {
      client.out =
          ErrorLine("null", {ErrorCode::kFailedPrecondition,
                             "only root and the user of the daemon may use this socket", EACCES});
      client.ending = true;
    }
    Client& kept = clients[fd] = std::move(client);
    if (!Flush(&kept)) Drop(fd);
  }

  void Drop(int fd) {
    const auto client = clients.find(fd);
    buffered -= client->second.in.size();
    clients.erase(client);
    ::close(fd);
  }

  // False: the connection is to end.
  bool Serve(Client* client, int events) {
    if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0 && (events & POLLIN) == 0) return false;
    if ((events & POLLOUT) != 0) {
      if (!Flush(client)) return false;
      if (!AnswerAll(client)) return false;
    }
    if ((events & POLLIN) == 0 || !client->reading) return true;
    char buffer[kReadBytes];
    const ssize_t got = ::read(client->fd, buffer, sizeof buffer);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    client->in.append(buffer, static_cast<size_t>(got));
    buffered += static_cast<size_t>(got);
    return AnswerAll(client);
  }

  // Answers what is there, one line after the other, while the client takes the answers.
  bool AnswerAll(Client* client) {
    while (client->out.empty() && !client->ending) {
      const size_t end = client->in.find('\n', client->searched);
      if (end == std::string::npos) {
        client->searched = client->in.size();
        break;
      }
      const std::string line = client->in.substr(0, end);
      client->in.erase(0, end + 1);
      client->searched = 0;
      buffered -= end + 1;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      client->out = AnswerLine(line, options.handler);
      if (!Flush(client)) return false;
    }
    if (client->ending || (client->searched <= kMaxLineBytes && buffered <= kMaxBufferedBytes)) {
      return true;
    }
    client->out = ErrorLine("null", {ErrorCode::kResourceExhausted,
                                     fmt::format("a request is at most {} bytes, unfinished ones "
                                                 "of all clients {}",
                                                 kMaxLineBytes, kMaxBufferedBytes),
                                     0});
    client->ending = true;
    return Flush(client);
  }

  // Sends what the client takes; asks for the rest of its requests only when it took all.
  bool Flush(Client* client) {
    while (client->sent < client->out.size()) {
      const ssize_t sent = ::send(client->fd, client->out.data() + client->sent,
                                  client->out.size() - client->sent, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) break;
      if (sent < 0) return false;
      client->sent += static_cast<size_t>(sent);
    }
    const bool all = client->sent == client->out.size();
    if (all) {
      client->out = {};
      client->sent = 0;
      if (client->ending) return false;
    }
    client->reading = all;
    return true;
  }
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  if (Result<void> opened = impl->Open(); !opened) return tl::unexpected(std::move(opened.error()));
  Impl* running = impl.get();
  impl->thread = std::thread([running] { running->Run(); });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const std::string& Server::path() const { return impl_->options.path; }

}  // namespace weir::control
