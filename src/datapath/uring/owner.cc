#include "datapath/uring/owner.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "base/monotonic_clock.h"

namespace weir::uring {

namespace {

// user_data of what is not a piece; pieces are pointers.
constexpr uint64_t kWakeTag = 1;
constexpr uint64_t kIgnoreTag = 2;

// One round's share of each kind of work. Few completions: what their callbacks submit goes to the
// device soon, which keeps it busy; whole interrupts' worth at a time let it run dry in between and
// cost up to 8 % of its throughput. Fewer still only cost system calls.
constexpr int kCompletionsARound = 4;
constexpr int kArrivalsARound = 64;

// Of the ring's entries, for the wake-up and for cancels.
constexpr uint32_t kReservedEntries = 8;
constexpr uint32_t kMinRingEntries = 64;

// Timers closer together than this are served together.
constexpr Duration kMinSleep = std::chrono::microseconds(20);
// While the ring is full a completion is the usual next event; only deadlines need a look.
constexpr Duration kFullSleep = std::chrono::milliseconds(1);
constexpr Duration kEnterBackoff = std::chrono::milliseconds(1);

constexpr int64_t kSyncBytes = 4096;  // what an fsync costs: a write of this size
constexpr size_t kExtraPieces = 4096;

}  // namespace

Result<std::unique_ptr<Owner>> Owner::Create(const EngineOptions& options, Shared* shared) {
  const uint32_t entries = std::max(std::bit_ceil(options.max_in_flight), kMinRingEntries);
  RingShape shape{.entries = entries, .max_files = options.max_files};
  LoopExtension* extension = options.extension;
  if (extension != nullptr) {
    shape.max_files += LoopExtension::kFiles;
    shape.wide_entries = extension->NeedsWideEntries();
    shape.completions = std::bit_ceil(2 * (entries + extension->MostOutstanding()));
  }
  auto ring = Ring::Create(shape);
  if (!ring) return tl::unexpected(std::move(ring.error()));
  std::unique_ptr<Owner> owner(new Owner(options, shared, std::move(*ring)));
  if (extension != nullptr) {
    Result<void> started = extension->Start(LoopStart{
        .ring = owner->ring_.get(), .wake_fd = shared->wake_fd, .first_file = options.max_files});
    if (!started) return tl::unexpected(std::move(started.error()));
  }
  return owner;
}

Owner::Owner(const EngineOptions& options, Shared* shared, std::unique_ptr<Ring> ring)
    : options_(options),
      shared_(shared),
      ring_(std::move(ring)),
      files_(ring_.get(), options.max_files),
      buffers_(ring_.get()),
      gate_(options),
      model_(options.cost_model),
      learner_(options.learn_costs && options.isolation),
      sync_cost_(model_.Cost(Direction::kWrite, core::Access::kRandom, kSyncBytes)),
      now_(MonotonicNow()) {
  if (options.max_piece_bytes == 0) return;
  extra_pieces_.resize(std::min<size_t>(kExtraPieces, options.max_outstanding));
  for (Piece& piece : extra_pieces_) {
    piece.next_live = free_pieces_;
    free_pieces_ = &piece;
  }
}

TimePoint Owner::now() const { return running_ ? now_ : MonotonicNow(); }

// --- The loop ----------------------------------------------------------------------------------

void Owner::Run() {
  while (true) {
    now_ = MonotonicNow();
    ReapCompletions();
    TakeArrivals();
    if (stopping_ != Stopping::kNo && AdvanceStop()) break;
    ExpireQueued();
    ReportFinished();
    WakeBlockedSubmitters();
    if (options_.extension != nullptr) extension_busy_ = options_.extension->Round(now_);
    DispatchReady();
    LearnCosts();
    EnterRing();
  }
  files_.CloseAll();
  buffers_.UnregisterAll();
  shared_->pool.Flush();
  running_ = false;
}

void Owner::ReapCompletions() {
  Ring::Completion batch[kCompletionsARound];
  const int count = ring_->Reap(batch, kCompletionsARound);
  for (int i = 0; i < count; ++i) {
    if (batch[i].user_data == kWakeTag) {
      wake_armed_ = false;
    } else if (LoopExtension::IsOurs(batch[i].user_data)) {
      options_.extension->Complete(LoopExtension::Token(batch[i].user_data), batch[i]);
    } else if (batch[i].user_data != kIgnoreTag) {
      CompletePiece(reinterpret_cast<Piece*>(batch[i].user_data), batch[i].result);
    }
  }
}

void Owner::TakeArrivals() {
  for (int i = 0; i < kArrivalsARound; ++i) {
    if (arrivals_ == nullptr) arrivals_ = shared_->queue.TakeAll();
    if (arrivals_ == nullptr) return;
    QueueNode* node = arrivals_;
    arrivals_ = node->next;
    if (node->kind == QueueNode::Kind::kOp) {
      Arrive(static_cast<Op*>(node));
      continue;
    }
    auto* control = static_cast<Control*>(node);
    control->work();
    if (control->delete_after) {
      delete control;
    } else {
      std::promise<void> done = std::move(control->done);  // the waiter may free the node
      done.set_value();
    }
  }
}

void Owner::ExpireQueued() {
  while (Piece* piece = gate_.PopExpired(now_)) Abandon(piece, ErrorCode::kDeadlineExceeded);
}

// Only those that are there now: their callbacks may submit more that fail at once.
void Owner::ReportFinished() {
  QueueNode* node = finished_;
  finished_ = finished_last_ = nullptr;
  while (node != nullptr) {
    QueueNode* next = node->next;
    Finish(static_cast<Op*>(node));
    node = next;
  }
}

void Owner::DispatchReady() {
  const uint32_t space = ring_->SpaceLeft();
  uint32_t room = options_.max_in_flight - std::min(in_flight_, options_.max_in_flight);
  room = std::min(room, space - std::min(space, kReservedEntries));
  while (room > 0) {
    Piece* piece = gate_.Dispatch(now_);
    if (piece == nullptr) break;
    Prepare(piece);
    --room;
  }
  device_full_ = gate_.DeviceFull();
}

Duration Owner::SleepTime() const {
  TimePoint next = gate_.NextWakeup(now_);
  if (stopping_ == Stopping::kDraining) next = std::min(next, drain_until_);
  if (next >= kNever) return Ring::kForever;
  return std::max(next - now_, in_flight_ >= options_.max_in_flight ? kFullSleep : kMinSleep);
}

void Owner::EnterRing() {
  const bool stopped = stopping_ != Stopping::kNo && outstanding_ == 0;
  const bool idle = !stopped && !extension_busy_ && arrivals_ == nullptr && finished_ == nullptr &&
                    !ring_->HasCompletions();
  bool sleep = false;
  if (idle) {
    if (!wake_armed_ && ring_->SpaceLeft() > 0) {
      ring_->PrepareTransfer(RingFile{shared_->wake_fd, false}, false, &wake_value_,
                             sizeof(wake_value_), 0, -1, kWakeTag);
      wake_armed_ = true;
    }
    shared_->pool.Flush();
    // A read-modify-write meets that of a submitter in one order: it sees the freed ops, or this
    // sees it waiting.
    if (shared_->blocked.fetch_add(0, std::memory_order_acq_rel) != 0) WakeBlockedSubmitters();
    sleep = wake_armed_ && shared_->queue.PrepareSleep();
  }
  if (!sleep && ring_->Unsubmitted() == 0 && !ring_->NeedsEnter()) return;
  ++stats_.enters;
  const int error = ring_->Enter(sleep, sleep ? SleepTime() : Duration(0));
  if (error != 0) {
    // The kernel is short of memory or of room for completions; what is prepared goes next time.
    std::this_thread::sleep_for(kEnterBackoff);
  }
}

void Owner::WakeBlockedSubmitters() {
  if (shared_->blocked.load(std::memory_order_relaxed) == 0) return;
  shared_->pool.Flush();
  shared_->freed.fetch_add(1, std::memory_order_release);
  shared_->freed.notify_all();
}

void Owner::LearnCosts() {
  if (auto window = learner_.TakeWindow(now_)) model_.Observe(*window);
}

// --- Arrival -----------------------------------------------------------------------------------

void Owner::Arrive(Op* op) {
  ++outstanding_;
  ++stats_.submitted;
  op->arrived = true;
  op->end = op->transfers() ? op->io.bytes : 0;
  if (op->cancel_requested || stopping_ == Stopping::kCancelling) {
    PieceFailed(op, 0, ErrorCode::kCancelled, 0);
  } else if (!AcquireFile(op)) {
    PieceFailed(op, 0, ErrorCode::kNotFound, EBADF);
  } else {
    int64_t cost = sync_cost_;
    if (op->transfers()) {
      op->access = Classify(*op);
      cost = model_.Cost(op->direction(), op->access, op->io.bytes);
    }
    if (op->io.deadline == kNever || !FailsDeadline(op, cost)) {
      IssuePieces(op);
    }
  }
  FinishIfDone(op);
}

bool Owner::AcquireFile(Op* op) {
  if (op->io.fd >= 0) return true;
  op->holds_file = files_.Acquire(op->io.file);
  return op->holds_file;
}

core::Access Owner::Classify(const Op& op) {
  const IoRequest& io = op.io;
  return io.fd >= 0 ? foreign_files_.Classify(io.fd, op.direction(), io.offset, io.bytes)
                    : files_.Classify(io.file, op.direction(), io.offset, io.bytes);
}

bool Owner::FailsDeadline(Op* op, int64_t cost) {
  const bool passed = op->io.deadline <= now_;
  if (!passed) {
    const Duration left = op->io.deadline - now_;
    const int64_t piece = options_.max_piece_bytes;
    const int64_t pieces =
        piece == 0 ? 1 : std::max<int64_t>(1, (op->io.bytes + piece - 1) / piece);
    if (gate_.PredictWait(*op, cost, pieces * kOp, now_) <= left) return false;
    ++stats_.failed_fast;
  } else {
    ++stats_.expired;
  }
  PieceFailed(op, 0, ErrorCode::kDeadlineExceeded, 0);
  return true;
}

// --- Dispatch and completion -------------------------------------------------------------------

void Owner::Prepare(Piece* piece) {
  const Op& op = *piece->op;
  const RingFile file = op.io.fd >= 0 ? RingFile{op.io.fd, false} : files_.Target(op.io.file);
  const auto user_data = reinterpret_cast<uintptr_t>(piece);
  if (op.transfers()) {
    ring_->PrepareTransfer(
        file, op.io.op == IoOp::kWrite, static_cast<std::byte*>(op.io.buffer) + piece->start,
        static_cast<uint32_t>(piece->request.bytes), op.io.offset + piece->start, op.io.region,
        user_data, TransferFlags{op.io.rw_flags, op.io.personality});
  } else {
    ring_->PrepareSync(file, op.io.op == IoOp::kFdatasync, user_data);
  }
  piece->in_flight = true;
  ++in_flight_;
}

void Owner::CompletePiece(Piece* piece, int32_t result) {
  Op* op = piece->op;
  const core::Request& request = piece->request;
  gate_.Complete(piece, now_);
  --in_flight_;
  op->dispatched_at = std::max(op->dispatched_at, request.dispatched_at);
  op->phase = request.phase;
  op->cost += request.cost;
  if (op->transfers()) {
    if (!op->io.cached) {
      learner_.Record(request.direction, request.bytes, request.cost, device_full_);
    }
    if (result >= 0 && result < request.bytes) op->end = std::min(op->end, piece->start + result);
  }
  if (result < 0) {
    const bool cancelled = result == -ECANCELED;
    PieceFailed(op, piece->start, cancelled ? ErrorCode::kCancelled : ErrorCode::kIo,
                cancelled ? 0 : -result);
  }
  DropPiece(piece);
  if (MorePieces(*op)) IssuePieces(op);
  if (op->live == 0) Finish(op);
}

IoResult Owner::ResultOf(const Op& op) const {
  IoResult result;
  result.bytes = op.end;
  // A failure counts if nothing before it was cut short. What the kernel refused after a part was
  // done is a short transfer, as with read(2) and write(2).
  result.failed =
      op.fail_at >= 0 && op.fail_at == op.end && (op.end == 0 || op.fail_code != ErrorCode::kIo);
  if (result.failed) {
    result.code = op.fail_code;
    result.sys_errno = op.fail_errno;
  }
  result.phase = op.phase;
  result.cost = op.cost;
  result.submitted_at = op.submitted_at;
  result.dispatched_at = op.dispatched_at;
  result.completed_at = now_;
  return result;
}

void Owner::Count(const Op& op, const IoResult& result) {
  ++stats_.completed;
  if (!result.failed) return;
  if (result.code == ErrorCode::kIo) ++stats_.io_errors;
  if (result.code == ErrorCode::kCancelled) ++stats_.cancelled;
  // FailsDeadline has counted those that were never queued.
  if (result.code == ErrorCode::kDeadlineExceeded && op.queued) ++stats_.expired;
}

void Owner::FinishIfDone(Op* op) {
  if (op->live != 0) return;
  op->next = nullptr;
  (finished_ == nullptr ? finished_ : finished_last_->next) = op;
  finished_last_ = op;
}

// Frees the op first: the callback mostly submits again, and then finds it warm.
void Owner::Finish(Op* op) {
  const IoResult result = ResultOf(*op);
  IoCallback callback = op->callback;
  Count(*op, result);
  if (op->holds_file) files_.Release(op->io.file);
  shared_->pool.Free(op);
  --outstanding_;
  callback(result);
}

// --- Control -----------------------------------------------------------------------------------

CancelOutcome Owner::Cancel(OpId id) {
  Op* op = shared_->pool.Find(id);
  if (op == nullptr) return CancelOutcome::kUnknown;
  if (!op->arrived) {  // still in the queue of arrivals
    op->cancel_requested = true;
    return CancelOutcome::kCancelled;
  }
  if (op->live == 0) return CancelOutcome::kUnknown;  // its callback is due
  op->cancel_requested = true;
  for (Piece* piece = op->pieces; piece != nullptr;) {
    Piece* next = piece->next_live;
    if (!piece->in_flight && gate_.Cancel(piece, now())) {
      PieceFailed(op, piece->start, ErrorCode::kCancelled, 0);
      DropPiece(piece);
    }
    piece = next;
  }
  FinishIfDone(op);
  if (op->live == 0) return CancelOutcome::kCancelled;
  // Those in flight: the kernel may still hold them back (a pipe, a worker's queue). If there is
  // no room to ask, they complete by themselves.
  for (Piece* piece = op->pieces; piece != nullptr; piece = piece->next_live) {
    if (ring_->SpaceLeft() == 0) break;
    ring_->PrepareCancel(reinterpret_cast<uintptr_t>(piece), kIgnoreTag);
  }
  return CancelOutcome::kTooLate;
}

Result<core::Explanation> Owner::Explain(OpId id) {
  Op* op = shared_->pool.Find(id);
  if (op == nullptr)
    return Fail(ErrorCode::kNotFound, "explain: no such request; it has completed");
  if (!op->arrived || !options_.isolation) return core::Explanation{};
  for (const Piece* piece = op->pieces; piece != nullptr; piece = piece->next_live) {
    if (!piece->in_flight) return gate_.scheduler()->Explain(piece->request, now());
  }
  return core::Explanation{};
}

Result<std::vector<core::GroupId>> Owner::Apply(const std::vector<GroupChange>& changes) {
  std::vector<core::Request*> orphans;
  auto groups = gate_.Apply(changes, now(), &orphans);
  for (core::Request* request : orphans) Abandon(PieceOf(request), ErrorCode::kCancelled);
  return groups;
}

EngineStats Owner::Stats() {
  EngineStats stats = stats_;
  stats.in_flight = in_flight_;
  stats.wakeups = shared_->wakeups.load(std::memory_order_relaxed);
  stats.cost_in_flight = gate_.cost_in_flight();
  stats.depth = gate_.scheduler()->depth();
  stats.headroom = gate_.scheduler()->headroom();
  return stats;
}

void Owner::RequestStop(StopMode mode, Duration drain_limit) {
  if (mode == StopMode::kDrain && stopping_ == Stopping::kNo) {
    stopping_ = Stopping::kDraining;
    drain_until_ = drain_limit < kNever - now_ ? now_ + drain_limit : kNever;
  } else if (mode == StopMode::kCancel && stopping_ != Stopping::kCancelling) {
    drain_until_ = now_;
    stopping_ = Stopping::kDraining;
  }
}

bool Owner::AdvanceStop() {
  if (stopping_ == Stopping::kDraining && now_ >= drain_until_) {
    stopping_ = Stopping::kCancelling;
    if (ring_->SpaceLeft() > 0) ring_->PrepareCancelAll(kIgnoreTag);
  }
  if (stopping_ == Stopping::kCancelling) {
    std::vector<core::Request*> queued;
    gate_.TakeAllQueued(now_, &queued);
    for (core::Request* request : queued) Abandon(PieceOf(request), ErrorCode::kCancelled);
  }
  return outstanding_ == 0 && arrivals_ == nullptr && finished_ == nullptr &&
         shared_->queue.Close();
}

}  // namespace weir::uring
