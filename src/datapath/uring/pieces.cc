// How a request is cut into pieces and its result put together again.
#include <algorithm>

#include "datapath/uring/owner.h"

namespace weir::uring {

namespace {

// Of one request, queued or in flight; the rest follows as they complete.
constexpr int kMaxLivePieces = 8;

}  // namespace

// A cut or failed transfer is not continued: `end` then lies before the next piece.
bool Owner::MorePieces(const Op& op) const {
  return op.next_start < op.io.bytes && op.end == op.io.bytes && op.transfers();
}

Piece* Owner::TakePiece(Op* op) {
  Piece* piece = &op->first;
  if (piece->op != nullptr) {  // in use
    piece = free_pieces_;
    if (piece == nullptr) return nullptr;
    free_pieces_ = piece->next_live;
  }
  piece->op = op;
  piece->in_flight = false;
  piece->next_live = op->pieces;
  op->pieces = piece;
  ++op->live;
  return piece;
}

void Owner::DropPiece(Piece* piece) {
  Op* op = piece->op;
  Piece** link = &op->pieces;
  while (*link != piece) link = &(*link)->next_live;
  *link = piece->next_live;
  --op->live;
  piece->op = nullptr;
  if (piece != &op->first) {
    piece->next_live = free_pieces_;
    free_pieces_ = piece;
  }
}

// At least one piece is live afterwards, or the op has failed: the first piece is the op's own,
// so that a shortage of extra ones only makes it slower.
void Owner::IssuePieces(Op* op) {
  const int64_t total = op->transfers() ? op->io.bytes : 0;
  const int64_t most = options_.max_piece_bytes == 0 ? total : options_.max_piece_bytes;
  const int window = options_.max_piece_bytes == 0 ? 1 : kMaxLivePieces;
  do {
    if (op->cancel_requested || stopping_ == Stopping::kCancelling) {
      return PieceFailed(op, op->next_start, ErrorCode::kCancelled, 0);
    }
    Piece* piece = TakePiece(op);
    if (piece == nullptr) return;
    const int64_t bytes = std::min(most, total - op->next_start);
    core::Request& request = piece->request;
    request.group = op->io.group;
    request.direction = op->direction();
    request.sync = !op->transfers();
    request.cost = request.sync ? sync_cost_ : model_.Cost(request.direction, op->access, bytes);
    request.raw = kOp;
    request.bytes = bytes;
    request.deadline = op->io.deadline;
    request.context = piece;
    piece->start = op->next_start;
    if (Result<void> queued = gate_.Enqueue(piece, now_); !queued) {
      DropPiece(piece);
      // The group of a request under way was removed: the rest is cancelled, as if queued.
      const ErrorCode code = op->queued ? ErrorCode::kCancelled : queued.error().code;
      return PieceFailed(op, op->next_start, code, 0);
    }
    op->queued = true;
    op->next_start += bytes;
  } while (op->live < window && MorePieces(*op));
}

void Owner::PieceFailed(Op* op, int64_t start, ErrorCode code, int sys_errno) {
  op->end = std::min(op->end, start);
  if (op->fail_at >= 0 && op->fail_at <= start) return;
  op->fail_at = start;
  op->fail_code = code;
  op->fail_errno = sys_errno;
}

void Owner::Abandon(Piece* piece, ErrorCode code) {
  Op* op = piece->op;
  PieceFailed(op, piece->start, code, 0);
  DropPiece(piece);
  FinishIfDone(op);
}

}  // namespace weir::uring
