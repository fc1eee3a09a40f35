#include "core/line_arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/random.h"

namespace weir::core {
namespace {

// Runs of random lengths, taken and given back at random, each filled with a byte of its own: a run
// that overlaps another, or that is not all there, is seen when its bytes are compared.
TEST(LineArena, RunsAreAlignedAndNeverOverlap) {
  struct Run {
    size_t lines;
    unsigned char fill;
  };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    LineArena arena;
    Random random(seed);
    std::map<unsigned char*, Run> runs;
    for (int step = 0; step < 5'000; ++step) {
      if (runs.empty() || random.Range(0, 2) != 0) {
        const auto lines = static_cast<size_t>(random.Range(1, LineArena::kMaxLines));
        auto* run = static_cast<unsigned char*>(arena.Take(lines));
        ASSERT_EQ(reinterpret_cast<uintptr_t>(run) % kLineBytes, 0u);
        const auto fill = static_cast<unsigned char>(step);
        std::memset(run, fill, lines * kLineBytes);
        ASSERT_TRUE(runs.emplace(run, Run{lines, fill}).second);
        continue;
      }
      auto it = runs.lower_bound(runs.begin()->first + random.Range(0, 1 << 20));
      if (it == runs.end()) it = runs.begin();
      for (size_t i = 0; i < it->second.lines * kLineBytes; ++i) {
        ASSERT_EQ(it->first[i], it->second.fill) << "seed " << seed << ", step " << step;
      }
      arena.GiveBack(it->first, it->second.lines);
      runs.erase(it);
    }
  }
}

TEST(LineArena, WhatWasGivenBackIsUsedAgain) {
  LineArena arena;
  void* a = arena.Take(7);
  void* b = arena.Take(7);
  void* other = arena.Take(1);
  arena.GiveBack(a, 7);
  arena.GiveBack(other, 1);
  arena.GiveBack(b, 7);
  EXPECT_EQ(arena.Take(7), b);
  EXPECT_EQ(arena.Take(7), a);
  EXPECT_EQ(arena.Take(1), other);
}

// What the arena is for: ten thousand nodes are on no more pages than their bytes need, but for a
// few at the ends of pieces.
TEST(LineArena, RunsOfOneLengthArePacked) {
  constexpr size_t kRuns = 10'000, kLines = 7;
  LineArena arena;
  std::map<uintptr_t, int> pages;
  for (size_t i = 0; i < kRuns; ++i)
    ++pages[reinterpret_cast<uintptr_t>(arena.Take(kLines)) / 4096];
  EXPECT_LE(pages.size(), kRuns * kLines * kLineBytes / 4096 + 20);
}

}  // namespace
}  // namespace weir::core
