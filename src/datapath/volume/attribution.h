// Which group an I/O request of a volume is charged to. The contract between the data path, which
// asks once a request, and the rules (attribution_by_rules.h).
//
// Threads: the engine's owner, all.
#pragma once

#include <cstdint>
#include <string>

#include "core/request.h"
#include "datapath/volume/request.h"

namespace weir::volume {

// Where a node lies in the volume, for rules with a path. Implemented by the file system.
class NodePaths {
 public:
  virtual ~NodePaths() = default;
  // The path relative to the volume's root, without a leading '/' ("db/t1.ibd"; "" is the root
  // itself). False: unknown, unlinked. Cost: at most one readlink(2); never blocks on the disk.
  [[nodiscard]] virtual bool PathOf(uint64_t node, std::string* path) = 0;
};

class Attribution {
 public:
  virtual ~Attribution() = default;

  // The leaf to charge; always one that exists (between two changes of the plan, which happen on
  // the owner thread too). `node` 0: none. Cost: two hash lookups; the first request of a thread
  // reads /proc/TID.
  [[nodiscard]] virtual core::GroupId GroupOf(const Caller& caller, uint64_t node) = 0;

  // `node` was opened or created, or its path may have changed: rules with a path look anew.
  virtual void Opened(uint64_t node) { static_cast<void>(node); }
  // `caller` wrote to `node` or opened it for writing: pages that the kernel writes later by
  // itself (pid 0) are charged to the same group.
  virtual void Wrote(const Caller& caller, uint64_t node) {
    static_cast<void>(caller);
    static_cast<void>(node);
  }
  // The kernel forgot `node`; what is known of it can go.
  virtual void Forgotten(uint64_t node) { static_cast<void>(node); }
};

}  // namespace weir::volume
