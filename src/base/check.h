// WEIR_CHECK aborts on a broken invariant of ours. Never for what a client, a file or the kernel
// can influence: those are Results.
#pragma once

namespace weir {

[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace weir

#define WEIR_CHECK(expression)                        \
  (__builtin_expect(static_cast<bool>(expression), 1) \
       ? static_cast<void>(0)                         \
       : ::weir::CheckFailed(#expression, __FILE__, __LINE__))
