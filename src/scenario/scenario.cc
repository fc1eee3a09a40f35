#include "scenario/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>

#include "base/text.h"
#include "base/units.h"
#include "catalog/config_tables.h"
#include "catalog/table_reader.h"
#include "catalog/toml_value.h"

namespace weir::scenario {
namespace {

using catalog::Problems;
using catalog::TableReader;
using catalog::TomlValue;

constexpr Duration kTick{1};  // the shortest duration that is one

// What the tables are checked against once devices, units and plans are known.
struct Tree {
  std::map<std::string, bool, std::less<>> leaf_by_path;

  [[nodiscard]] std::vector<std::string> Paths(bool leaves_only) const {
    std::vector<std::string> paths;
    for (const auto& [path, leaf] : leaf_by_path) {
      if (leaf || !leaves_only) paths.push_back(path);
    }
    return paths;
  }
};

// "; did you mean "a/b"?" or "; one of: a, b".
std::string Hint(std::string_view path, const std::vector<std::string>& paths) {
  const std::string match = ClosestMatch(path, paths);
  if (!match.empty()) return fmt::format("; did you mean {}?", Quote(match));
  return paths.empty() ? "; there is no [[unit]], add one"
                       : fmt::format("; write one of: {}", JoinNames(paths));
}

// Leaves below an inner node, to name them.
std::vector<std::string> LeavesBelow(const Tree& tree, const std::string& path) {
  std::vector<std::string> leaves;
  for (const std::string& leaf : tree.Paths(true)) {
    if (leaf.starts_with(path + "/")) leaves.push_back(leaf);
  }
  return leaves;
}

void CheckLeaf(TableReader* reader, std::string_view key, const std::string& path,
               const Tree& tree) {
  if (!reader->ok()) return;
  const auto it = tree.leaf_by_path.find(path);
  if (it == tree.leaf_by_path.end()) {
    reader->Reject(key, "there is no such unit or group" + Hint(path, tree.Paths(true)));
  } else if (!it->second) {
    reader->Reject(key, fmt::format("it has groups below it; write one of: {}",
                                    JoinNames(LeavesBelow(tree, path))));
  }
}

void CheckNode(TableReader* reader, std::string_view key, const std::string& path,
               const Tree& tree) {
  if (!reader->ok()) return;
  if (tree.leaf_by_path.contains(path)) return;
  reader->Reject(key, "there is no such unit or group" + Hint(path, tree.Paths(false)));
}

void CheckSize(TableReader* reader, std::string_view key, int64_t bytes) {
  if (bytes >= kMinRequestBytes && bytes <= kMaxRequestBytes && bytes % kMinRequestBytes == 0) {
    return;
  }
  reader->Reject(key, fmt::format("a request is a multiple of {} bytes, at most {}",
                                  kMinRequestBytes, FormatBytes(kMaxRequestBytes)));
}

std::vector<SizeShare> ReadSizes(TableReader* reader) {
  if (reader->Has("size") && reader->Has("sizes")) {
    reader->Reject("sizes", "size is there too; write one of them");
  }
  const int64_t size = reader->Parsed("size", ParseBytes, SizeShare{}.bytes);
  if (reader->Has("size")) CheckSize(reader, "size", size);
  std::vector<SizeShare> sizes;
  double sum = 0;
  for (TableReader& table : reader->Tables("sizes", kMaxSizes)) {
    SizeShare share;
    share.bytes = table.Parsed("size", ParseBytes, share.bytes);
    if (table.Has("size")) CheckSize(&table, "size", share.bytes);
    share.share = table.Number("share", 0, 1, 1);
    table.Require("size", "write for example size = \"4KiB\"");
    table.Require("share", "write its part of the requests, for example share = 0.7");
    table.Finish();
    sum += share.share;
    sizes.push_back(share);
  }
  if (!reader->Has("sizes")) return {SizeShare{size, 1}};
  if (sum < 0.999 || sum > 1.001) {
    reader->Reject("sizes", fmt::format("the shares add up to {:.4g}; they must add up to 1", sum));
  }
  return sizes;
}

// Requests a second: a number or a text as of an IOPS rate.
double ReadArrivalRate(TableReader* reader) {
  const int64_t rate = reader->Parsed("rate", ParseOpsRate, 0);
  const auto per_second = static_cast<double>(rate) / kOp;
  if (reader->Has("rate") && (rate == 0 || per_second > kMaxArrivalRate)) {
    reader->Reject("rate", fmt::format("it must be above 0 and at most {:.0f} requests a second; "
                                       "leave it out for a closed loop",
                                       kMaxArrivalRate));
  }
  return per_second;
}

void CheckLoadTimes(TableReader* reader, const Load& load, Duration duration) {
  if (load.start >= duration) {
    reader->Reject(
        "start", fmt::format("it is not before the end of the run ({})", FormatDuration(duration)));
  }
  if (load.stop.count() != 0 && load.stop <= load.start) {
    reader->Reject("stop", fmt::format("it is not after start ({})", FormatDuration(load.start)));
  }
  if (reader->Has("burst_on") != reader->Has("burst_off")) {
    reader->Reject(reader->Has("burst_on") ? "burst_on" : "burst_off",
                   "burst_on and burst_off go together; write both");
  }
  if (load.think_random && load.think.count() == 0) {
    reader->Reject("think_random", "there is no think time; write for example think = \"1ms\"");
  }
  if (load.rate > 0 && load.think.count() > 0) {
    reader->Reject("think", "with a rate requests do not wait for earlier ones; remove one");
  }
}

Load ReadLoad(TableReader* reader, const Tree& tree, Duration duration) {
  Load load;
  load.line = reader->line();
  load.name = reader->Name("name");
  load.group = reader->Text("group");
  reader->Require("group", "say which unit or group it runs in");
  if (reader->Has("group")) CheckLeaf(reader, "group", load.group, tree);
  load.threads = static_cast<int>(reader->Integer("threads", 1, kMaxOutstanding, load.threads));
  load.depth = static_cast<int>(reader->Integer("depth", 1, kMaxOutstanding, load.depth));
  if (int64_t{load.threads} * load.depth > kMaxOutstanding) {
    reader->Reject("depth", fmt::format("threads * depth is {}, more than the maximum of {}",
                                        int64_t{load.threads} * load.depth, kMaxOutstanding));
  }
  load.sizes = ReadSizes(reader);
  load.read_share = reader->Number("read_share", 0, 1, load.read_share);
  load.sequential = reader->Word("pattern", {"random", "sequential"}, "random") == "sequential";
  load.think = reader->Time("think", Duration(0), kMaxRunTime, load.think);
  load.think_random = reader->Flag("think_random", false);
  load.rate = ReadArrivalRate(reader);
  load.start = reader->Time("start", Duration(0), kMaxRunTime, load.start);
  load.stop = reader->Time("stop", kTick, duration, load.stop);
  load.burst_on = reader->Time("burst_on", kMinBurst, kMaxRunTime, load.burst_on);
  load.burst_off = reader->Time("burst_off", kMinBurst, kMaxRunTime, load.burst_off);
  load.deadline = reader->Time("deadline", kTick, kMaxRunTime, load.deadline);
  reader->Finish();
  CheckLoadTimes(reader, load, duration);
  return load;
}

Change ReadChange(TableReader* reader, Duration duration) {
  Change change;
  change.line = reader->line();
  change.at = reader->Time("at", Duration(0), kMaxRunTime, change.at);
  change.target = reader->Text("target");
  for (TableReader& set : reader->Table("set")) {
    for (const TomlValue& value : set.TakeAll()) {
      const Result<std::string> text = catalog::ScalarText(value);
      if (text) {
        change.set.emplace_back(value.key, *text);
      } else {
        reader->Reject("set", fmt::format("{} = {}: {}", value.key, catalog::ShowValue(value),
                                          text.error().message));
      }
    }
    if (change.set.empty()) {
      reader->Reject("set", "it sets nothing; write for example set = { max_iops = 5000 }");
    }
  }
  reader->Require("at", "say when, for example at = \"10s\"");
  reader->Require("target", "say which unit, or unit/group");
  reader->Require("set", "write for example set = { max_iops = 5000 }");
  reader->Finish();
  if (change.at >= duration) {
    reader->Reject(
        "at", fmt::format("it is not before the end of the run ({})", FormatDuration(duration)));
  }
  return change;
}

// Changes must be valid in the order in which they will be made.
void CheckChanges(const catalog::Config& config, const std::vector<Change>& changes,
                  Problems* problems) {
  catalog::Config changed = config;
  for (const Change& change : changes) {
    if (!problems->ok()) return;
    const Result<void> done = catalog::ApplyChanges(&changed, change.target, change.set);
    if (!done) {
      problems->Add(change.line,
                    fmt::format("at {}: {}", FormatDuration(change.at), done.error().message));
    }
  }
}

const std::vector<std::string>& MetricNames() {  // in the order of Expect::Metric
  static const std::vector<std::string> names = {"norm_iops", "raw_iops",    "bandwidth",  "ratio",
                                                 "wait_p99",  "latency_p99", "utilisation"};
  return names;
}

// A bound in the metric's unit: a number, or a text with a unit where the metric has one.
double ReadBound(TableReader* reader, std::string_view key, Expect::Metric metric) {
  const TomlValue* value = reader->Take(key);
  if (value == nullptr || value->kind != TomlValue::Kind::kString) {
    return reader->Number(key, 0, 1e18, 0);
  }
  switch (metric) {
    case Expect::Metric::kNormIops:
    case Expect::Metric::kRawIops:
      return static_cast<double>(reader->Parsed(key, ParseOpsRate, 0)) / kOp;
    case Expect::Metric::kBandwidth:
      return static_cast<double>(reader->Parsed(key, ParseByteRate, 0));
    case Expect::Metric::kWaitP99:
    case Expect::Metric::kLatencyP99:
      return static_cast<double>(reader->Time(key, Duration(0), kMaxRunTime, Duration(0)).count());
    case Expect::Metric::kRatio:
    case Expect::Metric::kUtilisation:
      break;
  }
  return reader->Number(key, 0, 1e18, 0);  // which refuses a text
}

void CheckExpectedGroups(TableReader* reader, const Expect& expect, const Tree& tree) {
  const bool whole_device = !reader->Has("group");
  switch (expect.metric) {
    case Expect::Metric::kUtilisation:
      if (!whole_device) reader->Reject("group", "utilisation is the device's; remove it");
      break;
    case Expect::Metric::kRatio:
      reader->Require("group", "a ratio needs group and other");
      reader->Require("other", "a ratio needs group and other");
      break;
    default:
      break;
  }
  if (!whole_device) CheckNode(reader, "group", expect.group, tree);
  if (!reader->Has("other")) return;
  CheckNode(reader, "other", expect.other, tree);
  if (expect.metric != Expect::Metric::kRatio) {
    reader->Reject("other", "only a ratio has it; remove it");
  }
}

constexpr Duration kSecond = std::chrono::seconds(1);

Duration WholeSeconds(Duration time) { return time / kSecond * kSecond; }

// The smallest window of whole seconds around the one that was written.
std::string WiderWindow(const Expect& expect, Duration end, Duration duration) {
  Duration from = WholeSeconds(expect.from);
  if (expect.every_second) from = std::min(from, WholeSeconds(duration) - kSecond);
  if (from.count() < 0) return "the run has none, remove every_second";
  const Duration to = WholeSeconds(std::max(end, from + kSecond) + kSecond - Duration(1));
  const std::string rest = to < duration ? fmt::format(", to = \"{}s\"", to / kSecond) : "";
  return fmt::format("write for example from = \"{}s\"{}", from / kSecond, rest);
}

// What is measured are the seconds of the run, the last of which may be a shorter one; they belong
// to the window if their middle does.
void CheckSeconds(TableReader* reader, const Expect& expect, Duration end, Duration duration) {
  if (!reader->ok()) return;
  const std::string window =
      fmt::format("the window ({} to {})", FormatDuration(expect.from), FormatDuration(end));
  const std::string fix = WiderWindow(expect, end, duration);
  if (expect.every_second && WholeSeconds(expect.from + kSecond - Duration(1)) + kSecond > end) {
    reader->Reject("every_second", fmt::format("{} holds no whole second; {}", window, fix));
    return;
  }
  for (Duration start = WholeSeconds(expect.from); start < end; start += kSecond) {
    const Duration middle = start + (std::min(start + kSecond, duration) - start) / 2;
    if (middle >= expect.from && middle < end) return;
  }
  reader->Reject(reader->Has("from") ? "from" : "to",
                 fmt::format("{} is shorter than a second, and the run is measured by the second; "
                             "{}",
                             window, fix));
}

void CheckWindow(TableReader* reader, const Expect& expect, Duration duration) {
  const Duration end = expect.to.count() == 0 ? duration : expect.to;
  if (expect.from >= end) {
    reader->Reject("from",
                   fmt::format("it is not before the end of the window ({})", FormatDuration(end)));
  } else {
    CheckSeconds(reader, expect, end, duration);
  }
  if (!expect.has_min && !expect.has_max) {
    reader->RejectTable("min or max is missing; write what is expected");
  } else if (expect.has_min && expect.has_max && expect.min > expect.max) {
    reader->Reject("min", fmt::format("it is above max ({})", expect.max));
  }
}

Expect ReadExpect(TableReader* reader, const Tree& tree, Duration duration) {
  Expect expect;
  expect.line = reader->line();
  const std::string metric = reader->Word("metric", MetricNames(), MetricNames().front());
  const auto it = std::find(MetricNames().begin(), MetricNames().end(), metric);
  expect.metric = static_cast<Expect::Metric>(it - MetricNames().begin());
  reader->Require("metric", "write one of: " + JoinNames(MetricNames()));
  expect.group = reader->Text("group");
  expect.other = reader->Text("other");
  CheckExpectedGroups(reader, expect, tree);
  expect.from = reader->Time("from", Duration(0), duration, expect.from);
  expect.to = reader->Time("to", kTick, duration, expect.to);
  expect.every_second = reader->Flag("every_second", false);
  expect.has_min = reader->Has("min");
  expect.has_max = reader->Has("max");
  expect.min = ReadBound(reader, "min", expect.metric);
  expect.max = ReadBound(reader, "max", expect.metric);
  expect.text = reader->Text("text");
  reader->Finish();
  CheckWindow(reader, expect, duration);
  return expect;
}

// every and for go together, and for is the shorter.
void CheckPhase(TableReader* reader, std::string_view every_key, Duration every,
                std::string_view for_key, Duration length) {
  if (reader->Has(every_key) != reader->Has(for_key)) {
    reader->Reject(reader->Has(every_key) ? every_key : for_key,
                   fmt::format("{} and {} go together; write both", every_key, for_key));
  } else if (reader->Has(every_key) && length >= every) {
    reader->Reject(for_key, fmt::format("it must be shorter than {}", every_key));
  }
}

SimDevice ReadSimDevice(TableReader* reader) {
  SimDevice sim;
  sim.parallelism = static_cast<int>(reader->Integer("parallelism", 1, 4096, sim.parallelism));
  sim.reference_time =
      reader->Time("reference_time", kTick, std::chrono::seconds(10), sim.reference_time);
  sim.noise = reader->Number("noise", 0, 1, sim.noise);
  sim.stall_every = reader->Time("stall_every", kTick, kMaxRunTime, sim.stall_every);
  sim.stall_for = reader->Time("stall_for", kTick, kMaxRunTime, sim.stall_for);
  sim.slow_every = reader->Time("slow_every", kTick, kMaxRunTime, sim.slow_every);
  sim.slow_for = reader->Time("slow_for", kTick, kMaxRunTime, sim.slow_for);
  sim.slow_factor = reader->Number("slow_factor", 1, 1000, sim.slow_factor);
  sim.write_factor = reader->Number("write_factor", 0.01, 100, sim.write_factor);
  reader->Finish();
  const double capacity = sim.parallelism / ToSeconds(sim.reference_time);
  if (capacity > kMaxSimCapacity) {
    reader->Reject(reader->Has("reference_time") ? "reference_time" : "parallelism",
                   fmt::format("parallelism / reference_time is {:.3g} IOPS, more than the maximum "
                               "of {:.0f}; make the requests longer or fewer at a time",
                               capacity, kMaxSimCapacity));
  }
  CheckPhase(reader, "stall_every", sim.stall_every, "stall_for", sim.stall_for);
  CheckPhase(reader, "slow_every", sim.slow_every, "slow_for", sim.slow_for);
  if (reader->Has("slow_every") && !reader->Has("slow_factor")) {
    reader->Reject("slow_every", "slow_factor is missing; say how much slower");
  }
  return sim;
}

void ReadBench(TableReader* reader, Scenario* scenario) {
  scenario->file = reader->Text("file");
  scenario->file_size = reader->Parsed("file_size", ParseBytes, 0);
  if (reader->Has("file_size") && scenario->file_size < kMinFileSize) {
    reader->Reject("file_size", fmt::format("it must be at least {}", FormatBytes(kMinFileSize)));
  }
  reader->Finish();
}

void CheckLoads(TableReader* root, const std::vector<Load>& loads, Problems* problems) {
  if (loads.empty()) root->RejectTable("there is nothing to run; add a [[load]]");
  std::map<std::string_view, int> lines;
  int64_t outstanding = 0;
  for (const Load& load : loads) {
    const auto [it, added] = lines.emplace(load.name, load.line);
    if (!added) {
      problems->Add(load.line,
                    fmt::format("load {} is already there, in line {}; choose another name",
                                Quote(load.name), it->second));
    }
    outstanding += int64_t{load.threads} * load.depth;
    if (outstanding > kMaxTotalOutstanding) {
      problems->Add(load.line,
                    fmt::format("load {}: threads * depth of all loads so far is {}, more than the "
                                "maximum of {}",
                                Quote(load.name), outstanding, kMaxTotalOutstanding),
                    ErrorCode::kResourceExhausted);
    }
  }
}

Tree BuildTree(const catalog::Config& config, Problems* problems) {
  Tree tree;
  const auto nodes = catalog::Resolve(config, "", 0, nullptr);
  if (!nodes) {
    problems->Add(0, nodes.error().message);
    return tree;
  }
  for (const catalog::TreeNode& node : *nodes) tree.leaf_by_path.emplace(node.path, node.leaf);
  return tree;
}

void ReadConfigPart(TableReader* root, const std::string& file, Scenario* scenario,
                    Problems* problems) {
  scenario->config.file = file;
  catalog::ReadConfigTables(root, &scenario->config, problems);
  if (scenario->config.devices.size() > 1) {
    problems->Add(scenario->config.devices[1].line,
                  "a scenario runs on one device; remove this [[device]]");
  }
  catalog::CheckWhole(&scenario->config, problems);
}

void ReadRunPart(TableReader* root, Scenario* scenario, Problems* problems) {
  const Tree tree = problems->ok() ? BuildTree(scenario->config, problems) : Tree{};
  const Duration duration = scenario->duration;
  for (TableReader& table : root->Tables("load", kMaxLoads)) {
    scenario->loads.push_back(ReadLoad(&table, tree, duration));
  }
  for (TableReader& table : root->Tables("change", kMaxChanges)) {
    scenario->changes.push_back(ReadChange(&table, duration));
  }
  for (TableReader& table : root->Tables("expect", kMaxExpects)) {
    scenario->expects.push_back(ReadExpect(&table, tree, duration));
  }
  for (TableReader& table : root->Table("bench")) ReadBench(&table, scenario);
  for (TableReader& table : root->Table("sim")) scenario->sim = ReadSimDevice(&table);
  root->Finish();
  CheckLoads(root, scenario->loads, problems);
  std::stable_sort(scenario->changes.begin(), scenario->changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  CheckChanges(scenario->config, scenario->changes, problems);
}

Result<Scenario> ParseOrThrow(std::string_view text, const std::string& file) {
  const Result<TomlValue> document = catalog::ParseToml(text, file);
  if (!document) return tl::unexpected(document.error());
  Problems problems(file);
  TableReader root(&problems, *document, "");
  Scenario scenario;
  scenario.title = root.Text("title");
  scenario.duration = root.Time("duration", kMinRunTime, kMaxRunTime, scenario.duration);
  scenario.seed = static_cast<uint64_t>(root.Integer("seed", 0, INT64_MAX, 1));
  ReadConfigPart(&root, file, &scenario, &problems);
  ReadRunPart(&root, &scenario, &problems);
  if (!problems.ok()) return tl::unexpected(problems.ToError());
  return scenario;
}

}  // namespace

Result<Scenario> ParseScenario(std::string_view text, const std::string& file_name) {
  try {
    return ParseOrThrow(text, file_name);
  } catch (const std::exception& e) {  // out of memory
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: cannot be read: {}", file_name, e.what()));
  }
}

}  // namespace weir::scenario
