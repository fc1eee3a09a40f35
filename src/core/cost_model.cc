#include "core/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace weir::core {

namespace {

constexpr int64_t kMinBytes = 512;
constexpr int64_t kOne = 65536;  // a factor of 1
constexpr int64_t kMinFactor = kOne / 4;
constexpr int64_t kMaxFactor = kOne * 4;
constexpr double kStep = 0.02;  // a factor moves by at most this share in a window
constexpr const char* kDirectionNames[] = {"read", "write"};
constexpr const char* kAccessNames[] = {"random", "sequential"};

int64_t OctaveBytes(int octave) { return kMinBytes << octave; }

int64_t Saturate(__int128 cost) {
  return static_cast<int64_t>(std::clamp<__int128>(cost, 1, kMaxRequestCost));
}

// Device time of a request of `bytes`, in 1/scale ns. Requires: `points` checked, not empty.
__int128 ScaledTime(const std::vector<CurvePoint>& points, int64_t bytes, int64_t scale) {
  const CurvePoint& first = points.front();
  const CurvePoint& last = points.back();
  if (bytes <= first.bytes) return static_cast<__int128>(first.device_ns) * scale;
  if (bytes >= last.bytes)
    return static_cast<__int128>(last.device_ns) * scale * bytes / last.bytes;
  const auto above = std::upper_bound(points.begin(), points.end(), bytes,
                                      [](int64_t b, const CurvePoint& p) { return b < p.bytes; });
  const auto below = above - 1;
  const __int128 rise = static_cast<__int128>(above->device_ns - below->device_ns) * scale;
  return static_cast<__int128>(below->device_ns) * scale +
         rise * (bytes - below->bytes) / (above->bytes - below->bytes);
}

Result<void> CheckCurve(const std::vector<CurvePoint>& points, int direction, int access) {
  const auto fail = [&](const std::string& what) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cost curve of {} {}s: {}", kAccessNames[access],
                            kDirectionNames[direction], what));
  };
  if (points.size() > kMaxCurvePoints) {
    return fail(fmt::format("{} points; at most {} are allowed", points.size(), kMaxCurvePoints));
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const CurvePoint& point = points[i];
    if (point.bytes < 1 || point.bytes > kMaxRequestBytes) {
      return fail(fmt::format("size {} B of point {} must be within 1 .. {}", point.bytes, i + 1,
                              kMaxRequestBytes));
    }
    if (point.device_ns < 1 || point.device_ns > kMaxDeviceNs) {
      return fail(fmt::format("device time {} ns of {} B must be within 1 .. {}", point.device_ns,
                              point.bytes, kMaxDeviceNs));
    }
    if (i == 0) continue;
    if (point.bytes <= points[i - 1].bytes) {
      return fail(
          fmt::format("size {} B follows {} B; sizes must grow", point.bytes, points[i - 1].bytes));
    }
    if (point.device_ns < points[i - 1].device_ns) {
      return fail(fmt::format(
          "{} B takes {} ns, less than {} B with {} ns; a larger request must not be cheaper",
          point.bytes, point.device_ns, points[i - 1].bytes, points[i - 1].device_ns));
    }
  }
  return {};
}

}  // namespace

CostModel::CostModel() {
  for (auto& row : factor_q16_) row.fill(kOne);
  // 1 ns a byte.
  const std::vector<CurvePoint> points = {{kReferenceBytes / 2, kReferenceBytes / 2},
                                          {kReferenceBytes, kReferenceBytes}};
  for (auto& row : tables_) row.fill(MakeTable(points, kReferenceBytes * kOp));
  Rebuild();
}

Result<CostModel> CostModel::FromCurve(const CostCurve& curve) {
  for (int direction = 0; direction < 2; ++direction) {
    for (int access = 0; access < 2; ++access) {
      if (auto ok = CheckCurve(curve.points[direction][access], direction, access); !ok) {
        return tl::unexpected(ok.error());
      }
    }
  }
  const std::vector<CurvePoint>& reference = curve.points[0][0];
  if (reference.empty() || reference.front().bytes > kReferenceBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                "cost curve of random reads: the time of a 16 KiB read, to which all costs are "
                "relative, cannot be derived; give a point of at most 16384 B");
  }
  // In 1/65536 ns, rounded: a reference of a few ns would otherwise lose its fraction.
  const __int128 reference_time = ScaledTime(reference, kReferenceBytes, kOp);
  if (reference_time > static_cast<__int128>(kMaxDeviceNs) * kOp) {
    return Fail(ErrorCode::kInvalidArgument,
                "cost curve of random reads: a 16 KiB read would take more than an hour");
  }
  const int64_t reference_ns_q16 = static_cast<int64_t>(reference_time);
  CostModel model;
  for (int direction = 0; direction < 2; ++direction) {
    for (int access = 0; access < 2; ++access) {
      const std::vector<CurvePoint>* points = &curve.points[direction][access];
      if (points->empty()) points = &curve.points[direction][0];
      if (points->empty()) points = &curve.points[0][access];
      if (points->empty()) points = &reference;
      model.tables_[direction][access] = MakeTable(*points, reference_ns_q16);
    }
  }
  model.Rebuild();
  return model;
}

CostCurve CostModel::Monotone(CostCurve curve) {
  struct Pool {
    __int128 sum;
    int64_t count;
  };
  for (auto& by_access : curve.points) {
    for (auto& points : by_access) {
      std::stable_sort(points.begin(), points.end(),
                       [](const CurvePoint& a, const CurvePoint& b) { return a.bytes < b.bytes; });
      // Each point opens a pool; a pool that is not above the one before it joins it.
      std::vector<Pool> pools;
      for (const CurvePoint& point : points) {
        pools.push_back({point.device_ns, 1});
        while (pools.size() > 1) {
          const Pool last = pools.back();
          Pool& before = pools[pools.size() - 2];
          if (before.sum * last.count < last.sum * before.count) break;
          before.sum += last.sum;
          before.count += last.count;
          pools.pop_back();
        }
      }
      size_t next = 0;
      for (const Pool& pool : pools) {
        for (int64_t i = 0; i < pool.count; ++i) {
          points[next++].device_ns = static_cast<int64_t>(pool.sum / pool.count);
        }
      }
    }
  }
  return curve;
}

// Segments start at every power of two from 512 B and at every point of the curve. With
// times and reference in 1/65536 ns, the quotient times 65536 is the cost.
CostModel::Table CostModel::MakeTable(const std::vector<CurvePoint>& points,
                                      int64_t reference_ns_q16) {
  std::vector<int64_t> sizes;
  for (int octave = 0; octave < kCostOctaves; ++octave) sizes.push_back(OctaveBytes(octave));
  for (const CurvePoint& point : points) {
    if (point.bytes > kMinBytes && point.bytes < kMaxRequestBytes) sizes.push_back(point.bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  Table table;
  for (const int64_t bytes : sizes) {
    if (std::has_single_bit(static_cast<uint64_t>(bytes))) {
      table.first[ClassOf(bytes)] = static_cast<uint16_t>(table.segments.size());
    }
    const __int128 time = ScaledTime(points, bytes, kOp) * kOp;
    table.segments.push_back(
        {bytes, 0, 0, Saturate((time + reference_ns_q16 / 2) / reference_ns_q16)});
  }
  return table;
}

const CostModel::Table& CostModel::TableOf(Direction direction, Access access) const {
  return tables_[static_cast<int>(direction)][static_cast<int>(access)];
}

int CostModel::ClassOf(int64_t bytes) {
  const uint64_t clamped = static_cast<uint64_t>(std::clamp(bytes, kMinBytes, kMaxRequestBytes));
  return std::bit_width(clamped) - std::bit_width(static_cast<uint64_t>(kMinBytes));
}

int64_t CostModel::Cost(Direction direction, Access access, int64_t bytes) const {
  const int64_t size = std::clamp(bytes, kMinBytes, kMaxRequestBytes);
  const Table& table = TableOf(direction, access);
  const Segment* segment = &table.segments[table.first[ClassOf(size)]];
  const Segment* last = &table.segments.back();
  while (segment != last && segment[1].bytes <= size) ++segment;
  return segment->cost + (((size - segment->bytes) * segment->slope_q16) >> 16);
}

void CostModel::Window::Add(Direction direction, int64_t bytes, int64_t charged_cost) {
  const int octave = ClassOf(bytes);
  ++requests[static_cast<int>(direction)][octave];
  cost[static_cast<int>(direction)][octave] += charged_cost;
}

void CostModel::Observe(const Window& window) {
  CostCorrection::Sample sample;
  sample.elapsed_s = static_cast<double>(window.elapsed_ns) / 1e9;
  for (int direction = 0; direction < 2; ++direction) {
    for (int octave = 0; octave < kCostOctaves; ++octave) {
      sample.requests += static_cast<double>(window.requests[direction][octave]);
      sample.base_cost[direction][octave] = static_cast<double>(window.cost[direction][octave]) *
                                            kOne /
                                            static_cast<double>(factor_q16_[direction][octave]);
    }
  }
  correction_.Observe(sample);
  MoveFactors();
  KeepFactorsMonotone();
  Rebuild();
}

void CostModel::MoveFactors() {
  for (int direction = 0; direction < 2; ++direction) {
    for (int octave = 0; octave < kCostOctaves; ++octave) {
      int64_t& factor = factor_q16_[direction][octave];
      const double wanted = kOne * std::exp(correction_.LogFactor(direction, octave));
      const double now = static_cast<double>(factor);
      factor = std::clamp(std::llround(std::clamp(wanted, now / (1 + kStep), now * (1 + kStep))),
                          static_cast<long long>(kMinFactor), static_cast<long long>(kMaxFactor));
    }
  }
}

// base(octave) / base(octave + 1) <= 1: the larger one of random and sequential.
double CostModel::BaseRatio(int direction, int octave) const {
  double largest = 0;
  for (const Table& table : tables_[direction]) {
    largest =
        std::max(largest, static_cast<double>(table.segments[table.first[octave]].base) /
                              static_cast<double>(table.segments[table.first[octave + 1]].base));
  }
  return largest;
}

// base * factor must not fall from one octave to the next. A larger request's factor is raised to
// what the smaller one's needs, except for reads below the anchor, which may not exceed it: theirs
// are lowered. Bounds and step hold afterwards since they held for the factor that is followed.
void CostModel::KeepFactorsMonotone() {
  for (int direction = 0; direction < 2; ++direction) {
    auto& factors = factor_q16_[direction];
    const int from = direction == 0 ? CostCorrection::kAnchorOctave : 0;
    for (int octave = from; octave + 1 < kCostOctaves; ++octave) {
      const double least = static_cast<double>(factors[octave]) * BaseRatio(direction, octave);
      factors[octave + 1] = std::max(factors[octave + 1], static_cast<int64_t>(std::ceil(least)));
    }
    for (int octave = from - 1; octave >= 0; --octave) {
      const double most = static_cast<double>(factors[octave + 1]) / BaseRatio(direction, octave);
      if (static_cast<double>(factors[octave]) > most) {
        factors[octave] = static_cast<int64_t>(most);
      }
    }
  }
}

// Between octaves linear in the size.
int64_t CostModel::FactorQ16(int direction, int64_t bytes) const {
  const int64_t size = std::clamp(bytes, kMinBytes, kMaxRequestBytes);
  const int octave = ClassOf(size);
  const int64_t low = factor_q16_[direction][octave];
  if (octave + 1 == kCostOctaves) return low;
  const int64_t high = factor_q16_[direction][octave + 1];
  return low + (high - low) * (size - OctaveBytes(octave)) / OctaveBytes(octave);
}

double CostModel::Factor(Direction direction, int64_t bytes) const {
  return static_cast<double>(FactorQ16(static_cast<int>(direction), bytes)) / kOne;
}

// Applies the factors. Within an octave costs stay between those of its ends, and the running
// maximum takes what would still let them fall: a flat curve whose factors fall, or rounding.
void CostModel::Rebuild() {
  for (int direction = 0; direction < 2; ++direction) {
    for (Table& table : tables_[direction]) {
      std::vector<Segment>& segments = table.segments;
      const auto corrected = [&](const Segment& segment) {
        return Saturate(static_cast<__int128>(segment.base) * FactorQ16(direction, segment.bytes) /
                        kOne);
      };
      int64_t largest = 1;
      for (Segment& segment : segments) {
        const int octave = ClassOf(segment.bytes);
        const int64_t most = octave + 1 < kCostOctaves
                                 ? corrected(segments[table.first[octave + 1]])
                                 : kMaxRequestCost;
        largest = std::max(largest, std::min(corrected(segment), most));
        segment.cost = largest;
      }
      for (size_t i = 0; i + 1 < segments.size(); ++i) {
        segments[i].slope_q16 = ((segments[i + 1].cost - segments[i].cost) << 16) /
                                (segments[i + 1].bytes - segments[i].bytes);
      }
    }
  }
}

}  // namespace weir::core
