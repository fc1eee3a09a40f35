// Goal: the earliest deadline is always on top, and any request can leave at any time.
// Method: random operations beside a plain ordered container.
#include "core/deadline_heap.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <vector>

#include "base/random.h"

namespace weir::core {
namespace {

TEST(DeadlineHeap, TheEarliestIsOnTopWhateverComesAndGoes) {
  Random random(11);
  std::deque<Request> requests(300);
  std::vector<bool> in(requests.size(), false);
  std::multiset<TimePoint> expected;
  DeadlineHeap heap;
  for (int i = 0; i < 30'000; ++i) {
    const size_t index = static_cast<size_t>(random.Range(0, 299));
    Request& r = requests[index];
    if (in[index]) {
      heap.Remove(&r);
      expected.erase(expected.find(r.deadline));
    } else {
      r.deadline = FromNanos(random.Range(0, 500));  // many are equal
      heap.Push(&r);
      expected.insert(r.deadline);
    }
    in[index] = !in[index];
    ASSERT_EQ(heap.top() == nullptr, expected.empty());
    if (heap.top() != nullptr) {
      ASSERT_EQ(heap.top()->deadline, *expected.begin());
    }
  }
}

TEST(DeadlineHeap, GivesAllInOrder) {
  Random random(12);
  std::deque<Request> requests(1'000);
  DeadlineHeap heap;
  for (Request& r : requests) {
    r.deadline = FromNanos(random.Range(0, 1'000'000));
    heap.Push(&r);
  }
  TimePoint last{};
  for (size_t i = 0; i < requests.size(); ++i) {
    Request* top = heap.top();
    ASSERT_NE(top, nullptr);
    EXPECT_GE(top->deadline, last);
    last = top->deadline;
    heap.Remove(top);
  }
  EXPECT_EQ(heap.top(), nullptr);
}

TEST(DeadlineHeap, RemovingWhatIsNotInItDoesNothing) {
  DeadlineHeap heap;
  Request a, b;
  a.deadline = b.deadline = FromNanos(1);
  heap.Push(&a);
  heap.Remove(&b);
  EXPECT_EQ(heap.top(), &a);
  heap.Remove(&a);
  heap.Remove(&a);
  EXPECT_EQ(heap.top(), nullptr);
}

}  // namespace
}  // namespace weir::core
