// Goal: the heaps give the smallest key first whatever is pushed, moved and erased, also where keys
// wrap around. Method: random operations beside a plain ordered container.
#include "core/heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"

namespace weir::core {
namespace {

struct Item {
  uint32_t heap_pos[2] = {0, 0};
  int64_t key = 0;
  bool in = false;
};

class HeapOperations : public testing::TestWithParam<int64_t> {};

TEST_P(HeapOperations, GiveTheSmallestKeyFirst) {
  const int64_t base = GetParam();
  Random random(7);
  std::deque<Item> items(200);
  IndexedHeap<Item> heap;
  // Distances from `base`, which are ordered also where the keys themselves wrap.
  std::multiset<int64_t> expected;
  const auto distance = [&](const Item& item) { return WrapDiff(item.key, base); };
  for (int i = 0; i < 20'000; ++i) {
    Item& item = items[static_cast<size_t>(random.Range(0, 199))];
    const int64_t key = WrapAdd(base, random.Range(-1'000, 1'000));
    if (!item.in) {
      item.key = key;
      heap.Push(&item, key, 1);
      item.in = true;
      expected.insert(distance(item));
    } else {
      expected.erase(expected.find(distance(item)));
      if (random.Chance(0.5)) {
        item.key = key;
        heap.Update(&item, key, 1);
        expected.insert(distance(item));
      } else {
        heap.Erase(&item, 1);
        item.in = false;
      }
    }
    ASSERT_EQ(heap.size(), expected.size());
    ASSERT_EQ(heap.empty(), expected.empty());
    if (heap.empty()) continue;
    ASSERT_EQ(WrapDiff(heap.top_key(), base), *expected.begin());
    ASSERT_EQ(heap.top()->key, heap.top_key());
  }
  for (uint32_t i = 0; i < heap.size(); ++i) EXPECT_EQ(heap.node_at(i)->heap_pos[1], i);
}

INSTANTIATE_TEST_SUITE_P(Around, HeapOperations,
                         testing::Values(int64_t{0}, INT64_MAX - 100, INT64_MIN + 100));

TEST(IndexedHeap, UsesOnlyItsOwnSlot) {
  Item a, b;
  IndexedHeap<Item> first, second;
  first.Push(&a, 1, 0);
  first.Push(&b, 2, 0);
  second.Push(&b, 1, 1);
  second.Push(&a, 2, 1);
  EXPECT_EQ(first.top(), &a);
  EXPECT_EQ(second.top(), &b);
  first.Erase(&a, 0);
  EXPECT_EQ(first.top(), &b);
  EXPECT_EQ(second.top(), &b);
  EXPECT_EQ(second.size(), 2u);
}

TEST(Wrap, DifferencesAndSumsGoOnPastTheEnd) {
  EXPECT_EQ(WrapAdd(INT64_MAX, 1), INT64_MIN);
  EXPECT_EQ(WrapDiff(INT64_MIN, INT64_MAX), 1);
  EXPECT_EQ(WrapDiff(INT64_MAX, INT64_MIN), -1);
}

}  // namespace
}  // namespace weir::core
