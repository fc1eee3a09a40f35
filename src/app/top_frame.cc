#include "app/top_frame.h"

#include <nlohmann/json.hpp>
#include <unordered_map>

namespace weir::app {
namespace {

using Json = nlohmann::json;

template <typename T>
T Get(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return T{};
  if constexpr (std::is_same_v<T, std::string>) {
    return it->is_string() ? it->get<std::string>() : T{};
  } else if constexpr (std::is_same_v<T, bool>) {
    return it->is_boolean() && it->get<bool>();
  } else {
    if (!it->is_number()) return T{};
    const double value = it->get<double>();
    return value < 0 || value > 1e18 ? T{} : static_cast<T>(value);
  }
}

TopRow RowOf(const Json& group) {
  TopRow row;
  row.path = Get<std::string>(group, "path");
  row.leaf = Get<bool>(group, "leaf");
  row.norm_iops = Get<double>(group, "norm_iops");
  row.raw_iops = Get<double>(group, "raw_iops");
  row.read_iops = Get<double>(group, "read_iops");
  row.write_iops = Get<double>(group, "write_iops");
  row.bytes_per_s = Get<double>(group, "bytes_per_s");
  row.queued = Get<uint64_t>(group, "queued_reads") + Get<uint64_t>(group, "queued_writes");
  row.in_flight = Get<uint64_t>(group, "in_flight");
  row.wait_p50_us = Get<double>(group, "wait_p50_us");
  row.wait_p99_us = Get<double>(group, "wait_p99_us");
  row.service_p50_us = Get<double>(group, "service_p50_us");
  row.service_p99_us = Get<double>(group, "service_p99_us");
  row.by_reservation = Get<double>(group, "by_reservation");
  row.by_weight = Get<double>(group, "by_weight");
  row.by_leftover = Get<double>(group, "by_leftover");
  row.blocked_by = Get<std::string>(group, "blocked_by");
  row.blocked_share = Get<double>(group, "blocked_share");
  return row;
}

}  // namespace

Result<TopFrame> ParseTopFrame(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("groups") || !json["groups"].is_array()) {
    return Fail(ErrorCode::kInternal, "the daemon's answer to stats cannot be read");
  }
  TopFrame frame;
  frame.sequence = Get<uint64_t>(json, "sequence");
  frame.version = Get<uint64_t>(json, "version");
  frame.window_s = Get<double>(json, "window_s");
  frame.since_start = Get<bool>(json, "since_start");
  const Json engine = json.value("engine", Json::object());
  if (engine.is_object()) {
    frame.depth = Get<double>(engine, "depth");
    frame.norm_in_flight = Get<double>(engine, "norm_in_flight");
    frame.io_errors = Get<uint64_t>(engine, "io_errors");
  }
  std::unordered_map<std::string, int> by_path;
  for (const Json& group : json["groups"]) {
    if (!group.is_object()) continue;
    TopRow row = RowOf(group);
    const size_t slash = row.path.rfind('/');
    const auto above =
        slash == std::string::npos ? by_path.end() : by_path.find(row.path.substr(0, slash));
    if (above != by_path.end()) {
      row.parent = above->second;
      row.level = frame.rows[static_cast<size_t>(above->second)].level + 1;
    }
    by_path.emplace(row.path, static_cast<int>(frame.rows.size()));
    frame.rows.push_back(std::move(row));
  }
  return frame;
}

}  // namespace weir::app
