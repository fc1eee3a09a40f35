#include "catalog/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "catalog/config.h"

namespace weir::catalog {

void Problems::Add(int line, std::string message, ErrorCode code) {
  if (!ok_) return;
  ok_ = false;
  line_ = line;
  error_ = Error{code, std::move(message), 0};
}

Error Problems::ToError() const {
  Error error = error_;
  error.message = AtPlace(file_, line_, error.message);
  return error;
}

std::string AtPlace(std::string_view file, int line, std::string_view message) {
  if (file.empty()) return std::string(message);
  return line > 0 ? fmt::format("{}:{}: {}", file, line, message)
                  : fmt::format("{}: {}", file, message);
}

std::string WhyNoName(std::string_view name) {
  if (name.empty()) return "a name cannot be empty";
  if (name.size() > kMaxNameBytes) {
    return fmt::format("a name has at most {} bytes", kMaxNameBytes);
  }
  if (name.find('/') != std::string_view::npos) {
    return "a name cannot contain '/', which separates the parts of a path";
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return "a name cannot contain control characters";
    }
  }
  if (!IsUtf8(name)) return "a name must be UTF-8";
  return {};
}

TableReader::TableReader(Problems* problems, const TomlValue& table, std::string what)
    : problems_(problems), table_(&table), what_(std::move(what)) {}

const TomlValue* TableReader::Find(std::string_view key) const {
  for (const TomlValue& child : table_->children) {
    if (child.key == key) return &child;
  }
  return nullptr;
}

int TableReader::LineOf(std::string_view key) const {
  const TomlValue* value = Find(key);
  return value == nullptr ? table_->line : value->line;
}

const TomlValue* TableReader::Take(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  return Find(key);
}

const std::vector<TomlValue>& TableReader::TakeAll() {
  all_known_ = true;
  return table_->children;
}

std::string TableReader::TextOf(const TomlValue& value, std::string_view key) {
  if (value.kind != TomlValue::Kind::kString) {
    Reject(key, "it must be a text in quotes");
    return {};
  }
  return value.text;
}

std::string TableReader::Text(std::string_view key, std::string otherwise) {
  const TomlValue* value = Take(key);
  return value == nullptr ? otherwise : TextOf(*value, key);
}

std::string TableReader::OptionalName(std::string_view key) {
  const TomlValue* value = Take(key);
  if (value == nullptr) return {};
  std::string name = TextOf(*value, key);
  if (const std::string why = WhyNoName(name); !why.empty()) Reject(key, why);
  return name;
}

std::string TableReader::Name(std::string_view key) {
  std::string name = OptionalName(key);
  Require(key, "give it one");
  return name;
}

bool TableReader::Flag(std::string_view key, bool otherwise) {
  const TomlValue* value = Take(key);
  if (value == nullptr) return otherwise;
  if (value->kind == TomlValue::Kind::kBoolean) return value->boolean;
  Reject(key, "it must be true or false, without quotes");
  return otherwise;
}

int64_t TableReader::Integer(std::string_view key, int64_t low, int64_t high, int64_t otherwise) {
  const TomlValue* value = Take(key);
  if (value == nullptr) return otherwise;
  if (value->kind != TomlValue::Kind::kInteger) {
    Reject(key, "it must be a whole number, without quotes");
    return otherwise;
  }
  if (value->integer < low || value->integer > high) {
    Reject(key, fmt::format("it must be between {} and {}", low, high));
    return otherwise;
  }
  return value->integer;
}

double TableReader::Number(std::string_view key, double low, double high, double otherwise) {
  const TomlValue* value = Take(key);
  if (value == nullptr) return otherwise;
  double number = 0;
  if (value->kind == TomlValue::Kind::kInteger) {
    number = static_cast<double>(value->integer);
  } else if (value->kind == TomlValue::Kind::kFloat) {
    number = value->real;
  } else {
    Reject(key, "it must be a number, without quotes");
    return otherwise;
  }
  if (!std::isfinite(number) || number < low || number > high) {
    Reject(key, fmt::format("it must be between {} and {}", low, high));
    return otherwise;
  }
  return number;
}

int64_t TableReader::Parsed(std::string_view key, Result<int64_t> (*parse)(std::string_view),
                            int64_t otherwise) {
  const TomlValue* value = Take(key);
  if (value == nullptr) return otherwise;
  const Result<std::string> text = ScalarText(*value);
  if (!text) {
    Reject(key, text.error().message);
    return otherwise;
  }
  const Result<int64_t> parsed = parse(*text);
  if (!parsed) {
    RejectValue(key, parsed.error().message);
    return otherwise;
  }
  return *parsed;
}

Duration TableReader::Time(std::string_view key, Duration low, Duration high, Duration otherwise) {
  const auto parse = [](std::string_view text) -> Result<int64_t> {
    return ParseDuration(text).map([](Duration d) { return d.count(); });
  };
  const TomlValue* value = Find(key);
  const Duration time(Parsed(key, parse, otherwise.count()));
  if (value != nullptr && (time < low || time > high)) {
    Reject(key,
           fmt::format("it must be between {} and {}", FormatDuration(low), FormatDuration(high)));
    return otherwise;
  }
  return time;
}

std::string TableReader::Word(std::string_view key, const std::vector<std::string>& words,
                              std::string otherwise) {
  const TomlValue* value = Take(key);
  if (value == nullptr) return otherwise;
  std::string word = TextOf(*value, key);
  if (std::find(words.begin(), words.end(), word) != words.end()) return word;
  const std::string match = ClosestMatch(word, words);
  Reject(key, fmt::format("{}it must be one of: {}",
                          match.empty() ? "" : fmt::format("did you mean {}? ", Quote(match)),
                          JoinNames(words)));
  return otherwise;
}

std::vector<TableReader> TableReader::Tables(std::string_view key, size_t max) {
  const TomlValue* value = Take(key);
  std::vector<TableReader> readers;
  if (value == nullptr) return readers;
  const bool nested = !what_.empty();
  const std::string where = nested ? " of " + what_ : "";
  if (value->kind != TomlValue::Kind::kArray) {
    Reject(key, fmt::format("write [[{}]], with two brackets: there may be several", key));
    return readers;
  }
  if (value->children.size() > max) {
    problems_->Add(
        value->children[max].line,
        fmt::format("{} [[{}]]{}: the maximum is {}", value->children.size(), key, where, max),
        ErrorCode::kResourceExhausted);
    return readers;
  }
  for (size_t i = 0; i < value->children.size(); ++i) {
    const TomlValue& table = value->children[i];
    if (table.kind != TomlValue::Kind::kTable) {
      problems_->Add(table.line,
                     fmt::format("{} = {}{}: it must be a table, {}", key, ShowValue(table), where,
                                 nested ? "{ ... }" : fmt::format("written [[{}]]", key)));
      return readers;
    }
    std::string name = std::to_string(i + 1);
    for (const TomlValue& child : table.children) {
      const bool names_it =
          child.key == "name" ||
          (key == "directive" && (child.key == "group" || child.key == "subplan"));
      if (names_it && child.kind == TomlValue::Kind::kString) name = Quote(child.text);
      if (child.key == "name") break;
    }
    readers.emplace_back(problems_, table, fmt::format("{} {}{}", key, name, where));
  }
  return readers;
}

std::vector<TableReader> TableReader::Table(std::string_view key) {
  const TomlValue* value = Take(key);
  if (value == nullptr) return {};
  if (value->kind != TomlValue::Kind::kTable) {
    Reject(key, what_.empty() ? fmt::format("it must be a table, written [{}]", key)
                              : "it must be a table, { ... }");
    return {};
  }
  return {TableReader(problems_, *value, std::string(key))};
}

void TableReader::Require(std::string_view key, std::string_view fix) {
  required_.push_back({std::string(key), std::string(fix)});
}

void TableReader::Report(std::string_view key, std::string_view why) {
  problems_->Add(LineOf(key), fmt::format("{}{}{}", Opening(), key, why));
}

void TableReader::Reject(std::string_view key, std::string_view why) {
  const TomlValue* value = Find(key);
  Report(key, value == nullptr ? fmt::format(": {}", why)
                               : fmt::format(" = {}: {}", ShowValue(*value), why));
}

void TableReader::RejectValue(std::string_view key, std::string_view why) {
  Report(key, fmt::format(" = {}", why));
}

void TableReader::RejectTable(std::string_view why) {
  problems_->Add(table_->line, fmt::format("{}{}", Opening(), why));
}

std::string TableReader::Opening() const { return what_.empty() ? "" : what_ + ": "; }

void TableReader::Finish() {
  for (const TomlValue& child : table_->children) {
    if (all_known_ || !problems_->ok()) break;
    if (std::find(known_.begin(), known_.end(), child.key) != known_.end()) continue;
    const std::string match = ClosestMatch(child.key, known_);
    problems_->Add(
        child.line,
        fmt::format("{}unknown key {} = {}; {}", Opening(), Quote(child.key), ShowValue(child),
                    match.empty() ? fmt::format("known keys: {}", JoinNames(known_, 40))
                                  : fmt::format("did you mean {}?", Quote(match))));
  }
  // After the unknown keys: a misspelt one is the likelier fault.
  for (const Required& required : required_) {
    if (!Has(required.key)) {
      RejectTable(fmt::format("{} is missing; {}", required.key, required.fix));
    }
  }
}

}  // namespace weir::catalog
