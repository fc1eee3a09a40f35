// Drives the loads of a scenario through an engine, on its owner thread: a completion submits the
// next request of its slot without a thread switch, an allocation or a clock read. Think times,
// rates, bursts and starts go through a Pacer.
//
// Threads: one caller; everything marked "owner" runs on the engine's thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/bench_pacer.h"
#include "base/histogram.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "datapath/uring/engine.h"
#include "scenario/scenario.h"

namespace weir::app {

// Buffers of all loads together; beyond it requests share memory (nobody looks at the data).
inline constexpr int64_t kMaxBufferBytes = int64_t{64} << 20;
// Outstanding requests that an open-loop load may pile up, if threads * depth is less.
inline constexpr int kOpenLoopSlots = 8192;
// A request that failed at once is tried again after this, as a client would.
inline constexpr Duration kRetryAfterFailure = std::chrono::milliseconds(10);

// What the requests of one leaf met since it was last taken.
struct LoadMeter {
  FineHistogram latency;  // completed ones; open loop: from the intended start
  uint64_t completed = 0;
  uint64_t failed = 0;
  uint64_t timeouts = 0;  // their deadline passed, or would have
};

// Cost dispatched (1/65536 normalised op) of one leaf in steps of time from the start of the run.
using DispatchGrid = std::vector<int64_t>;

struct LoadDriverOptions {
  int64_t file_bytes = 0;
  uint64_t seed = 1;
  Duration grid_step{0};  // 0 = no grid
  Duration grid_length{0};
};

// Requests that `loads` may have outstanding at once, for EngineOptions::max_outstanding.
[[nodiscard]] int64_t MaxOutstanding(const std::vector<scenario::Load>& loads);
[[nodiscard]] int64_t LargestRequest(const std::vector<scenario::Load>& loads);
[[nodiscard]] bool AnyWrites(const std::vector<scenario::Load>& loads);

class LoadDriver {
 public:
  LoadDriver(Engine* engine, FileId file, const LoadDriverOptions& options);
  // Requires: Pause() has returned true, or the engine is stopped.
  ~LoadDriver();
  LoadDriver(const LoadDriver&) = delete;
  LoadDriver& operator=(const LoadDriver&) = delete;

  // Before Start. Meters are numbered from 0; loads of one leaf share one. Requires: sizes fit the
  // file.
  void AddLoad(const scenario::Load& load, core::GroupId group, int meter);
  // Allocates buffers. Errors: kResourceExhausted.
  [[nodiscard]] Result<void> Prepare();

  // Both use the buffers of `owner` from here on, so that none is at an advantage by where its
  // memory lies. Requires: the same loads, prepared; both are paused; `owner` outlives this.
  void ShareBuffersOf(LoadDriver* owner);

  // Times of loads count from `start`; nothing is submitted from `end` on. May be called again
  // after Pause.
  void Start(TimePoint start, TimePoint end);
  // Submits nothing more, cancels what is queued, waits until the rest is back. False: some is
  // still in the device after `limit`.
  [[nodiscard]] bool Pause(Duration limit);

  // Owner. Copies the meters and starts them anew.
  void TakeMeters(std::vector<LoadMeter>* meters);
  // After Pause. By meter.
  [[nodiscard]] const std::vector<DispatchGrid>& grids() const { return grids_; }
  // What the first failed request said; empty: none failed. Owner, or after Pause.
  [[nodiscard]] const std::string& first_error() const { return first_error_; }
  // Arrivals of open loops for which no slot was free. Owner, or after Pause.
  [[nodiscard]] uint64_t missed_arrivals() const { return missed_arrivals_; }

 private:
  struct Timed;  // what the pacer gives back: a load or a slot
  struct LoadState;
  struct Slot;
  struct Choice {      // one size
    double up_to = 1;  // cumulative share
    int64_t bytes = 0;
    int64_t places = 1;  // random offsets
  };

  // Owner.
  void OnDue(const std::vector<Pacer::Entry>& due);
  void Arrive(LoadState* load, TimePoint now);
  void SubmitNext(Slot* slot, TimePoint now);
  void OnDone(Slot* slot, const IoResult& result);
  void CountFailure(const Slot& slot, const IoResult& result);
  [[nodiscard]] std::byte* NextContent(int64_t bytes);
  void Continue(Slot* slot, TimePoint at, TimePoint now);
  void Retire(Slot* slot);

  Engine* const engine_;
  const FileId file_;
  const LoadDriverOptions options_;
  std::deque<LoadState> loads_;
  std::deque<Slot> slots_;
  std::vector<LoadMeter> meters_;
  std::vector<DispatchGrid> grids_;
  BufferRegion buffers_;
  int32_t region_ = -1;           // BufferRegion::index of the slots' buffers
  std::byte* content_ = nullptr;  // for writes
  int64_t content_bytes_ = 0;
  int64_t content_next_ = 0;
  TimePoint start_{};
  TimePoint end_ = kNever;
  bool stopping_ = true;      // owner
  uint64_t outstanding_ = 0;  // owner
  uint64_t missed_arrivals_ = 0;
  std::string first_error_;
  std::mutex mutex_;
  std::condition_variable all_back_;
  bool drained_ = true;  // under mutex_
  std::unique_ptr<Pacer> pacer_;
};

}  // namespace weir::app
