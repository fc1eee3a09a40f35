// Goal: on devices of every kind the controller settles at a depth that costs little throughput and
// is not much deeper than the device needs.
// Method: a discrete-event loop keeps the controller's bound full on a virtual device; rates and
// depths are compared with what the device could do.
#include "core/depth_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <vector>

#include "base/random.h"

namespace weir::core {
namespace {

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
  // Expectations.
  double seconds = 20;
  double least_share = 0.97;  // of what the device can do
  double least_depth = 0, most_depth = 1e9;

  [[nodiscard]] double Capacity() const {
    const double slots_rate = slots * 1e9 / static_cast<double>(service_ns);
    const double awake = stall_every_ns == 0 ? 1.0
                                             : 1 - static_cast<double>(stall_ns) /
                                                       static_cast<double>(stall_every_ns);
    return cap_per_s > 0 ? std::min(cap_per_s, slots_rate) : slots_rate * awake;
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

  // When a request sent now is seen to be complete.
  int64_t Completion(int64_t now) {
    auto slot = std::min_element(free_at_.begin(), free_at_.end());
    int64_t start = std::max(now, *slot);
    if (kind_.cap_per_s > 0) {
      next_token_ = std::max<double>(next_token_, static_cast<double>(start) - 30e6);
      next_token_ += 1e9 / kind_.cap_per_s;
      start = std::max(start, static_cast<int64_t>(next_token_));
    }
    const double factor = 1 + kind_.noise * (2 * random_.Uniform() - 1);
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
  DeviceKind kind_;
  Random random_;
  std::vector<int64_t> free_at_;
  double next_token_ = 0;
};

Outcome Simulate(const DeviceKind& kind, uint64_t seed) {
  Device device(kind, seed);
  DepthController controller{DepthOptions{}};
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> completions;
  const auto end = static_cast<int64_t>(kind.seconds * 1e9);
  int64_t now = 0, in_flight = 0, completed = 0;
  double depth_sum = 0;
  while (now < end) {
    while (in_flight < controller.depth()) {
      completions.push(device.Completion(now));
      in_flight += kOp;
    }
    now = completions.top();
    completions.pop();
    (void)controller.OnComplete(kOp, in_flight, completions.size() + 1, FromNanos(now));
    in_flight -= kOp;
    if (now > end / 2) {
      ++completed;
      depth_sum += static_cast<double>(controller.depth()) / kOp;
    }
  }
  return {static_cast<double>(completed) / (kind.seconds / 2) / kind.Capacity(),
          depth_sum / static_cast<double>(completed)};
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
     .least_share = 0.95,
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
};

INSTANTIATE_TEST_SUITE_P(Devices, DepthControllerOn, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace weir::core
