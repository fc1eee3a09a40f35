// The engine's front: what runs on the calling threads.
#include "datapath/uring/engine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/monotonic_clock.h"
#include "datapath/uring/owner.h"

namespace weir {

namespace {

using uring::Control;
using uring::Op;
using uring::Owner;
using uring::SubmitQueue;

// The engine that this thread is the owner of.
thread_local const void* this_threads_engine = nullptr;

tl::unexpected<Error> Stopped() {
  return Fail(ErrorCode::kFailedPrecondition, "the I/O engine is stopped; it takes no more work");
}

Result<void> CheckRange(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("cannot create the I/O engine: {} is {}; it must be {} to {}", name,
                          value, least, most));
}

Result<void> CheckOptions(const EngineOptions& options) {
  constexpr int64_t kPieceUnit = 4096;
  for (const Result<void>& checked :
       {CheckRange("max_outstanding", options.max_outstanding, 1, kMaxEngineOutstanding),
        CheckRange("max_in_flight", options.max_in_flight, 1, kMaxEngineRing),
        CheckRange("max_files", options.max_files, 1, kMaxEngineFiles),
        CheckRange("max_piece_bytes", options.max_piece_bytes, 0, kMaxEngineRequestBytes),
        CheckRange("scheduler.capacity_per_s", options.scheduler.capacity_per_s, 1, kMaxRate)}) {
    if (!checked) return checked;
  }
  if (options.max_piece_bytes % kPieceUnit != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot create the I/O engine: max_piece_bytes is {}; it must be a "
                            "multiple of {}",
                            options.max_piece_bytes, kPieceUnit));
  }
  return {};
}

Result<void> CheckRequest(const IoRequest& request, const IoCallback& callback) {
  if (!callback) {
    return Fail(ErrorCode::kInvalidArgument, "cannot submit: there is no callback");
  }
  if (request.bytes < 0 || request.bytes > kMaxEngineRequestBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot submit a request of {} bytes: it must be 0 to {}",
                            request.bytes, kMaxEngineRequestBytes));
  }
  if (request.offset < 0 || request.offset > INT64_MAX - request.bytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot submit a request at offset {}: offset and end must be 0 to {}",
                            request.offset, INT64_MAX));
  }
  if (request.region >= static_cast<int32_t>(kMaxEngineBufferRegions)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot submit: there is no buffer region {}", request.region));
  }
  return {};
}

IoRequest Transfer(IoOp op, FileId file, core::GroupId group, void* buffer, int64_t bytes,
                   int64_t offset) {
  IoRequest request;
  request.op = op;
  request.file = file;
  request.group = group;
  request.buffer = buffer;
  request.bytes = bytes;
  request.offset = offset;
  return request;
}

}  // namespace

IoRequest IoRequest::Read(FileId file, core::GroupId group, void* buffer, int64_t bytes,
                          int64_t offset) {
  return Transfer(IoOp::kRead, file, group, buffer, bytes, offset);
}
IoRequest IoRequest::Write(FileId file, core::GroupId group, const void* buffer, int64_t bytes,
                           int64_t offset) {
  return Transfer(IoOp::kWrite, file, group, const_cast<void*>(buffer), bytes, offset);
}
IoRequest IoRequest::Fsync(FileId file, core::GroupId group) {
  return Transfer(IoOp::kFsync, file, group, nullptr, 0, 0);
}
IoRequest IoRequest::Fdatasync(FileId file, core::GroupId group) {
  return Transfer(IoOp::kFdatasync, file, group, nullptr, 0, 0);
}

Error IoResult::error() const {
  if (code == ErrorCode::kIo || sys_errno != 0) {
    return Error{code, fmt::format("the request failed: {}", std::strerror(sys_errno)), sys_errno};
  }
  return Error{code, fmt::format("the request failed: {}", ErrorCodeName(code)), 0};
}

// --- The thread and the messages to it ----------------------------------------------------------

struct Engine::Impl {
  explicit Impl(EngineOptions engine_options) : options(std::move(engine_options)) {}
  ~Impl() {
    owner.reset();  // before what it refers to
    if (shared.wake_fd >= 0) close(shared.wake_fd);
  }

  [[nodiscard]] bool OnOwner() const { return this_threads_engine == this; }
  Result<void> Start();
  void RunThread(std::promise<Result<void>>* ready);
  [[nodiscard]] bool Push(uring::QueueNode* node);
  [[nodiscard]] Result<Op*> TakeOp();
  void Join();

  // Runs `work` on the owner thread and returns what it returns; after the owner thread has ended,
  // on this one.
  template <typename F>
  auto Call(F work) -> decltype(work(*std::declval<Owner*>())) {
    if (OnOwner()) return work(*owner);
    using R = decltype(work(*owner));
    std::optional<R> result;
    Control control;
    control.work = [&] { result.emplace(work(*owner)); };
    std::future<void> done = control.done.get_future();
    if (Push(&control)) {
      done.wait();
      return std::move(*result);
    }
    const std::lock_guard lock(stopped_mutex);
    Join();
    return work(*owner);
  }

  const EngineOptions options;
  uring::Shared shared;
  std::unique_ptr<Owner> owner;  // made and used on `thread`, later under stopped_mutex
  core::GroupId root;
  std::mutex stopped_mutex;
  std::thread thread;  // joined under stopped_mutex
};

Result<void> Engine::Impl::Start() {
  if (!shared.pool.Init(options.max_outstanding)) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("cannot create the I/O engine: no memory for {} requests: {}; lower "
                            "max_outstanding",
                            options.max_outstanding, std::strerror(errno)),
                errno);
  }
  shared.wake_fd = eventfd(0, EFD_CLOEXEC);
  if (shared.wake_fd < 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot create the I/O engine: eventfd: {}", std::strerror(errno)),
                errno);
  }
  std::promise<Result<void>> ready;
  // Signals are the application's; none is for this thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread = std::thread([this, &ready] { RunThread(&ready); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  Result<void> started = ready.get_future().get();
  if (!started) thread.join();
  return started;
}

void Engine::Impl::RunThread(std::promise<Result<void>>* ready) {
  this_threads_engine = this;
  pthread_setname_np(pthread_self(), options.thread_name.substr(0, 15).c_str());
  // Timers of limits are tens of microseconds; the default slack alone is 50.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  Result<std::unique_ptr<Owner>> created = Owner::Create(options, &shared);
  if (!created) {
    ready->set_value(tl::unexpected(std::move(created.error())));
    return;
  }
  owner = std::move(*created);
  root = owner->gate()->scheduler()->root();
  ready->set_value({});
  owner->Run();
}

// Waits for the thread, and for calls of Submit that have pushed but are still about to wake it:
// all their requests may have completed meanwhile. Requires: stopped_mutex.
void Engine::Impl::Join() {
  if (!thread.joinable()) return;
  thread.join();
  while (shared.wakeups.load(std::memory_order_acquire) < shared.queue.wakers()) {
    std::this_thread::yield();
  }
}

// False: the owner is gone, the node still the caller's.
bool Engine::Impl::Push(uring::QueueNode* node) {
  switch (shared.queue.Push(node)) {
    case SubmitQueue::Pushed::kDone:
      return true;
    case SubmitQueue::Pushed::kWakeOwner: {
      const uint64_t one = 1;
      static_cast<void>(!write(shared.wake_fd, &one, sizeof(one)));  // cannot fail: it never fills
      // Last of all: from here on the engine may be destroyed.
      shared.wakeups.fetch_add(1, std::memory_order_release);
      return true;
    }
    case SubmitQueue::Pushed::kClosed:
      return false;
  }
  return false;
}

Result<Op*> Engine::Impl::TakeOp() {
  if (OnOwner()) {
    if (Op* op = shared.pool.TakeOnOwner()) return op;
  } else {
    if (Op* op = shared.pool.Take()) return op;
    if (options.block_when_full) {
      Op* op = nullptr;
      shared.blocked.fetch_add(1, std::memory_order_acq_rel);
      while (op == nullptr && shared.accepting.load(std::memory_order_acquire)) {
        const uint32_t freed = shared.freed.load(std::memory_order_acquire);
        op = shared.pool.Take();
        if (op == nullptr) shared.freed.wait(freed, std::memory_order_acquire);
      }
      shared.blocked.fetch_sub(1, std::memory_order_relaxed);
      if (op == nullptr) return Stopped();
      return op;
    }
  }
  return Fail(ErrorCode::kResourceExhausted,
              fmt::format("cannot submit: {} requests are outstanding, the maximum of this engine; "
                          "wait for completions or raise max_outstanding",
                          options.max_outstanding));
}

// --- Life ---------------------------------------------------------------------------------------

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Engine>> Engine::Create(EngineOptions options) {
  if (Result<void> checked = CheckOptions(options); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  auto impl = std::make_unique<Impl>(std::move(options));
  if (Result<void> started = impl->Start(); !started) {
    return tl::unexpected(std::move(started.error()));
  }
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::~Engine() { static_cast<void>(Stop(StopMode::kCancel)); }

Result<void> Engine::Stop(StopMode mode, Duration drain_limit) {
  if (impl_->OnOwner()) {
    return Fail(ErrorCode::kFailedPrecondition,
                "cannot stop the I/O engine from one of its callbacks, which would wait for "
                "itself; stop it from another thread");
  }
  impl_->shared.accepting.store(false, std::memory_order_release);
  impl_->Call([&](Owner& owner) {
    owner.RequestStop(mode, drain_limit);
    return true;
  });
  impl_->shared.freed.fetch_add(1, std::memory_order_release);
  impl_->shared.freed.notify_all();
  const std::lock_guard lock(impl_->stopped_mutex);
  impl_->Join();
  return {};
}

Result<void> Engine::Post(std::function<void()> work) {
  if (!impl_->shared.accepting.load(std::memory_order_acquire)) return Stopped();
  auto control = std::make_unique<Control>();
  control->work = std::move(work);
  control->delete_after = true;
  if (!impl_->Push(control.get())) return Stopped();
  static_cast<void>(control.release());  // the owner's now
  return {};
}

// --- Requests -----------------------------------------------------------------------------------

Result<OpId> Engine::Submit(const IoRequest& request, IoCallback callback) {
  if (Result<void> checked = CheckRequest(request, callback); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  if (!impl_->shared.accepting.load(std::memory_order_acquire)) return Stopped();
  Result<Op*> taken = impl_->TakeOp();
  if (!taken) return tl::unexpected(std::move(taken.error()));
  Op* op = *taken;
  const OpId id{op->index, op->generation};
  op->Fill(request, callback);
  if (impl_->OnOwner()) {
    op->submitted_at = impl_->owner->now();
    impl_->owner->Arrive(op);
    return id;
  }
  op->submitted_at = MonotonicNow();
  if (!impl_->Push(op)) {
    impl_->shared.pool.GiveBack(op);
    return Stopped();
  }
  return id;
}

std::future<IoResult> Engine::SubmitFuture(const IoRequest& request) {
  auto promise = std::make_unique<std::promise<IoResult>>();
  std::future<IoResult> future = promise->get_future();
  std::promise<IoResult>* waiting = promise.get();
  Result<OpId> submitted = Submit(request, [waiting](const IoResult& result) {
    const std::unique_ptr<std::promise<IoResult>> owned(waiting);
    owned->set_value(result);
  });
  if (submitted) {
    static_cast<void>(promise.release());  // the callback's now
  } else {
    IoResult result;
    result.failed = true;
    result.code = submitted.error().code;
    promise->set_value(result);
  }
  return future;
}

CancelOutcome Engine::Cancel(OpId op) {
  return impl_->Call([&](Owner& owner) { return owner.Cancel(op); });
}

Result<core::Explanation> Engine::Explain(OpId op) {
  return impl_->Call([&](Owner& owner) { return owner.Explain(op); });
}

// --- Groups -------------------------------------------------------------------------------------

core::GroupId Engine::RootGroup() const { return impl_->root; }

Result<std::vector<core::GroupId>> Engine::Apply(const std::vector<GroupChange>& changes) {
  return impl_->Call([&](Owner& owner) { return owner.Apply(changes); });
}

Result<core::GroupId> Engine::AddGroup(core::GroupId parent, const ResourceParams& params) {
  GroupChange change;
  change.kind = GroupChange::Kind::kAdd;
  change.parent = parent;
  change.params = params;
  auto groups = Apply({change});
  if (!groups) return tl::unexpected(std::move(groups.error()));
  return groups->front();
}

namespace {

Result<void> WithoutValue(Result<std::vector<core::GroupId>> applied) {
  if (!applied) return tl::unexpected(std::move(applied.error()));
  return {};
}

}  // namespace

Result<void> Engine::SetParams(core::GroupId group, const ResourceParams& params) {
  GroupChange change;
  change.kind = GroupChange::Kind::kSetParams;
  change.group = group;
  change.params = params;
  return WithoutValue(Apply({change}));
}

Result<void> Engine::MoveGroup(core::GroupId group, core::GroupId new_parent) {
  GroupChange change;
  change.kind = GroupChange::Kind::kMove;
  change.group = group;
  change.parent = new_parent;
  return WithoutValue(Apply({change}));
}

Result<void> Engine::RemoveGroup(core::GroupId group, std::optional<core::GroupId> queued_to) {
  GroupChange change;
  change.kind = GroupChange::Kind::kRemove;
  change.group = group;
  change.queued_to = queued_to;
  return WithoutValue(Apply({change}));
}

Result<ResourceParams> Engine::Params(core::GroupId group) {
  return impl_->Call([&](Owner& owner) { return owner.gate()->scheduler()->Params(group); });
}

Result<std::vector<core::GroupStats>> Engine::Stats(const std::vector<core::GroupId>& groups) {
  return impl_->Call([&](Owner& owner) -> Result<std::vector<core::GroupStats>> {
    std::vector<core::GroupStats> all;
    all.reserve(groups.size());
    for (const core::GroupId group : groups) {
      Result<core::GroupStats> stats = owner.gate()->Stats(group, owner.now());
      if (!stats) return tl::unexpected(std::move(stats.error()));
      all.push_back(*stats);
    }
    return all;
  });
}

Result<core::GroupStats> Engine::Stats(core::GroupId group) {
  auto stats = Stats(std::vector<core::GroupId>{group});
  if (!stats) return tl::unexpected(std::move(stats.error()));
  return stats->front();
}

EngineStats Engine::TotalStats() {
  return impl_->Call([](Owner& owner) { return owner.Stats(); });
}

void Engine::SetCapacity(int64_t capacity_per_s) {
  impl_->Call([&](Owner& owner) {
    owner.gate()->scheduler()->SetCapacity(capacity_per_s);
    return true;
  });
}

void Engine::SetDepth(int64_t depth) {
  impl_->Call([&](Owner& owner) {
    owner.gate()->scheduler()->SetDepth(depth);
    return true;
  });
}

core::CostModel Engine::CostModelNow() {
  return impl_->Call([](Owner& owner) { return *owner.cost_model(); });
}

// --- Files and buffers --------------------------------------------------------------------------

Result<FileId> Engine::Open(const std::string& path, int flags, int mode) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot open {}: {}", path, std::strerror(errno)),
                errno);
  }
  Result<FileId> file = Adopt(fd);
  if (!file) close(fd);
  return file;
}

Result<FileId> Engine::Adopt(int fd) {
  if (!impl_->shared.accepting.load(std::memory_order_acquire)) return Stopped();
  if (fcntl(fd, F_GETFD) < 0) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot adopt descriptor {}: {}", fd, std::strerror(errno)), errno);
  }
  return impl_->Call([&](Owner& owner) { return owner.files()->Add(fd); });
}

Result<void> Engine::Close(FileId file) {
  return impl_->Call([&](Owner& owner) { return owner.files()->Close(file); });
}

Result<BufferRegion> Engine::AllocateBuffers(int64_t bytes) {
  if (!impl_->shared.accepting.load(std::memory_order_acquire)) return Stopped();
  return impl_->Call([&](Owner& owner) { return owner.buffers()->Allocate(bytes); });
}

Result<void> Engine::FreeBuffers(const BufferRegion& region) {
  return impl_->Call([&](Owner& owner) { return owner.buffers()->Free(region); });
}

}  // namespace weir
