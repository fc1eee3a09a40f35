#include "datapath/volume/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/monotonic_clock.h"

namespace weir::volume {

namespace {

// Restarts in a row, and one more for each second: a daemon that dies of a request that it is
// given again and again ends the volume, kills by hand do not.
constexpr double kRestartBurst = 60;
constexpr int kMostFruitless = 8;
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr int kRingGoneMs = 60'000;
constexpr Duration kFinishLimit = std::chrono::seconds(10);

sigset_t HandledSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  return set;
}

// As fork(2), but parent and child have one table of descriptors.
pid_t ForkSharingFiles() {
  const auto pid = static_cast<pid_t>(
      syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) {
    // The C library keeps the thread's id, which its own fork would have renewed, where the kernel
    // clears it at the thread's end.
    int* thread_id = nullptr;
    if (prctl(PR_GET_TID_ADDRESS, &thread_id) == 0 && thread_id != nullptr) {
      *thread_id = static_cast<int>(syscall(SYS_gettid));
    }
  }
  return pid;
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

double Millis(Duration duration) { return ToSeconds(duration) * 1e3; }

}  // namespace

template <typename... Args>
void Supervisor::Say(const char* format, const Args&... args) const {
  if (options_.quiet) return;
  fmt::print(stderr, "weir volume: {}\n", fmt::format(fmt::runtime(format), args...));
}

Supervisor::~Supervisor() {
  if (is_mounted_) umount2(options_.mount.mountpoint.c_str(), MNT_DETACH);
  if (region_ != nullptr) munmap(region_, kControlBytes + options_.state_bytes);
}

Result<void> Supervisor::MakeState() {
  const size_t bytes = kControlBytes + options_.state_bytes;
  if (region_ != nullptr) munmap(region_, bytes);
  region_ = nullptr;
  const int fd = memfd_create("weir-volume", MFD_CLOEXEC);
  void* memory = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  const int error = errno;
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("cannot reserve {} bytes of shared memory for the volume's state: {}",
                            bytes, std::strerror(error)),
                error);
  }
  region_ = static_cast<std::byte*>(memory);
  control_ = new (region_) SharedControl{};
  for (auto& fd_slot : control_->private_fds) fd_slot.store(-1);
  return {};
}

Result<void> Supervisor::Prepare() {
  if (auto made = MakeState(); !made) return made;
  auto mounted = MountVolume(options_.mount);
  if (!mounted) return tl::unexpected(std::move(mounted.error()));
  mounted_ = *mounted;
  is_mounted_ = true;
  restarts_left_ = kRestartBurst;
  restarts_at_ = MonotonicNow();
  return {};
}

bool Supervisor::StartDaemon() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  lifetime_read_fd_ = ends[0];
  control_->private_fds[0].store(ends[1]);
  std::fflush(nullptr);
  const pid_t supervisor = getpid();
  const pid_t pid = resumable() ? ForkSharingFiles() : fork();
  if (pid < 0) return false;
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) _exit(kDaemonFailed);
    DaemonStart start;
    start.generation = generation_;
    start.resumes = resumable() && generation_ > 0;
    start.device_fd = mounted_.device_fd;
    start.init = mounted_.init;
    start.lifetime_fd = ends[1];
    start.control = control_;
    start.state = std::span<std::byte>(region_ + kControlBytes, options_.state_bytes);
    const int status = options_.daemon(start);
    std::fflush(nullptr);
    _exit(status);
  }
  daemon_ = pid;
  if (!resumable()) close(ends[1]);
  return true;
}

int Supervisor::Run() {
  const sigset_t handled = HandledSignals();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &handled, &before);
  if (!StartDaemon()) GiveUp("cannot start a process");
  while (!done_) {
    siginfo_t info{};
    const TimePoint deadline = NextDeadline();
    int signal = 0;
    if (deadline == kNever) {
      signal = sigwaitinfo(&handled, &info);
    } else {
      const int64_t ns = std::max<int64_t>(0, ToNanos(deadline - MonotonicNow()));
      const timespec limit{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
      signal = sigtimedwait(&handled, &info, &limit);
    }
    if (signal > 0) HandleSignal(signal);
    CheckDeadline();
  }
  EndDaemon();
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return status_;
}

// What it has accepted it may finish.
void Supervisor::EndDaemon() {
  if (daemon_ <= 0) return;
  kill(daemon_, SIGTERM);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const TimePoint limit = MonotonicNow() + kFinishLimit;
  while (waitpid(daemon_, nullptr, WNOHANG) == 0) {
    if (MonotonicNow() >= limit) kill(daemon_, SIGKILL);
    const timespec turn{.tv_sec = 0, .tv_nsec = 20'000'000};
    sigtimedwait(&child, nullptr, &turn);
  }
  daemon_ = -1;
}

TimePoint Supervisor::NextDeadline() const {
  TimePoint next = kNever;
  if (restart_due_) next = std::min(next, restart_at_);
  if (lazily_) next = std::min(next, stop_by_);
  return next;
}

void Supervisor::CheckDeadline() {
  const TimePoint now = MonotonicNow();
  if (restart_due_ && now >= restart_at_ && !done_) {
    restart_due_ = false;
    if (!resumable() && !MountAnew()) return;
    if (!StartDaemon()) return GiveUp("cannot start a process");
    Say("daemon {} started {:.0f} ms after the end of its predecessor", generation_,
        Millis(MonotonicNow() - died_at_));
  }
  if (lazily_ && now >= stop_by_ && !done_) {
    Say("programs still use the volume; their files fail from now on");
    done_ = true;
  }
}

void Supervisor::HandleSignal(int signal) {
  switch (signal) {
    case SIGCHLD:
      return ReapChildren();
    case SIGHUP:
      if (stopping_ || daemon_ <= 0) return;
      Say("a new daemon takes over");
      handing_over_ = true;
      kill(daemon_, SIGUSR1);
      return;
    default:
      if (stopping_) {  // asked twice
        Say("stopped without waiting for the volume's users");
        done_ = true;
        return;
      }
      stopping_ = true;
      BeginUnmount(false);
  }
}

void Supervisor::ReapChildren() {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid == daemon_) DaemonDied(status);
    if (pid == unmounter_) UnmountEnded(status);
  }
}

// --- Daemons that end ---------------------------------------------------------------------------

void Supervisor::CloseRemains() {
  for (auto& slot : control_->private_fds) {
    const int fd = slot.exchange(-1);
    if (fd >= 0 && resumable()) close(fd);
  }
}

// Writes of a dead daemon may still be in the kernel's hands; if they came after what its
// successor does, they would undo it.
void Supervisor::AwaitRingGone() {
  pollfd wait{.fd = lifetime_read_fd_, .events = POLLIN, .revents = 0};
  if (poll(&wait, 1, kRingGoneMs) == 0) {
    Say("the kernel still holds I/O of the daemon that died, after {} s", kRingGoneMs / 1000);
  }
  close(lifetime_read_fd_);
  lifetime_read_fd_ = -1;
}

void Supervisor::DaemonDied(int status) {
  died_at_ = MonotonicNow();
  daemon_ = -1;
  const bool served = control_->serving.load() == generation_ + 1;
  CloseRemains();
  AwaitRingGone();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kDaemonUnmounted) {
    is_mounted_ = false;
    done_ = true;
    return;
  }
  const bool as_asked =
      handing_over_ && WIFEXITED(status) && WEXITSTATUS(status) == kDaemonHandsOver;
  handing_over_ = false;
  if (!as_asked) Say("daemon {} {}", generation_, HowItEnded(status));
  if (generation_ == 0 && !served) return GiveUp("the daemon could not start");
  if (!as_asked && !MayRestart(served)) return GiveUp("its daemons die too often");
  ++generation_;
  restart_due_ = true;
  restart_at_ = died_at_;
  if (fruitless_ > 0) restart_at_ = restart_at_ + kFirstPause * (1 << fruitless_);
  CheckDeadline();
}

bool Supervisor::MayRestart(bool served) {
  const TimePoint now = MonotonicNow();
  restarts_left_ = std::min(kRestartBurst, restarts_left_ + ToSeconds(now - restarts_at_));
  restarts_at_ = now;
  restarts_left_ -= 1;
  fruitless_ = served ? 0 : fruitless_ + 1;
  return restarts_left_ >= 0 && fruitless_ < kMostFruitless;
}

bool Supervisor::MountAnew() {
  umount2(options_.mount.mountpoint.c_str(), MNT_DETACH);
  close(mounted_.device_fd);
  is_mounted_ = false;
  Result<void> ready = Prepare();
  if (!ready) {
    fmt::print(stderr, "weir volume: {}\n", ready.error().message);
    GiveUp("it cannot be mounted again");
    return false;
  }
  Say("{} is mounted again; files that were open must be opened again", options_.mount.mountpoint);
  return true;
}

// --- The end ------------------------------------------------------------------------------------

// In a process of its own: it may wait for requests that a daemon has yet to answer.
void Supervisor::BeginUnmount(bool lazily) {
  lazily_ = lazily;
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const int result = umount2(options_.mount.mountpoint.c_str(), lazily ? MNT_DETACH : 0);
    _exit(result == 0 ? 0 : std::min(errno, 255));
  }
  unmounter_ = pid;
  if (pid < 0) GiveUp("cannot start a process to unmount");
}

void Supervisor::UnmountEnded(int status) {
  unmounter_ = -1;
  const int error = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
  if (error == 0 || error == EINVAL) {  // EINVAL: somebody else has unmounted it
    is_mounted_ = false;
    // The daemon ends when the kernel ends the connection: at once, unless files are still open.
    if (lazily_) stop_by_ = MonotonicNow() + options_.stop_limit;
    return;
  }
  if (error == EBUSY && !lazily_) {
    Say("{} is busy: it is taken off the tree now; what programs have open there stays usable for "
        "{:.0f} s",
        options_.mount.mountpoint, ToSeconds(options_.stop_limit));
    stop_by_ = MonotonicNow() + options_.stop_limit;
    return BeginUnmount(true);
  }
  Say("cannot unmount {}: {}", options_.mount.mountpoint, std::strerror(error));
  done_ = true;
  status_ = 1;
}

void Supervisor::GiveUp(const char* why) {
  fmt::print(stderr, "weir volume: {}: {}; programs that use the volume get errors\n",
             options_.mount.mountpoint, why);
  // Ends the requests that wait for an answer, with an error, and then the mount.
  umount2(options_.mount.mountpoint.c_str(), MNT_FORCE);
  umount2(options_.mount.mountpoint.c_str(), MNT_DETACH);
  is_mounted_ = false;
  done_ = true;
  status_ = 1;
}

}  // namespace weir::volume
