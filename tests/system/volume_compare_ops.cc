#include "volume_compare_ops.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

namespace weir::volume {

namespace {

constexpr size_t kLogged = 40;
constexpr int64_t kMaxFileBytes = 300'000;

// A result as a program sees it.
std::string Said(long result) {
  return result < 0 ? std::string(std::strerror(errno)) : std::to_string(result);
}

std::string Hash(const void* data, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  }
  return fmt::format("{}:{:x}", bytes, hash);
}

std::string Described(const struct stat& status) {
  // The sizes of directories are the file system's own business.
  const long size = S_ISDIR(status.st_mode) ? 0 : static_cast<long>(status.st_size);
  return fmt::format("{:o} links {} {}:{} size {} dev {}", status.st_mode, status.st_nlink,
                     status.st_uid, status.st_gid, size, status.st_rdev);
}

std::string DescribedTimes(const struct stat& status) {
  return fmt::format("{}.{} {}.{}", status.st_atim.tv_sec, status.st_atim.tv_nsec,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::string Pattern(size_t bytes, uint64_t seed) {
  std::string text(bytes, '\0');
  Random random(seed);
  for (char& c : text) c = static_cast<char>('a' + random.Next() % 26);
  return text;
}

std::string Attributes(const std::string& path) {
  std::array<char, 4096> names{};
  const ssize_t bytes = llistxattr(path.c_str(), names.data(), names.size());
  if (bytes < 0) return Said(bytes);
  std::vector<std::string> all;
  for (ssize_t at = 0; at < bytes;) {
    const std::string name = names.data() + at;
    at += static_cast<ssize_t>(name.size()) + 1;
    std::array<char, 4096> value{};
    const ssize_t size = lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
    all.push_back(name + "=" +
                  (size < 0 ? Said(size) : Hash(value.data(), static_cast<size_t>(size))));
  }
  std::sort(all.begin(), all.end());
  return fmt::format("{}", fmt::join(all, ","));
}

std::string Contents(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return Said(fd);
  std::string text;
  std::array<char, 65'536> buffer{};
  for (;;) {
    const ssize_t bytes = read(fd, buffer.data(), buffer.size());
    if (bytes <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(bytes));
  }
  close(fd);
  return Hash(text.data(), text.size());
}

void Walk(const std::string& base, const std::string& below,
          std::map<std::string, std::string>* tree) {
  const std::string path = base + below;
  DIR* list = opendir(path.c_str());
  if (list == nullptr) {
    (*tree)[below + "/"] = Said(-1);
    return;
  }
  while (const dirent* entry = readdir(list)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string child = below + "/" + name;
    struct stat status {};
    if (lstat((base + child).c_str(), &status) != 0) {
      (*tree)[child] = Said(-1);
      continue;
    }
    std::string text = Described(status) + " [" + Attributes(base + child) + "]";
    if (S_ISREG(status.st_mode)) text += " " + Contents(base + child);
    if (S_ISLNK(status.st_mode)) {
      std::array<char, 4096> target{};
      const ssize_t bytes = readlink((base + child).c_str(), target.data(), target.size());
      text += " -> " + std::string(target.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    }
    (*tree)[child] = text;
    if (S_ISDIR(status.st_mode)) Walk(base, child, tree);
  }
  closedir(list);
}

// Which zeros are holes is the file system's to choose; that holes are zeros, and nothing else is
// passed over, is a promise. "right", or what went wrong.
std::string SeekOrWhy(int fd, off_t offset, int whence) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return Said(-1);
  if (!S_ISREG(status.st_mode) || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY) return "not tried";
  const off_t position = lseek(fd, 0, SEEK_CUR);
  const off_t found = lseek(fd, offset, whence);
  const int error = errno;
  off_t data = found < 0 ? status.st_size : found;
  if (whence == SEEK_HOLE && found >= 0) data = lseek(fd, found, SEEK_DATA);
  lseek(fd, position, SEEK_SET);  // later writes must not depend on it
  errno = error;
  if (offset >= status.st_size) return Said(found);
  off_t hole = offset;  // zeros from here to `data`
  if (whence == SEEK_HOLE) {
    if (found < offset) return Said(found);
    hole = found;
    if (data < 0) data = status.st_size;
  }
  std::string text(static_cast<size_t>(std::max<off_t>(data - hole, 0)), '\0');
  if (pread(fd, text.data(), text.size(), hole) != static_cast<ssize_t>(text.size())) {
    return "a hole cannot be read";
  }
  return text.find_first_not_of('\0') == std::string::npos ? "right" : "a hole is not empty";
}

// For chmod. Not setgid without the group's execute bit, an old mark for mandatory locks: whether a
// write takes it away depends on the writer's groups, which FUSE does not tell.
mode_t AnyMode(Random* random) {
  const auto mode = static_cast<mode_t>(random->Range(0, 07777));
  return (mode & S_IXGRP) != 0 ? mode : mode & ~static_cast<mode_t>(S_ISGID);
}

// Raw calls: of this thread only. Leaving root drops its capabilities, coming back restores them.
void Become(uid_t uid, gid_t gid, bool with_group) {
  const gid_t group = 3000;
  syscall(SYS_setresuid, -1, 0, -1);
  syscall(SYS_setgroups, with_group ? 1 : 0, &group);
  syscall(SYS_setresgid, -1, gid, -1);
  syscall(SYS_setresuid, -1, uid, -1);
}

}  // namespace

Comparer::Comparer(std::string first, std::string second, uint64_t seed)
    : random_(seed), seed_(seed) {
  sides_[0].directory = std::move(first);
  sides_[1].directory = std::move(second);
  for (const Side& side : sides_) chmod(side.directory.c_str(), 0777);
}

Comparer::~Comparer() {
  Become(0, 0, false);
  umask(022);
  for (Side& side : sides_) {
    for (int& fd : side.files) {
      if (fd >= 0) close(fd);
    }
  }
}

std::string Comparer::RandomPath() {
  static const std::array<const char*, 5> kNames = {"a", "b", "c", "d", "e"};
  if (random_.Chance(0.01))
    return "/" + std::string(static_cast<size_t>(random_.Range(254, 257)), 'n');
  if (random_.Chance(0.005)) return "/a/../b";
  if (random_.Chance(0.005)) return "/c/";
  std::string path;
  const int64_t depth = random_.Chance(0.5) ? 1 : random_.Range(1, 3);
  for (int64_t i = 0; i < depth; ++i) {
    path += "/";
    path += kNames[static_cast<size_t>(random_.Range(0, 4))];
  }
  return path;
}

void Comparer::ChooseCaller() {
  uid_ = random_.Chance(0.6) ? 0 : static_cast<uid_t>(1000 + random_.Range(0, 1));
  gid_ = uid_ == 0 ? 0 : static_cast<gid_t>(2000 + random_.Range(0, 1));
  Become(uid_, gid_, uid_ != 0 && random_.Chance(0.5));
  umask(static_cast<mode_t>(
      std::array<int, 4>{0, 022, 027, 077}[static_cast<size_t>(random_.Range(0, 3))]));
}

Comparer::Step Comparer::ChooseName() {
  const std::string p = RandomPath();
  const std::string q = RandomPath();
  const auto mode = static_cast<mode_t>(random_.Chance(0.2)   ? AnyMode(&random_) & ~02000u
                                        : random_.Chance(0.5) ? 0755
                                                              : 0666);
  const auto path = [](const Side* side, const std::string& name) {
    return side->directory + name;
  };
  switch (random_.Range(0, 11)) {
    case 0:
    case 1:
      return {fmt::format("mkdir {} {:o}", p, mode),
              [=](Side* s) { return Said(mkdir(path(s, p).c_str(), mode)); }};
    case 2:
      return {"rmdir " + p, [=](Side* s) { return Said(rmdir(path(s, p).c_str())); }};
    case 3:
    case 4:
      return {"unlink " + p, [=](Side* s) { return Said(unlink(path(s, p).c_str())); }};
    case 5:
      return {fmt::format("rename {} {}", p, q),
              [=](Side* s) { return Said(rename(path(s, p).c_str(), path(s, q).c_str())); }};
    case 6: {
      const auto flags = static_cast<unsigned>(random_.Range(0, 5));
      return {fmt::format("renameat2 {} {} {}", p, q, flags), [=](Side* s) {
                return Said(
                    renameat2(AT_FDCWD, path(s, p).c_str(), AT_FDCWD, path(s, q).c_str(), flags));
              }};
    }
    case 7:
      return {fmt::format("link {} {}", p, q),
              [=](Side* s) { return Said(link(path(s, p).c_str(), path(s, q).c_str())); }};
    case 8: {
      const std::string target = random_.Chance(0.1)   ? "/nonexistent/x"
                                 : random_.Chance(0.1) ? std::string(3000, 'x')
                                                       : q.substr(1);
      return {fmt::format("symlink {} {}", target.substr(0, 40), p),
              [=](Side* s) { return Said(symlink(target.c_str(), path(s, p).c_str())); }};
    }
    case 9: {
      const std::array<mode_t, 4> kinds = {S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR};
      const mode_t kind = kinds[static_cast<size_t>(random_.Range(0, 3))];
      return {fmt::format("mknod {} {:o}", p, kind | mode), [=](Side* s) {
                return Said(
                    mknod(path(s, p).c_str(), kind | mode, kind == S_IFCHR ? makedev(1, 3) : 0));
              }};
    }
    case 10:
      return {"readlink " + p, [=](Side* s) {
                std::array<char, 4096> target{};
                const ssize_t bytes = readlink(path(s, p).c_str(), target.data(), target.size());
                return Said(bytes) + " " + target.data();
              }};
    default:
      return {"list " + p, [=](Side* s) {
                DIR* list = opendir(path(s, p).c_str());
                if (list == nullptr) return Said(-1);
                std::vector<std::string> names;
                while (const dirent* entry = readdir(list)) {
                  names.push_back(fmt::format("{}:{}", entry->d_name, entry->d_type));
                }
                closedir(list);
                std::sort(names.begin(), names.end());
                return fmt::format("{}", fmt::join(names, " "));
              }};
  }
}

Comparer::Step Comparer::ChooseAttribute() {
  const std::string p = RandomPath();
  const auto path = [](const Side* side, const std::string& name) {
    return side->directory + name;
  };
  const std::array<const char*, 5> attributes = {"user.a", "user.b", "trusted.t", "security.s",
                                                 "odd"};
  const std::string name = attributes[static_cast<size_t>(random_.Range(0, 4))];
  switch (random_.Range(0, 10)) {
    case 0: {
      const auto mode = AnyMode(&random_);
      return {fmt::format("chmod {} {:o}", p, mode),
              [=](Side* s) { return Said(chmod(path(s, p).c_str(), mode)); }};
    }
    case 1:
    case 2: {
      const std::array<uid_t, 4> ids = {0, 1000, 1001, static_cast<uid_t>(-1)};
      const std::array<gid_t, 5> groups = {0, 2000, 2001, 3000, static_cast<gid_t>(-1)};
      const uid_t uid = ids[static_cast<size_t>(random_.Range(0, 3))];
      const gid_t gid = groups[static_cast<size_t>(random_.Range(0, 4))];
      // Changing neither asks to take setuid bits away: the kernel's FUSE does not check that.
      if (uid == static_cast<uid_t>(-1) && gid == static_cast<gid_t>(-1)) return ChooseAttribute();
      return {fmt::format("lchown {} {} {}", p, uid, gid),
              [=](Side* s) { return Said(lchown(path(s, p).c_str(), uid, gid)); }};
    }
    case 3: {
      const int64_t size =
          random_.Chance(0.03) ? int64_t{1} << 60 : random_.Range(-1, kMaxFileBytes);
      return {fmt::format("truncate {} {}", p, size),
              [=](Side* s) { return Said(truncate(path(s, p).c_str(), size)); }};
    }
    case 4: {
      const std::array<timespec, 2> times = {
          timespec{random_.Range(0, 2'000'000'000), 5},
          timespec{random_.Range(0, 2'000'000'000), 999'999'999}};
      return {"utimensat " + p, [=](Side* s) {
                const std::string at = path(s, p);
                const int result =
                    utimensat(AT_FDCWD, at.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
                const std::string said = Said(result);
                struct stat status {};
                if (result != 0 || lstat(at.c_str(), &status) != 0) return said;
                return DescribedTimes(status);
              }};
    }
    case 5: {
      const std::string value = Pattern(static_cast<size_t>(random_.Range(0, 200)), random_.Next());
      const auto flags = static_cast<int>(random_.Range(0, 2));
      return {fmt::format("setxattr {} {} {}", p, name, flags), [=](Side* s) {
                return Said(
                    lsetxattr(path(s, p).c_str(), name.c_str(), value.data(), value.size(), flags));
              }};
    }
    case 6:
      return {fmt::format("removexattr {} {}", p, name),
              [=](Side* s) { return Said(lremovexattr(path(s, p).c_str(), name.c_str())); }};
    case 7:
      return {"attributes " + p, [=](Side* s) { return Attributes(path(s, p)); }};
    case 8: {
      const auto mode = static_cast<int>(random_.Range(0, 7));
      return {fmt::format("access {} {}", p, mode), [=](Side* s) {
                return Said(faccessat(AT_FDCWD, path(s, p).c_str(), mode, AT_EACCESS));
              }};
    }
    default:
      return {"lstat " + p, [=](Side* s) {
                struct stat status {};
                const int result = lstat(path(s, p).c_str(), &status);
                return result != 0 ? Said(result) : Described(status);
              }};
  }
}

Comparer::Step Comparer::ChooseOpen() {
  const std::string p = RandomPath();
  const int file = RandomFile();
  if (random_.Chance(0.1)) {
    return {fmt::format("close #{}", file), [=](Side* s) {
              const int fd = std::exchange(s->files[static_cast<size_t>(file)], -1);
              return fd < 0 ? std::string("none") : Said(close(fd));
            }};
  }
  const std::array<int, 3> access = {O_RDONLY, O_WRONLY, O_RDWR};
  int flags = access[static_cast<size_t>(random_.Range(0, 2))] | O_NONBLOCK;
  if (random_.Chance(0.7)) flags |= O_CREAT;
  for (const int flag : {O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW}) {
    if (random_.Chance(0.1)) flags |= flag;
  }
  if (random_.Chance(0.03)) flags |= O_DIRECTORY;
  if (random_.Chance(0.05)) flags |= O_DSYNC;
  const bool temporary = random_.Chance(0.04);
  if (temporary) flags = (flags & ~(O_CREAT | O_TRUNC | O_NOFOLLOW)) | O_TMPFILE;
  const auto mode = static_cast<mode_t>(random_.Chance(0.3) ? AnyMode(&random_) & ~02000u : 0666);
  return {fmt::format("#{} = open {} {:o} {:o}", file, p, flags, mode), [=](Side* s) {
            const int opened = open((s->directory + p).c_str(), flags, mode);
            if (opened < 0) return Said(opened);
            struct stat status {};
            if (fstat(opened, &status) != 0) return Said(-1);
            // What opens a pipe or a device is not the file system's.
            if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
              int& slot = s->files[static_cast<size_t>(file)];
              if (slot >= 0) close(slot);
              slot = opened;
            } else {
              close(opened);
            }
            return Described(status);
          }};
}

Comparer::Step Comparer::ChooseFile() {
  const int file = RandomFile();
  const auto fd = [file](const Side* s) { return s->files[static_cast<size_t>(file)]; };
  const int64_t offset = random_.Chance(0.01) ? int64_t{1} << 50 : random_.Range(0, kMaxFileBytes);
  const auto bytes =
      static_cast<size_t>(random_.Chance(0.2) ? random_.Range(0, 150'000) : random_.Range(0, 5000));
  const uint64_t seed = random_.Next();
  switch (random_.Range(0, 14)) {
    case 0:
    case 1:
      return {fmt::format("pwrite #{} {} {}", file, offset, bytes), [=](Side* s) {
                const std::string text = Pattern(bytes, seed);
                return Said(pwrite(fd(s), text.data(), text.size(), offset));
              }};
    case 2:
      return {fmt::format("write #{} {}", file, bytes), [=](Side* s) {
                const std::string text = Pattern(bytes, seed);
                return Said(write(fd(s), text.data(), text.size()));
              }};
    case 3:
    case 4:
      return {fmt::format("pread #{} {} {}", file, offset, bytes), [=](Side* s) {
                std::string text(bytes, '\0');
                const ssize_t got = pread(fd(s), text.data(), text.size(), offset);
                return got < 0 ? Said(got) : Hash(text.data(), static_cast<size_t>(got));
              }};
    case 5:
      return {fmt::format("ftruncate #{} {}", file, offset),
              [=](Side* s) { return Said(ftruncate(fd(s), offset)); }};
    case 6:
    case 7: {
      const std::array<int, 5> modes = {0, FALLOC_FL_KEEP_SIZE,
                                        FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                        FALLOC_FL_ZERO_RANGE, FALLOC_FL_PUNCH_HOLE};
      const int mode = modes[static_cast<size_t>(random_.Range(0, 4))];
      const int64_t at = std::min(offset, kMaxFileBytes);
      return {fmt::format("fallocate #{} {} {} {}", file, mode, at, bytes),
              [=](Side* s) { return Said(fallocate(fd(s), mode, at, static_cast<off_t>(bytes))); }};
    }
    case 8: {
      const int whence = random_.Chance(0.5) ? SEEK_DATA : SEEK_HOLE;
      const int64_t at = std::min(offset, kMaxFileBytes);
      return {fmt::format("lseek #{} {} {}", file, at, whence),
              [=](Side* s) { return SeekOrWhy(fd(s), at, whence); }};
    }
    case 9:
      return {fmt::format("fstat #{}", file), [=](Side* s) {
                struct stat status {};
                const int result = fstat(fd(s), &status);
                return result != 0 ? Said(result) : Described(status);
              }};
    case 10:
      return {fmt::format("fsync #{}", file), [=](Side* s) { return Said(fsync(fd(s))); }};
    case 11: {
      const int other = RandomFile();
      const int64_t to = random_.Range(0, kMaxFileBytes);
      return {fmt::format("copy #{}@{} #{}@{} {}", file, offset, other, to, bytes), [=](Side* s) {
                off_t in = offset;
                off_t out = to;
                const ssize_t got = copy_file_range(
                    fd(s), &in, s->files[static_cast<size_t>(other)], &out, bytes, 0);
                return fmt::format("{} {} {}", Said(got), in, out);
              }};
    }
    case 12: {
      const auto mode = AnyMode(&random_);
      return {fmt::format("fchmod #{} {:o}", file, mode),
              [=](Side* s) { return Said(fchmod(fd(s), mode)); }};
    }
    case 13:
      return {fmt::format("map #{} {}", file, bytes), [=](Side* s) {
                struct stat status {};
                if (fstat(fd(s), &status) != 0 || status.st_size == 0) return std::string("empty");
                const auto length = static_cast<size_t>(status.st_size);
                void* map = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd(s), 0);
                if (map == MAP_FAILED) return Said(-1);
                static_cast<char*>(map)[bytes % length] = 'M';
                const int synced = msync(map, length, MS_SYNC);
                const std::string said = Said(synced) + Hash(map, length);
                munmap(map, length);
                return said;
              }};
    default: {
      const std::string p = RandomPath();
      return {fmt::format("linkat #{} {}", file, p), [=](Side* s) {
                return Said(linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd(s)).c_str(),
                                   AT_FDCWD, (s->directory + p).c_str(), AT_SYMLINK_FOLLOW));
              }};
    }
  }
}

Comparer::Step Comparer::Choose() {
  switch (random_.Range(0, 9)) {
    case 0:
    case 1:
    case 2:
      return ChooseName();
    case 3:
    case 4:
      return ChooseAttribute();
    case 5:
      return ChooseOpen();
    default:
      return ChooseFile();
  }
}

std::string Comparer::Run(int operations) {
  for (int i = 0; i < operations; ++i) {
    ChooseCaller();
    const Step step = Choose();
    const std::string first = step.operation(&sides_[0]);
    const std::string second = step.operation(&sides_[1]);
    log_.push_back(
        fmt::format("{}: uid {} gid {} {:.200} = {:.200}", i, uid_, gid_, step.text, first));
    if (log_.size() > kLogged) log_.pop_front();
    std::string difference;
    if (first != second) {
      difference = fmt::format("the same call says\n  {}\nand\n  {}", first, second);
    } else if (i % 500 == 499) {
      Become(0, 0, false);
      difference = CompareTrees();
    }
    if (!difference.empty()) {
      return fmt::format("seed {}, operation {}: {}\nafter:\n  {}", seed_, i, difference,
                         fmt::join(log_, "\n  "));
    }
  }
  Become(0, 0, false);
  return CompareTrees();
}

std::string Comparer::CompareTrees() const {
  std::array<std::map<std::string, std::string>, 2> trees;
  for (size_t i = 0; i < 2; ++i) Walk(sides_[i].directory, "", &trees[i]);
  for (const auto& [name, text] : trees[0]) {
    const auto other = trees[1].find(name);
    if (other == trees[1].end()) return name + " is only in the first tree: " + text;
    if (other->second != text) return fmt::format("{}:\n  {}\n  {}", name, text, other->second);
  }
  for (const auto& [name, text] : trees[1]) {
    if (!trees[0].contains(name)) return name + " is only in the second tree: " + text;
  }
  return "";
}

}  // namespace weir::volume
