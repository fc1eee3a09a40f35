// A thin wrapper of one io_uring: what the owner thread needs of it. Internal.
// Threads: one, from Create on (IORING_SETUP_SINGLE_ISSUER); the destructor on any.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "datapath/uring/engine.h"

namespace weir::uring {

// What Create is asked for.
struct RingShape {
  uint32_t entries = 0;
  uint32_t completions = 0;  // 0: twice the entries
  uint32_t max_files = 0;
  bool wide_entries = false;  // submission entries of 128 bytes, as PrepareCommand needs
};

// How a transfer is done, beside what and where.
struct TransferFlags {
  int rw_flags = 0;
  uint16_t personality = 0;
};

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
    bool more = false;  // the same entry will complete again (PreparePoll)
  };

  // Uses SINGLE_ISSUER, DEFER_TASKRUN and COOP_TASKRUN where the kernel has them. Errors:
  // kUnavailable; the message says what to do.
  [[nodiscard]] static Result<std::unique_ptr<Ring>> Create(const RingShape& shape);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // How many more Prepare calls fit before the next Enter.
  [[nodiscard]] uint32_t SpaceLeft() const;
  // Prepared and not yet taken by the kernel.
  [[nodiscard]] uint32_t Unsubmitted() const;
  [[nodiscard]] int fd() const;

  // Queue one operation for the next Enter. Requires: SpaceLeft() > 0.
  void PrepareTransfer(RingFile file, bool write, void* buffer, uint32_t bytes, int64_t offset,
                       int32_t region, uint64_t user_data, TransferFlags flags = {});
  void PrepareSync(RingFile file, bool data_only, uint64_t user_data);
  // Writes dirty pages of the range out, without waiting for the disk (sync_file_range).
  void PrepareSyncRange(int fd, int64_t offset, uint32_t bytes, uint64_t user_data);
  // Completes whenever `fd` becomes readable, until Completion::more is false. One fresh event may
  // stand for several.
  void PreparePoll(RingFile file, uint64_t user_data);
  // IORING_OP_URING_CMD with `bytes` (at most 80) of command. Requires: wide_entries.
  void PrepareCommand(RingFile file, uint32_t operation, const void* address, uint32_t length,
                      const void* command, size_t bytes, uint64_t user_data);
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
  // Makes the calling thread's present credentials usable by TransferFlags::personality. 0:
  // refused.
  [[nodiscard]] uint16_t RegisterPersonality();

 private:
  struct State;
  explicit Ring(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weir::uring
