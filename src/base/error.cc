#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "base/result.h"

namespace weir {

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kAlreadyExists:
      return "already exists";
    case ErrorCode::kFailedPrecondition:
      return "failed precondition";
    case ErrorCode::kResourceExhausted:
      return "resource exhausted";
    case ErrorCode::kDeadlineExceeded:
      return "deadline exceeded";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kIo:
      return "I/O error";
    case ErrorCode::kInternal:
      return "internal error";
  }
  return "unknown error";
}

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "weir: broken invariant: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace weir
