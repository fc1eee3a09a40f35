#include "catalog/config.h"

#include <fmt/format.h>

#include <exception>

#include "base/text.h"
#include "catalog/config_check.h"
#include "catalog/config_tables.h"
#include "catalog/table_reader.h"
#include "catalog/toml_value.h"
#include "catalog/tree_builder.h"

namespace weir::catalog {
namespace {

const Device* FindDevice(const Config& config, const std::string& name) {
  if (name.empty() && config.devices.size() == 1) return &config.devices.front();
  for (const Device& device : config.devices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

Result<Config> ParseOrThrow(std::string_view text, const std::string& file) {
  const Result<TomlValue> document = ParseToml(text, file);
  if (!document) return tl::unexpected(document.error());
  Problems problems(file);
  TableReader root(&problems, *document, "");
  Config config;
  config.file = file;
  ReadConfigTables(&root, &config, &problems);
  root.Finish();
  CheckWhole(&config, &problems);
  if (!problems.ok()) return tl::unexpected(problems.ToError());
  return config;
}

}  // namespace

Result<Config> ParseConfig(std::string_view text, const std::string& file) {
  try {
    return ParseOrThrow(text, file);
  } catch (const std::exception& e) {  // out of memory
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: cannot be read: {}", file, e.what()));
  }
}

Result<std::vector<TreeNode>> Resolve(const Config& config, const std::string& device,
                                      int64_t capacity, std::vector<std::string>* warnings) {
  const Device* found = FindDevice(config, device);
  if (found == nullptr && (!device.empty() || !config.devices.empty())) {
    std::vector<std::string> names;
    for (const Device& known : config.devices) names.push_back(known.name);
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}: there is no device {}; known: {}", config.file, Quote(device),
                            names.empty() ? "none" : JoinNames(names)));
  }
  Problems problems(config.file);
  CheckConfig(config, &problems);
  const PlanIndex plans(config);
  TreeBuilder builder(config, plans, &problems, warnings);
  const std::string_view name = found == nullptr ? std::string_view() : found->name;
  for (const Unit& unit : config.units) {
    if (problems.ok() && IsOn(config, unit, name)) builder.AddUnit(unit);
  }
  if (capacity <= 0 && found != nullptr) capacity = found->capacity;
  CheckCapacity(config, name, capacity, &problems, warnings);
  if (!problems.ok()) return tl::unexpected(problems.ToError());
  return builder.Take();
}

}  // namespace weir::catalog
