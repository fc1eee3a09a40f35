// Goal: every complete example of the reference documents is accepted. Method: reads the ```toml
// blocks.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "catalog/config.h"
#include "scenario/scenario.h"

namespace weir::scenario {
namespace {

std::vector<std::string> TomlBlocks(const std::string& document) {
  std::ifstream file(std::string(WEIR_DOCS_DIR) + "/" + document);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> blocks;
  const std::string open = "```toml\n";
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    blocks.push_back(text.substr(at, text.find("```", at) - at));
  }
  return blocks;
}

TEST(Documents, ExamplesOfWeirTomlAreAccepted) {
  const std::vector<std::string> blocks = TomlBlocks("config.md");
  EXPECT_GE(blocks.size(), 2u);
  for (const std::string& block : blocks) {
    const Result<catalog::Config> config = catalog::ParseConfig(block, "config.md");
    EXPECT_TRUE(config.has_value()) << config.error().message << "\n" << block;
    EXPECT_TRUE(config->warnings.empty());
    EXPECT_TRUE(catalog::Resolve(*config, "", 0, nullptr).has_value());
  }
}

TEST(Documents, ExamplesOfScenariosAreAccepted) {
  const std::vector<std::string> blocks = TomlBlocks("scenarios.md");
  EXPECT_GE(blocks.size(), 1u);
  for (const std::string& block : blocks) {
    const Result<Scenario> scenario = ParseScenario(block, "scenarios.md");
    EXPECT_TRUE(scenario.has_value()) << scenario.error().message << "\n" << block;
  }
}

}  // namespace
}  // namespace weir::scenario
