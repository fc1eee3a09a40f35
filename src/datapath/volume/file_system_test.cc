// Each operation does on the backing directory what it says, in the caller's name.
#include "datapath/volume/file_system.h"

#include <linux/fs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <map>
#include <set>

#include "datapath/volume/file_system_test_util.h"

namespace weir::volume {
namespace {

constexpr uint64_t kRoot = kRootNode;

TEST_F(FileSystemTest, LookupFindsWhatIsThereAndRemembersWhatIsNot) {
  WriteFile("a", "hello");
  const Reply found = kernel_->SendNames(FUSE_LOOKUP, kRoot, {"a"});
  ASSERT_EQ(found.answer, static_cast<Answer>(sizeof(fuse_entry_out)));
  const auto entry = found.As<fuse_entry_out>();
  EXPECT_EQ(entry.attr.size, 5u);
  EXPECT_EQ(entry.attr.ino, Stat("a").st_ino);
  EXPECT_EQ(entry.entry_valid, 1u);
  EXPECT_EQ(kernel_->Lookup(kRoot, "a"), entry.nodeid) << "one file, one node";
  const Reply absent = kernel_->SendNames(FUSE_LOOKUP, kRoot, {"b"});
  ASSERT_EQ(absent.answer, static_cast<Answer>(sizeof(fuse_entry_out)));
  EXPECT_EQ(absent.As<fuse_entry_out>().nodeid, 0u);
}

TEST_F(FileSystemTest, NodesSurviveRenamesAndAreForgottenWhenTheirCountIsZero) {
  ASSERT_EQ(kernel_->Mkdir(kRoot, "d"), static_cast<Answer>(sizeof(fuse_entry_out)));
  const uint64_t node = kernel_->Lookup(kRoot, "d");  // the second time
  EXPECT_EQ(kernel_->Rename(kRoot, "d", kRoot, "e"), 0);
  EXPECT_EQ(kernel_->Attributes(node).ino, Stat("e").st_ino);
  kernel_->Forget(node, 1);
  EXPECT_EQ(kernel_->Attributes(node).ino, Stat("e").st_ino);
  kernel_->Forget(node, 1);
  EXPECT_EQ(kernel_->Send(FUSE_GETATTR, node, fuse_getattr_in{}).answer, -ESTALE);
  EXPECT_NE(kernel_->Lookup(kRoot, "e"), node) << "an id is never used again";
}

TEST_F(FileSystemTest, NewFilesBelongToTheCaller) {
  chmod(directory_.path().c_str(), 0700);  // what the caller may do is the kernel's to check
  kernel_->caller = Caller{.uid = 1234, .gid = 2345, .pid = 1};
  const auto file = kernel_->Create(kRoot, "f", O_WRONLY | O_EXCL, 0666, 027);
  ASSERT_GT(file.answer, 0);
  EXPECT_EQ(kernel_->Mkdir(kRoot, "d", 0777, 002), static_cast<Answer>(sizeof(fuse_entry_out)));
  ASSERT_GT(kernel_->SendNames(FUSE_SYMLINK, kRoot, {"s", "target"}).answer, 0);
  const fuse_mknod_in fifo{.mode = S_IFIFO | 0666, .rdev = 0, .umask = 077, .padding = 0};
  ASSERT_GT(kernel_->Send(FUSE_MKNOD, kRoot, fifo, Names({"p"})).answer, 0);
  for (const char* name : {"f", "d", "s", "p"}) {
    EXPECT_EQ(Stat(name).st_uid, 1234u) << name;
    EXPECT_EQ(Stat(name).st_gid, 2345u) << name;
  }
  EXPECT_EQ(Stat("f").st_mode, S_IFREG | 0640u);
  EXPECT_EQ(Stat("d").st_mode, S_IFDIR | 0775u);
  EXPECT_EQ(Stat("p").st_mode, S_IFIFO | 0600u);
  kernel_->caller = Caller{};
  ASSERT_GT(kernel_->Create(kRoot, "g").answer, 0);
  EXPECT_EQ(Stat("g").st_uid, 0u) << "the thread has changed back";
  kernel_->caller = Caller{.uid = UINT32_MAX, .gid = 0, .pid = 1};
  EXPECT_EQ(kernel_->Create(kRoot, "nobody").answer, -EINVAL) << "an id that is no owner";
  EXPECT_FALSE(Exists("nobody"));
}

TEST_F(FileSystemTest, SetgidDirectoriesAndDefaultAclsAreHonoured) {
  ASSERT_GT(kernel_->Mkdir(kRoot, "d"), 0);
  ASSERT_EQ(chown((directory_ / "d").c_str(), 0, 777), 0);
  ASSERT_EQ(chmod((directory_ / "d").c_str(), 02777), 0);
  const uint64_t node = kernel_->Lookup(kRoot, "d");
  kernel_->caller = Caller{.uid = 1234, .gid = 2345, .pid = 1};
  ASSERT_GT(kernel_->Create(node, "f", O_RDWR | O_EXCL, 02755, 022).answer, 0);
  EXPECT_EQ(Stat("d/f").st_gid, 777u);
  EXPECT_EQ(Stat("d/f").st_mode & 07777, 02755u) << "the kernel has checked the setgid bit";
  ASSERT_GT(kernel_->Mkdir(node, "sub"), 0);
  EXPECT_EQ(Stat("d/sub").st_mode & 07777, 02755u);

  // user::rwx group::rwx other::rwx, as posix_acl_xattr.h lays it out.
  struct Entry {
    uint16_t tag, perm;
    uint32_t id;
  };
  struct {
    uint32_t version = 2;
    Entry entries[3] = {{1, 7, UINT32_MAX}, {4, 7, UINT32_MAX}, {0x20, 7, UINT32_MAX}};
  } acl;
  const std::string_view value(reinterpret_cast<const char*>(&acl), sizeof(acl));
  fuse_setxattr_in in{};
  in.size = sizeof(acl);
  const Answer set =
      kernel_
          ->Send(FUSE_SETXATTR, node, in, Names({"system.posix_acl_default"}) + std::string(value))
          .answer;
  if (set == -EOPNOTSUPP) GTEST_SKIP() << "the temporary directory has no ACLs";
  ASSERT_EQ(set, 0);
  ASSERT_GT(kernel_->Create(node, "by_acl", O_RDWR | O_EXCL, 0666, 077).answer, 0);
  EXPECT_EQ(Stat("d/by_acl").st_mode & 0777, 0666u) << "a default ACL overrules the umask";
}

TEST_F(FileSystemTest, OpenedFilesHaveDescriptorsForTheDataPath) {
  const auto created = kernel_->Create(kRoot, "f");
  ASSERT_GT(created.answer, 0);
  const auto file = files_->File(created.fh);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->node, created.node);
  EXPECT_EQ(pwrite(file->buffered_fd, "abc", 3, 0), 3);
  if (file->direct_fd >= 0) {
    EXPECT_NE(fcntl(file->direct_fd, F_GETFL) & O_DIRECT, 0);
  }
  const Reply append = kernel_->Open(created.node, O_WRONLY | O_APPEND | O_DSYNC);
  const auto appended = files_->File(append.As<fuse_open_out>().fh);
  ASSERT_TRUE(appended.has_value());
  const int flags = fcntl(appended->buffered_fd, F_GETFL);
  EXPECT_EQ(flags & O_APPEND, 0) << "offsets are the kernel's";
  EXPECT_EQ(flags & O_ACCMODE, O_WRONLY);
  EXPECT_EQ(appended->open_flags & O_APPEND, static_cast<uint32_t>(O_APPEND));
  EXPECT_EQ(Stat("f").st_size, 3);
  const Reply cut = kernel_->Open(created.node, O_WRONLY | O_TRUNC);
  ASSERT_GT(cut.answer, 0);
  EXPECT_EQ(Stat("f").st_size, 0);
  EXPECT_EQ(files_->open_files(), 3u);
  EXPECT_EQ(kernel_->Release(created.fh), 0);
  EXPECT_FALSE(files_->File(created.fh).has_value());
  EXPECT_EQ(kernel_->Release(created.fh), -EBADF);
  EXPECT_EQ(files_->open_files(), 2u);
}

TEST_F(FileSystemTest, OnlyFilesAreOpened) {
  ASSERT_EQ(mkfifo((directory_ / "fifo").c_str(), 0666), 0);
  ASSERT_EQ(symlink("/etc/passwd", (directory_ / "link").c_str()), 0);
  ASSERT_EQ(mkdir((directory_ / "dir").c_str(), 0755), 0);
  EXPECT_EQ(kernel_->Open(kernel_->Lookup(kRoot, "fifo"), O_RDONLY).answer, -ENXIO);
  EXPECT_EQ(kernel_->Open(kernel_->Lookup(kRoot, "link"), O_RDONLY).answer, -ELOOP);
  EXPECT_EQ(kernel_->Open(kernel_->Lookup(kRoot, "dir"), O_RDONLY).answer, -EISDIR);
  // Where the kernel believed the name free and something else is there, it has to look again.
  EXPECT_EQ(kernel_->Create(kRoot, "link", O_RDWR).answer, -ESTALE);
  EXPECT_EQ(kernel_->Create(kRoot, "link", O_RDWR | O_EXCL).answer, -EEXIST);
}

TEST_F(FileSystemTest, PagesAreKeptUnlessTheFileChangedBehindTheMount) {
  const auto keeps = [&](uint64_t node, uint32_t flags) {
    const auto open = kernel_->Open(node, flags).As<fuse_open_out>();
    EXPECT_EQ(kernel_->Release(open.fh), 0);
    return (open.open_flags & FOPEN_KEEP_CACHE) != 0;
  };
  const auto created = kernel_->Create(kRoot, "f");
  ASSERT_EQ(pwrite(files_->File(created.fh)->buffered_fd, "abc", 3, 0), 3);
  EXPECT_TRUE(keeps(created.node, O_RDONLY)) << "a writer of the mount is at work";
  EXPECT_EQ(kernel_->Release(created.fh), 0);
  EXPECT_TRUE(keeps(created.node, O_RDONLY));
  WriteFile("f", "defgh");
  kernel_->Attributes(created.node);  // knowing it does not make the pages right
  EXPECT_FALSE(keeps(created.node, O_RDONLY));
  EXPECT_TRUE(keeps(created.node, O_RDONLY));
  const auto direct = kernel_->Open(created.node, O_RDWR | O_DIRECT).As<fuse_open_out>();
  EXPECT_EQ(direct.open_flags, uint32_t{FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES});
}

TEST_F(FileSystemTest, SetattrChangesWhatItSays) {
  const auto created = kernel_->Create(kRoot, "f");
  fuse_setattr_in in{};
  in.valid = FATTR_MODE | FATTR_UID | FATTR_GID;
  in.mode = S_IFREG | 04711;
  in.uid = 11;
  in.gid = 22;
  Reply reply = kernel_->Send(FUSE_SETATTR, created.node, in);
  ASSERT_EQ(reply.answer, static_cast<Answer>(sizeof(fuse_attr_out)));
  EXPECT_EQ(reply.As<fuse_attr_out>().attr.mode, S_IFREG | 04711u);
  EXPECT_EQ(Stat("f").st_uid, 11u);
  EXPECT_EQ(Stat("f").st_gid, 22u);
  in = fuse_setattr_in{};
  in.valid = FATTR_SIZE | FATTR_FH | FATTR_KILL_SUIDGID;
  in.size = 12'345;
  in.fh = created.fh;
  ASSERT_GT(kernel_->Send(FUSE_SETATTR, created.node, in).answer, 0);
  EXPECT_EQ(Stat("f").st_size, 12'345);
  EXPECT_EQ(Stat("f").st_mode & 07777, 0711u) << "the setuid bit goes";
  in.fh = 99;
  EXPECT_EQ(kernel_->Send(FUSE_SETATTR, created.node, in).answer, -EBADF);
  in = fuse_setattr_in{};
  in.valid = FATTR_SIZE;
  in.size = 7;
  ASSERT_GT(kernel_->Send(FUSE_SETATTR, created.node, in).answer, 0);
  EXPECT_EQ(Stat("f").st_size, 7);
  in = fuse_setattr_in{};
  in.valid = FATTR_ATIME | FATTR_MTIME | FATTR_MTIME_NOW;
  in.atime = 1000;
  in.atimensec = 5;
  ASSERT_GT(kernel_->Send(FUSE_SETATTR, created.node, in).answer, 0);
  EXPECT_EQ(Stat("f").st_atim.tv_sec, 1000);
  EXPECT_EQ(Stat("f").st_atim.tv_nsec, 5);
  EXPECT_GT(Stat("f").st_mtim.tv_sec, 1'000'000'000);
  in.valid = FATTR_SIZE;
  EXPECT_EQ(kernel_->Send(FUSE_SETATTR, kRoot, in).answer, -EISDIR);
  // A link's own owner and times.
  ASSERT_EQ(symlink("f", (directory_ / "l").c_str()), 0);
  in.valid = FATTR_UID | FATTR_MTIME;
  in.uid = 33;
  in.mtime = 2000;
  ASSERT_GT(kernel_->Send(FUSE_SETATTR, kernel_->Lookup(kRoot, "l"), in).answer, 0);
  EXPECT_EQ(Stat("l").st_uid, 33u);
  EXPECT_EQ(Stat("l").st_mtim.tv_sec, 2000);
  EXPECT_EQ(Stat("f").st_uid, 11u);
}

TEST_F(FileSystemTest, SetuidBitsGoWhenTheDataPathSaysSo) {
  const auto created = kernel_->Create(kRoot, "f");
  ASSERT_EQ(chmod((directory_ / "f").c_str(), 06755), 0);
  kernel_->Attributes(created.node);
  files_->DropSetId(created.fh);
  EXPECT_EQ(Stat("f").st_mode & 07777, 0755u);
  ASSERT_EQ(chmod((directory_ / "f").c_str(), 02644), 0);
  kernel_->Attributes(created.node);
  files_->DropSetId(created.fh);
  EXPECT_EQ(Stat("f").st_mode & 07777, 02644u) << "no execute bit: not a setgid program";
  files_->DropSetId(0);
  files_->DropSetId(UINT64_MAX);
}

TEST_F(FileSystemTest, UnlinkedFilesAndDirectoriesStayUsableWhileKnown) {
  const auto file = kernel_->Create(kRoot, "f");
  ASSERT_GT(kernel_->Mkdir(kRoot, "d"), 0);
  const uint64_t d = kernel_->Lookup(kRoot, "d");
  EXPECT_EQ(kernel_->Release(file.fh), 0);
  EXPECT_EQ(kernel_->Unlink(kRoot, "f"), 0);
  EXPECT_EQ(kernel_->Rmdir(kRoot, "d"), 0);
  EXPECT_EQ(kernel_->Attributes(file.node).nlink, 0u);
  EXPECT_EQ(kernel_->Attributes(d).nlink, 0u);
  EXPECT_EQ(kernel_->Create(d, "x").answer, -ENOENT);
  Restart();
  EXPECT_EQ(kernel_->Attributes(file.node).nlink, 0u) << "the successor knows them too";
  EXPECT_EQ(kernel_->Attributes(d).nlink, 0u);
  const size_t before = OpenDescriptors();
  kernel_->Forget(file.node, 1);
  kernel_->Forget(d, 2);
  EXPECT_EQ(OpenDescriptors(), before - 2);
  // Renamed over.
  const auto victim = kernel_->Create(kRoot, "victim");
  ASSERT_GT(kernel_->Create(kRoot, "winner").answer, 0);
  EXPECT_EQ(kernel_->Rename(kRoot, "winner", kRoot, "victim"), 0);
  EXPECT_EQ(kernel_->Attributes(victim.node).nlink, 0u);
}

TEST_F(FileSystemTest, RenameFlagsAreTheBackings) {
  ASSERT_GT(kernel_->Create(kRoot, "a").answer, 0);
  ASSERT_GT(kernel_->Create(kRoot, "b").answer, 0);
  const ino_t a = Stat("a").st_ino;
  const ino_t b = Stat("b").st_ino;
  EXPECT_EQ(kernel_->Rename(kRoot, "a", kRoot, "b", RENAME_NOREPLACE), -EEXIST);
  EXPECT_EQ(kernel_->Rename(kRoot, "a", kRoot, "b", RENAME_EXCHANGE), 0);
  EXPECT_EQ(Stat("a").st_ino, b);
  EXPECT_EQ(Stat("b").st_ino, a);
  EXPECT_EQ(kernel_->Rename(kRoot, "a", kRoot, "c", RENAME_NOREPLACE), 0);
  EXPECT_EQ(kernel_->Rename(kRoot, "gone", kRoot, "c"), -ENOENT);
  EXPECT_EQ(kernel_->Rename(kRoot, "c", kRoot, "d", 1u << 30), -EINVAL);
}

TEST_F(FileSystemTest, LinksAndTemporaryFiles) {
  const auto file = kernel_->Create(kRoot, "f");
  EXPECT_GT(kernel_->Link(file.node, kRoot, "g"), 0);
  EXPECT_EQ(kernel_->Link(file.node, kRoot, "g"), -EEXIST);
  EXPECT_EQ(Stat("g").st_nlink, 2u);
  EXPECT_EQ(kernel_->Lookup(kRoot, "g"), file.node);
  EXPECT_EQ(kernel_->Link(kRoot, kRoot, "h"), -EPERM);
  const fuse_create_in in{.flags = O_RDWR, .mode = S_IFREG | 0640, .umask = 0, .open_flags = 0};
  kernel_->caller = Caller{.uid = 5, .gid = 6, .pid = 1};
  const Reply reply = kernel_->Send(FUSE_TMPFILE, kRoot, in, Names({""}));
  if (reply.answer == -EOPNOTSUPP) GTEST_SKIP() << "no temporary files on this file system";
  const auto temporary = FakeKernel::CreatedOf(reply);
  ASSERT_GT(temporary.answer, 0);
  EXPECT_EQ(temporary.attributes.nlink, 0u);
  EXPECT_TRUE(files_->File(temporary.fh).has_value());
  EXPECT_GT(kernel_->Link(temporary.node, kRoot, "named"), 0);
  EXPECT_EQ(Stat("named").st_uid, 5u);
  EXPECT_EQ(Stat("named").st_mode, S_IFREG | 0640u);
}

TEST_F(FileSystemTest, ReadlinkAndDevices) {
  const std::string target(4000, 'x');
  ASSERT_GT(kernel_->SendNames(FUSE_SYMLINK, kRoot, {"s", target}).answer, 0);
  const uint64_t link = kernel_->Lookup(kRoot, "s");
  EXPECT_EQ(kernel_->SendBytes(FUSE_READLINK, link, {}, {}).Text(), target);
  EXPECT_EQ(kernel_->SendBytes(FUSE_READLINK, kRoot, {}, {}).answer, -EINVAL);
  // Device 300:70000 in the kernel's encoding.
  const uint32_t device = (70'000 & 0xff) | (300 << 8) | ((70'000 & ~0xff) << 12);
  const fuse_mknod_in in{.mode = S_IFCHR | 0600, .rdev = device, .umask = 0, .padding = 0};
  const Reply made = kernel_->Send(FUSE_MKNOD, kRoot, in, Names({"dev"}));
  if (made.answer == -EPERM) GTEST_SKIP() << "no right to make devices";
  EXPECT_EQ(made.As<fuse_entry_out>().attr.rdev, device);
  EXPECT_EQ(Stat("dev").st_rdev, makedev(300, 70'000));
}

TEST_F(FileSystemTest, ExtendedAttributes) {
  const auto file = kernel_->Create(kRoot, "f");
  const auto set = [&](std::string_view name, std::string_view value, uint32_t flags) {
    fuse_setxattr_in in{};
    in.size = static_cast<uint32_t>(value.size());
    in.flags = flags;
    return kernel_->Send(FUSE_SETXATTR, file.node, in, Names({name}) + std::string(value)).answer;
  };
  const auto get = [&](std::string_view name, uint32_t size) {
    return kernel_->Send(FUSE_GETXATTR, file.node, fuse_getxattr_in{.size = size, .padding = 0},
                         Names({name}));
  };
  if (set("user.a", "one", XATTR_CREATE) == -EOPNOTSUPP) GTEST_SKIP() << "no user attributes";
  EXPECT_EQ(set("user.a", "two", XATTR_CREATE), -EEXIST);
  EXPECT_EQ(set("user.a", "three", XATTR_REPLACE), 0);
  EXPECT_EQ(set("user.b", "x", XATTR_REPLACE), -ENODATA);
  EXPECT_EQ(set("trusted.t", "y", 0), 0);
  EXPECT_EQ(get("user.a", 0).As<fuse_getxattr_out>().size, 5u);
  EXPECT_EQ(get("user.a", 100).Text(), "three");
  EXPECT_EQ(get("user.a", 2).answer, -ERANGE);
  EXPECT_EQ(get("user.none", 2).answer, -ENODATA);
  const auto list = [&](uint32_t size) {
    return kernel_->Send(FUSE_LISTXATTR, file.node, fuse_getxattr_in{.size = size, .padding = 0});
  };
  EXPECT_NE(list(1000).Text().find("trusted.t"), std::string::npos);
  kernel_->caller.uid = 1000;
  EXPECT_EQ(list(1000).Text(), Names({"user.a"})) << "trusted attributes are root's to see";
  EXPECT_EQ(list(0).As<fuse_getxattr_out>().size, 7u);
  EXPECT_EQ(list(3).answer, -ERANGE);
  EXPECT_EQ(kernel_->SendNames(FUSE_REMOVEXATTR, file.node, {"user.a"}).answer, 0);
  EXPECT_EQ(kernel_->SendNames(FUSE_REMOVEXATTR, file.node, {"user.a"}).answer, -ENODATA);
  // Of a link, not of what it points to.
  ASSERT_EQ(symlink("f", (directory_ / "l").c_str()), 0);
  const uint64_t link = kernel_->Lookup(kRoot, "l");
  kernel_->caller.uid = 0;
  fuse_setxattr_in in{};
  in.size = 1;
  EXPECT_EQ(kernel_->Send(FUSE_SETXATTR, link, in, Names({"trusted.l"}) + "z").answer, 0);
  char value = 0;
  EXPECT_EQ(lgetxattr((directory_ / "l").c_str(), "trusted.l", &value, 1), 1);
  EXPECT_EQ(getxattr((directory_ / "f").c_str(), "trusted.l", &value, 1), -1);
}

TEST_F(FileSystemTest, SpaceHolesAndAttributes) {
  const auto file = kernel_->Create(kRoot, "f");
  const auto allocate = [&](uint64_t offset, uint64_t length, uint32_t mode) {
    fuse_fallocate_in in{};
    in.fh = file.fh;
    in.offset = offset;
    in.length = length;
    in.mode = mode;
    return kernel_->Send(FUSE_FALLOCATE, file.node, in).answer;
  };
  ASSERT_EQ(allocate(0, 65'536, 0), 0);
  EXPECT_EQ(Stat("f").st_size, 65'536);
  const std::string text(65'536, 'x');
  ASSERT_EQ(pwrite(files_->File(file.fh)->buffered_fd, text.data(), text.size(), 0), 65'536);
  ASSERT_EQ(allocate(16'384, 16'384, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE), 0);
  const auto seek = [&](uint64_t offset, uint32_t whence) {
    fuse_lseek_in in{};
    in.fh = file.fh;
    in.offset = offset;
    in.whence = whence;
    return kernel_->Send(FUSE_LSEEK, file.node, in);
  };
  EXPECT_EQ(seek(0, SEEK_HOLE).As<fuse_lseek_out>().offset, 16'384u);
  EXPECT_EQ(seek(20'000, SEEK_DATA).As<fuse_lseek_out>().offset, 32'768u);
  EXPECT_EQ(seek(100'000, SEEK_DATA).answer, -ENXIO);
  EXPECT_EQ(seek(0, SEEK_CUR).answer, -EINVAL);
  EXPECT_EQ(allocate(0, 4096, FALLOC_FL_COLLAPSE_RANGE), 0);
  EXPECT_EQ(Stat("f").st_size, 61'440);
  EXPECT_EQ(allocate(0, 0, 0), -EINVAL);
  EXPECT_EQ(allocate(UINT64_MAX, 5, 0), -EINVAL);

  fuse_ioctl_in in{};
  in.fh = file.fh;
  in.cmd = FS_IOC_GETFLAGS;
  in.out_size = 4;
  const Reply flags = kernel_->Send(FUSE_IOCTL, file.node, in);
  EXPECT_EQ(flags.answer, static_cast<Answer>(sizeof(fuse_ioctl_out) + 4));
  in.cmd = FS_IOC_SETFLAGS;
  in.in_size = 4;
  in.out_size = 0;
  uint32_t wanted = flags.As<uint32_t>(sizeof(fuse_ioctl_out)) | FS_NODUMP_FL;
  const std::string_view bytes(reinterpret_cast<const char*>(&wanted), 4);
  EXPECT_EQ(kernel_->Send(FUSE_IOCTL, file.node, in, bytes).answer,
            static_cast<Answer>(sizeof(fuse_ioctl_out)));
  EXPECT_EQ(kernel_->Send(FUSE_IOCTL, file.node, in, bytes.substr(1)).answer, -EINVAL);
  in.cmd = FITHAW;
  EXPECT_EQ(kernel_->Send(FUSE_IOCTL, file.node, in, bytes).answer, -ENOTTY);
}

TEST_F(FileSystemTest, CopyingNeverMovesDataOutsideTheScheduler) {
  const auto from = kernel_->Create(kRoot, "from");
  const auto to = kernel_->Create(kRoot, "to");
  const std::string text(16'384, 'x');
  ASSERT_EQ(pwrite(files_->File(from.fh)->buffered_fd, text.data(), text.size(), 0), 16'384);
  fuse_copy_file_range_in in{};
  in.fh_in = from.fh;
  in.fh_out = to.fh;
  in.nodeid_out = to.node;
  in.len = 100'000;
  const Reply reply = kernel_->Send(FUSE_COPY_FILE_RANGE, from.node, in);
  if (reply.answer < 0) {
    EXPECT_EQ(reply.answer, -EOPNOTSUPP);  // no shared blocks here: the kernel reads and writes
    EXPECT_EQ(Stat("to").st_size, 0);
  } else {
    EXPECT_EQ(reply.As<fuse_write_out>().size, 16'384u);
    EXPECT_EQ(Stat("to").st_size, 16'384);
  }
  in.off_in = 16'384;
  EXPECT_EQ(kernel_->Send(FUSE_COPY_FILE_RANGE, from.node, in).As<fuse_write_out>().size, 0u);
  in.fh_out = 12'345;
  EXPECT_EQ(kernel_->Send(FUSE_COPY_FILE_RANGE, from.node, in).answer, -EBADF);
}

// The names that a listing in answers of `bytes` bytes gives, with their offsets.
std::map<std::string, uint64_t> List(FakeKernel* kernel, uint64_t fh, uint32_t bytes, bool plus,
                                     uint64_t from = 0, size_t max_answers = SIZE_MAX) {
  std::map<std::string, uint64_t> names;
  fuse_read_in in{};
  in.fh = fh;
  in.offset = from;
  in.size = bytes;
  const size_t head = plus ? sizeof(fuse_entry_out) : 0;
  while (max_answers-- > 0) {
    const Reply reply = kernel->Send(plus ? FUSE_READDIRPLUS : FUSE_READDIR, kRoot, in);
    EXPECT_GE(reply.answer, 0);
    if (reply.answer <= 0) break;
    for (size_t at = 0; at < reply.payload.size();) {
      const auto entry = reply.As<fuse_dirent>(at + head);
      const std::string name(
          reinterpret_cast<const char*>(reply.payload.data()) + at + head + FUSE_NAME_OFFSET,
          entry.namelen);
      EXPECT_TRUE(names.emplace(name, entry.off).second) << name << " is listed twice";
      if (plus && name != "." && name != "..") {
        EXPECT_NE(reply.As<fuse_entry_out>(at).nodeid, 0u) << name;
        EXPECT_EQ(reply.As<fuse_entry_out>(at).attr.ino, entry.ino) << name;
      }
      in.offset = entry.off;
      at += head + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry.namelen);
    }
  }
  return names;
}

TEST_F(FileSystemTest, DirectoriesAreListedWholeInAnyPortions) {
  for (int i = 0; i < 500; ++i) {
    WriteFile(std::string(static_cast<size_t>(i % 50) * 5 + 1, 'n') + std::to_string(i), "");
  }
  const auto fh = kernel_->Send(FUSE_OPENDIR, kRoot, fuse_open_in{}).As<fuse_open_out>().fh;
  const auto whole = List(kernel_.get(), fh, 65'536, false);
  EXPECT_EQ(whole.size(), 502u);
  for (const uint32_t bytes : {512u, 4096u, 32'768u}) {
    EXPECT_EQ(List(kernel_.get(), fh, bytes, false), whole) << bytes;
    EXPECT_EQ(List(kernel_.get(), fh, bytes, true), whole) << bytes;
  }
  // Half before a restart, half after.
  auto first = List(kernel_.get(), fh, 4096, true, 0, 3);
  uint64_t last = 0;
  fuse_read_in in{};
  in.fh = fh;
  in.size = 4096;
  for (int i = 0; i < 3; ++i) {
    const Reply reply = kernel_->Send(FUSE_READDIRPLUS, kRoot, in);
    for (size_t at = 0; at < reply.payload.size();) {
      const auto entry = reply.As<fuse_dirent>(at + sizeof(fuse_entry_out));
      last = in.offset = entry.off;
      at += sizeof(fuse_entry_out) + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry.namelen);
    }
  }
  Restart();
  first.merge(List(kernel_.get(), fh, 4096, true, last));
  EXPECT_EQ(first, whole);
  in.size = 8;
  in.offset = 0;
  EXPECT_EQ(kernel_->Send(FUSE_READDIR, kRoot, in).answer, -EINVAL) << "no room for one entry";
  EXPECT_EQ(kernel_->Release(fh), 0);
  EXPECT_EQ(kernel_->Send(FUSE_READDIR, kRoot, in).answer, -EBADF);
}

TEST_F(FileSystemTest, StatfsStatxAndWhatIsLeftToTheKernel) {
  struct statvfs status {};
  ASSERT_EQ(statvfs(directory_.path().c_str(), &status), 0);
  const auto answer = kernel_->SendBytes(FUSE_STATFS, kRoot, {}, {}).As<fuse_statfs_out>();
  EXPECT_EQ(answer.st.blocks, status.f_blocks);
  EXPECT_EQ(answer.st.namelen, 255u);
  WriteFile("f", "abc");
  struct StatxIn {
    uint32_t flags = 0, reserved = 0;
    uint64_t fh = 0;
    uint32_t sx_flags = 0, mask = STATX_BASIC_STATS | STATX_BTIME;
  };
  const Reply statx = kernel_->Send(52, kernel_->Lookup(kRoot, "f"), StatxIn{});
  ASSERT_EQ(statx.answer, 288);
  EXPECT_EQ(statx.As<struct statx>(32).stx_size, 3u);
  for (const uint32_t opcode : {FUSE_FLUSH, FUSE_ACCESS, FUSE_BMAP, FUSE_POLL, FUSE_GETLK,
                                FUSE_SETLK, FUSE_SETLKW, FUSE_READ, FUSE_WRITE}) {
    EXPECT_EQ(kernel_->SendBytes(opcode, kRoot, std::string(128, '\0'), {}).answer, -ENOSYS);
  }
}

TEST_F(FileSystemTest, PathsAreToldForAttribution) {
  ASSERT_GT(kernel_->Mkdir(kRoot, "d"), 0);
  const uint64_t d = kernel_->Lookup(kRoot, "d");
  const auto file = kernel_->Create(d, "f");
  EXPECT_EQ(files_->PathOf(kRoot), "");
  EXPECT_EQ(files_->PathOf(file.node), "d/f");
  EXPECT_EQ(kernel_->Rename(d, "f", kRoot, "g"), 0);
  EXPECT_EQ(files_->PathOf(file.node), "g");
  EXPECT_EQ(kernel_->Unlink(kRoot, "g"), 0);
  EXPECT_FALSE(files_->PathOf(file.node).has_value());
  EXPECT_FALSE(files_->PathOf(12'345).has_value());
}

}  // namespace
}  // namespace weir::volume
