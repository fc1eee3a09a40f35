// Goal: the first match that fits in all keys wins; threads are looked up once, and what changes is
// noticed by the next check; the thread table goes before the rules; what the kernel writes by
// itself goes to the last writer; nothing grows without bound.
// Method: a /proc of our own for stories, the real one for what the kernel says.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "datapath/volume/attribution_by_rules.h"

namespace weir::volume {
namespace {

constexpr char kConfig[] = R"(
[[unit]]
name = "a"
[[unit]]
name = "b"
[[unit]]
name = "tp"
plan = "p"
[[plan]]
name = "p"
[[plan.directive]]
group = "oltp"
[[group]]
name = "oltp"
)";

class FakePaths : public NodePaths {
 public:
  bool PathOf(uint64_t node, std::string* path) override {
    ++asked;
    const auto found = paths.find(node);
    if (found == paths.end()) return false;
    *path = found->second;
    return true;
  }
  std::unordered_map<uint64_t, std::string> paths;
  int asked = 0;
};

class AttributionTest : public ::testing::Test {
 protected:
  AttributionTest() {
    std::string pattern = ::testing::TempDir() + "/attribution_XXXXXX";
    directory_ = mkdtemp(pattern.data());
    options_.proc = directory_;
    options_.own_thread = false;
    options_.paths = &paths_;
  }
  ~AttributionTest() override { std::filesystem::remove_all(directory_); }

  void Start() { attribution_ = std::make_unique<RuleAttribution>(options_); }

  // Rules in front of kConfig; groups get the number of their node.
  void Install(const std::string& matches) {
    if (attribution_ == nullptr) Start();
    const auto config = catalog::ParseConfig(matches + kConfig, "t");
    ASSERT_TRUE(config.has_value()) << config.error().message;
    nodes_ = catalog::Resolve(*config, "", 0, nullptr).value();
    catalog::TreeNode unmatched;
    unmatched.path = catalog::kUnmatched;
    nodes_.push_back(unmatched);
    const auto rules = RuleSet::Compile({}, config->matches, nodes_,
                                        static_cast<int>(nodes_.size()) - 1, LookUpUser);
    ASSERT_TRUE(rules.has_value()) << rules.error().message;
    std::vector<core::GroupId> groups;
    for (uint32_t i = 0; i < nodes_.size(); ++i) groups.push_back({i, 1});
    attribution_->Install(*rules, groups);
  }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = directory_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Thread(uint32_t tid, uint32_t process, const std::string& comm, const std::string& cgroup,
              uint64_t start = 1000, uint64_t flags = 0x400040) const {
    const std::string dir = std::to_string(tid);
    std::string stat = dir + " (" + comm + ") S 1 1 1 0 -1 " + std::to_string(flags);
    for (int field = 10; field <= 21; ++field) stat += " 0";
    Write(dir + "/stat", stat + " " + std::to_string(start) + " 12345 678\n");
    Write(dir + "/cgroup",
          "12:blkio:" + cgroup + "\n1:name=systemd:/other\n0::/unified" + cgroup + "\n");
    Write(dir + "/status",
          "Name:\t" + comm + "\nUmask:\t0022\nTgid:\t" + std::to_string(process) + "\nNgid:\t0\n");
  }

  // The path of the group.
  std::string Ask(uint32_t tid, uint32_t uid = 0, uint64_t node = 0) {
    const core::GroupId group = attribution_->GroupOf({uid, 0, tid}, node);
    return group.index < nodes_.size() ? nodes_[group.index].path : "?";
  }

  std::string directory_;
  FakePaths paths_;
  AttributionOptions options_;
  std::unique_ptr<RuleAttribution> attribution_;
  std::vector<catalog::TreeNode> nodes_;
};

TEST_F(AttributionTest, EachKeyFitsWhatItSays) {
  Thread(10, 10, "mysqld", "/docker/abc");
  Thread(11, 10, "ib_io_rd-1", "/docker/abc");
  Thread(12, 12, "fio", "/docker/abc/sub");
  Thread(13, 13, "a ) S (b", "/");
  Install("[[match]]\ngroup=\"a\"\ncomm=\"ib_io*\"\n");
  EXPECT_EQ(Ask(11), "a");
  EXPECT_EQ(Ask(10), "unmatched");
  Install("[[match]]\ngroup=\"a\"\ncgroup=\"/docker/abc\"\n");
  EXPECT_EQ(Ask(10), "a");
  EXPECT_EQ(Ask(12), "a");
  EXPECT_EQ(Ask(13), "unmatched");
  Install("[[match]]\ngroup=\"a\"\ncgroup=\"/unified/docker/*/sub\"\n");
  EXPECT_EQ(Ask(12), "a");
  EXPECT_EQ(Ask(10), "unmatched");
  Install("[[match]]\ngroup=\"a\"\npid=10\n");
  EXPECT_EQ(Ask(10), "a");
  EXPECT_EQ(Ask(11), "a") << "a thread of the process";
  EXPECT_EQ(Ask(12), "unmatched");
  Install("[[match]]\ngroup=\"a\"\npid=11\n");
  EXPECT_EQ(Ask(11), "a");
  EXPECT_EQ(Ask(10), "unmatched");
  Install("[[match]]\ngroup=\"a\"\nuid=7\n");
  EXPECT_EQ(Ask(10, 7), "a");
  EXPECT_EQ(Ask(10, 8), "unmatched");
  Install("[[match]]\ngroup=\"a\"\nuser=\"root\"\n");
  EXPECT_EQ(Ask(10, 0), "a");
  Install("[[match]]\ngroup=\"a\"\ncomm=\"a ) S*\"\n");
  EXPECT_EQ(Ask(13), "a");
}

TEST_F(AttributionTest, AllKeysMustFitAndTheFirstMatchWins) {
  Thread(10, 10, "mysqld", "/docker/abc");
  Install(
      "[[match]]\ngroup=\"a\"\ncomm=\"mysqld\"\nuid=1\n"
      "[[match]]\ngroup=\"tp/oltp\"\ncomm=\"mysqld\"\n"
      "[[match]]\ngroup=\"b\"\ncgroup=\"/docker\"\n");
  EXPECT_EQ(Ask(10, 1), "a");
  EXPECT_EQ(Ask(10, 2), "tp/oltp");
  Install("[[match]]\ngroup=\"tp\"\ncomm=\"mysqld\"\n");
  EXPECT_EQ(Ask(10), "tp/OTHER_GROUPS");
}

TEST_F(AttributionTest, AThreadIsReadOnceWhateverItDoesAndHoweverRulesChange) {
  Thread(10, 10, "mysqld", "/docker/abc");
  Install("[[match]]\ngroup=\"a\"\ncgroup=\"/docker\"\n");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Ask(10, static_cast<uint32_t>(i % 3)), "a");
  Install("[[match]]\ngroup=\"b\"\ncgroup=\"/docker\"\n");
  EXPECT_EQ(Ask(10), "b");
  EXPECT_EQ(attribution_->stats().lookups, 1u);
}

TEST_F(AttributionTest, AMoveToAnotherCgroupANewNameAndAReusedIdAreNoticedByTheNextCheck) {
  Thread(10, 10, "one", "/a");
  Install("[[match]]\ngroup=\"a\"\ncgroup=\"/a\"\n[[match]]\ngroup=\"b\"\ncomm=\"two\"\n");
  EXPECT_EQ(Ask(10), "a");
  Thread(10, 10, "one", "/b");
  EXPECT_EQ(Ask(10), "a");
  attribution_->CheckThreads();
  EXPECT_EQ(Ask(10), "unmatched");
  Thread(10, 10, "two", "/b");
  attribution_->CheckThreads();
  EXPECT_EQ(Ask(10), "b");
  Thread(10, 10, "three", "/a", 2000);
  attribution_->CheckThreads();
  EXPECT_EQ(Ask(10), "a");
  std::filesystem::remove_all(directory_ + "/10");
  attribution_->CheckThreads();
  EXPECT_EQ(Ask(10), "unmatched");
  EXPECT_EQ(attribution_->stats().changes, 4u);
}

TEST_F(AttributionTest, AThreadThatWasIdleIsLookedUpAgain) {
  Thread(10, 10, "one", "/a");
  Install("[[match]]\ngroup=\"a\"\ncgroup=\"/a\"\n");
  EXPECT_EQ(Ask(10), "a");
  for (int i = 0; i < 10; ++i) attribution_->CheckThreads();
  Thread(10, 10, "other", "/b", 3000);
  EXPECT_EQ(Ask(10), "unmatched");
  EXPECT_EQ(attribution_->stats().lookups, 2u);
}

TEST_F(AttributionTest, AWorkerOfTheKernelActsForItsOwnerButOnlyARealOne) {
  constexpr uint64_t kWorkerFlags = 0x400050;  // with PF_IO_WORKER
  Thread(10, 10, "fio", "/a");
  Thread(20, 10, "iou-wrk-10", "/other", 1000, kWorkerFlags);
  Write("10/task/20/stat", "");
  Thread(21, 21, "iou-wrk-10", "/other");                      // anybody may call itself so
  Thread(22, 22, "iou-wrk-10", "/other", 1000, kWorkerFlags);  // not in the owner's process
  Install("[[match]]\ngroup=\"a\"\ncgroup=\"/a\"\n");
  EXPECT_EQ(Ask(20), "a");
  EXPECT_EQ(Ask(21), "unmatched");
  EXPECT_EQ(Ask(22), "unmatched");
}

TEST_F(AttributionTest, PathsAreLookedAtOnceAnOpenAndOnlyWhereAMatchNeedsThem) {
  Thread(10, 10, "x", "/x");
  Thread(11, 11, "y", "/y");
  paths_.paths = {{5, "db/t1.ibd"}, {6, "logs/redo"}};
  Install(
      "[[match]]\ngroup=\"b\"\ncomm=\"y\"\n"
      "[[match]]\ngroup=\"a\"\npath=\"db\"\n"
      "[[match]]\ngroup=\"tp/oltp\"\npath=\"logs/*\"\ncomm=\"x\"\n");
  EXPECT_EQ(Ask(11, 0, 5), "b");
  EXPECT_EQ(paths_.asked, 0);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Ask(10, 0, 5), "a");
    EXPECT_EQ(Ask(10, 0, 6), "tp/oltp");
    EXPECT_EQ(Ask(10, 0, 7), "unmatched");
  }
  EXPECT_EQ(paths_.asked, 3);
  paths_.paths[5] = "elsewhere/t1.ibd";
  EXPECT_EQ(Ask(10, 0, 5), "a");
  attribution_->Opened(5);
  EXPECT_EQ(Ask(10, 0, 5), "unmatched");
}

TEST_F(AttributionTest, CallersThatCannotBeSeenAreKnownByUserAndPath) {
  paths_.paths = {{5, "db/t1.ibd"}};
  Install(
      "[[match]]\ngroup=\"b\"\ncomm=\"*\"\n"
      "[[match]]\ngroup=\"a\"\npath=\"db\"\nuid=3\n"
      "[[match]]\ngroup=\"tp/oltp\"\nuid=4\n");
  EXPECT_EQ(Ask(0, 3, 5), "a");
  EXPECT_EQ(Ask(0, 3, 6), "unmatched");
  EXPECT_EQ(Ask(0, 4, 6), "tp/oltp");
}

TEST_F(AttributionTest, WhatTheKernelWritesByItselfGoesToTheLastWriter) {
  Thread(10, 10, "x", "/x");
  Thread(11, 11, "y", "/y");
  Install("[[match]]\ngroup=\"a\"\ncomm=\"x\"\n[[match]]\ngroup=\"b\"\ncomm=\"y\"\n");
  EXPECT_EQ(Ask(0, 0, 5), "unmatched");
  attribution_->Wrote({0, 0, 10}, 5);
  EXPECT_EQ(Ask(0, 0, 5), "a");
  attribution_->Wrote({0, 0, 11}, 5);
  EXPECT_EQ(Ask(0, 0, 5), "b");
  Install("[[match]]\ngroup=\"a\"\ncomm=\"x\"\n");
  EXPECT_EQ(Ask(0, 0, 5), "b") << "the group it wrote in, by name, in the new plan";
  attribution_->Forgotten(5);
  EXPECT_EQ(Ask(0, 0, 5), "unmatched");
}

TEST_F(AttributionTest, TheThreadTableGoesBeforeTheRules) {
  const std::string path = directory_ + "/threads";
  auto writer = ThreadTableWriter::Open(path);
  ASSERT_TRUE(writer.has_value());
  auto reader = ThreadTableReader::Open(path);
  ASSERT_TRUE(reader.has_value());
  options_.table = &*reader;
  Thread(10, 10, "x", "/x", 1000);
  Thread(20, 10, "iou-wrk-10", "/x", 1001, 0x400050);
  Write("10/task/20/stat", "");
  Install("[[match]]\ngroup=\"a\"\ncomm=\"*\"\n");
  EXPECT_EQ(Ask(10), "a");
  ASSERT_TRUE(writer->Set(10, 1000, GroupToken("tp/oltp")).has_value());
  EXPECT_EQ(Ask(10), "tp/oltp");
  EXPECT_EQ(Ask(20), "tp/oltp") << "its worker too";
  ASSERT_TRUE(writer->Set(10, 1000, GroupToken("b")).has_value());
  EXPECT_EQ(Ask(10), "b");
  ASSERT_TRUE(writer->Set(10, 1000, GroupToken("no/such")).has_value());
  EXPECT_EQ(Ask(10), "a");
  ASSERT_TRUE(writer->Set(10, 999, GroupToken("b")).has_value());
  EXPECT_EQ(Ask(10), "a") << "a thread that had the id before";
  writer->Clear(10);
  EXPECT_EQ(Ask(10), "a");
  EXPECT_EQ(attribution_->stats().by_table, 3u);
  ::unlink(path.c_str());
}

TEST_F(AttributionTest, ThreadsAndNodesAreBoundedAndTheLeastRecentlyUsedGoes) {
  options_.max_threads = 8;
  options_.max_nodes = 8;
  Install("[[match]]\ngroup=\"a\"\nuid=1\n");
  for (uint32_t tid = 1; tid <= 100; ++tid) {
    EXPECT_EQ(Ask(tid, 1), "a");
    attribution_->Wrote({1, 0, tid}, tid);
    EXPECT_EQ(Ask(1, 1), "a");
    if (tid % 4 == 0) attribution_->CheckThreads();
  }
  const AttributionStats stats = attribution_->stats();
  EXPECT_EQ(stats.threads, 8u);
  EXPECT_EQ(stats.nodes, 8u);
  EXPECT_GE(stats.evictions, 92u);
}

TEST_F(AttributionTest, WhatProcNeverSaysIsSurvived) {
  Install("[[match]]\ngroup=\"a\"\ncgroup=\"/a\"\npid=3\n");
  Random random(1);
  for (uint32_t tid = 1; tid < 300; ++tid) {
    for (const char* file : {"stat", "cgroup", "status"}) {
      std::string text;
      for (int64_t n = random.Range(0, 40); n > 0; --n)
        text += "1( )a:\n/\tTgid:0"[random.Range(0, 14)];
      Write(std::to_string(tid) + "/" + file, text);
    }
    EXPECT_NE(Ask(tid), "?");
  }
}

TEST(AttributionFacts, LinesOfTheKernelAreRead) {
  const auto stat = ParseStat("7 (x) R 1 7 7 0 -1 16 1 2 3 4 5 6 7 8 9 10 11 12 777 1 2\n");
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->comm, "x");
  EXPECT_EQ(stat->flags, 16u);
  EXPECT_EQ(stat->start_time, 777u);
  EXPECT_FALSE(ParseStat("7 (x) R 1").has_value());
  EXPECT_FALSE(ParseStat("").has_value());
  EXPECT_EQ(ParseCgroups("2:a:/x:y\n1:b:/x:y\n0::/\nbad\n3:c:\n"),
            (std::vector<std::string>{"/x:y", "/"}));
  EXPECT_EQ(WorkerOwner("iou-wrk-123"), 123u);
  EXPECT_EQ(WorkerOwner("iou-sqp-5"), 5u);
  EXPECT_EQ(WorkerOwner("iou-wrk-"), 0u);
  EXPECT_EQ(WorkerOwner("iou-wrk-1x"), 0u);
}

TEST(AttributionFacts, TheRealProcSaysWhoWeAre) {
  const auto tid = static_cast<uint32_t>(::gettid());
  const ThreadFacts facts = ReadThreadFacts(tid, {.cgroup = true, .process = true});
  EXPECT_TRUE(facts.alive);
  EXPECT_EQ(facts.process, static_cast<uint32_t>(::getpid()));
  EXPECT_EQ(facts.start_time, StartTimeOf(tid).value());
  EXPECT_FALSE(facts.cgroups.empty());
  std::thread([&] {
    ASSERT_EQ(pthread_setname_np(pthread_self(), "odd) name ("), 0);
    const ThreadFacts other =
        ReadThreadFacts(static_cast<uint32_t>(::gettid()), {.cgroup = false, .process = true});
    EXPECT_EQ(other.comm, "odd) name (");
    EXPECT_EQ(other.process, facts.process);
    EXPECT_EQ(other.process_start, StartTimeOf(facts.process).value());
  }).join();
}

// The owner asks while the checker looks and rules change: no race (TSan), always a group.
TEST_F(AttributionTest, OwnerAndCheckerRunSideBySide) {
  options_.proc = "/proc";
  options_.max_threads = 4;
  options_.check_every = std::chrono::microseconds(200);
  options_.own_thread = true;
  Install("[[match]]\ngroup=\"a\"\ncgroup=\"/nowhere\"\n");
  const auto self = static_cast<uint32_t>(::gettid());
  for (int i = 0; i < 3000; ++i) {
    EXPECT_NE(Ask(i % 2 == 0 ? self : static_cast<uint32_t>(1 + i % 7)), "?");
    if (i % 500 == 0) Install("[[match]]\ngroup=\"b\"\ncgroup=\"/\"\n");
  }
  EXPECT_EQ(Ask(self), "b");
}

}  // namespace
}  // namespace weir::volume
