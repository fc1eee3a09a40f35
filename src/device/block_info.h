// What the kernel knows of the block device behind a path. Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weir::device {

struct BlockInfo {
  std::string name;         // of the whole disk: "nvme0n1"; empty = not on a block device
  std::string model;        // "Samsung SSD 980", "virtio", ...; may be empty
  std::string major_minor;  // of the whole disk: "259:0"
  bool rotational = false;
  int64_t bytes = 0;  // of the whole disk

  // "nvme0n1 (Samsung SSD 980, 931.5 GiB)"; empty = unknown.
  [[nodiscard]] std::string Describe() const;
};

// The disk on which `path` lies, or which it is. An empty name where the file system has none that
// the kernel tells of (tmpfs, network, overlay). Errors: kIo: `path` cannot be looked at.
[[nodiscard]] Result<BlockInfo> FindBlockDevice(const std::string& path);

// What of this block device or its partitions is in use: "mounted at /srv", "used as swap", "part
// of dm-0". Empty = nothing that this process can see (opening with O_EXCL finds the rest).
[[nodiscard]] std::string UseOfBlockDevice(const std::string& path);

}  // namespace weir::device
