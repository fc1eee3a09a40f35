// Reads a TOML table strictly: every key has to be asked for, every value has to have the right
// type and range. The first thing wrong is kept with its place; what is read after it is harmless.
//
//   TableReader unit(&problems, table, "unit \"gold\"");
//   unit.SetPlan(unit.Text("plan"));
//   unit.Finish();                       // keys nobody asked for
//   if (!problems.ok()) return tl::unexpected(problems.ToError());
//
// PURE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "catalog/toml_value.h"

namespace weir::catalog {

// "FILE:LINE: MESSAGE", without what is not known (empty, 0).
[[nodiscard]] std::string AtPlace(std::string_view file, int line, std::string_view message);

// The first problem of a file.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}

  // Keeps the first. `line` 0: none is known.
  void Add(int line, std::string message, ErrorCode code = ErrorCode::kInvalidArgument);

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] const std::string& message() const { return error_.message; }  // without the place
  // "FILE:LINE: MESSAGE". Requires: !ok().
  [[nodiscard]] Error ToError() const;

 private:
  std::string file_;
  bool ok_ = true;
  int line_ = 0;
  Error error_;
};

class TableReader {
 public:
  // `what` opens the messages: "unit \"gold\"". `table` and `problems` must outlive the reader.
  TableReader(Problems* problems, const TomlValue& table, std::string what);

  [[nodiscard]] const std::string& what() const { return what_; }
  [[nodiscard]] int line() const { return table_->line; }
  // Nothing wrong yet, in the whole file. Costly checks are skipped otherwise.
  [[nodiscard]] bool ok() const { return problems_->ok(); }
  [[nodiscard]] bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Of the key; of the table where the key is absent.
  [[nodiscard]] int LineOf(std::string_view key) const;

  // Each gives `otherwise` when the key is absent or wrong.
  std::string Text(std::string_view key, std::string otherwise = {});
  // A required name: 1..kMaxNameBytes bytes, no '/', no control characters.
  std::string Name(std::string_view key);
  // The same, but may be absent.
  std::string OptionalName(std::string_view key);
  bool Flag(std::string_view key, bool otherwise);
  int64_t Integer(std::string_view key, int64_t low, int64_t high, int64_t otherwise);
  double Number(std::string_view key, double low, double high, double otherwise);
  // By a parser of base/units.h; numbers are read as the text of their digits.
  int64_t Parsed(std::string_view key, Result<int64_t> (*parse)(std::string_view),
                 int64_t otherwise);
  Duration Time(std::string_view key, Duration low, Duration high, Duration otherwise);
  // One of `words`.
  std::string Word(std::string_view key, const std::vector<std::string>& words,
                   std::string otherwise);
  // [[key]]: each named after its name, or its number. Errors: more than `max`, not tables.
  std::vector<TableReader> Tables(std::string_view key, size_t max);
  // [key]: none or one.
  std::vector<TableReader> Table(std::string_view key);
  // The value as it is, nullptr when absent.
  const TomlValue* Take(std::string_view key);
  // Every key and value, for tables whose keys somebody else knows.
  const std::vector<TomlValue>& TakeAll();

  // The key must be there, or Finish says so.
  void Require(std::string_view key, std::string_view fix);
  // "WHAT: KEY = VALUE: WHY", at the key's line.
  void Reject(std::string_view key, std::string_view why);
  // "WHAT: KEY = WHY", where `why` begins with the value.
  void RejectValue(std::string_view key, std::string_view why);
  // "WHAT: WHY", at the table's line.
  void RejectTable(std::string_view why);

  // Reports a key that was never asked for, with the one that was probably meant, and a required
  // one that is missing.
  void Finish();

 private:
  struct Required {
    std::string key;
    std::string fix;
  };
  [[nodiscard]] const TomlValue* Find(std::string_view key) const;
  std::string TextOf(const TomlValue& value, std::string_view key);
  void Report(std::string_view key, std::string_view why);
  [[nodiscard]] std::string Opening() const;

  Problems* problems_;
  const TomlValue* table_;
  std::string what_;
  std::vector<std::string> known_;
  std::vector<Required> required_;
  bool all_known_ = false;
};

// Why `name` cannot be a name; empty when it can.
[[nodiscard]] std::string WhyNoName(std::string_view name);

}  // namespace weir::catalog
