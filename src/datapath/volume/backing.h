// What the transports and the data path need of the file system behind a volume.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "datapath/volume/request.h"

namespace weir::volume {

// An open file of the volume. The descriptors stay open until its RELEASE, which the kernel sends
// after everything else on the file was answered.
struct DataFile {
  int buffered_fd = -1;
  int direct_fd = -1;  // the same file with O_DIRECT; -1: the file system cannot
  uint64_t node = 0;
  uint32_t open_flags = 0;
};

class Backing {
 public:
  virtual ~Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // Any opcode but READ, WRITE, FSYNC, INIT, DESTROY, INTERRUPT, POLL. May block. Threads: any,
  // concurrently. For FORGET and BATCH_FORGET the result is not sent.
  virtual Answer Handle(const Request& request, std::span<std::byte> out) = 0;

  // The open file `fh`, or nothing. Threads: the engine's owner; never blocks for long.
  [[nodiscard]] virtual std::optional<DataFile> File(uint64_t fh) const = 0;

 protected:
  Backing() = default;
};

}  // namespace weir::volume
