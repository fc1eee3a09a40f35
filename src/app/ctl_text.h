// What `weir ctl` makes of its arguments, and how it shows the answers.
//
// PURE.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weir::app {

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

// "max_iops=40000" -> key and value. Errors: kInvalidArgument.
[[nodiscard]] Result<std::pair<std::string, std::string>> ParseAssignment(std::string_view text);

// The key of weir.toml behind a flag: "min-bps" -> min_bandwidth, "weight" -> iops_weight of a
// unit, weight_iops of a group.
[[nodiscard]] std::string KeyOfFlag(std::string_view flag, bool is_unit);
// All flags of `set`, without "--".
[[nodiscard]] const std::vector<std::string>& SetFlags();

// A directive takes percentages of the node above. An absolute value ("500/s", "100kB/s") is turned
// into one, with `groups` (the answer to `show groups`) telling what there is to take a part of.
// "100KB/s" of a flag is read as kB. Errors: kInvalidArgument: nothing above to take a part of,
// more than there is.
[[nodiscard]] Result<KeysAndValues> ToPercentages(std::string_view target, KeysAndValues values,
                                                  std::string_view groups);
[[nodiscard]] bool NeedsPercentages(std::string_view target, const KeysAndValues& values);

// The args of a request.
[[nodiscard]] std::string SetArgs(std::string_view target, const KeysAndValues& values,
                                  bool dry_run);
[[nodiscard]] std::string ApplyArgs(std::string_view file, std::string_view text, bool dry_run);
// Texts that are empty are left out.
[[nodiscard]] std::string TextArgs(const KeysAndValues& texts);

// Answers as text for a terminal, every line with its '\n'. What cannot be read is shown as it is.
[[nodiscard]] std::string ShowText(std::string_view what, std::string_view json);
[[nodiscard]] std::string ChangeText(std::string_view json, bool dry_run);
[[nodiscard]] std::string ExplainText(std::string_view json);

}  // namespace weir::app
