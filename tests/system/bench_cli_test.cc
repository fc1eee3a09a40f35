// Goal: `weir bench` on a real file gives each unit what it was promised, reports it well-formed,
// and refuses bad input before it touches anything. Method: the built binary on short scenarios;
// only ratios and limits are judged, never speed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weir_process.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BenchCommand : public WeirSystemTest {
 protected:
  // The mean normalised IOPS of a unit after the first second.
  static double Mean(const nlohmann::json& json, const std::string& path) {
    size_t index = 0;
    for (; index < json["groups"].size(); ++index) {
      if (json["groups"][index]["path"] == path) break;
    }
    double served = 0;
    double seconds = 0;
    for (const auto& interval : json["intervals"]) {
      if (interval["start_s"].get<double>() < 0.5) continue;
      const auto length = interval["length_s"].get<double>();
      served += interval["groups"][index]["norm_iops"].get<double>() * length;
      seconds += length;
    }
    return served / seconds;
  }
};

// A disk shared with others may stand still for seconds, in which nobody gets anything: such a run
// says nothing about isolation and is repeated.
TEST_F(BenchCommand, GivesEachUnitWhatItWasPromised) {
  const std::string file = Write("s.toml", SmallScenario("5s"));
  WeirOutcome run;
  nlohmann::json json;
  for (int attempt = 0; attempt < 3; ++attempt) {
    run = RunWeir({"bench", file, "--file", scratch(), "--json", Path("r.json"), "--quiet"});
    ASSERT_EQ(run.status, 0) << run.output;
    json = nlohmann::json::parse(Read(Path("r.json")));
    EXPECT_LE(Mean(json, "limited"), 1.02 * 200) << run.output;
    if (Mean(json, "reserved") >= 0.95 * 400 && Mean(json, "limited") >= 0.90 * 200) break;
  }
  EXPECT_NEAR(Mean(json, "double") / Mean(json, "single"), 2.0, 0.1) << run.output;
  EXPECT_GE(Mean(json, "reserved"), 0.95 * 400) << run.output;
  EXPECT_GE(Mean(json, "limited"), 0.90 * 200) << run.output;
  EXPECT_EQ(json["errors"], 0);
  EXPECT_TRUE(json["isolated"].get<bool>());
  EXPECT_TRUE(std::filesystem::is_empty(scratch()));
}

TEST_F(BenchCommand, WithoutIsolationNobodyIsHeldBackAndNothingIsPromised) {
  const std::string expect = "[[expect]]\nmetric = \"norm_iops\"\ngroup = \"limited\"\nmax = 210\n";
  const std::string file = Write("s.toml", SmallScenario("2s", expect));
  const WeirOutcome run = RunWeir({"bench", file, "--file", scratch(), "--json", Path("r.json"),
                                   "--quiet", "--without-isolation"});
  EXPECT_EQ(run.status, 0) << run.output;
  const auto json = nlohmann::json::parse(Read(Path("r.json")));
  EXPECT_FALSE(json["isolated"].get<bool>());
  EXPECT_GT(Mean(json, "limited"), 400) << run.output;
}

TEST_F(BenchCommand, AMissedPromiseIsStatusOne) {
  const std::string expect =
      "[[expect]]\nmetric = \"norm_iops\"\ngroup = \"limited\"\nmin = 1000\n";
  const std::string file = Write("s.toml", SmallScenario("1s", expect));
  const WeirOutcome run = RunWeir({"bench", file, "--file", scratch(), "--quiet"});
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("MISSED"));
}

TEST_F(BenchCommand, ReportsAreWellFormedAndAgree) {
  const std::string file = Write("s.toml", SmallScenario("2s"));
  const WeirOutcome run = RunWeir({"bench", file, "--file", scratch(), "--json", Path("r.json"),
                                   "--csv", Path("r.csv"), "--html", Path("r.html")});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("-- 0-"));  // the live table
  const auto json = nlohmann::json::parse(Read(Path("r.json")));
  EXPECT_EQ(json["groups"].size(), 4u);
  EXPECT_GE(json["intervals"].size(), 2u);
  const std::string csv = Read(Path("r.csv"));
  const auto lines = static_cast<size_t>(std::count(csv.begin(), csv.end(), '\n'));
  EXPECT_EQ(lines, 1 + json["groups"].size() * json["intervals"].size());
  EXPECT_THAT(csv, HasSubstr("start_s,"));
  const std::string html = Read(Path("r.html"));
  EXPECT_THAT(html, HasSubstr("</html>"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
}

TEST_F(BenchCommand, JsonOnStandardOutputIsAlone) {
  const std::string file = Write("s.toml", SmallScenario("500ms"));
  const WeirOutcome run = RunWeir({"bench", file, "--file", scratch(), "--json", "-"});
  ASSERT_EQ(run.status, 0) << run.output;
  const size_t begin = run.output.find('{');  // progress on stderr comes before
  ASSERT_NE(begin, std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(run.output.substr(begin))) << run.output;
}

TEST_F(BenchCommand, RunsEveryKindOfLoadAndChange) {
  const std::string file = Write("s.toml", R"(
duration = "1500ms"
[bench]
file_size = "64MiB"
[[device]]
name = "d"
path = "."
capacity_iops = 20_000
[[unit]]
name = "a"
max_iops = 2000
[[unit]]
name = "b"
max_bandwidth = "10MB/s"
[[load]]
name = "mixed"
group = "a"
threads = 4
depth = 2
sizes = [{ size = "512", share = 0.2 }, { size = "4KiB", share = 0.5 }, { size = "256KiB", share = 0.3 }]
read_share = 0.5
[[load]]
name = "open"
group = "a"
rate = 300
size = "4KiB"
deadline = "50ms"
[[load]]
name = "bursts"
group = "b"
threads = 2
think = "1ms"
think_random = true
burst_on = "200ms"
burst_off = "100ms"
pattern = "sequential"
start = "100ms"
stop = "1200ms"
[[change]]
at = "500ms"
target = "b"
set = { max_bandwidth = "20MB/s", max_iops = 500 }
)");
  const WeirOutcome run = RunWeir({"bench", file, "--file", scratch()});
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("max_iops = 500"));
  EXPECT_THAT(run.output, HasSubstr("load bursts starts"));
}

TEST_F(BenchCommand, ComparesWithTheSameLoadUnscheduled) {
  const std::string file = Write("s.toml", SmallScenario("1s"));
  const WeirOutcome run =
      RunWeir({"bench", file, "--file", scratch(), "--compare", "3", "--json", Path("pairs.json")});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("median of 3 pairs"));
  const auto json = nlohmann::json::parse(Read(Path("pairs.json")));
  ASSERT_EQ(json["pairs"].size(), 3u);
  for (const auto& pair : json["pairs"]) {
    EXPECT_GT(pair["scheduled"].get<double>(), 0);
    EXPECT_GT(pair["unscheduled"].get<double>(), 0);
  }
  EXPECT_GT(json["median_ratio"].get<double>(), 0);
}

TEST_F(BenchCommand, ASeedAndADurationCanBeGiven) {
  const std::string file = Write("s.toml", SmallScenario("1h"));
  const WeirOutcome run = RunWeir(
      {"bench", file, "--file", scratch(), "--duration", "300ms", "--seed", "7", "--quiet"});
  EXPECT_EQ(run.status, 0) << run.output;
}

TEST_F(BenchCommand, AFileThatWasThereIsNeverWrittenUnasked) {
  const std::string content(1 << 20, 'x');
  const std::string data = Write("data", content);
  const std::string writes =
      "duration = \"200ms\"\n[[device]]\nname = \"d\"\npath = \".\"\ncapacity_iops = 1000\n"
      "[[unit]]\nname = \"u\"\n[[load]]\nname = \"w\"\ngroup = \"u\"\nread_share = 0.5\n";
  const std::string file = Write("s.toml", writes);
  const WeirOutcome refused = RunWeir({"bench", file, "--file", data});
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("--overwrite-file"));
  EXPECT_TRUE(Read(data) == content);

  const WeirOutcome asked = RunWeir({"bench", file, "--file", data, "--overwrite-file", "-q"});
  EXPECT_EQ(asked.status, 0) << asked.output;
  const std::string after = Read(data);
  EXPECT_TRUE(after != content);
  EXPECT_EQ(after.size(), content.size());
}

TEST_F(BenchCommand, AFileThatWasThereIsReadAndKept) {
  const std::string content(1 << 20, 'x');
  const std::string data = Write("data", content);
  std::string text = SmallScenario("300ms");
  text.replace(text.find("[bench]\nfile_size = \"64MiB\""), 27, "");
  const WeirOutcome run = RunWeir({"bench", Write("s.toml", text), "--file", data, "-q"});
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_TRUE(Read(data) == content);
}

TEST_F(BenchCommand, BadInputIsStatusTwoAndSaysWhatToDo) {
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> expected;
  };
  const std::string good = Write("good.toml", SmallScenario("200ms"));
  const std::string unknown_key = Write("key.toml", SmallScenario("1s", "[[load]]\nspeed = 3\n"));
  const std::string no_group =
      Write("group.toml", SmallScenario("1s", "[[load]]\nname = \"x\"\ngroup = \"singel\"\n"));
  const std::string above = Write(
      "above.toml", SmallScenario("1s", "[[unit]]\nname = \"x\"\nmin_iops = 2\nmax_iops = 1\n"));
  const std::string dangling = Path("dangling");
  std::filesystem::create_symlink(Path("target"), dangling);
  std::string places = SmallScenario("200ms");
  places.replace(places.find("path = \".\""), 10, "path = \"/no/such/disk\"");
  const std::string no_device = Write("device.toml", places);
  places.replace(places.find("[bench]"), 7, "[bench]\nfile = \"/no/such/file\"");
  const std::string no_file = Write("file.toml", places);
  const std::string data = Write("data", "kept");
  const std::vector<Case> cases = {
      {{"bench", Path("missing.toml")}, {"missing.toml", "No such file"}},
      {{"bench", scratch()}, {scratch()}},
      {{"bench", Write("empty.toml", "")}, {"empty.toml", "[[load]]"}},
      {{"bench", Write("broken.toml", "[[[\n")}, {"broken.toml:1"}},
      {{"bench", unknown_key}, {"key.toml:", "speed"}},
      {{"bench", no_group}, {"group.toml:", "singel", "single"}},
      {{"bench", above}, {"above.toml:", "min_iops", "max_iops"}},
      {{"bench", good, "--duration", "5"}, {"--duration", "unit"}},
      {{"bench", good, "--duration", "25h"}, {"--duration"}},
      {{"bench", good, "--max-piece", "1000"}, {"--max-piece", "4 KiB"}},
      {{"bench", good, "--file", Path("no/such/dir")}, {"no/such", "--file"}},
      {{"bench", good, "--file", Path("nowhere")}, {"nowhere", "No such file", "--file"}},
      {{"bench", good, "--file", dangling}, {"dangling", "No such file", "--file"}},
      {{"bench", good, "--file", good + "/x"}, {"good.toml/x", "Not a directory", "--file"}},
      {{"bench", no_device}, {"/no/such/disk", "path of device \"d\"", "--file"}},
      {{"bench", no_file}, {"/no/such/file", "file of [bench]", "--file"}},
      {{"bench", good, "--file", "/dev/null"}, {"/dev/null"}},
      {{"bench", good, "--json", scratch()}, {scratch(), "directory"}},
      {{"bench", good, "--html", Path("no/such/page.html")}, {"page.html"}},
      {{"bench", good, "--json", good}, {"--json", "overwrite the scenario"}},
      {{"bench", good, "--file", data, "--html", data}, {"--html", "the loads run on"}},
      {{"bench", good, "--json", Path("r"), "--csv", Path("r")}, {"--json", "--csv", "one file"}},
      {{"bench", good, "--compare", "3", "--without-isolation"},
       {"--compare", "--without-isolation"}},
      {{"bench", good, "--compare", "3", "--csv", Path("r")}, {"--compare", "--csv"}},
      {{"bench", good, "--compare", "3", "--html", Path("r")}, {"--compare", "--html"}},
      {{"bench", good, "--file", ""}, {"--file", "empty"}},
      {{"bench", good, "--json", ""}, {"--json", "empty"}},
      {{"bench", good, "--duration", ""}, {"--duration", "empty"}},
      {{"bench", good, "--max-piece", ""}, {"--max-piece", "empty"}},
      {{"bench", good, "--seed", "-4"}, {"--seed", "not \"-4\""}},
      {{"bench", good, "--frobnicate"}, {"--frobnicate"}},
      {{"bench"}, {"FILE"}},
  };
  for (const Case& c : cases) {
    const WeirOutcome run = RunWeir(c.arguments, scratch());
    EXPECT_EQ(run.status, 2) << ::testing::PrintToString(c.arguments) << "\n" << run.output;
    for (const std::string& text : c.expected) EXPECT_THAT(run.output, HasSubstr(text));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch()));
  EXPECT_EQ(Read(data), "kept");
  EXPECT_EQ(Read(good), SmallScenario("200ms"));
}

// A profile that would strangle the disk, or let everything pass, is found before anything is
// written.
TEST_F(BenchCommand, AnImplausibleProfileIsRefused) {
  std::string text = SmallScenario("200ms");
  const std::string capacity = "capacity_iops = 20_000";
  text.replace(text.find(capacity), capacity.size(), "profile = \"" + Path("p.json") + "\"");
  const std::string file = Write("s.toml", text);
  const WeirOutcome missing = RunWeir({"bench", file, "--file", scratch()});
  EXPECT_EQ(missing.status, 2) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("p.json"));
  for (const char* iops : {"2", "1e9"}) {
    const std::string profile =
        Write("p.json", std::string("{\"weir_profile\": 1, \"capacity_iops\": ") + iops +
                            ", \"curve\": {\"read\": {\"random\": [[16384, 100000]]}}}");
    const WeirOutcome run = RunWeir({"bench", file, "--file", scratch()});
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_THAT(run.output, HasSubstr("implausible"));
    EXPECT_THAT(run.output, HasSubstr(profile));
    EXPECT_THAT(run.output, Not(HasSubstr("writing the")));
  }
}

TEST_F(BenchCommand, TheExamplesRun) {
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_EXAMPLES)) {
    if (entry.path().extension() != ".toml") continue;
    const WeirOutcome sim = RunWeir({"sim", entry.path().string(), "--quiet"});
    EXPECT_EQ(sim.status, 0) << entry.path() << "\n" << sim.output;
  }
}

}  // namespace
}  // namespace weir
