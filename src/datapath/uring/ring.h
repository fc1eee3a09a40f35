// A thin wrapper of one io_uring: what the owner thread needs of it. Internal.
// Threads: one, from Create on (IORING_SETUP_SINGLE_ISSUER); the destructor on any.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "datapath/uring/engine.h"

namespace weir::uring {

// Where a request goes: a slot of the ring's file table, or a descriptor where there is none.
struct RingFile {
  int fd = -1;
  bool fixed = false;
};

class Ring {
 public:
  struct Completion {
    uint64_t user_data = 0;
    int32_t result = 0;
  };

  // Uses SINGLE_ISSUER, DEFER_TASKRUN and COOP_TASKRUN where the kernel has them. Errors:
  // kUnavailable; the message says what to do.
  [[nodiscard]] static Result<std::unique_ptr<Ring>> Create(uint32_t entries, uint32_t max_files);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // How many more Prepare calls fit before the next Enter.
  [[nodiscard]] uint32_t SpaceLeft() const;

  // Queue one operation for the next Enter. Requires: SpaceLeft() > 0.
  void PrepareTransfer(RingFile file, bool write, void* buffer, uint32_t bytes, int64_t offset,
                       int32_t region, uint64_t user_data);
  void PrepareSync(RingFile file, bool data_only, uint64_t user_data);
  void PrepareCancel(uint64_t target, uint64_t user_data);
  void PrepareCancelAll(uint64_t user_data);

  // Submits what is prepared; if `wait`, until a completion is there or `timeout` has passed
  // (kForever: none). Costs one system call. Returns 0 or a negative errno that is not just a
  // time-out or a signal; what was prepared stays so then.
  static constexpr Duration kForever = Duration::max();
  int Enter(bool wait, Duration timeout);

  // Takes up to `max` completions. No system call.
  int Reap(Completion* completions, int max);
  [[nodiscard]] bool HasCompletions() const;
  // The kernel has finished work that it will show after the next Enter.
  [[nodiscard]] bool NeedsEnter() const;

  // The ring's tables. False: there is none, or the kernel refused (registering is a matter of
  // speed only, so callers carry on without).
  [[nodiscard]] bool SetFile(uint32_t slot, int fd);                       // fd -1 clears
  [[nodiscard]] bool SetBuffer(uint32_t slot, void* data, int64_t bytes);  // nullptr clears

 private:
  struct State;
  explicit Ring(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weir::uring
