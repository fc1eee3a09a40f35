// Goal: patterns mean what docs/config.md says, also against a plain reference, and cannot be made
// to take for ever.
#include "catalog/glob.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace weir::catalog {
namespace {

// By definition, exponential.
bool Reference(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.starts_with("**")) {
    for (size_t n = 0; n <= text.size(); ++n) {
      if (Reference(pattern.substr(2), text.substr(n))) return true;
    }
    return false;
  }
  if (pattern[0] == '*') {
    if (Reference(pattern.substr(1), text)) return true;
    return !text.empty() && text[0] != '/' && Reference(pattern, text.substr(1));
  }
  if (text.empty()) return false;
  if (pattern[0] != text[0] && (pattern[0] != '?' || text[0] == '/')) return false;
  return Reference(pattern.substr(1), text.substr(1));
}

TEST(Glob, MeansWhatTheReferenceSays) {
  struct Case {
    const char* pattern;
    const char* text;
    bool matches;
  };
  const Case cases[] = {
      {"", "", true},
      {"", "a", false},
      {"a", "a", true},
      {"a", "ab", false},
      {"*", "", true},
      {"*", "abc", true},
      {"*", "a/b", false},
      {"**", "a/b/c", true},
      {"?", "a", true},
      {"?", "/", false},
      {"fio*", "fio", true},
      {"*.ibd", "t1.ibd", true},
      {"*.ibd", "d/t1.ibd", false},
      {"**.ibd", "d/t1.ibd", true},
      {"a/**/b", "a/b", true},
      {"a/**/b", "a/x/y/b", true},
      {"a/**/b", "a/xb", false},
      {"**/b", "b", true},
      {"**/b", "a/b", true},
      {"**/b", "ab", false},
      {"a**b", "a/x/b", true},
      {"*a*b/*c", "xaxb/yc", true},
      {"*a*b/*c", "xax/yb/c", false},
      {"a/**", "a", false},
      {"a/**", "a/b/c", true},
      {"[a]", "[a]", true},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(GlobMatches(c.pattern, c.text), c.matches) << c.pattern << " on " << c.text;
  }
}

TEST(Glob, AgreesWithTheDefinitionOnRandomPatterns) {
  Random random(7);
  for (int i = 0; i < 200'000; ++i) {
    std::string pattern;
    std::string text;
    for (int64_t n = random.Range(0, 7 - 1); n > 0; --n)
      pattern += "ab*?*/"[random.Range(0, 6 - 1)];
    for (int64_t n = random.Range(0, 9 - 1); n > 0; --n) text += "aab/"[random.Range(0, 4 - 1)];
    if (pattern.find("**/") != std::string::npos) continue;  // means more than the reference has
    if (pattern.find("***") != std::string::npos) continue;
    ASSERT_EQ(GlobMatches(pattern, text), Reference(pattern, text)) << pattern << " on " << text;
  }
}

TEST(Glob, TheWorstCaseEnds) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "a*";
  EXPECT_FALSE(GlobMatches(pattern + "b", std::string(4096, 'a')));
  EXPECT_FALSE(GlobMatches("**" + pattern + "b", std::string(2048, 'a')));
}

TEST(Glob, AboveMeansAllBelowToo) {
  EXPECT_TRUE(GlobMatchesAtOrAbove("/docker/ab", "/docker/ab"));
  EXPECT_TRUE(GlobMatchesAtOrAbove("/docker/ab", "/docker/ab/init.scope"));
  EXPECT_FALSE(GlobMatchesAtOrAbove("/docker/ab", "/docker/abc"));
  EXPECT_TRUE(GlobMatchesAtOrAbove("/docker/*", "/docker/abc/x/y"));
  EXPECT_FALSE(GlobMatchesAtOrAbove("/docker/*", "/docker"));
  EXPECT_TRUE(GlobMatchesAtOrAbove("/", "/"));
  EXPECT_TRUE(GlobMatchesAtOrAbove("/", "/a/b"));
  EXPECT_TRUE(GlobMatchesAtOrAbove("db/t?", "db/t1/part"));
  EXPECT_FALSE(GlobMatchesAtOrAbove("t1", "db/t1"));
  EXPECT_TRUE(GlobMatchesAtOrAbove("**/t1", "db/t1"));
}

}  // namespace
}  // namespace weir::catalog
