// A run: lay the scratch file out; find each point's saturation depth by doubling; then, in rounds
// over all points in changing order, a short slice at that depth and one at depth 1. So a
// disturbance of a second spoils one sample of some points instead of all samples of one. The
// answer is the better quartile of the samples: what disturbs only makes slower, and for longer
// than half of a run where a machine is shared.
#include "device/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/monotonic_clock.h"
#include "base/random.h"
#include "base/units.h"
#include "device/block_info.h"
#include "device/load_ring.h"
#include "device/samples.h"
#include "device/target.h"

namespace weir::device {

namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kFullSizes[] = {4 * kKiB,   8 * kKiB,   16 * kKiB,  32 * kKiB,   64 * kKiB,
                                  128 * kKiB, 256 * kKiB, 512 * kKiB, 1024 * kKiB, 2048 * kKiB};
constexpr int64_t kQuickSizes[] = {4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, 1024 * kKiB};

// Parts of the budget.
constexpr double kLayoutPart = 0.25;  // at most
constexpr double kSearchPart = 0.25;
constexpr double kRepairPart = 0.08;   // repeating points that spread widely
constexpr double kLatencyPart = 0.25;  // of a point's turn in a round
constexpr int kQuickRounds = 4;
constexpr int kFullRounds = 7;
// A device that stalls may take half as long again as the budget, and this.
constexpr Duration kGrace = std::chrono::seconds(1);
constexpr Duration kMinSlice = std::chrono::milliseconds(5);
constexpr int kSlowFactor = 8;  // a slow device may stretch a slice so much

// Doubling the depth must give this much more, else the depth before was enough; twice in a row,
// for noise.
constexpr double kDepthGain = 1.03;
constexpr double kNearBest = 0.97;
constexpr int kLeastDepth = 8;
constexpr double kWideSpread = 0.25;

// Requests of a size that has fewer places on the target are hardly random.
constexpr int64_t kMinPlaces = 4;

struct Point {
  LoadKind kind;
  int depth = 1;
  std::vector<double> iops;
  std::vector<double> latency_ns;
};

std::string Name(const LoadKind& kind) {
  return fmt::format("{} {} {}", kind.access == core::Access::kRandom ? "random" : "sequential",
                     kind.direction == Direction::kRead ? "read" : "write",
                     FormatBytes(kind.bytes));
}

bool IsReference(const Point& point) {
  return point.kind == LoadKind{Direction::kRead, core::Access::kRandom, core::kReferenceBytes};
}

std::string NowRfc3339() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

class Run {
 public:
  Run(const CalibrateOptions& options, Target target,
      const std::function<void(const CalibrateProgress&)>& on_progress,
      const std::atomic<bool>* cancel)
      : options_(options),
        target_(std::move(target)),
        on_progress_(on_progress),
        cancel_(cancel),
        start_(MonotonicNow()),
        budget_(Budget(options)) {}

  static Duration Budget(const CalibrateOptions& options) {
    if (options.budget != Duration{0}) return options.budget;
    return options.quick ? kQuickBudget : kFullBudget;
  }

  Result<Profile> Go() {
    MakePoints();
    Result<LoadRing> ring = LoadRing::Open(&target_, cancel_);
    if (!ring) return tl::unexpected(ring.error());
    ring_ = &*ring;
    ring_->SetDeadline(start_ + budget_ + budget_ / 2 + kGrace);
    if (auto ok = LayOut(); !ok) return tl::unexpected(ok.error());
    if (auto ok = FindDepths(); !ok) return tl::unexpected(ok.error());
    if (auto ok = MeasureRounds(); !ok) return tl::unexpected(ok.error());
    if (auto ok = RepairWideOnes(); !ok) return tl::unexpected(ok.error());
    return MakeProfile();
  }

 private:
  void MakePoints() {
    std::vector<int64_t> sizes = options_.sizes;
    if (sizes.empty()) {
      options_.quick ? sizes.assign(std::begin(kQuickSizes), std::end(kQuickSizes))
                     : sizes.assign(std::begin(kFullSizes), std::end(kFullSizes));
    }
    for (const int64_t bytes : sizes) {
      for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
        for (const core::Access access : {core::Access::kRandom, core::Access::kSequential}) {
          points_.push_back({{direction, access, bytes}, 1, {}, {}});
        }
      }
    }
  }

  [[nodiscard]] Duration Part(double share) const {
    return std::chrono::duration_cast<Duration>(budget_ * share);
  }
  [[nodiscard]] Duration Left() const { return start_ + budget_ - MonotonicNow(); }

  void Report(std::string step) const {
    if (!on_progress_) return;
    const double done = ToSeconds(MonotonicNow() - start_) / ToSeconds(budget_);
    on_progress_({std::clamp(done, 0.0, 1.0), std::move(step)});
  }

  Result<void> LayOut() {
    TimePoint reported{};
    const Result<int64_t> written = ring_->LayOut(start_ + Part(kLayoutPart), [&](int64_t bytes) {
      const TimePoint now = MonotonicNow();
      if (now - reported < std::chrono::milliseconds(200)) return;
      reported = now;
      Report(fmt::format("laying out {}, {} of {}", target_.what(), FormatBytes(bytes),
                         FormatBytes(target_.bytes())));
    });
    if (!written) return tl::unexpected(written.error());
    if (*written < target_.bytes()) {
      warnings_.push_back(fmt::format("only {} of {} could be laid out in time",
                                      FormatBytes(*written), FormatBytes(target_.bytes())));
      target_.Shorten(*written);
    }
    for (const Point& point : points_) {
      if (point.kind.bytes <= target_.bytes() / kMinPlaces) continue;
      return Fail(ErrorCode::kDeadlineExceeded,
                  fmt::format("{} took too long to lay out; calibrate without --quick, or when the "
                              "device is idle",
                              target_.what()));
    }
    return {};
  }

  // Its slices also count as the first samples, in case that there is no time for more.
  Result<void> FindDepths() {
    const TimePoint end = MonotonicNow() + std::min(Part(kSearchPart), Left());
    for (size_t i = 0; i < points_.size(); ++i) {
      const Duration turn = (end - MonotonicNow()) / static_cast<int64_t>(points_.size() - i);
      Report("finding the depth of " + Name(points_[i].kind));
      auto ok = turn > kMinSlice ? FindDepth(&points_[i], turn) : GuessDepth(&points_[i]);
      if (!ok) return ok;
    }
    // A disturbance may have ended a search too early; a smaller request needs no smaller depth.
    for (Point& point : points_) {
      for (const Point& larger : points_) {
        if (larger.kind.direction == point.kind.direction &&
            larger.kind.access == point.kind.access && larger.kind.bytes > point.kind.bytes) {
          point.depth = std::max(point.depth, larger.depth);
        }
      }
    }
    return {};
  }

  // The smallest of 1, 2, 4, ... that gives nearly the best rate, and once more that, since too
  // deep a queue costs nothing here and too shallow a one spoils the measurement.
  Result<void> FindDepth(Point* point, Duration turn) {
    const int deepest = MaxDepth(point->kind.bytes);
    const Duration slice_length = std::max(turn / 7, kMinSlice);  // most need six doublings
    const TimePoint give_up = MonotonicNow() + 2 * turn;
    std::vector<std::pair<int, double>> rates;
    double best = 0;
    int no_gain = 0;
    for (int depth = 1; depth <= deepest && no_gain < 2 && MonotonicNow() < give_up; depth *= 2) {
      const Result<Slice> slice =
          ring_->Run(point->kind, depth, slice_length, slice_length * kSlowFactor);
      if (!slice) return tl::unexpected(slice.error());
      if (depth == 1) point->latency_ns.push_back(slice->median_latency_ns);
      rates.emplace_back(depth, slice->iops);
      no_gain = slice->iops < best * kDepthGain ? no_gain + 1 : 0;
      best = std::max(best, slice->iops);
    }
    for (const auto& [depth, iops] : rates) {
      if (iops < best * kNearBest) continue;
      point->depth = std::min(std::max(2 * depth, kLeastDepth), deepest);
      point->iops.push_back(iops);
      break;
    }
    return {};
  }

  // Without the time to search: what most devices need, and one sample.
  Result<void> GuessDepth(Point* point) {
    point->depth = std::min(kLeastDepth, MaxDepth(point->kind.bytes));
    const Result<Slice> slice = ring_->Run(point->kind, point->depth, kMinSlice, kMinSlice);
    if (!slice) return tl::unexpected(slice.error());
    point->iops.push_back(slice->iops);
    return {};
  }

  Result<void> MeasureOnce(Point* point, Duration turn) {
    const Duration latency_turn =
        std::max(std::chrono::duration_cast<Duration>(turn * kLatencyPart), kMinSlice);
    const Duration rate_turn = std::max(turn - latency_turn, kMinSlice);
    Result<Slice> slice = ring_->Run(point->kind, point->depth, rate_turn, rate_turn * kSlowFactor);
    if (!slice) return tl::unexpected(slice.error());
    point->iops.push_back(slice->iops);
    slice = ring_->Run(point->kind, 1, latency_turn, latency_turn * kSlowFactor);
    if (!slice) return tl::unexpected(slice.error());
    point->latency_ns.push_back(slice->median_latency_ns);
    return {};
  }

  // The reference has a turn at both ends of each round: every cost depends on it.
  Result<void> MeasureRounds() {
    const int rounds = options_.quick ? kQuickRounds : kFullRounds;
    const TimePoint end = start_ + budget_ - Part(kRepairPart);
    std::vector<Point*> order;
    for (Point& point : points_) {
      order.push_back(&point);
      if (IsReference(point)) order.push_back(&point);
    }
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = order.size() - 1; i > 0; --i) {
        std::swap(order[i], order[static_cast<size_t>(random_.Range(0, static_cast<int64_t>(i)))]);
      }
      for (size_t i = 0; i < order.size(); ++i) {
        const Duration left = end - MonotonicNow();
        const auto turns_left =
            static_cast<int64_t>(static_cast<size_t>(rounds - round) * order.size() - i);
        if (left <= Duration{0}) return {};
        Report(Name(order[i]->kind));
        if (auto ok = MeasureOnce(order[i], left / turns_left); !ok) return ok;
      }
    }
    return {};
  }

  // Points whose slices disagree are measured more often, the worst first, while there is time.
  Result<void> RepairWideOnes() {
    const Duration turn = Part(kRepairPart) / 12;
    while (Left() > turn) {
      Point* worst = nullptr;
      double spread = kWideSpread;
      for (Point& point : points_) {
        const double of_point = Spread(point.iops);
        if (of_point > spread) {
          spread = of_point;
          worst = &point;
        }
      }
      if (worst == nullptr) return {};
      Report("again " + Name(worst->kind));
      if (auto ok = MeasureOnce(worst, turn); !ok) return ok;
    }
    return {};
  }

  Result<Profile> MakeProfile() {
    std::vector<Measurement> measurements;
    for (const Point& point : points_) {
      Measurement m;
      m.direction = point.kind.direction;
      m.access = point.kind.access;
      m.bytes = point.kind.bytes;
      m.iops = Quantile(point.iops, 0.75);
      m.depth1_latency_ns = Quantile(point.latency_ns, 0.25);
      m.depth = point.depth;
      m.spread = Spread(point.iops);
      measurements.push_back(m);
    }
    Result<Profile> profile = Fit(std::move(measurements));
    if (!profile) return Fail(ErrorCode::kUnavailable, profile.error().message);
    if (!target_.direct()) {
      warnings_.push_back(
          "the file system refuses O_DIRECT: this measured the page cache as well "
          "as the device");
    }
    WarnOfWideOnes();
    profile->path = options_.path;
    if (const auto info = FindBlockDevice(options_.path)) profile->device = info->Describe();
    profile->measured_at = NowRfc3339();
    profile->quick = options_.quick;
    profile->warnings = std::move(warnings_);
    Report("done");
    return profile;
  }

  void WarnOfWideOnes() {
    std::vector<const Point*> wide;
    for (const Point& point : points_) {
      if (Spread(point.iops) > kWideSpread) wide.push_back(&point);
    }
    if (wide.empty()) return;
    std::sort(wide.begin(), wide.end(),
              [](const Point* a, const Point* b) { return Spread(a->iops) > Spread(b->iops); });
    std::string worst;
    for (size_t i = 0; i < std::min<size_t>(wide.size(), 3); ++i) {
      worst += fmt::format("{}{} ({:.0f} %)", i == 0 ? "" : ", ", Name(wide[i]->kind),
                           Spread(wide[i]->iops) * 100);
    }
    warnings_.push_back(fmt::format(
        "repeated measurements of {} of {} points differ by more than {:.0f} %, most: {}; was the "
        "machine busy?",
        wide.size(), points_.size(), kWideSpread * 100, worst));
  }

  const CalibrateOptions& options_;
  Target target_;
  const std::function<void(const CalibrateProgress&)>& on_progress_;
  const std::atomic<bool>* cancel_;
  const TimePoint start_;
  const Duration budget_;
  LoadRing* ring_ = nullptr;
  std::vector<Point> points_;
  std::vector<std::string> warnings_;
  Random random_{0xCA11B};
};

Result<void> CheckOptions(const CalibrateOptions& options) {
  if (Run::Budget(options) < kMinBudget) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a budget of {} is too short to calibrate; at least {}",
                            FormatDuration(options.budget), FormatDuration(kMinBudget)));
  }
  if (options.sizes.empty()) return {};
  for (const int64_t bytes : options.sizes) {
    if (bytes < 4096 || bytes % 4096 != 0 || bytes > kLoadBufferBytes) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("request size {} B must be a multiple of 4096 up to {}", bytes,
                              FormatBytes(kLoadBufferBytes)));
    }
  }
  if (std::find(options.sizes.begin(), options.sizes.end(), core::kReferenceBytes) ==
      options.sizes.end()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the sizes must hold 16 KiB, to which all costs are relative");
  }
  return {};
}

// A disk that stood still for seconds gives an implausible profile: measured again this often.
constexpr int kMostAttempts = 3;

Result<Profile> CalibrateOnce(const CalibrateOptions& options,
                              const std::function<void(const CalibrateProgress&)>& on_progress,
                              const std::atomic<bool>* cancel) {
  if (auto ok = CheckOptions(options); !ok) return tl::unexpected(ok.error());
  Result<Target> target = Target::Open(
      {options.path, options.size, options.quick ? kDefaultQuickTargetBytes : kDefaultTargetBytes,
       options.destroy_data});
  if (!target) return tl::unexpected(target.error());
  for (const int64_t bytes : options.sizes) {
    if (bytes > target->bytes() / kMinPlaces) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("request size {} is too large for {} of {}", FormatBytes(bytes),
                              FormatBytes(target->bytes()), target->what()));
    }
  }
  return Run(options, std::move(*target), on_progress, cancel).Go();
}

}  // namespace

Result<Profile> Calibrate(const CalibrateOptions& options,
                          const std::function<void(const CalibrateProgress&)>& on_progress,
                          const std::atomic<bool>* cancel) {
  double furthest = 0;  // progress never runs backwards
  const auto forward = [&](CalibrateProgress progress) {
    progress.done = furthest = std::max(furthest, progress.done);
    if (on_progress) on_progress(progress);
  };
  for (int attempt = 1;; ++attempt) {
    Result<Profile> profile = CalibrateOnce(options, forward, cancel);
    // Without an errno: not the kernel's refusal of io_uring.
    const bool implausible = !profile && profile.error().code == ErrorCode::kUnavailable &&
                             profile.error().sys_errno == 0;
    if (!implausible || attempt == kMostAttempts) return profile;
  }
}

}  // namespace weir::device
