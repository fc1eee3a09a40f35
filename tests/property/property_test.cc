// Goal: the nine invariants of README.md hold on every tree, load and change.
// Method: librapidcheck makes small descriptions (Case); each describes a random tree, its loads
// and changes, which run in virtual time against exact meters. A failing case is shrunk and printed
// as one line; WEIR_PROPERTY_CASE='that line' replays it.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <string>

#include "case.h"
#include "run_case.h"

namespace weir::property {
namespace {

// Cases in all, over all kinds.
int CasesWanted() {
  const char* text = std::getenv("WEIR_PROPERTY_SEEDS");
  const int wanted = text == nullptr ? 200 : std::atoi(text);
  return wanted > 0 ? wanted : 200;
}

rc::Gen<Case> CasesOf(Kind kind) {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::arbitrary<uint32_t>(),
                     // Mostly small trees, where a fault is easy to see; some large.
                     rc::gen::weightedOneOf<int>({{4, rc::gen::inRange(2, 12)},
                                                  {3, rc::gen::inRange(12, 60)},
                                                  {1, rc::gen::inRange(60, 201)}}),
                     rc::gen::inRange(1, 5), rc::gen::inRange(0, 120)),
      [kind](const std::tuple<uint32_t, int, int, int>& drawn) {
        Case c;
        c.kind = kind;
        c.seed = std::get<0>(drawn);
        c.leaves = std::get<1>(drawn);
        c.depth = std::get<2>(drawn);
        c.changes = std::get<3>(drawn);
        return c;
      });
}

class Invariants : public testing::TestWithParam<int> {
 public:
  // rapidcheck reads RC_PARAMS at the first check: what is set there stays.
  static void SetUpTestSuite() {
    const char* given = std::getenv("RC_PARAMS");
    std::string params = given == nullptr ? "" : given;
    if (params.find("max_success") == std::string::npos) {
      params += " max_success=" + std::to_string((CasesWanted() + kKinds - 1) / kKinds);
    }
    // The same cases each time, unless more of them are asked for.
    if (params.find("seed") == std::string::npos && std::getenv("WEIR_PROPERTY_SEEDS") == nullptr) {
      params += " seed=1";
    }
    setenv("RC_PARAMS", params.c_str(), 1);
  }
};

TEST_P(Invariants, Hold) {
  const Kind kind = static_cast<Kind>(GetParam());
  EXPECT_TRUE(rc::check(std::string("invariants of ") + NameOf(kind) + " trees", [kind] {
    const Case c = *CasesOf(kind);
    const Outcome outcome = RunCase(c, false);
    if (outcome.violation_count != 0) {
      RC_FAIL("WEIR_PROPERTY_CASE='" + ToText(c) + "'\n" + Describe(outcome));
    }
    RC_ASSERT(outcome.requests > 0u);
  }));
}

INSTANTIATE_TEST_SUITE_P(Of, Invariants, testing::Range(0, kKinds), [](const auto& kind) {
  return std::string(NameOf(static_cast<Kind>(kind.param)));
});

TEST(Replay, OfTheCaseInTheEnvironment) {
  const char* text = std::getenv("WEIR_PROPERTY_CASE");
  if (text == nullptr) GTEST_SKIP() << "WEIR_PROPERTY_CASE is not set";
  const Result<Case> c = ParseCase(text);
  ASSERT_TRUE(c.has_value()) << c.error().message;
  const Outcome outcome = RunCase(*c, true);
  EXPECT_EQ(outcome.violation_count, 0u) << Describe(outcome);
}

}  // namespace
}  // namespace weir::property
