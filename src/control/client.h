// Calls a control socket. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace weir::control {

// Where sockets are looked for when none is named.
inline constexpr std::string_view kSocketDirectory = "/run/weir";

class Client {
 public:
  // Errors: kNotFound: no socket there; kUnavailable: nobody listens; kFailedPrecondition: not
  // allowed; kIo. The message says what to do.
  [[nodiscard]] static Result<Client> Connect(const std::string& path);
  ~Client();
  Client(Client&& other) noexcept;
  Client& operator=(Client&& other) noexcept;

  // Waits for the answer, at most `patience`. `args` is a JSON object; the result is JSON. Errors:
  // those that the other side answers; kDeadlineExceeded, kUnavailable (it is gone), kIo.
  [[nodiscard]] Result<std::string> Call(std::string_view op, std::string_view args,
                                         Duration patience = std::chrono::seconds(30));

 private:
  explicit Client(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::string path_;
  std::string in_;
  uint64_t next_id_ = 1;
};

// The only socket in `directory`. Errors: kNotFound: none, the message says what to start;
// kInvalidArgument: several, the message names them.
[[nodiscard]] Result<std::string> FindSocket(const std::string& directory);

}  // namespace weir::control
