#include "app/report_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <array>
#include <functional>

#include "app/files.h"
#include "app/option_checks.h"

namespace weir::app {

namespace {

struct Report {
  const char* option;
  const std::string& file;
};

std::array<Report, 3> ReportsOf(const ReportFiles& files) {
  return {Report{"--json", files.json}, Report{"--csv", files.csv}, Report{"--html", files.html}};
}

// A device that takes everything, such as /dev/null, can be given twice.
bool IsCharacterDevice(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISCHR(st.st_mode);
}

}  // namespace

bool ReportFiles::Piped() const {
  return IsStandardOutput(json) || IsStandardOutput(csv) || IsStandardOutput(html);
}

void AddReportOptions(CLI::App* command, const char* interval, ReportFiles* files) {
  command
      ->add_option("--json", files->json,
                   "Write all numbers as JSON to this file (-: standard output);\n"
                   "durations in nanoseconds, rates per second, shares from 0 to 1")
      ->check(NotEmpty())
      ->type_name("FILE");
  command
      ->add_option("--csv", files->csv,
                   fmt::format("Write a line for each group and {} (-: standard output);\n"
                               "the header names the units",
                               interval))
      ->check(NotEmpty())
      ->type_name("FILE");
  command
      ->add_option("--html", files->html,
                   "Write a self-contained page with charts (-: standard output)")
      ->check(NotEmpty())
      ->type_name("FILE");
}

Result<void> CheckReports(const ReportFiles& files, const std::vector<InputFile>& inputs) {
  const auto reports = ReportsOf(files);
  for (size_t i = 0; i < reports.size(); ++i) {
    const auto& [option, file] = reports[i];
    if (file.empty()) continue;
    if (auto writable = CheckWritable(file); !writable) return writable;
    for (const InputFile& input : inputs) {
      if (input.path.empty() || !IsSameFile(file, input.path)) continue;
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{} {} would overwrite {}; give it a "
                                                           "file of its own",
                                                           option, file, input.what));
    }
    for (size_t j = 0; j < i; ++j) {
      if (reports[j].file.empty() || !IsSameFile(file, reports[j].file)) continue;
      if (file != "-" && IsCharacterDevice(file)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} {} and {} {} are one file; give each its own", reports[j].option,
                              reports[j].file, option, file));
    }
  }
  return {};
}

Result<void> WriteReports(const ReportFiles& files, const scenario::RunResult& result,
                          const std::vector<scenario::Verdict>& verdicts) {
  const std::array<std::function<std::string()>, 3> texts = {
      [&] { return scenario::ToJson(result, verdicts); }, [&] { return scenario::ToCsv(result); },
      [&] { return scenario::ToHtml(result.title, {result}, {verdicts}); }};
  // One that cannot be written must not take the others with it.
  Result<void> all;
  const auto reports = ReportsOf(files);
  for (size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].file.empty()) continue;
    Result<void> written = WriteTextFile(reports[i].file, texts[i]());
    if (written) continue;
    if (all) {
      all = std::move(written);
    } else {
      all.error().message += "; " + written.error().message;
    }
  }
  return all;
}

}  // namespace weir::app
