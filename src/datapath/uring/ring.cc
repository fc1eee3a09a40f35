#include "datapath/uring/ring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weir::uring {

struct Ring::State {
  io_uring ring{};
  bool has_files = false;
  bool has_buffers = false;
  bool reports_taskrun = false;
};

namespace {

const char* SetupHint(int error) {
  switch (error) {
    case ENOSYS:
      return "this kernel has no io_uring; 5.11 or later is needed";
    case EPERM:
    case EACCES:
      return "io_uring is forbidden here: allow io_uring_setup, io_uring_enter and "
             "io_uring_register in the container's seccomp profile, and see the sysctl "
             "kernel.io_uring_disabled";
    case ENOMEM:
      return "no memory, or RLIMIT_MEMLOCK is too low for this kernel: raise it (ulimit -l) or "
             "lower max_in_flight";
    case EMFILE:
    case ENFILE:
      return "too many open files: raise RLIMIT_NOFILE (ulimit -n)";
    default:
      return "see io_uring_setup(2)";
  }
}

tl::unexpected<Error> SetupError(int error) {
  return Fail(
      ErrorCode::kUnavailable,
      fmt::format("cannot set up an io_uring: {}: {}", std::strerror(error), SetupHint(error)),
      error);
}

// The largest table of files that RLIMIT_NOFILE allows to register.
uint32_t FileTableSize(uint32_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  return static_cast<uint32_t>(std::min<rlim_t>(wanted, limit.rlim_cur));
}

io_uring_sqe* NextSqe(io_uring* ring, RingFile file, uint64_t user_data) {
  io_uring_sqe* sqe = io_uring_get_sqe(ring);
  std::memset(sqe, 0, sizeof(*sqe));
  sqe->fd = file.fd;
  sqe->flags = file.fixed ? IOSQE_FIXED_FILE : 0;
  sqe->user_data = user_data;
  return sqe;
}

}  // namespace

Ring::Ring(std::unique_ptr<State> state) : state_(std::move(state)) {}

Ring::~Ring() { io_uring_queue_exit(&state_->ring); }

Result<std::unique_ptr<Ring>> Ring::Create(const RingShape& shape) {
  auto state = std::make_unique<State>();
  // From the newest kernels' features to none: 6.1, 6.0, 5.19, any.
  constexpr unsigned kModes[] = {
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
      IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0};
  int error = 0;
  io_uring_params params{};
  for (const unsigned mode : kModes) {
    params = io_uring_params{};
    params.flags = mode | IORING_SETUP_CLAMP;
    if (shape.wide_entries) params.flags |= IORING_SETUP_SQE128;
    if (shape.completions != 0) {
      params.flags |= IORING_SETUP_CQSIZE;
      params.cq_entries = shape.completions;
    }
    error = -io_uring_queue_init_params(shape.entries, &state->ring, &params);
    if (error != EINVAL) break;
  }
  if (error != 0) return SetupError(error);
  std::unique_ptr<Ring> ring(new Ring(std::move(state)));
  State& s = *ring->state_;
  constexpr unsigned kNeeded = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
  if ((params.features & kNeeded) != kNeeded) return SetupError(ENOSYS);
  s.reports_taskrun = (params.flags & IORING_SETUP_TASKRUN_FLAG) != 0;
  io_uring_ring_dontfork(&s.ring);
  // Each of these saves a look-up for every call or request; older kernels do without.
  static_cast<void>(io_uring_register_ring_fd(&s.ring));
  s.has_files = io_uring_register_files_sparse(&s.ring, FileTableSize(shape.max_files)) == 0;
  s.has_buffers = io_uring_register_buffers_sparse(&s.ring, kMaxEngineBufferRegions) == 0;
  return ring;
}

uint32_t Ring::SpaceLeft() const { return io_uring_sq_space_left(&state_->ring); }

uint32_t Ring::Unsubmitted() const { return io_uring_sq_ready(&state_->ring); }

int Ring::fd() const { return state_->ring.ring_fd; }

void Ring::PrepareTransfer(RingFile file, bool write, void* buffer, uint32_t bytes, int64_t offset,
                           int32_t region, uint64_t user_data, TransferFlags flags) {
  io_uring_sqe* sqe = NextSqe(&state_->ring, file, user_data);
  sqe->rw_flags = flags.rw_flags;
  sqe->personality = flags.personality;
  sqe->addr = reinterpret_cast<uintptr_t>(buffer);
  sqe->len = bytes;
  sqe->off = static_cast<uint64_t>(offset);
  if (region >= 0) {
    sqe->opcode = write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED;
    sqe->buf_index = static_cast<uint16_t>(region);
  } else {
    sqe->opcode = write ? IORING_OP_WRITE : IORING_OP_READ;
  }
}

void Ring::PrepareSync(RingFile file, bool data_only, uint64_t user_data) {
  io_uring_sqe* sqe = NextSqe(&state_->ring, file, user_data);
  sqe->opcode = IORING_OP_FSYNC;
  sqe->fsync_flags = data_only ? IORING_FSYNC_DATASYNC : 0;
}

void Ring::PrepareSyncRange(int fd, int64_t offset, uint32_t bytes, uint64_t user_data) {
  io_uring_sqe* sqe = NextSqe(&state_->ring, RingFile{fd, false}, user_data);
  sqe->opcode = IORING_OP_SYNC_FILE_RANGE;
  sqe->off = static_cast<uint64_t>(offset);
  sqe->len = bytes;
  sqe->sync_range_flags = SYNC_FILE_RANGE_WRITE;
}

void Ring::PreparePoll(RingFile file, uint64_t user_data) {
  io_uring_sqe* sqe = NextSqe(&state_->ring, file, user_data);
  sqe->opcode = IORING_OP_POLL_ADD;
  sqe->poll32_events = POLLIN;  // the machine is little-endian, as io_uring's halves need
  sqe->len = IORING_POLL_ADD_MULTI;
}

void Ring::PrepareCommand(RingFile file, uint32_t operation, const void* address, uint32_t length,
                          const void* command, size_t bytes, uint64_t user_data) {
  io_uring_sqe* sqe = NextSqe(&state_->ring, file, user_data);
  std::memset(reinterpret_cast<std::byte*>(sqe) + sizeof(*sqe), 0, sizeof(*sqe));
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->cmd_op = operation;
  sqe->addr = reinterpret_cast<uintptr_t>(address);
  sqe->len = length;
  std::memcpy(sqe->cmd, command, bytes);
}

void Ring::PrepareCancel(uint64_t target, uint64_t user_data) {
  io_uring_sqe* sqe = NextSqe(&state_->ring, RingFile{}, user_data);
  sqe->opcode = IORING_OP_ASYNC_CANCEL;
  sqe->addr = target;
}

void Ring::PrepareCancelAll(uint64_t user_data) {
  io_uring_sqe* sqe = NextSqe(&state_->ring, RingFile{}, user_data);
  sqe->opcode = IORING_OP_ASYNC_CANCEL;
  sqe->cancel_flags = IORING_ASYNC_CANCEL_ANY;
}

int Ring::Enter(bool wait, Duration timeout) {
  io_uring* ring = &state_->ring;
  int result = 0;
  if (!wait) {
    result = io_uring_submit_and_get_events(ring);
  } else if (timeout == kForever) {
    result = io_uring_submit_and_wait(ring, 1);
  } else {
    const int64_t ns = std::max<int64_t>(0, timeout.count());
    __kernel_timespec spec{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    io_uring_cqe* first = nullptr;
    result = io_uring_submit_and_wait_timeout(ring, &first, 1, &spec, nullptr);
  }
  const bool usual = result >= 0 || result == -ETIME || result == -EINTR;
  return usual ? 0 : result;
}

int Ring::Reap(Completion* completions, int max) {
  io_uring* ring = &state_->ring;
  unsigned head = 0;
  int count = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(ring, head, cqe) {
    if (count == max) break;
    completions[count++] =
        Completion{cqe->user_data, cqe->res, (cqe->flags & IORING_CQE_F_MORE) != 0};
  }
  if (count != 0) io_uring_cq_advance(ring, static_cast<unsigned>(count));
  return count;
}

bool Ring::HasCompletions() const { return io_uring_cq_ready(&state_->ring) != 0; }

bool Ring::NeedsEnter() const {
  if (!state_->reports_taskrun) return true;
  return (IO_URING_READ_ONCE(*state_->ring.sq.kflags) &
          (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

bool Ring::SetFile(uint32_t slot, int fd) {
  return state_->has_files && io_uring_register_files_update(&state_->ring, slot, &fd, 1) == 1;
}

uint16_t Ring::RegisterPersonality() {
  const int id = io_uring_register_personality(&state_->ring);
  return id > 0 && id <= UINT16_MAX ? static_cast<uint16_t>(id) : 0;
}

bool Ring::SetBuffer(uint32_t slot, void* data, int64_t bytes) {
  if (!state_->has_buffers) return false;
  const iovec vector{.iov_base = data, .iov_len = static_cast<size_t>(bytes)};
  return io_uring_register_buffers_update_tag(&state_->ring, slot, &vector, nullptr, 1) == 1;
}

}  // namespace weir::uring
