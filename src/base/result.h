// Errors are values. A message says what was attempted, on what, why it failed and what to do.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace weir {

enum class ErrorCode {
  kInvalidArgument,     // a value that can never be right (bad unit, MIN above MAX, unknown key)
  kNotFound,            // the named thing does not exist
  kAlreadyExists,       // the name is taken
  kFailedPrecondition,  // right in another state (group still has children, engine stopped)
  kResourceExhausted,   // a named maximum was reached
  kDeadlineExceeded,    // the deadline passed, or the predicted wait is longer than it
  kCancelled,           // cancelled by the caller
  kUnavailable,         // try again later
  kIo,                  // the kernel said no; sys_errno tells what
  kInternal,
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  int sys_errno = 0;  // the kernel's errno where one was the cause, else 0
};

template <typename T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> Fail(ErrorCode code, std::string message,
                                                int sys_errno = 0) {
  return tl::unexpected<Error>(Error{code, std::move(message), sys_errno});
}

// "invalid argument", "not found", ... for logs and JSON.
[[nodiscard]] const char* ErrorCodeName(ErrorCode code);

}  // namespace weir
