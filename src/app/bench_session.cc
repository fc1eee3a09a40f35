#include "app/bench_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <utility>

#include "base/monotonic_clock.h"
#include "base/units.h"

namespace weir::app {

namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kSlack = 512;  // requests the engine may keep aside for other threads

// Direct I/O may need more than 512 bytes of alignment; one request that has no more tells.
Result<void> CheckAlignment(const std::vector<scenario::Load>& loads, const BenchFile& file) {
  for (const scenario::Load& load : loads) {
    for (const scenario::SizeShare& size : load.sizes) {
      if (size.bytes % kPageBytes == 0) continue;
      void* buffer = nullptr;
      if (::posix_memalign(&buffer, kPageBytes, kPageBytes) != 0) return {};
      const ssize_t got =
          ::pread(file.fd(), buffer, scenario::kMinRequestBytes, scenario::kMinRequestBytes);
      const int error = errno;
      std::free(buffer);
      if (got >= 0 || error != EINVAL) return {};
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("load {}: requests of {} are no multiple of {}, which direct I/O on "
                      "{} needs; use such sizes",
                      load.name, FormatBytes(size.bytes), FormatBytes(kPageBytes), file.what()));
    }
  }
  return {};
}

EngineOptions OptionsFor(const scenario::Scenario& scenario, const Capacity& capacity,
                         const SessionOptions& options) {
  const int64_t outstanding = MaxOutstanding(scenario.loads);
  EngineOptions engine;
  PutCapacity(capacity, &engine);
  core::DepthOptions& depth = engine.scheduler.depth;
  if (options.max_depth > 0) depth.max = options.max_depth;
  if (options.initial_depth > 0) depth.initial = options.initial_depth;
  engine.isolation = options.isolated;
  engine.max_outstanding =
      static_cast<uint32_t>(std::min<int64_t>(outstanding + kSlack, kMaxEngineOutstanding));
  engine.max_in_flight = static_cast<uint32_t>(
      std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(outstanding))),
                          1024, kMaxEngineRing));
  engine.max_files = 4;
  engine.max_piece_bytes = options.max_piece_bytes;
  engine.learn_costs = options.learn_costs;
  return engine;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Create(const scenario::Scenario& scenario,
                                                 const BenchFile& file, const Capacity& capacity,
                                                 const SessionOptions& options,
                                                 std::vector<std::string>* warnings) {
  if (auto aligned = CheckAlignment(scenario.loads, file); !aligned) {
    return tl::unexpected(std::move(aligned.error()));
  }
  std::unique_ptr<Session> session(new Session());
  const EngineOptions engine_options = OptionsFor(scenario, capacity, options);
  auto nodes =
      catalog::Resolve(scenario.config, "", engine_options.scheduler.capacity_per_s, warnings);
  if (!nodes) return tl::unexpected(std::move(nodes.error()));
  session->nodes_ = std::move(*nodes);
  auto engine = Engine::Create(engine_options);
  if (!engine) return tl::unexpected(std::move(engine.error()));
  session->engine_ = std::move(*engine);
  session->priority_ = session->OnOwner<Priority>(RaisePriority, Priority::kOrdinary);
  if (!scenario.config.devices.empty() && scenario.config.devices.front().fixed_depth > 0) {
    session->engine_->SetDepth(scenario.config.devices.front().fixed_depth);
  }
  const int fd = ::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot open {} once more: {}", file.what(), std::strerror(errno)),
                errno);
  }
  auto id = session->engine_->Adopt(fd);
  if (!id) {
    ::close(fd);
    return tl::unexpected(std::move(id.error()));
  }
  if (auto added = session->AddGroups(); !added) return tl::unexpected(std::move(added.error()));
  if (auto added = session->AddLoads(scenario, *id, file.bytes(), options); !added) {
    return tl::unexpected(std::move(added.error()));
  }
  return session;
}

Session::~Session() {
  if (engine_ == nullptr) return;
  // Callbacks may still come until the engine has stopped; the driver outlives that.
  if (driver_ != nullptr) static_cast<void>(driver_->Pause(std::chrono::seconds(1)));
  static_cast<void>(engine_->Stop(StopMode::kCancel));
  driver_.reset();
}

Result<void> Session::AddGroups() {
  std::vector<GroupChange> changes;
  for (const catalog::TreeNode& node : nodes_) {
    GroupChange& change = changes.emplace_back();
    change.kind = GroupChange::Kind::kAdd;
    change.parent = engine_->RootGroup();
    change.parent_change = node.parent;
    change.params = node.params;
  }
  auto groups = engine_->Apply(changes);
  if (!groups) return tl::unexpected(std::move(groups.error()));
  groups_ = std::move(*groups);
  return {};
}

Result<void> Session::AddLoads(const scenario::Scenario& scenario, FileId file, int64_t file_bytes,
                               const SessionOptions& options) {
  LoadDriverOptions driver;
  driver.file_bytes = file_bytes;
  driver.seed = scenario.seed;
  driver.grid_step = options.grid_step;
  driver.grid_length = scenario.duration;
  driver_ = std::make_unique<LoadDriver>(engine_.get(), file, driver);
  std::map<std::string, size_t> by_path;
  for (size_t i = 0; i < nodes_.size(); ++i) by_path.emplace(nodes_[i].path, i);
  meters_.assign(nodes_.size(), -1);
  int next_meter = 0;
  for (const scenario::Load& load : scenario.loads) {
    const auto it = by_path.find(load.group);
    if (it == by_path.end()) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("load {}: there is no group {}", load.name, load.group));
    }
    int& meter = meters_[it->second];
    if (meter < 0) meter = next_meter++;
    driver_->AddLoad(load, groups_[it->second], meter);
  }
  return driver_->Prepare();
}

template <typename T>
T Session::OnOwner(const std::function<T()>& work, T if_stopped) {
  std::promise<T> done;
  if (!engine_->Post([&] { done.set_value(work()); })) return if_stopped;
  return done.get_future().get();
}

int Session::Pin(int cpu) {
  return OnOwner<int>(
      [cpu] {
        const int chosen = cpu >= 0 ? cpu : sched_getcpu();
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(chosen, &only);
        sched_setaffinity(0, sizeof(only), &only);  // refused: it stays free to move
        return chosen;
      },
      cpu);
}

Result<Snapshot> Session::Take() {
  return OnOwner<Result<Snapshot>>(
      [this]() -> Result<Snapshot> {
        Snapshot snapshot;
        snapshot.at = MonotonicNow();
        auto groups = engine_->Stats(groups_);
        if (!groups) return tl::unexpected(std::move(groups.error()));
        snapshot.groups = std::move(*groups);
        driver_->TakeMeters(&snapshot.meters);
        snapshot.depth = engine_->TotalStats().depth;
        return snapshot;
      },
      Fail(ErrorCode::kFailedPrecondition, "the engine of this run is stopped"));
}

}  // namespace weir::app
