// Goal: an interval shows what happened in it and nothing of what happened before.

#include "scenario/sample.h"

#include <gtest/gtest.h>

namespace weir::scenario {
namespace {

using core::GroupStats;
using core::Phase;

GroupStats After() {
  GroupStats stats;
  stats.served[0] = {300 * kOp, 100 * kOp};  // norm, read and write
  stats.served[1] = {150 * kOp, 50 * kOp};
  stats.served[2] = {3'000'000, 1'000'000};
  stats.norm_by_phase[static_cast<size_t>(Phase::kReservation)] = 100 * kOp;
  stats.norm_by_phase[static_cast<size_t>(Phase::kWeight)] = 200 * kOp;
  stats.norm_by_phase[static_cast<size_t>(Phase::kLeftover)] = 100 * kOp;
  stats.blocked_ns[0][2] = 1'500'000'000;
  stats.blocked_ns[2][1] = 1'000'000'000;
  stats.queued = {3, 4};
  stats.expired = 5;
  for (int i = 0; i < 10; ++i) stats.wait.Record(std::chrono::milliseconds(1));
  return stats;
}

TEST(Sample, RatesAndSharesAreThoseOfTheInterval) {
  const GroupSample sample = SampleOf(GroupStats{}, After(), 2);
  EXPECT_DOUBLE_EQ(sample.norm_iops, 200);
  EXPECT_DOUBLE_EQ(sample.raw_iops, 100);
  EXPECT_DOUBLE_EQ(sample.bytes_per_s, 2'000'000);
  EXPECT_DOUBLE_EQ(sample.read_share, 0.75);
  EXPECT_DOUBLE_EQ(sample.by_reservation, 0.25);
  EXPECT_DOUBLE_EQ(sample.by_weight, 0.5);
  EXPECT_DOUBLE_EQ(sample.by_leftover, 0.25);
  EXPECT_DOUBLE_EQ(sample.blocked_share, 0.75);
  EXPECT_EQ(sample.blocked_by, "MAX_IOPS(norm)");
  EXPECT_EQ(sample.queued, 7u);
  EXPECT_EQ(sample.timeouts, 5u);
  EXPECT_EQ(sample.wait.count(), 10u);
}

TEST(Sample, WhatHappenedBeforeDoesNotCount) {
  GroupStats after = After();
  after.blocked_ns[2][1] += 400'000'000;
  const GroupSample sample = SampleOf(After(), after, 1);
  EXPECT_EQ(sample.norm_iops, 0);
  EXPECT_EQ(sample.by_reservation + sample.by_weight + sample.by_leftover, 0);
  EXPECT_DOUBLE_EQ(sample.blocked_share, 0.4);
  EXPECT_EQ(sample.blocked_by, "MAX_BANDWIDTH(write)");
  EXPECT_EQ(sample.timeouts, 0u);
  EXPECT_EQ(sample.wait.count(), 0u);
}

TEST(Sample, AnIdleGroupIsHeldBackByNothing) {
  const GroupSample sample = SampleOf(After(), After(), 1);
  EXPECT_EQ(sample.blocked_by, "");
  EXPECT_EQ(sample.blocked_share, 0);
}

}  // namespace
}  // namespace weir::scenario
