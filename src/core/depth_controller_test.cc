// Goal: on devices of every kind the controller settles at a depth that costs little throughput and
// is not much deeper than the device needs.
// Method: a discrete-event loop keeps the controller's bound full on a virtual device; rates and
// depths are compared with what the device could do.
#include "core/depth_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"

namespace weir::core {
namespace {

constexpr int64_t kLarge = 16;

struct DeviceKind {
  const char* name;
  int slots = 1;
  int64_t service_ns = 100'000;
  double noise = 0;            // service times vary by +- this share
  double cap_per_s = 0;        // cloud disk: served at most at this rate
  int64_t stall_every_ns = 0;  // the device does nothing for stall_ns
  int64_t stall_ns = 0;
  int64_t reaper_every_ns = 0;  // completions are seen late: not within the first reaper_ns of each
  int64_t reaper_ns = 0;
  int tokens = 0;               // served at most so many in each tokens_every_ns,
  int64_t tokens_every_ns = 0;  // which are given all at once
  int64_t slow_every_ns = 0;    // service takes four times as long in slow_ns of each
  int64_t slow_ns = 0;
  double large_share = 0;  // of the requests cost kLarge ops, the others 1
  // Expectations.
  double seconds = 10;
  double least_share = 0.97;  // of what the device can do
  double least_depth = 0, most_depth = 1e9;

  // Ops per second.
  [[nodiscard]] double Capacity() const {
    const double slots_rate = slots * 1e9 / static_cast<double>(service_ns);
    if (cap_per_s > 0) return std::min(cap_per_s, slots_rate);
    if (tokens > 0) return tokens * 1e9 / static_cast<double>(tokens_every_ns);
    const double stalled = Share(stall_ns, stall_every_ns);
    const double slow = Share(slow_ns, slow_every_ns);
    return slots_rate * (1 - stalled) * (1 - slow + slow / 4);
  }
  static double Share(int64_t part_ns, int64_t every_ns) {
    return every_ns == 0 ? 0 : static_cast<double>(part_ns) / static_cast<double>(every_ns);
  }
};

struct Outcome {
  double share = 0;  // of the capacity, in the second half of the run
  double depth = 0;  // mean, ops
};

class Device {
 public:
  Device(const DeviceKind& kind, uint64_t seed)
      : kind_(kind), random_(seed), free_at_(kind.slots) {}

  int64_t NextCost() { return random_.Chance(kind_.large_share) ? kLarge * kOp : kOp; }

  // When a request sent now is seen to be complete.
  int64_t Completion(int64_t now, int64_t cost) {
    auto slot = std::min_element(free_at_.begin(), free_at_.end());
    int64_t start = std::max(now, *slot);
    if (kind_.cap_per_s > 0) {
      next_token_ = std::max<double>(next_token_, static_cast<double>(start) - 30e6);
      next_token_ += 1e9 / kind_.cap_per_s;
      start = std::max(start, static_cast<int64_t>(next_token_));
    }
    if (kind_.tokens > 0) start = TakeToken(start);
    double factor =
        static_cast<double>(cost) / kOp * (1 + kind_.noise * (2 * random_.Uniform() - 1));
    if (kind_.slow_every_ns > 0 && start % kind_.slow_every_ns < kind_.slow_ns) factor *= 4;
    int64_t end = start + static_cast<int64_t>(static_cast<double>(kind_.service_ns) * factor);
    if (kind_.stall_every_ns > 0 && end % kind_.stall_every_ns < kind_.stall_ns) {
      end += kind_.stall_ns - end % kind_.stall_every_ns;
    }
    *slot = end;
    if (kind_.reaper_every_ns > 0 && end % kind_.reaper_every_ns < kind_.reaper_ns) {
      return end + kind_.reaper_ns - end % kind_.reaper_every_ns;
    }
    return end;
  }

 private:
  int64_t TakeToken(int64_t start) {
    const int64_t period = std::max(start / kind_.tokens_every_ns, token_period_);
    if (period > token_period_) tokens_taken_ = 0;
    token_period_ = period;
    if (tokens_taken_ == kind_.tokens) {
      ++token_period_;
      tokens_taken_ = 0;
    }
    ++tokens_taken_;
    return std::max(start, token_period_ * kind_.tokens_every_ns);
  }

  DeviceKind kind_;
  Random random_;
  std::vector<int64_t> free_at_;
  double next_token_ = 0;
  int64_t token_period_ = 0;
  int tokens_taken_ = 0;
};

Outcome Simulate(const DeviceKind& kind, uint64_t seed) {
  Device device(kind, seed);
  DepthController controller{DepthOptions{}};
  if (kind.large_share > 0) controller.SetLargest(kLarge * kOp);
  using Completion = std::pair<int64_t, int64_t>;  // when, cost
  std::priority_queue<Completion, std::vector<Completion>, std::greater<>> completions;
  const auto end = static_cast<int64_t>(kind.seconds * 1e9);
  int64_t now = 0, in_flight = 0, served = 0;
  double depth_sum = 0, instants = 0;
  while (now < end) {
    while (in_flight < controller.depth()) {
      const int64_t cost = device.NextCost();
      completions.emplace(device.Completion(now, cost), cost);
      in_flight += cost;
    }
    int64_t cost = 0;
    std::tie(now, cost) = completions.top();
    completions.pop();
    (void)controller.OnComplete(cost, in_flight, completions.size() + 1, FromNanos(now));
    in_flight -= cost;
    if (now > end / 2) {
      served += cost;
      ++instants;
      depth_sum += static_cast<double>(controller.depth()) / kOp;
    }
  }
  return {static_cast<double>(served) / kOp / (kind.seconds / 2) / kind.Capacity(),
          depth_sum / instants};
}

class DepthControllerOn : public testing::TestWithParam<DeviceKind> {};

TEST_P(DepthControllerOn, GivesItsRateAtASmallDepth) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    const Outcome outcome = Simulate(GetParam(), seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": share " << outcome.share << ", depth "
                                    << outcome.depth << " ops");
    EXPECT_GE(outcome.share, GetParam().least_share);
    EXPECT_GE(outcome.depth, GetParam().least_depth);
    EXPECT_LE(outcome.depth, GetParam().most_depth);
  }
}

constexpr int64_t kMsNs = 1'000'000;

const DeviceKind kKinds[] = {
    {.name = "Nvme", .slots = 32, .noise = 0.3, .most_depth = 64},
    {.name = "Ssd", .slots = 8, .service_ns = 200'000, .noise = 0.5, .most_depth = 16},
    {.name = "Hdd", .service_ns = 8 * kMsNs, .noise = 0.5, .seconds = 240, .most_depth = 4},
    {.name = "CloudDisk",
     .slots = 16,
     .service_ns = 500'000,
     .noise = 0.2,
     .cap_per_s = 3000,
     .most_depth = 8},
    {.name = "NvmeWithStalls",
     .slots = 32,
     .noise = 0.3,
     .stall_every_ns = 500 * kMsNs,
     .stall_ns = 50 * kMsNs,
     .most_depth = 80},
    // A completion thread that sleeps half of the time needs what the device does meanwhile.
    {.name = "LateReaper",
     .slots = 8,
     .service_ns = 800'000,
     .reaper_every_ns = 10 * kMsNs,
     .reaper_ns = 5 * kMsNs,
     .least_share = 0.95,
     .least_depth = 8},
    {.name = "LateReaperOnNvme",
     .slots = 32,
     .noise = 0.3,
     .reaper_every_ns = 2 * kMsNs,
     .reaper_ns = 1 * kMsNs,
     .least_share = 0.95,
     .least_depth = 32},
    // Where each period's batch is small beside what the device did while it was reaped, depths
    // near one another give nearly the same rate, all far below the device's.
    {.name = "LateReaperOnNvmeOfLongPeriod",
     .slots = 32,
     .noise = 0.3,
     .reaper_every_ns = 10 * kMsNs,
     .reaper_ns = 5 * kMsNs,
     .least_depth = 1'600,
     .most_depth = 3'000},
    {.name = "SsdReapedInBatches",
     .slots = 8,
     .service_ns = 200'000,
     .noise = 0.5,
     .reaper_every_ns = 200'000,
     .reaper_ns = 200'000,
     .most_depth = 40},
    // Large requests hide what the depth buys: it counts whole ones of them.
    {.name = "SmallAndLarge",
     .slots = 32,
     .noise = 0.3,
     .large_share = 0.1,
     .seconds = 20,
     .least_depth = 100,
     .most_depth = 800},
    // More depth buys nothing here although everything comes back at once and the device was idle.
    {.name = "CloudDiskWithTokensInBursts",
     .slots = 64,
     .service_ns = 500'000,
     .noise = 0.2,
     .tokens = 300,
     .tokens_every_ns = 100 * kMsNs,
     .most_depth = 150},
    {.name = "NvmeWithSlowPhases",
     .slots = 32,
     .noise = 0.3,
     .slow_every_ns = 2500 * kMsNs,
     .slow_ns = 500 * kMsNs,
     .most_depth = 80},
};

INSTANTIATE_TEST_SUITE_P(Devices, DepthControllerOn, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

// --- Without a device: completions one after the other, `gap` apart.

class Feed {
 public:
  explicit Feed(const DepthOptions& options) : controller(options) {}
  // `share`: of the bound that is in flight before each completion.
  void Complete(int count, double share, std::chrono::microseconds gap) {
    for (int i = 0; i < count; ++i) {
      now_ += gap;
      const auto in_flight = static_cast<int64_t>(static_cast<double>(controller.depth()) * share);
      if (controller.OnComplete(kOp, in_flight, 8, now_)) ++changes;
    }
  }
  DepthController controller;
  int changes = 0;

 private:
  TimePoint now_ = FromNanos(1);
};

TEST(DepthController, LearnsNothingFromADeviceThatIsNotKeptFull) {
  Feed feed{DepthOptions{}};
  feed.Complete(100'000, 0.5, std::chrono::microseconds(50));
  EXPECT_EQ(feed.changes, 0);
  EXPECT_EQ(feed.controller.depth(), DepthOptions{}.initial);
}

TEST(DepthController, ADepthThatBuysNothingIsGivenUpDownToTheLargestRequest) {
  Feed feed{DepthOptions{}};
  feed.controller.SetLargest(4 * kOp);
  feed.Complete(100'000, 1, std::chrono::microseconds(50));  // one rate, whatever the depth
  EXPECT_GE(feed.controller.depth(), 4 * kOp);
  EXPECT_LE(feed.controller.depth(), 6 * kOp);
}

TEST(DepthController, StaysWithinItsBounds) {
  DepthOptions options;
  options.min = 3 * kOp;
  options.max = 5 * kOp;
  Feed feed{options};
  feed.controller.SetLargest(100 * kOp);
  feed.Complete(1'000, 1, std::chrono::microseconds(50));
  EXPECT_LE(feed.controller.depth(), options.max);
  feed.controller.SetLargest(kOp);
  feed.Complete(100'000, 1, std::chrono::microseconds(50));
  EXPECT_GE(feed.controller.depth(), options.min);
}

TEST(DepthController, AFixedDepthStays) {
  Feed feed{DepthOptions{}};
  feed.controller.Fix(3 * kOp);
  feed.controller.SetLargest(100 * kOp);
  feed.Complete(100'000, 1, std::chrono::microseconds(50));
  EXPECT_EQ(feed.controller.depth(), 3 * kOp);
  EXPECT_EQ(feed.changes, 0);
}

}  // namespace
}  // namespace weir::core
