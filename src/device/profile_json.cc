// The JSON form of a profile, and its file.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "device/profile.h"

namespace weir::device {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kDirections[] = {"read", "write"};
constexpr const char* kAccesses[] = {"random", "sequential"};
constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxWarnings = 100;

// Reads one JSON object; the first fault is kept and later reads give defaults.
class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  void FailWith(const std::string& what) {
    if (!error_.empty()) return;
    error_ = fmt::format("cannot use profile {}: {}; run `weir calibrate` to make a new one", name_,
                         what);
  }
  [[nodiscard]] bool failed() const { return !error_.empty(); }
  [[nodiscard]] tl::unexpected<Error> error() const {
    return Fail(ErrorCode::kInvalidArgument, error_);
  }

  double Number(const json& object, const char* key, bool required) {
    const auto at = object.find(key);
    if (at == object.end()) {
      if (required) FailWith(fmt::format("{} is missing", key));
      return 0;
    }
    if (!at->is_number()) {
      FailWith(fmt::format("{} is not a number", key));
      return 0;
    }
    const double value = at->get<double>();
    if (!std::isfinite(value)) FailWith(fmt::format("{} is not finite", key));
    return value;
  }
  // Within the range that a double holds exactly.
  int64_t Integer(const json& value, const std::string& what) {
    constexpr double kExact = 9007199254740992.0;
    if (value.is_number()) {
      const double number = value.get<double>();
      if (std::abs(number) <= kExact && number == std::floor(number)) {
        return static_cast<int64_t>(number);
      }
    }
    FailWith(fmt::format("{} is not a whole number", what));
    return 0;
  }
  std::string Text(const json& object, const char* key) {
    const auto at = object.find(key);
    if (at == object.end()) return "";
    if (!at->is_string() || at->get_ref<const std::string&>().size() > kMaxTextBytes) {
      FailWith(fmt::format("{} is not a text of at most {} bytes", key, kMaxTextBytes));
      return "";
    }
    return at->get<std::string>();
  }
  int Choice(const json& object, const char* key, const char* const (&names)[2]) {
    const std::string text = Text(object, key);
    for (int i = 0; i < 2; ++i) {
      if (text == names[i]) return i;
    }
    FailWith(fmt::format("{} is {}, not \"{}\" or \"{}\"", key, Quote(text), names[0], names[1]));
    return 0;
  }

 private:
  const std::string name_;
  std::string error_;
};

std::vector<Measurement> ReadMeasurements(const json& root, Reader* reader) {
  std::vector<Measurement> measurements;
  const auto list = root.find("measurements");
  if (list == root.end()) return measurements;
  if (!list->is_array() || list->size() > kMaxMeasurements) {
    reader->FailWith(fmt::format("measurements is not a list of at most {}", kMaxMeasurements));
    return measurements;
  }
  for (const json& item : *list) {
    if (!item.is_object()) {
      reader->FailWith("a measurement is not an object");
      return measurements;
    }
    Measurement m;
    m.direction = static_cast<Direction>(reader->Choice(item, "direction", kDirections));
    m.access = static_cast<core::Access>(reader->Choice(item, "access", kAccesses));
    m.bytes = reader->Integer(item.value("bytes", json()), "bytes of a measurement");
    m.iops = reader->Number(item, "iops", /*required=*/true);
    m.depth1_latency_ns = reader->Number(item, "depth1_latency_ns", /*required=*/false);
    const double depth = reader->Number(item, "depth", /*required=*/false);
    m.depth = depth >= 0 && depth <= 1e6 ? static_cast<int>(depth) : 0;
    m.spread = reader->Number(item, "spread", /*required=*/false);
    if (reader->failed()) return measurements;
    measurements.push_back(m);
  }
  return measurements;
}

// True if the file has a curve.
bool ReadCurve(const json& root, Reader* reader, core::CostCurve* curve) {
  const auto at = root.find("curve");
  if (at == root.end()) return false;
  if (!at->is_object()) {
    reader->FailWith("curve is not an object");
    return true;
  }
  for (int direction = 0; direction < 2; ++direction) {
    const auto by_access = at->find(kDirections[direction]);
    if (by_access == at->end()) continue;
    for (int access = 0; access < 2; ++access) {
      const std::string what =
          fmt::format("curve.{}.{}", kDirections[direction], kAccesses[access]);
      if (!by_access->is_object()) {
        reader->FailWith(what + " is not within an object");
        return true;
      }
      const auto points = by_access->find(kAccesses[access]);
      if (points == by_access->end()) continue;
      if (!points->is_array() || points->size() > core::kMaxCurvePoints) {
        reader->FailWith(
            fmt::format("{} is not a list of at most {} points", what, core::kMaxCurvePoints));
        return true;
      }
      for (const json& point : *points) {
        if (!point.is_array() || point.size() != 2) {
          reader->FailWith(what + ": a point is not [bytes, device_ns]");
          return true;
        }
        curve->points[direction][access].push_back(
            {reader->Integer(point[0], what + ": bytes"),
             reader->Integer(point[1], what + ": device_ns")});
      }
    }
  }
  return true;
}

// A curve beside measurements must be a valid one and agree with the capacity.
void CheckCurve(const Profile& profile, Reader* reader) {
  const auto model = profile.Model();
  if (!model) {
    reader->FailWith(model.error().message);
    return;
  }
  if (!(profile.capacity_iops >= kMinIops && profile.capacity_iops <= kMaxIops)) {
    reader->FailWith(fmt::format("capacity_iops {:.4g} is implausible (not within {} .. {:.0f})",
                                 profile.capacity_iops, kMinIops, kMaxIops));
    return;
  }
  for (const core::CurvePoint& point : profile.curve.points[0][0]) {
    if (point.bytes != core::kReferenceBytes) continue;
    const double iops = 1e9 / static_cast<double>(point.device_ns);
    if (iops > profile.capacity_iops * kMaxDisagreement ||
        iops * kMaxDisagreement < profile.capacity_iops) {
      reader->FailWith(fmt::format(
          "capacity_iops {:.0f} contradicts the curve, in which a 16 KiB random read takes {} ns",
          profile.capacity_iops, point.device_ns));
    }
  }
}

// Closes and, unless kept, removes the temporary file.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : name_(target + ".XXXXXX") {
    fd_ = ::mkostemp(name_.data(), O_CLOEXEC);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    if (!renamed_) ::unlink(name_.c_str());
  }
  [[nodiscard]] int fd() const { return fd_; }
  // All false with errno.
  bool Write(const std::string& text) {
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      done += static_cast<size_t>(n);
    }
    return ::fchmod(fd_, 0644) == 0 && ::fsync(fd_) == 0;
  }
  bool RenameTo(const std::string& target) {
    renamed_ = ::rename(name_.c_str(), target.c_str()) == 0;
    return renamed_;
  }

 private:
  std::string name_;
  int fd_ = -1;
  bool renamed_ = false;
};

void SyncDirectory(const std::string& file) {
  const int fd = ::open(DirectoryOf(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // the rename is done; a crash may still show the old profile, whole
  (void)::fsync(fd);
  ::close(fd);
}

}  // namespace

Result<Profile> ParseProfile(const std::string& text, const std::string& name) {
  Reader reader(name);
  if (text.size() > kMaxProfileBytes) {
    reader.FailWith(fmt::format("{} bytes; at most {} are allowed", text.size(), kMaxProfileBytes));
    return reader.error();
  }
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) {
    reader.FailWith("not a JSON object");
    return reader.error();
  }
  const int64_t version = reader.Integer(root.value("weir_profile", json()), "weir_profile");
  if (!reader.failed() && version != kProfileVersion) {
    reader.FailWith(fmt::format("version {} is not {}", version, kProfileVersion));
  }
  std::vector<Measurement> measurements = ReadMeasurements(root, &reader);
  core::CostCurve curve;
  const bool has_curve = ReadCurve(root, &reader, &curve);
  if (reader.failed()) return reader.error();

  Profile profile;
  if (!measurements.empty() || !has_curve) {
    Result<Profile> fitted = Fit(std::move(measurements));
    if (!fitted) {
      reader.FailWith(fitted.error().message);
      return reader.error();
    }
    profile = std::move(*fitted);
  }
  if (has_curve) {
    profile.curve = std::move(curve);
    profile.capacity_iops = reader.Number(root, "capacity_iops", /*required=*/true);
    if (!reader.failed()) CheckCurve(profile, &reader);
  }
  profile.path = reader.Text(root, "path");
  profile.device = reader.Text(root, "device");
  profile.measured_at = reader.Text(root, "measured_at");
  const auto quick = root.find("quick");
  profile.quick = quick != root.end() && quick->is_boolean() && quick->get<bool>();
  const auto warnings = root.find("warnings");
  if (warnings != root.end() && warnings->is_array()) {
    for (const json& warning : *warnings) {
      if (warning.is_string() && profile.warnings.size() < kMaxWarnings) {
        profile.warnings.push_back(warning.get<std::string>());
      }
    }
  }
  if (reader.failed()) return reader.error();
  return profile;
}

std::string ProfileJson(const Profile& profile) {
  ordered_json root;
  root["weir_profile"] = profile.version;
  root["path"] = profile.path;
  root["device"] = profile.device;
  root["measured_at"] = profile.measured_at;
  root["quick"] = profile.quick;
  root["capacity_iops"] = profile.capacity_iops;
  root["warnings"] = profile.warnings;
  root["measurements"] = ordered_json::array();
  for (const Measurement& m : profile.measurements) {
    root["measurements"].push_back({{"direction", kDirections[static_cast<int>(m.direction)]},
                                    {"access", kAccesses[static_cast<int>(m.access)]},
                                    {"bytes", m.bytes},
                                    {"iops", m.iops},
                                    {"depth1_latency_ns", m.depth1_latency_ns},
                                    {"depth", m.depth},
                                    {"spread", m.spread}});
  }
  ordered_json& curve = root["curve"] = ordered_json::object();
  for (int direction = 0; direction < 2; ++direction) {
    for (int access = 0; access < 2; ++access) {
      for (const core::CurvePoint& point : profile.curve.points[direction][access]) {
        curve[kDirections[direction]][kAccesses[access]].push_back(
            ordered_json::array({point.bytes, point.device_ns}));
      }
    }
  }
  // A path need not be UTF-8.
  return root.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<Profile> ReadProfile(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot open profile {}: {}; run `weir calibrate` to make one", file,
                            std::strerror(errno)),
                errno);
  }
  std::string text;
  char buffer[65536];
  ssize_t n = 1;
  while (n > 0 && text.size() <= kMaxProfileBytes) {
    n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) {
      n = 1;
    } else if (n > 0) {
      text.append(buffer, static_cast<size_t>(n));
    }
  }
  const int error = n < 0 ? errno : 0;
  ::close(fd);
  if (error != 0) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot read profile {}: {}", file, std::strerror(error)), error);
  }
  return ParseProfile(text, file);
}

Result<void> WriteProfile(const Profile& profile, const std::string& file) {
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::canonical(file, ignored);
  const std::string target = real.empty() ? file : real.string();
  const auto fail = [&] {
    const int error = errno;
    return Fail(ErrorCode::kIo,
                fmt::format("cannot write profile {}: {}; what was there before is unchanged", file,
                            std::strerror(error)),
                error);
  };
  TemporaryFile temporary(target);
  if (temporary.fd() < 0 || !temporary.Write(ProfileJson(profile)) || !temporary.RenameTo(target)) {
    return fail();
  }
  SyncDirectory(target);
  return {};
}

}  // namespace weir::device
