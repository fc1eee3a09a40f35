// The screen of `weir top` as text.
//
// PURE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/top_frame.h"
#include "base/result.h"

namespace weir::app {

inline constexpr int kLeastTopColumns = 80;

enum class TopSort { kPlan, kName, kNorm, kRaw, kBytes, kQueue, kWait, kService };

struct TopView {
  int columns = kLeastTopColumns;  // fewer count as 80
  int lines = 0;                   // of the screen; 0 = all
  int first_row = 0;               // scrolled down by
  TopSort sort = TopSort::kPlan;   // siblings, largest first (names: A first)
  bool reverse = false;
  std::string filter;  // only rows with this in their path, and those above them
  bool color = false;  // ANSI
  std::string title;   // "weir top - /run/weir/data.sock"
  std::string status;  // last line: a prompt, an error
};

// Lines end with '\n' and are at most `columns` wide.
[[nodiscard]] std::string RenderTop(const TopFrame& frame, const TopView& view);

// Indices of the rows to show, in order.
[[nodiscard]] std::vector<int> TopOrder(const TopFrame& frame, const TopView& view);

[[nodiscard]] const std::vector<std::string>& TopSortNames();
// Errors: kInvalidArgument with the names.
[[nodiscard]] Result<TopSort> ParseTopSort(std::string_view name);

// At most 5 characters: "0", "950", "12345", "123k", "1.2M".
[[nodiscard]] std::string ShortNumber(double value);
// At most 4 characters: "950u", "1.2m", "120m", "1.2s", "90s", "20M".
[[nodiscard]] std::string ShortMicros(double us);

}  // namespace weir::app
