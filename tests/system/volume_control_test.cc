// Goal: a running volume is seen and changed from outside: matches and attachments decide who gets
// what, changes hold at once and outlive the daemon, `weir top` leaves the terminal as it was.
// Method: the binary, a real mount, dd, a real cgroup, a pseudo-terminal.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "volume_rig.h"
#include "weir_process.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr char kConfig[] = R"(
[[device]]
name = "d"
capacity_iops = 20000
depth = 16
[[unit]]
name = "slow"
max_write_bandwidth = "2MB/s"
[[unit]]
name = "tp"
max_iops = 10000
plan = "p"
[[plan]]
name = "p"
[[plan.directive]]
group = "oltp"
[[group]]
name = "oltp"
[[match]]
path = "db"
group = "tp/oltp"
)";

class VolumeControlTest : public WeirSystemTest {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoVolume(); !why.empty()) GTEST_SKIP() << why;
    std::filesystem::create_directories(Path("data/db"));
    std::filesystem::create_directories(Path("mount"));
    guard_ = std::make_unique<MountGuard>(Path("mount"));
    volume_ = std::make_unique<WeirProcess>(
        std::vector<std::string>{"volume", Path("data"), Path("mount"), "--config",
                                 Write("w.toml", kConfig), "--control", Path("ctl")});
    ASSERT_TRUE(volume_->AwaitOutput(", daemon ")) << volume_->output();
  }
  void TearDown() override {
    if (volume_ == nullptr) return;
    volume_->Signal(SIGTERM);
    EXPECT_EQ(volume_->Wait(), 0) << volume_->output();
    EXPECT_FALSE(std::filesystem::exists(Path("ctl.sock")));
  }

  WeirOutcome Ctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ctl");
    arguments.insert(arguments.end(), {"--socket", Path("ctl.sock")});
    return RunWeir(arguments);
  }
  std::string CtlText(const std::vector<std::string>& arguments) {
    const WeirOutcome outcome = Ctl(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return outcome.output;
  }
  Json Stats() { return Json::parse(CtlText({"stats", "--json"})); }
  // Operations that the group has been given.
  double Served(const std::string& path) {
    const Json stats = Stats();
    for (const Json& group : stats["groups"]) {
      if (group["path"] == path) return group["totals"]["raw_ops"];
    }
    return -1;
  }
  std::string WriteSome(const std::string& file) {
    Program dd(
        {"dd", "if=/dev/zero", "of=" + Path("mount/" + file), "bs=4k", "count=50", "oflag=direct"},
        Path("dd"));
    EXPECT_EQ(dd.Wait(), 0);
    return Path("mount/" + file);
  }
  static bool Await(const std::function<bool()>& done) {
    const auto begin = std::chrono::steady_clock::now();
    while (!done()) {
      if (std::chrono::steady_clock::now() - begin > 60s) return false;
      std::this_thread::sleep_for(20ms);
    }
    return true;
  }

  std::unique_ptr<MountGuard> guard_;
  std::unique_ptr<WeirProcess> volume_;
};

TEST_F(VolumeControlTest, MatchesByPathAndWhatNoneFitsAreSeen) {
  WriteSome("f");
  EXPECT_GE(Served("unmatched"), 50);
  EXPECT_EQ(Served("tp/oltp"), 0);
  WriteSome("db/f");
  EXPECT_GE(Served("tp/oltp"), 50);
  EXPECT_NE(CtlText({"show", "matches"}).find("path db"), std::string::npos);
  EXPECT_NE(CtlText({"show", "groups"}).find("unmatched"), std::string::npos);
}

TEST_F(VolumeControlTest, AttachMovesARunningProcessAndDetachMovesItBack) {
  Program dd({"dd", "if=/dev/zero", "of=" + Path("mount/f"), "bs=4k", "oflag=direct",
              "conv=notrunc", "count=100000000"},
             Path("dd"));
  ASSERT_TRUE(Await([&] { return Served("unmatched") > 0; }));
  pid_t pid = ChildNamed(getpid(), "dd");
  ASSERT_GT(pid, 0);
  CtlText({"attach", "--pid", std::to_string(pid), "slow"});
  ASSERT_TRUE(Await([&] { return Served("slow") > 100; }));
  const WeirOutcome wrong = Ctl({"attach", "--pid", std::to_string(pid), "slov"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.output.find("did you mean \"slow\"?"), std::string::npos) << wrong.output;
  EXPECT_TRUE(Await([&] {
    return CtlText({"explain", "slow"}).find("max_write_bandwidth of slow") != std::string::npos;
  }));
  CtlText({"detach", "--pid", std::to_string(pid)});
  const double before = Served("slow");
  const double others = Served("unmatched");
  ASSERT_TRUE(Await([&] { return Served("unmatched") > others + 100; }));
  EXPECT_LE(Served("slow"), before + 2);
  EXPECT_EQ(Ctl({"attach", "--pid", "2147483647", "slow"}).status, 2);
}

TEST_F(VolumeControlTest, AMoveToAnotherCgroupIsNoticed) {
  std::string root;
  for (const char* mounted : {"/sys/fs/cgroup/blkio", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
    if (root.empty() && std::filesystem::exists(std::string(mounted) + "/cgroup.procs")) {
      root = mounted;
    }
  }
  const std::string group = root + "/weir-test-" + std::to_string(getpid());
  std::error_code error;
  if (root.empty() || !std::filesystem::create_directory(group, error)) {
    GTEST_SKIP() << "no cgroup can be made here";
  }
  CtlText({"attach", "--cgroup", "/weir-test-*", "tp"});
  {
    Program dd({"dd", "if=/dev/zero", "of=" + Path("mount/f"), "bs=4k", "oflag=direct",
                "conv=notrunc", "count=100000000"},
               Path("dd"));
    ASSERT_TRUE(Await([&] { return Served("unmatched") > 0; }));
    EXPECT_EQ(Served("tp/OTHER_GROUPS"), 0);
    std::ofstream(group + "/cgroup.procs") << ChildNamed(getpid(), "dd");
    EXPECT_TRUE(Await([&] { return Served("tp/OTHER_GROUPS") > 0; }));
  }
  EXPECT_TRUE(Await([&] { return ::rmdir(group.c_str()) == 0; }));
}

TEST_F(VolumeControlTest, WhatWasChangedOutlivesTheDaemon) {
  EXPECT_NE(CtlText({"set", "unit", "slow", "max_write_bandwidth=5MB/s"}).find("2.0 MB/s -> 5.0"),
            std::string::npos);
  EXPECT_NE(CtlText({"set", "group", "tp/oltp", "--max-iops", "2500/s"}).find("-> 2,500/s"),
            std::string::npos);
  CtlText({"attach", "--uid", "12345", "slow"});
  const pid_t daemon = ChildNamed(volume_->pid(), "weir-daemon");
  ASSERT_GT(daemon, 0);
  ASSERT_EQ(kill(daemon, SIGKILL), 0);
  ASSERT_TRUE(volume_->AwaitOutput("after the end of its predecessor"));
  ASSERT_TRUE(Await([&] { return Ctl({"show"}).status == 0; }));
  const std::string groups = CtlText({"show", "groups"});
  EXPECT_NE(groups.find("max_write_bandwidth 5.0 MB/s"), std::string::npos) << groups;
  EXPECT_NE(groups.find("max_iops 2,500/s"), std::string::npos) << groups;
  EXPECT_NE(CtlText({"show", "matches"}).find("uid 12345"), std::string::npos);
  // A plan that does not fit changes nothing, a dry run neither.
  const WeirOutcome bad =
      Ctl({"apply", Write("bad.toml", "[[unit]]\nname = \"x\"\nmax_iop = 1\n")});
  EXPECT_EQ(bad.status, 2);
  EXPECT_NE(bad.output.find("bad.toml:3: unit \"x\": unknown key \"max_iop\""), std::string::npos);
  const std::string good = Write("good.toml", "[[unit]]\nname = \"x\"\n");
  EXPECT_NE(CtlText({"apply", good, "--dry-run"}).find("nothing was changed"), std::string::npos);
  EXPECT_EQ(CtlText({"show", "groups"}), groups);
  EXPECT_NE(CtlText({"apply", good}).find("remove tp"), std::string::npos);
  EXPECT_EQ(CtlText({"show", "units"}).find("tp"), std::string::npos);
}

TEST_F(VolumeControlTest, TopShowsGroupsOnceOrUntilASignalAndLeavesTheTerminalAsItWas) {
  const WeirOutcome once =
      RunWeir({"top", "--once", "--interval", "200ms", "--socket", Path("ctl.sock")});
  EXPECT_EQ(once.status, 0);
  EXPECT_NE(once.output.find("  oltp"), std::string::npos) << once.output;
  const WeirOutcome json =
      RunWeir({"top", "--json", "-n", "2", "--interval", "200ms", "--socket", Path("ctl.sock")});
  EXPECT_EQ(std::count(json.output.begin(), json.output.end(), '\n'), 2) << json.output;
  EXPECT_EQ(RunWeir({"top", "--sort", "x", "--socket", Path("ctl.sock")}).status, 2);

  for (const int signal : {SIGINT, SIGTERM, 0}) {
    int terminal = -1;
    winsize size = {24, 80, 0, 0};
    termios before = {};
    const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (pid == 0) {
      ::setenv("TERM", "xterm", 1);
      const std::string socket = Path("ctl.sock");
      ::execl(WEIR_BINARY, "weir", "top", "--interval", "200ms", "--socket", socket.c_str(),
              nullptr);
      ::_exit(127);
    }
    ::tcgetattr(terminal, &before);
    std::string screen;
    bool asked = false;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(terminal, buffer, sizeof buffer)) > 0;) {
      screen.append(buffer, static_cast<size_t>(n));
      if (asked || screen.find("unmatched") == std::string::npos) continue;
      asked = true;
      if (signal != 0) {
        ::kill(pid, signal);
      } else {
        ASSERT_EQ(::write(terminal, "q", 1), 1);
      }
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << signal;
    EXPECT_NE(screen.find("\x1b[?1049h"), std::string::npos);
    EXPECT_TRUE(screen.ends_with("\x1b[0m\x1b[?25h\x1b[?1049l")) << signal;
    ::close(terminal);
  }
}

TEST(ControlCli, WithoutADaemonTheErrorSaysWhatToDo) {
  const WeirOutcome none = RunWeir({"ctl", "show", "--socket", "/no/such.sock"});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.output.find("is `weir volume` running?"), std::string::npos) << none.output;
  EXPECT_EQ(RunWeir({"top", "--once", "--socket", "/no/such.sock"}).status, 1);
  EXPECT_EQ(RunWeir({"ctl"}).status, 2);
  EXPECT_EQ(RunWeir({"ctl", "set", "unit", "x", "--socket", "/no/such.sock"}).status, 2);
}

}  // namespace
}  // namespace weir
