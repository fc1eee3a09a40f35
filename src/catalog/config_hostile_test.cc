// Goal: no bytes crash, hang or exhaust the reader. Method: every prefix and many damaged copies of
// a good file, nesting bombs, sizes beyond the maxima.
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/text.h"
#include "catalog/config.h"
#include "catalog/toml_value.h"

namespace weir::catalog {
namespace {

constexpr std::string_view kGood = R"(strict = true
[[device]]
name = "d"
capacity_iops = 60_000
depth = "auto"
[[group]]
name = 'a'
[[group]]
name = "b"
comment = """two
lines"""
[[plan]]
name = "p"
directive = [ { group = "a", min_iops = 40.5, max_iops = 80 }, { subplan = "q" } ]
[[plan]]
name = "q"
[[plan.directive]]
group = "b"
[[unit]]
name = "u" # comment
plan = "p"
min_iops = 1e3
max_iops = "10k"
burst = "10ms"
max_bandwidth = "50MB/s"
)";

// Parses and, if that works, resolves; checks that a message is one printable line.
void Survive(std::string_view text) {
  const Result<Config> config = ParseConfig(text, "f");
  if (!config) {
    EXPECT_TRUE(IsUtf8(config.error().message)) << Quote(config.error().message, 500);
    EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
    EXPECT_LT(config.error().message.size(), 4000u);
    return;
  }
  EXPECT_TRUE(Resolve(*config, "", 0, nullptr).has_value());
}

TEST(Hostile, TheGoodFileIsGood) {
  const Result<Config> config = ParseConfig(kGood, "f");
  EXPECT_TRUE(config.has_value()) << config.error().message;
}

TEST(Hostile, EveryPrefixIsReadOrRefused) {
  for (size_t n = 0; n <= kGood.size(); ++n) Survive(kGood.substr(0, n));
}

TEST(Hostile, EveryByteMayBeLost) {
  for (size_t n = 0; n < kGood.size(); ++n) {
    std::string text(kGood);
    text.erase(n, 1);
    Survive(text);
  }
}

TEST(Hostile, DamagedCopiesAreReadOrRefused) {
  Random random(5);
  for (int i = 0; i < 5000; ++i) {
    std::string text(kGood);
    for (int64_t n = random.Range(1, 6); n > 0; --n) {
      const auto at = static_cast<size_t>(random.Range(0, static_cast<int64_t>(text.size()) - 1));
      switch (random.Range(0, 3)) {
        case 0:
          text[at] = static_cast<char>(random.Range(0, 255));
          break;
        case 1:
          text.insert(at, 1, "[]{}=\".,\n#'"[random.Range(0, 10)]);
          break;
        case 2:
          text.erase(at, static_cast<size_t>(random.Range(1, 20)));
          break;
        default:
          text.insert(at, text.substr(at, static_cast<size_t>(random.Range(1, 40))));
      }
      if (text.empty()) text = "x";
    }
    Survive(text);
  }
}

// Found by fuzzing: the TOML library asserts that a header begins with a key.
TEST(Hostile, AHeaderWithoutAKeyIsRefusedWithItsPlace) {
  for (const char* text :
       {"[=]", "[[=]]", "[$a]", "[.a]", "[ ", "[[ ", "[\n", "[[a]\n", "[a.]", "[a.=]", "[\"a\".$]",
        "{", "=", "[\x01]", "[[\xD5]]", "[\xE4\xBA\xBA]"}) {
    const Result<Config> config = ParseConfig(std::string("\n") + text, "f");
    ASSERT_FALSE(config.has_value()) << text;
    EXPECT_EQ(config.error().message.substr(0, 20), "f:2: not valid TOML ")
        << config.error().message;
  }
}

// Found by fuzzing: letters of some languages where a value, a key or an escape should be.
TEST(Hostile, LettersOutsideOfTextAreRefusedWithTheirPlace) {
  for (const char* letter :
       {"ä", "é", "\xC2\xA0", "\xC2\xA1", "\xD2\x81", "\xD2\x9A", "Ж", "א", "人", "\xE1\x9A\x80",
        "\xE2\x80\xA8", "\xEF\xBB\xBF", "\xF0\x9F\x98\x80"}) {
    for (const char* before : {"a = ", "", "a", "a = 1", "a = [", "a = {", "[", "a = \"\\",
                               "a = \"\"\"\\", "a = 1979-05-27", "a = 1.", "a = t"}) {
      const Result<Config> config = ParseConfig(std::string("\n") + before + letter + " \"", "f");
      ASSERT_FALSE(config.has_value()) << before << letter;
      EXPECT_EQ(config.error().message.substr(0, 20), "f:2: not valid TOML ")
          << config.error().message;
    }
    const std::string text = std::string("a = \"\"\"x\\\n  ") + letter + "\"\"\"";
    EXPECT_TRUE(ParseToml(text, "f").has_value()) << letter;
  }
}

TEST(Hostile, NestingBombsAreRefused) {
  const auto repeat = [](std::string_view part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  Survive("a = " + repeat("[", 1'000'000));
  Survive("a = " + repeat("{a=", 1'000'000));
  Survive("a = " + repeat("[", 300'000) + repeat("]", 300'000));
  Survive(repeat("a.", 1'000'000) + "a = 1");
  Survive("[" + repeat("a.", 1'000'000) + "a]");
  Survive("[[" + repeat("a . ", 500'000) + "a]]");
  Survive(repeat("'a'.", 500'000) + "a = 1");
  Survive(repeat("\"=[#\".", 500'000) + "a = 1");
}

TEST(Hostile, AsDeepAsBothLimitsAllowTogetherIsRead) {
  std::string key = "a";
  for (int i = 1; i < kMaxDotsALine; ++i) key += ".a";
  std::string value = "1";
  for (int i = 0; i + 2 < kMaxTomlDepth; i += 2) value = "[\n{" + key + " = " + value + "}]";
  const std::string text = "[" + key + "]\n" + key + " = " + value + "\n";
  const Result<TomlValue> document = ParseToml(text, "f");
  EXPECT_TRUE(document.has_value()) << document.error().message;
}

TEST(Hostile, DotsInTextAndCommentsAreNotMistakenForNesting) {
  const std::string line(3000, '.');
  EXPECT_TRUE(ParseToml("# " + line + "\na = \"" + line + "\"\n", "f").has_value());
  std::string numbers = "a = [";
  for (int i = 0; i < 50; ++i) numbers += "0.5, ";
  EXPECT_TRUE(ParseToml(numbers + "]\n", "f").has_value());
}

TEST(Hostile, TooManyDotsInALineNameTheLine) {
  std::string text = "x = 1\n";
  for (int i = 0; i <= kMaxDotsALine; ++i) text += "a.";
  EXPECT_EQ(ParseConfig(text + "a = 1\n", "f").error().message,
            "f:2: more than 100 points in one line; break the line");
}

TEST(Hostile, ManyValuesAreRefusedBeforeTheyAreBuilt) {
  std::string text = "a = [";
  for (int i = 0; i <= kMaxTomlSeparators; ++i) text += "1,";
  const Result<Config> config = ParseConfig(text + "]", "f");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(config.error().message,
            "f:1: more than 500000 lines and commas so far; is it the right file?");
}

TEST(Hostile, MoreOfAKindThanTheMaximumIsRefused) {
  struct Row {
    const char* table;
    size_t max;
  };
  for (const Row& row : {Row{"device", kMaxDevices}, Row{"unit", kMaxUnits}, Row{"plan", kMaxPlans},
                         Row{"group", kMaxGroups}}) {
    std::string text;
    for (size_t i = 0; i < row.max; ++i) {
      text += "[[" + std::string(row.table) + "]]\nname = \"n" + std::to_string(i) + "\"\n";
    }
    const Result<Config> at = ParseConfig(text, "f");
    EXPECT_TRUE(at.has_value()) << at.error().message;
    text += "[[" + std::string(row.table) + "]]\nname = \"n\"\n";
    const Result<Config> beyond = ParseConfig(text, "f");
    ASSERT_FALSE(beyond.has_value()) << row.table;
    EXPECT_EQ(beyond.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(beyond.error().message, "f:" + std::to_string(2 * row.max + 1) + ": " +
                                          std::to_string(row.max + 1) + " [[" + row.table +
                                          "]]: the maximum is " + std::to_string(row.max));
  }
}

TEST(Hostile, MoreDirectivesThanTheMaximumAreRefused) {
  std::string groups, directives = "[[plan]]\nname = \"p\"\n";
  for (size_t i = 0; i <= kMaxGroupsAPlan; ++i) {
    const std::string name = "\"g" + std::to_string(i) + "\"\n";
    groups += "[[group]]\nname = " + name;
    directives += "[[plan.directive]]\ngroup = " + name;
  }
  const Result<Config> config = ParseConfig(groups + directives, "f");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().message,
            "f:4005: 1001 [[directive]] of plan \"p\": the maximum is 1000");
}

}  // namespace
}  // namespace weir::catalog
