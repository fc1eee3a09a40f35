// Goal: limits are judged by every window, not by seconds, and times of effect are exact. Method:
// small grids by hand, and random ones against the definition.
#include "app/demo/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace weir::app::demo {
namespace {

constexpr Duration kMs = std::chrono::milliseconds(1);

int64_t ExcessByDefinition(const std::vector<int64_t>& cost, int64_t per_step, size_t from,
                           size_t to) {
  int64_t largest = 0;
  for (size_t i = from; i < to; ++i) {
    int64_t sum = 0;
    for (size_t j = i; j < to; ++j) {
      sum += cost[j] - per_step;
      largest = std::max(largest, sum);
    }
  }
  return largest;
}

TEST(Grid, LargestExcessIsThatOfTheWorstWindow) {
  const std::vector<int64_t> cost = {10, 10, 40, 0, 0, 30, 20, 10};
  const GridView grid{&cost, kMs};
  // 10 a step: step 2 alone is 30 too much; with the pause and steps 5 and 6 it is 40.
  EXPECT_EQ(LargestExcess(grid, 10'000, Duration(0), 8 * kMs), 40);
  EXPECT_EQ(LargestExcess(grid, 10'000, Duration(0), 5 * kMs), 30);
  EXPECT_EQ(LargestExcess(grid, 10'000, 3 * kMs, 8 * kMs), 30);
  EXPECT_EQ(LargestExcess(grid, 10'000, 7 * kMs, 8 * kMs), 0);
  EXPECT_EQ(LargestExcess(grid, 40'000, Duration(0), 8 * kMs), 0);
}

TEST(Grid, LargestExcessAgreesWithItsDefinition) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    std::vector<int64_t> cost(static_cast<size_t>(random.Range(1, 40)));
    for (int64_t& step : cost) step = random.Range(0, 30);
    const GridView grid{&cost, kMs};
    EXPECT_EQ(LargestExcess(grid, 12'000, Duration(0), kMs * static_cast<int64_t>(cost.size())),
              ExcessByDefinition(cost, 12, 0, cost.size()))
        << "seed " << seed;
  }
}

TEST(Grid, ARateThatIsNoWholeNumberAStepIsNotPassedByItself) {
  constexpr int64_t kRate = 1'999;  // 1.999 a step
  std::vector<int64_t> cost;
  for (int64_t i = 0; i < 20'000; ++i) cost.push_back((i + 1) * kRate / 1000 - i * kRate / 1000);
  const GridView grid{&cost, kMs};
  EXPECT_LE(LargestExcess(grid, kRate, Duration(0), 20'000 * kMs), 1);
  EXPECT_EQ(LoweredAfter(grid, kRate, 1, Duration(0), 20'000 * kMs), Duration(0));
}

TEST(Grid, ServedCountsWholeSteps) {
  const std::vector<int64_t> cost = {1, 2, 4, 8};
  const GridView grid{&cost, kMs};
  EXPECT_EQ(ServedIn(grid, 1 * kMs, 3 * kMs), 6);
  EXPECT_EQ(ServedIn(grid, Duration(0), 100 * kMs), 15);
  EXPECT_EQ(ServedIn(grid, 50 * kMs, 100 * kMs), 0);
}

TEST(Grid, ALoweredLimitIsInForceOnceNoLaterWindowExceedsIt) {
  // Changed at 2 ms to 10 a step: two more steps of 50 come before it bites.
  const std::vector<int64_t> cost = {50, 50, 50, 50, 10, 10, 10, 10};
  const GridView grid{&cost, kMs};
  EXPECT_EQ(LoweredAfter(grid, 10'000, 5, 2 * kMs, 8 * kMs), 2 * kMs);
  EXPECT_EQ(LoweredAfter(grid, 10'000, 40, 2 * kMs, 8 * kMs), 1 * kMs);  // one of 50 is the burst
  EXPECT_EQ(LoweredAfter(grid, 10'000, 80, 2 * kMs, 8 * kMs), Duration(0));
}

TEST(Grid, ALimitThatIsNeverKeptIsNeverInForce) {
  const std::vector<int64_t> cost = {50, 50, 50, 50};
  const GridView grid{&cost, kMs};
  EXPECT_EQ(LoweredAfter(grid, 10'000, 5, 1 * kMs, 4 * kMs), 3 * kMs);
}

TEST(Grid, LoweredAfterAgreesWithItsDefinition) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    std::vector<int64_t> cost(30);
    for (int64_t& step : cost) step = random.Range(0, 30);
    const GridView grid{&cost, kMs};
    const int64_t allowance = random.Range(0, 60);
    int64_t expected = 0;
    while (expected < 30 &&
           ExcessByDefinition(cost, 12, static_cast<size_t>(expected), 30) > allowance) {
      ++expected;
    }
    EXPECT_EQ(LoweredAfter(grid, 12'000, allowance, Duration(0), 30 * kMs), expected * kMs)
        << "seed " << seed;
  }
}

TEST(Grid, ARaisedLimitIsInForceOnceTheOldOneIsPassed) {
  const std::vector<int64_t> cost = {10, 10, 10, 10, 12, 40, 40};
  const GridView grid{&cost, kMs};
  EXPECT_EQ(RaisedAfter(grid, 10'000, 5, 2 * kMs, 7 * kMs), 4 * kMs);
  EXPECT_EQ(RaisedAfter(grid, 10'000, 1, 2 * kMs, 7 * kMs), 3 * kMs);
  EXPECT_EQ(RaisedAfter(grid, 100'000, 0, 2 * kMs, 7 * kMs), 5 * kMs);  // never
}

}  // namespace
}  // namespace weir::app::demo
