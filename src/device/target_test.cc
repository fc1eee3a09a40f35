// Goal: a calibration writes only where it may: into a nameless scratch file that fits, or onto a
// block device whose owner said so and that nobody uses.
// Method: real directories; a loop device where the test may make one.
#include "device/target.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "device/block_info.h"
#include "device/calibrate.h"
#include "device/scratch_directory.h"

namespace weir::device {
namespace {

namespace fs = std::filesystem;

class Directory {
 public:
  Directory() {
    std::string name = (ScratchDirectory() / "weir-target-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Directory() { fs::remove_all(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }
  [[nodiscard]] bool Empty() const { return fs::is_empty(path_); }

 private:
  fs::path path_;
};

// The first line that the command prints; empty on failure.
std::string Capture(const std::string& command) {
  std::array<char, 256> line{};
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  const bool read = std::fgets(line.data(), line.size(), pipe) != nullptr;
  const int status = ::pclose(pipe);
  std::string text = read && status == 0 ? line.data() : "";
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// A loop device over a file of 32 MiB; no device() where the test may not make one.
class LoopDevice {
 public:
  LoopDevice() {
    const std::string file = directory_.path() + "/image";
    std::ofstream(file).close();
    fs::resize_file(file, 32 << 20);
    if (::geteuid() == 0) device_ = Capture("losetup --find --show " + file);
  }
  ~LoopDevice() {
    if (!mounted_.empty()) ::umount(mounted_.c_str());
    if (!device_.empty()) (void)Capture("losetup --detach " + device_ + " && echo done");
  }
  [[nodiscard]] const std::string& device() const { return device_; }
  bool Mount() {
    if (Capture("mkfs.ext4 -q " + device_ + " && echo done").empty()) return false;
    const std::string point = directory_.path() + "/a point";
    fs::create_directory(point);
    if (::mount(device_.c_str(), point.c_str(), "ext4", 0, nullptr) != 0) return false;
    mounted_ = point;
    return true;
  }

 private:
  Directory directory_;
  std::string device_;
  std::string mounted_;
};

TEST(Target, TheScratchFileHasNoName) {
  const Directory directory;
  {
    const Result<Target> target = Target::Open({directory.path(), kMinTargetBytes});
    ASSERT_TRUE(target) << target.error().message;
    EXPECT_EQ(target->bytes(), kMinTargetBytes);
    EXPECT_GE(target->fd(), 0);
    EXPECT_TRUE(directory.Empty());
  }
  EXPECT_TRUE(directory.Empty());
}

TEST(Target, BesideAFileWhichIsNotTouched) {
  const Directory directory;
  const std::string file = directory.path() + "/data";
  std::ofstream(file) << "precious";
  const Result<Target> target = Target::Open({file, kMinTargetBytes});
  ASSERT_TRUE(target) << target.error().message;
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "precious");
  EXPECT_EQ(fs::file_size(file), 8u);
}

TEST(Target, RefusesWhatDoesNotFitBeforeWriting) {
  const Directory directory;
  const auto code = [&](int64_t size) {
    return Target::Open({directory.path(), size}).error().code;
  };
  EXPECT_EQ(code(-1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(kMinTargetBytes - 1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(kMaxTargetBytes + 1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(INT64_MAX), ErrorCode::kInvalidArgument);
  if (fs::space(directory.path()).available < static_cast<uintmax_t>(kMaxTargetBytes)) {
    const Result<Target> target = Target::Open({directory.path(), kMaxTargetBytes});
    ASSERT_FALSE(target);
    EXPECT_EQ(target.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(target.error().message.find("free some space"), std::string::npos)
        << target.error().message;
  }
  EXPECT_TRUE(directory.Empty());
}

TEST(Target, RefusesWhatIsNoDisk) {
  EXPECT_EQ(Target::Open({"/nonexistent/directory"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Target::Open({"/dev/null"}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Target::Open({""}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Target::Open({"/proc"}).error().code, ErrorCode::kResourceExhausted);
}

TEST(Target, ABlockDeviceNeedsItsOwnersWord) {
  const LoopDevice loop;
  if (loop.device().empty()) GTEST_SKIP() << "may not make a loop device";
  const Result<Target> refused = Target::Open({loop.device(), kMinTargetBytes});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find("--i-know-this-destroys-data"), std::string::npos);
  TargetOptions options{loop.device()};
  options.destroy_data = true;
  const Result<Target> target = Target::Open(options);
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_EQ(target->bytes(), 32 << 20);
  // Claimed: nobody can mount it meanwhile, nor another calibration begin.
  EXPECT_EQ(Target::Open(options).error().code, ErrorCode::kFailedPrecondition);
}

TEST(Target, AMountedDeviceIsRefusedWhateverIsSaid) {
  LoopDevice loop;
  if (loop.device().empty() || !loop.Mount()) GTEST_SKIP() << "may not mount a loop device";
  TargetOptions options{loop.device()};
  options.destroy_data = true;
  const Result<Target> target = Target::Open(options);
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(target.error().message.find("mounted at "), std::string::npos)
      << target.error().message;
  EXPECT_NE(target.error().message.find("/a point"), std::string::npos) << target.error().message;
}

TEST(Calibrate, ALoopDeviceIsMeasuredAndNamed) {
  const LoopDevice loop;
  if (loop.device().empty()) GTEST_SKIP() << "may not make a loop device";
  CalibrateOptions options;
  options.path = loop.device();
  options.destroy_data = true;
  options.budget = std::chrono::seconds(2);
  options.sizes = {4096, 16384, 131072};
  const Result<Profile> profile = Calibrate(options, nullptr, nullptr);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->measurements.size(), 12u);
  EXPECT_NE(profile->device.find("loop"), std::string::npos) << profile->device;
  const Result<BlockInfo> info = FindBlockDevice(loop.device());
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ("/dev/" + info->name, loop.device());
  EXPECT_EQ(info->major_minor.substr(0, 2), "7:");
  EXPECT_EQ(info->bytes, 32 << 20);
}

TEST(BlockInfo, TheDiskOfTheRootIsMounted) {
  const Result<BlockInfo> info = FindBlockDevice("/");
  ASSERT_TRUE(info) << info.error().message;
  if (info->name.empty() || !fs::exists("/dev/" + info->name)) {
    GTEST_SKIP() << "the root is on no block device that is visible here";
  }
  // In a chroot the mounts outside are not listed; O_EXCL still refuses such a disk when it is
  // opened.
  std::ifstream mounts("/proc/self/mountinfo");
  bool root_listed = false;
  for (std::string line; std::getline(mounts, line);) {
    root_listed = root_listed || line.find(" / / ") != std::string::npos;
  }
  if (!root_listed) GTEST_SKIP() << "in a chroot: the mount of / is not listed";
  EXPECT_NE(UseOfBlockDevice("/dev/" + info->name), "") << info->name;
  EXPECT_GT(info->bytes, 0);
  EXPECT_NE(info->Describe().find(info->name), std::string::npos);
  EXPECT_NE(info->major_minor.find(':'), std::string::npos);
}

TEST(BlockInfo, WhereThereIsNoneNothingIsMadeUp) {
  const Result<BlockInfo> info = FindBlockDevice("/proc");
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->name, "");
  EXPECT_EQ(info->Describe(), "");
  EXPECT_EQ(UseOfBlockDevice("/dev/null"), "");
  EXPECT_EQ(FindBlockDevice("/nonexistent").error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace weir::device
