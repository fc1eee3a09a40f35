// Goal: the embedded scenarios are valid on any disk and keep the article's proportions.
#include "app/demo/scenarios.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "catalog/config.h"

namespace weir::app::demo {
namespace {

const catalog::TreeNode& Node(const std::vector<catalog::TreeNode>& nodes,
                              const std::string& path) {
  for (const catalog::TreeNode& node : nodes) {
    if (node.path == path) return node;
  }
  ADD_FAILURE() << "no node " << path;
  static const catalog::TreeNode none;
  return none;
}

TEST(DemoScenarios, AreValidOnSlowAndFastDisksAndInShort) {
  for (const double rate : {0.01, 0.5, 1.0, 1.2345, 40.0}) {
    for (const double seconds : {0.02, 0.3, 1.0}) {
      const Scale scale{rate, seconds};
      for (const auto& scenario : {FourTenants(scale), LoadsInTenant2(scale), LiveChange(scale)}) {
        ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
        std::vector<std::string> warnings;
        const auto nodes = catalog::Resolve(
            scenario->config, "", static_cast<int64_t>(kArticleIops * rate) * kOp, &warnings);
        ASSERT_TRUE(nodes.has_value()) << nodes.error().message;
        EXPECT_TRUE(warnings.empty()) << warnings.front();
      }
    }
  }
}

TEST(DemoScenarios, HaveTheArticlesNumbersOnItsDisk) {
  const auto scenario = LoadsInTenant2(Scale{});
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  const auto nodes = catalog::Resolve(scenario->config, "", 0, nullptr);
  ASSERT_TRUE(nodes.has_value()) << nodes.error().message;
  const auto max = [&](const char* path) {
    return Node(*nodes, path).params.MaxOf(Dimension::kNorm, Scope::kBoth) / kOp;
  };
  const auto min = [&](const char* path) {
    return Node(*nodes, path).params.MinOf(Dimension::kNorm) / kOp;
  };
  EXPECT_EQ(max("tenant2/A"), 1'000);
  EXPECT_EQ(min("tenant2/B"), 2'000);
  EXPECT_EQ(Node(*nodes, "tenant2/B").params.weight, 0);
  EXPECT_EQ(Node(*nodes, "tenant2/C").params.weight, 2 * Node(*nodes, "tenant2/D").params.weight);
  EXPECT_EQ(min("tenant3"), 10'000);
  EXPECT_EQ(max("tenant4"), 5'000);
  EXPECT_EQ(Node(*nodes, "tenant1").params.weight, 2 * Node(*nodes, "tenant2").params.weight);
}

TEST(DemoScenarios, Tenant3JoinsHalfWayThrough) {
  const auto scenario = FourTenants(Scale{1, 0.5});
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  EXPECT_EQ(scenario->duration, std::chrono::seconds(10));
  int late = 0;
  for (const scenario::Load& load : scenario->loads) {
    EXPECT_EQ(load.threads, kThreads);
    if (load.start.count() == 0) continue;
    EXPECT_EQ(load.group, "tenant3");
    EXPECT_EQ(load.start, std::chrono::seconds(5));
    ++late;
  }
  EXPECT_EQ(late, 1);
}

}  // namespace
}  // namespace weir::app::demo
