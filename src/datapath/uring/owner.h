// The owner thread's side of the engine: scheduler, ring, files, and the loop over them. Internal.
//
// A round: take completions (callbacks), take what other threads pushed, give up what expired,
// dispatch what the gate lets through, then one io_uring_enter that submits all of it and waits
// if there is nothing else to do. The clock is read once a round.
// Threads: all on the owner thread, except Shared.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "datapath/uring/cost_learner.h"
#include "datapath/uring/files.h"
#include "datapath/uring/gate.h"
#include "datapath/uring/loop_extension.h"
#include "datapath/uring/op_pool.h"
#include "datapath/uring/ring.h"
#include "datapath/uring/submit_queue.h"

namespace weir::uring {

// What the submitting threads and the owner both touch.
struct Shared {
  OpPool pool;
  SubmitQueue queue;
  int wake_fd = -1;  // eventfd; the owner sleeps on it through the ring
  std::atomic<bool> accepting{true};
  std::atomic<uint64_t> wakeups{0};  // writes to wake_fd that have been done
  // Threads that wait for a free op, and what they wait on.
  std::atomic<uint32_t> blocked{0};
  std::atomic<uint32_t> freed{0};
};

// Work for the owner thread. `done` is fulfilled afterwards; `delete_after`: nobody waits.
struct Control : QueueNode {
  Control() : QueueNode(Kind::kControl) {}
  std::function<void()> work;
  std::promise<void> done;
  bool delete_after = false;
};

class Owner {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Owner>> Create(const EngineOptions& options,
                                                             Shared* shared);
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  // Until RequestStop has been served.
  void Run();
  void RequestStop(StopMode mode, Duration drain_limit);

  // Takes charge of a filled op. Calls no callback; a failure is reported in the round.
  void Arrive(Op* op);
  [[nodiscard]] CancelOutcome Cancel(OpId id);
  [[nodiscard]] Result<core::Explanation> Explain(OpId id);
  [[nodiscard]] Result<std::vector<core::GroupId>> Apply(const std::vector<GroupChange>& changes);
  [[nodiscard]] EngineStats Stats();

  Gate* gate() { return &gate_; }
  FileTable* files() { return &files_; }
  BufferTable* buffers() { return &buffers_; }
  core::CostModel* cost_model() { return &model_; }
  // When this round began; after Run, the present.
  [[nodiscard]] TimePoint now() const;

 private:
  enum class Stopping : uint8_t { kNo, kDraining, kCancelling };

  Owner(const EngineOptions& options, Shared* shared, std::unique_ptr<Ring> ring);

  // The parts of a round.
  void ReapCompletions();
  void TakeArrivals();
  void ExpireQueued();
  void ReportFinished();
  void DispatchReady();
  void EnterRing();
  void WakeBlockedSubmitters();
  void LearnCosts();
  [[nodiscard]] Duration SleepTime() const;
  // True when nothing is left and no more can come.
  [[nodiscard]] bool AdvanceStop();

  // Pieces of an op.
  [[nodiscard]] bool MorePieces(const Op& op) const;
  void IssuePieces(Op* op);
  [[nodiscard]] Piece* TakePiece(Op* op);
  void DropPiece(Piece* piece);  // no longer live
  void Prepare(Piece* piece);
  void CompletePiece(Piece* piece, int32_t result);
  void PieceFailed(Op* op, int64_t start, ErrorCode code, int sys_errno);
  // A queued piece that the gate has given up.
  void Abandon(Piece* piece, ErrorCode code);

  [[nodiscard]] bool AcquireFile(Op* op);
  [[nodiscard]] core::Access Classify(const Op& op);
  [[nodiscard]] bool FailsDeadline(Op* op, int64_t cost);
  void FinishIfDone(Op* op);
  void Finish(Op* op);  // calls the callback
  [[nodiscard]] IoResult ResultOf(const Op& op) const;
  void Count(const Op& op, const IoResult& result);

  const EngineOptions options_;
  Shared* const shared_;
  // Before the ring, so that it outlives what the kernel may still write.
  uint64_t wake_value_ = 0;
  std::unique_ptr<Ring> ring_;
  FileTable files_;
  ForeignFiles foreign_files_;
  BufferTable buffers_;
  Gate gate_;
  core::CostModel model_;
  CostLearner learner_;
  const int64_t sync_cost_;

  TimePoint now_{};
  bool running_ = true;
  bool wake_armed_ = false;
  bool device_full_ = false;
  uint32_t in_flight_ = 0;         // pieces in the ring
  bool extension_busy_ = false;    // it has more to do at once
  uint64_t outstanding_ = 0;       // ops that arrived and whose callback is still to come
  QueueNode* arrivals_ = nullptr;  // taken from the queue, not yet looked at
  QueueNode* finished_ = nullptr;  // ops whose callback is due, oldest first
  QueueNode* finished_last_ = nullptr;

  std::vector<Piece> extra_pieces_;  // for requests that are cut up; fixed in number
  Piece* free_pieces_ = nullptr;

  Stopping stopping_ = Stopping::kNo;
  TimePoint drain_until_ = kNever;
  EngineStats stats_;
};

}  // namespace weir::uring
