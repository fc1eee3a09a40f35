// Goal: the simulated device takes the time it should, whatever slows it down.

#include "sim/virtual_device.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

DeviceOptions OneSlot() {
  DeviceOptions options;
  options.parallelism = 1;
  options.reference_time = milliseconds(1);
  return options;
}

Duration Take(VirtualDevice* device, Duration now, int64_t cost = kOp,
              Direction direction = Direction::kRead) {
  Random random(1);
  return device->Submit(cost, direction, TimePoint(now), &random).time_since_epoch();
}

TEST(VirtualDevice, SlotsWorkSideBySideAndQueueBeyond) {
  DeviceOptions options = OneSlot();
  options.parallelism = 2;
  VirtualDevice device(options);
  EXPECT_DOUBLE_EQ(device.capacity(), 2'000);
  EXPECT_EQ(Take(&device, milliseconds(0)), milliseconds(1));
  EXPECT_EQ(Take(&device, milliseconds(0), 3 * kOp), milliseconds(3));
  EXPECT_EQ(Take(&device, milliseconds(0)), milliseconds(2));
  EXPECT_EQ(Take(&device, milliseconds(0)), milliseconds(3));
  EXPECT_EQ(Take(&device, milliseconds(10)), milliseconds(11));
}

TEST(VirtualDevice, TimeGrowsWithCostAndForWritesByTheirFactor) {
  DeviceOptions options = OneSlot();
  options.write_factor = 2.5;
  VirtualDevice device(options);
  EXPECT_EQ(Take(&device, milliseconds(0), kOp / 2), microseconds(500));
  EXPECT_EQ(Take(&device, milliseconds(10), 4 * kOp, Direction::kWrite), milliseconds(20));
}

TEST(VirtualDevice, NothingMovesDuringAStall) {
  DeviceOptions options = OneSlot();
  options.stall_every = milliseconds(10);
  options.stall_for = milliseconds(4);
  struct Case {
    Duration now;
    int64_t cost;
    Duration done;
  };
  const Case cases[] = {
      {milliseconds(0), kOp, milliseconds(1)},         // the first period has no stall
      {milliseconds(8), 2 * kOp, milliseconds(10)},    // done as it begins
      {milliseconds(8), 3 * kOp, milliseconds(15)},    // one of three left, after the stall
      {milliseconds(12), kOp, milliseconds(15)},       // arrives in the stall
      {milliseconds(14), 6 * kOp, milliseconds(20)},   // just fits between two
      {milliseconds(14), 13 * kOp, milliseconds(35)},  // over two stalls
  };
  for (const Case& c : cases) {
    VirtualDevice device(options);
    EXPECT_EQ(Take(&device, c.now, c.cost), c.done) << c.now.count() << " " << c.cost;
  }
}

TEST(VirtualDevice, SlowPhasesStretchWhatStartsInThem) {
  DeviceOptions options = OneSlot();
  options.slow_every = milliseconds(100);
  options.slow_for = milliseconds(10);
  options.slow_factor = 5;
  VirtualDevice device(options);
  EXPECT_EQ(Take(&device, milliseconds(1)), milliseconds(6));
  EXPECT_EQ(Take(&device, milliseconds(50)), milliseconds(51));
  EXPECT_EQ(Take(&device, milliseconds(105)), milliseconds(110));
}

TEST(VirtualDevice, NoiseKeepsTheMean) {
  DeviceOptions options = OneSlot();
  options.noise = 0.5;
  VirtualDevice device(options);
  Random random(3);
  TimePoint done{};
  for (int i = 0; i < 20'000; ++i) {
    const TimePoint next = device.Submit(kOp, Direction::kRead, done, &random);
    EXPECT_GE(next - done, microseconds(500));
    EXPECT_LE(next - done, microseconds(1'500));
    done = next;
  }
  EXPECT_NEAR(ToSeconds(done.time_since_epoch()), 20, 0.2);
}

}  // namespace
}  // namespace weir::sim
