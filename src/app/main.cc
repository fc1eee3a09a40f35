// The one binary: weir SUBCOMMAND. What exists is registered by weir_command() in CMakeLists.txt.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Weir shares disks among tenants: reservations, limits and weights that hold.",
               "weir"};
  app.set_version_flag("-V,--version", "weir " WEIR_VERSION);
  app.require_subcommand(1);
  app.footer("weir SUBCOMMAND --help tells more. Start with: weir demo");
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    status = app.exit(error) == 0 ? 0 : 2;
  }
  // Numbers that nobody received are not a success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("weir: standard output could not be written; what was printed is lost\n", stderr);
    if (status == 0) status = 2;
  }
  return status;
}
