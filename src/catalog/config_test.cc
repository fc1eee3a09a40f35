// Goal: what is written in weir.toml is what the Config says, value by value.
#include "catalog/config.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace weir::catalog {
namespace {

constexpr char kEverything[] = R"(
strict = true

[[device]]
name = "ssd1"
path = "/data"
profile = "/etc/weir/ssd1.json"
capacity_iops = 60000
depth = 32

[[device]]
name = "hdd1"
depth = "auto"

[[group]]
name = "tp_group"
comment = "resource group for oltp applications"

[[group]]
name = "ap_group"

[[plan]]
name = "htap_plan"
comment = "more for transactions"

[[plan.directive]]
group = "tp_group"
comment = "more resource for tp_group"
mgmt_p1 = 100
min_iops = 60
max_iops = 100
weight_iops = 100

[[plan.directive]]
group = "ap_group"
mgmt_p1 = 20
min_iops = 0
max_iops = "80%"
weight_iops = "20"
max_bandwidth = 12.5

[[unit]]
name = "tp_unit"
device = "ssd1"
plan = "htap_plan"
min_iops = 20000
max_iops = "40k"
iops_weight = 500
max_bandwidth = "800MB/s"

[[unit]]
name = "backup"
device = "hdd1"
min_bandwidth = "10MiB/s"
max_read_bandwidth = "50MB/s"
max_write_bandwidth = "1MiB/s"
max_raw_iops = 1500
max_read_raw_iops = 1000.5
max_write_raw_iops = "0.5"
max_read_iops = "unlimited"
max_write_iops = 700
min_raw_iops = 1
iops_weight = 0
burst = "20ms"
)";

Config Parse(std::string_view text) {
  const Result<Config> config = ParseConfig(text, "weir.toml");
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config.value_or(Config{});
}

TEST(Config, DevicesAreAsWritten) {
  const Config config = Parse(kEverything);
  EXPECT_TRUE(config.strict);
  EXPECT_EQ(config.file, "weir.toml");
  ASSERT_EQ(config.devices.size(), 2u);
  EXPECT_EQ(config.devices[0].name, "ssd1");
  EXPECT_EQ(config.devices[0].path, "/data");
  EXPECT_EQ(config.devices[0].profile, "/etc/weir/ssd1.json");
  EXPECT_EQ(config.devices[0].capacity, 60'000 * kOp);
  EXPECT_EQ(config.devices[0].fixed_depth, 32 * kOp);
  EXPECT_EQ(config.devices[0].line, 4);
  EXPECT_EQ(config.devices[1].capacity, 0);
  EXPECT_EQ(config.devices[1].fixed_depth, 0);
}

TEST(Config, PlansAndGroupsAreAsWritten) {
  const Config config = Parse(kEverything);
  ASSERT_EQ(config.groups.size(), 2u);
  EXPECT_EQ(config.groups[0].comment, "resource group for oltp applications");
  ASSERT_EQ(config.plans.size(), 1u);
  const Plan& plan = config.plans[0];
  EXPECT_EQ(plan.comment, "more for transactions");
  ASSERT_EQ(plan.directives.size(), 2u);
  const Directive& tp = plan.directives[0];
  EXPECT_EQ(tp.group_or_subplan, "tp_group");
  EXPECT_FALSE(tp.is_subplan);
  EXPECT_EQ(tp.comment, "more resource for tp_group");
  EXPECT_EQ(tp.mgmt_p1, 100);
  EXPECT_EQ(tp.min_iops, 60);
  EXPECT_EQ(tp.max_iops, 100);
  EXPECT_EQ(tp.weight_iops, 100);
  EXPECT_EQ(tp.min_bandwidth, -1);
  EXPECT_EQ(tp.max_bandwidth, -1);
  const Directive& ap = plan.directives[1];
  EXPECT_EQ(ap.min_iops, 0);
  EXPECT_EQ(ap.max_iops, 80);
  EXPECT_EQ(ap.weight_iops, 20);
  EXPECT_EQ(ap.max_bandwidth, 12.5);
}

TEST(Config, UnitsAreAsWrittenInEveryDimensionAndScope) {
  const Config config = Parse(kEverything);
  ASSERT_EQ(config.units.size(), 2u);
  const Unit& tp = config.units[0];
  EXPECT_EQ(tp.device, "ssd1");
  EXPECT_EQ(tp.plan, "htap_plan");
  ResourceParams expected;
  expected.MinOf(Dimension::kNorm) = 20'000 * kOp;
  expected.MaxOf(Dimension::kNorm, Scope::kBoth) = 40'000 * kOp;
  expected.MaxOf(Dimension::kBytes, Scope::kBoth) = 800'000'000;
  expected.weight = 500;
  EXPECT_EQ(tp.params, expected);
  EXPECT_LT(tp.burst.count(), 0);

  const Unit& backup = config.units[1];
  expected = ResourceParams{};
  expected.weight = 0;
  expected.MinOf(Dimension::kRaw) = kOp;
  expected.MinOf(Dimension::kBytes) = 10 << 20;
  expected.MaxOf(Dimension::kNorm, Scope::kWrite) = 700 * kOp;
  expected.BurstOf(Dimension::kNorm, Scope::kWrite) = 14 * kOp;
  expected.MaxOf(Dimension::kRaw, Scope::kBoth) = 1500 * kOp;
  expected.BurstOf(Dimension::kRaw, Scope::kBoth) = 30 * kOp;
  expected.MaxOf(Dimension::kRaw, Scope::kRead) = 1000 * kOp + kOp / 2;
  expected.BurstOf(Dimension::kRaw, Scope::kRead) = (1000 * kOp + kOp / 2) / 50;
  expected.MaxOf(Dimension::kRaw, Scope::kWrite) = kOp / 2;
  expected.BurstOf(Dimension::kRaw, Scope::kWrite) = kOp / 100;
  expected.MaxOf(Dimension::kBytes, Scope::kRead) = 50'000'000;
  expected.BurstOf(Dimension::kBytes, Scope::kRead) = 1'000'000;
  expected.MaxOf(Dimension::kBytes, Scope::kWrite) = 1 << 20;
  expected.BurstOf(Dimension::kBytes, Scope::kWrite) = (1 << 20) / 50;
  EXPECT_EQ(backup.params, expected);
  EXPECT_EQ(backup.burst, std::chrono::milliseconds(20));
}

TEST(Config, AnEmptyFileIsAnEmptyConfiguration) {
  const Config config = Parse("# nothing\n");
  EXPECT_FALSE(config.strict);
  EXPECT_TRUE(config.units.empty());
  EXPECT_TRUE(config.warnings.empty());
}

TEST(Config, RoundAndOddNumbersStayAsTheyAre) {
  for (const int64_t rate : {1, 7, 999, 1500, 4095, 10'000, 33'333, 1'000'001}) {
    const Config config =
        Parse("[[unit]]\nname = \"u\"\nmax_iops = " + std::to_string(rate) + "\n");
    EXPECT_EQ(config.units[0].params.MaxOf(Dimension::kNorm, Scope::kBoth), rate * kOp);
  }
}

TEST(Config, APlanThatNobodyUsesIsAWarning) {
  const Config config = Parse("[[group]]\nname = \"g\"\n[[plan]]\nname = \"p\"\n");
  EXPECT_EQ(config.warnings,
            std::vector<std::string>{"weir.toml:3: plan \"p\" is used by no unit"});
}

TEST(Config, CommentsMayHoldWhatNamesMayNot) {
  const Config config = Parse("[[group]]\nname = \"Größe 1\"\ncomment = \"a/b\\nc\"\n");
  EXPECT_EQ(config.groups[0].name, "Größe 1");
  EXPECT_EQ(config.groups[0].comment, "a/b\nc");
}

class ConfigFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "weir_config_XXXXXX";
    const int fd = ::mkstemp(pattern.data());
    ASSERT_GE(fd, 0);
    ::close(fd);
    path_ = pattern;
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  void Write(std::string_view text) {
    const int fd = ::open(path_.c_str(), O_WRONLY | O_TRUNC);
    ASSERT_GE(fd, 0);
    while (!text.empty()) {
      const ssize_t written = ::write(fd, text.data(), text.size());
      ASSERT_GT(written, 0);
      text.remove_prefix(static_cast<size_t>(written));
    }
    ::close(fd);
  }
  std::string path_;
};

TEST_F(ConfigFile, IsReadWhole) {
  Write(kEverything);
  const Result<Config> config = ReadConfigFile(path_);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->units.size(), 2u);
  EXPECT_EQ(config->file, path_);
}

TEST_F(ConfigFile, ThatIsMissingOrNoFileIsAnErrorWithTheErrno) {
  const Result<Config> missing = ReadConfigFile(path_ + ".not");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().sys_errno, ENOENT);
  EXPECT_EQ(missing.error().message, path_ + ".not: cannot be read: No such file or directory");
  const Result<Config> directory = ReadConfigFile(testing::TempDir());
  ASSERT_FALSE(directory.has_value());
  EXPECT_EQ(directory.error().code, ErrorCode::kIo);
  EXPECT_EQ(directory.error().sys_errno, EISDIR);
}

TEST_F(ConfigFile, LargerThanTheMaximumIsRefused) {
  std::string text(kMaxFileBytes, '#');
  Write(text);
  EXPECT_TRUE(ReadConfigFile(path_).has_value());
  text += '#';
  Write(text);
  const Result<Config> config = ReadConfigFile(path_);
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(config.error().message,
            path_ + ": the file has more than 4194304 bytes; is it the right file?");
}

}  // namespace
}  // namespace weir::catalog
