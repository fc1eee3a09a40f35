// The one binary: weir SUBCOMMAND. What exists is registered by weir_command() in CMakeLists.txt.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/text.h"

namespace {

std::vector<std::string> Subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// "weir help" is "weir --help", "weir help sim" is "weir sim --help".
void UnderstandHelp(std::vector<std::string>* arguments) {
  if (arguments->empty() || arguments->front() != "help") return;
  arguments->erase(arguments->begin());
  arguments->push_back("--help");
}

// Empty if the first argument is a subcommand, an option or nothing.
std::string WhyNoSubcommand(const std::vector<std::string>& arguments,
                            const std::vector<std::string>& known) {
  if (arguments.empty() || arguments.front().starts_with('-')) return "";
  const std::string& word = arguments.front();
  if (std::find(known.begin(), known.end(), word) != known.end()) return "";
  const std::string match = weir::ClosestMatch(word, known);
  return fmt::format("there is no subcommand {}; {}", weir::Quote(word),
                     match.empty() ? "write one of: " + weir::JoinNames(known)
                                   : fmt::format("did you mean {}?", weir::Quote(match)));
}

std::string FailureMessage(const CLI::App* app, const CLI::Error& error) {
  std::string command = "weir";
  for (const CLI::App* chosen : app->get_subcommands()) command += " " + chosen->get_name();
  return fmt::format("{}: {}; {} --help tells more\n", command, error.what(), command);
}

int Parse(CLI::App* app, std::vector<std::string> arguments) {
  UnderstandHelp(&arguments);
  if (const std::string why = WhyNoSubcommand(arguments, Subcommands(*app)); !why.empty()) {
    fmt::print(stderr, "weir: {}\n", why);
    return 2;
  }
  try {
    app->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Weir shares disks among tenants: reservations, limits and weights that hold.",
               "weir"};
  app.set_version_flag("-V,--version", "weir " WEIR_VERSION);
  app.require_subcommand(1);
  app.failure_message(FailureMessage);
  app.footer(
      "weir SUBCOMMAND --help (or: weir help SUBCOMMAND) tells more. Start with: weir demo\n"
      "Exit status: 0 done and all promises held, 1 a promise or the work failed, 2 bad usage or "
      "input,\n"
      "128 + N after signal N: 130 after Ctrl-C, 143 after SIGTERM, 129 after a hang-up.");
  int status = 0;
#ifdef WEIR_COMMAND_SIM
  weir::app::AddSim(&app, &status);
#endif
#ifdef WEIR_COMMAND_CALIBRATE
  weir::app::AddCalibrate(&app, &status);
#endif
#ifdef WEIR_COMMAND_BENCH
  weir::app::AddBench(&app, &status);
#endif
#ifdef WEIR_COMMAND_DEMO
  weir::app::AddDemo(&app, &status);
#endif
#ifdef WEIR_COMMAND_VOLUME
  weir::app::AddVolume(&app, &status);
#endif
#ifdef WEIR_COMMAND_CTL
  weir::app::AddCtl(&app, &status);
#endif
#ifdef WEIR_COMMAND_TOP
  weir::app::AddTop(&app, &status);
#endif
  if (const int usage = Parse(&app, {argv + 1, argv + argc}); usage != 0) status = usage;
  // Numbers that nobody received are not a success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("weir: standard output could not be written; what was printed is lost\n", stderr);
    if (status == 0) status = 2;
  }
  return status;
}
