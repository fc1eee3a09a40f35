#include "datapath/volume/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace weir::volume {

namespace {

// What the names after the fixed part may be.
enum class Names : uint8_t {
  kNone,
  kEntry,        // one directory entry
  kTwoEntries,   // RENAME
  kEntryTarget,  // SYMLINK
  kAttribute,    // of an extended attribute
  kAny,          // TMPFILE names nothing in particular
};

struct Shape {
  std::string_view name;
  uint16_t fixed = 0;
  Names names = Names::kNone;
};

constexpr std::array<Shape, abi::kMostOpcodes> MakeShapes() {
  std::array<Shape, abi::kMostOpcodes> shapes{};
  shapes[FUSE_LOOKUP] = {"LOOKUP", 0, Names::kEntry};
  shapes[FUSE_FORGET] = {"FORGET", sizeof(fuse_forget_in)};
  shapes[FUSE_GETATTR] = {"GETATTR", sizeof(fuse_getattr_in)};
  shapes[FUSE_SETATTR] = {"SETATTR", sizeof(fuse_setattr_in)};
  shapes[FUSE_READLINK] = {"READLINK", 0};
  shapes[FUSE_SYMLINK] = {"SYMLINK", 0, Names::kEntryTarget};
  shapes[FUSE_MKNOD] = {"MKNOD", sizeof(fuse_mknod_in), Names::kEntry};
  shapes[FUSE_MKDIR] = {"MKDIR", sizeof(fuse_mkdir_in), Names::kEntry};
  shapes[FUSE_UNLINK] = {"UNLINK", 0, Names::kEntry};
  shapes[FUSE_RMDIR] = {"RMDIR", 0, Names::kEntry};
  shapes[FUSE_RENAME] = {"RENAME", sizeof(fuse_rename_in), Names::kTwoEntries};
  shapes[FUSE_LINK] = {"LINK", sizeof(fuse_link_in), Names::kEntry};
  shapes[FUSE_OPEN] = {"OPEN", sizeof(fuse_open_in)};
  shapes[FUSE_READ] = {"READ", sizeof(fuse_read_in)};
  shapes[FUSE_WRITE] = {"WRITE", sizeof(fuse_write_in)};
  shapes[FUSE_STATFS] = {"STATFS", 0};
  shapes[FUSE_RELEASE] = {"RELEASE", sizeof(fuse_release_in)};
  shapes[FUSE_FSYNC] = {"FSYNC", sizeof(fuse_fsync_in)};
  shapes[FUSE_SETXATTR] = {"SETXATTR", sizeof(fuse_setxattr_in), Names::kAttribute};
  shapes[FUSE_GETXATTR] = {"GETXATTR", sizeof(fuse_getxattr_in), Names::kAttribute};
  shapes[FUSE_LISTXATTR] = {"LISTXATTR", sizeof(fuse_getxattr_in)};
  shapes[FUSE_REMOVEXATTR] = {"REMOVEXATTR", 0, Names::kAttribute};
  shapes[FUSE_FLUSH] = {"FLUSH", sizeof(fuse_flush_in)};
  shapes[FUSE_INIT] = {"INIT", 16};
  shapes[FUSE_OPENDIR] = {"OPENDIR", sizeof(fuse_open_in)};
  shapes[FUSE_READDIR] = {"READDIR", sizeof(fuse_read_in)};
  shapes[FUSE_RELEASEDIR] = {"RELEASEDIR", sizeof(fuse_release_in)};
  shapes[FUSE_FSYNCDIR] = {"FSYNCDIR", sizeof(fuse_fsync_in)};
  shapes[FUSE_GETLK] = {"GETLK", sizeof(fuse_lk_in)};
  shapes[FUSE_SETLK] = {"SETLK", sizeof(fuse_lk_in)};
  shapes[FUSE_SETLKW] = {"SETLKW", sizeof(fuse_lk_in)};
  shapes[FUSE_ACCESS] = {"ACCESS", sizeof(fuse_access_in)};
  shapes[FUSE_CREATE] = {"CREATE", sizeof(fuse_create_in), Names::kEntry};
  shapes[FUSE_INTERRUPT] = {"INTERRUPT", sizeof(fuse_interrupt_in)};
  shapes[FUSE_BMAP] = {"BMAP", sizeof(fuse_bmap_in)};
  shapes[FUSE_DESTROY] = {"DESTROY", 0};
  shapes[FUSE_IOCTL] = {"IOCTL", sizeof(fuse_ioctl_in)};
  shapes[FUSE_POLL] = {"POLL", sizeof(fuse_poll_in)};
  shapes[FUSE_BATCH_FORGET] = {"BATCH_FORGET", sizeof(fuse_batch_forget_in)};
  shapes[FUSE_FALLOCATE] = {"FALLOCATE", sizeof(fuse_fallocate_in)};
  shapes[FUSE_READDIRPLUS] = {"READDIRPLUS", sizeof(fuse_read_in)};
  shapes[FUSE_RENAME2] = {"RENAME2", sizeof(fuse_rename2_in), Names::kTwoEntries};
  shapes[FUSE_LSEEK] = {"LSEEK", sizeof(fuse_lseek_in)};
  shapes[FUSE_COPY_FILE_RANGE] = {"COPY_FILE_RANGE", sizeof(fuse_copy_file_range_in)};
  shapes[FUSE_SYNCFS] = {"SYNCFS", sizeof(fuse_syncfs_in)};
  shapes[FUSE_TMPFILE] = {"TMPFILE", sizeof(fuse_create_in), Names::kAny};
  shapes[abi::kStatx] = {"STATX", 24};
  shapes[abi::kCopyFileRange64] = {"COPY_FILE_RANGE_64", sizeof(fuse_copy_file_range_in)};
  return shapes;
}

constexpr std::array<Shape, abi::kMostOpcodes> kShapes = MakeShapes();

const Shape* ShapeOf(uint32_t opcode) {
  if (opcode >= kShapes.size() || kShapes[opcode].name.empty()) return nullptr;
  return &kShapes[opcode];
}

// Takes a NUL-terminated name off `rest`. False: there is none.
bool TakeName(std::span<const std::byte>* rest, std::string_view* name) {
  const auto end = std::find(rest->begin(), rest->end(), std::byte{0});
  if (end == rest->end()) return false;
  const auto length = static_cast<size_t>(end - rest->begin());
  *name = {reinterpret_cast<const char*>(rest->data()), length};
  *rest = rest->subspan(length + 1);
  return true;
}

// A name that could lead elsewhere than to one entry of its directory never gets further.
int CheckEntry(std::string_view name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string_view::npos) {
    return -EINVAL;
  }
  return name.size() > kMaxNameBytes ? -ENAMETOOLONG : 0;
}

int CheckNames(Names names, std::span<const std::byte> rest) {
  std::string_view name;
  if (names == Names::kNone) return 0;
  if (!TakeName(&rest, &name)) return -EINVAL;
  switch (names) {
    case Names::kNone:
    case Names::kAny:
      return 0;
    case Names::kAttribute:
      if (name.empty()) return -EINVAL;
      return name.size() > kMaxNameBytes ? -ERANGE : 0;
    case Names::kEntry:
      return CheckEntry(name);
    case Names::kTwoEntries:
      if (const int error = CheckEntry(name); error != 0) return error;
      return TakeName(&rest, &name) ? CheckEntry(name) : -EINVAL;
    case Names::kEntryTarget:
      if (const int error = CheckEntry(name); error != 0) return error;
      if (!TakeName(&rest, &name) || name.empty()) return -EINVAL;
      return name.size() > kMaxLinkTargetBytes ? -ENAMETOOLONG : 0;
  }
  return -EINVAL;
}

// Sizes that the fixed part gives must agree with what is there.
int CheckSizes(const Request& request) {
  switch (request.opcode) {
    case FUSE_READ:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
      return FixedAs<fuse_read_in>(request).size <= kMaxTransferBytes ? 0 : -EINVAL;
    case FUSE_WRITE: {
      const auto in = FixedAs<fuse_write_in>(request);
      if (in.size > kMaxTransferBytes || in.size > request.rest.size()) return -EINVAL;
      return in.offset <= static_cast<uint64_t>(INT64_MAX) - in.size ? 0 : -EINVAL;
    }
    case FUSE_SETXATTR: {
      const auto in = FixedAs<fuse_setxattr_in>(request);
      const size_t before = NameAt(request, 0).size() + 1;
      if (in.size > kMaxXattrBytes) return -E2BIG;
      return in.size <= request.rest.size() - before ? 0 : -EINVAL;
    }
    case FUSE_BATCH_FORGET: {
      const auto in = FixedAs<fuse_batch_forget_in>(request);
      return in.count <= request.rest.size() / sizeof(fuse_forget_one) ? 0 : -EINVAL;
    }
    case FUSE_IOCTL:
      return FixedAs<fuse_ioctl_in>(request).in_size <= request.rest.size() ? 0 : -EINVAL;
    default:
      return 0;
  }
}

}  // namespace

std::string_view OpcodeName(uint32_t opcode) {
  const Shape* shape = ShapeOf(opcode);
  return shape == nullptr ? std::string_view("UNKNOWN") : shape->name;
}

size_t FixedBytes(uint32_t opcode) {
  const Shape* shape = ShapeOf(opcode);
  return shape == nullptr ? 0 : shape->fixed;
}

Decoded Decode(std::span<const std::byte> header, std::span<const std::byte> fixed,
               std::span<const std::byte> rest) {
  Decoded decoded;
  if (header.size() < sizeof(fuse_in_header)) {
    decoded.error = -EBADMSG;
    return decoded;
  }
  fuse_in_header in{};
  std::memcpy(&in, header.data(), sizeof(in));
  Request& request = decoded.request;
  request.unique = in.unique;
  request.node = in.nodeid;
  request.opcode = in.opcode;
  request.caller = Caller{.uid = in.uid, .gid = in.gid, .pid = in.pid};
  request.resent = (in.unique & abi::kUniqueResend) != 0;
  const Shape* shape = ShapeOf(in.opcode);
  if (shape == nullptr) {
    decoded.error = -ENOSYS;
    return decoded;
  }
  if (fixed.size() < shape->fixed) {
    decoded.error = -EINVAL;
    return decoded;
  }
  request.fixed = fixed.first(shape->fixed);
  request.rest = rest;
  decoded.error = CheckNames(shape->names, rest);
  if (decoded.error == 0) decoded.error = CheckSizes(request);
  return decoded;
}

Decoded Decode(std::span<const std::byte> message) {
  constexpr size_t kHeader = sizeof(fuse_in_header);
  if (message.size() < kHeader) return Decode(message, {}, {});
  fuse_in_header in{};
  std::memcpy(&in, message.data(), sizeof(in));
  const size_t fixed = std::min(FixedBytes(in.opcode), message.size() - kHeader);
  Decoded decoded = Decode(message.first(kHeader), message.subspan(kHeader, fixed),
                           message.subspan(kHeader + fixed));
  if (decoded.error == 0 && in.len != message.size()) decoded.error = -EINVAL;
  return decoded;
}

std::string_view NameAt(const Request& request, int index) {
  std::span<const std::byte> rest = request.rest;
  std::string_view name;
  for (int i = 0; i <= index; ++i) {
    if (!TakeName(&rest, &name)) return {};
  }
  return name;
}

Result<InitResult> NegotiateInit(std::span<const std::byte> message, const InitChoice& choice,
                                 InitAnswer* answer) {
  constexpr uint32_t kOldestMinor = 31;
  constexpr uint32_t kNewestMinor = 42;
  const Decoded decoded = Decode(message);
  const Request& request = decoded.request;
  if (decoded.error != 0 || request.opcode != FUSE_INIT) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot start the volume: the kernel's first message is {}, not INIT",
                            OpcodeName(request.opcode)));
  }
  fuse_init_in in{};
  std::memcpy(&in, request.fixed.data(), request.fixed.size());
  // The rest of the structure, with flags2, follows what every kernel sends.
  std::memcpy(reinterpret_cast<std::byte*>(&in) + request.fixed.size(), request.rest.data(),
              std::min(request.rest.size(), sizeof(in) - request.fixed.size()));
  if (in.major != FUSE_KERNEL_VERSION || in.minor < kOldestMinor) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot start the volume: the kernel speaks FUSE {}.{}; 7.{} (Linux "
                            "5.4) or later is needed",
                            in.major, in.minor, kOldestMinor));
  }
  const bool extended = (in.flags & FUSE_INIT_EXT) != 0;
  const uint64_t offered = in.flags | (extended ? static_cast<uint64_t>(in.flags2) << 32 : 0);
  uint64_t wanted = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES |
                    FUSE_PARALLEL_DIROPS | FUSE_INIT_EXT | FUSE_ATOMIC_O_TRUNC |
                    FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_HANDLE_KILLPRIV_V2 |
                    FUSE_POSIX_ACL | FUSE_DONT_MASK | FUSE_SETXATTR_EXT | FUSE_CACHE_SYMLINKS |
                    abi::kDirectIoAllowMmap | abi::kHasResend;
  if (choice.over_io_uring) wanted |= abi::kOverIoUring;
  const uint64_t agreed = offered & wanted;

  InitResult result;
  result.flags = agreed;
  result.minor = std::min(in.minor, kNewestMinor);
  *answer = InitAnswer{};
  answer->header = AnswerHeader(request.unique, sizeof(fuse_init_out));
  fuse_init_out& out = answer->init;
  out.major = FUSE_KERNEL_VERSION;
  out.minor = result.minor;
  out.max_readahead = in.max_readahead;
  out.flags = static_cast<uint32_t>(agreed);
  out.flags2 = static_cast<uint32_t>(agreed >> 32);
  out.max_background = static_cast<uint16_t>(std::min<uint32_t>(choice.max_background, UINT16_MAX));
  out.congestion_threshold = out.max_background;
  out.max_write = kMaxTransferBytes;
  out.max_pages = kMaxTransferBytes / 4096;
  out.time_gran = 1;
  return result;
}

fuse_out_header AnswerHeader(uint64_t unique, Answer answer) {
  fuse_out_header header{};
  header.unique = unique;
  header.error = std::min(answer, 0);
  header.len = static_cast<uint32_t>(sizeof(header)) + static_cast<uint32_t>(std::max(answer, 0));
  return header;
}

fuse_out_header ResendMessage() {
  fuse_out_header header{};
  header.len = sizeof(header);
  header.error = abi::kNotifyResend;
  return header;
}

}  // namespace weir::volume
