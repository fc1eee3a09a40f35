#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "base/resource_params.h"
#include "base/text.h"

namespace weir {
namespace {

// The largest integer wider than every product below: digits * multiplier < 10^19 * 2^47.
using Wide = __int128;

constexpr size_t kMaxWholeDigits = 19;
constexpr size_t kMaxFractionDigits = 9;

struct Unit {
  std::string_view name;
  int64_t multiplier;
};

// What a kind of quantity is called and looks like, for messages.
struct Kind {
  std::string_view what;
  std::string_view example;
  std::span<const Unit> units;
  int64_t max;
  std::string_view max_text;
  std::string_view why_no_fraction;  // of the unit that counts 1
};

constexpr int64_t kKilo = 1'000;
constexpr int64_t kMega = 1'000'000;
constexpr int64_t kGiga = 1'000'000'000;
constexpr int64_t kTera = 1'000'000'000'000;
constexpr int64_t kKibi = int64_t{1} << 10;
constexpr int64_t kMebi = int64_t{1} << 20;
constexpr int64_t kGibi = int64_t{1} << 30;
constexpr int64_t kTebi = int64_t{1} << 40;

constexpr std::array kOpsUnits = {
    Unit{"", kOp},         Unit{"/s", kOp},         Unit{"k", kKilo* kOp}, Unit{"k/s", kKilo* kOp},
    Unit{"M", kMega* kOp}, Unit{"M/s", kMega* kOp}, Unit{"G", kGiga* kOp}, Unit{"G/s", kGiga* kOp},
};
constexpr std::array kByteRateUnits = {
    Unit{"B/s", 1},
    Unit{"kB/s", kKilo},
    Unit{"MB/s", kMega},
    Unit{"GB/s", kGiga},
    Unit{"TB/s", kTera},
    Unit{"KiB/s", kKibi},
    Unit{"MiB/s", kMebi},
    Unit{"GiB/s", kGibi},
    Unit{"TiB/s", kTebi},
    Unit{"kbit/s", kKilo / 8},
    Unit{"Mbit/s", kMega / 8},
    Unit{"Gbit/s", kGiga / 8},
};
constexpr std::array kByteUnits = {
    Unit{"", 1},        Unit{"B", 1},       Unit{"k", kKibi},   Unit{"K", kKibi},
    Unit{"m", kMebi},   Unit{"M", kMebi},   Unit{"g", kGibi},   Unit{"G", kGibi},
    Unit{"KiB", kKibi}, Unit{"MiB", kMebi}, Unit{"GiB", kGibi}, Unit{"TiB", kTebi},
    Unit{"kB", kKilo},  Unit{"MB", kMega},  Unit{"GB", kGiga},  Unit{"TB", kTera},
};
constexpr std::array kDurationUnits = {
    Unit{"ns", 1},    Unit{"us", kKilo},     Unit{"ms", kMega},
    Unit{"s", kGiga}, Unit{"m", 60 * kGiga}, Unit{"h", 3600 * kGiga},
};

constexpr Kind kOpsRate = {"an operation rate", "\"5000\", \"1.5k\" or \"unlimited\"",
                           kOpsUnits,           kMaxRate,
                           "15,258,789,062/s",  ""};
constexpr Kind kByteRate = {"a bandwidth",        "\"50MB/s\", \"1MiB/s\" or \"unlimited\"",
                            kByteRateUnits,       kMaxRate,
                            "1,000,000,000 MB/s", "it is not a whole number of bytes"};
constexpr Kind kBytes = {"a size",        "\"16KiB\", \"4k\" or \"2MiB\"",    kByteUnits, INT64_MAX,
                         "8,388,607 TiB", "it is not a whole number of bytes"};
constexpr Kind kDuration = {"a duration",   "\"10ms\", \"1.5s\" or \"2m\"",
                            kDurationUnits, INT64_MAX / 4,
                            "640,000h",     "it is finer than a nanosecond"};

tl::unexpected<Error> Bad(const Kind& kind, std::string_view text, std::string_view why) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is not {}: {}; write for example {}",
                                                       Quote(text), kind.what, why, kind.example));
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct Decimal {
  Wide whole = 0;
  Wide fraction = 0;        // in 1 / fraction_scale
  Wide fraction_scale = 1;  // a power of ten
};

// Takes the digits from the front of *text. The error is the reason only.
tl::expected<Decimal, std::string_view> TakeDecimal(std::string_view* text) {
  Decimal number;
  size_t digits = 0;
  size_t significant = 0;
  while (!text->empty() && IsDigit(text->front())) {
    number.whole = number.whole * 10 + (text->front() - '0');
    ++digits;
    if (number.whole > 0 && ++significant > kMaxWholeDigits) {
      return tl::unexpected<std::string_view>("the number has too many digits");
    }
    text->remove_prefix(1);
  }
  if (digits == 0) return tl::unexpected<std::string_view>("it does not begin with a number");
  if (text->empty() || text->front() != '.') return number;
  text->remove_prefix(1);
  size_t end = 0;
  while (end < text->size() && IsDigit((*text)[end])) ++end;
  if (end == 0) return tl::unexpected<std::string_view>("there is no digit after the point");
  std::string_view fraction = text->substr(0, end);
  text->remove_prefix(end);
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  if (fraction.size() > kMaxFractionDigits) {
    return tl::unexpected<std::string_view>("it has more than 9 digits after the point");
  }
  for (const char c : fraction) {
    number.fraction = number.fraction * 10 + (c - '0');
    number.fraction_scale *= 10;
  }
  return number;
}

// What is wrong with a unit that is not in the table.
std::string WhyNoUnit(const Kind& kind, std::string_view unit) {
  if (unit.empty()) return "it has no unit";
  if (unit.find(',') != std::string_view::npos || unit.front() == '_') {
    return "write the digits without separators";
  }
  if (unit.starts_with("KB")) return "\"KB\" is ambiguous: kB is 1000, KiB is 1024";
  for (const Unit& known : kind.units) {
    if (known.name.ends_with("/s") && known.name.substr(0, known.name.size() - 2) == unit) {
      return fmt::format("the unit lacks \"/s\": {}", Quote(known.name));
    }
  }
  std::vector<std::string> names;
  for (const Unit& known : kind.units) {
    if (!known.name.empty()) names.emplace_back(known.name);
  }
  const std::string match = ClosestMatch(unit, names);
  return match.empty()
             ? fmt::format("unknown unit {}", Quote(unit, 16))
             : fmt::format("unknown unit {}, did you mean {}?", Quote(unit, 16), Quote(match));
}

// The nearest integer.
Result<int64_t> Parse(const Kind& kind, std::string_view text) {
  if (text.empty()) return Bad(kind, text, "it is empty");
  if (text.front() == '-') return Bad(kind, text, "it is negative");
  std::string_view rest = text;
  const auto number = TakeDecimal(&rest);
  if (!number) return Bad(kind, text, number.error());
  if (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const Unit* unit = nullptr;
  for (const Unit& known : kind.units) {
    if (known.name == rest) unit = &known;
  }
  if (unit == nullptr) return Bad(kind, text, WhyNoUnit(kind, rest));
  const Wide multiplier = unit->multiplier;
  if (multiplier == 1 && number->fraction != 0) return Bad(kind, text, kind.why_no_fraction);
  const Wide part = number->fraction * multiplier;
  const Wide whole_part = part / number->fraction_scale;
  const Wide remainder = part % number->fraction_scale;
  Wide value = number->whole * multiplier + whole_part;
  if (remainder * 2 >= number->fraction_scale && remainder > 0) ++value;
  if (value > kind.max) {
    return Bad(kind, text, fmt::format("it is above the maximum of {}", kind.max_text));
  }
  if (value == 0 && (number->whole > 0 || number->fraction > 0)) {
    return Bad(kind, text, "it is too small to be told from 0");
  }
  return static_cast<int64_t>(value);
}

// 1234567 -> "1,234,567".
std::string Grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t i = digits.size(); i > 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

// Three significant digits (more in front of the point if there are more), no trailing zeros.
std::string Short(double value) {
  const int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  std::string out = fmt::format("{:.{}f}", value, decimals);
  if (decimals > 0) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return out;
}

std::string Signed(int64_t value, std::string (*format)(int64_t)) {
  if (value == INT64_MIN) ++value;
  return "-" + format(-value);
}

}  // namespace

Result<int64_t> ParseOpsRate(std::string_view text) {
  if (text == "unlimited") return kUnlimited;
  return Parse(kOpsRate, text);
}

Result<int64_t> ParseByteRate(std::string_view text) {
  if (text == "unlimited") return kUnlimited;
  return Parse(kByteRate, text);
}

Result<int64_t> ParseBytes(std::string_view text) { return Parse(kBytes, text); }

Result<Duration> ParseDuration(std::string_view text) {
  return Parse(kDuration, text).map([](int64_t ns) { return Duration(ns); });
}

std::string FormatOpsRate(int64_t rate) {
  if (rate == kUnlimited) return "unlimited";
  if (rate < 0) return Signed(rate, FormatOpsRate);
  const uint64_t whole = static_cast<uint64_t>(rate) / kOp;
  const uint64_t part = static_cast<uint64_t>(rate) % kOp;
  if (part == 0) return Grouped(whole) + "/s";
  const double value = static_cast<double>(rate) / kOp;
  if (value >= 1000) return Grouped(static_cast<uint64_t>(std::llround(value))) + "/s";
  if (value < 0.01) return fmt::format("{:.2g}/s", value);
  return Short(value) + "/s";
}

std::string FormatByteRate(int64_t rate) {
  if (rate == kUnlimited) return "unlimited";
  if (rate < 0) return Signed(rate, FormatByteRate);
  if (rate < kKilo) return fmt::format("{} B/s", rate);
  constexpr std::array kNames = {"kB/s", "MB/s", "GB/s", "TB/s"};
  double value = static_cast<double>(rate) / 1e3;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kNames.size()) {
    value /= 1e3;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string FormatBytes(int64_t bytes) {
  if (bytes < 0) return Signed(bytes, FormatBytes);
  if (bytes < kKibi) return fmt::format("{} B", bytes);
  constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  std::string number = fmt::format("{:.1f}", value);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number + " " + kNames[unit];
}

std::string FormatDuration(Duration d) {
  const int64_t ns = d.count();
  if (ns < 0) {
    return Signed(ns, [](int64_t value) { return FormatDuration(Duration(value)); });
  }
  constexpr std::array kSteps = {Unit{"us", kKilo}, Unit{"ms", kMega}, Unit{"s", kGiga},
                                 Unit{"m", 60 * kGiga}, Unit{"h", 3600 * kGiga}};
  if (ns < kKilo) return fmt::format("{} ns", ns);
  // The largest unit in which the value, as it will be rounded, is at least 1 (2 for m and h).
  size_t best = 0;
  for (size_t i = 1; i < kSteps.size(); ++i) {
    const double least = i < 3 ? 0.9995 : 2;
    if (static_cast<double>(ns) / static_cast<double>(kSteps[i].multiplier) >= least) best = i;
  }
  const double value = static_cast<double>(ns) / static_cast<double>(kSteps[best].multiplier);
  return fmt::format("{} {}", Short(value), kSteps[best].name);
}

}  // namespace weir
