// `weir volume` on the real kernel: programs at work on the mount, daemons that are killed under
// them, and the ways it ends. Every mount is gone when its test is.
#include <sys/statvfs.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "volume_rig.h"
#include "weir_process.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

class VolumeTest : public WeirSystemTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoVolume(); !why.empty()) GTEST_SKIP() << why;
    if (Transport() == "fast") {
      over_io_uring_ = std::make_unique<FuseOverIoUring>();
      if (const std::string why = FuseOverIoUring::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    }
    std::filesystem::create_directories(Data());
    std::filesystem::create_directories(Mount());
    guard_ = std::make_unique<MountGuard>(Mount());
  }
  void TearDown() override {
    if (volume_ != nullptr && volume_->pid() > 0) Stop();
    volume_.reset();
    guard_.reset();
    EXPECT_FALSE(IsMounted(Mount()));
  }

  [[nodiscard]] static std::string Transport() { return GetParam(); }
  [[nodiscard]] std::string Data() const { return Path("data"); }
  [[nodiscard]] std::string Mount() const { return Path("mount"); }

  void Start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"volume", Data(), Mount(), "--transport", Transport()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    volume_ = std::make_unique<WeirProcess>(arguments);
    ASSERT_TRUE(volume_->AwaitOutput("serves")) << volume_->output();
    ASSERT_NE(volume_->output().find("transport: " + Transport()), std::string::npos)
        << volume_->output();
  }
  // By SIGTERM; the exit status.
  int Stop() {
    volume_->Signal(SIGTERM);
    return volume_->Wait();
  }

  // fio on files of the mount, checking every block that it reads back.
  [[nodiscard]] std::vector<std::string> Fio(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"fio",
                                       "--name=verify",
                                       "--directory=" + Mount(),
                                       "--size=8m",
                                       "--rw=randwrite",
                                       "--verify=crc32c",
                                       "--verify_fatal=1",
                                       "--verify_backlog=64",
                                       "--randrepeat=0",
                                       "--group_reporting"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // Lays out its files, so that disturbances meet the work.
  void LayOut(std::vector<std::string> options) const {
    options.emplace_back("--create_only=1");
    Program fio(Fio(options), Path("layout"));
    EXPECT_EQ(fio.Wait(), 0) << ReadAll(Path("layout"));
  }
  // 128 or 130: it was told to end, and has verified what it had.
  void ExpectCleanFio(Program* fio, const std::string& output) const {
    const int status = fio->Wait();
    const std::string said = ReadAll(Path(output));
    EXPECT_TRUE(status == 0 || status == 128 || status == 128 + SIGINT) << status << said;
    EXPECT_NE(said.find("err= 0"), std::string::npos) << said;
    EXPECT_EQ(said.find("verify: bad"), std::string::npos) << said;
  }
  // Sends `signal` to the daemon `rounds` times while fio verifies its writes.
  void DisturbUnderFio(int rounds, int signal, const std::string& disturbed,
                       const std::vector<std::string>& fio_options);

  int generation_ = 0;  // of the daemon
  std::unique_ptr<FuseOverIoUring> over_io_uring_;
  std::unique_ptr<MountGuard> guard_;
  std::unique_ptr<WeirProcess> volume_;
};

INSTANTIATE_TEST_SUITE_P(Transports, VolumeTest, ::testing::Values("resumable", "fast"),
                         [](const auto& test) { return std::string(test.param); });

void WriteFile(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST_P(VolumeTest, ShowsTheDirectoryAndChangesIt) {
  WriteFile(Data() + "/before", "old");
  Start();
  EXPECT_EQ(ReadAll(Mount() + "/before"), "old");
  std::filesystem::create_directory(Mount() + "/sub");
  WriteFile(Mount() + "/sub/a", "new");
  std::filesystem::rename(Mount() + "/sub/a", Mount() + "/sub/b");
  EXPECT_EQ(ReadAll(Data() + "/sub/b"), "new");
  EXPECT_FALSE(std::filesystem::exists(Mount() + "/sub/a"));
  struct statvfs space {};
  EXPECT_EQ(statvfs(Mount().c_str(), &space), 0);
  EXPECT_GT(space.f_blocks, 0u);
  EXPECT_EQ(Stop(), 0) << volume_->output();
  EXPECT_EQ(ReadAll(Data() + "/sub/b"), "new");
}

TEST_P(VolumeTest, FioVerifiesDirectAndBuffered) {
  if (!HaveFio()) GTEST_SKIP() << "fio is not installed";
  Start();
  int number = 0;
  for (const std::string direct : {"--direct=1", "--direct=0"}) {
    for (const std::string engine : {"libaio", "psync", "io_uring"}) {
      const std::string output = "fio" + std::to_string(++number);
      Program fio(
          Fio({direct, "--ioengine=" + engine, "--iodepth=16", "--numjobs=2", "--bsrange=512-128k",
               "--bs_unaligned=" + std::to_string(direct.back() == '0'), "--fsync=50"}),
          Path(output));
      ASSERT_TRUE(fio.started());
      ExpectCleanFio(&fio, output);
    }
  }
}

void VolumeTest::DisturbUnderFio(int rounds, int signal, const std::string& disturbed,
                                 const std::vector<std::string>& fio_options) {
  std::mt19937 random(7);
  LayOut(fio_options);
  Program fio(Fio(fio_options), Path("fio"));
  ASSERT_TRUE(fio.started());
  for (int round = 0; round < rounds; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 250));
    ASSERT_TRUE(fio.Running()) << ReadAll(Path("fio"));
    pid_t daemon = -1;
    while ((daemon = ChildNamed(volume_->pid(), "weir-daemon")) < 0) std::this_thread::yield();
    ASSERT_EQ(kill(daemon, signal), 0);
    ASSERT_TRUE(volume_->AwaitOutput("daemon " + std::to_string(++generation_) + " started"))
        << disturbed << volume_->output();
  }
  fio.Signal(SIGINT);  // it ends its loop, and verifies what it has
  ExpectCleanFio(&fio, "fio");
}

// The promise of "resumable": a daemon that dies at any moment is noticed by nobody.
TEST_P(VolumeTest, KilledDaemonsAreNotNoticed) {
  if (!HaveFio()) GTEST_SKIP() << "fio is not installed";
  if (Transport() != "resumable") GTEST_SKIP() << "the fast transport promises it only planned";
  Start();
  const std::vector<std::string> loop{"--time_based", "--runtime=600", "--bs=16k",
                                      "--iodepth=16", "--numjobs=2",   "--ioengine=libaio"};
  auto direct = loop;
  direct.insert(direct.end(), {"--direct=1"});
  DisturbUnderFio(10, SIGKILL, "killed", direct);
  auto buffered = loop;
  buffered.insert(buffered.end(), {"--direct=0", "--fsync=20"});
  DisturbUnderFio(10, SIGKILL, "killed", buffered);
  EXPECT_EQ(Stop(), 0) << volume_->output();
}

// An upgrade: the daemon finishes what it has, and another goes on.
TEST_P(VolumeTest, AReplacedDaemonIsNotNoticed) {
  if (!HaveFio()) GTEST_SKIP() << "fio is not installed";
  if (Transport() != "resumable") GTEST_SKIP() << "not yet";
  Start();
  Program fio(Fio({"--time_based", "--runtime=600", "--bs=16k", "--iodepth=16", "--ioengine=libaio",
                   "--direct=1"}),
              Path("fio"));
  for (int i = 1; i <= 5; ++i) {
    std::this_thread::sleep_for(200ms);
    ASSERT_TRUE(fio.Running()) << ReadAll(Path("fio"));
    volume_->Signal(SIGHUP);
    ASSERT_TRUE(volume_->AwaitOutput("daemon " + std::to_string(i) + " started"))
        << volume_->output();
  }
  fio.Signal(SIGINT);
  ExpectCleanFio(&fio, "fio");
  EXPECT_EQ(volume_->output().find("killed"), std::string::npos) << volume_->output();
}

// What programs see of "fast": their open files fail, the mount is back.
TEST_P(VolumeTest, AfterADeathTheFastMountIsMadeAgain) {
  if (Transport() != "fast") GTEST_SKIP() << "resumable does better";
  WriteFile(Data() + "/f", "text");
  Start();
  const int fd = open((Mount() + "/f").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const pid_t daemon = ChildNamed(volume_->pid(), "weir-daemon");
  ASSERT_GT(daemon, 0) << volume_->output();
  kill(daemon, SIGKILL);
  ASSERT_TRUE(volume_->AwaitOutput("daemon 1 started")) << volume_->output();
  char byte = 0;
  EXPECT_LT(pread(fd, &byte, 1, 0), 0);
  close(fd);
  EXPECT_EQ(ReadAll(Mount() + "/f"), "text");
  EXPECT_EQ(Stop(), 0) << volume_->output();
}

TEST_P(VolumeTest, SigtermKeepsWhatWasWritten) {
  Start();
  const std::string text(3 << 20, 'x');
  WriteFile(Mount() + "/big", text);
  EXPECT_EQ(Stop(), 0) << volume_->output();
  EXPECT_FALSE(IsMounted(Mount()));
  EXPECT_EQ(ReadAll(Data() + "/big"), text);
}

TEST_P(VolumeTest, AnUnmountFromOutsideEndsIt) {
  Start();
  ASSERT_EQ(umount2(Mount().c_str(), 0), 0);
  EXPECT_EQ(volume_->Wait(), 0) << volume_->output();
}

TEST_P(VolumeTest, ABusyVolumeIsTakenOffTheTreeAndStaysUsableForAWhile) {
  WriteFile(Data() + "/f", "text");
  Start({"--stop-limit", "60s"});
  const int fd = open((Mount() + "/f").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  volume_->Signal(SIGTERM);
  ASSERT_TRUE(volume_->AwaitOutput("busy")) << volume_->output();
  while (IsMounted(Mount())) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(pwrite(fd, "TEXT", 4, 0), 4);
  EXPECT_EQ(fsync(fd), 0);
  close(fd);  // its last user: the volume ends by itself
  EXPECT_EQ(volume_->Wait(), 0) << volume_->output();
  EXPECT_EQ(ReadAll(Data() + "/f"), "TEXT");
}

TEST_P(VolumeTest, ABusyVolumeEndsWhenItsUsersDoNot) {
  WriteFile(Data() + "/f", "text");
  Start({"--stop-limit", "100ms"});
  const int fd = open((Mount() + "/f").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(Stop(), 0) << volume_->output();
  char byte = 0;
  EXPECT_LT(pread(fd, &byte, 1, 0), 0);
  close(fd);
}

// A queued request leaves the queue when its caller is killed.
TEST_P(VolumeTest, AKilledProgramDoesNotWaitForItsLimit) {
  WriteFile(Path("weir.toml"), R"([[device]]
name = "d"
path = "."
capacity_iops = 20000
[[unit]]
name = "slow"
max_iops = 1
)");
  Start({"--config", Path("weir.toml"), "--default-group", "slow"});
  WriteFile(Data() + "/f", std::string(1 << 20, 'x'));
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::unique_ptr<Program>> readers;
    for (int i = 0; i < 8; ++i) {
      readers.push_back(std::make_unique<Program>(
          std::vector<std::string>{"dd", "if=" + Mount() + "/f", "of=/dev/null", "bs=64k",
                                   "iflag=direct", "skip=" + std::to_string(i)},
          Path("dd" + std::to_string(i))));
    }
    std::this_thread::sleep_for(500ms);
  }  // killed and waited for
  // All their requests would have taken minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST_P(VolumeTest, WhatCannotBeMountedIsSaidBeforeAnythingIsMounted) {
  const auto run = [](const std::string& directory, const std::string& mountpoint) {
    return RunWeir({"volume", directory, mountpoint, "--transport", Transport()});
  };
  WriteFile(Path("file"), "");
  std::filesystem::create_directories(Data() + "/inside");
  struct Case {
    std::string directory, mountpoint, message;
  };
  for (const Case& bad :
       {Case{Path("none"), Mount(), "cannot serve"}, Case{Path("file"), Mount(), "cannot serve"},
        Case{Data(), Path("none"), "create the directory first"},
        Case{Data(), Path("file"), "not a directory"},
        Case{Data(), Data() + "/inside", "contain itself"}}) {
    const WeirOutcome outcome = run(bad.directory, bad.mountpoint);
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.output.find(bad.message), std::string::npos) << outcome.output;
  }
  EXPECT_EQ(RunWeir({"volume", Data(), Mount(), "--transport", "slow"}).status, 2);
  EXPECT_EQ(RunWeir({"volume", Data(), Mount(), "--default-group", "x"}).status, 2);
  EXPECT_EQ(RunWeir({"volume", Data(), Mount(), "--buffer-memory", "much"}).status, 2);
}

// A mount over the directory itself, and the remains of a volume whose supervisor was killed.
TEST_P(VolumeTest, MountsOverItsDirectoryAndOverRemains) {
  WriteFile(Data() + "/f", "text");
  volume_ = std::make_unique<WeirProcess>(
      std::vector<std::string>{"volume", Data(), Data(), "--transport", Transport()});
  const MountGuard guard(Data());
  ASSERT_TRUE(volume_->AwaitOutput("serves")) << volume_->output();
  EXPECT_EQ(ReadAll(Data() + "/f"), "text");
  volume_->Signal(SIGKILL);
  EXPECT_EQ(volume_->Wait(), 128 + SIGKILL);
  struct statvfs space {};
  while (statvfs(Data().c_str(), &space) == 0) std::this_thread::sleep_for(1ms);  // it dies too
  volume_ = std::make_unique<WeirProcess>(
      std::vector<std::string>{"volume", Data(), Data(), "--transport", Transport()});
  ASSERT_TRUE(volume_->AwaitOutput("serves")) << volume_->output();
  EXPECT_NE(volume_->output().find("remains"), std::string::npos);
  EXPECT_EQ(ReadAll(Data() + "/f"), "text");
  EXPECT_EQ(Stop(), 0) << volume_->output();
}

}  // namespace
}  // namespace weir
