#include "catalog/toml_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <stdexcept>
#include <string_view>

namespace {

// The library (3.3) asserts what a file can break: at "[=]" it aborts, and with NDEBUG it may even
// let the compiler assume the opposite. So assertions are always checked, and throw; but for those
// on the first character of a key, after which the library reports the error with its place.
constexpr void CheckTomlAssertion(bool holds, std::string_view text) {
  if (holds || text.find("is_bare_key_character") != std::string_view::npos) return;
  throw std::logic_error("not valid TOML, in a way that the parser does not know");
}

}  // namespace

#undef NDEBUG
#define TOML_ASSERT(...) CheckTomlAssertion((__VA_ARGS__) ? true : false, #__VA_ARGS__)
#define TOML_EXCEPTIONS 0
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

#include "base/text.h"
#include "catalog/config.h"

namespace weir::catalog {
namespace {

static_assert(TOML_MAX_NESTED_VALUES == kMaxTomlDepth);

// The library bounds the nesting of values but neither that of dotted keys, which it frees
// recursively, nor the number of values. Errors: kResourceExhausted.
Result<void> CheckSize(std::string_view text, const std::string& file) {
  if (text.size() > kMaxFileBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: the file has more than {} bytes; is it the right file?", file,
                            kMaxFileBytes));
  }
  int line = 1;
  int separators = 0;
  // Points of this line that follow something other than a point or blank: at least as many as
  // there are levels in any of its keys, since a key cannot span lines.
  int dots = 0;
  bool in_word = false;
  for (const char c : text) {
    if (c == '\n' || c == ',') ++separators;
    if (c == '\n') {
      ++line;
      dots = 0;
    }
    if (c == '.' && in_word) ++dots;
    if (c != ' ' && c != '\t') in_word = c != '.' && c != '\n';
    if (dots > kMaxDotsALine) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("{}:{}: more than {} points in one line; break the line", file, line,
                              kMaxDotsALine));
    }
    if (separators > kMaxTomlSeparators) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("{}:{}: more than {} lines and commas so far; is it the right file?",
                              file, line, kMaxTomlSeparators));
    }
  }
  return {};
}

int LineOf(const toml::source_region& region) { return static_cast<int>(region.begin.line); }

struct Placed {
  toml::source_position position;
  TomlValue value;
};

TomlValue Convert(const toml::node& node);

void ConvertTable(const toml::table& table, TomlValue* out) {
  std::vector<Placed> members;
  for (const auto& [key, node] : table) {
    TomlValue value = Convert(node);
    value.key = key.str();
    if (key.source().begin) value.line = LineOf(key.source());
    const toml::source_position position =
        key.source().begin ? key.source().begin : node.source().begin;
    members.push_back({position, std::move(value)});
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const Placed& a, const Placed& b) { return a.position < b.position; });
  for (Placed& member : members) out->children.push_back(std::move(member.value));
}

TomlValue Convert(const toml::node& node) {
  TomlValue out;
  out.line = LineOf(node.source());
  switch (node.type()) {
    case toml::node_type::string:
      out.kind = TomlValue::Kind::kString;
      out.text = node.ref<std::string>();
      break;
    case toml::node_type::integer:
      out.kind = TomlValue::Kind::kInteger;
      out.integer = node.ref<int64_t>();
      break;
    case toml::node_type::floating_point:
      out.kind = TomlValue::Kind::kFloat;
      out.real = node.ref<double>();
      break;
    case toml::node_type::boolean:
      out.kind = TomlValue::Kind::kBoolean;
      out.boolean = node.ref<bool>();
      break;
    case toml::node_type::array:
      out.kind = TomlValue::Kind::kArray;
      for (const toml::node& item : *node.as_array()) out.children.push_back(Convert(item));
      break;
    case toml::node_type::table:
      out.kind = TomlValue::Kind::kTable;
      ConvertTable(*node.as_table(), &out);
      break;
    default:
      out.kind = TomlValue::Kind::kDateOrTime;
      break;
  }
  return out;
}

Result<TomlValue> ParseOrThrow(std::string_view text, const std::string& file) {
  if (Result<void> size = CheckSize(text, file); !size) return tl::unexpected(size.error());
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}:{}: not valid TOML (column {}): {}", file, LineOf(parsed.error().source()),
                    static_cast<int>(parsed.error().source().begin.column),
                    Printable(parsed.error().description(), 300)));
  }
  return Convert(parsed.table());
}

std::string Digits(double value) {
  // The longest double in fixed notation has 309 digits, the finest 1074 after the point.
  char buffer[1500];
  const auto [end, error] =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::fixed);
  return error == std::errc() ? std::string(std::begin(buffer), end) : std::string("?");
}

}  // namespace

Result<TomlValue> ParseToml(std::string_view text, const std::string& file) {
  try {
    return ParseOrThrow(text, file);
  } catch (const std::exception& e) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: cannot be read: {}", file, e.what()));
  }
}

std::string ShowValue(const TomlValue& value) {
  switch (value.kind) {
    case TomlValue::Kind::kString:
      return Quote(value.text);
    case TomlValue::Kind::kInteger:
      return std::to_string(value.integer);
    case TomlValue::Kind::kFloat:
      return fmt::format("{}", value.real);
    case TomlValue::Kind::kBoolean:
      return value.boolean ? "true" : "false";
    case TomlValue::Kind::kDateOrTime:
      return "a date or time";
    case TomlValue::Kind::kArray:
      return "[...]";
    case TomlValue::Kind::kTable:
      return "{...}";
  }
  return "?";
}

Result<std::string> ScalarText(const TomlValue& value) {
  switch (value.kind) {
    case TomlValue::Kind::kString:
      return value.text;
    case TomlValue::Kind::kInteger:
      return std::to_string(value.integer);
    case TomlValue::Kind::kFloat:
      if (!std::isfinite(value.real)) {
        return Fail(ErrorCode::kInvalidArgument, "it is not a finite number");
      }
      return Digits(value.real);
    default:
      return Fail(ErrorCode::kInvalidArgument, "it must be a number or a text in quotes");
  }
}

}  // namespace weir::catalog
