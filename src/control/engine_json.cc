#include "control/engine_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/group_token.h"
#include "catalog/config_keys.h"
#include "scenario/sample.h"

namespace weir::control {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double PerSecond(Dimension dimension, int64_t rate) {
  const auto value = static_cast<double>(rate);
  return dimension == Dimension::kBytes ? value : value / static_cast<double>(kOp);
}

// What is set, under the keys of weir.toml: operations or bytes per second.
Json ParamsJson(const ResourceParams& params, bool is_unit) {
  Json json = Json::object();
  for (const Dimension d : {Dimension::kNorm, Dimension::kRaw, Dimension::kBytes}) {
    if (params.MinOf(d) != 0) json[catalog::MinKey(d)] = PerSecond(d, params.MinOf(d));
    for (const Scope s : {Scope::kBoth, Scope::kRead, Scope::kWrite}) {
      if (params.MaxOf(d, s) != kUnlimited) {
        json[catalog::MaxKey(d, s)] = PerSecond(d, params.MaxOf(d, s));
      }
    }
  }
  // Groups keep weights in hundredths of a percent.
  if (is_unit) {
    json["weight"] = params.weight;
  } else {
    json["weight"] = static_cast<double>(params.weight) / 100;
  }
  return json;
}

// In hexadecimal, since JSON numbers are not exact.
std::string TokenText(std::string_view path) { return fmt::format("{:016x}", GroupToken(path)); }

Json TextsJson(const std::vector<std::string>& texts) {
  Json json = Json::array();
  for (const std::string& text : texts) json.push_back(text);
  return json;
}

double Micros(Duration d) { return static_cast<double>(d.count()) / 1000; }

Json MatchJson(const catalog::Match& match, const char* source) {
  Json json = {
      {"source", source}, {"match", catalog::DescribeMatch(match)}, {"group", match.group}};
  if (!match.cgroup.empty()) json["cgroup"] = match.cgroup;
  if (match.uid >= 0) json["uid"] = match.uid;
  if (!match.user.empty()) json["user"] = match.user;
  if (!match.comm.empty()) json["comm"] = match.comm;
  if (match.pid >= 0) json["pid"] = match.pid;
  if (!match.path.empty()) json["path"] = match.path;
  if (match.line > 0) json["line"] = match.line;
  return json;
}

// The limit that held the node back for longest between the two.
struct Blocked {
  std::string key;  // of weir.toml; empty: none
  int64_t ns = 0;
};
Blocked LongestBlocked(const core::GroupStats& before, const core::GroupStats& after) {
  Blocked longest;
  for (const Dimension d : {Dimension::kNorm, Dimension::kRaw, Dimension::kBytes}) {
    for (const Scope s : {Scope::kBoth, Scope::kRead, Scope::kWrite}) {
      const auto k = static_cast<size_t>(d);
      const auto l = static_cast<size_t>(s);
      const int64_t ns = after.blocked_ns[k][l] - before.blocked_ns[k][l];
      if (ns > longest.ns) longest = {catalog::MaxKey(d, s), ns};
    }
  }
  return longest;
}

Json BlockedJson(const core::GroupStats& before, const core::GroupStats& after) {
  Json json = Json::object();
  for (const Dimension d : {Dimension::kNorm, Dimension::kRaw, Dimension::kBytes}) {
    for (const Scope s : {Scope::kBoth, Scope::kRead, Scope::kWrite}) {
      const auto k = static_cast<size_t>(d);
      const auto l = static_cast<size_t>(s);
      const int64_t ns = after.blocked_ns[k][l] - before.blocked_ns[k][l];
      if (ns > 0) json[catalog::MaxKey(d, s)] = static_cast<double>(ns) / 1e9;
    }
  }
  return json;
}

Json TotalsJson(const core::GroupStats& stats) {
  const auto sum = [&](Dimension d) {
    const auto& served = stats.served[static_cast<size_t>(d)];
    return served[0] + served[1];
  };
  return {{"norm_ops", PerSecond(Dimension::kNorm, sum(Dimension::kNorm))},
          {"raw_ops", sum(Dimension::kRaw) / kOp},
          {"bytes", sum(Dimension::kBytes)},
          {"completed", stats.completed},
          {"cancelled", stats.cancelled},
          {"expired", stats.expired}};
}

Json GroupStatsJson(const Snapshot& before, const Snapshot& now, size_t i, double seconds) {
  const catalog::TreeNode& node = now.plan->nodes[i];
  const core::GroupStats& after = now.groups[i];
  const core::GroupStats earlier = StatsBefore(before, now, i);
  const scenario::GroupSample sample = scenario::SampleOf(earlier, after, seconds);
  const CoarseHistogram wait = after.wait.Since(earlier.wait);
  const CoarseHistogram service = after.service.Since(earlier.service);
  const auto raw = static_cast<size_t>(Dimension::kRaw);
  const auto bytes = static_cast<size_t>(Dimension::kBytes);
  const auto rate = [&](size_t dimension, size_t direction, double unit) {
    const int64_t units = after.served[dimension][direction] - earlier.served[dimension][direction];
    return static_cast<double>(units) / unit / seconds;
  };
  const Blocked blocked = LongestBlocked(earlier, after);
  Json json = {{"path", node.path},
               {"level", std::count(node.path.begin(), node.path.end(), '/')},
               {"leaf", node.leaf},
               {"norm_iops", sample.norm_iops},
               {"raw_iops", sample.raw_iops},
               {"read_iops", rate(raw, 0, static_cast<double>(kOp))},
               {"write_iops", rate(raw, 1, static_cast<double>(kOp))},
               {"bytes_per_s", sample.bytes_per_s},
               {"read_bytes_per_s", rate(bytes, 0, 1)},
               {"write_bytes_per_s", rate(bytes, 1, 1)},
               {"queued_reads", after.queued[0]},
               {"queued_writes", after.queued[1]},
               {"in_flight", after.in_flight},
               {"wait_p50_us", Micros(wait.Quantile(0.5))},
               {"wait_p99_us", Micros(wait.Quantile(0.99))},
               {"service_p50_us", Micros(service.Quantile(0.5))},
               {"service_p99_us", Micros(service.Quantile(0.99))},
               {"by_reservation", sample.by_reservation},
               {"by_weight", sample.by_weight},
               {"by_leftover", sample.by_leftover},
               {"blocked_now", after.blocked},
               {"blocked_by", blocked.key},
               {"blocked_share", std::min(1.0, static_cast<double>(blocked.ns) / (seconds * 1e9))},
               {"blocked_s", BlockedJson(earlier, after)},
               {"totals", TotalsJson(after)}};
  return json;
}

bool IsAtOrBelow(std::string_view path, std::string_view above) {
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

// What holds back leaf `i`: the limit on its path that held longest, else the device, else others.
Json ExplainLeaf(const Snapshot& before, const Snapshot& now, size_t i) {
  const core::GroupStats& stats = now.groups[i];
  Json json = {{"path", now.plan->nodes[i].path},
               {"queued_reads", stats.queued[0]},
               {"queued_writes", stats.queued[1]}};
  if (stats.queued[0] + stats.queued[1] == 0) {
    json["why"] = "nothing waits";
    return json;
  }
  int64_t longest = -1;
  for (int n = static_cast<int>(i); n >= 0; n = now.plan->nodes[static_cast<size_t>(n)].parent) {
    const auto node = static_cast<size_t>(n);
    if (!now.groups[node].blocked) continue;
    const Blocked blocked = LongestBlocked(StatsBefore(before, now, node), now.groups[node]);
    if (blocked.ns <= longest) continue;
    longest = blocked.ns;
    json["why"] = "limit";
    json["node"] = now.plan->nodes[node].path;
    json["limit"] = blocked.key;
  }
  if (longest >= 0) return json;
  json["why"] = now.engine.cost_in_flight >= now.engine.depth ? "device busy" : "behind siblings";
  return json;
}

}  // namespace

std::string ChangeJson(const PlanChange& change) {
  return Dump({{"version", change.version},
               {"changes", TextsJson(change.summary)},
               {"warnings", TextsJson(change.warnings)}});
}

std::string PlanJson(const Plan& plan) {
  size_t groups = 0;
  for (const catalog::TreeNode& node : plan.nodes) groups += node.leaf ? 1 : 0;
  return Dump({{"version", plan.version},
               {"file", plan.config.file},
               {"device", plan.device},
               {"strict", plan.config.strict},
               {"units", plan.config.units.size()},
               {"plans", plan.config.plans.size()},
               {"leaves", groups},
               {"matches", plan.config.matches.size()},
               {"attached", plan.attached().size()},
               {"warnings", TextsJson(plan.warnings)}});
}

std::string UnitsJson(const Plan& plan) {
  Json units = Json::array();
  for (const catalog::Unit& unit : plan.config.units) {
    Json json = {{"name", unit.name}};
    if (!unit.plan.empty()) json["plan"] = unit.plan;
    if (!unit.device.empty()) json["device"] = unit.device;
    json["params"] = ParamsJson(unit.params, true);
    units.push_back(std::move(json));
  }
  return Dump({{"version", plan.version}, {"units", std::move(units)}});
}

std::string GroupsJson(const Plan& plan) {
  Json groups = Json::array();
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const catalog::TreeNode& node = plan.nodes[i];
    Json json = {{"path", node.path},
                 {"level", std::count(node.path.begin(), node.path.end(), '/')},
                 {"leaf", node.leaf},
                 {"params", ParamsJson(node.params, node.parent < 0)}};
    if (node.leaf) json["token"] = TokenText(node.path);
    if (static_cast<int>(i) == plan.unmatched) json["unmatched"] = true;
    groups.push_back(std::move(json));
  }
  return Dump({{"version", plan.version}, {"groups", std::move(groups)}});
}

std::string MatchesJson(const Plan& plan) {
  Json matches = Json::array();
  for (const catalog::Match& match : plan.attached())
    matches.push_back(MatchJson(match, "attached"));
  for (const catalog::Match& match : plan.config.matches) {
    matches.push_back(MatchJson(match, "file"));
  }
  return Dump({{"version", plan.version},
               {"matches", std::move(matches)},
               {"unmatched", plan.nodes[static_cast<size_t>(plan.unmatched)].path}});
}

std::string StatsJson(const Snapshot& before, const Snapshot& now, const std::string& more) {
  const double seconds = std::max(1e-6, ToSeconds(now.at - before.at));
  constexpr auto kOneOp = static_cast<double>(kOp);
  Json engine = {{"in_flight", now.engine.in_flight},
                 {"norm_in_flight", static_cast<double>(now.engine.cost_in_flight) / kOneOp},
                 {"depth", static_cast<double>(now.engine.depth) / kOneOp},
                 {"headroom", static_cast<double>(now.engine.headroom) / kOneOp},
                 {"submitted", now.engine.submitted},
                 {"completed", now.engine.completed},
                 {"io_errors", now.engine.io_errors},
                 {"cancelled", now.engine.cancelled},
                 {"expired", now.engine.expired}};
  if (!more.empty()) {
    const Json extra = Json::parse("{" + more + "}", nullptr, false);
    if (extra.is_object()) engine.update(extra);
  }
  Json groups = Json::array();
  for (size_t i = 0; i < now.groups.size(); ++i) {
    groups.push_back(GroupStatsJson(before, now, i, seconds));
  }
  return Dump({{"sequence", now.sequence},
               {"version", now.plan->version},
               {"window_s", seconds},
               {"since_start", before.sequence == 0},
               {"engine", std::move(engine)},
               {"groups", std::move(groups)}});
}

std::string ExplainJson(const Snapshot& before, const Snapshot& now, const std::string& group) {
  Json leaves = Json::array();
  for (size_t i = 0; i < now.groups.size(); ++i) {
    const catalog::TreeNode& node = now.plan->nodes[i];
    const core::GroupStats& stats = now.groups[i];
    if (!node.leaf) continue;
    const bool waits = stats.queued[0] + stats.queued[1] != 0;
    if (group.empty() ? !waits : !IsAtOrBelow(node.path, group)) continue;
    leaves.push_back(ExplainLeaf(before, now, i));
  }
  constexpr auto kOneOp = static_cast<double>(kOp);
  return Dump({{"version", now.plan->version},
               {"norm_in_flight", static_cast<double>(now.engine.cost_in_flight) / kOneOp},
               {"depth", static_cast<double>(now.engine.depth) / kOneOp},
               {"groups", std::move(leaves)}});
}

}  // namespace weir::control
