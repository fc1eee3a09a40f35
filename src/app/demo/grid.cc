#include "app/demo/grid.h"

#include <algorithm>
#include <cstddef>

namespace weir::app::demo {

namespace {

constexpr int64_t kSecond = 1'000'000'000;

struct Steps {
  size_t first = 0;
  size_t last = 0;  // one past
};

Steps StepsOf(const GridView& grid, Duration from, Duration to) {
  const auto clamp = [&](Duration t) {
    return static_cast<size_t>(
        std::clamp<int64_t>(t / grid.step, 0, static_cast<int64_t>(grid.cost->size())));
  };
  return {clamp(from), clamp(to)};
}

// What a rate grants in step `i`. Not the same in all: rounded down in each, the sum over a long
// window would fall short by more than the request that decides a verdict.
int64_t GrantedIn(const GridView& grid, int64_t rate_per_s, size_t i) {
  const auto until = [&](size_t steps) {
    return static_cast<__int128>(rate_per_s) * grid.step.count() * static_cast<int64_t>(steps) /
           kSecond;
  };
  return static_cast<int64_t>(until(i + 1) - until(i));
}

}  // namespace

int64_t ServedIn(const GridView& grid, Duration from, Duration to) {
  const Steps steps = StepsOf(grid, from, to);
  int64_t sum = 0;
  for (size_t i = steps.first; i < steps.last; ++i) sum += (*grid.cost)[i];
  return sum;
}

// The largest sum of (cost - rate) over consecutive steps, by Kadane's algorithm.
int64_t LargestExcess(const GridView& grid, int64_t rate_per_s, Duration from, Duration to) {
  const Steps steps = StepsOf(grid, from, to);
  int64_t level = 0;
  int64_t largest = 0;
  for (size_t i = steps.first; i < steps.last; ++i) {
    level = std::max<int64_t>(0, level + (*grid.cost)[i] - GrantedIn(grid, rate_per_s, i));
    largest = std::max(largest, level);
  }
  return largest;
}

// Backwards: the largest excess of a window that starts at a step or later only grows.
Duration LoweredAfter(const GridView& grid, int64_t rate_per_s, int64_t allowance, Duration at,
                      Duration until) {
  const Steps steps = StepsOf(grid, at, until);
  int64_t best_from_here = 0;  // the largest excess of a window that starts at this step
  size_t held_from = steps.last;
  for (size_t i = steps.last; i > steps.first; --i) {
    best_from_here = (*grid.cost)[i - 1] - GrantedIn(grid, rate_per_s, i - 1) +
                     std::max<int64_t>(0, best_from_here);
    if (best_from_here > allowance) break;
    held_from = i - 1;
  }
  if (held_from == steps.last) return until - at;
  return std::max(Duration(0), grid.step * static_cast<int64_t>(held_from) - at);
}

Duration RaisedAfter(const GridView& grid, int64_t old_rate_per_s, int64_t allowance, Duration at,
                     Duration until) {
  const Steps steps = StepsOf(grid, at, until);
  int64_t beyond = -allowance;
  for (size_t i = steps.first; i < steps.last; ++i) {
    beyond += (*grid.cost)[i] - GrantedIn(grid, old_rate_per_s, i);
    if (beyond > 0) return std::max(Duration(0), grid.step * static_cast<int64_t>(i + 1) - at);
  }
  return until - at;
}

}  // namespace weir::app::demo
