// Runs the built binary as a user does, for tests: arguments, both outputs, signals, exit status.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

extern char** environ;

namespace weir {

// A child process whose output is read as it comes. Threads: one.
class WeirProcess {
 public:
  explicit WeirProcess(std::vector<std::string> arguments, const std::string& directory = "") {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    if (!directory.empty()) {
      posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
    }
    arguments.insert(arguments.begin(), WEIR_BINARY);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    if (posix_spawn(&pid_, WEIR_BINARY, &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_end_ = ends[0];
  }
  ~WeirProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (output_end_ >= 0) close(output_end_);
  }
  WeirProcess(const WeirProcess&) = delete;
  WeirProcess& operator=(const WeirProcess&) = delete;

  // Reads until the output holds `text`; false if the process ends its output before.
  bool AwaitOutput(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!ReadSome()) return false;
    }
    return true;
  }
  void Signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  // Reads the rest and waits. The exit status as a shell shows it: 128 + signal if one ended it.
  int Wait() {
    while (ReadSome()) {
    }
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  [[nodiscard]] const std::string& output() const { return output_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  bool ReadSome() {
    char buffer[4096];
    const ssize_t got = read(output_end_, buffer, sizeof buffer);
    if (got <= 0) return false;
    output_.append(buffer, static_cast<size_t>(got));
    return true;
  }

  pid_t pid_ = -1;
  int output_end_ = -1;
  std::string output_;
};

// Runs it to its end.
struct WeirOutcome {
  int status = -1;
  std::string output;  // both streams
};
inline WeirOutcome RunWeir(const std::vector<std::string>& arguments,
                           const std::string& directory = "") {
  WeirProcess process(arguments, directory);
  const int status = process.Wait();
  return {status, process.output()};
}

// A directory of its own for each test, with one for scratch files in it.
class WeirSystemTest : public ::testing::Test {
 protected:
  WeirSystemTest() {
    std::string pattern = ::testing::TempDir() + "/weir_system_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::filesystem::create_directories(scratch());
  }
  ~WeirSystemTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::string scratch() const { return Path("scratch"); }
  [[nodiscard]] std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
};

// A small disk-friendly scenario; `more` is appended. Its limits are far below any disk's rate.
inline std::string SmallScenario(const std::string& duration, const std::string& more = "") {
  return "title = \"small\"\nduration = \"" + duration + R"("
[bench]
file_size = "64MiB"
[[device]]
name = "d"
path = "."
capacity_iops = 20_000
depth = 16
[[unit]]
name = "double"
iops_weight = 200
[[unit]]
name = "single"
iops_weight = 100
[[unit]]
name = "reserved"
iops_weight = 0
min_iops = 400
[[unit]]
name = "limited"
max_iops = 200
[[load]]
name = "double"
group = "double"
threads = 32
[[load]]
name = "single"
group = "single"
threads = 32
[[load]]
name = "reserved"
group = "reserved"
threads = 16
[[load]]
name = "limited"
group = "limited"
threads = 16
)" + more;
}

}  // namespace weir
