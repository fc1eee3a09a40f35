#include "app/ctl_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/resource_params.h"
#include "base/text.h"
#include "base/units.h"

namespace weir::app {
namespace {

using Json = nlohmann::ordered_json;

struct Flag {
  std::string name;
  std::string key;  // empty: the weight
};
const std::vector<Flag>& Flags() {
  static const std::vector<Flag> flags = {{"min-iops", "min_iops"},
                                          {"max-iops", "max_iops"},
                                          {"max-read-iops", "max_read_iops"},
                                          {"max-write-iops", "max_write_iops"},
                                          {"min-raw-iops", "min_raw_iops"},
                                          {"max-raw-iops", "max_raw_iops"},
                                          {"max-read-raw-iops", "max_read_raw_iops"},
                                          {"max-write-raw-iops", "max_write_raw_iops"},
                                          {"min-bps", "min_bandwidth"},
                                          {"max-bps", "max_bandwidth"},
                                          {"max-read-bps", "max_read_bandwidth"},
                                          {"max-write-bps", "max_write_bandwidth"},
                                          {"weight", ""},
                                          {"burst", "burst"}};
  return flags;
}

std::string Text(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? Printable(it->get<std::string>(), 512) : "";
}
double Number(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? it->get<double>() : 0;
}
Json Array(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_array() ? *it : Json::array();
}

// The objects of an array.
Json Objects(const Json& json, const char* key) {
  Json objects = Json::array();
  for (const Json& item : Array(json, key)) {
    if (item.is_object()) objects.push_back(item);
  }
  return objects;
}

Json Parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

std::string RateText(std::string_view key, double value) {
  if (key == "weight") return fmt::format("{:g}", value);
  const bool bytes = key.ends_with("bandwidth");
  const double units = bytes ? value : value * static_cast<double>(kOp);
  const auto rate = static_cast<int64_t>(std::llround(std::clamp(units, 0.0, 1e18)));
  return bytes ? FormatByteRate(rate) : FormatOpsRate(rate);
}

std::string ParamsText(const Json& params) {
  std::string text;
  if (!params.is_object()) return text;
  for (const auto& [key, value] : params.items()) {
    if (!value.is_number()) continue;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : "  ", key, RateText(key, value.get<double>()));
  }
  return text;
}

// Rows of columns, each as wide as its widest cell.
std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string PlanText(const Json& plan) {
  std::string text =
      Table({{"plan", fmt::format("{}", Number(plan, "version"))},
             {"file", Text(plan, "file")},
             {"device", Text(plan, "device").empty() ? "-" : Text(plan, "device")},
             {"units", fmt::format("{}", Number(plan, "units"))},
             {"leaves", fmt::format("{}", Number(plan, "leaves"))},
             {"matches", fmt::format("{} of the file, {} attached", Number(plan, "matches"),
                                     Number(plan, "attached"))}});
  for (const Json& warning : Array(plan, "warnings")) {
    if (warning.is_string())
      text += "warning: " + Printable(warning.get<std::string>(), 512) + "\n";
  }
  return text;
}

std::string UnitsText(const Json& json) {
  std::vector<std::vector<std::string>> rows = {{"UNIT", "PLAN", "SETTINGS"}};
  for (const Json& unit : Objects(json, "units")) {
    const std::string plan = Text(unit, "plan");
    rows.push_back({Text(unit, "name"), plan.empty() ? "-" : plan,
                    ParamsText(unit.value("params", Json::object()))});
  }
  return Table(rows);
}

std::string GroupsText(const Json& json) {
  std::vector<std::vector<std::string>> rows = {{"GROUP", "SETTINGS"}};
  for (const Json& group : Objects(json, "groups")) {
    rows.push_back({Text(group, "path"), ParamsText(group.value("params", Json::object()))});
  }
  return Table(rows);
}

std::string MatchesText(const Json& json) {
  std::vector<std::vector<std::string>> rows = {{"", "MATCH", "GROUP", "FROM"}};
  int order = 0;
  for (const Json& match : Objects(json, "matches")) {
    const std::string from = Text(match, "source") == "attached"
                                 ? "attached"
                                 : fmt::format("line {}", Number(match, "line"));
    rows.push_back({std::to_string(++order), Text(match, "match"), Text(match, "group"), from});
  }
  rows.push_back({"", "what no match fits", Text(json, "unmatched"), "built in"});
  return Table(rows);
}

// "tp/batch" of "tp/batch/night": what its percentages are parts of.
std::string Above(std::string_view path) { return std::string(path.substr(0, path.rfind('/'))); }

// The node that is meant by "unit/group" at any depth.
const Json* FindGroup(const Json& groups, std::string_view target) {
  const std::string_view unit = target.substr(0, target.find('/'));
  const std::string_view last = target.substr(target.rfind('/') + 1);
  for (const Json& group : groups) {
    if (Text(group, "path") == target) return &group;
  }
  for (const Json& group : groups) {
    const std::string path = Text(group, "path");
    if (path.starts_with(std::string(unit) + "/") && path.ends_with("/" + std::string(last))) {
      return &group;
    }
  }
  return nullptr;
}

// The limit that holds at `path`: a MAX of 100 % is left to the node above.
double InForce(const Json& groups, std::string path, const std::string& key) {
  while (true) {
    const Json* group = FindGroup(groups, path);
    const Json params = group == nullptr ? Json::object() : group->value("params", Json::object());
    if (Number(params, key.c_str()) > 0 || key.starts_with("min_")) {
      return Number(params, key.c_str());
    }
    if (path.find('/') == std::string::npos) return 0;
    path = Above(path);
  }
}

bool IsAbsolute(std::string_view key, std::string_view value) {
  if (!key.starts_with("min_") && !key.starts_with("max_")) return false;
  return value.ends_with("/s");
}

}  // namespace

Result<std::pair<std::string, std::string>> ParseAssignment(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: write key=value, for example max_iops=40000", Quote(text)));
  }
  const auto trim = [](std::string_view part) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    return std::string(part);
  };
  return std::pair(trim(text.substr(0, equals)), trim(text.substr(equals + 1)));
}

std::string KeyOfFlag(std::string_view flag, bool is_unit) {
  for (const Flag& known : Flags()) {
    if (known.name != flag) continue;
    if (!known.key.empty()) return known.key;
    return is_unit ? "iops_weight" : "weight_iops";
  }
  return std::string(flag);
}

const std::vector<std::string>& SetFlags() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Flag& flag : Flags()) all.push_back(flag.name);
    return all;
  }();
  return names;
}

bool NeedsPercentages(std::string_view target, const KeysAndValues& values) {
  return target.find('/') != std::string_view::npos &&
         std::any_of(values.begin(), values.end(),
                     [](const auto& value) { return IsAbsolute(value.first, value.second); });
}

Result<KeysAndValues> ToPercentages(std::string_view target, KeysAndValues values,
                                    std::string_view json) {
  const Json groups = Objects(Parse(json), "groups");
  const Json* group = FindGroup(groups, target);
  if (group == nullptr) return values;  // the daemon says what there is
  const std::string above = Above(Text(*group, "path"));
  for (auto& [key, value] : values) {
    if (!IsAbsolute(key, value)) continue;
    const bool bytes = key.ends_with("bandwidth");
    const Result<int64_t> rate = bytes ? ParseByteRate(value) : ParseOpsRate(value);
    if (!rate) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{} = {}", key, rate.error().message));
    }
    const double wanted = static_cast<double>(*rate) / (bytes ? 1 : static_cast<double>(kOp));
    const double whole = InForce(groups, above, key);
    if (whole <= 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} = {} of {}: {} has no {} to take a part of; set it there first",
                              key, Quote(value), target, above, key));
    }
    const double percent = 100 * wanted / whole;
    if (percent > 100.00005) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} = {} of {}: {} has only {}; raise that first", key, Quote(value),
                              target, above, RateText(key, whole)));
    }
    value = fmt::format("{:.4f}", std::min(percent, 100.0));
  }
  return values;
}

std::string SetArgs(std::string_view target, const KeysAndValues& values, bool dry_run) {
  Json object = Json::object();
  for (const auto& [key, value] : values) object[key] = value;
  return Json{{"target", target}, {"values", object}, {"dry_run", dry_run}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

std::string ApplyArgs(std::string_view file, std::string_view text, bool dry_run) {
  return Json{{"file", file}, {"toml", text}, {"dry_run", dry_run}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

std::string TextArgs(const KeysAndValues& texts) {
  Json object = Json::object();
  for (const auto& [key, value] : texts) {
    if (value.empty()) continue;
    const bool number = key == "pid" || key == "uid";
    if (number) {
      object[key] = std::stoll(value);
    } else {
      object[key] = value;
    }
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ShowText(std::string_view what, std::string_view text) {
  const Json json = Parse(text);
  if (what == "units") return UnitsText(json);
  if (what == "groups") return GroupsText(json);
  if (what == "matches") return MatchesText(json);
  return PlanText(json);
}

std::string ChangeText(std::string_view text, bool dry_run) {
  const Json json = Parse(text);
  std::string shown;
  for (const Json& line : Array(json, "changes")) {
    if (line.is_string()) shown += Printable(line.get<std::string>(), 1024) + "\n";
  }
  for (const Json& line : Array(json, "warnings")) {
    if (line.is_string()) shown += "warning: " + Printable(line.get<std::string>(), 1024) + "\n";
  }
  if (Array(json, "changes").empty()) shown += "nothing changes\n";
  return shown + (dry_run ? "dry run: nothing was changed\n"
                          : fmt::format("plan {}\n", Number(json, "version")));
}

std::string ExplainText(std::string_view text) {
  const Json json = Parse(text);
  std::vector<std::vector<std::string>> rows = {{"GROUP", "READS", "WRITES", "WAITS FOR"}};
  for (const Json& group : Objects(json, "groups")) {
    std::string why = Text(group, "why");
    if (why == "limit") {
      const std::string limit = Text(group, "limit");
      why = fmt::format("{} of {}", limit.empty() ? "a limit" : limit, Text(group, "node"));
    } else if (why == "device busy") {
      why = "the device: its depth is used up";
    } else if (why == "behind siblings") {
      why = "siblings that are owed more";
    } else if (why == "nothing waits") {
      why = "-";
    }
    rows.push_back({Text(group, "path"), fmt::format("{}", Number(group, "queued_reads")),
                    fmt::format("{}", Number(group, "queued_writes")), why});
  }
  const std::string device = fmt::format("in flight {:.1f} of depth {:.1f}\n",
                                         Number(json, "norm_in_flight"), Number(json, "depth"));
  return rows.size() == 1 ? "nothing waits\n" + device : Table(rows) + device;
}

}  // namespace weir::app
