// Extended attributes, POSIX ACLs among them. Calls on O_PATH descriptors take no descriptor, so
// they go by /proc/self/fd; which leads to a symbolic link itself, not where it points.
#include <sys/xattr.h>

#include <algorithm>
#include <vector>

#include "datapath/volume/file_system_impl.h"

namespace weir::volume {

namespace {

constexpr std::string_view kAccessAcl = "system.posix_acl_access";
constexpr std::string_view kAclPrefix = "system.posix_acl_";
constexpr std::string_view kTrustedPrefix = "trusted.";

bool Exists(const NodeRef& node, const char* name) {
  return getxattr(ProcPath(node.get()).c_str(), name, nullptr, 0) >= 0;
}

// An answer of `bytes` bytes at `value`, or their number when the caller asks for size 0.
Answer SizedAnswer(const char* value, size_t bytes, uint32_t asked, std::span<std::byte> out) {
  if (asked == 0) {
    return WriteAnswer(out, fuse_getxattr_out{.size = static_cast<uint32_t>(bytes), .padding = 0});
  }
  if (bytes > asked || bytes > out.size()) return -ERANGE;
  std::copy_n(reinterpret_cast<const std::byte*>(value), bytes, out.begin());
  return static_cast<Answer>(bytes);
}

}  // namespace

Answer FileSystem::Impl::SetXattr(const Request& request, std::span<std::byte> out) {
  fuse_setxattr_in in{};
  // Without FUSE_SETXATTR_EXT the structure is shorter.
  const size_t fixed = std::min(request.fixed.size(), sizeof(in));
  if (fixed < FUSE_COMPAT_SETXATTR_IN_SIZE) return -EINVAL;
  std::memcpy(&in, request.fixed.data(), fixed);
  std::span<const std::byte> rest = request.rest;
  const char* name = TakeText(&rest);
  if (name == nullptr || in.size > rest.size()) return -EINVAL;
  NodeRef node;
  if (const int error = Resolve(request.node, &node); error != 0) return error;
  const ProcPath path(node.get());
  const auto run = [&](bool done) -> Answer {
    if (!done &&
        setxattr(path.c_str(), name, rest.data(), in.size, static_cast<int>(in.flags)) != 0) {
      return -errno;
    }
    const bool drop = (in.setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID) != 0 && name == kAccessAcl;
    struct stat status {};
    if (!drop || fstat(node.get(), &status) != 0 || (status.st_mode & S_ISGID) == 0) return 0;
    return chmod(path.c_str(), status.st_mode & 07777 & ~static_cast<mode_t>(S_ISGID)) == 0
               ? 0
               : -errno;
  };
  if ((in.flags & XATTR_CREATE) == 0) return run(false);
  return Once(
      request, out, [&](Before* before) { before->first = Exists(node, name) ? 1 : 0; },
      [&](const Before& before) { return before.first == 0 && Exists(node, name); }, run);
}

Answer FileSystem::Impl::RemoveXattr(const Request& request, std::span<std::byte> out) {
  std::span<const std::byte> rest = request.rest;
  const char* name = TakeText(&rest);
  if (name == nullptr) return -EINVAL;
  NodeRef node;
  if (const int error = Resolve(request.node, &node); error != 0) return error;
  return Once(
      request, out, [&](Before* before) { before->first = Exists(node, name) ? 1 : 0; },
      [&](const Before& before) { return before.first != 0 && !Exists(node, name); },
      [&](bool done) -> Answer {
        return done || removexattr(ProcPath(node.get()).c_str(), name) == 0 ? 0 : -errno;
      });
}

Answer FileSystem::Impl::GetXattr(const Request& request, std::span<std::byte> out) {
  fuse_getxattr_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  std::span<const std::byte> rest = request.rest;
  const char* name = TakeText(&rest);
  if (name == nullptr) return -EINVAL;
  NodeRef node;
  if (const int error = Resolve(request.node, &node); error != 0) return error;
  const size_t room = std::min<size_t>(in.size, out.size());
  const ssize_t bytes = getxattr(ProcPath(node.get()).c_str(), name, out.data(), room);
  if (bytes < 0) {
    // A backing without ACLs has none; the kernel takes any other error for a refusal of access.
    const bool acl = std::string_view(name).starts_with(kAclPrefix);
    return acl && errno == EOPNOTSUPP ? -ENODATA : -errno;
  }
  if (in.size != 0) return static_cast<Answer>(bytes);
  return SizedAnswer(nullptr, static_cast<size_t>(bytes), 0, out);
}

Answer FileSystem::Impl::ListXattr(const Request& request, std::span<std::byte> out) {
  fuse_getxattr_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  NodeRef node;
  if (const int error = Resolve(request.node, &node); error != 0) return error;
  std::vector<char> names(XATTR_LIST_MAX);
  const ssize_t bytes = listxattr(ProcPath(node.get()).c_str(), names.data(), names.size());
  if (bytes < 0) return -errno;
  // trusted.* is root's to see; the backing showed them because this process is.
  size_t used = 0;
  for (size_t at = 0; at < static_cast<size_t>(bytes);) {
    const size_t length = std::strlen(names.data() + at) + 1;
    const bool hidden =
        request.caller.uid != 0 && std::string_view(names.data() + at).starts_with(kTrustedPrefix);
    if (!hidden) {
      std::memmove(names.data() + used, names.data() + at, length);
      used += length;
    }
    at += length;
  }
  return SizedAnswer(names.data(), used, in.size, out);
}

}  // namespace weir::volume
