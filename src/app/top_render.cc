#include "app/top_render.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace weir::app {
namespace {

constexpr int kLeastName = 15;
constexpr int kMostName = 48;
constexpr int kShortBlocked = 12;
constexpr int kLongBlocked = 27;  // "^max_write_bandwidth 100%"
constexpr int kExtra = 18;        // READ, WRITE and FLY

// Width in a terminal: one column a code point, which is right for all but wide scripts.
size_t WidthOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// Cut to `width` code points, with '~' where something is missing; padded on the right.
std::string Fit(std::string_view text, int width) {
  const auto wanted = static_cast<size_t>(std::max(0, width));
  std::string fitted;
  size_t used = 0;
  const bool cut = WidthOf(text) > wanted;
  for (size_t i = 0; i < text.size();) {
    size_t n = 1;
    while (i + n < text.size() && (static_cast<unsigned char>(text[i + n]) & 0xC0) == 0x80) ++n;
    if (used + 1 > wanted - (cut ? 1 : 0)) break;
    fitted += text.substr(i, n);
    ++used;
    i += n;
  }
  if (cut && wanted > 0) fitted += '~', ++used;
  return fitted + std::string(wanted - used, ' ');
}

std::string LastPart(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

// "max_write_bandwidth" -> "w:B/s".
std::string ShortLimit(std::string_view key) {
  std::string text;
  if (key.starts_with("max_read_")) text = "r:";
  if (key.starts_with("max_write_")) text = "w:";
  if (key.ends_with("bandwidth")) return text + "B/s";
  return text + (key.ends_with("raw_iops") ? "raw" : "iops");
}

// The limit that holds the row back most: its own, or ("^") that of a node above.
std::string BlockedText(const TopFrame& frame, const TopRow& row, bool wide) {
  const TopRow* most = &row;
  for (int above = row.parent; above >= 0; above = frame.rows[static_cast<size_t>(above)].parent) {
    const TopRow& node = frame.rows[static_cast<size_t>(above)];
    if (node.blocked_share > most->blocked_share && row.queued > 0) most = &node;
  }
  if (most->blocked_by.empty() || most->blocked_share < 0.005) return "-";
  return fmt::format("{}{} {:.0f}%", most == &row ? "" : "^",
                     wide ? most->blocked_by : ShortLimit(most->blocked_by),
                     100 * most->blocked_share);
}

std::string SharesText(const TopRow& row) {
  if (row.by_reservation + row.by_weight + row.by_leftover <= 0) return "-";
  const auto percent = [](double share) { return std::lround(100 * share); };
  const long reservation = percent(row.by_reservation);
  const long leftover = std::min(percent(row.by_leftover), 100 - reservation);
  return fmt::format("{}/{}/{}", reservation, 100 - reservation - leftover, leftover);
}

// At most 4 characters.
std::string ShortCount(uint64_t count) {
  if (count < 10'000) return std::to_string(count);
  const std::string text = ShortNumber(static_cast<double>(count / 1000) * 1000);
  return text.size() <= 4 && count >= 100'000
             ? text
             : fmt::format("{}k", std::min<uint64_t>(count / 1000, 999));
}

double SortValue(const TopRow& row, TopSort sort) {
  switch (sort) {
    case TopSort::kNorm:
      return row.norm_iops;
    case TopSort::kRaw:
      return row.raw_iops;
    case TopSort::kBytes:
      return row.bytes_per_s;
    case TopSort::kQueue:
      return static_cast<double>(row.queued);
    case TopSort::kWait:
      return row.wait_p99_us;
    case TopSort::kService:
      return row.service_p99_us;
    case TopSort::kPlan:
    case TopSort::kName:
      break;
  }
  return 0;
}

struct Columns {
  int name = kLeastName;
  int blocked = kShortBlocked;
  bool extra = false;
};

Columns ColumnsOf(int width, const TopFrame& frame) {
  Columns columns;
  int left = std::max(width, kLeastTopColumns) - kLeastTopColumns;
  int longest = kLeastName;
  for (const TopRow& row : frame.rows) {
    longest = std::max(longest, static_cast<int>(WidthOf(LastPart(row.path))) + 2 * row.level);
  }
  const int name = std::min({left, longest - kLeastName, kMostName - kLeastName});
  columns.name += name;
  left -= name;
  if (left >= kExtra) {
    columns.extra = true;
    left -= kExtra;
  }
  columns.blocked += std::min(left, kLongBlocked - kShortBlocked);
  return columns;
}

std::string HeaderOf(const Columns& columns) {
  return fmt::format("{} {:>5} {:>5} {}{:>5} {:>4} {}{:>4} {:>4} {:>4} {:>4} {:>8} {}",
                     Fit("GROUP", columns.name), "NORM", "RAW",
                     columns.extra ? fmt::format("{:>5} {:>5} ", "READ", "WRITE") : "", "MB/s",
                     "QUE", columns.extra ? fmt::format("{:>5} ", "FLY") : "", "W50", "W99", "S50",
                     "S99", "R/W/L %", Fit("BLOCKED BY", columns.blocked));
}

std::string LineOf(const TopFrame& frame, const TopRow& row, const Columns& columns) {
  const std::string name =
      std::string(2 * static_cast<size_t>(row.level), ' ') + Printable(LastPart(row.path), 128);
  const bool served = row.raw_iops > 0;
  const auto time = [&](double us) { return served ? ShortMicros(us) : std::string("-"); };
  return fmt::format(
      "{} {:>5} {:>5} {}{:>5} {:>4} {}{:>4} {:>4} {:>4} {:>4} {:>8} {}", Fit(name, columns.name),
      ShortNumber(row.norm_iops), ShortNumber(row.raw_iops),
      columns.extra
          ? fmt::format("{:>5} {:>5} ", ShortNumber(row.read_iops), ShortNumber(row.write_iops))
          : "",
      row.bytes_per_s < 9.95e6 ? fmt::format("{:.2f}", row.bytes_per_s / 1e6)
                               : ShortNumber(row.bytes_per_s / 1e6),
      ShortCount(row.queued), columns.extra ? fmt::format("{:>5} ", ShortCount(row.in_flight)) : "",
      time(row.wait_p50_us), time(row.wait_p99_us), time(row.service_p50_us),
      time(row.service_p99_us), SharesText(row),
      Fit(BlockedText(frame, row, columns.blocked > kShortBlocked), columns.blocked));
}

std::string Trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string SummaryOf(const TopFrame& frame, const TopView& view) {
  return fmt::format("plan {}   window {:.1f} s{}   in flight {:.1f} of depth {:.1f}{}{}",
                     frame.version, frame.window_s, frame.since_start ? " (since start)" : "",
                     frame.norm_in_flight, frame.depth,
                     frame.io_errors > 0 ? fmt::format("   I/O errors {}", frame.io_errors) : "",
                     view.filter.empty() ? "" : "   filter " + Quote(view.filter, 20));
}

}  // namespace

std::string ShortNumber(double value) {
  if (!(value > 0)) return "0";
  if (value < 9.95) return fmt::format("{:.1f}", value);
  if (value < 99'999.5) return fmt::format("{:.0f}", value);
  for (const char unit : {'k', 'M', 'G', 'T', 'P'}) {
    value /= 1000;
    if (value < 9.95) return fmt::format("{:.1f}{}", value, unit);
    if (value < 9'999.5) return fmt::format("{:.0f}{}", value, unit);
  }
  return "huge";
}

std::string ShortMicros(double us) {
  if (!(us > 0)) return "0";
  if (us < 999.5) return fmt::format("{:.0f}u", us);
  const double ms = us / 1000;
  if (ms < 9.95) return fmt::format("{:.1f}m", ms);
  if (ms < 999.5) return fmt::format("{:.0f}m", ms);
  const double s = ms / 1000;
  if (s < 9.95) return fmt::format("{:.1f}s", s);
  if (s < 999.5) return fmt::format("{:.0f}s", s);
  return fmt::format("{:.0f}M", std::min(s / 60, 999.0));
}

const std::vector<std::string>& TopSortNames() {
  static const std::vector<std::string> names = {"plan",  "name",  "norm", "raw",
                                                 "bytes", "queue", "wait", "service"};
  return names;
}

Result<TopSort> ParseTopSort(std::string_view name) {
  const std::vector<std::string>& names = TopSortNames();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<TopSort>(i);
  }
  return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no sort key {}; it is one of: {}",
                                                       Quote(name), JoinNames(names)));
}

std::vector<int> TopOrder(const TopFrame& frame, const TopView& view) {
  const auto count = frame.rows.size();
  std::vector<char> shown(count, view.filter.empty() ? 1 : 0);
  for (size_t i = 0; i < count && !view.filter.empty(); ++i) {
    if (frame.rows[i].path.find(view.filter) == std::string::npos) continue;
    for (int n = static_cast<int>(i); n >= 0; n = frame.rows[static_cast<size_t>(n)].parent) {
      shown[static_cast<size_t>(n)] = 1;
    }
  }
  std::vector<std::vector<int>> children(count + 1);  // the last: of the root
  for (size_t i = 0; i < count; ++i) {
    const int parent = frame.rows[i].parent;
    if (shown[i] != 0) {
      children[parent < 0 ? count : static_cast<size_t>(parent)].push_back(static_cast<int>(i));
    }
  }
  for (std::vector<int>& siblings : children) {
    std::stable_sort(siblings.begin(), siblings.end(), [&](int a, int b) {
      const TopRow& left = frame.rows[static_cast<size_t>(view.reverse ? b : a)];
      const TopRow& right = frame.rows[static_cast<size_t>(view.reverse ? a : b)];
      if (view.sort == TopSort::kName) return left.path < right.path;
      if (view.sort == TopSort::kPlan) return view.reverse && b < a;
      return SortValue(left, view.sort) > SortValue(right, view.sort);
    });
  }
  std::vector<int> order;
  std::vector<int> todo(children[count].rbegin(), children[count].rend());
  while (!todo.empty()) {
    const int row = todo.back();
    todo.pop_back();
    order.push_back(row);
    const std::vector<int>& below = children[static_cast<size_t>(row)];
    todo.insert(todo.end(), below.rbegin(), below.rend());
  }
  return order;
}

std::string RenderTop(const TopFrame& frame, const TopView& view) {
  const int width = std::max(view.columns, kLeastTopColumns);
  const Columns columns = ColumnsOf(width, frame);
  const std::vector<int> order = TopOrder(frame, view);
  std::string text;
  const auto line = [&](const std::string& content, const char* style = "") {
    const std::string cut = Trimmed(Fit(content, width));
    text +=
        view.color && *style != '\0' ? fmt::format("\x1b[{}m{}\x1b[0m\n", style, cut) : cut + "\n";
  };
  int used = 2;
  if (!view.title.empty()) line(view.title), ++used;
  line(SummaryOf(frame, view));
  line(HeaderOf(columns), "7");
  if (!view.status.empty()) ++used;
  const int room = view.lines > 0 ? std::max(1, view.lines - used) : static_cast<int>(order.size());
  const int last = std::max(0, static_cast<int>(order.size()) - room);
  const int first = std::clamp(view.first_row, 0, last);
  for (int i = first; i < std::min(first + room, static_cast<int>(order.size())); ++i) {
    const TopRow& row = frame.rows[static_cast<size_t>(order[static_cast<size_t>(i)])];
    const bool blocked = row.blocked_share >= 0.5;
    line(LineOf(frame, row, columns), blocked ? "33" : row.leaf ? "" : "1");
  }
  if (!view.status.empty()) line(view.status);
  return text;
}

}  // namespace weir::app
