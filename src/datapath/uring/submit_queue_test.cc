// SubmitQueue and OpPool: nothing is lost, doubled or reordered, whoever pushes when.
#include "datapath/uring/submit_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "datapath/uring/op_pool.h"

namespace weir::uring {
namespace {

using Pushed = SubmitQueue::Pushed;

struct Item : QueueNode {
  Item() : QueueNode(Kind::kControl) {}
  int thread = 0;
  int number = 0;
};

TEST(SubmitQueueTest, GivesBackInTheOrderOfPushing) {
  SubmitQueue queue;
  Item items[3];
  for (Item& item : items) EXPECT_EQ(queue.Push(&item), Pushed::kDone);
  QueueNode* node = queue.TakeAll();
  for (Item& item : items) {
    ASSERT_EQ(node, &item);
    node = node->next;
  }
  EXPECT_EQ(node, nullptr);
  EXPECT_EQ(queue.TakeAll(), nullptr);
}

TEST(SubmitQueueTest, OnlyTheFirstPushAfterFallingAsleepWakes) {
  SubmitQueue queue;
  Item items[3];
  EXPECT_EQ(queue.Push(&items[0]), Pushed::kDone);
  EXPECT_FALSE(queue.PrepareSleep()) << "something was pushed: no sleep";
  EXPECT_EQ(queue.TakeAll(), &items[0]);
  ASSERT_TRUE(queue.PrepareSleep());
  EXPECT_EQ(queue.Push(&items[1]), Pushed::kWakeOwner);
  EXPECT_EQ(queue.Push(&items[2]), Pushed::kDone);
  EXPECT_EQ(queue.TakeAll(), &items[1]);
  ASSERT_TRUE(queue.PrepareSleep());
  EXPECT_EQ(queue.TakeAll(), nullptr) << "woken by something else";
  EXPECT_EQ(queue.Push(&items[0]), Pushed::kDone);
  EXPECT_EQ(queue.wakers(), 1u);
}

TEST(SubmitQueueTest, ClosedTakesNothing) {
  SubmitQueue queue;
  Item item;
  EXPECT_EQ(queue.Push(&item), Pushed::kDone);
  EXPECT_FALSE(queue.Close());
  EXPECT_EQ(queue.TakeAll(), &item);
  EXPECT_TRUE(queue.Close());
  EXPECT_EQ(queue.Push(&item), Pushed::kClosed);
}

TEST(SubmitQueueTest, ThreadsLoseNothingAndKeepTheirOrder) {
  constexpr int kThreads = 4;
  constexpr int kItems = 20'000;
  SubmitQueue queue;
  std::vector<std::vector<Item>> items(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    items[t] = std::vector<Item>(kItems);
    for (int i = 0; i < kItems; ++i) {
      items[t][i].thread = t;
      items[t][i].number = i;
    }
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (Item& item : items[t]) static_cast<void>(queue.Push(&item));
    });
  }
  std::vector<int> next(kThreads, 0);
  for (int seen = 0; seen < kThreads * kItems;) {
    for (QueueNode* node = queue.TakeAll(); node != nullptr; node = node->next) {
      const Item& item = *static_cast<Item*>(node);
      ASSERT_EQ(item.number, next[item.thread]++);
      ++seen;
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(OpPoolTest, GivesExactlyItsCapacity) {
  OpPool pool;
  ASSERT_TRUE(pool.Init(100));
  std::set<Op*> ops;
  for (int i = 0; i < 100; ++i) {
    Op* op = pool.Take();
    ASSERT_NE(op, nullptr);
    EXPECT_TRUE(ops.insert(op).second) << "handed out twice";
  }
  EXPECT_EQ(pool.Take(), nullptr);
  for (Op* op : ops) pool.Free(op);
  pool.Flush();
  for (int i = 0; i < 100; ++i) EXPECT_NE(pool.Take(), nullptr);
  EXPECT_EQ(pool.Take(), nullptr);
}

TEST(OpPoolTest, AFreedOpIsNotFoundByItsOldId) {
  OpPool pool;
  ASSERT_TRUE(pool.Init(4));
  Op* op = pool.Take();
  const OpId id{op->index, op->generation};
  EXPECT_EQ(pool.Find(id), op);
  pool.Free(op);
  EXPECT_EQ(pool.Find(id), nullptr);
  EXPECT_EQ(pool.TakeOnOwner(), op) << "the warm one first";
  EXPECT_EQ(pool.Find(id), nullptr) << "in use again, but by another request";
  EXPECT_EQ(pool.Find(OpId{}), nullptr);
  EXPECT_EQ(pool.Find(OpId{3, 1}), nullptr) << "never used";
}

// Threads take, the owner frees; an op is never in two hands.
TEST(OpPoolTest, ThreadsNeverShareAnOp) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 3'000;
  OpPool pool;
  ASSERT_TRUE(pool.Init(64));
  SubmitQueue queue;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds;) {
        Op* op = pool.Take();
        if (op == nullptr) {
          std::this_thread::yield();
          continue;
        }
        ASSERT_EQ(op->io.bytes, 0) << "somebody else's";
        op->io.bytes = t + 1;
        static_cast<void>(queue.Push(op));
        ++i;
      }
    });
  }
  for (int seen = 0; seen < kThreads * kRounds;) {
    QueueNode* node = queue.TakeAll();
    while (node != nullptr) {
      QueueNode* next = node->next;
      Op* op = static_cast<Op*>(node);
      ASSERT_NE(op->io.bytes, 0);
      op->io.bytes = 0;
      pool.Free(op);
      node = next;
      ++seen;
    }
    pool.Flush();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weir::uring
