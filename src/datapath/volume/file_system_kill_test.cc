// The promise: a daemon that is killed in the middle of an operation, wherever, shows nothing: its
// successor, on the same state and descriptors, answers the operation when the kernel has it
// delivered again, it has happened exactly once, and no descriptor stays behind.
//
// How: a traced child with the same descriptor table carries out one operation and is killed at its
// n-th system call (before and after it), for every n, and after random numbers of instructions.
#include <linux/fs.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <functional>

#include "base/random.h"
#include "datapath/volume/file_system_test_util.h"

namespace weir::volume {
namespace {

constexpr uint64_t kRoot = kRootNode;
constexpr uint64_t kUnique = 1'000'000;

// A request, as bytes, so that it can be delivered twice.
struct Message {
  uint32_t opcode = 0;
  uint64_t node = kRoot;
  std::string fixed{};
  std::string rest{};
};

template <typename T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

struct Operation {
  const char* name;
  // Prepares the directory and gives the operation; `path` is the backing directory.
  std::function<Message(FakeKernel*, const std::string& path)> prepare;
  // Empty: the answer and what is in the directory are right.
  std::function<std::string(FakeKernel*, const Reply&, const std::string& path)> check;
};

bool Exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}
ino_t InodeOf(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}
void Touch(const std::string& path, size_t bytes = 0) {
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY, 0644);
  const std::string text(bytes, 'x');
  EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(bytes));
  close(fd);
}

std::string CheckEntry(FakeKernel* kernel, const Reply& reply, const std::string& path) {
  if (reply.answer < static_cast<Answer>(sizeof(fuse_entry_out))) return strerror(-reply.answer);
  const auto entry = reply.As<fuse_entry_out>();
  if (entry.attr.ino != InodeOf(path)) return "another file is under the name";
  return kernel->Attributes(entry.nodeid).ino == entry.attr.ino ? "" : "the node is lost";
}

std::string CheckDone(const Reply& reply, bool right) {
  if (reply.answer != 0) return std::strerror(-reply.answer);
  return right ? "" : "it has not happened, or twice";
}

Message Rename(uint32_t flags) {
  const fuse_rename2_in in{.newdir = kRoot, .flags = flags, .padding = 0};
  return {.opcode = FUSE_RENAME2, .fixed = Bytes(in), .rest = Names({"a", "b"})};
}

Message Fallocate(FakeKernel* kernel, const std::string& path, uint32_t mode) {
  Touch(path + "/f", 65'536);
  const uint64_t node = kernel->Lookup(kRoot, "f");
  fuse_fallocate_in in{};
  in.fh = kernel->Open(node, O_RDWR).As<fuse_open_out>().fh;
  in.length = 4096;
  in.mode = mode;
  return {.opcode = FUSE_FALLOCATE, .node = node, .fixed = Bytes(in)};
}

off_t SizeOf(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 ? status.st_size : -1;
}

std::vector<Operation> NameOperations() {
  return {
      {"LOOKUP",
       [](FakeKernel*, const std::string& path) {
         Touch(path + "/a");
         return Message{.opcode = FUSE_LOOKUP, .rest = Names({"a"})};
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string& path) {
         return CheckEntry(kernel, reply, path + "/a");
       }},
      {"MKDIR",
       [](FakeKernel*, const std::string&) {
         return Message{.opcode = FUSE_MKDIR,
                        .fixed = Bytes(fuse_mkdir_in{.mode = 0755, .umask = 0}),
                        .rest = Names({"a"})};
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string& path) {
         return CheckEntry(kernel, reply, path + "/a");
       }},
      {"MKNOD",
       [](FakeKernel*, const std::string&) {
         const fuse_mknod_in in{.mode = S_IFIFO | 0600, .rdev = 0, .umask = 0, .padding = 0};
         return Message{.opcode = FUSE_MKNOD, .fixed = Bytes(in), .rest = Names({"a"})};
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string& path) {
         return CheckEntry(kernel, reply, path + "/a");
       }},
      {"SYMLINK",
       [](FakeKernel*, const std::string&) {
         return Message{.opcode = FUSE_SYMLINK, .rest = Names({"a", "target"})};
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string& path) {
         return CheckEntry(kernel, reply, path + "/a");
       }},
      {"LINK",
       [](FakeKernel* kernel, const std::string& path) {
         Touch(path + "/a");
         const fuse_link_in in{.oldnodeid = kernel->Lookup(kRoot, "a")};
         return Message{.opcode = FUSE_LINK, .fixed = Bytes(in), .rest = Names({"b"})};
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string& path) {
         return CheckEntry(kernel, reply, path + "/b");
       }},
      {"UNLINK",
       [](FakeKernel* kernel, const std::string& path) {
         Touch(path + "/a");
         kernel->Lookup(kRoot, "a");
         return Message{.opcode = FUSE_UNLINK, .rest = Names({"a"})};
       },
       [](FakeKernel*, const Reply& reply, const std::string& path) {
         return CheckDone(reply, !Exists(path + "/a"));
       }},
      {"RMDIR",
       [](FakeKernel* kernel, const std::string& path) {
         mkdir((path + "/a").c_str(), 0755);
         kernel->Lookup(kRoot, "a");
         return Message{.opcode = FUSE_RMDIR, .rest = Names({"a"})};
       },
       [](FakeKernel*, const Reply& reply, const std::string& path) {
         return CheckDone(reply, !Exists(path + "/a"));
       }},
      {"RENAME over another",
       [](FakeKernel* kernel, const std::string& path) {
         Touch(path + "/a", 1);
         Touch(path + "/b", 2);
         kernel->Lookup(kRoot, "b");
         return Rename(0);
       },
       [](FakeKernel*, const Reply& reply, const std::string& path) {
         return CheckDone(reply, !Exists(path + "/a") && SizeOf(path + "/b") == 1);
       }},
      {"RENAME to a free name only",
       [](FakeKernel*, const std::string& path) {
         Touch(path + "/a", 1);
         return Rename(RENAME_NOREPLACE);
       },
       [](FakeKernel*, const Reply& reply, const std::string& path) {
         return CheckDone(reply, !Exists(path + "/a") && SizeOf(path + "/b") == 1);
       }},
      {"RENAME that exchanges",
       [](FakeKernel*, const std::string& path) {
         Touch(path + "/a", 1);
         Touch(path + "/b", 2);
         return Rename(RENAME_EXCHANGE);
       },
       [](FakeKernel*, const Reply& reply, const std::string& path) {
         return CheckDone(reply, SizeOf(path + "/a") == 2 && SizeOf(path + "/b") == 1);
       }},
  };
}

std::string CheckOpened(FakeKernel* kernel, uint64_t fh) {
  if (kernel->files()->open_files() != 1) {
    return std::to_string(kernel->files()->open_files()) + " files are open, not one";
  }
  return kernel->Release(fh) == 0 ? "" : "the handle is lost";
}

std::string CheckCreated(FakeKernel* kernel, const Reply& reply, const std::string& path) {
  if (const std::string error = CheckEntry(kernel, reply, path + "/a"); !error.empty())
    return error;
  return CheckOpened(kernel, reply.As<fuse_open_out>(sizeof(fuse_entry_out)).fh);
}

Message CreateMessage(uint32_t flags) {
  const fuse_create_in in{
      .flags = flags | O_CREAT | O_RDWR, .mode = S_IFREG | 0644, .umask = 022, .open_flags = 0};
  return Message{.opcode = FUSE_CREATE, .fixed = Bytes(in), .rest = Names({"a"})};
}

std::vector<Operation> FileOperations() {
  return {
      {"CREATE of a new file",
       [](FakeKernel*, const std::string&) { return CreateMessage(O_EXCL); }, CheckCreated},
      {"CREATE of one that is there",
       [](FakeKernel*, const std::string& path) {
         Touch(path + "/a", 10);
         return CreateMessage(O_TRUNC);
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string& path) {
         return SizeOf(path + "/a") == 0 ? CheckCreated(kernel, reply, path) : "not truncated";
       }},
      {"TMPFILE",
       [](FakeKernel*, const std::string&) {
         const fuse_create_in in{
             .flags = O_RDWR, .mode = S_IFREG | 0644, .umask = 022, .open_flags = 0};
         return Message{.opcode = FUSE_TMPFILE, .fixed = Bytes(in), .rest = Names({""})};
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string&) -> std::string {
         if (reply.answer == -EOPNOTSUPP) return "";
         if (reply.answer < 0) return strerror(-reply.answer);
         // One more may be open of which the kernel was never told.
         const auto fh = reply.As<fuse_open_out>(sizeof(fuse_entry_out)).fh;
         return kernel->Release(fh) == 0 ? "" : "the handle is lost";
       }},
      {"OPEN",
       [](FakeKernel* kernel, const std::string& path) {
         Touch(path + "/a");
         return Message{.opcode = FUSE_OPEN,
                        .node = kernel->Lookup(kRoot, "a"),
                        .fixed = Bytes(fuse_open_in{.flags = O_RDWR, .open_flags = 0})};
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string&) {
         return CheckOpened(kernel, reply.As<fuse_open_out>().fh);
       }},
      {"OPENDIR",
       [](FakeKernel* kernel, const std::string& path) {
         mkdir((path + "/a").c_str(), 0755);
         return Message{.opcode = FUSE_OPENDIR,
                        .node = kernel->Lookup(kRoot, "a"),
                        .fixed = Bytes(fuse_open_in{})};
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string&) {
         return CheckOpened(kernel, reply.As<fuse_open_out>().fh);
       }},
      {"RELEASE",
       [](FakeKernel* kernel, const std::string& path) {
         Touch(path + "/a");
         fuse_release_in in{};
         in.fh = kernel->Open(kernel->Lookup(kRoot, "a"), O_RDWR).As<fuse_open_out>().fh;
         return Message{.opcode = FUSE_RELEASE, .fixed = Bytes(in)};
       },
       [](FakeKernel* kernel, const Reply& reply, const std::string&) {
         return CheckDone(reply, kernel->files()->open_files() == 0);
       }},
      {"FALLOCATE that collapses",
       [](FakeKernel* kernel, const std::string& path) {
         return Fallocate(kernel, path, FALLOC_FL_COLLAPSE_RANGE);
       },
       [](FakeKernel*, const Reply& reply, const std::string& path) -> std::string {
         if (reply.answer == -EOPNOTSUPP) return "";
         return CheckDone(reply, SizeOf(path + "/f") == 61'440);
       }},
      {"FALLOCATE that inserts",
       [](FakeKernel* kernel, const std::string& path) {
         return Fallocate(kernel, path, FALLOC_FL_INSERT_RANGE);
       },
       [](FakeKernel*, const Reply& reply, const std::string& path) -> std::string {
         if (reply.answer == -EOPNOTSUPP) return "";
         return CheckDone(reply, SizeOf(path + "/f") == 69'632);
       }},
      {"SETXATTR of a new one",
       [](FakeKernel* kernel, const std::string& path) {
         Touch(path + "/a");
         fuse_setxattr_in in{};
         in.size = 1;
         in.flags = XATTR_CREATE;
         return Message{.opcode = FUSE_SETXATTR,
                        .node = kernel->Lookup(kRoot, "a"),
                        .fixed = Bytes(in),
                        .rest = Names({"trusted.x"}) + "v"};
       },
       [](FakeKernel*, const Reply& reply, const std::string&) { return CheckDone(reply, true); }},
      {"REMOVEXATTR",
       [](FakeKernel* kernel, const std::string& path) {
         Touch(path + "/a");
         setxattr((path + "/a").c_str(), "trusted.x", "v", 1, 0);
         return Message{.opcode = FUSE_REMOVEXATTR,
                        .node = kernel->Lookup(kRoot, "a"),
                        .rest = Names({"trusted.x"})};
       },
       [](FakeKernel*, const Reply& reply, const std::string&) { return CheckDone(reply, true); }},
  };
}

// Where the child is killed.
struct KillPoint {
  int stops = 0;  // system calls begun or ended; 0: count instructions
  int64_t instructions = 0;
};

// Carries the operation out in a traced child and kills it at the point. False: it was done before
// (killed all the same, after the answer).
bool RunAndKill(const std::string& path, const StateRegion& region, const Message& message,
                KillPoint point) {
  const auto child = static_cast<pid_t>(syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    auto files = OpenFiles(path, region);
    FakeKernel kernel(files.get());
    kernel.next_unique = kUnique;
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    kernel.SendBytes(message.opcode, message.node, message.fixed, message.rest);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const auto step = point.stops > 0 ? PTRACE_SYSCALL : PTRACE_SINGLESTEP;
  const int64_t steps = point.stops > 0 ? point.stops : point.instructions;
  bool done = false;
  for (int64_t i = 0; i < steps && !done; ++i) {
    ptrace(step, child, nullptr, nullptr);
    waitpid(child, &status, 0);
    done = !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP;
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return !done;
}

class FileSystemKillTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
  }

  // One operation, killed at the point, delivered again. False: the point is behind its end.
  bool KillAt(const Operation& operation, KillPoint point) {
    const std::string where = std::string(operation.name) + ", killed after " +
                              std::to_string(point.stops) + " stops or " +
                              std::to_string(point.instructions) + " instructions";
    const size_t descriptors = OpenDescriptors();
    bool within = false;
    {
      const TemporaryDirectory directory;
      const StateRegion region;
      auto files = OpenFiles(directory.path(), region);
      auto kernel = std::make_unique<FakeKernel>(files.get());
      const Message message = operation.prepare(kernel.get(), directory.path());
      files.reset();
      within = RunAndKill(directory.path(), region, message, point);
      files = OpenFiles(directory.path(), region);
      kernel = std::make_unique<FakeKernel>(files.get());
      kernel->next_unique = kUnique;
      kernel->resend_next = true;
      const Reply reply =
          kernel->SendBytes(message.opcode, message.node, message.fixed, message.rest);
      EXPECT_EQ(operation.check(kernel.get(), reply, directory.path()), "") << where;
      files->CloseAll();
    }
    EXPECT_EQ(OpenDescriptors(), descriptors) << where;
    return within;
  }
};

class FileSystemKillOperationTest : public FileSystemKillTest,
                                    public testing::WithParamInterface<Operation> {};

TEST_P(FileSystemKillOperationTest, HappensOnceWhateverSystemCallTheDaemonIsKilledAt) {
  int stops = 1;
  while (KillAt(GetParam(), KillPoint{.stops = stops}) && !HasFailure()) {
    ++stops;
    ASSERT_LT(stops, 1000);
  }
  EXPECT_GT(stops, 2) << "nothing was traced";
}

TEST_P(FileSystemKillOperationTest, HappensOnceWhateverInstructionTheDaemonIsKilledAt) {
  // Stepping is slow, so a few points each; the seed differs between operations.
  Random random(std::string_view(GetParam().name).size() * 31 +
                static_cast<uint8_t>(GetParam().name[0]));
  int64_t most = 8000;  // lowered to what the operation takes
  for (int i = 0; i < 3 && !HasFailure(); ++i) {
    const int64_t at = random.Range(1, most);
    if (!KillAt(GetParam(), KillPoint{.instructions = at})) most = at;
  }
}

std::string TestName(const testing::TestParamInfo<Operation>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Names, FileSystemKillOperationTest, testing::ValuesIn(NameOperations()),
                         TestName);
INSTANTIATE_TEST_SUITE_P(Files, FileSystemKillOperationTest, testing::ValuesIn(FileOperations()),
                         TestName);

// A second successor, because the first died before it came to the request.
TEST_F(FileSystemKillTest, TheJournalOutlivesSeveralDaemons) {
  const TemporaryDirectory directory;
  const StateRegion region;
  const fuse_mkdir_in in{.mode = 0755, .umask = 0};
  {
    auto files = OpenFiles(directory.path(), region);
    FakeKernel kernel(files.get());
    kernel.next_unique = kUnique;
    ASSERT_GT(kernel.Send(FUSE_MKDIR, kRoot, in, Names({"a"})).answer, 0);
  }
  for (int i = 0; i < 3; ++i) OpenFiles(directory.path(), region).reset();
  auto files = OpenFiles(directory.path(), region);
  FakeKernel kernel(files.get());
  kernel.next_unique = kUnique;
  kernel.resend_next = true;
  EXPECT_EQ(CheckEntry(&kernel, kernel.Send(FUSE_MKDIR, kRoot, in, Names({"a"})), directory / "a"),
            "");
  kernel.next_unique = kUnique + 2;
  EXPECT_EQ(kernel.Send(FUSE_MKDIR, kRoot, in, Names({"a"})).answer, -EEXIST)
      << "another request is another operation";
}

}  // namespace
}  // namespace weir::volume
