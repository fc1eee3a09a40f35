// The subcommands of the one binary. Each Add* registers its subcommand on `app`; its callback
// does the work and leaves the process's exit status in *status: 0 done (and all promises held),
// 1 a promise or the work failed, 2 bad usage or input.
#pragma once

namespace CLI {
class App;
}

namespace weir::app {

void AddSim(CLI::App* app, int* status);
void AddCalibrate(CLI::App* app, int* status);
void AddBench(CLI::App* app, int* status);
void AddDemo(CLI::App* app, int* status);
void AddVolume(CLI::App* app, int* status);
void AddCtl(CLI::App* app, int* status);
void AddTop(CLI::App* app, int* status);

}  // namespace weir::app
