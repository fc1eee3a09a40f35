#include "volume_compare_mount.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"
#include "datapath/volume/file_system.h"
#include "datapath/volume/protocol.h"

namespace weir::volume {

namespace {

constexpr size_t kMessageBytes = (1u << 20) + 8192;
constexpr int kThreads = 3;

bool SendAnswer(int fuse, uint64_t unique, Answer answer, std::span<const std::byte> payload) {
  fuse_out_header header = AnswerHeader(unique, answer);
  const size_t bytes = answer > 0 ? static_cast<size_t>(answer) : 0;
  const std::array<iovec, 2> parts = {iovec{&header, sizeof(header)},
                                      iovec{const_cast<std::byte*>(payload.data()), bytes}};
  return writev(fuse, parts.data(), bytes > 0 ? 2 : 1) >= 0;
}

// INIT, answered before there is a daemon, as the supervisor does.
bool AnswerInit(int fuse) {
  std::vector<std::byte> message(kMessageBytes);
  const ssize_t bytes = read(fuse, message.data(), message.size());
  if (bytes < static_cast<ssize_t>(sizeof(fuse_in_header) + 16)) return false;
  fuse_in_header header{};
  std::memcpy(&header, message.data(), sizeof(header));
  fuse_init_in in{};
  std::memcpy(&in, message.data() + sizeof(header),
              std::min(sizeof(in), static_cast<size_t>(bytes) - sizeof(header)));
  if (header.opcode != FUSE_INIT) return false;
  const uint64_t wanted = kInitFlags | FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_MAX_PAGES |
                          FUSE_ASYNC_DIO | FUSE_INIT_EXT | abi::kHasResend;
  const uint64_t agreed = wanted & (in.flags | static_cast<uint64_t>(in.flags2) << 32);
  fuse_init_out out{};
  out.major = FUSE_KERNEL_VERSION;
  out.minor = 42;
  out.max_readahead = in.max_readahead;
  out.flags = static_cast<uint32_t>(agreed);
  out.flags2 = static_cast<uint32_t>(agreed >> 32);
  out.max_background = 64;
  out.congestion_threshold = 64;
  out.max_write = 1u << 20;
  out.max_pages = 256;
  out.time_gran = 1;
  return SendAnswer(fuse, header.unique, sizeof(out), std::as_bytes(std::span(&out, 1)));
}

Answer Data(FileSystem* files, const Request& request, std::span<std::byte> out) {
  switch (request.opcode) {
    case FUSE_READ: {
      const auto in = FixedAs<fuse_read_in>(request);
      const auto file = files->File(in.fh);
      if (!file.has_value()) return -EBADF;
      const ssize_t bytes =
          pread(file->buffered_fd, out.data(), std::min<size_t>(in.size, out.size()),
                static_cast<off_t>(in.offset));
      return bytes < 0 ? -errno : static_cast<Answer>(bytes);
    }
    case FUSE_WRITE: {
      const auto in = FixedAs<fuse_write_in>(request);
      const auto file = files->File(in.fh);
      if (!file.has_value()) return -EBADF;
      if ((in.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0) files->DropSetId(in.fh);
      const ssize_t bytes =
          pwrite(file->buffered_fd, request.rest.data(), in.size, static_cast<off_t>(in.offset));
      if (bytes < 0) return -errno;
      const fuse_write_out answer{.size = static_cast<uint32_t>(bytes), .padding = 0};
      std::memcpy(out.data(), &answer, sizeof(answer));
      return sizeof(answer);
    }
    case FUSE_FSYNC: {
      const auto file = files->File(FixedAs<fuse_fsync_in>(request).fh);
      if (!file.has_value()) return -EBADF;
      return fsync(file->buffered_fd) == 0 ? 0 : -errno;
    }
    default:
      return files->Handle(request, out);
  }
}

void Serve(FileSystem* files, int fuse) {
  std::vector<std::byte> message(kMessageBytes);
  std::vector<std::byte> out(kMessageBytes);
  for (;;) {
    const ssize_t bytes = read(fuse, message.data(), message.size());
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
    if (bytes <= 0) _exit(0);  // unmounted
    const Decoded decoded = Decode(std::span(message).first(static_cast<size_t>(bytes)));
    const Request& request = decoded.request;
    if (decoded.error == -EBADMSG || request.opcode == FUSE_INTERRUPT) continue;
    Answer answer = decoded.error;
    if (answer == 0) answer = Data(files, request, out);
    if (WantsNoAnswer(request.opcode)) continue;
    SendAnswer(fuse, request.unique, answer, out);
  }
}

[[noreturn]] void RunDaemon(int fuse, int backing, std::span<std::byte> state, bool resend) {
  FileSystemOptions options;
  options.backing_fd = backing;
  options.state = state;
  auto files = FileSystem::Open(options);
  if (!files.has_value()) _exit(2);
  if (resend) {
    const fuse_out_header message = ResendMessage();
    if (write(fuse, &message, sizeof(message)) < 0) _exit(3);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] { Serve(files->get(), fuse); });
  }
  for (std::thread& thread : threads) thread.join();
  _exit(0);
}

// The daemon's descriptors outlive it here (CLONE_FILES), as its state does.
pid_t StartDaemon(int fuse, int backing, std::span<std::byte> state, bool resend) {
  const pid_t parent = getpid();
  const auto pid = static_cast<pid_t>(syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0));
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  RunDaemon(fuse, backing, state, resend);
}

[[noreturn]] void Supervise(int fuse, int backing, std::chrono::microseconds kill_every,
                            std::atomic<uint64_t>* replaced) {
  const size_t bytes = FileSystem::StateBytes();
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) _exit(1);
  const std::span<std::byte> state(static_cast<std::byte*>(data), bytes);
  Random random(static_cast<uint64_t>(getpid()));
  for (bool resend = false;; resend = true) {
    const pid_t daemon = StartDaemon(fuse, backing, state, resend);
    if (daemon < 0) _exit(1);
    if (kill_every.count() > 0) {
      usleep(static_cast<useconds_t>(random.Exponential(static_cast<double>(kill_every.count()))));
      kill(daemon, SIGKILL);
    }
    int status = 0;
    waitpid(daemon, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) _exit(WEXITSTATUS(status));
    replaced->fetch_add(1);
  }
}

}  // namespace

std::unique_ptr<TestMount> TestMount::Start(const std::string& backing,
                                            const std::string& mountpoint,
                                            std::chrono::microseconds kill_every,
                                            std::string* why) {
  const int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fuse < 0) {
    *why = std::string("/dev/fuse cannot be opened: ") + std::strerror(errno);
    return nullptr;
  }
  const std::string options = "fd=" + std::to_string(fuse) +
                              ",rootmode=40755,user_id=0,group_id=0,allow_other,"
                              "default_permissions";
  if (mount("weir-test", mountpoint.c_str(), "fuse.weir-test", 0, options.c_str()) != 0) {
    *why = std::string("mounting is not allowed: ") + std::strerror(errno);
    close(fuse);
    return nullptr;
  }
  std::unique_ptr<TestMount> made(new TestMount(mountpoint));
  const int directory = open(backing.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  const pid_t parent = getpid();
  made->supervisor_ = fork();
  if (made->supervisor_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !AnswerInit(fuse)) _exit(1);
    Supervise(fuse, directory, kill_every, made->replaced_);
  }
  close(fuse);  // the supervisor's: when it is gone the mount answers with errors, never hangs
  close(directory);
  return made;
}

TestMount::TestMount(std::string mountpoint)
    : mountpoint_(std::move(mountpoint)),
      replaced_(static_cast<std::atomic<uint64_t>*>(
          mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}

TestMount::~TestMount() {
  if (umount2(mountpoint_.c_str(), 0) != 0) umount2(mountpoint_.c_str(), MNT_DETACH);
  if (supervisor_ > 0) {
    kill(supervisor_, SIGKILL);
    waitpid(supervisor_, nullptr, 0);
  }
  munmap(replaced_, 4096);
}

}  // namespace weir::volume
