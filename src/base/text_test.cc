// Goal: quoted text stays one short printable line whatever the bytes; the nearest name is found,
// and none when nothing is near.
#include "base/text.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace weir {
namespace {

TEST(Text, DirectoryOfAnyPath) {
  EXPECT_EQ(DirectoryOf("a"), ".");
  EXPECT_EQ(DirectoryOf("/a"), "/");
  EXPECT_EQ(DirectoryOf("a/b/c"), "a/b");
  EXPECT_EQ(DirectoryOf(""), ".");
}

TEST(Quote, EscapesWhatWouldBreakALine) {
  EXPECT_EQ(Quote("plain"), "\"plain\"");
  EXPECT_EQ(Quote(""), "\"\"");
  EXPECT_EQ(Quote("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(Quote("a\nb\tc"), "\"a\\nb\\tc\"");
  EXPECT_EQ(Quote(std::string_view("\0\x1b\x7f", 3)), "\"\\x00\\x1B\\x7F\"");
  EXPECT_EQ(Quote("Größe"), "\"Größe\"");
  EXPECT_EQ(Quote("\xff\xc3"), "\"\\xFF\\xC3\"");
}

TEST(Quote, CutsLongTextAtACharacter) {
  EXPECT_EQ(Quote("abcdef", 4), "\"abcd...\"");
  EXPECT_EQ(Quote("abcd", 4), "\"abcd\"");
  EXPECT_EQ(Quote("abcö", 4), "\"abc...\"");
}

TEST(Printable, KeepsQuotesAndBackslashes) {
  EXPECT_EQ(Printable("a\"b\\c\n\xff", 64), "a\"b\\c\\n\\xFF");
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
}

TEST(Quote, RandomBytesGiveWellFormedUtf8) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (int64_t n = random.Range(0, 80); n > 0; --n) {
      bytes += static_cast<char>(random.Range(0, 255));
    }
    const std::string quoted = Quote(bytes);
    EXPECT_TRUE(IsUtf8(quoted));
    EXPECT_EQ(quoted.find('\n'), std::string::npos);
  }
}

TEST(IsUtf8, TellsWellFormedFromNot) {
  for (const char* good : {"", "a", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEF\xBF\xBF",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(good)) << Quote(good);
  }
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x80\x80", "\xED\xA0\x80", "\xE2\x82",
        "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xC3"}) {
    EXPECT_FALSE(IsUtf8(bad)) << Quote(bad);
  }
}

TEST(ClosestMatch, FindsTyposAndSwapsAndCase) {
  const std::vector<std::string> names = {"max_iops", "min_iops", "max_bandwidth", "name"};
  EXPECT_EQ(ClosestMatch("max_iop", names), "max_iops");
  EXPECT_EQ(ClosestMatch("mix_iops", names), "max_iops");
  EXPECT_EQ(ClosestMatch("max_ipos", names), "max_iops");
  EXPECT_EQ(ClosestMatch("MIN_IOPS", names), "min_iops");
  EXPECT_EQ(ClosestMatch("max_bandwith", names), "max_bandwidth");
  EXPECT_EQ(ClosestMatch("nmae", names), "name");
  EXPECT_EQ(ClosestMatch("iops_max", names), "max_iops");
}

TEST(ClosestMatch, GivesNothingWhenNothingIsNear) {
  const std::vector<std::string> names = {"max_iops", "name"};
  EXPECT_EQ(ClosestMatch("colour", names), "");
  EXPECT_EQ(ClosestMatch("", names), "");
  EXPECT_EQ(ClosestMatch("x", names), "");
  EXPECT_EQ(ClosestMatch(std::string(1000, 'a'), names), "");
  EXPECT_EQ(ClosestMatch("name", {}), "");
}

TEST(JoinNames, NamesTheRestByNumber) {
  EXPECT_EQ(JoinNames({}), "");
  EXPECT_EQ(JoinNames({"a"}), "a");
  EXPECT_EQ(JoinNames({"a", "b", "c"}, 3), "a, b, c");
  EXPECT_EQ(JoinNames({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

}  // namespace
}  // namespace weir
