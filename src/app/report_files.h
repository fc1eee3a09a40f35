// The reports of `weir sim` and `weir bench`: where to write them, checked before the run.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "scenario/report.h"

namespace CLI {
class App;
}

namespace weir::app {

// File names; empty = none, "-" = standard output.
struct ReportFiles {
  std::string json, csv, html;

  // One of them goes to standard output: a table would be in its way.
  [[nodiscard]] bool Piped() const;
};

// A file that a report must not replace.
struct InputFile {
  std::string what;  // "the scenario", for messages
  std::string path;  // empty: none
};

// Adds --json, --csv and --html; `interval` names what a line of CSV is for, "interval" or
// "second".
void AddReportOptions(CLI::App* command, const char* interval, ReportFiles* files);

// Before the run: each can be written, no two are the same file, and none is an input. Errors:
// kInvalidArgument; kIo.
[[nodiscard]] Result<void> CheckReports(const ReportFiles& files,
                                        const std::vector<InputFile>& inputs);

// Errors: kIo, with what was written and what was not.
[[nodiscard]] Result<void> WriteReports(const ReportFiles& files, const scenario::RunResult& result,
                                        const std::vector<scenario::Verdict>& verdicts);

}  // namespace weir::app
