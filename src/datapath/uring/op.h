// The engine's own objects for one request. Internal.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/request.h"
#include "datapath/uring/engine.h"

namespace weir::uring {

// What other threads hand to the owner.
struct QueueNode {
  enum class Kind : uint8_t { kOp, kControl };
  constexpr explicit QueueNode(Kind node_kind) : kind(node_kind) {}
  QueueNode* next = nullptr;
  Kind kind;
};

struct Op;

// What the scheduler and the device see: a whole request, or a part of a large one.
struct Piece {
  core::Request request;
  Op* op = nullptr;
  int64_t start = 0;  // within the request; its size is request.bytes, except for fsync (0)
  Piece* next_live = nullptr;     // pieces of one op; free list of the pool of extra pieces
  Piece* next_waiting = nullptr;  // PassThrough's queue
  Piece* prev_waiting = nullptr;
  bool in_flight = false;
};

// One request from Submit to its callback. Written by the submitting thread until it is pushed,
// by the owner from then on.
struct Op : QueueNode {
  Op() : QueueNode(Kind::kOp) {}

  uint32_t index = 0;
  uint32_t generation = 1;             // changes whenever the op is freed
  std::atomic<uint32_t> free_next{0};  // OpPool

  // As submitted.
  IoRequest io;
  TimePoint submitted_at{};
  IoCallback callback;

  // The owner's.
  bool arrived = false;
  bool queued = false;  // the gate has had a piece of it
  bool cancel_requested = false;
  bool holds_file = false;
  core::Access access = core::Access::kRandom;
  core::Phase phase = core::Phase::kWeight;
  ErrorCode fail_code = ErrorCode::kInternal;
  int fail_errno = 0;
  int live = 0;             // pieces queued or in flight
  Piece* pieces = nullptr;  // those, by next_live
  int64_t next_start = 0;   // where the next piece begins
  int64_t end = 0;          // everything before is transferred or may still be
  int64_t fail_at = -1;     // start of the first piece that failed, -1: none did
  int64_t cost = 0;
  TimePoint dispatched_at{};
  Piece first;

  // Makes a free op the request `request`.
  void Fill(const IoRequest& request, const IoCallback& its_callback) {
    io = request;
    callback = its_callback;
    arrived = queued = cancel_requested = holds_file = false;
    fail_errno = 0;
    next_start = end = cost = 0;
    fail_at = -1;
    phase = core::Phase::kWeight;
    dispatched_at = TimePoint{};
  }
  [[nodiscard]] Direction direction() const {
    return io.op == IoOp::kRead ? Direction::kRead : Direction::kWrite;
  }
  [[nodiscard]] bool transfers() const { return io.op == IoOp::kRead || io.op == IoOp::kWrite; }
};

inline Piece* PieceOf(core::Request* request) { return static_cast<Piece*>(request->context); }

}  // namespace weir::uring
