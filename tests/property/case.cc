#include "case.h"

#include <ostream>
#include <sstream>

namespace weir::property {

namespace {

constexpr const char* kNames[kKinds] = {"steady",          "read_write",  "live",
                                        "live_read_write", "over_commit", "live_over_commit",
                                        "disorder"};

}  // namespace

const char* NameOf(Kind kind) { return kNames[static_cast<int>(kind)]; }

std::string ToText(const Case& c) {
  std::ostringstream out;
  out << NameOf(c.kind) << " seed=" << c.seed << " leaves=" << c.leaves << " depth=" << c.depth
      << " changes=" << c.changes;
  return out.str();
}

Result<Case> ParseCase(const std::string& text) {
  const auto bad = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument,
                "case \"" + text + "\": " + why +
                    "; write it as \"live seed=1 leaves=8 depth=3 changes=20\"");
  };
  std::istringstream in(text);
  std::string word;
  Case c;
  in >> word;
  int kind = 0;
  while (kind < kKinds && word != kNames[kind]) ++kind;
  if (kind == kKinds) return bad("unknown kind \"" + word + "\"");
  c.kind = static_cast<Kind>(kind);
  while (in >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return bad("\"" + word + "\" has no value");
    const std::string key = word.substr(0, equals);
    std::istringstream value(word.substr(equals + 1));
    if (key == "seed")
      value >> c.seed;
    else if (key == "leaves")
      value >> c.leaves;
    else if (key == "depth")
      value >> c.depth;
    else if (key == "changes")
      value >> c.changes;
    else
      return bad("unknown key \"" + key + "\"");
    if (!value || !value.eof()) return bad("\"" + word + "\" is not a number");
  }
  return c;
}

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << ToText(c); }

}  // namespace weir::property
