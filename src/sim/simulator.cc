#include "sim/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/text.h"
#include "core/cost_model.h"
#include "scenario/sample.h"
#include "sim/world.h"

namespace weir::sim {
namespace {

using scenario::GroupSample;
using scenario::Interval;
using scenario::RunResult;
using scenario::Scenario;

constexpr Duration kSecond = std::chrono::seconds(1);

DeviceOptions DeviceOf(const scenario::SimDevice& sim) {
  DeviceOptions options;
  options.parallelism = sim.parallelism;
  options.reference_time = sim.reference_time;
  options.noise = sim.noise;
  options.write_factor = sim.write_factor;
  options.stall_every = sim.stall_every;
  options.stall_for = sim.stall_for;
  options.slow_every = sim.slow_every;
  options.slow_for = sim.slow_for;
  options.slow_factor = sim.slow_factor;
  return options;
}

// What the scheduler is told: as written, else what the simulated device can do.
int64_t CapacityOf(const Scenario& scenario) {
  if (!scenario.config.devices.empty() && scenario.config.devices[0].capacity > 0) {
    return scenario.config.devices[0].capacity;
  }
  const double ops_per_s = scenario.sim.parallelism / ToSeconds(scenario.sim.reference_time);
  return std::max<int64_t>(1, std::llround(ops_per_s * static_cast<double>(kOp)));
}

WorldOptions WorldOf(const Scenario& scenario) {
  WorldOptions options;
  options.device = DeviceOf(scenario.sim);
  options.scheduler.capacity_per_s = CapacityOf(scenario);
  if (!scenario.config.devices.empty() && scenario.config.devices[0].fixed_depth > 0) {
    options.scheduler.depth.automatic = false;
    options.scheduler.depth.initial = scenario.config.devices[0].fixed_depth;
  }
  return options;
}

// Enough whole seconds that a long run of many groups stays within kMaxSamples.
Duration IntervalLength(Duration run, size_t groups) {
  const auto seconds = static_cast<int64_t>(std::ceil(ToSeconds(run)));
  const int64_t samples = seconds * static_cast<int64_t>(std::max<size_t>(1, groups));
  return kSecond * ((samples + kMaxSamples - 1) / kMaxSamples);
}

// One of the sizes by its share; the costs are computed once.
std::function<void(Random*, core::Request*)> ShapeOf(const scenario::Load& load,
                                                     const core::CostModel& model) {
  struct Kind {
    double up_to;  // cumulative share
    int64_t bytes;
    int64_t cost[kDirections];
  };
  const core::Access access = load.sequential ? core::Access::kSequential : core::Access::kRandom;
  std::vector<Kind> kinds;
  double sum = 0;
  for (const scenario::SizeShare& size : load.sizes) {
    sum += size.share;
    kinds.push_back({sum,
                     size.bytes,
                     {model.Cost(Direction::kRead, access, size.bytes),
                      model.Cost(Direction::kWrite, access, size.bytes)}});
  }
  const double read_share = load.read_share;
  return [kinds, sum, read_share](Random* random, core::Request* request) {
    size_t i = 0;
    if (kinds.size() > 1) {
      const double x = random->Uniform() * sum;
      while (i + 1 < kinds.size() && x >= kinds[i].up_to) ++i;
    }
    const bool write = read_share < 1 && !random->Chance(read_share);
    request->direction = write ? Direction::kWrite : Direction::kRead;
    request->bytes = kinds[i].bytes;
    request->cost = kinds[i].cost[write ? 1 : 0];
  };
}

class Runner {
 public:
  Runner(const Scenario& scenario, uint64_t seed, const IntervalCallback& on_interval)
      : scenario_(scenario),
        config_(scenario.config),
        on_interval_(on_interval),
        world_(WorldOf(scenario), seed) {}

  Result<RunResult> Run();

 private:
  Result<void> BuildTree();
  void AddLoads();
  void AddChanges();
  void Apply(const scenario::Change& change);
  void Sample();
  void Note(Duration at, std::string text);
  [[nodiscard]] uint64_t Rejected(size_t node) const;

  const Scenario& scenario_;
  catalog::Config config_;
  const IntervalCallback& on_interval_;
  World world_;
  RunResult result_;
  std::vector<catalog::TreeNode> nodes_;
  std::vector<core::GroupId> groups_;                 // by node
  std::vector<int> node_of_;                          // by group index; -1 = the root
  std::vector<core::GroupStats> before_;              // by node: at the start of the interval
  std::vector<uint64_t> rejected_before_;             // by node
  std::vector<FineHistogram> latency_;                // by node: of this interval
  std::vector<std::vector<World::LoadId>> loads_of_;  // by node
  std::vector<std::string> notes_;                    // of this interval
  Duration interval_start_{0};
  std::optional<Error> error_;
};

Result<void> Runner::BuildTree() {
  const std::string device = config_.devices.empty() ? std::string() : config_.devices[0].name;
  Result<std::vector<catalog::TreeNode>> nodes =
      catalog::Resolve(config_, device, CapacityOf(scenario_), &result_.warnings);
  if (!nodes) return tl::unexpected(nodes.error());
  nodes_ = *std::move(nodes);
  for (const catalog::TreeNode& node : nodes_) {
    const core::GroupId parent =
        node.parent < 0 ? world_.scheduler().root() : groups_[static_cast<size_t>(node.parent)];
    const Result<core::GroupId> group =
        world_.scheduler().AddGroup(parent, node.params, world_.now());
    if (!group) {
      return Fail(group.error().code,
                  fmt::format("{}: {}: {}", config_.file, node.path, group.error().message));
    }
    if (node_of_.size() <= group->index) node_of_.resize(group->index + 1, -1);
    node_of_[group->index] = static_cast<int>(groups_.size());
    groups_.push_back(*group);
    result_.groups.push_back({node.path, node.parent, node.leaf, node.params});
  }
  before_.resize(nodes_.size());
  rejected_before_.resize(nodes_.size());
  latency_.resize(nodes_.size());
  loads_of_.resize(nodes_.size());
  return {};
}

void Runner::AddLoads() {
  const core::CostModel model;
  std::map<std::string, size_t> node_by_path;
  for (size_t i = 0; i < nodes_.size(); ++i) node_by_path[nodes_[i].path] = i;
  for (const scenario::Load& load : scenario_.loads) {
    const auto it = node_by_path.find(load.group);
    if (it == node_by_path.end()) continue;  // ParseScenario has refused it
    LoadSpec spec;
    spec.group = groups_[it->second];
    spec.outstanding = load.threads * load.depth;
    spec.think = load.think;
    spec.think_random = load.think_random;
    spec.rate = load.rate;
    spec.start = load.start;
    if (load.stop.count() > 0) spec.stop = load.stop;
    spec.burst_on = load.burst_on;
    spec.burst_off = load.burst_off;
    spec.deadline = load.deadline;
    spec.fail_fast = true;
    spec.shape = ShapeOf(load, model);
    loads_of_[it->second].push_back(world_.AddLoad(spec));
    const std::string name = load.name.empty() ? load.group : load.name;
    if (load.start.count() > 0) Note(load.start, "load " + name + " starts");
    if (load.stop.count() > 0 && load.stop < scenario_.duration) {
      Note(load.stop, "load " + name + " stops");
    }
  }
}

void Runner::Note(Duration at, std::string text) {
  world_.At(at, [this, text = std::move(text)] { notes_.push_back(text); });
}

void Runner::AddChanges() {
  for (const scenario::Change& change : scenario_.changes) {
    world_.At(change.at, [this, &change] { Apply(change); });
  }
}

void Runner::Apply(const scenario::Change& change) {
  if (error_) return;
  const auto fail = [&](const Error& error) {
    error_ = Error{error.code, fmt::format("{}:{}: {}", config_.file, change.line, error.message),
                   error.sys_errno};
  };
  if (const Result<void> done = catalog::ApplyChanges(&config_, change.target, change.set); !done) {
    return fail(done.error());
  }
  const std::string device = config_.devices.empty() ? std::string() : config_.devices[0].name;
  std::vector<std::string> warnings;
  const Result<std::vector<catalog::TreeNode>> nodes =
      catalog::Resolve(config_, device, CapacityOf(scenario_), &warnings);
  if (!nodes) return fail(nodes.error());
  for (std::string& warning : warnings) {
    if (std::find(result_.warnings.begin(), result_.warnings.end(), warning) ==
        result_.warnings.end()) {
      result_.warnings.push_back(std::move(warning));
    }
  }
  for (size_t i = 0; i < std::min(nodes->size(), nodes_.size()); ++i) {
    if ((*nodes)[i].params == nodes_[i].params) continue;
    nodes_[i].params = (*nodes)[i].params;
    result_.groups[i].params = nodes_[i].params;
    const Result<void> set =
        world_.scheduler().SetParams(groups_[i], nodes_[i].params, world_.now());
    if (!set) return fail(set.error());
  }
  std::string text = change.target + ":";
  for (const auto& [key, value] : change.set) text += fmt::format(" {} = {}", key, value);
  notes_.push_back(std::move(text));
}

uint64_t Runner::Rejected(size_t node) const {
  uint64_t rejected = 0;
  for (World::LoadId load : loads_of_[node]) rejected += world_.rejected(load);
  return rejected;
}

void Runner::Sample() {
  const double seconds = ToSeconds(world_.elapsed() - interval_start_);
  if (seconds <= 0) return;
  Interval interval;
  interval.start_s = ToSeconds(interval_start_);
  interval.length_s = seconds;
  interval.depth = static_cast<double>(world_.scheduler().depth()) / static_cast<double>(kOp);
  interval.notes = std::move(notes_);
  notes_.clear();
  interval_start_ = world_.elapsed();
  for (size_t i = 0; i < groups_.size(); ++i) {
    const core::GroupStats after = world_.Stats(groups_[i]);
    GroupSample sample = scenario::SampleOf(before_[i], after, seconds);
    if (nodes_[i].leaf) {
      sample.latency = latency_[i];
      latency_[i] = FineHistogram{};
      const uint64_t rejected = Rejected(i);
      sample.timeouts += rejected - rejected_before_[i];
      result_.throttle_timeouts +=
          after.throttle_timeouts - before_[i].throttle_timeouts + rejected - rejected_before_[i];
      rejected_before_[i] = rejected;
    }
    before_[i] = after;
    interval.groups.push_back(std::move(sample));
  }
  result_.intervals.push_back(std::move(interval));
  if (on_interval_) on_interval_(result_, result_.intervals.back());
}

Result<RunResult> Runner::Run() {
  result_.title = scenario_.title;
  result_.where = fmt::format("simulated device: {} at a time", scenario_.sim.parallelism);
  result_.capacity = static_cast<double>(CapacityOf(scenario_)) / static_cast<double>(kOp);
  for (const catalog::Device& device : config_.devices) {
    if (device.profile.empty()) continue;
    result_.warnings.push_back(
        fmt::format("the profile of device {} is not used: the simulated device is that of [sim], "
                    "on which a request costs its bytes over 16 KiB",
                    Quote(device.name)));
  }
  if (const Result<void> built = BuildTree(); !built) return tl::unexpected(built.error());
  // Before the changes of the same time: those belong to the interval that begins.
  const Duration length = IntervalLength(scenario_.duration, groups_.size());
  if (length > kSecond && !scenario_.expects.empty()) {
    result_.warnings.push_back(scenario::LongIntervalWarning(length));
  }
  for (Duration end = length; end < scenario_.duration; end += length) {
    world_.At(end, [this] { Sample(); });
  }
  world_.OnComplete([this](const core::Request& request) {
    const int node = node_of_[request.group.index];
    latency_[static_cast<size_t>(node)].Record(world_.now() - request.enqueued_at);
  });
  AddLoads();
  AddChanges();
  world_.RunUntil(scenario_.duration);
  if (error_) return tl::unexpected(*error_);
  Sample();
  return std::move(result_);
}

}  // namespace

Result<RunResult> Run(const Scenario& scenario, uint64_t seed,
                      const IntervalCallback& on_interval) {
  return Runner(scenario, seed, on_interval).Run();
}

}  // namespace weir::sim
