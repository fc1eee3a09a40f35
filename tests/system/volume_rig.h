// Volumes in tests: a mount that never outlives its test, fio, and why a test cannot run here.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

extern char** environ;

namespace weir {

// Empty: a volume can be mounted here. Else why not.
inline std::string WhyNoVolume() {
  if (geteuid() != 0) return "mounting a volume needs root";
  if (access("/dev/fuse", R_OK | W_OK) != 0) return "there is no /dev/fuse here";
  return "";
}

inline bool IsMounted(const std::string& mountpoint) {
  const std::string wanted = std::filesystem::path(mountpoint).lexically_normal().string();
  std::ifstream mounts("/proc/self/mounts");
  std::string device;
  std::string where;
  std::string rest;
  while (mounts >> device >> where && std::getline(mounts, rest)) {
    if (where == wanted) return true;
  }
  return false;
}

// Takes `mountpoint` off the tree when this process ends, however it ends.
class MountGuard {
 public:
  explicit MountGuard(const std::string& mountpoint) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      setsid();
      close(ends[1]);
      char byte = 0;
      while (read(ends[0], &byte, 1) < 0) {
      }
      umount2(mountpoint.c_str(), MNT_FORCE);
      while (umount2(mountpoint.c_str(), MNT_DETACH) == 0) {
      }
      _exit(0);
    }
    close(ends[0]);
    end_ = ends[1];
  }
  ~MountGuard() {
    if (end_ >= 0) close(end_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  MountGuard(const MountGuard&) = delete;
  MountGuard& operator=(const MountGuard&) = delete;

 private:
  pid_t pid_ = -1;
  int end_ = -1;
};

// Switches FUSE over io_uring on for the life of a test, where the kernel has it.
class FuseOverIoUring {
 public:
  FuseOverIoUring() {
    std::ifstream(kParameter) >> before_;
    if (before_ == "N") std::ofstream(kParameter) << "Y";
  }
  ~FuseOverIoUring() {
    if (before_ == "N") std::ofstream(kParameter) << "N";
  }
  FuseOverIoUring(const FuseOverIoUring&) = delete;
  FuseOverIoUring& operator=(const FuseOverIoUring&) = delete;
  // Empty: it is on.
  [[nodiscard]] static std::string WhyNot() {
    std::string now;
    std::ifstream(kParameter) >> now;
    return now == "Y" || now == "1" ? "" : "this kernel has no FUSE over io_uring (Linux 6.14)";
  }

 private:
  static constexpr const char* kParameter = "/sys/module/fuse/parameters/enable_uring";
  std::string before_;
};

// A program in the background.
class Program {
 public:
  Program(std::vector<std::string> arguments, const std::string& output) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    if (posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] bool started() const { return pid_ > 0; }
  [[nodiscard]] bool Running() {
    if (pid_ <= 0) return false;
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
    status_ = status;
    pid_ = -1;
    return false;
  }
  void Signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  // As a shell shows it; -1: it did not start.
  int Wait() {
    if (pid_ > 0 && waitpid(pid_, &status_, 0) == pid_) pid_ = -1;
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0xff00;
};

inline std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline bool HaveFio() { return std::system("command -v fio >/dev/null 2>&1") == 0; }

// The process id after `label` at its last place in `text`; -1: none.
inline pid_t PidAfter(const std::string& text, const std::string& label) {
  const size_t at = text.rfind(label);
  return at == std::string::npos ? -1 : std::stoi(text.substr(at + label.size()));
}

// The only child of `parent` that is named `name`; -1: there is none now.
inline pid_t ChildNamed(pid_t parent, const std::string& name) {
  std::ifstream children("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                         "/children");
  pid_t child = -1;
  while (children >> child) {
    std::string comm;
    std::getline(std::ifstream("/proc/" + std::to_string(child) + "/comm") >> std::ws, comm);
    if (comm == name) return child;
  }
  return -1;
}

}  // namespace weir
