// The thread that completes I/O and sends the next request must not wait behind other programs for
// a CPU: while it does, the disk idles and every promise is late.
#pragma once

namespace weir::app {

enum class Priority {
  kRealTime,  // SCHED_RR, the lowest of its priorities
  kNice,      // ahead of ordinary programs
  kOrdinary,  // the kernel allowed neither
};

// Raises the calling thread as far as the kernel allows it (root, CAP_SYS_NICE or ulimit -r).
// Threads that it starts begin ordinary.
Priority RaisePriority();

// Raises the calling thread while it lives.
class RaisedPriority {
 public:
  RaisedPriority();
  ~RaisedPriority();
  RaisedPriority(const RaisedPriority&) = delete;
  RaisedPriority& operator=(const RaisedPriority&) = delete;

 private:
  int policy_before_ = 0;
  int niceness_before_ = 0;
};

// For people: "real-time priority", ...
[[nodiscard]] const char* Describe(Priority priority);

}  // namespace weir::app
