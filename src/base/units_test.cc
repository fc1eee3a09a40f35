// Goal: what people write is read exactly (1500 stays 1500), what is doubtful is refused with a
// message that shows how to write it, and what is shown can be read back.
#include "base/units.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/resource_params.h"
#include "base/text.h"

namespace weir {
namespace {

using Parser = Result<int64_t> (*)(std::string_view);

Result<int64_t> DurationNanos(std::string_view text) {
  const Result<Duration> duration = ParseDuration(text);
  if (!duration) return tl::unexpected(duration.error());
  return duration->count();
}

struct Good {
  const char* text;
  int64_t value;
};

void ExpectAll(Parser parse, const std::vector<Good>& rows) {
  for (const Good& row : rows) {
    const Result<int64_t> value = parse(row.text);
    ASSERT_TRUE(value.has_value()) << value.error().message;
    EXPECT_EQ(*value, row.value) << row.text;
  }
}

struct Wrong {
  std::string text;
  const char* message;
};

void ExpectRefused(Parser parse, const std::vector<Wrong>& rows) {
  for (const Wrong& row : rows) {
    const Result<int64_t> value = parse(row.text);
    ASSERT_FALSE(value.has_value()) << Quote(row.text) << " gave " << *value;
    EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(value.error().message, row.message);
  }
}

TEST(OpsRate, ReadsNumbersAndSuffixes) {
  ExpectAll(ParseOpsRate, {{"0", 0},
                           {"1", kOp},
                           {"1500", 1500 * kOp},
                           {"0001500", 1500 * kOp},
                           {"5000/s", 5000 * kOp},
                           {"5000 /s", 5000 * kOp},
                           {"1.5k", 1500 * kOp},
                           {"1.5k/s", 1500 * kOp},
                           {"20M", 20'000'000 * kOp},
                           {"2G/s", 2'000'000'000 * kOp},
                           {"0.5", kOp / 2},
                           {"0.1", 6554},
                           {"62.5000000000000000", 62 * kOp + kOp / 2},
                           {"unlimited", kUnlimited},
                           {"15258789062", 15'258'789'062 * kOp}});
}

TEST(OpsRate, EveryWholeNumberIsExact) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const int64_t rate = random.Range(0, random.Range(1, kMaxRate / kOp));
    EXPECT_EQ(ParseOpsRate(std::to_string(rate)).value(), rate * kOp);
  }
}

TEST(OpsRate, RefusesWhatIsNoRate) {
  const char* const kFix = "; write for example \"5000\", \"1.5k\" or \"unlimited\"";
  const auto message = [&](const std::string& front) { return front + kFix; };
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", message("\"\" is not an operation rate: it is empty")},
      {"-5", message("\"-5\" is not an operation rate: it is negative")},
      {"+5", message("\"+5\" is not an operation rate: it does not begin with a number")},
      {" 5", message("\" 5\" is not an operation rate: it does not begin with a number")},
      {"x", message("\"x\" is not an operation rate: it does not begin with a number")},
      {"nan", message("\"nan\" is not an operation rate: it does not begin with a number")},
      {"inf", message("\"inf\" is not an operation rate: it does not begin with a number")},
      {"5x", message("\"5x\" is not an operation rate: unknown unit \"x\"")},
      {"5K", message("\"5K\" is not an operation rate: unknown unit \"K\", did you mean \"k\"?")},
      {"1e6", message("\"1e6\" is not an operation rate: unknown unit \"e6\"")},
      {"5,000", message("\"5,000\" is not an operation rate: write the digits without separators")},
      {"5_000", message("\"5_000\" is not an operation rate: write the digits without separators")},
      {"5.", message("\"5.\" is not an operation rate: there is no digit after the point")},
      {".5", message("\".5\" is not an operation rate: it does not begin with a number")},
      {"0.0000000001",
       message("\"0.0000000001\" is not an operation rate: it has more than 9 digits after the "
               "point")},
      {"0.000001",
       message("\"0.000001\" is not an operation rate: it is too small to be told from 0")},
      {"15258789063", message("\"15258789063\" is not an operation rate: it is above the maximum "
                              "of 15,258,789,062/s")},
      {"9999999999999999999G",
       message("\"9999999999999999999G\" is not an operation rate: it is above the maximum of "
               "15,258,789,062/s")},
      {"10000000000000000000", message("\"10000000000000000000\" is not an operation rate: the "
                                       "number has too many digits")},
      {"5 \n", message("\"5 \\n\" is not an operation rate: unknown unit \"\\n\"")},
  };
  for (const auto& [text, expected] : rows) {
    ExpectRefused(ParseOpsRate, {{text, expected.c_str()}});
  }
}

TEST(ByteRate, ReadsDecimalBinaryAndBitUnits) {
  ExpectAll(ParseByteRate, {{"4096B/s", 4096},
                            {"800kB/s", 800'000},
                            {"50MB/s", 50'000'000},
                            {"50.0 MB/s", 50'000'000},
                            {"1GB/s", 1'000'000'000},
                            {"1KiB/s", 1024},
                            {"1MiB/s", 1 << 20},
                            {"1.5MiB/s", 3 << 19},
                            {"1.3KiB/s", 1331},
                            {"2GiB/s", int64_t{2} << 30},
                            {"200Mbit/s", 25'000'000},
                            {"0B/s", 0},
                            {"1000TB/s", kMaxRate},
                            {"unlimited", kUnlimited}});
}

TEST(ByteRate, RefusesWhatIsDoubtful) {
  ExpectRefused(
      ParseByteRate,
      {{"5000",
        "\"5000\" is not a bandwidth: it has no unit; write for example \"50MB/s\", \"1MiB/s\" or "
        "\"unlimited\""},
       {"50MB",
        "\"50MB\" is not a bandwidth: the unit lacks \"/s\": \"MB/s\"; write for example "
        "\"50MB/s\", \"1MiB/s\" or \"unlimited\""},
       {"50KB/s",
        "\"50KB/s\" is not a bandwidth: \"KB\" is ambiguous: kB is 1000, KiB is 1024; write for "
        "example \"50MB/s\", \"1MiB/s\" or \"unlimited\""},
       {"50mb/s",
        "\"50mb/s\" is not a bandwidth: unknown unit \"mb/s\", did you mean \"MB/s\"?; write for "
        "example \"50MB/s\", \"1MiB/s\" or \"unlimited\""},
       {"0.3B/s",
        "\"0.3B/s\" is not a bandwidth: it is not a whole number of bytes; write for example "
        "\"50MB/s\", \"1MiB/s\" or \"unlimited\""},
       {"0.0001kB/s",
        "\"0.0001kB/s\" is not a bandwidth: it is too small to be told from 0; write for example "
        "\"50MB/s\", \"1MiB/s\" or \"unlimited\""},
       {"1001TB/s",
        "\"1001TB/s\" is not a bandwidth: it is above the maximum of 1,000,000,000 MB/s; write for "
        "example \"50MB/s\", \"1MiB/s\" or \"unlimited\""}});
}

TEST(Bytes, ReadsSizes) {
  ExpectAll(ParseBytes, {{"0", 0},
                         {"512", 512},
                         {"512B", 512},
                         {"4k", 4096},
                         {"4K", 4096},
                         {"2m", 2 << 20},
                         {"2M", 2 << 20},
                         {"1g", 1 << 30},
                         {"16KiB", 16384},
                         {"16 KiB", 16384},
                         {"2MiB", 2 << 20},
                         {"1.5MiB", 3 << 19},
                         {"1kB", 1000},
                         {"1MB", 1'000'000},
                         {"1TiB", int64_t{1} << 40},
                         {"9223372036854775807", INT64_MAX}});
}

TEST(Bytes, RefusesOverflowFractionsAndOddUnits) {
  const char* const kFix = "; write for example \"16KiB\", \"4k\" or \"2MiB\"";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"9223372036854775808", "it is above the maximum of 8,388,607 TiB"},
      {"9000000TiB", "it is above the maximum of 8,388,607 TiB"},
      {"1.5", "it is not a whole number of bytes"},
      {"16KB", "\"KB\" is ambiguous: kB is 1000, KiB is 1024"},
      {"16kib", "unknown unit \"kib\", did you mean \"KiB\"?"},
      {"unlimited", "it does not begin with a number"},
  };
  for (const auto& [text, why] : rows) {
    const std::string message = Quote(text) + " is not a size: " + why + kFix;
    ExpectRefused(ParseBytes, {{text, message.c_str()}});
  }
}

TEST(DurationText, ReadsDurations) {
  ExpectAll(DurationNanos, {{"0s", 0},
                            {"1ns", 1},
                            {"250us", 250'000},
                            {"10ms", 10'000'000},
                            {"1.25 ms", 1'250'000},
                            {"1.5s", 1'500'000'000},
                            {"2m", 120'000'000'000},
                            {"24h", 86'400'000'000'000}});
}

TEST(DurationText, RefusesBareNumbersAndTooLongOrTooFineOnes) {
  const char* const kFix = "; write for example \"10ms\", \"1.5s\" or \"2m\"";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"10", "it has no unit"},
      {"1.5ns", "it is finer than a nanosecond"},
      {"10msec", "unknown unit \"msec\""},
      {"10Ms", "unknown unit \"Ms\", did you mean \"ms\"?"},
      {"700000h", "it is above the maximum of 640,000h"},
      {"-1s", "it is negative"},
  };
  for (const auto& [text, why] : rows) {
    const std::string message = Quote(text) + " is not a duration: " + why + kFix;
    ExpectRefused(DurationNanos, {{text, message.c_str()}});
  }
}

TEST(Units, EveryPrefixAndRandomBytesAreReadOrRefused) {
  Random random(3);
  const Parser parsers[] = {ParseOpsRate, ParseByteRate, ParseBytes, DurationNanos};
  const std::string alphabet = "0123456789.,/_-+ eEkKmMgGtTiBbsunh\n\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (int64_t n = random.Range(0, 30); n > 0; --n) {
      text +=
          alphabet[static_cast<size_t>(random.Range(0, static_cast<int64_t>(alphabet.size()) - 1))];
    }
    for (const Parser parse : parsers) {
      const Result<int64_t> value = parse(text);
      if (value) {
        EXPECT_GE(*value, 0);
      } else {
        EXPECT_TRUE(IsUtf8(value.error().message));
      }
    }
  }
}

TEST(Format, ShowsRates) {
  EXPECT_EQ(FormatOpsRate(0), "0/s");
  EXPECT_EQ(FormatOpsRate(5000 * kOp), "5,000/s");
  EXPECT_EQ(FormatOpsRate(1'234'567 * kOp), "1,234,567/s");
  EXPECT_EQ(FormatOpsRate(999 * kOp), "999/s");
  EXPECT_EQ(FormatOpsRate(62 * kOp + kOp / 2), "62.5/s");
  EXPECT_EQ(FormatOpsRate(kOp / 2), "0.5/s");
  EXPECT_EQ(FormatOpsRate(kOp / 1000), "0.00099/s");
  EXPECT_EQ(FormatOpsRate(1500 * kOp + 1), "1,500/s");
  EXPECT_EQ(FormatOpsRate(kUnlimited), "unlimited");
  EXPECT_EQ(FormatOpsRate(-5000 * kOp), "-5,000/s");
  EXPECT_FALSE(FormatOpsRate(INT64_MIN).empty());
}

TEST(Format, ShowsBandwidths) {
  EXPECT_EQ(FormatByteRate(0), "0 B/s");
  EXPECT_EQ(FormatByteRate(999), "999 B/s");
  EXPECT_EQ(FormatByteRate(50'000'000), "50.0 MB/s");
  EXPECT_EQ(FormatByteRate(1 << 20), "1.0 MB/s");
  EXPECT_EQ(FormatByteRate(999'970), "1.0 MB/s");
  EXPECT_EQ(FormatByteRate(kMaxRate), "1000.0 TB/s");
  EXPECT_EQ(FormatByteRate(kUnlimited), "unlimited");
  EXPECT_EQ(FormatByteRate(-1500), "-1.5 kB/s");
}

TEST(Format, ShowsSizes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(16384), "16 KiB");
  EXPECT_EQ(FormatBytes(3 << 19), "1.5 MiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1 MiB");
  EXPECT_EQ(FormatBytes(INT64_MAX), "8388608 TiB");
}

TEST(Format, ShowsDurations) {
  const auto format = [](int64_t ns) { return FormatDuration(Duration(ns)); };
  EXPECT_EQ(format(0), "0 ns");
  EXPECT_EQ(format(999), "999 ns");
  EXPECT_EQ(format(1000), "1 us");
  EXPECT_EQ(format(1'250'000), "1.25 ms");
  EXPECT_EQ(format(12'340'000), "12.3 ms");
  EXPECT_EQ(format(999'900), "1 ms");
  EXPECT_EQ(format(20'000'000'000), "20 s");
  EXPECT_EQ(format(90'000'000'000), "90 s");
  EXPECT_EQ(format(150'000'000'000), "2.5 m");
  EXPECT_EQ(format(86'400'000'000'000), "24 h");
  EXPECT_EQ(format(-1'250'000), "-1.25 ms");
  EXPECT_FALSE(format(INT64_MIN).empty());
}

TEST(Format, WhatIsShownCanBeReadBackWithinItsPrecision) {
  Random random(9);
  for (int i = 0; i < 2000; ++i) {
    const int64_t value = random.Range(1, random.Range(1, kMaxRate));
    const auto near = [&](const Result<int64_t>& back, double tolerance) {
      ASSERT_TRUE(back.has_value()) << back.error().message;
      EXPECT_NEAR(static_cast<double>(*back), static_cast<double>(value),
                  static_cast<double>(value) * tolerance + 1);
    };
    near(ParseByteRate(FormatByteRate(value)), 0.05);
    near(ParseBytes(FormatBytes(value)), 0.05);
    near(DurationNanos(FormatDuration(Duration(value))), 0.05);
  }
}

}  // namespace
}  // namespace weir
