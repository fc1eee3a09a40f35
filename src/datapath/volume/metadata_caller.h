// Makes files in the name of a caller. Internal.
//
// The calling thread takes the caller's file-system uid and gid, so that the backing file system
// gives new files their owner, their group (of a setgid directory: the directory's) and counts
// quotas; and the caller's umask, which the backing ignores where a default ACL rules. All
// capabilities stay effective: what the caller may do was checked by the kernel at the mount
// (default_permissions); another check here, without the caller's supplementary groups, would
// refuse what is allowed.
//
// Nothing is undone: with all capabilities effective it does not matter to other operations whose
// ids the thread has, and a thread that works for one caller changes its ids once.
//
// Threads: each has its own ids and, from the first call on, its own umask *and current
// directory* (unshare(CLONE_FS)).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "datapath/volume/request.h"

namespace weir::volume {

// 0 or a negative errno: EINVAL (an id that no user has), EPERM (the thread lacks capabilities).
[[nodiscard]] int BecomeCaller(const Caller& caller, mode_t umask);

}  // namespace weir::volume
