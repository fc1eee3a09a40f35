// A Unix socket that answers one JSON object a line. What the lines mean is the handler's.
//
// Threads: one of its own; the handler is called on it, for one request at a time.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/protocol.h"

namespace weir::control {

// Named maxima.
inline constexpr size_t kMaxClients = 64;
inline constexpr size_t kMaxBufferedBytes = 64 * 1024 * 1024;  // of unfinished lines, all together

class Handler {
 public:
  virtual ~Handler() = default;
  // The result as JSON, or an error for the client. Must not throw.
  [[nodiscard]] virtual Result<std::string> Handle(const Request& request) = 0;
};

struct ServerOptions {
  std::string path;            // of the socket; its directory is made (0755) if it is missing
  Handler* handler = nullptr;  // not owned; outlives the server
  // The process may have descriptors of a predecessor that died (it shares its table of them with
  // a supervisor): those of this socket are closed first.
  bool take_over = false;
};

class Server {
 public:
  // The socket has mode 0600; only root and the user of this process may connect. A socket that a
  // process that died left behind is replaced. Errors: kFailedPrecondition: another process
  // listens there, or the path is no socket; kInvalidArgument: the path is too long; kIo.
  [[nodiscard]] static Result<std::unique_ptr<Server>> Start(ServerOptions options);
  // Ends all connections and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] const std::string& path() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Answers one request with the handler: what the server does with a line.
[[nodiscard]] std::string AnswerLine(std::string_view line, Handler* handler);

}  // namespace weir::control
