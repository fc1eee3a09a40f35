#include "datapath/volume/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "base/monotonic_clock.h"
#include "datapath/volume/data_path.h"
#include "datapath/volume/transport.h"

namespace weir::volume {

namespace {

// Tells the main thread that the connection has ended.
constexpr int kEndSignal = SIGUSR2;
// A successor gets again what is not finished by then.
constexpr Duration kHandOverLimit = std::chrono::seconds(2);
constexpr Duration kFinishLimit = std::chrono::seconds(8);
// Where the search for the depth begins on a device that nobody measured. The search down is cheap.
constexpr int64_t kFirstDepth = 64 * kOp;
constexpr int kNiceness = -20;
constexpr uint32_t kSpareOps = 128;  // the engine may keep some aside for other threads

// The thread that completes I/O and sends the next request must not wait behind other programs for
// a CPU: while it does, the disk idles and every promise is late. Not real-time: such a thread
// stays on its CPU, and waking another one costs a caller more than sharing its own.
void RaisePriority() {
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness));
}

class Daemon {
 public:
  Daemon(const VolumeOptions& options, int directory_fd, const DaemonStart& start)
      : options_(options), directory_fd_(directory_fd), start_(start) {}

  [[nodiscard]] Result<void> Start();
  [[nodiscard]] int Serve();

 private:
  // Publishes the descriptors that must end with this process.
  class Publisher;

  [[nodiscard]] Result<void> MakeTransport();
  [[nodiscard]] Result<void> MakeEngine();
  [[nodiscard]] Result<void> MakeGroups();
  [[nodiscard]] Result<void> MakeAttribution();
  [[nodiscard]] Result<void> MakeBacking();
  // Runs `work` on the engine's thread.
  void OnOwner(const std::function<void()>& work);
  // Until nothing taken is unanswered.
  void Finish(Duration limit);
  void SayWhatWasDone();

  const VolumeOptions& options_;
  const int directory_fd_;
  const DaemonStart start_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Engine> engine_;
  VolumeGroups groups_;
  std::unique_ptr<Attribution> attribution_;
  std::unique_ptr<Backing> backing_;
  std::unique_ptr<DataPath> data_;
  std::unique_ptr<WorkerPool> workers_;
};

Result<void> Daemon::MakeTransport() {
  TransportOptions options;
  options.device_fd = start_.device_fd;
  options.buffers.slots = options_.outstanding;
  options.most_bytes = options_.buffer_bytes;
  options.resend = start_.resumes && start_.init.can_resend();
  options.lifetime_fd = start_.lifetime_fd;
  options.publish = [control = start_.control](int ring_fd, int wake_fd) {
    control->private_fds[0].store(-1);  // lifetime_fd, closed by now
    control->private_fds[1].store(ring_fd);
    control->private_fds[2].store(wake_fd);
  };
  options.wake = [this] { static_cast<void>(engine_->Post([] {})); };
  options.on_tick = [this] { start_.control->depth.store(engine_->TotalStats().depth); };
  options.on_end = [] { kill(getpid(), kEndSignal); };
  const bool fast = start_.init.over_io_uring();
  if (fast) {
    options.queues = PossibleCpus();
    options.entries_a_queue = EntriesAQueue(options.queues, options_.outstanding);
  }
  auto transport = fast ? Transport::CreateFast(std::move(options))
                        : Transport::CreateClassic(std::move(options));
  if (!transport) return tl::unexpected(std::move(transport.error()));
  transport_ = std::move(*transport);
  return {};
}

Result<void> Daemon::MakeEngine() {
  EngineOptions options = options_.engine;
  core::DepthOptions& depth = options.scheduler.depth;
  depth.initial = std::max({depth.initial, kFirstDepth, start_.control->depth.load()});
  depth.max = std::max(depth.max, depth.initial);
  options.max_outstanding = transport_->slots()->size() + kSpareOps;
  options.max_files = 1;  // requests name descriptors
  options.thread_name = "weir-volume";
  options.extension = transport_.get();
  auto engine = Engine::Create(options);
  if (!engine) return tl::unexpected(std::move(engine.error()));
  engine_ = std::move(*engine);
  if (options_.fixed_depth > 0) engine_->SetDepth(options_.fixed_depth);
  return {};
}

Result<void> Daemon::MakeGroups() {
  if (options_.attribution && options_.groups.empty()) return MakeAttribution();
  std::vector<GroupChange> changes;
  bool found = false;
  for (const GroupSpec& spec : options_.groups) {
    GroupChange& change = changes.emplace_back();
    change.kind = GroupChange::Kind::kAdd;
    change.parent = engine_->RootGroup();
    change.parent_change = spec.parent;
    change.params = spec.params;
    if (!options_.default_group.empty() && spec.path == options_.default_group && spec.leaf) {
      groups_.fallback = groups_.paths.size();
      found = true;
    }
    groups_.paths.push_back(spec.path);
  }
  if (!found) {
    groups_.fallback = groups_.paths.size();
    groups_.paths.emplace_back("default");
    GroupChange& change = changes.emplace_back();
    change.kind = GroupChange::Kind::kAdd;
    change.parent = engine_->RootGroup();
  }
  auto ids = engine_->Apply(changes);
  if (!ids) return tl::unexpected(std::move(ids.error()));
  groups_.ids = std::move(*ids);
  return MakeAttribution();
}

Result<void> Daemon::MakeAttribution() {
  if (!options_.attribution) {
    attribution_ = std::make_unique<OneGroup>(groups_.ids[groups_.fallback]);
    return {};
  }
  auto attribution = options_.attribution(engine_.get(), groups_);
  if (!attribution) return tl::unexpected(std::move(attribution.error()));
  attribution_ = std::move(*attribution);
  return {};
}

Result<void> Daemon::MakeBacking() {
  auto backing = options_.backing(
      BackingStart{.directory_fd = directory_fd_, .state = start_.state, .fresh = !start_.resumes});
  if (!backing) return tl::unexpected(std::move(backing.error()));
  backing_ = std::move(*backing);
  return {};
}

Result<void> Daemon::Start() {
  if (auto made = MakeTransport(); !made) return made;
  if (auto made = MakeEngine(); !made) return made;
  if (auto made = MakeGroups(); !made) return made;
  if (auto made = MakeBacking(); !made) return made;
  data_ = std::make_unique<DataPath>(DataPathOptions{.engine = engine_.get(),
                                                     .backing = backing_.get(),
                                                     .attribution = attribution_.get(),
                                                     .slots = transport_->slots(),
                                                     .sink = transport_.get(),
                                                     .plain_writer = transport_->plain_writer()});
  WorkerOptions workers;
  workers.threads = options_.metadata_threads;
  workers_ = std::make_unique<WorkerPool>(workers, backing_.get(), transport_.get(),
                                          [this] { static_cast<void>(engine_->Post([] {})); });
  if (auto started = workers_->Start(); !started) return started;
  OnOwner([this] {
    RaisePriority();
    transport_->Begin(data_.get(), workers_.get(), attribution_.get());
  });
  start_.control->serving.store(start_.generation + 1);
  return {};
}

void Daemon::OnOwner(const std::function<void()>& work) {
  std::promise<void> done;
  if (!engine_->Post([&] {
        work();
        done.set_value();
      })) {
    return;
  }
  done.get_future().wait();
}

void Daemon::Finish(Duration limit) {
  const TimePoint until = MonotonicNow() + limit;
  bool idle = false;
  while (!idle && MonotonicNow() < until) {
    OnOwner([&] {
      transport_->StopReading();
      idle = transport_->Idle();
    });
    if (!idle) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int Daemon::Serve() {
  sigset_t awaited;
  sigemptyset(&awaited);
  for (const int signal : {SIGUSR1, SIGTERM, kEndSignal}) sigaddset(&awaited, signal);
  int signal = 0;
  while (sigwait(&awaited, &signal) != 0) {
  }
  if (signal == SIGUSR1) {
    Finish(kHandOverLimit);
    return kDaemonHandsOver;
  }
  Finish(kFinishLimit);
  syncfs(directory_fd_);
  SayWhatWasDone();
  return kDaemonUnmounted;
}

void Daemon::SayWhatWasDone() {
  if (options_.quiet) return;
  TransportStats stats;
  DataPathStats data;
  OnOwner([&] {
    stats = transport_->stats();
    data = data_->stats();
  });
  uint64_t all = 0;
  for (const uint64_t count : stats.requests) all += count;
  const uint64_t reads = stats.requests[FUSE_READ];
  const uint64_t writes = stats.requests[FUSE_WRITE];
  const uint64_t syncs = stats.requests[FUSE_FSYNC];
  fmt::print(stderr,
             "weir volume: served {} requests: {} reads, {} writes ({} of both past the page "
             "cache), {} fsyncs, {} others\n",
             all, reads, writes, data.direct, syncs, all - reads - writes - syncs);
}

// In no signal's way: all are taken by sigwait on the main thread.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

int RunDaemon(const VolumeOptions& options, int directory_fd, const DaemonStart& start) {
  BlockSignals();
  pthread_setname_np(pthread_self(), "weir-daemon");
  auto* daemon = new Daemon(options, directory_fd, start);  // ends with the process
  if (auto started = daemon->Start(); !started) {
    fmt::print(stderr, "weir volume: {}\n", started.error().message);
    return kDaemonFailed;
  }
  if (start.generation == 0 && !options.quiet) {
    fmt::print(stderr, "weir volume: {} serves {}, daemon {}\n", options.mountpoint,
               options.directory, getpid());
  }
  return daemon->Serve();
}

uint32_t EntriesAQueue(uint32_t queues, uint32_t outstanding) {
  constexpr uint32_t kLeast = 256;    // where there are many CPUs
  constexpr uint32_t kMost = 16'384;  // of all queues
  const uint32_t fair = std::max(1u, kMost / std::max(1u, queues));
  return std::min(outstanding, std::max(kLeast, std::min(fair, outstanding / 2)));
}

uint32_t PossibleCpus() {
  // "0-3", "0,2-7": the last number is the highest.
  std::ifstream file("/sys/devices/system/cpu/possible");
  std::string text;
  std::getline(file, text);
  const size_t digits = text.find_last_not_of("0123456789");
  const std::string last = digits == std::string::npos ? text : text.substr(digits + 1);
  if (last.empty()) return static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  return static_cast<uint32_t>(std::strtoul(last.c_str(), nullptr, 10)) + 1;
}

}  // namespace weir::volume
