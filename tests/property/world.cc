#include "world.h"

#include <algorithm>
#include <cmath>

namespace weir::property {

namespace {

// Of the device, for all reservations together, where they are meant to fit.
constexpr double kReservable = 0.85;
// Of a parent's own reservation, for those of its children.
constexpr double kReservableBelow = 0.98;
// A limit leaves this room above a reservation.
constexpr double kRoom = 1.02;
constexpr double kBytesPerOp = 16 * 1024;
constexpr size_t kMostGroups = 400;

double MeanCost(int64_t low, int64_t high) {
  // Of a log-uniform size, with the floor of CostOf: by a sum over quantiles.
  double sum = 0;
  for (int i = 0; i < 64; ++i) {
    const double q = (i + 0.5) / 64;
    const double bytes = std::exp(std::log(static_cast<double>(low)) * (1 - q) +
                                  std::log(static_cast<double>(high)) * q);
    sum += static_cast<double>(CostOf(static_cast<int64_t>(bytes))) / kOp;
  }
  return sum / 64;
}

// Levels below a group; 0 for a leaf.
int HeightOf(const Mirror& mirror, int group) {
  int height = 0;
  for (const int child : mirror.node(group).children) {
    height = std::max(height, 1 + HeightOf(mirror, child));
  }
  return height;
}

}  // namespace

double ClaimOf(const ResourceParams& params) {
  return std::max({static_cast<double>(params.min[0]) / kOp,
                   static_cast<double>(params.min[1]) / kOp,
                   static_cast<double>(params.min[2]) / kBytesPerOp});
}

World::World(const Case& c) : case_(c), random_(c.seed) {
  ChooseDevice();
  const int leaves = std::max(1, static_cast<int>(random_.Range((c.leaves + 1) / 2, c.leaves)));
  Grow(0, 1, leaves, (c.over_commit() ? 1.3 : kReservable) * ops_per_s_);
}

void World::ChooseSizes() {
  static constexpr Sizes kChoices[] = {{16 << 10, 16 << 10}, {4 << 10, 64 << 10}, {512, 16 << 10},
                                       {512, 256 << 10},     {64 << 10, 1 << 20}, {512, 4 << 20}};
  sizes_ = kChoices[random_.Range(0, 5)];
  mixed_sizes_ = random_.Chance(0.5);
  largest_cost_ = std::max(kOp, CostOf(sizes_.high));
  mean_cost_ = MeanCost(sizes_.low, sizes_.high);
}

void World::ChooseDevice() {
  ChooseSizes();
  ops_per_s_ = random_.Chance(0.2) ? 1'000 : 10'000;
  slots_ = 1 << random_.Range(0, 5);
  // Deep enough to keep all slots busy whatever the sizes in flight, yet not deeper than 1,024 ops.
  const double largest = static_cast<double>(largest_cost_) / kOp;
  while (slots_ > 1 && slots_ * largest > 1'024) slots_ /= 2;
  DriverOptions options;
  options.seed = case_.seed ^ 0x5EED;
  options.device.slots = slots_;
  options.device.ops_per_s = ops_per_s_;
  options.device.noise = random_.Chance(0.5) ? 0.3 : 0;
  options.depth = Ops(slots_ * largest * (1 + random_.Uniform()));
  options.largest_cost = largest_cost_;
  if (case_.kind == Kind::kDisorder) {
    if (random_.Chance(0.5)) options.depth = 0;
    if (random_.Chance(0.7)) options.cost_error = 0.5 * random_.Uniform();
    if (random_.Chance(0.3)) {
      options.device.stall_every_ns = random_.Range(100, 1'000) * kMs;
      options.device.stall_ns = options.device.stall_every_ns / 5;
    }
  }
  driver_ = std::make_unique<Driver>(options);
}

World::Sizes World::SizesOfLeaf() {
  if (mixed_sizes_) return sizes_;
  const double low = std::log(static_cast<double>(sizes_.low));
  const double high = std::log(static_cast<double>(sizes_.high));
  const int64_t bytes = static_cast<int64_t>(std::exp(low + (high - low) * random_.Uniform()));
  return {bytes, bytes};
}

int64_t World::LargestBelow(int group) {
  const MirrorNode& node = driver_->mirror().node(group);
  int64_t largest = 0;
  if (node.leaf()) largest = CostOf(sizes_of_[static_cast<size_t>(group)].high);
  for (const int child : node.children) largest = std::max(largest, LargestBelow(child));
  return largest;
}

// --- The tree ----------------------------------------------------------------------------------

int64_t World::RandomWeight() {
  if (random_.Chance(0.1)) return 0;
  if (random_.Chance(0.3)) return 100;
  return static_cast<int64_t>(std::exp(random_.Uniform() * std::log(10'000.0)));
}

// `leaves` leaves below `parent`, whose reservations claim at most `min_budget` ops per second.
void World::Grow(int parent, int level, int leaves, double min_budget) {
  int children = leaves;
  if (level < case_.depth && leaves > 1) {
    const int most = random_.Chance(0.2) ? 64 : 6;
    children = static_cast<int>(random_.Range(level == 1 ? 2 : 1, std::min(leaves, most)));
  }
  double budget = min_budget;
  for (int i = 0; i < children; ++i) {
    const int rest = children - i - 1;
    const int share =
        rest == 0 ? leaves
                  : static_cast<int>(random_.Range(1, std::max(1, 2 * leaves / (rest + 1) - 1)));
    const int mine = std::min(share, leaves - rest);
    leaves -= mine;
    double min = 0;
    if (random_.Chance(0.6)) {
      const double most = children > 8 ? 3 * min_budget / children : budget;
      min = std::min(budget, most * random_.Uniform());
      if (case_.over_commit() && level == 1) {  // together up to about three times the device
        min = min_budget * random_.Uniform() * std::min(1.0, 6.0 / children);
      }
      if (min < ops_per_s_ * 0.0005) min = 0;
    }
    if (!(case_.over_commit() && level == 1)) budget -= min;
    GrowChild(parent, level, mine, min);
  }
}

void World::GrowChild(int parent, int level, int leaves, double min) {
  const bool leaf = leaves == 1 && (level >= case_.depth || random_.Chance(0.8));
  const Sizes sizes = leaf ? SizesOfLeaf() : sizes_;
  ResourceParams params;
  params.weight = RandomWeight();
  // Some parents have no reservation of their own, only those of their children.
  const bool own = leaf || random_.Chance(0.75);
  if (min > 0 && own) {
    int64_t k = leaf && case_.live() && random_.Chance(0.3) ? random_.Range(1, 2) : 0;
    params.min[static_cast<size_t>(k)] =
        static_cast<int64_t>(min * (k == 2 ? kBytesPerOp : static_cast<double>(kOp)));
  }
  if (random_.Chance(0.4)) AddLimit(&params, min * kRoom, sizes);
  if (case_.read_write() && random_.Chance(0.2)) AddLimit(&params, min * kRoom, sizes);
  const int group = driver_->Add(parent, params);
  sizes_of_.resize(static_cast<size_t>(group) + 1);
  sizes_of_[static_cast<size_t>(group)] = sizes;
  if (leaf) {
    StartLoad(group, sizes);
  } else {
    Grow(group, level + 1, leaves, min * kReservableBelow);
  }
}

// A limit of at least `least` ops per second, as far as a dimension other than norm can tell.
void World::AddLimit(ResourceParams* params, double least, const Sizes& sizes) {
  const double floor = std::max(least, ops_per_s_ * 0.001);
  const double range = ops_per_s_ * (random_.Chance(0.5) ? 0.3 : 0.05);
  const double ops = floor + range * random_.Uniform();
  Dimension dimension = random_.Chance(0.6)   ? Dimension::kNorm
                        : random_.Chance(0.5) ? Dimension::kRaw
                                              : Dimension::kBytes;
  // What requests of many sizes cost is in no fixed ratio to their number: their fluid share under
  // such a limit is not known.
  if (!case_.live() && sizes.low != sizes.high) dimension = Dimension::kNorm;
  // By requests: so many that they make up `ops` on average.
  const double scale = dimension == Dimension::kBytes ? kBytesPerOp
                       : dimension == Dimension::kRaw ? kOp / MeanCost(sizes.low, sizes.high)
                                                      : kOp;
  const Scope scope = case_.read_write() ? static_cast<Scope>(random_.Range(0, 2)) : Scope::kBoth;
  const size_t k = static_cast<size_t>(dimension), s = static_cast<size_t>(scope);
  params->max[k][s] = std::max<int64_t>(1, static_cast<int64_t>(ops * scale));
  if (params->min[k] > params->max[k][s]) params->max[k][s] = params->min[k];
  params->burst[k][s] = RandomBurst(ops, scale);
}

int64_t World::RandomBurst(double ops, double scale) {
  if (random_.Chance(0.5)) return -1;
  if (case_.live()) return static_cast<int64_t>(ops * 0.02 * random_.Uniform() * scale);
  // Steady shares are compared with the fluid ones, so the burst must not cost rate: at least what
  // the automatic one would be.
  const double largest = static_cast<double>(largest_cost_) / kOp;
  const double depth = static_cast<double>(driver_->options().depth) / kOp;
  const double seconds = std::max(0.01, (depth * 1.125 + 1 + largest) / ops_per_s_);
  return static_cast<int64_t>(std::max(2 * largest, ops * seconds * (1 + random_.Uniform())) *
                              scale);
}

void World::StartLoad(int leaf, const Sizes& sizes) {
  Load load;
  load.group = leaf;
  load.outstanding = static_cast<int>(random_.Range(4, 16));
  load.bytes_min = sizes.low;
  load.bytes_max = sizes.high;
  if (case_.read_write()) {
    load.write_share = random_.Chance(0.3) ? 0 : random_.Chance(0.3) ? 1 : random_.Uniform();
  }
  if (case_.live()) {
    const double leaves = std::max(1.0, static_cast<double>(case_.leaves));
    switch (random_.Range(0, 4)) {
      case 0:
        load.kind = Load::Kind::kOpen;
        load.rate_per_s =
            ops_per_s_ / MeanCost(sizes.low, sizes.high) / leaves * (0.06 + random_.Uniform());
        break;
      case 1:
        load.on_ns = random_.Range(1, 300) * kMs;
        load.off_ns = random_.Range(1, 300) * kMs;
        break;
      case 2:
        load.kind = Load::Kind::kClosed;
        load.think_ns = random_.Range(0, 5'000) * 1'000;
        break;
      default:
        break;
    }
    if (case_.kind == Kind::kDisorder && random_.Chance(0.3)) {
      load.patience_ns = random_.Range(1, 200) * kMs;
    }
  }
  driver_->Start(load);
}

// --- Live changes ------------------------------------------------------------------------------

int World::AnyGroup() {
  std::vector<int> groups;
  for (size_t i = 1; i < driver_->mirror().size(); ++i) {
    if (!driver_->mirror().node(static_cast<int>(i)).removed) groups.push_back(static_cast<int>(i));
  }
  if (groups.empty()) return -1;
  return groups[static_cast<size_t>(random_.Range(0, static_cast<int64_t>(groups.size()) - 1))];
}

void World::Change() {
  const int group = AnyGroup();
  if (group < 0) return;
  switch (random_.Range(0, 7)) {
    case 0:
    case 1:
      driver_->SetWeight(group, RandomWeight());
      break;
    case 2:
      ChangeMin(group);
      break;
    case 3:
    case 4:
      ChangeMax(group);
      break;
    case 5:
      AddSomewhere();
      break;
    case 6:
      if (random_.Chance(0.5)) RemoveSomething();
      break;
    case 7:
      MoveSomething();
      break;
  }
}

bool World::ReservationsFit(int changed, const ResourceParams& params, int new_parent) {
  if (case_.over_commit() || case_.kind == Kind::kDisorder) return true;
  // The tree as it would be.
  const Mirror& mirror = driver_->mirror();
  std::vector<FluidNode> nodes(mirror.size());
  for (size_t i = 0; i < mirror.size(); ++i) {
    const MirrorNode& node = mirror.node(static_cast<int>(i));
    if (node.removed) continue;
    const bool is_changed = node.index == changed;
    nodes[i].min = ClaimOf(is_changed ? params : node.params);
    const int parent = is_changed ? new_parent : node.parent;
    if (parent >= 0) nodes[static_cast<size_t>(parent)].children.push_back(node.index);
  }
  if (Claim(nodes, 0) > kReservable * ops_per_s_) return false;
  for (size_t i = 1; i < nodes.size(); ++i) {
    double below = 0;
    for (const int child : nodes[i].children) below += Claim(nodes, child);
    if (nodes[i].min > 0 && below > kReservableBelow * nodes[i].min) return false;
    // A limit below the reservations would hold them back; that is no broken promise, but it hides
    // whether they are kept.
    const ResourceParams& p =
        static_cast<int>(i) == changed ? params : mirror.node(static_cast<int>(i)).params;
    const double max = static_cast<double>(p.MaxOf(Dimension::kNorm, Scope::kBoth)) / kOp;
    if (std::max(below, nodes[i].min) * kRoom > max) return false;
  }
  return true;
}

void World::ChangeMin(int group) {
  const MirrorNode& node = driver_->mirror().node(group);
  ResourceParams params = node.params;
  const int64_t k = node.leaf() && random_.Chance(0.3) ? random_.Range(1, 2) : 0;
  const double scale = k == 2 ? kBytesPerOp : static_cast<double>(kOp);
  for (int attempt = 0; attempt < 4; ++attempt) {
    double min = random_.Chance(0.3) ? 0 : ops_per_s_ * random_.Uniform() * random_.Uniform();
    if (attempt > 0) min /= 4;
    params.min[static_cast<size_t>(k)] = static_cast<int64_t>(min * scale);
    if (params.min[static_cast<size_t>(k)] > params.max[static_cast<size_t>(k)][2]) continue;
    if (!ReservationsFit(group, params, node.parent)) continue;
    driver_->Set(group, params);
    return;
  }
}

void World::ChangeMax(int group) {
  const MirrorNode& node = driver_->mirror().node(group);
  ResourceParams params = node.params;
  for (size_t k = 0; k < kDimensions; ++k) {
    for (size_t s = 0; s < kScopes; ++s) {
      if (random_.Chance(0.3)) params.max[k][s] = kUnlimited;
    }
  }
  if (random_.Chance(0.8)) {
    AddLimit(&params, ClaimOf(params) * kRoom, sizes_of_[static_cast<size_t>(group)]);
  }
  for (size_t k = 0; k < kDimensions; ++k) {
    if (params.min[k] > params.max[k][2]) return;
  }
  if (ReservationsFit(group, params, node.parent)) driver_->Set(group, params);
}

int World::AddLeaf(int parent) {
  ResourceParams params;
  params.weight = RandomWeight();
  const Sizes sizes = SizesOfLeaf();
  if (random_.Chance(0.3)) AddLimit(&params, 0, sizes);
  const int group = driver_->Add(parent, params);
  sizes_of_.resize(static_cast<size_t>(group) + 1);
  sizes_of_[static_cast<size_t>(group)] = sizes;
  StartLoad(group, sizes);
  return group;
}

void World::AddSomewhere() {
  if (driver_->mirror().size() >= kMostGroups) return;
  const int group = AnyGroup();
  const MirrorNode& node = driver_->mirror().node(group);
  AddLeaf(node.leaf() ? node.parent : group);
}

void World::RemoveSomething() {
  const std::vector<int> leaves = driver_->mirror().Leaves();
  if (leaves.size() < 3) return;
  driver_->Remove(
      leaves[static_cast<size_t>(random_.Range(0, static_cast<int64_t>(leaves.size()) - 1))]);
}

void World::MoveSomething() {
  const int group = AnyGroup();
  const int target = AnyGroup();
  const Mirror& mirror = driver_->mirror();
  int to = mirror.node(target).leaf() ? mirror.node(target).parent : target;
  if (random_.Chance(0.2)) to = 0;
  for (int above = to; above >= 0; above = mirror.node(above).parent) {
    if (above == group) return;
  }
  int level = 1;
  for (int above = to; above > 0; above = mirror.node(above).parent) ++level;
  if (level + HeightOf(mirror, group) > 6 || to == mirror.node(group).parent) return;
  if (!ReservationsFit(group, mirror.node(group).params, to)) return;
  driver_->Move(group, to);
}

void World::Disturb() {
  for (int i = 0; i < 3; ++i) {
    core::Request* request = driver_->AnyQueued(&random_);
    if (request == nullptr) return;
    if (random_.Chance(0.5)) {
      driver_->Cancel(request);
    } else {
      driver_->Expedite(request);
    }
  }
}

}  // namespace weir::property
