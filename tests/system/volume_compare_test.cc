// The promise: a program cannot tell a volume from the directory behind it. The same random
// operations, by several users, are done on a mount and on a plain directory.
//
// WEIR_COMPARE_DIRS="MOUNT PLAIN": on these two (empty) directories, say of `weir volume`.
// WEIR_COMPARE_SEED, WEIR_COMPARE_OPERATIONS: to repeat a failure, or for longer.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "volume_compare_mount.h"
#include "volume_compare_ops.h"

namespace weir::volume {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

class VolumeCompareTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "mounting and changing users needs root";
    std::string pattern = std::filesystem::temp_directory_path() / "weir-compare-XXXXXX";
    base_ = mkdtemp(pattern.data());
    std::filesystem::permissions(base_, std::filesystem::perms(0755));
    for (const char* name : {"backing", "mount", "plain"}) {
      std::filesystem::create_directory(base_ / name);
    }
  }
  // False: skipped.
  bool Mount(std::chrono::microseconds kill_every) {
    std::string why;
    mount_ = TestMount::Start(base_ / "backing", base_ / "mount", kill_every, &why);
    return mount_ != nullptr || Skip(why);
  }
  static bool Skip(const std::string& why) {
    [&] { GTEST_SKIP() << why; }();
    return false;
  }
  void TearDown() override {
    mount_.reset();
    std::error_code ignored;
    if (!base_.empty()) std::filesystem::remove_all(base_, ignored);
  }

  std::filesystem::path base_;
  std::unique_ptr<TestMount> mount_;
};

TEST_F(VolumeCompareTest, RandomOperationsShowNoDifference) {
  if (!Mount(std::chrono::microseconds(0))) return;
  const auto operations = static_cast<int>(FromEnvironment("WEIR_COMPARE_OPERATIONS", 20'000));
  const uint64_t seed = FromEnvironment("WEIR_COMPARE_SEED", 1);
  Comparer comparer(base_ / "mount", base_ / "plain", seed);
  EXPECT_EQ(comparer.Run(operations), "");
}

// A daemon that is killed all the time, in the middle of whatever it does, shows no difference.
TEST_F(VolumeCompareTest, KillingTheDaemonShowsNoDifference) {
  if (!Mount(std::chrono::milliseconds(5))) return;
  const auto operations = static_cast<int>(FromEnvironment("WEIR_COMPARE_OPERATIONS", 10'000));
  const uint64_t seed = FromEnvironment("WEIR_COMPARE_SEED", 2);
  Comparer comparer(base_ / "mount", base_ / "plain", seed);
  EXPECT_EQ(comparer.Run(operations), "");
  EXPECT_GT(mount_->replaced(), 10u);
}

// Several programs at once, each in a directory of its own; the daemon is killed under them.
TEST_F(VolumeCompareTest, SeveralProgramsAtOnceShowNoDifference) {
  if (!Mount(std::chrono::milliseconds(10))) return;
  constexpr int kPrograms = 4;
  const auto operations = static_cast<int>(FromEnvironment("WEIR_COMPARE_OPERATIONS", 3000));
  const uint64_t seed = FromEnvironment("WEIR_COMPARE_SEED", 100);
  std::vector<pid_t> programs;
  for (int i = 0; i < kPrograms; ++i) {
    const std::string name = "p" + std::to_string(i);
    for (const char* side : {"mount", "plain"})
      std::filesystem::create_directory(base_ / side / name);
    programs.push_back(fork());
    if (programs.back() == 0) {
      Comparer comparer(base_ / "mount" / name, base_ / "plain" / name,
                        seed + static_cast<uint64_t>(i));
      const std::string difference = comparer.Run(operations);
      if (!difference.empty()) std::fprintf(stderr, "%s\n", difference.c_str());
      _exit(difference.empty() ? 0 : 1);
    }
  }
  for (const pid_t program : programs) {
    int status = -1;
    waitpid(program, &status, 0);
    EXPECT_EQ(status, 0) << "see the difference above";
  }
  EXPECT_GT(mount_->replaced(), 10u);
}

// Far more entries than one answer holds, and than the caches of descriptors do.
TEST_F(VolumeCompareTest, ADirectoryOf100000EntriesIsListedWithItsAttributes) {
  if (!Mount(std::chrono::microseconds(0))) return;
  constexpr int kEntries = 100'000;
  const std::filesystem::path directory = base_ / "mount" / "large";
  std::filesystem::create_directory(base_ / "backing" / "large");
  const std::string prefix = base_ / "backing" / "large" / "entry-";
  for (int i = 0; i < kEntries; ++i) {
    ASSERT_EQ(mknod((prefix + std::to_string(i)).c_str(), S_IFREG | 0644, 0), 0);
  }
  std::vector<bool> seen(kEntries);
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    struct stat status {};
    ASSERT_EQ(lstat(entry.path().c_str(), &status), 0);
    const std::string name = entry.path().filename();
    const size_t number = std::stoul(name.substr(name.find('-') + 1));
    EXPECT_FALSE(seen[number]) << name << " is listed twice";
    seen[number] = true;
    ++count;
  }
  EXPECT_EQ(count, kEntries);
}

TEST(VolumeCompareDirectories, RandomOperationsShowNoDifference) {
  const char* directories = std::getenv("WEIR_COMPARE_DIRS");
  if (directories == nullptr) GTEST_SKIP() << "WEIR_COMPARE_DIRS names no two directories";
  std::istringstream words(directories);
  std::string mounted;
  std::string plain;
  words >> mounted >> plain;
  Comparer comparer(mounted, plain, FromEnvironment("WEIR_COMPARE_SEED", 1));
  EXPECT_EQ(comparer.Run(static_cast<int>(FromEnvironment("WEIR_COMPARE_OPERATIONS", 20'000))), "");
}

}  // namespace
}  // namespace weir::volume
