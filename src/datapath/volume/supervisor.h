// The process that holds a volume's mount while daemons come and go. Internal.
//
// What must outlive a daemon belongs to the supervisor: the descriptor of /dev/fuse, a region of
// shared memory, and, since a daemon is made with the supervisor's own table of descriptors
// (CLONE_FILES), every file that the daemon opened, under the same number. When a daemon dies its
// successor tells the kernel to deliver the unanswered requests again.
// Threads: one, in one process.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "datapath/volume/transport_mount.h"

namespace weir::volume {

// At the beginning of the shared region. What a daemon writes, the supervisor reads after its
// death.
struct SharedControl {
  static constexpr int kPrivate = 8;
  // Descriptors that must end with the daemon: its ring, above all. -1: none.
  std::atomic<int32_t> private_fds[kPrivate];
  // The generation that began to serve last, counted from 1.
  std::atomic<uint32_t> serving;
  // The scheduler's bound on the cost in flight, as the daemon has found it: a successor need not
  // search again. 0: none yet.
  std::atomic<int64_t> depth;
};
inline constexpr size_t kControlBytes = 4096;
static_assert(sizeof(SharedControl) <= kControlBytes);

// How a daemon ends.
inline constexpr int kDaemonUnmounted = 0;  // the kernel has ended the connection
inline constexpr int kDaemonFailed = 1;     // it could not start; it has said why
inline constexpr int kDaemonHandsOver = 3;  // as asked; a successor goes on

struct DaemonStart {
  uint32_t generation = 0;  // from 0
  bool resumes = false;     // `state` and open descriptors are a predecessor's
  int device_fd = -1;
  InitResult init;
  int lifetime_fd = -1;  // for the ring (TransportOptions::lifetime_fd)
  SharedControl* control = nullptr;
  std::span<std::byte> state;
};

struct SupervisorOptions {
  MountOptions mount;
  size_t state_bytes = 0;
  Duration stop_limit = std::chrono::seconds(10);
  bool quiet = false;
  // In the child process; its result is the exit status.
  std::function<int(const DaemonStart&)> daemon;
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options) : options_(std::move(options)) {}
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Mounts. Errors: as MountVolume's; kResourceExhausted (memory for the state).
  [[nodiscard]] Result<void> Prepare();
  // Until unmounted. The process's exit status.
  [[nodiscard]] int Run();

  [[nodiscard]] const Mounted& mounted() const { return mounted_; }

 private:
  // Whether daemons share descriptors and continue each other's work. If not, the volume is mounted
  // anew after a death.
  [[nodiscard]] bool resumable() const {
    return mounted_.init.can_resend() && !mounted_.init.over_io_uring();
  }
  [[nodiscard]] Result<void> MakeState();
  [[nodiscard]] bool StartDaemon();
  void HandleSignal(int signal);
  void ReapChildren();
  void DaemonDied(int status);
  void CloseRemains();
  void AwaitRingGone();
  [[nodiscard]] bool MayRestart(bool served);
  [[nodiscard]] bool MountAnew();
  void BeginUnmount(bool lazily);
  void UnmountEnded(int status);
  void EndDaemon();
  void GiveUp(const char* why);
  [[nodiscard]] TimePoint NextDeadline() const;
  void CheckDeadline();
  template <typename... Args>
  void Say(const char* format, const Args&... args) const;

  const SupervisorOptions options_;
  Mounted mounted_;
  bool is_mounted_ = false;
  std::byte* region_ = nullptr;
  SharedControl* control_ = nullptr;

  pid_t daemon_ = -1;
  uint32_t generation_ = 0;
  int lifetime_read_fd_ = -1;
  TimePoint died_at_{};
  // Deaths that may follow each other without a pause; refilled with time.
  double restarts_left_ = 0;
  TimePoint restarts_at_{};
  int fruitless_ = 0;  // daemons in a row that never served
  TimePoint restart_at_{};
  bool restart_due_ = false;

  pid_t unmounter_ = -1;
  bool stopping_ = false;
  bool lazily_ = false;
  bool handing_over_ = false;
  TimePoint stop_by_{};
  bool done_ = false;
  int status_ = 0;
};

}  // namespace weir::volume
