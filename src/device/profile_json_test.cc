// Goal: a profile survives its file; no text, however hostile, crashes the parser or gives a
// profile that the cost model refuses; a failed write leaves the old file whole. Method: round
// trips, every prefix, single-byte changes, a table of bad documents, a full disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/random.h"
#include "device/profile.h"

namespace weir::device {
namespace {

namespace fs = std::filesystem;

Profile Example() {
  std::vector<Measurement> measurements;
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    for (const core::Access access : {core::Access::kRandom, core::Access::kSequential}) {
      for (const int64_t bytes : {4096, 16384, 1 << 20}) {
        measurements.push_back({direction, access, bytes,
                                1e9 / (10'000.5 + static_cast<double>(bytes)), 87'654.25, 64,
                                0.0625});
      }
    }
  }
  Profile profile = *Fit(std::move(measurements));
  profile.path = "/srv/\"data\"\n";
  profile.device = "nvme0n1 (An SSD, 1 TiB)";
  profile.measured_at = "2026-01-02T03:04:05Z";
  profile.quick = true;
  profile.warnings = {"noisy"};
  return profile;
}

class Directory {
 public:
  Directory() {
    std::string name = (fs::temp_directory_path() / "weir-profile-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Directory() { fs::remove_all(path_); }
  [[nodiscard]] std::string File(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] size_t Count() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

std::string Slurp(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Whatever was accepted must be usable.
void CheckUsable(const Result<Profile>& profile) {
  if (!profile) {
    EXPECT_FALSE(profile.error().message.empty());
    return;
  }
  const Result<core::CostModel> model = profile->Model();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_GE(model->Cost(Direction::kWrite, core::Access::kSequential, 1), 1);
  EXPECT_GE(profile->CapacityPerSecond(), 10 * kOp);
}

TEST(ProfileJson, RoundTripKeepsEverything) {
  const Profile before = Example();
  const Result<Profile> after = ParseProfile(ProfileJson(before), "example");
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->path, before.path);
  EXPECT_EQ(after->device, before.device);
  EXPECT_EQ(after->measured_at, before.measured_at);
  EXPECT_EQ(after->quick, before.quick);
  EXPECT_EQ(after->capacity_iops, before.capacity_iops);
  EXPECT_EQ(after->warnings, before.warnings);
  ASSERT_EQ(after->measurements.size(), before.measurements.size());
  for (size_t i = 0; i < before.measurements.size(); ++i) {
    EXPECT_EQ(after->measurements[i].bytes, before.measurements[i].bytes);
    EXPECT_EQ(after->measurements[i].iops, before.measurements[i].iops);
    EXPECT_EQ(after->measurements[i].depth1_latency_ns, before.measurements[i].depth1_latency_ns);
    EXPECT_EQ(after->measurements[i].depth, before.measurements[i].depth);
    EXPECT_EQ(after->measurements[i].spread, before.measurements[i].spread);
  }
  EXPECT_EQ(ProfileJson(*after), ProfileJson(before));
}

TEST(ProfileJson, EveryPrefixIsRefusedWithoutACrash) {
  std::string text = ProfileJson(Example());
  text.resize(text.find_last_of('}') + 1);
  ASSERT_TRUE(ParseProfile(text, "whole"));
  for (size_t length = 0; length < text.size(); ++length) {
    ASSERT_FALSE(ParseProfile(text.substr(0, length), "prefix")) << length;
  }
}

TEST(ProfileJson, AnyChangedByteIsRefusedOrGivesAUsableProfile) {
  const std::string text = ProfileJson(Example());
  Random random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string changed = text;
    for (int64_t n = random.Range(1, 3); n > 0; --n) {
      changed[static_cast<size_t>(random.Range(0, static_cast<int64_t>(text.size()) - 1))] =
          static_cast<char>(random.Range(0, 255));
    }
    CheckUsable(ParseProfile(changed, "changed"));
  }
}

TEST(ProfileJson, HostileDocumentsAreErrorsThatSayWhat) {
  const std::string kCurve = R"("curve": {"read": {"random": [[4096, 10000], [16384, 20000]]}})";
  const struct {
    std::string text;
    const char* message;
  } kCases[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"null", "not a JSON object"},
      {std::string(100'000, '['), "not a JSON object"},
      {std::string(2 << 20, ' '), "at most"},
      {"{}", "weir_profile is not a whole number"},
      {R"({"weir_profile": 2})", "version 2 is not 1"},
      {R"({"weir_profile": 1})", "no random read of 16 KiB"},
      {R"({"weir_profile": 1, "measurements": {}})", "not a list"},
      {R"({"weir_profile": 1, "measurements": [1]})", "not an object"},
      {R"({"weir_profile": 1, "measurements": [{"direction": "up"}]})", "direction is \"up\""},
      {R"({"weir_profile": 1, "measurements": [{"direction": "read", "access": 7}]})", "access"},
      {R"({"weir_profile": 1, "measurements": [{"direction": "read", "access": "random",
           "bytes": 1e99, "iops": 1}]})",
       "bytes of a measurement is not a whole number"},
      {R"({"weir_profile": 1, "measurements": [{"direction": "read", "access": "random",
           "bytes": 18446744073709551615, "iops": 1}]})",
       "bytes of a measurement is not a whole number"},
      {R"({"weir_profile": 1, "measurements": [{"direction": "read", "access": "random",
           "bytes": 16384, "iops": "many"}]})",
       "iops is not a number"},
      {R"({"weir_profile": 1, "measurements": [{"direction": "read", "access": "random",
           "bytes": 16384, "iops": 2}]})",
       "implausible"},
      {R"({"weir_profile": 1, "curve": []})", "curve is not an object"},
      {R"({"weir_profile": 1, "curve": {"read": 5}})", "curve.read.random"},
      {R"({"weir_profile": 1, "curve": {"read": {"random": 5}}})", "not a list"},
      {R"({"weir_profile": 1, "curve": {"read": {"random": [[1, 2, 3]]}}})", "[bytes, device_ns]"},
      {R"({"weir_profile": 1, "curve": {"read": {"random": [["a", 2]]}}})", "bytes"},
      {R"({"weir_profile": 1, "capacity_iops": 1000, "curve": {}})", "16 KiB"},
      {R"({"weir_profile": 1, "capacity_iops": 1000,
           "curve": {"read": {"random": [[4096, 20], [16384, 10]]}}})",
       "must not be cheaper"},
      {R"({"weir_profile": 1, )" + kCurve + "}", "capacity_iops is missing"},
      {R"({"weir_profile": 1, "capacity_iops": 2, )" + kCurve + "}", "capacity_iops 2 is impl"},
      {R"({"weir_profile": 1, "capacity_iops": 1e9, )" + kCurve + "}", "implausible"},
      {R"({"weir_profile": 1, "capacity_iops": 200000, )" + kCurve + "}", "contradicts"},
      {R"({"weir_profile": 1, "capacity_iops": 50000, "path": 5, )" + kCurve + "}", "path is not"},
  };
  for (const auto& test : kCases) {
    const Result<Profile> profile = ParseProfile(test.text, "disk.json");
    ASSERT_FALSE(profile) << test.text.substr(0, 200);
    EXPECT_EQ(profile.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(profile.error().message.find(test.message), std::string::npos)
        << test.text.substr(0, 200) << ": " << profile.error().message;
    EXPECT_NE(profile.error().message.find("disk.json"), std::string::npos);
  }
}

TEST(ProfileJson, AHandWrittenCurveIsEnough) {
  const Result<Profile> profile = ParseProfile(
      R"({"weir_profile": 1, "capacity_iops": 50000, "comment": "unknown keys are ignored",
          "curve": {"read": {"random": [[4096, 10000], [16384, 20000]]}}})",
      "mine");
  ASSERT_TRUE(profile) << profile.error().message;
  CheckUsable(profile);
  EXPECT_EQ(profile->CapacityPerSecond(), 50'000 * kOp);
}

TEST(ProfileFile, WriteThenReadGivesTheSameAndLeavesNothingElse) {
  const Directory directory;
  const std::string file = directory.File("disk.json");
  for (int i = 0; i < 2; ++i) {  // anew, and over the old one
    ASSERT_TRUE(WriteProfile(Example(), file));
    const Result<Profile> profile = ReadProfile(file);
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(ProfileJson(*profile), ProfileJson(Example()));
    EXPECT_EQ(directory.Count(), 1u);
  }
}

TEST(ProfileFile, AFailedWriteLeavesTheOldProfileAndNothingElse) {
  const Directory directory;
  const std::string file = directory.File("disk.json");
  ASSERT_TRUE(WriteProfile(Example(), file));
  const std::string before = Slurp(file);
  // A directory in the way makes the rename fail, after the temporary file was written.
  const std::string blocked = directory.File("blocked");
  ASSERT_TRUE(fs::create_directory(blocked));
  const Result<void> written = WriteProfile(Example(), blocked);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  EXPECT_NE(written.error().sys_errno, 0);
  EXPECT_NE(written.error().message.find(blocked), std::string::npos);
  EXPECT_FALSE(WriteProfile(Example(), directory.File("missing/disk.json")));
  EXPECT_EQ(Slurp(file), before);
  EXPECT_EQ(directory.Count(), 2u);
}

TEST(ProfileFile, ASymbolicLinkStaysOne) {
  const Directory directory;
  const std::string file = directory.File("real.json");
  const std::string link = directory.File("link.json");
  ASSERT_TRUE(WriteProfile(Example(), file));
  fs::create_symlink("real.json", link);
  Profile changed = Example();
  changed.device = "another";
  ASSERT_TRUE(WriteProfile(changed, link));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(ReadProfile(file)->device, "another");
}

TEST(ProfileFile, WhatCannotBeReadIsAnError) {
  const Directory directory;
  EXPECT_EQ(ReadProfile(directory.File("none")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadProfile(fs::temp_directory_path().string()).error().code, ErrorCode::kIo);
  std::ofstream(directory.File("huge")) << std::string(3 << 20, '{');
  EXPECT_EQ(ReadProfile(directory.File("huge")).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace weir::device
