#include "device/load_ring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/monotonic_clock.h"
#include "base/random.h"
#include "base/units.h"
#include "device/samples.h"

namespace weir::device {

namespace {

constexpr Duration kPollCancel = std::chrono::milliseconds(50);
// A request that takes longer is reported as a fault of the device.
constexpr Duration kNoAnswer = std::chrono::seconds(30);
constexpr int kLayoutDepth = 8;
constexpr size_t kMaxLatencies = 1 << 18;

tl::unexpected<Error> Cancelled() { return Fail(ErrorCode::kCancelled, "calibration cancelled"); }

}  // namespace

int MaxDepth(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>(kLoadBufferBytes / bytes, 1, kMaxLoadDepth));
}

struct LoadRing::Impl {
  const Target* target = nullptr;
  const std::atomic<bool>* cancel = nullptr;
  io_uring ring{};
  bool ring_open = false;
  bool fixed_buffers = false;
  char* buffers = nullptr;
  Random random{0x5EED};
  std::array<int64_t, 2> sequential{};  // next offset, by direction
  TimePoint deadline = kNever;
  int in_flight = 0;
  int first_error = 0;  // errno of a failed request
  std::string error_of;

  ~Impl() {
    // Requests that a hung device never gave back hold their pages themselves.
    if (ring_open) io_uring_queue_exit(&ring);
    if (buffers != nullptr) ::munmap(buffers, static_cast<size_t>(kLoadBufferBytes));
  }

  [[nodiscard]] bool IsCancelled() const { return cancel != nullptr && cancel->load(); }

  void Submit(Direction direction, int64_t bytes, int64_t offset, int slot) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    WEIR_CHECK(sqe != nullptr);  // the ring has room for kMaxLoadDepth
    char* buffer = buffers + slot * bytes;
    const auto length = static_cast<unsigned>(bytes);
    const auto at = static_cast<uint64_t>(offset);
    if (direction == Direction::kRead) {
      fixed_buffers ? io_uring_prep_read_fixed(sqe, 0, buffer, length, at, 0)
                    : io_uring_prep_read(sqe, 0, buffer, length, at);
    } else {
      fixed_buffers ? io_uring_prep_write_fixed(sqe, 0, buffer, length, at, 0)
                    : io_uring_prep_write(sqe, 0, buffer, length, at);
    }
    sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, static_cast<uint64_t>(slot));
    ++in_flight;
  }

  // Completes with 0, as a write of no bytes.
  void SubmitFlush() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    WEIR_CHECK(sqe != nullptr);
    io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC);
    sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, 0);
    ++in_flight;
  }

  void CheckResult(const io_uring_cqe& cqe, Direction direction, int64_t bytes) {
    if (cqe.res == static_cast<int>(bytes) || first_error != 0) return;
    first_error = cqe.res < 0 ? -cqe.res : EIO;
    error_of =
        fmt::format("{} of {} on {}: {}", direction == Direction::kRead ? "a read" : "a write",
                    FormatBytes(bytes), target->what(),
                    cqe.res < 0 ? std::strerror(-cqe.res) : fmt::format("only {} bytes", cqe.res));
  }

  // Gives each finished request's slot to `on_done(slot, now)`, which may submit again, until none
  // is in flight. Stops asking for more (the callback sees `stopping`) after an error or a cancel.
  template <typename OnDone>
  Result<void> Pump(Direction direction, int64_t bytes, OnDone on_done) {
    bool stopping = false;
    TimePoint last_answer = MonotonicNow();
    while (in_flight > 0) {
      __kernel_timespec timeout{0, kPollCancel.count()};
      io_uring_cqe* first = nullptr;
      const int result = io_uring_submit_and_wait_timeout(&ring, &first, 1, &timeout, nullptr);
      if (result < 0 && result != -ETIME && result != -EINTR && result != -EAGAIN) {
        return Fail(ErrorCode::kIo,
                    fmt::format("io_uring on {}: {}", target->what(), std::strerror(-result)),
                    -result);
      }
      const TimePoint now = MonotonicNow();
      if (IsCancelled()) stopping = true;
      std::array<io_uring_cqe*, kMaxLoadDepth> cqes;
      const unsigned count = io_uring_peek_batch_cqe(&ring, cqes.data(), cqes.size());
      for (unsigned i = 0; i < count; ++i) {
        CheckResult(*cqes[i], direction, bytes);
        if (first_error != 0) stopping = true;
        --in_flight;
        on_done(static_cast<int>(io_uring_cqe_get_data64(cqes[i])), now, stopping);
      }
      io_uring_cq_advance(&ring, count);
      if (count > 0) last_answer = now;
      if (now > deadline) {
        return Fail(ErrorCode::kDeadlineExceeded,
                    fmt::format("{} is too slow to be measured in the time given; measure again "
                                "when it is idle",
                                target->what()));
      }
      if (now - last_answer > kNoAnswer) {
        return Fail(ErrorCode::kIo,
                    fmt::format("{} has not answered for {}; {} requests are outstanding",
                                target->what(), FormatDuration(kNoAnswer), in_flight),
                    ETIMEDOUT);
      }
    }
    if (first_error != 0) {
      return Fail(ErrorCode::kIo, "calibration stopped at " + error_of, first_error);
    }
    if (IsCancelled()) return Cancelled();
    return {};
  }

  int64_t NextOffset(const LoadKind& kind) {
    const int64_t places = target->bytes() / kind.bytes;
    if (kind.access == core::Access::kRandom) return random.Range(0, places - 1) * kind.bytes;
    int64_t& next = sequential[static_cast<int>(kind.direction)];
    next = next / kind.bytes * kind.bytes;
    if (next + kind.bytes > target->bytes()) next = 0;
    return std::exchange(next, next + kind.bytes);
  }
};

LoadRing::LoadRing(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoadRing::LoadRing(LoadRing&&) noexcept = default;
LoadRing& LoadRing::operator=(LoadRing&&) noexcept = default;
LoadRing::~LoadRing() = default;

Result<LoadRing> LoadRing::Open(const Target* target, const std::atomic<bool>* cancel) {
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->cancel = cancel;
  void* memory = ::mmap(nullptr, static_cast<size_t>(kLoadBufferBytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no memory for {} of buffers: {}", FormatBytes(kLoadBufferBytes),
                            std::strerror(errno)),
                errno);
  }
  impl->buffers = static_cast<char*>(memory);
  // Data that neither compresses nor deduplicates within itself.
  Random data(0xDA7A);
  for (int64_t at = 0; at < kLoadBufferBytes; at += 8) {
    const uint64_t word = data.Next();
    std::memcpy(impl->buffers + at, &word, 8);
  }
  int result = io_uring_queue_init(kMaxLoadDepth, &impl->ring, 0);
  if (result < 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("calibrating needs io_uring, which the kernel refused: {}; see "
                            "kernel.io_uring_disabled and the seccomp profile of the container",
                            std::strerror(-result)),
                -result);
  }
  impl->ring_open = true;
  const int fd = target->fd();
  result = io_uring_register_files(&impl->ring, &fd, 1);
  if (result < 0) {
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("io_uring cannot register {}: {}", target->what(), std::strerror(-result)),
        -result);
  }
  // Spares pinning the pages for each request; needs locked memory, so it may be refused.
  const iovec whole = {impl->buffers, static_cast<size_t>(kLoadBufferBytes)};
  impl->fixed_buffers = io_uring_register_buffers(&impl->ring, &whole, 1) == 0;
  return LoadRing(std::move(impl));
}

void LoadRing::SetDeadline(TimePoint deadline) { impl_->deadline = deadline; }

Result<Slice> LoadRing::Run(const LoadKind& kind, int depth, Duration length, Duration at_most) {
  Impl& impl = *impl_;
  WEIR_CHECK(depth >= 1 && depth <= MaxDepth(kind.bytes) && kind.bytes <= impl.target->bytes());
  if (impl.IsCancelled()) return Cancelled();
  const TimePoint start = MonotonicNow();
  const TimePoint end = start + length;
  const uint64_t enough = static_cast<uint64_t>(depth) + 4;
  // Counted from the first batch after the warm-up, so that its own completions are not.
  TimePoint counted_from{};
  TimePoint counted_to{};
  uint64_t counted = 0, all = 0;
  std::array<TimePoint, kMaxLoadDepth> submitted;
  std::vector<double> latencies;
  const auto submit = [&](int slot, TimePoint now) {
    submitted[static_cast<size_t>(slot)] = now;
    impl.Submit(kind.direction, kind.bytes, impl.NextOffset(kind), slot);
  };
  for (int slot = 0; slot < depth; ++slot) submit(slot, start);
  bool over = false;
  auto ok = impl.Pump(kind.direction, kind.bytes, [&](int slot, TimePoint now, bool stopping) {
    if (over) return;
    ++all;
    if (depth == 1 && latencies.size() < kMaxLatencies) {
      latencies.push_back(static_cast<double>(ToNanos(now - submitted[0])));
    }
    if (counted_from == TimePoint{}) {
      if (now - start >= length / 5) counted_from = now;
    } else if (now > counted_from) {
      ++counted;
      counted_to = now;
    }
    over = stopping || now - start >= at_most ||
           (now >= end && counted >= enough && counted_to > counted_from);
    if (!over) submit(slot, now);
  });
  if (!ok) return tl::unexpected(ok.error());
  Slice slice;
  slice.completions = all;
  if (counted >= enough) {
    slice.iops = static_cast<double>(counted) / ToSeconds(counted_to - counted_from);
  } else {  // a slow device: all that came back, over all the time until it had
    slice.iops = static_cast<double>(all) / ToSeconds(MonotonicNow() - start);
  }
  slice.median_latency_ns = Quantile(std::move(latencies), 0.5);
  return slice;
}

Result<int64_t> LoadRing::LayOut(TimePoint deadline,
                                 const std::function<void(int64_t)>& on_progress) {
  Impl& impl = *impl_;
  if (impl.IsCancelled()) return Cancelled();
  int64_t next = 0, written = 0;
  const auto submit = [&](int slot) {
    impl.Submit(Direction::kWrite, kLayoutChunk, next, slot);
    next += kLayoutChunk;
  };
  const int64_t bytes = impl.target->bytes() / kLayoutChunk * kLayoutChunk;
  for (int slot = 0; slot < kLayoutDepth && next < bytes; ++slot) submit(slot);
  auto ok = impl.Pump(Direction::kWrite, kLayoutChunk, [&](int slot, TimePoint now, bool stopping) {
    written += kLayoutChunk;
    on_progress(written);
    if (!stopping && now < deadline && next < bytes) submit(slot);
  });
  if (!ok) return tl::unexpected(ok.error());
  // Through the ring, so that a device that stalls can be cancelled here too.
  impl.SubmitFlush();
  ok = impl.Pump(Direction::kWrite, 0, [](int, TimePoint, bool) {});
  if (!ok) return tl::unexpected(ok.error());
  if (!impl.target->direct()) (void)::posix_fadvise(impl.target->fd(), 0, 0, POSIX_FADV_DONTNEED);
  return written;
}

}  // namespace weir::device
