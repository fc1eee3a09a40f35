// weir::Engine: asynchronous file I/O in which every request belongs to a group, and groups get
// what they were promised (reservation, limit, weight) from the device.
//
// One owner thread holds the scheduler and one io_uring. Any thread submits; callbacks run on the
// owner thread, never under a lock, and may submit again from inside: that path takes no lock,
// no allocation, no thread switch and no system call of its own (a round of the loop makes one).
//
//   auto engine = weir::Engine::Create({.scheduler = {.capacity_per_s = 50'000 * weir::kOp}});
//   auto group = (*engine)->AddGroup((*engine)->RootGroup(), params);
//   auto file = (*engine)->Open("/data/f", O_RDONLY | O_DIRECT);
//   auto done = (*engine)->SubmitFuture(weir::IoRequest::Read(*file, *group, buffer, 16384, 0));
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/resource_params.h"
#include "base/result.h"
#include "base/time.h"
#include "core/cost_model.h"
#include "core/request.h"
#include "core/scheduler.h"

namespace weir {

namespace uring {
class LoopExtension;
}  // namespace uring

// Named maxima.
inline constexpr uint32_t kMaxEngineOutstanding = 1u << 20;  // EngineOptions::max_outstanding
inline constexpr uint32_t kMaxEngineFiles = 1u << 15;        // EngineOptions::max_files
inline constexpr uint32_t kMaxEngineRing = 1u << 14;         // EngineOptions::max_in_flight
inline constexpr uint32_t kMaxEngineBufferRegions = 1024;
inline constexpr int64_t kMaxEngineRequestBytes = core::kMaxRequestBytes;  // of one IoRequest
inline constexpr int kMaxEngineIoVectors = 1024;

struct EngineOptions {
  core::SchedulerOptions scheduler{};
  core::CostModel cost_model{};

  // False: every request goes straight to the ring in order of arrival. Groups exist, requests are
  // counted for them, nothing is held back or preferred. For comparisons.
  bool isolation = true;

  // Requests accepted and not yet completed; about 400 bytes of memory each, touched when used.
  uint32_t max_outstanding = 65'536;
  // When max_outstanding is reached, Submit waits for a completion instead of failing. Never on
  // the owner thread, where it always fails.
  bool block_when_full = false;

  // Requests in the kernel at one time. The scheduler's bound D on the cost in flight is normally
  // far below. Rounded up to a power of two.
  uint32_t max_in_flight = 1024;
  uint32_t max_files = 1024;

  // Larger reads and writes are sent in pieces of this size (a multiple of 4096), so that one big
  // request does not hold the device; the result is that of the whole. 0 = never.
  int64_t max_piece_bytes = 0;

  // Corrects the cost model slowly by what the device does while it is kept full.
  bool learn_costs = true;

  std::string thread_name{"weir-io"};  // at most 15 characters

  // Internal (datapath/uring/loop_extension.h): takes part in the owner's loop. Not owned.
  uring::LoopExtension* extension = nullptr;
};

// Names an open file of the engine. A closed file's id is never mistaken for a later one's.
struct FileId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

// Names a submitted request, for Cancel and Explain. Never mistaken for a later request.
struct OpId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  friend bool operator==(const OpId&, const OpId&) = default;
};

// Memory from Engine::AllocateBuffers.
struct BufferRegion {
  std::byte* data = nullptr;  // aligned to 4096
  int64_t bytes = 0;
  int32_t index = -1;  // < 0: not registered with the kernel (RLIMIT_MEMLOCK); works, but slower
  uint32_t id = UINT32_MAX;
};

enum class IoOp : uint8_t { kRead, kWrite, kFsync, kFdatasync };

struct IoRequest {
  IoOp op = IoOp::kRead;
  FileId file{};
  core::GroupId group{};   // a leaf
  void* buffer = nullptr;  // stays valid until the completion; O_DIRECT files need it aligned
  int64_t bytes = 0;       // 0 <= bytes <= kMaxEngineRequestBytes
  int64_t offset = 0;      // >= 0
  // Of the region that `buffer` lies in: BufferRegion::index, or -1 for any other memory.
  int32_t region = -1;
  // CLOCK_MONOTONIC (MonotonicNow()). The request fails with kDeadlineExceeded at once if limits
  // are bound to hold it back beyond this, and otherwise when this passes while it is queued.
  TimePoint deadline = kNever;

  // >= 0: this descriptor instead of `file`. The engine does not own it; it stays open until the
  // completion.
  int fd = -1;
  // Of pwritev2(2), such as RWF_DSYNC: durable before the completion.
  int rw_flags = 0;
  // Served by the page cache: tells nothing about the device.
  bool cached = false;
  // A number from uring::Ring::RegisterPersonality, or 0: the credentials of the owner thread.
  uint16_t personality = 0;

  static IoRequest Read(FileId file, core::GroupId group, void* buffer, int64_t bytes,
                        int64_t offset);
  static IoRequest Write(FileId file, core::GroupId group, const void* buffer, int64_t bytes,
                         int64_t offset);
  // As fsync(2): covers the writes that have completed before; queued writes of the group are
  // sent sooner (they are what the caller waits for next). Costs its group one 4 KiB write.
  static IoRequest Fsync(FileId file, core::GroupId group);
  static IoRequest Fdatasync(FileId file, core::GroupId group);
};

struct IoResult {
  // Transferred, counted from the start of the request. Fewer than asked for without an error is
  // a short transfer (end of file, disk full part of the way), as read(2) and write(2) have it.
  int64_t bytes = 0;
  bool failed = false;
  // Only if `failed`. kIo: the kernel's answer, in sys_errno. kNotFound: no such file (sys_errno
  // EBADF) or group. kFailedPrecondition: the group is not a leaf. kDeadlineExceeded, kCancelled:
  // nothing, or only `bytes`, was transferred.
  ErrorCode code = ErrorCode::kInternal;
  int sys_errno = 0;
  core::Phase phase = core::Phase::kWeight;  // by which promise it was served
  int64_t cost = 0;                          // charged, in 1/65536 normalised op
  TimePoint submitted_at{};   // in Submit (on the owner thread: when the round began)
  TimePoint dispatched_at{};  // when the last piece went to the device; 0 if none did
  TimePoint completed_at{};

  [[nodiscard]] bool ok() const { return !failed; }
  [[nodiscard]] Error error() const;  // Requires: failed. For people; allocates.
};

// A callable `void(const IoResult&)` kept inside the request: at most kCapacity bytes and
// trivially copyable, such as a lambda that captures pointers and numbers. Must not throw.
class IoCallback {
 public:
  static constexpr size_t kCapacity = 32;

  IoCallback() = default;
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, IoCallback>>>
  IoCallback(F f) {  // NOLINT(google-explicit-constructor): a lambda converts
    static_assert(std::is_invocable_v<F&, const IoResult&>, "takes a const IoResult&");
    static_assert(sizeof(F) <= kCapacity, "captures too much; capture a pointer to it");
    static_assert(alignof(F) <= alignof(std::max_align_t));
    static_assert(std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F>,
                  "capture pointers and numbers only");
    std::memcpy(storage_, static_cast<const void*>(&f), sizeof(F));
    call_ = [](void* storage, const IoResult& result) { (*static_cast<F*>(storage))(result); };
  }
  explicit operator bool() const { return call_ != nullptr; }
  void operator()(const IoResult& result) { call_(storage_, result); }

 private:
  void (*call_)(void*, const IoResult&) = nullptr;
  alignas(std::max_align_t) std::byte storage_[kCapacity];
};

// One element of a set of changes to the tree.
struct GroupChange {
  enum class Kind : uint8_t { kAdd, kSetParams, kMove, kRemove };
  Kind kind = Kind::kSetParams;
  core::GroupId group{};    // kSetParams, kMove, kRemove
  core::GroupId parent{};   // kAdd, kMove
  int parent_change = -1;   // kAdd, kMove: >= 0: under the group that this earlier element adds
  ResourceParams params{};  // kAdd, kSetParams
  // kRemove: queued requests go on in this group; without: they complete with kCancelled.
  std::optional<core::GroupId> queued_to{};
};

enum class CancelOutcome : uint8_t {
  kCancelled,  // it was queued; its callback gets kCancelled
  kTooLate,  // the device has it; the kernel was asked to stop it, its callback tells how it ended
  kUnknown,  // completed already, or never submitted
};

enum class StopMode : uint8_t {
  kDrain,   // everything accepted is carried out, as fast as the limits allow
  kCancel,  // what is queued completes with kCancelled; what is in flight is waited for
};

// Totals since Create, except where `now` is said.
struct EngineStats {
  uint64_t submitted = 0;
  uint64_t completed = 0;  // callbacks called, of any outcome
  uint64_t io_errors = 0;
  uint64_t cancelled = 0;
  uint64_t expired = 0;        // deadline passed while queued
  uint64_t failed_fast = 0;    // predicted wait beyond the deadline
  uint64_t in_flight = 0;      // now, pieces
  uint64_t enters = 0;         // io_uring_enter calls
  uint64_t wakeups = 0;        // eventfd writes by submitting threads
  int64_t cost_in_flight = 0;  // now, 1/65536 norm op
  int64_t depth = 0;           // now: the scheduler's bound D
  int64_t headroom = 0;        // now
};

class Engine {
 public:
  // Starts the owner thread. Errors: kInvalidArgument (an option out of its range); kUnavailable
  // (io_uring_setup failed; the message says why and what to do; sys_errno).
  [[nodiscard]] static Result<std::unique_ptr<Engine>> Create(EngineOptions options);
  // As Stop(StopMode::kCancel). Not inside a callback, nor while other calls are being made; a
  // Submit whose callback has come counts as returned.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- Groups. Threads: any, also inside callbacks; from another thread each call is one message
  // to the owner and waits for it. Work after Stop too (on the remaining state).

  [[nodiscard]] core::GroupId RootGroup() const;
  // Errors: as core::Scheduler's functions of these names.
  [[nodiscard]] Result<core::GroupId> AddGroup(core::GroupId parent, const ResourceParams& params);
  [[nodiscard]] Result<void> SetParams(core::GroupId group, const ResourceParams& params);
  [[nodiscard]] Result<void> MoveGroup(core::GroupId group, core::GroupId new_parent);
  // Queued requests go on in `queued_to`, or complete with kCancelled.
  [[nodiscard]] Result<void> RemoveGroup(core::GroupId group,
                                         std::optional<core::GroupId> queued_to = std::nullopt);
  // All changes at one instant: no request is dispatched between them. Removals happen last.
  // Returns the group of each element. On an error nothing has changed; the message names the
  // element.
  [[nodiscard]] Result<std::vector<core::GroupId>> Apply(const std::vector<GroupChange>& changes);
  [[nodiscard]] Result<ResourceParams> Params(core::GroupId group);

  // Of all `groups` at one instant. Errors: kNotFound.
  [[nodiscard]] Result<std::vector<core::GroupStats>> Stats(
      const std::vector<core::GroupId>& groups);
  [[nodiscard]] Result<core::GroupStats> Stats(core::GroupId group);
  [[nodiscard]] EngineStats TotalStats();
  // Why a request waits. kNotQueued: in flight or completed. Errors: kNotFound (no such request).
  [[nodiscard]] Result<core::Explanation> Explain(OpId op);

  void SetCapacity(int64_t capacity_per_s);  // 1/65536 norm op per second
  void SetDepth(int64_t depth);              // fixes D; ends automatic control
  [[nodiscard]] core::CostModel CostModelNow();

  // --- Files and buffers. Threads: any.

  // open(2) on the calling thread (O_CLOEXEC is added). Errors: kIo; kResourceExhausted
  // (max_files).
  [[nodiscard]] Result<FileId> Open(const std::string& path, int flags, int mode = 0644);
  // Takes over `fd` (it is closed with the file; on an error it stays the caller's).
  [[nodiscard]] Result<FileId> Adopt(int fd);
  // No new requests from here on; the descriptor is closed after the last accepted one.
  // Errors: kNotFound.
  [[nodiscard]] Result<void> Close(FileId file);

  // Zeroed memory registered with the kernel, which saves pinning its pages for each request; cut
  // it up as you like. Freed by FreeBuffers or with the engine. Errors: kInvalidArgument (size),
  // kResourceExhausted (kMaxEngineBufferRegions, memory).
  [[nodiscard]] Result<BufferRegion> AllocateBuffers(int64_t bytes);
  // Requires: no request uses it any more. Errors: kNotFound.
  [[nodiscard]] Result<void> FreeBuffers(const BufferRegion& region);

  // --- Requests. Threads: any, also inside callbacks.

  // Exactly one callback for each accepted request, on the owner thread, after Submit has returned
  // if called from a callback (no recursion). What is found wrong with file, group or deadline
  // arrives there. Errors (no callback then): kInvalidArgument (sizes, offset, no callback);
  // kResourceExhausted (max_outstanding; up to 64 fewer while the engine is busy);
  // kFailedPrecondition (stopped).
  // Cost: no lock, no allocation; from another thread one write(2) if the owner sleeps.
  Result<OpId> Submit(const IoRequest& request, IoCallback callback);
  // As Submit; errors arrive in the future as well (code kResourceExhausted, ...). Allocates.
  [[nodiscard]] std::future<IoResult> SubmitFuture(const IoRequest& request);

  // Safe against completion at any moment. From another thread it waits for the owner.
  CancelOutcome Cancel(OpId op);

  // Runs `work` on the owner thread, soon; where many requests are to be submitted without a
  // thread switch each. Errors: kFailedPrecondition (stopped). Allocates.
  Result<void> Post(std::function<void()> work);

  // Refuses new requests, then ends the accepted ones as `mode` says, closes all files, and ends
  // the owner thread. Memory from AllocateBuffers stays until the engine is destroyed. After
  // `drain_limit` a drain turns into a cancel. Later calls return at once. Errors:
  // kFailedPrecondition (called from a callback).
  Result<void> Stop(StopMode mode, Duration drain_limit = Duration::max());

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
