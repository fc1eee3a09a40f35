#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "device/profile.h"

namespace weir::device {

namespace {

const char* KindName(Direction direction, core::Access access) {
  if (direction == Direction::kRead) {
    return access == core::Access::kRandom ? "random read" : "sequential read";
  }
  return access == core::Access::kRandom ? "random write" : "sequential write";
}

std::string Describe(const Measurement& m) {
  return fmt::format("{} of {}", KindName(m.direction, m.access), FormatBytes(m.bytes));
}

tl::unexpected<Error> Implausible(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("implausible measurement: {}; measure again on a quiet device", what));
}

Result<void> CheckOne(const Measurement& m) {
  if (m.bytes < 512 || m.bytes > core::kMaxRequestBytes) {
    return Implausible(fmt::format("size {} B is not within 512 B .. 1 GiB", m.bytes));
  }
  const double bytes = static_cast<double>(m.bytes);
  const double reference = static_cast<double>(core::kReferenceBytes);
  if (!(m.iops * std::max(bytes, reference) >= kMinIops * reference)) {
    return Implausible(fmt::format("{:.4g} IOPS for a {} is too slow (at least {} IOPS of 16 KiB)",
                                   m.iops, Describe(m), kMinIops));
  }
  if (!(m.iops <= kMaxIops)) {
    return Implausible(fmt::format("{:.4g} IOPS for a {} is too fast (at most {:.0f})", m.iops,
                                   Describe(m), kMaxIops));
  }
  if (!(m.iops * bytes <= kMaxBytesPerSecond)) {
    return Implausible(fmt::format("{:.4g} IOPS for a {} are {:.4g} GB/s (at most {:.0f})", m.iops,
                                   Describe(m), m.iops * bytes / 1e9, kMaxBytesPerSecond / 1e9));
  }
  if (!(m.depth1_latency_ns >= 0 &&
        m.depth1_latency_ns <= static_cast<double>(core::kMaxDeviceNs))) {
    return Implausible(fmt::format("latency {:.4g} ns of a {}", m.depth1_latency_ns, Describe(m)));
  }
  return {};
}

// The two are of one kind, `smaller` has fewer bytes.
Result<void> CheckPair(const Measurement& smaller, const Measurement& larger) {
  if (smaller.bytes == larger.bytes) {
    return Implausible(fmt::format("{} was given twice", Describe(larger)));
  }
  if (larger.iops > smaller.iops * kMaxInversion) {
    return Implausible(fmt::format("{:.0f} IOPS for a {}, but only {:.0f} for a {}", larger.iops,
                                   Describe(larger), smaller.iops, Describe(smaller)));
  }
  return {};
}

// Linear between points, as the cost model. Requires: `points` not empty.
double TimeNs(const std::vector<core::CurvePoint>& points, int64_t bytes) {
  if (bytes <= points.front().bytes) return static_cast<double>(points.front().device_ns);
  for (size_t i = 1; i < points.size(); ++i) {
    if (bytes > points[i].bytes) continue;
    const double part = static_cast<double>(bytes - points[i - 1].bytes) /
                        static_cast<double>(points[i].bytes - points[i - 1].bytes);
    return static_cast<double>(points[i - 1].device_ns) +
           part * static_cast<double>(points[i].device_ns - points[i - 1].device_ns);
  }
  return static_cast<double>(points.back().device_ns) * static_cast<double>(bytes) /
         static_cast<double>(points.back().bytes);
}

const Measurement* Find(const Profile& profile, Direction direction, core::Access access,
                        int64_t bytes) {
  for (const Measurement& m : profile.measurements) {
    if (m.direction == direction && m.access == access && m.bytes == bytes) return &m;
  }
  return nullptr;
}

}  // namespace

Result<core::CostModel> Profile::Model() const { return core::CostModel::FromCurve(curve); }

int64_t Profile::CapacityPerSecond() const {
  return std::llround(std::clamp(capacity_iops, 0.0, kMaxIops) * kOp);
}

Result<Profile> Fit(std::vector<Measurement> measurements) {
  if (measurements.size() > kMaxMeasurements) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} measurements; at most {} are allowed",
                                                         measurements.size(), kMaxMeasurements));
  }
  for (const Measurement& m : measurements) {
    if (auto ok = CheckOne(m); !ok) return tl::unexpected(ok.error());
  }
  std::stable_sort(measurements.begin(), measurements.end(),
                   [](const Measurement& a, const Measurement& b) {
                     if (a.direction != b.direction) return a.direction < b.direction;
                     if (a.access != b.access) return a.access < b.access;
                     return a.bytes < b.bytes;
                   });
  Profile profile;
  for (size_t i = 0; i < measurements.size(); ++i) {
    const Measurement& m = measurements[i];
    for (size_t j = i; j-- > 0;) {
      const Measurement& smaller = measurements[j];
      if (smaller.direction != m.direction || smaller.access != m.access) break;
      if (auto ok = CheckPair(smaller, m); !ok) return tl::unexpected(ok.error());
    }
    profile.curve.points[static_cast<int>(m.direction)][static_cast<int>(m.access)].push_back(
        {m.bytes, std::max<int64_t>(1, std::llround(1e9 / m.iops))});
  }
  profile.measurements = std::move(measurements);
  profile.curve = core::CostModel::Monotone(std::move(profile.curve));
  const Measurement* reference =
      Find(profile, Direction::kRead, core::Access::kRandom, core::kReferenceBytes);
  if (reference == nullptr)
    return Implausible("no random read of 16 KiB, which is the unit of cost");
  if (profile.curve.points[1][0].empty()) return Implausible("no random write");
  profile.capacity_iops = reference->iops;
  if (auto model = profile.Model(); !model) return tl::unexpected(model.error());
  return profile;
}

std::vector<std::string> CompareWithOld(const Profile& old, const Profile& fresh) {
  std::vector<std::string> findings;
  const auto compare = [&](double before, double now, const std::string& what) {
    if (before <= 0 || now <= 0) return;
    if (now <= before * kMaxDisagreement && before <= now * kMaxDisagreement) return;
    findings.push_back(
        fmt::format("{}: {:.0f} IOPS, but {:.0f} in the profile before", what, now, before));
  };
  compare(old.capacity_iops, fresh.capacity_iops, "capacity");
  for (const Measurement& m : fresh.measurements) {
    const Measurement* before = Find(old, m.direction, m.access, m.bytes);
    if (before != nullptr) compare(before->iops, m.iops, Describe(m));
  }
  return findings;
}

std::string IoCostModelLine(const Profile& profile, const std::string& major_minor) {
  std::string line = major_minor + " ctrl=user model=linear";
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    const auto& curves = profile.curve.points[static_cast<int>(direction)];
    const auto& random = !curves[0].empty() ? curves[0] : profile.curve.points[0][0];
    const auto& sequential = !curves[1].empty() ? curves[1] : random;
    double bytes_per_s = 0;
    for (const core::CurvePoint& point : sequential) {
      bytes_per_s = std::max(bytes_per_s, static_cast<double>(point.bytes) * 1e9 /
                                              static_cast<double>(point.device_ns));
    }
    line += fmt::format(" {0}bps={1:.0f} {0}seqiops={2:.0f} {0}randiops={3:.0f}",
                        direction == Direction::kRead ? "r" : "w", bytes_per_s,
                        1e9 / TimeNs(sequential, 4096), 1e9 / TimeNs(random, 4096));
  }
  return line;
}

}  // namespace weir::device
