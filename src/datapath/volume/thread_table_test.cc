// Goal: what is written is what is read, by another mapping and while it changes; any content is
// survived; files that are no table, or not ours, are refused.
#include "datapath/volume/thread_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <vector>

#include "base/random.h"

namespace weir::volume {
namespace {

class ThreadTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/thread_table_XXXXXX";
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ + "/threads";
  }
  void TearDown() override {
    ::unlink(path_.c_str());
    ::rmdir(directory_.c_str());
  }
  ThreadTableWriter Writer() {
    auto writer = ThreadTableWriter::Open(path_);
    if (!writer) throw std::runtime_error(writer.error().message);
    return std::move(*writer);
  }
  ThreadTableReader Reader() {
    auto reader = ThreadTableReader::Open(path_);
    if (!reader) throw std::runtime_error(reader.error().message);
    return std::move(*reader);
  }
  std::string directory_, path_;
};

TEST_F(ThreadTableTest, TokensAreFixedForEver) {
  EXPECT_EQ(GroupToken(""), 0xCBF29CE484222325u);
  EXPECT_EQ(GroupToken("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(GroupToken("foobar"), 0x85944171F73967E8u);
}

TEST_F(ThreadTableTest, WhatIsSetIsFoundUntilItIsCleared) {
  const ThreadTableReader reader = Reader();  // either side may be first
  ThreadTableWriter writer = Writer();
  EXPECT_EQ(reader.Find(7, 0), 0u);
  ASSERT_TRUE(writer.Set(7, 0, 70).has_value());
  ASSERT_TRUE(writer.Set(8, 1234, 80).has_value());
  EXPECT_EQ(reader.Find(7, 99), 70u);
  EXPECT_EQ(reader.Find(8, 1234), 80u);
  EXPECT_EQ(reader.Find(8, 0), 80u);
  EXPECT_EQ(reader.Find(8, 1235), 0u) << "the TID was reused";
  ASSERT_TRUE(writer.Set(7, 0, 71).has_value());
  ASSERT_TRUE(writer.Set(8, 1235, 81).has_value());
  EXPECT_EQ(reader.Find(7, 0), 71u);
  EXPECT_EQ(reader.Find(8, 1235), 81u);
  writer.Clear(7);
  EXPECT_EQ(reader.Find(7, 0), 0u);
  EXPECT_EQ(reader.Find(8, 1235), 81u);
  writer.ClearAll();
  EXPECT_EQ(reader.Find(8, 1235), 0u);
  struct stat st = {};
  ASSERT_EQ(::stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(ThreadTableTest, ManyThreadsComeAndGo) {
  const ThreadTableReader reader = Reader();
  ThreadTableWriter writer = Writer();
  for (uint32_t tid = 1; tid <= 20'000; ++tid) ASSERT_TRUE(writer.Set(tid, 0, tid).has_value());
  for (uint32_t tid = 1; tid <= 20'000; ++tid) ASSERT_EQ(reader.Find(tid, 0), tid);
  // Slots of threads that ended are used again, for ever.
  for (uint32_t tid = 20'001; tid <= 400'000; ++tid) {
    writer.Clear(tid - 20'000);
    ASSERT_TRUE(writer.Set(tid, 0, tid).has_value()) << tid;
  }
  for (uint32_t tid = 380'001; tid <= 400'000; ++tid) ASSERT_EQ(reader.Find(tid, 0), tid);
}

TEST_F(ThreadTableTest, AFullNeighbourhoodIsAnError) {
  ThreadTableWriter writer = Writer();
  size_t refused = 0;
  for (uint32_t tid = 1; tid <= kThreadTableSlots + 10; ++tid) {
    const auto set = writer.Set(tid, 0, 1);
    if (set) continue;
    ++refused;
    EXPECT_EQ(set.error().code, ErrorCode::kResourceExhausted);
  }
  EXPECT_GE(refused, 10u);
  EXPECT_FALSE(writer.Set(0, 0, 1).has_value());
  EXPECT_FALSE(writer.Set(1, 0, 0).has_value());
}

TEST_F(ThreadTableTest, OneWriterAtATimeAndWhatItWroteOutlivesIt) {
  {
    ThreadTableWriter writer = Writer();
    ASSERT_TRUE(writer.Set(5, 0, 50).has_value());
    const auto second = ThreadTableWriter::Open(path_);
    ASSERT_FALSE(second.has_value());
    EXPECT_NE(second.error().message.find("another process writes it"), std::string::npos);
  }
  EXPECT_EQ(Reader().Find(5, 0), 50u);
  Writer().Clear(5);
}

TEST_F(ThreadTableTest, AReaderNeverTakesOneThreadsTokenForAnothers) {
  const ThreadTableReader reader = Reader();
  ThreadTableWriter writer = Writer();
  // Two threads that share their first slot take turns in it: the token tells whose it was.
  std::vector<uint32_t> tids = {1};
  const auto slot = [](uint32_t tid) { return (tid * 0x9E3779B1u >> 16) & 0xFFFF; };
  for (uint32_t tid = 2; tids.size() < 2; ++tid) {
    if (slot(tid) == slot(1)) tids.push_back(tid);
  }
  std::atomic<bool> stop{false};
  std::thread reading([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      for (const uint32_t tid : tids) {
        const uint64_t token = reader.Find(tid, 0);
        if (token != 0 && token >> 32 != tid) {
          ADD_FAILURE() << "thread " << tid << " got the token of " << (token >> 32);
          stop = true;
        }
      }
    }
  });
  for (uint64_t i = 0; i < 200'000 && !stop; ++i) {
    const uint32_t tid = tids[i % 2];
    ASSERT_TRUE(writer.Set(tid, 0, static_cast<uint64_t>(tid) << 32 | i).has_value());
    writer.Clear(tid);
  }
  stop = true;
  reading.join();
}

TEST_F(ThreadTableTest, AnyContentIsSurvived) {
  const ThreadTableReader reader = Reader();
  Random random(5);
  for (int round = 0; round < 8; ++round) {
    std::string garbage(sizeof(ThreadTableLayout) - 64, '\0');
    for (char& c : garbage) {
      c = round < 2 ? static_cast<char>(-round) : static_cast<char>(random.Next());
    }
    const int fd = ::open(path_.c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(fd, garbage.data(), garbage.size(), 64),
              static_cast<ssize_t>(garbage.size()));
    ::close(fd);
    for (int i = 0; i < 20'000; ++i) {
      static_cast<void>(
          reader.Find(static_cast<uint32_t>(random.Next()), static_cast<uint32_t>(random.Next())));
    }
  }
}

TEST_F(ThreadTableTest, WhatIsNoTableIsRefused) {
  std::ofstream(path_) << "hello";
  ::chmod(path_.c_str(), 0600);
  auto reader = ThreadTableReader::Open(path_);
  ASSERT_FALSE(reader.has_value());
  EXPECT_NE(reader.error().message.find("it has 5 bytes"), std::string::npos);
  ASSERT_EQ(::truncate(path_.c_str(), sizeof(ThreadTableLayout)), 0);
  EXPECT_NE(ThreadTableWriter::Open(path_).error().message.find("no thread table of version 1"),
            std::string::npos);
  ::chmod(path_.c_str(), 0644);
  EXPECT_NE(ThreadTableWriter::Open(path_).error().message.find("chmod 600"), std::string::npos);
  ::unlink(path_.c_str());
  ASSERT_EQ(::symlink("/etc/passwd", path_.c_str()), 0);
  EXPECT_FALSE(ThreadTableReader::Open(path_).has_value());
}

}  // namespace
}  // namespace weir::volume
