// Operations on directory entries.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>

#include "datapath/volume/file_system_impl.h"
#include "datapath/volume/metadata_caller.h"

namespace weir::volume {

namespace {

// The kernel's form of a device number on this protocol.
dev_t DeviceOf(uint32_t encoded) {
  return makedev((encoded & 0xfff00) >> 8, (encoded & 0xff) | ((encoded >> 12) & 0xfff00));
}

}  // namespace

Answer FileSystem::Impl::Lookup(const Request& request, std::span<std::byte> out) {
  std::span<const std::byte> rest = request.rest;
  int error = 0;
  const char* name = TakeName(&rest, &error);
  if (name == nullptr) return error;
  if (out.size() < sizeof(fuse_entry_out)) return -EINVAL;
  NodeRef parent;
  if (error = ResolveDirectory(request.node, &parent); error != 0) return error;
  fuse_entry_out entry{};
  error = EntryOf(parent.get(), name, &entry);
  if (error == -ENOENT && options.absences_valid_ns > 0) {
    // No node: the name does not exist, and the kernel may remember it.
    entry.entry_valid = static_cast<uint64_t>(options.absences_valid_ns) / 1'000'000'000;
    entry.entry_valid_nsec =
        static_cast<uint32_t>(static_cast<uint64_t>(options.absences_valid_ns) % 1'000'000'000);
    return WriteAnswer(out, entry);
  }
  return error != 0 ? error : WriteAnswer(out, entry);
}

Answer FileSystem::Impl::Readlink(const Request& request, std::span<std::byte> out) {
  NodeRef node;
  if (const int error = Resolve(request.node, &node); error != 0) return error;
  if (node.type != S_IFLNK) return -EINVAL;
  const ssize_t bytes = readlinkat(node.get(), "", reinterpret_cast<char*>(out.data()), out.size());
  return bytes < 0 ? -errno : static_cast<Answer>(bytes);
}

// What MKNOD, MKDIR, SYMLINK and LINK have in common: `make(directory, name)` gives a name that
// did not exist to something; the answer is the entry.
template <typename Make>
Answer FileSystem::Impl::MakeEntry(const Request& request, std::span<std::byte> out,
                                   const char* name, uint64_t inode, Make&& make) {
  NodeRef parent;
  if (const int error = ResolveDirectory(request.node, &parent); error != 0) return error;
  if (out.size() < sizeof(fuse_entry_out)) return -EINVAL;
  return Once(
      request, out, [&](Before* before) { before->first = InodeAt(parent.get(), name); },
      [&](const Before& before) {
        const uint64_t now = InodeAt(parent.get(), name);
        return before.first == 0 && now != 0 && (inode == 0 || now == inode);
      },
      [&](bool done) -> Answer {
        if (!done && make(parent.get(), name) != 0) return -errno;
        fuse_entry_out entry{};
        const int error = EntryOf(parent.get(), name, &entry);
        return error != 0 ? error : WriteAnswer(out, entry);
      });
}

Answer FileSystem::Impl::Symlink(const Request& request, std::span<std::byte> out) {
  std::span<const std::byte> rest = request.rest;
  int error = 0;
  const char* name = TakeName(&rest, &error);
  if (name == nullptr) return error;
  const char* target = TakeText(&rest);
  if (target == nullptr || *target == '\0') return target == nullptr ? -EINVAL : -ENOENT;
  if (error = BecomeCaller(request.caller, 0); error != 0) return error;
  return MakeEntry(request, out, name, 0, [target](int directory, const char* entry) {
    return symlinkat(target, directory, entry);
  });
}

Answer FileSystem::Impl::Mknod(const Request& request, std::span<std::byte> out) {
  fuse_mknod_in in{};
  std::span<const std::byte> rest = request.rest;
  int error = 0;
  if (!ReadFixed(request, &in)) return -EINVAL;
  const char* name = TakeName(&rest, &error);
  if (name == nullptr) return error;
  if (error = BecomeCaller(request.caller, in.umask); error != 0) return error;
  return MakeEntry(request, out, name, 0, [&in](int directory, const char* entry) {
    return mknodat(directory, entry, in.mode, DeviceOf(in.rdev));
  });
}

Answer FileSystem::Impl::Mkdir(const Request& request, std::span<std::byte> out) {
  fuse_mkdir_in in{};
  std::span<const std::byte> rest = request.rest;
  int error = 0;
  if (!ReadFixed(request, &in)) return -EINVAL;
  const char* name = TakeName(&rest, &error);
  if (name == nullptr) return error;
  if (error = BecomeCaller(request.caller, in.umask); error != 0) return error;
  return MakeEntry(request, out, name, 0, [&in](int directory, const char* entry) {
    return mkdirat(directory, entry, in.mode & 07777);
  });
}

Answer FileSystem::Impl::Link(const Request& request, std::span<std::byte> out) {
  fuse_link_in in{};
  std::span<const std::byte> rest = request.rest;
  int error = 0;
  if (!ReadFixed(request, &in)) return -EINVAL;
  const char* name = TakeName(&rest, &error);
  if (name == nullptr) return error;
  NodeRef target;
  if (error = Resolve(in.oldnodeid, &target); error != 0) return error;
  const auto identity = nodes.Find(in.oldnodeid);
  if (!identity.has_value()) return in.oldnodeid == kRootNode ? -EPERM : -ESTALE;
  return MakeEntry(request, out, name, identity->inode, [&](int directory, const char* entry) {
    return linkat(target.get(), "", directory, entry, AT_EMPTY_PATH);
  });
}

Answer FileSystem::Impl::Remove(const Request& request, std::span<std::byte> out, int flags) {
  std::span<const std::byte> rest = request.rest;
  int error = 0;
  const char* name = TakeName(&rest, &error);
  if (name == nullptr) return error;
  NodeRef parent;
  if (error = ResolveDirectory(request.node, &parent); error != 0) return error;
  return Once(
      request, out, [&](Before* before) { before->first = InodeAt(parent.get(), name); },
      [&](const Before& before) {
        return before.first != 0 && InodeAt(parent.get(), name) != before.first;
      },
      [&](bool done) -> Answer {
        if (done) return 0;
        KeepReachable(parent.get(), name);
        return unlinkat(parent.get(), name, flags) == 0 ? 0 : -errno;
      });
}

Answer FileSystem::Impl::Rename(const Request& request, std::span<std::byte> out) {
  fuse_rename2_in in{};
  if (request.opcode == FUSE_RENAME2) {
    if (!ReadFixed(request, &in)) return -EINVAL;
  } else {
    fuse_rename_in plain{};
    if (!ReadFixed(request, &plain)) return -EINVAL;
    in.newdir = plain.newdir;
  }
  std::span<const std::byte> rest = request.rest;
  int error = 0;
  const char* old_name = TakeName(&rest, &error);
  if (old_name == nullptr) return error;
  const char* new_name = TakeName(&rest, &error);
  if (new_name == nullptr) return error;
  NodeRef from;
  NodeRef to;
  if (error = ResolveDirectory(request.node, &from); error != 0) return error;
  if (error = ResolveDirectory(in.newdir, &to); error != 0) return error;
  // A whiteout is made in the caller's name.
  if (error = BecomeCaller(request.caller, 0); error != 0) return error;
  return Once(
      request, out,
      [&](Before* before) {
        before->first = InodeAt(from.get(), old_name);
        before->second = InodeAt(to.get(), new_name);
      },
      [&](const Before& before) {
        // Two names of one file: nothing happens, however often.
        if (before.first == 0 || before.first == before.second) return false;
        return InodeAt(to.get(), new_name) == before.first &&
               InodeAt(from.get(), old_name) != before.first;
      },
      [&](bool done) -> Answer {
        if (done) return 0;
        if ((in.flags & RENAME_EXCHANGE) == 0) KeepReachable(to.get(), new_name);
        return renameat2(from.get(), old_name, to.get(), new_name, in.flags) == 0 ? 0 : -errno;
      });
}

Answer FileSystem::Impl::BatchForget(const Request& request) {
  fuse_batch_forget_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  const size_t count = std::min<size_t>(in.count, request.rest.size() / sizeof(fuse_forget_one));
  for (size_t i = 0; i < count; ++i) {
    fuse_forget_one one{};
    std::memcpy(&one, request.rest.data() + i * sizeof(one), sizeof(one));
    Forget(one.nodeid, one.nlookup);
  }
  return 0;
}

}  // namespace weir::volume
