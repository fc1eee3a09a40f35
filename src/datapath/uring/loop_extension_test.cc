// What a transport of a volume relies on: it lives in the engine's loop, its completions are its
// own, its requests name descriptors, and the loop does not sleep while it has work.
#include "datapath/uring/loop_extension.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "datapath/uring/test_util.h"

namespace weir::uring {
namespace {

// Polls a pipe; each byte that it reads is counted.
class PipeReader final : public LoopExtension {
 public:
  PipeReader() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0); }
  ~PipeReader() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  void Send(const std::string& bytes) const {
    EXPECT_EQ(write(ends_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void AwaitBytes(int count) {
    for (int seen = bytes_.load(); seen < count; seen = bytes_.load()) bytes_.wait(seen);
  }

  [[nodiscard]] bool NeedsWideEntries() const override { return wide_; }
  [[nodiscard]] uint32_t MostOutstanding() const override { return 4; }
  [[nodiscard]] Result<void> Start(const LoopStart& start) override {
    if (fail_) return Fail(ErrorCode::kUnavailable, "not today");
    ring_ = start.ring;
    EXPECT_GE(start.wake_fd, 0);
    fixed_ = ring_->SetFile(start.first_file, ends_[0]);
    target_ =
        fixed_ ? RingFile{static_cast<int>(start.first_file), true} : RingFile{ends_[0], false};
    return {};
  }
  void Complete(uint64_t token, const Ring::Completion& completion) override {
    EXPECT_EQ(token, kToken);
    EXPECT_GT(completion.result, 0);
    readable_ = true;
    if (!completion.more) armed_ = false;
  }
  // One byte a round: the loop must come again by itself.
  [[nodiscard]] bool Round(TimePoint /*now*/) override {
    if (!armed_) {
      ring_->PreparePoll(target_, UserData(kToken));
      armed_ = true;
    }
    if (!readable_) return false;
    char byte = 0;
    if (read(ends_[0], &byte, 1) != 1) {
      readable_ = false;
      return false;
    }
    if (on_byte_) on_byte_();
    bytes_.fetch_add(1);
    bytes_.notify_all();
    return true;
  }

  bool wide_ = false;
  bool fail_ = false;
  std::function<void()> on_byte_;

 private:
  static constexpr uint64_t kToken = 0x1234567;
  int ends_[2] = {-1, -1};
  bool fixed_ = false;
  bool armed_ = false;
  bool readable_ = false;
  RingFile target_;
  Ring* ring_ = nullptr;
  std::atomic<int> bytes_{0};
};

TEST(LoopExtensionTest, IsCalledUntilItHasNothingMoreToDo) {
  for (const bool wide : {false, true}) {
    PipeReader reader;
    reader.wide_ = wide;
    EngineOptions options;
    options.extension = &reader;
    const auto engine = MakeEngine(options);
    reader.Send("abcdef");
    reader.AwaitBytes(6);
    reader.Send("g");  // from sleep
    reader.AwaitBytes(7);
  }
}

TEST(LoopExtensionTest, AnErrorOfItsStartEndsCreate) {
  PipeReader reader;
  reader.fail_ = true;
  EngineOptions options;
  options.extension = &reader;
  const auto engine = Engine::Create(options);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().message, "not today");
}

// What it submits from its round is carried out on the descriptor that it names, which stays open.
TEST(LoopExtensionTest, SubmitsOnDescriptorsOfItsOwn) {
  TempDir directory;
  const std::string path = directory.File(kBlock);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  PipeReader reader;
  EngineOptions options;
  options.extension = &reader;
  const auto engine = MakeEngine(options);
  const core::GroupId group = AddGroup(engine.get());
  const Aligned buffer(kBlock);
  std::memset(buffer.get(), 'x', kBlock);
  Collector done;
  IoCallback callback = done.Keep(0);
  reader.on_byte_ = [&] {
    IoRequest write = IoRequest::Write({}, group, buffer.get(), kBlock, 0);
    write.fd = fd;
    write.rw_flags = RWF_DSYNC;
    write.cached = true;
    EXPECT_TRUE(engine->Submit(write, callback));
  };
  reader.Send("w");
  done.WaitForAll();
  EXPECT_TRUE(done.result(0).ok());
  EXPECT_EQ(done.result(0).bytes, kBlock);
  char first = 0;
  EXPECT_EQ(pread(fd, &first, 1, kBlock - 1), 1);
  EXPECT_EQ(first, 'x');
  close(fd);
}

TEST(LoopExtensionTest, ABadDescriptorIsTheRequestsError) {
  const auto engine = MakeEngine();
  const core::GroupId group = AddGroup(engine.get());
  char buffer[512];
  IoRequest read = IoRequest::Read({}, group, buffer, sizeof buffer, 0);
  read.fd = 1 << 20;
  const IoResult result = engine->SubmitFuture(read).get();
  EXPECT_TRUE(result.failed);
  EXPECT_EQ(result.sys_errno, EBADF);
}

}  // namespace
}  // namespace weir::uring
