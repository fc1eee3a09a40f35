// The FUSE protocol: requests from bytes, INIT, answers to bytes.
//
// PURE: no system calls. Hostile bytes give an error, never a crash and never a span beyond them.
// Source: Linux's include/uapi/linux/fuse.h (7.38 to 7.45).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "datapath/volume/fuse_abi.h"
#include "datapath/volume/request.h"

namespace weir::volume {

inline constexpr uint32_t kMaxTransferBytes = 1u << 20;  // of one READ or WRITE
inline constexpr size_t kMaxNameBytes = 255;
inline constexpr size_t kMaxLinkTargetBytes = 4095;
inline constexpr size_t kMaxXattrBytes = 65'536;

// "LOOKUP", ...; "opcode 99" is "UNKNOWN".
[[nodiscard]] std::string_view OpcodeName(uint32_t opcode);
// Of the structure after the header; 0 for unknown opcodes.
[[nodiscard]] size_t FixedBytes(uint32_t opcode);

// What a message turned out to be. `request` has unique, opcode, node and caller whenever there
// was a header, so that an error can be answered.
struct Decoded {
  Request request;
  // 0; or a negative errno to answer: ENOSYS (unknown opcode), EINVAL (lengths, names),
  // ENAMETOOLONG. EBADMSG: not even a header, there is nothing to answer.
  int error = 0;
};

// A whole message as read(2) gives it.
[[nodiscard]] Decoded Decode(std::span<const std::byte> message);
// The three parts of a message as FUSE over io_uring gives them. `fixed` may be longer than the
// opcode's structure.
[[nodiscard]] Decoded Decode(std::span<const std::byte> header, std::span<const std::byte> fixed,
                             std::span<const std::byte> rest);

// The `index`th NUL-terminated name in Request::rest. Requires: decoded without an error, and
// index below the number of names of the opcode.
[[nodiscard]] std::string_view NameAt(const Request& request, int index);

// Copies the fixed part. Requires: decoded without an error, sizeof(T) <= fixed.size() - offset.
template <typename T>
[[nodiscard]] T FixedAs(const Request& request) {
  T value{};
  __builtin_memcpy(&value, request.fixed.data(), sizeof(T));
  return value;
}

// --- INIT. What is promised to the kernel here binds the file system:
// - no FUSE_POSIX_LOCKS and FUSE_FLOCK_LOCKS: the kernel keeps all locks itself;
// - FUSE_HANDLE_KILLPRIV_V2: setuid and setgid bits go on FUSE_WRITE_KILL_SUIDGID (the data path),
//   FATTR_KILL_SUIDGID, FUSE_OPEN_KILL_SUIDGID, and on chown;
// - FUSE_POSIX_ACL: system.posix_acl_* are ordinary extended attributes; the kernel checks them;
// - FUSE_SETXATTR_EXT: fuse_setxattr_in has all its 16 bytes;
// - FUSE_ATOMIC_O_TRUNC: OPEN and CREATE may carry O_TRUNC;
// - FUSE_DO_READDIRPLUS with READDIRPLUS_AUTO;
// - FUSE_DONT_MASK: the kernel does not apply the caller's umask but sends it along;
// - no FUSE_WRITEBACK_CACHE, no FUSE_EXPORT_SUPPORT ("." and ".." are never looked up).

struct InitChoice {
  bool over_io_uring = false;     // ask for FUSE over io_uring
  uint32_t max_background = 256;  // <= 65535
};

struct InitResult {
  uint64_t flags = 0;  // agreed
  uint32_t minor = 0;
  [[nodiscard]] bool can_resend() const { return (flags & abi::kHasResend) != 0; }
  [[nodiscard]] bool over_io_uring() const { return (flags & abi::kOverIoUring) != 0; }
};

struct InitAnswer {
  fuse_out_header header{};
  fuse_init_out init{};
};

// The answer to an INIT message. Errors: kInvalidArgument (not INIT, short); kUnavailable (a kernel
// whose protocol is older than 7.31, Linux 5.4).
[[nodiscard]] Result<InitResult> NegotiateInit(std::span<const std::byte> message,
                                               const InitChoice& choice, InitAnswer* answer);

// --- Answers.

// `answer` as FileSystem::Handle returns it: a payload's size or a negative errno.
[[nodiscard]] fuse_out_header AnswerHeader(uint64_t unique, Answer answer);
// Has the kernel deliver again what was read and not answered.
[[nodiscard]] fuse_out_header ResendMessage();

// Opcodes that the kernel wants no answer to.
[[nodiscard]] constexpr bool WantsNoAnswer(uint32_t opcode) {
  return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT;
}

}  // namespace weir::volume
