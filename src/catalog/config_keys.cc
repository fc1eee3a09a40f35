#include "catalog/config_keys.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace weir::catalog {
namespace {

struct RateKey {
  std::string_view name;
  Dimension dimension;
  bool is_min;
  Scope scope;
};

constexpr std::array kRateKeys = {
    RateKey{"min_iops", Dimension::kNorm, true, Scope::kBoth},
    RateKey{"max_iops", Dimension::kNorm, false, Scope::kBoth},
    RateKey{"max_read_iops", Dimension::kNorm, false, Scope::kRead},
    RateKey{"max_write_iops", Dimension::kNorm, false, Scope::kWrite},
    RateKey{"min_raw_iops", Dimension::kRaw, true, Scope::kBoth},
    RateKey{"max_raw_iops", Dimension::kRaw, false, Scope::kBoth},
    RateKey{"max_read_raw_iops", Dimension::kRaw, false, Scope::kRead},
    RateKey{"max_write_raw_iops", Dimension::kRaw, false, Scope::kWrite},
    RateKey{"min_bandwidth", Dimension::kBytes, true, Scope::kBoth},
    RateKey{"max_bandwidth", Dimension::kBytes, false, Scope::kBoth},
    RateKey{"max_read_bandwidth", Dimension::kBytes, false, Scope::kRead},
    RateKey{"max_write_bandwidth", Dimension::kBytes, false, Scope::kWrite},
};

struct PercentKey {
  std::string_view name;
  double Directive::*member;
};

constexpr std::array kPercentKeys = {
    PercentKey{"min_iops", &Directive::min_iops},
    PercentKey{"max_iops", &Directive::max_iops},
    PercentKey{"weight_iops", &Directive::weight_iops},
    PercentKey{"min_bandwidth", &Directive::min_bandwidth},
    PercentKey{"max_bandwidth", &Directive::max_bandwidth},
    PercentKey{"mgmt_p1", &Directive::mgmt_p1},
};

tl::unexpected<Error> Refuse(std::string_view text, std::string_view why) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", Quote(text), why));
}

tl::unexpected<Error> NoSuchKey(std::string_view key, const std::vector<std::string>& known) {
  const std::string match = ClosestMatch(key, known);
  return Fail(ErrorCode::kNotFound,
              fmt::format("unknown key {}; {}", Quote(key),
                          match.empty() ? "known keys: " + JoinNames(known, 40)
                                        : fmt::format("did you mean {}?", Quote(match))));
}

// Decimal digits with an optional point and no sign, exponent, "inf" or "nan".
Result<double> ParsePlainNumber(std::string_view text) {
  double value = 0;
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.") == text.npos;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (!plain || error != std::errc() || end != text.data() + text.size()) {
    return Fail(ErrorCode::kInvalidArgument, "");
  }
  return value;
}

Result<int64_t> ParseWeight(std::string_view text) {
  int64_t weight = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  if (error != std::errc() || end != text.data() + text.size() || weight < 0 ||
      weight > kMaxWeight) {
    return Refuse(text, fmt::format("a weight is a whole number between 0 and {}", kMaxWeight));
  }
  return weight;
}

Result<double> ParsePercent(std::string_view text) {
  std::string_view digits = text;
  if (digits.ends_with('%')) digits.remove_suffix(1);
  if (digits.ends_with(' ')) digits.remove_suffix(1);
  const Result<double> percent = ParsePlainNumber(digits);
  if (!percent) {
    return Refuse(text, "it must be a percentage between 0 and 100, for example 60");
  }
  if (const std::string why = WhyNoPercent(*percent); !why.empty()) return Refuse(text, why);
  return percent;
}

Result<int64_t> ParseRate(const RateKey& key, std::string_view text) {
  const Result<int64_t> rate =
      key.dimension == Dimension::kBytes ? ParseByteRate(text) : ParseOpsRate(text);
  if (!rate) return rate;
  if (key.is_min && *rate == kUnlimited) {
    return Refuse(text, "a reservation cannot be unlimited; write a rate, or 0 for none");
  }
  if (!key.is_min && *rate == 0) {
    return Refuse(text,
                  "a limit of 0 would block for ever; write a small rate, or \"unlimited\" for no "
                  "limit");
  }
  return rate;
}

}  // namespace

const std::vector<std::string>& UnitKeys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    for (const RateKey& key : kRateKeys) names.emplace_back(key.name);
    names.emplace_back("iops_weight");
    names.emplace_back("burst");
    return names;
  }();
  return keys;
}

const std::vector<std::string>& DirectiveKeys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    for (const PercentKey& key : kPercentKeys) names.emplace_back(key.name);
    return names;
  }();
  return keys;
}

Result<void> SetUnitKey(Unit* unit, std::string_view key, std::string_view text) {
  if (key == "iops_weight") {
    const Result<int64_t> weight = ParseWeight(text);
    if (!weight) return tl::unexpected(weight.error());
    unit->params.weight = *weight;
    return {};
  }
  if (key == "burst") {
    const Result<Duration> burst = ParseDuration(text);
    if (!burst) return tl::unexpected(burst.error());
    if (*burst > kMaxBurst) {
      return Refuse(text, fmt::format("a burst is at most {}", FormatDuration(kMaxBurst)));
    }
    unit->burst = *burst;
    ApplyBurst(unit->burst, &unit->params);
    return {};
  }
  for (const RateKey& known : kRateKeys) {
    if (known.name != key) continue;
    const Result<int64_t> rate = ParseRate(known, text);
    if (!rate) return tl::unexpected(rate.error());
    if (known.is_min) {
      unit->params.MinOf(known.dimension) = *rate;
    } else {
      unit->params.MaxOf(known.dimension, known.scope) = *rate;
    }
    ApplyBurst(unit->burst, &unit->params);
    return {};
  }
  return NoSuchKey(key, UnitKeys());
}

Result<void> SetDirectiveKey(Directive* directive, std::string_view key, std::string_view text) {
  for (const PercentKey& known : kPercentKeys) {
    if (known.name != key) continue;
    const Result<double> percent = ParsePercent(text);
    if (!percent) return tl::unexpected(percent.error());
    if (key.starts_with("max_") && *percent == 0) {
      return Refuse(text, "a limit of 0 would block for ever; write a small percentage, or 100");
    }
    directive->*known.member = *percent;
    return {};
  }
  return NoSuchKey(key, DirectiveKeys());
}

void ApplyBurst(Duration burst, ResourceParams* params) {
  for (int d = 0; d < kDimensions; ++d) {
    for (int s = 0; s < kScopes; ++s) {
      const int64_t rate = params->max[d][s];
      const bool set = burst.count() >= 0 && rate != kUnlimited;
      params->burst[d][s] =
          set ? static_cast<int64_t>(static_cast<__int128>(rate) * burst.count() / 1'000'000'000)
              : -1;
    }
  }
}

int64_t Millionths(double percent) {
  return percent < 0 ? -1 : static_cast<int64_t>(std::llround(percent * kMillionthsAPercent));
}

std::string WhyNoPercent(double percent) {
  if (!std::isfinite(percent) || percent < 0 || percent > 100) {
    return "it is a percentage of the node above, between 0 and 100";
  }
  if (percent > 0 && Millionths(percent) < 100) {
    return "a percentage other than 0 is at least 0.01";
  }
  return {};
}

std::string MinKey(Dimension dimension) {
  for (const RateKey& key : kRateKeys) {
    if (key.is_min && key.dimension == dimension) return std::string(key.name);
  }
  return {};
}

std::string MaxKey(Dimension dimension, Scope scope) {
  for (const RateKey& key : kRateKeys) {
    if (!key.is_min && key.dimension == dimension && key.scope == scope) {
      return std::string(key.name);
    }
  }
  return {};
}

std::string FormatRate(Dimension dimension, int64_t rate) {
  return dimension == Dimension::kBytes ? FormatByteRate(rate) : FormatOpsRate(rate);
}

}  // namespace weir::catalog
