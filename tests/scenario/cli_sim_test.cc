// Goal: `weir sim` tells by its exit status and its output what a script needs. Method: the built
// binary, as a user calls it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int status = -1;
  std::string output;  // both streams
};

Outcome Weir(const std::string& arguments) {
  const std::string command = std::string(WEIR_BINARY) + " " + arguments + " 2>&1";
  Outcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    outcome.output.append(buffer, n);
  }
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

class SimCommand : public ::testing::Test {
 protected:
  SimCommand()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("weir_cli_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~SimCommand() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  // A run whose only promise is about the whole device of 10,000.
  std::string Scenario(const std::string& min) const {
    return Write("s.toml",
                 "title = \"two units\"\nduration = \"2s\"\n"
                 "[[unit]]\nname = \"a\"\n[[unit]]\nname = \"b\"\nmax_iops = 500\n"
                 "[[load]]\nname = \"a\"\ngroup = \"a\"\nthreads = 32\n"
                 "[[load]]\nname = \"b\"\ngroup = \"b\"\nthreads = 32\n"
                 "[[expect]]\nmetric = \"norm_iops\"\ngroup = \"a\"\nfrom = \"1s\"\nmin = " +
                     min + "\n");
  }

  std::filesystem::path folder_;
};

TEST_F(SimCommand, SucceedsWhenAllPromisesHold) {
  const Outcome outcome = Weir("sim " + Scenario("8000"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Promises: 1 of 1 held"));
  EXPECT_THAT(outcome.output, HasSubstr("-- 1-2 s --"));
  EXPECT_THAT(outcome.output, HasSubstr("MAX_IOPS(norm)"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("\x1b")));  // no colours in a pipe
}

TEST_F(SimCommand, FailsWhenAPromiseIsMissed) {
  const Outcome outcome = Weir("sim -q " + Scenario("9900"));
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("MISSED"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("-- 1-2 s --")));
}

TEST_F(SimCommand, RefusesBadInputWithPlaceAndFix) {
  const Outcome typo = Weir("sim " + Write("bad.toml", "duratoin = \"2s\"\n"));
  EXPECT_EQ(typo.status, 2);
  EXPECT_THAT(typo.output, HasSubstr("bad.toml:1"));
  EXPECT_THAT(typo.output, HasSubstr("duration"));
  const Outcome missing = Weir("sim " + Path("nowhere.toml"));
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.output, HasSubstr("nowhere.toml"));
  for (const char* usage : {"sim", "sim --seed x y.toml", "nonsense", "", "sim a b c"}) {
    EXPECT_EQ(Weir(usage).status, 2) << usage;
  }
}

TEST_F(SimCommand, WritesReports) {
  const Outcome outcome = Weir("sim -q " + Scenario("8000") + " --json " + Path("r.json") +
                               " --csv " + Path("r.csv") + " --html " + Path("r.html"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const auto json = nlohmann::json::parse(Read(Path("r.json")));
  EXPECT_EQ(json["title"], "two units");
  EXPECT_EQ(json["intervals"].size(), 2u);
  EXPECT_NEAR(json["intervals"][1]["groups"][1]["norm_iops"].get<double>(), 500, 10);
  EXPECT_THAT(Read(Path("r.csv")), HasSubstr("start_s,length_s,group"));
  EXPECT_THAT(Read(Path("r.html")), HasSubstr("</html>"));
}

TEST_F(SimCommand, JsonOnStandardOutputIsJustThat) {
  const Outcome outcome = Weir("sim " + Scenario("8000") + " --json -");
  EXPECT_TRUE(nlohmann::json::accept(outcome.output));
}

TEST_F(SimCommand, WhereAReportCannotBeWrittenIsFoundBeforeTheRun) {
  const std::string file = Scenario("8000");
  const std::string before = Read(file);
  std::filesystem::create_symlink(file, Path("link.toml"));
  struct Case {
    std::string arguments;
    const char* expected;
  };
  for (const Case& c :
       {Case{"--csv /nonexistent/r.csv", "/nonexistent/r.csv"},
        Case{"--json " + folder_.string(), "is a directory"},
        Case{"--json " + file, "overwrite the scenario"},
        Case{"--json " + Path("link.toml"), "overwrite the scenario"},
        Case{"--json " + Path("r") + " --csv " + Path("./r"), "are one file"},
        Case{"--json - --csv -", "are one file"}, Case{"--json ''", "--json: it is empty"}}) {
    const Outcome outcome = Weir("sim " + file + " " + c.arguments);
    EXPECT_EQ(outcome.status, 2) << c.arguments;
    EXPECT_THAT(outcome.output, HasSubstr(c.expected));
    EXPECT_THAT(outcome.output, Not(HasSubstr("simulated device"))) << "it ran: " << c.arguments;
  }
  EXPECT_EQ(Read(file), before);
  EXPECT_FALSE(std::filesystem::exists(Path("r")));
}

TEST_F(SimCommand, AReportThatFailsInTheEndIsAFailure) {
  const Outcome outcome = Weir("sim -q " + Scenario("8000") + " --csv /dev/full");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("/dev/full"));
}

TEST_F(SimCommand, StandardOutputByAnyNameIsJustTheReport) {
  const std::string run = "sim " + Scenario("8000") + " --json /dev/stdout";
  const Outcome outcome = Weir(run);
  EXPECT_TRUE(nlohmann::json::accept(outcome.output)) << outcome.output;
  Weir(run + " > " + Path("out.json"));
  EXPECT_TRUE(nlohmann::json::accept(Read(Path("out.json"))));
}

TEST_F(SimCommand, ASeedReplaysARun) {
  const std::string file = Scenario("8000");
  const std::string first = Weir("sim --seed 7 " + file + " --csv -").output;
  EXPECT_EQ(first, Weir("sim --seed 7 " + file + " --csv -").output);
}

TEST(Command, AnUnknownSubcommandIsNamedAndTheNearestOneSuggested) {
  const Outcome outcome = Weir("bnech x.toml");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("bnech"));
  EXPECT_THAT(outcome.output, HasSubstr("\"bench\""));
  EXPECT_EQ(Weir("help sim").output, Weir("sim --help").output);
  EXPECT_EQ(Weir("help").output, Weir("--help").output);
  EXPECT_EQ(Weir("help nothing").status, 2);
}

TEST(Command, HelpTellsOptionsStatusesAndExamples) {
  const Outcome all = Weir("--help");
  EXPECT_EQ(all.status, 0);
  EXPECT_THAT(all.output, HasSubstr("Exit status: 0"));
  for (const std::string command : {"sim", "calibrate", "bench", "demo"}) {
    EXPECT_THAT(all.output, HasSubstr("  " + command + " "));
    const Outcome help = Weir(command + " --help");
    EXPECT_EQ(help.status, 0);
    for (const std::string& text : {"Usage: weir " + command, std::string("Exit status: 0"),
                                    std::string("Examples:\n  weir " + command)}) {
      EXPECT_THAT(help.output, HasSubstr(text)) << command;
    }
    if (command == "sim") continue;  // a signal just ends it
    for (const char* status : {"130", "143", "129"}) {
      EXPECT_THAT(help.output, HasSubstr(status)) << command;
    }
  }
  EXPECT_EQ(Weir("--version").output.rfind("weir ", 0), 0u);
}

}  // namespace
}  // namespace weir
