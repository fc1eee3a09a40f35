// The kernel's FUSE interface: <linux/fuse.h>, and what is newer than the oldest one that we build
// with (7.38). Internal.
#pragma once

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>

namespace weir::volume::abi {

// Opcodes.
inline constexpr uint32_t kStatx = 52;
inline constexpr uint32_t kCopyFileRange64 = 53;
inline constexpr uint32_t kMostOpcodes = 64;  // opcodes are below

// Flags of INIT, whole (`flags` has the lower half, `flags2` the upper).
inline constexpr uint64_t kDirectIoAllowMmap = uint64_t{1} << 36;
inline constexpr uint64_t kHasResend = uint64_t{1} << 39;
inline constexpr uint64_t kOverIoUring = uint64_t{1} << 41;

// Of fuse_in_header::unique: delivered before, to a reader that did not answer.
inline constexpr uint64_t kUniqueResend = uint64_t{1} << 63;
// Of fuse_out_header::error with unique 0: all unanswered requests are to be delivered again.
inline constexpr int32_t kNotifyResend = 7;

// FUSE over io_uring: one entry's headers, and the command.
struct UringEntryInOut {
  uint64_t flags;
  uint64_t commit_id;
  uint32_t payload_size;
  uint32_t padding;
  uint64_t reserved;
};
struct UringHeaders {
  std::byte in_out[128];  // fuse_in_header, then fuse_out_header
  std::byte op_in[128];   // the opcode's fixed part
  UringEntryInOut entry;
};
struct UringCommand {
  uint64_t flags;
  uint64_t commit_id;
  uint16_t queue;
  uint8_t padding[6];
};
static_assert(sizeof(UringHeaders) == 288 && sizeof(UringCommand) == 24);
inline constexpr uint32_t kUringRegister = 1;
inline constexpr uint32_t kUringCommitAndFetch = 2;

}  // namespace weir::volume::abi
