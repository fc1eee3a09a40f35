// The promise: nothing that a request says, however wrong, crashes the daemon or leads it out of
// the backing directory; limits are reported, not passed.
#include <sys/mount.h>
#include <sys/wait.h>

#include <set>
#include <thread>

#include "base/random.h"
#include "datapath/volume/file_system_test_util.h"

namespace weir::volume {
namespace {

constexpr uint64_t kRoot = kRootNode;

class FileSystemHostileTest : public FileSystemTest {};

TEST_F(FileSystemHostileTest, NamesThatAreNotOneEntryAreRefused) {
  struct Case {
    std::string name;
    Answer error;
  };
  const std::vector<Case> cases = {{"", -EINVAL},
                                   {".", -EINVAL},
                                   {"..", -EINVAL},
                                   {"a/b", -EINVAL},
                                   {"/", -EINVAL},
                                   {"../../etc/passwd", -EINVAL},
                                   {"/etc", -EINVAL},
                                   {std::string(256, 'n'), -ENAMETOOLONG},
                                   {std::string(5000, 'n'), -ENAMETOOLONG}};
  ASSERT_GT(kernel_->Create(kRoot, "f").answer, 0);
  for (const Case& c : cases) {
    EXPECT_EQ(kernel_->SendNames(FUSE_LOOKUP, kRoot, {c.name}).answer, c.error) << c.name;
    EXPECT_EQ(kernel_->Create(kRoot, c.name).answer, c.error) << c.name;
    EXPECT_EQ(kernel_->Mkdir(kRoot, c.name), c.error) << c.name;
    EXPECT_EQ(kernel_->Unlink(kRoot, c.name), c.error) << c.name;
    EXPECT_EQ(kernel_->Rmdir(kRoot, c.name), c.error) << c.name;
    EXPECT_EQ(kernel_->Rename(kRoot, "f", kRoot, c.name), c.error) << c.name;
    EXPECT_EQ(kernel_->Rename(kRoot, c.name, kRoot, "g"), c.error) << c.name;
    EXPECT_EQ(kernel_->Link(kernel_->Lookup(kRoot, "f"), kRoot, c.name), c.error) << c.name;
    EXPECT_EQ(kernel_->SendNames(FUSE_SYMLINK, kRoot, {c.name, "t"}).answer, c.error) << c.name;
  }
  // Not ended by NUL, or missing.
  EXPECT_EQ(kernel_->SendBytes(FUSE_LOOKUP, kRoot, {}, "abc").answer, -EINVAL);
  EXPECT_EQ(kernel_->SendBytes(FUSE_LOOKUP, kRoot, {}, {}).answer, -EINVAL);
  EXPECT_EQ(kernel_->SendNames(FUSE_SYMLINK, kRoot, {"s"}).answer, -EINVAL);
  EXPECT_EQ(kernel_->SendNames(FUSE_SYMLINK, kRoot, {"s", ""}).answer, -ENOENT);
  EXPECT_TRUE(Exists("f"));
}

TEST_F(FileSystemHostileTest, NamesOf255BytesAreFine) {
  const std::string name(255, 'n');
  ASSERT_GT(kernel_->Create(kRoot, name).answer, 0);
  EXPECT_NE(kernel_->Lookup(kRoot, name), 0u);
  EXPECT_EQ(kernel_->Unlink(kRoot, name), 0);
}

TEST_F(FileSystemHostileTest, SymbolicLinksLeadNowhere) {
  const TemporaryDirectory outside;
  ASSERT_EQ(mkdir((outside / "d").c_str(), 0777), 0);
  ASSERT_EQ(symlink(outside.path().c_str(), (directory_ / "out").c_str()), 0);
  ASSERT_EQ(symlink((outside / "victim").c_str(), (directory_ / "file").c_str()), 0);
  const uint64_t out = kernel_->Lookup(kRoot, "out");
  ASSERT_NE(out, 0u);
  EXPECT_EQ(kernel_->SendNames(FUSE_LOOKUP, out, {"d"}).answer, -ENOTDIR);
  EXPECT_EQ(kernel_->Create(out, "x").answer, -ENOTDIR);
  EXPECT_EQ(kernel_->Mkdir(out, "x"), -ENOTDIR);
  EXPECT_EQ(kernel_->Send(FUSE_OPENDIR, out, fuse_open_in{}).answer, -ENOTDIR);
  EXPECT_LT(kernel_->Create(kRoot, "file", O_RDWR).answer, 0);
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE;
  EXPECT_EQ(kernel_->Send(FUSE_SETATTR, kernel_->Lookup(kRoot, "file"), in).answer, -EINVAL);
  EXPECT_FALSE(std::filesystem::exists(outside / "victim"));
  // A directory that becomes a link while its node is known stays what the node was.
  ASSERT_GT(kernel_->Mkdir(kRoot, "d"), 0);
  const uint64_t d = kernel_->Lookup(kRoot, "d");
  ASSERT_EQ(rename((directory_ / "d").c_str(), (directory_ / "e").c_str()), 0);
  ASSERT_EQ(symlink(outside.path().c_str(), (directory_ / "d").c_str()), 0);
  ASSERT_GT(kernel_->Create(d, "inside").answer, 0);
  EXPECT_TRUE(Exists("e/inside"));
  EXPECT_FALSE(std::filesystem::exists(outside / "inside"));
}

TEST_F(FileSystemHostileTest, OtherFileSystemsBelowAreNotEntered) {
  ASSERT_EQ(mkdir((directory_ / "m").c_str(), 0755), 0);
  if (mount("none", (directory_ / "m").c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "mounting is not allowed here";
  }
  EXPECT_EQ(kernel_->SendNames(FUSE_LOOKUP, kRoot, {"m"}).answer, -EXDEV);
  const auto fh = kernel_->Send(FUSE_OPENDIR, kRoot, fuse_open_in{}).As<fuse_open_out>().fh;
  fuse_read_in in{};
  in.fh = fh;
  in.size = 4096;
  EXPECT_GT(kernel_->Send(FUSE_READDIRPLUS, kRoot, in).answer, 0) << "its parent is listed";
  EXPECT_EQ(umount2((directory_ / "m").c_str(), MNT_DETACH), 0);
}

TEST_F(FileSystemHostileTest, UnknownNodesAndHandlesAreStale) {
  const auto file = kernel_->Create(kRoot, "f");
  const std::vector<uint64_t> ids = {0,
                                     2,
                                     77,
                                     UINT32_MAX,
                                     UINT64_MAX,
                                     file.node + 1,
                                     file.node + (uint64_t{1} << 32),
                                     file.node - (uint64_t{1} << 32)};
  const std::string zeros(128, '\0');
  for (const uint64_t id : ids) {
    EXPECT_EQ(kernel_->Send(FUSE_GETATTR, id, fuse_getattr_in{}).answer, -ESTALE) << id;
    EXPECT_EQ(kernel_->SendNames(FUSE_LOOKUP, id, {"f"}).answer, -ESTALE) << id;
    EXPECT_EQ(kernel_->Create(id, "x").answer, -ESTALE) << id;
    EXPECT_EQ(kernel_->Rename(kRoot, "f", id, "g"), -ESTALE) << id;
    EXPECT_EQ(kernel_->Link(id, kRoot, "g"), -ESTALE) << id;
    EXPECT_EQ(kernel_->Open(id, O_RDONLY).answer, -ESTALE) << id;
    kernel_->Forget(id, 5);
  }
  for (const uint64_t fh : {uint64_t{0}, file.fh + 1, file.fh + (uint64_t{1} << 32), UINT64_MAX}) {
    EXPECT_FALSE(files_->File(fh).has_value()) << fh;
    fuse_read_in read{};
    read.fh = fh;
    read.size = 4096;
    EXPECT_EQ(kernel_->Send(FUSE_READDIR, kRoot, read).answer, -EBADF) << fh;
    fuse_fallocate_in fallocate{};
    fallocate.fh = fh;
    EXPECT_EQ(kernel_->Send(FUSE_FALLOCATE, file.node, fallocate).answer, -EBADF) << fh;
    fuse_lseek_in lseek{};
    lseek.fh = fh;
    EXPECT_EQ(kernel_->Send(FUSE_LSEEK, file.node, lseek).answer, -EBADF) << fh;
    EXPECT_EQ(kernel_->Release(fh), -EBADF) << fh;
  }
  fuse_read_in read{};
  read.fh = file.fh;
  EXPECT_EQ(kernel_->Send(FUSE_READDIR, kRoot, read).answer, -ENOTDIR) << "a file's handle";
  kernel_->Forget(kRoot, UINT64_MAX);
  EXPECT_GT(kernel_->Send(FUSE_GETATTR, kRoot, fuse_getattr_in{}).answer, 0);
}

// Every opcode, with every length of the fixed part, random contents, real and wrong ids.
TEST_F(FileSystemHostileTest, RandomRequestsNeverCrash) {
  const TemporaryDirectory outside;
  Random random(1);
  const auto file = kernel_->Create(kRoot, "f");
  ASSERT_GT(kernel_->Mkdir(kRoot, "d"), 0);
  const auto directory = kernel_->Send(FUSE_OPENDIR, kRoot, fuse_open_in{}).As<fuse_open_out>().fh;
  const std::vector<uint64_t> numbers = {0,
                                         1,
                                         2,
                                         file.node,
                                         file.fh,
                                         directory,
                                         kernel_->Lookup(kRoot, "d"),
                                         4096,
                                         UINT32_MAX,
                                         UINT64_MAX,
                                         uint64_t{1} << 63};
  const std::vector<std::string> names = {
      "f", "d", "x", "y", "..", "", "user.a", "a/b", std::string(255, 'n')};
  for (int i = 0; i < 60'000; ++i) {
    const auto opcode = static_cast<uint32_t>(random.Range(0, 70));
    if (opcode == FUSE_SYNCFS || opcode == FUSE_FSYNCDIR) continue;  // slow
    std::string fixed(static_cast<size_t>(random.Range(0, 16)) * 8, '\0');
    for (size_t at = 0; at < fixed.size(); at += 4) {
      const uint64_t number = random.Chance(0.7) ? numbers[static_cast<size_t>(random.Range(0, 10))]
                                                 : static_cast<uint64_t>(random.Range(0, 0xffff));
      const size_t bytes = at % 8 == 0 ? 8 : 4;
      if (at % 8 != 0 && random.Chance(0.5)) continue;
      std::memcpy(fixed.data() + at, &number, std::min(bytes, fixed.size() - at));
    }
    std::string rest;
    for (int64_t n = random.Range(0, 3); n > 0; --n) {
      rest += names[static_cast<size_t>(random.Range(0, 8))];
      if (random.Chance(0.95)) rest += '\0';
    }
    kernel_->room = static_cast<size_t>(random.Chance(0.3) ? random.Range(0, 200) : 8192);
    kernel_->caller.uid = static_cast<uint32_t>(random.Range(-1, 1));
    kernel_->resend_next = random.Chance(0.1);
    kernel_->SendBytes(opcode, numbers[static_cast<size_t>(random.Range(0, 10))], fixed, rest);
  }
  kernel_->room = 8192;
  kernel_->caller = Caller{};
  EXPECT_GT(kernel_->Send(FUSE_GETATTR, kRoot, fuse_getattr_in{}).answer, 0);
  EXPECT_TRUE(std::filesystem::is_empty(outside.path()));
}

TEST_F(FileSystemHostileTest, LimitsAreErrorsAndPass) {
  FileSystemOptions options;
  options.max_nodes = 4;
  options.max_open_files = 2;
  const TemporaryDirectory directory;
  const StateRegion region;
  const auto files = OpenFiles(directory.path(), region, options);
  FakeKernel kernel(files.get());
  const auto a = kernel.Create(kRoot, "a");
  const auto b = kernel.Create(kRoot, "b");
  ASSERT_GT(b.answer, 0);
  EXPECT_EQ(kernel.Create(kRoot, "c").answer, -ENFILE);
  EXPECT_EQ(kernel.Open(a.node, O_RDONLY).answer, -ENFILE);
  EXPECT_EQ(kernel.Release(b.fh), 0);
  EXPECT_GT(kernel.Open(a.node, O_RDONLY).answer, 0);
  ASSERT_GT(kernel.Mkdir(kRoot, "d"), 0);
  ASSERT_GT(kernel.Mkdir(kRoot, "e"), 0);
  const size_t descriptors = OpenDescriptors();
  EXPECT_EQ(kernel.Mkdir(kRoot, "f"), -ENOMEM);
  EXPECT_EQ(kernel.SendNames(FUSE_LOOKUP, kRoot, {"f"}).answer, -ENOMEM);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  const auto fh = b.fh;
  EXPECT_FALSE(files->File(fh).has_value());
  kernel.Forget(b.node, 1);
  EXPECT_NE(kernel.Lookup(kRoot, "f"), 0u);
  files->CloseAll();
}

TEST_F(FileSystemHostileTest, OptionsAndForeignStatesAreRefused) {
  FileSystemOptions options;
  options.backing_path = directory_.path();
  EXPECT_EQ(FileSystem::Open(options).error().code, ErrorCode::kInvalidArgument);
  const TemporaryDirectory other;
  options.backing_path = other.path();
  options.state = region_.bytes();
  EXPECT_EQ(FileSystem::Open(options).error().code, ErrorCode::kFailedPrecondition);
  const StateRegion fresh;
  options.state = fresh.bytes();
  options.backing_path = other / "missing";
  const auto missing = FileSystem::Open(options);
  EXPECT_EQ(missing.error().sys_errno, ENOENT);
  EXPECT_NE(missing.error().message.find(other / "missing"), std::string::npos);
  options.backing_path = other.path();
  options.max_open_files = kMaxOpenFiles + 1;
  EXPECT_EQ(FileSystem::Open(options).error().code, ErrorCode::kInvalidArgument);
}

// Threads as the workers: each answer is sent before the next call. The counts come out right.
TEST_F(FileSystemHostileTest, ManyThreadsAtOnce) {
  constexpr int kThreads = 6;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      FakeKernel kernel(files_.get());
      kernel.next_unique = 1'000'000u * static_cast<unsigned>(t + 1);
      kernel.caller = Caller{.uid = 1000u + static_cast<unsigned>(t), .gid = 1, .pid = 1};
      const std::string own = "own" + std::to_string(t);
      for (int i = 0; i < 200; ++i) {
        const auto created = kernel.Create(kRoot, own);
        ASSERT_GT(created.answer, 0);
        EXPECT_EQ(created.attributes.uid, kernel.caller.uid);
        EXPECT_TRUE(files_->File(created.fh).has_value());
        const uint64_t shared = kernel.Lookup(kRoot, "shared");
        if (shared != 0) {
          kernel.Attributes(shared);
          kernel.Forget(shared, 1);
        }
        EXPECT_EQ(kernel.Rename(kRoot, own, kRoot, own + "x"), 0);
        EXPECT_EQ(kernel.Unlink(kRoot, own + "x"), 0);
        EXPECT_EQ(kernel.Release(created.fh), 0);
        kernel.Forget(created.node, 1);
      }
    });
  }
  WriteFile("shared", "abc");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files_->open_files(), 0u);
  EXPECT_EQ(files_->nodes(), 0u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1);
}

}  // namespace
}  // namespace weir::volume
