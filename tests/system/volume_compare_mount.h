// A small FUSE daemon for tests: blocking threads read requests; the file system under test
// answers; data goes by pread and pwrite. A process above it keeps the mount and the state, and can
// kill and replace the daemon all the time. No scheduler.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace weir::volume {

// Mounts on construction, unmounts (lazily if need be) and ends its processes on destruction.
class TestMount {
 public:
  // `kill_every`: the daemon is killed (SIGKILL) after random times of this mean, and replaced; 0:
  // never. Null and `why`: what is missing here (/dev/fuse, the right to mount).
  static std::unique_ptr<TestMount> Start(const std::string& backing, const std::string& mountpoint,
                                          std::chrono::microseconds kill_every, std::string* why);
  ~TestMount();
  TestMount(const TestMount&) = delete;
  TestMount& operator=(const TestMount&) = delete;

  // How often a daemon was replaced.
  [[nodiscard]] uint64_t replaced() const { return replaced_->load(); }

 private:
  explicit TestMount(std::string mountpoint);

  std::string mountpoint_;
  std::atomic<uint64_t>* replaced_;  // shared with the supervisor
  pid_t supervisor_ = -1;
};

}  // namespace weir::volume
