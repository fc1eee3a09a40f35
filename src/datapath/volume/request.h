// A FUSE request as a transport delivers it, and what an answer is. The contract between the
// transports, the file system (metadata) and the data path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::volume {

// Who made the call. `pid` is the id of the calling *thread*; 0 when the kernel writes on its own
// (dirty pages of a shared mapping).
struct Caller {
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t pid = 0;
};

// Decoded and checked: `fixed` has the full size of the opcode's structure, names in `rest` end
// with NUL. Both stay valid until the request is answered.
struct Request {
  uint64_t unique = 0;  // echoed in the answer, bit 63 included
  uint64_t node = 0;
  uint32_t opcode = 0;  // FUSE_LOOKUP, ... of <linux/fuse.h>
  Caller caller{};
  bool resent = false;  // delivered before to a daemon that died; may have been carried out
  std::span<const std::byte> fixed{};
  std::span<const std::byte> rest{};  // names, data to write, extensions
};

// Of FileSystem::Handle: >= 0: bytes of the answer's payload; < 0: a negative errno.
using Answer = int;

}  // namespace weir::volume
