// What takes part in the owner thread's loop beside files: the transports of a volume. Internal.
//
// It shares the engine's ring and thread, so that a request that arrives through it reaches the
// scheduler, and its completion the transport, without a thread switch.
// Threads: the owner, all.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"
#include "datapath/uring/ring.h"

namespace weir::uring {

// What an extension gets at the start.
struct LoopStart {
  Ring* ring = nullptr;  // lives until the last round
  int wake_fd = -1;      // the engine's own descriptor beside the ring's
  // The extension's slots of the ring's table of files: kFiles from here on.
  uint32_t first_file = 0;
};

class LoopExtension {
 public:
  static constexpr uint32_t kFiles = 4;

  virtual ~LoopExtension() = default;
  LoopExtension(const LoopExtension&) = delete;
  LoopExtension& operator=(const LoopExtension&) = delete;

  // What it needs of the ring: called before Start.
  [[nodiscard]] virtual bool NeedsWideEntries() const = 0;
  // Entries and completions that it may have outstanding, beside the engine's.
  [[nodiscard]] virtual uint32_t MostOutstanding() const = 0;

  // Before the first round; an error ends Engine::Create.
  [[nodiscard]] virtual Result<void> Start(const LoopStart& start) = 0;
  // An entry prepared with UserData(token) has completed.
  virtual void Complete(uint64_t token, const Ring::Completion& completion) = 0;
  // Once a round, before requests are dispatched and the ring is entered. True: there is more to
  // do at once, so that the loop does not sleep.
  [[nodiscard]] virtual bool Round(TimePoint now) = 0;

  // Requires: token < 2^61.
  static constexpr uint64_t UserData(uint64_t token) { return token << 3 | kTag; }
  static constexpr bool IsOurs(uint64_t user_data) { return (user_data & 7) == kTag; }
  static constexpr uint64_t Token(uint64_t user_data) { return user_data >> 3; }

 protected:
  LoopExtension() = default;

 private:
  static constexpr uint64_t kTag = 3;  // the engine's own are 1, 2 and pointers
};

}  // namespace weir::uring
