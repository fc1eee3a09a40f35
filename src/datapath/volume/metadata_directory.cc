// Listing directories. Positions are the backing's own (getdents64), so that a listing goes on
// after the daemon was replaced.
#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "datapath/volume/file_system_impl.h"

namespace weir::volume {

namespace {

constexpr size_t kChunk = 32'768;
constexpr size_t kSmallestChunk = 1024;  // an entry takes at most 280 bytes

constexpr size_t Align8(size_t bytes) { return (bytes + 7) / 8 * 8; }

// struct linux_dirent64 without its flexible array.
struct RawEntry {
  uint64_t inode = 0;
  int64_t next = 0;
  uint16_t length = 0;
  uint8_t type = 0;
  const char* name = nullptr;
};
constexpr size_t kRawName = 19;

RawEntry EntryAt(const std::byte* at) {
  RawEntry entry;
  std::memcpy(&entry.inode, at, 8);
  std::memcpy(&entry.next, at + 8, 8);
  std::memcpy(&entry.length, at + 16, 2);
  std::memcpy(&entry.type, at + 18, 1);
  entry.name = reinterpret_cast<const char*>(at + kRawName);
  return entry;
}

bool IsDotOrDotDot(const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

fuse_dirent DirentOf(const RawEntry& entry, size_t name_bytes) {
  fuse_dirent dirent{};
  dirent.ino = entry.inode;
  dirent.off = static_cast<uint64_t>(entry.next);
  dirent.namelen = static_cast<uint32_t>(name_bytes);
  dirent.type = entry.type;
  return dirent;
}

}  // namespace

// A listing with attributes names nodes, each of which counts as looked up. One that cannot be
// entered or is gone has no node: the kernel looks it up when somebody asks.
void FileSystem::Impl::FillPlus(int directory, const char* name, uint64_t inode, uint8_t type,
                                fuse_entry_out* entry) {
  if (!IsDotOrDotDot(name) && EntryOf(directory, name, entry) == 0) return;
  *entry = fuse_entry_out{};
  entry->attr.ino = inode;
  entry->attr.mode = DTTOIF(type);
}

Answer FileSystem::Impl::ReadDirectory(const Request& request, std::span<std::byte> out,
                                       bool plus) {
  fuse_read_in in{};
  if (!ReadFixed(request, &in)) return -EINVAL;
  const auto file = handles.Find(in.fh);
  if (!file.has_value()) return -EBADF;
  if (!file->directory) return -ENOTDIR;
  const std::span<std::byte> room = out.first(std::min<size_t>(out.size(), in.size));
  // Entries get longer, the more so with attributes; what would not fit is not read.
  const size_t head = plus ? sizeof(fuse_direntplus) : sizeof(fuse_dirent);
  const size_t wanted = room.size() / (plus ? 4 : 1);
  alignas(8) std::array<std::byte, kChunk> chunk;
  const size_t bytes_wanted = std::clamp(wanted, kSmallestChunk, kChunk);

  const std::lock_guard lock(directory_locks[in.fh % directory_locks.size()]);
  if (lseek(file->fd, static_cast<off_t>(in.offset), SEEK_SET) < 0) return -errno;
  const long got = syscall(SYS_getdents64, file->fd, chunk.data(), bytes_wanted);
  if (got < 0) return -errno;
  size_t used = 0;
  for (long at = 0; at < got;) {
    const RawEntry entry = EntryAt(chunk.data() + at);
    at += entry.length;
    const size_t name_bytes = std::strlen(entry.name);
    const size_t total = Align8(head + name_bytes);
    if (used + total > room.size()) break;
    std::byte* to = room.data() + used;
    std::memset(to + head + name_bytes, 0, total - head - name_bytes);
    const fuse_dirent dirent = DirentOf(entry, name_bytes);
    if (plus) {
      fuse_entry_out attributes{};
      FillPlus(file->fd, entry.name, entry.inode, entry.type, &attributes);
      std::memcpy(to, &attributes, sizeof(attributes));
    }
    std::memcpy(to + head - sizeof(dirent), &dirent, sizeof(dirent));
    std::memcpy(to + head, entry.name, name_bytes);
    used += total;
  }
  // There are entries, but no room for the first.
  if (got > 0 && used == 0) return -EINVAL;
  return static_cast<Answer>(used);
}

}  // namespace weir::volume
