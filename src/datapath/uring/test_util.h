// What the tests of the engine share.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "datapath/uring/engine.h"

namespace weir::uring {

inline constexpr int64_t kBlock = 16 * 1024;

// A scheduler whose bound on the cost in flight is `depth_ops` 16 KiB reads, for good.
inline EngineOptions FixedDepth(int64_t depth_ops) {
  EngineOptions options;
  options.scheduler.depth.automatic = false;
  options.scheduler.depth.initial = depth_ops * kOp;
  options.scheduler.capacity_per_s = 20'000 * kOp;
  options.learn_costs = false;
  return options;
}

inline std::unique_ptr<Engine> MakeEngine(EngineOptions options = {}) {
  Result<std::unique_ptr<Engine>> engine = Engine::Create(std::move(options));
  if (!engine) {
    ADD_FAILURE() << engine.error().message;
    std::abort();
  }
  return std::move(*engine);
}

inline core::GroupId AddGroup(Engine* engine, const ResourceParams& params = {}) {
  Result<core::GroupId> group = engine->AddGroup(engine->RootGroup(), params);
  EXPECT_TRUE(group) << group.error().message;
  return *group;
}

// A directory under the working directory (a real disk, where /tmp may be memory), removed at the
// end with the files that were made by File().
class TempDir {
 public:
  TempDir() {
    char name[] = "engine-test-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TempDir() {
    for (const std::string& file : files_) unlink(file.c_str());
    rmdir(path_.c_str());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // The path of a file of `bytes` zeros.
  std::string File(int64_t bytes) {
    const std::string file = path_ + "/f" + std::to_string(files_.size());
    const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(ftruncate(fd, bytes), 0);
    close(fd);
    files_.push_back(file);
    return file;
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

// Memory for O_DIRECT.
class Aligned {
 public:
  explicit Aligned(int64_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(4096, static_cast<size_t>(bytes)))) {
    std::memset(data_, 0, static_cast<size_t>(bytes));
  }
  ~Aligned() { std::free(data_); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  [[nodiscard]] std::byte* get() const { return data_; }

 private:
  std::byte* data_;
};

// Counts callbacks down; the results are read after Wait.
class Collector {
 public:
  // A callback that keeps its result as number `index`. The collector outlives it.
  IoCallback Keep(size_t index) {
    {
      const std::lock_guard lock(mutex_);
      if (results_.size() <= index) results_.resize(index + 1);
    }
    expected_.fetch_add(1);
    return [this, index](const IoResult& result) {
      {
        const std::lock_guard lock(mutex_);
        results_[index] = result;
        order_.push_back(index);
      }
      arrived_.fetch_add(1);
      arrived_.notify_all();
    };
  }
  void NotAccepted() { expected_.fetch_sub(1); }
  // Until `count` callbacks have come.
  void WaitFor(int count) {
    for (int seen = arrived_.load(); seen < count; seen = arrived_.load()) arrived_.wait(seen);
  }
  void WaitForAll() { WaitFor(expected_.load()); }
  [[nodiscard]] int arrived() const { return arrived_.load(); }
  [[nodiscard]] IoResult result(size_t index) {
    const std::lock_guard lock(mutex_);
    return results_[index];
  }
  [[nodiscard]] std::vector<size_t> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }
  [[nodiscard]] int CountOf(ErrorCode code) {
    const std::lock_guard lock(mutex_);
    int count = 0;
    for (const IoResult& result : results_) count += result.failed && result.code == code ? 1 : 0;
    return count;
  }

 private:
  std::mutex mutex_;
  std::vector<IoResult> results_;
  std::vector<size_t> order_;
  std::atomic<int> expected_{0};
  std::atomic<int> arrived_{0};
};

// A pipe as a file of the engine: a read of it stays in flight until Release. With FixedDepth(1)
// one kBlock read fills the device, so that everything behind it queues.
class Blocker {
 public:
  Blocker(Engine* engine, core::GroupId group) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    write_end_ = ends[1];
    file_ = *engine->Adopt(ends[0]);
    op_ = *engine->Submit(IoRequest::Read(file_, group, buffer_, kBlock, 0), done_.Keep(0));
    // The read is in flight once the owner has made a round after taking it up.
    while (engine->TotalStats().in_flight == 0) {
    }
  }
  ~Blocker() {
    Release();
    close(write_end_);
  }
  Blocker(const Blocker&) = delete;
  Blocker& operator=(const Blocker&) = delete;

  void Release() {
    if (released_) return;
    released_ = true;
    EXPECT_EQ(write(write_end_, "x", 1), 1);
    done_.WaitForAll();
  }
  [[nodiscard]] OpId op() const { return op_; }
  [[nodiscard]] IoResult result() { return done_.result(0); }
  Collector& done() { return done_; }

 private:
  int write_end_ = -1;
  bool released_ = false;
  FileId file_;
  OpId op_;
  Collector done_;
  char buffer_[kBlock];
};

}  // namespace weir::uring
