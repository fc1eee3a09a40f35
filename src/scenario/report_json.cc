// A run as JSON and as CSV, for programs.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenario/report.h"
#include "scenario/report_aggregate.h"
#include "scenario/report_format.h"

namespace weir::scenario {
namespace {

using Json = nlohmann::ordered_json;

template <typename Histogram>
Json HistogramJson(const Histogram& histogram) {
  return {{"count", histogram.count()},
          {"mean_ns", histogram.mean().count()},
          {"p50_ns", histogram.Quantile(0.5).count()},
          {"p95_ns", histogram.Quantile(0.95).count()},
          {"p99_ns", histogram.Quantile(0.99).count()},
          {"p999_ns", histogram.Quantile(0.999).count()},
          {"max_ns", histogram.max().count()}};
}

double Rate(Dimension dimension, int64_t units_per_s) {
  const auto value = static_cast<double>(units_per_s);
  return dimension == Dimension::kBytes ? value : value / static_cast<double>(kOp);
}

Json ParamsJson(const ResourceParams& params) {
  constexpr const char* kNames[] = {"norm_iops", "raw_iops", "bytes_per_s"};
  constexpr const char* kSuffixes[] = {"_read", "_write", ""};
  Json min = Json::object();
  Json max = Json::object();
  for (int d = 0; d < kDimensions; ++d) {
    const auto dimension = static_cast<Dimension>(d);
    if (params.min[d] > 0) min[kNames[d]] = Rate(dimension, params.min[d]);
    for (int s = 0; s < kScopes; ++s) {
      if (params.max[d][s] == kUnlimited) continue;
      max[std::string(kNames[d]) + kSuffixes[s]] = Rate(dimension, params.max[d][s]);
    }
  }
  return {{"min", min}, {"max", max}, {"weight", params.weight}};
}

Json SampleJson(const GroupInfo& info, const GroupSample& sample) {
  Json json = {{"group", info.path},
               {"norm_iops", sample.norm_iops},
               {"raw_iops", sample.raw_iops},
               {"bytes_per_s", sample.bytes_per_s},
               {"read_share", sample.read_share},
               {"by_reservation", sample.by_reservation},
               {"by_weight", sample.by_weight},
               {"by_leftover", sample.by_leftover},
               {"blocked_share", sample.blocked_share},
               {"blocked_by", sample.blocked_by},
               {"queued", sample.queued},
               {"timeouts", sample.timeouts},
               {"wait", HistogramJson(sample.wait)}};
  if (info.leaf) json["latency"] = HistogramJson(sample.latency);
  return json;
}

Json IntervalJson(const RunResult& result, const Interval& interval) {
  Json groups = Json::array();
  for (size_t i = 0; i < std::min(interval.groups.size(), result.groups.size()); ++i) {
    groups.push_back(SampleJson(result.groups[i], interval.groups[i]));
  }
  return {{"start_s", interval.start_s},
          {"length_s", interval.length_s},
          {"depth", interval.depth},
          {"notes", interval.notes},
          {"groups", groups}};
}

Json TotalJson(const RunResult& result, int group) {
  const Intervals all(result.intervals);
  const Aggregate mean = AggregateOf(result, group, all);
  return {{"group", group < 0 ? "" : result.groups[static_cast<size_t>(group)].path},
          {"norm_iops", mean.norm_iops},
          {"raw_iops", mean.raw_iops},
          {"bytes_per_s", mean.bytes_per_s},
          {"by_reservation", mean.by_reservation},
          {"by_weight", mean.by_weight},
          {"by_leftover", mean.by_leftover},
          {"blocked_share", mean.blocked_share},
          {"blocked_by", mean.blocked_by},
          {"timeouts", mean.timeouts},
          {"wait", HistogramJson(WaitOf(result, group, all))},
          {"latency", HistogramJson(LatencyOf(result, group, all))}};
}

// RFC 4180.
std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

std::string ToJson(const RunResult& result, const std::vector<Verdict>& verdicts) {
  Json json = {{"title", result.title},       {"where", result.where},
               {"isolated", result.isolated}, {"capacity_norm_iops", result.capacity},
               {"errors", result.errors},     {"throttle_timeouts", result.throttle_timeouts},
               {"warnings", result.warnings}, {"verdicts", Json::array()},
               {"groups", Json::array()},     {"totals", Json::array()},
               {"intervals", Json::array()}};
  for (const Verdict& verdict : verdicts) {
    json["verdicts"].push_back(
        {{"held", verdict.held}, {"promise", verdict.promise}, {"measured", verdict.measured}});
  }
  json["totals"].push_back(TotalJson(result, kDeviceGroup));
  for (size_t i = 0; i < result.groups.size(); ++i) {
    const GroupInfo& info = result.groups[i];
    Json group = {{"path", info.path}, {"parent", info.parent}, {"leaf", info.leaf}};
    group.update(ParamsJson(info.params));
    json["groups"].push_back(group);
    json["totals"].push_back(TotalJson(result, static_cast<int>(i)));
  }
  for (const Interval& interval : result.intervals) {
    json["intervals"].push_back(IntervalJson(result, interval));
  }
  // A name that is not UTF-8 must not throw: such bytes are replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ToCsv(const RunResult& result) {
  std::string csv =
      "start_s,length_s,group,norm_iops,raw_iops,bytes_per_s,read_share,by_reservation,by_weight,"
      "by_leftover,blocked_share,blocked_by,queued,timeouts,wait_p50_ns,wait_p99_ns,"
      "latency_p50_ns,latency_p99_ns,notes\r\n";
  for (const Interval& interval : result.intervals) {
    std::string notes;
    for (const std::string& note : interval.notes) notes += (notes.empty() ? "" : "; ") + note;
    for (size_t i = 0; i < std::min(interval.groups.size(), result.groups.size()); ++i) {
      const GroupSample& sample = interval.groups[i];
      const FineHistogram latency = LatencyOf(result, static_cast<int>(i), Intervals(&interval, 1));
      csv += fmt::format(
          "{:.6g},{:.6g},{},{:.3f},{:.3f},{:.0f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},",
          interval.start_s, interval.length_s, CsvField(result.groups[i].path), sample.norm_iops,
          sample.raw_iops, sample.bytes_per_s, sample.read_share, sample.by_reservation,
          sample.by_weight, sample.by_leftover, sample.blocked_share);
      csv += fmt::format("{},{},{},{},{},{},{},{}\r\n", CsvField(sample.blocked_by), sample.queued,
                         sample.timeouts, sample.wait.Quantile(0.5).count(),
                         sample.wait.Quantile(0.99).count(), latency.Quantile(0.5).count(),
                         latency.Quantile(0.99).count(), CsvField(notes));
    }
  }
  return csv;
}

}  // namespace weir::scenario
