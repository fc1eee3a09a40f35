#include "control/plan_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weir::control {
namespace {

using Json = nlohmann::ordered_json;

Json MatchJson(const catalog::Match& match) {
  return {{"group", match.group}, {"cgroup", match.cgroup},      {"path", match.path},
          {"comm", match.comm},   {"user", match.user},          {"uid", match.uid},
          {"pid", match.pid},     {"pid_start", match.pid_start}};
}

catalog::Match MatchOf(const Json& json) {
  catalog::Match match;
  match.group = json.at("group").get<std::string>();
  match.cgroup = json.at("cgroup").get<std::string>();
  match.path = json.at("path").get<std::string>();
  match.comm = json.at("comm").get<std::string>();
  match.user = json.at("user").get<std::string>();
  match.uid = json.at("uid").get<int64_t>();
  match.pid = json.at("pid").get<int64_t>();
  match.pid_start = json.at("pid_start").get<uint64_t>();
  return match;
}

}  // namespace

// All values of a target are kept together: MIN and MAX may only fit as they are now.
void PlanState::Add(std::string_view target, const Values& values) {
  auto found =
      std::find_if(sets.begin(), sets.end(), [&](const auto& set) { return set.first == target; });
  if (found == sets.end()) {
    sets.emplace_back(target, Values{});
    found = sets.end() - 1;
  }
  for (const auto& [key, value] : values) {
    const auto same = std::find_if(found->second.begin(), found->second.end(),
                                   [&, name = key](const auto& old) { return old.first == name; });
    if (same == found->second.end()) {
      found->second.emplace_back(key, value);
    } else {
      same->second = value;
    }
  }
}

std::string PlanStateJson(const PlanState& state) {
  Json sets = Json::array();
  for (const auto& [target, values] : state.sets) {
    Json pairs = Json::array();
    for (const auto& [key, value] : values) pairs.push_back({key, value});
    sets.push_back({{"target", target}, {"values", std::move(pairs)}});
  }
  Json attached = Json::array();
  for (const catalog::Match& match : state.attached) attached.push_back(MatchJson(match));
  return Json{{"version", 1},
              {"file", state.file},
              {"toml", state.toml},
              {"sets", std::move(sets)},
              {"attached", std::move(attached)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<PlanState> ParsePlanState(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    PlanState state;
    if (json.at("version").get<int>() != 1) {
      return Fail(ErrorCode::kInvalidArgument, "the saved plan is of another version");
    }
    state.file = json.at("file").get<std::string>();
    state.toml = json.at("toml").get<std::string>();
    for (const Json& set : json.at("sets")) {
      PlanState::Values values;
      for (const Json& pair : set.at("values")) {
        values.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
      }
      state.sets.emplace_back(set.at("target").get<std::string>(), std::move(values));
    }
    for (const Json& match : json.at("attached")) state.attached.push_back(MatchOf(match));
    return state;
  } catch (const std::exception&) {
    return Fail(ErrorCode::kInvalidArgument, "the saved plan cannot be read");
  }
}

Result<catalog::Config> ConfigOf(const PlanState& state) {
  Result<catalog::Config> config = catalog::ParseConfig(state.toml, state.file);
  if (!config) return config;
  // What was set together with, or after, something else may only fit once that is set too.
  std::vector<size_t> left(state.sets.size());
  for (size_t i = 0; i < left.size(); ++i) left[i] = i;
  while (!left.empty()) {
    std::vector<size_t> again;
    Error error;
    for (const size_t i : left) {
      const auto& [target, values] = state.sets[i];
      Result<void> set = catalog::ApplyChanges(&*config, target, values);
      if (set) continue;
      error = std::move(set.error());
      again.push_back(i);
    }
    if (again.size() == left.size()) return tl::unexpected(std::move(error));
    left = std::move(again);
  }
  return config;
}

}  // namespace weir::control
