// What /proc tells of a thread that makes requests.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::volume {

struct ThreadFacts {
  bool alive = false;       // false: /proc does not have it; the rest is empty
  uint64_t start_time = 0;  // field 22 of /proc/TID/stat, of the thread itself
  // Whose requests these are: the thread itself, or the owner of a kernel worker that carries out
  // its io_uring requests. What follows is of that one.
  uint32_t tid = 0;
  uint32_t process = 0;  // 0: not asked for
  uint64_t process_start = 0;
  std::string comm;
  std::vector<std::string> cgroups;  // of every hierarchy, without repetitions

  friend bool operator==(const ThreadFacts&, const ThreadFacts&) = default;
};

// What the rules need beyond /proc/TID/stat.
struct FactsWanted {
  bool cgroup = false;
  bool process = false;
};

// PURE. Nothing: not what the kernel writes.
struct StatLine {
  std::string comm;
  uint64_t flags = 0;
  uint64_t start_time = 0;
};
[[nodiscard]] std::optional<StatLine> ParseStat(std::string_view text);
[[nodiscard]] std::vector<std::string> ParseCgroups(std::string_view text);
[[nodiscard]] uint32_t ParseTgid(std::string_view status);  // 0: none
// The owner that the name of a kernel worker tells ("iou-wrk-17", "iou-sqp-17"); 0: another name.
[[nodiscard]] uint32_t WorkerOwner(std::string_view comm);

// Cost: 1 to 4 small files of /proc, which never wait for a disk; more for a kernel worker.
[[nodiscard]] ThreadFacts ReadThreadFacts(uint32_t tid, FactsWanted wanted,
                                          const std::string& proc = "/proc");

// When the process or thread started. Errors: kNotFound: there is none.
[[nodiscard]] Result<uint64_t> StartTimeOf(uint32_t tid, const std::string& proc = "/proc");

}  // namespace weir::volume
