#include "datapath/volume/metadata_caller.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace weir::volume {

namespace {

constexpr uint32_t kNobodyAtAll = UINT32_MAX;  // "unchanged" to setfsuid: never an owner

struct ThreadIdentity {
  bool own_fs = false;  // umask and current directory are this thread's own
  uint32_t uid = kNobodyAtAll;
  uint32_t gid = kNobodyAtAll;
  mode_t umask = 0;
};

// Leaving uid 0 takes the file capabilities away; take them back.
int RaiseCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) return -errno;
  for (__user_cap_data_struct& set : sets) set.effective = set.permitted;
  return syscall(SYS_capset, &header, sets.data()) != 0 ? -errno : 0;
}

int SetFsId(long call, uint32_t id) {
  syscall(call, id);
  // The call reports no errors; asking with an impossible id tells the one in force.
  return static_cast<uint32_t>(syscall(call, kNobodyAtAll)) == id ? 0 : -EPERM;
}

}  // namespace

int BecomeCaller(const Caller& caller, mode_t mask) {
  thread_local ThreadIdentity identity;
  if (caller.uid == kNobodyAtAll || caller.gid == kNobodyAtAll) return -EINVAL;
  if (!identity.own_fs) {
    if (unshare(CLONE_FS) != 0) return -errno;
    identity.own_fs = true;
    identity.umask = mask & 0777;
    umask(identity.umask);
  }
  if (identity.umask != (mask & 0777)) {
    identity.umask = mask & 0777;
    umask(identity.umask);
  }
  if (identity.gid != caller.gid) {
    identity.gid = kNobodyAtAll;
    if (const int error = SetFsId(SYS_setfsgid, caller.gid); error != 0) return error;
    identity.gid = caller.gid;
  }
  if (identity.uid != caller.uid) {
    identity.uid = kNobodyAtAll;
    if (const int error = SetFsId(SYS_setfsuid, caller.uid); error != 0) return error;
    if (const int error = RaiseCapabilities(); error != 0) return error;
    identity.uid = caller.uid;
  }
  return 0;
}

}  // namespace weir::volume
