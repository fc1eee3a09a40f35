#include "datapath/volume/transport_workers.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <system_error>

#include "datapath/volume/protocol.h"

namespace weir::volume {

namespace {

// A freed job keeps this much; more is rare (large extended attributes).
constexpr size_t kKeepMessageBytes = 4096;
constexpr size_t kKeepJobs = 1024;
// Of a worker's own memory for answers: a header, then the payload on a page.
constexpr size_t kBufferBytes = kSlotHeadBytes + kMaxTransferBytes;

}  // namespace

WorkerPool::WorkerPool(const WorkerOptions& options, Backing* backing, AnswerSink* sink,
                       std::function<void()> on_room)
    : options_(options), backing_(backing), sink_(sink), on_room_(std::move(on_room)) {}

WorkerPool::~WorkerPool() {
  Stop();
  while (free_ != nullptr) {
    Job* next = free_->next;
    delete free_;
    free_ = next;
  }
}

Result<void> WorkerPool::Start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<void> started;
  try {
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Run(); });
  } catch (const std::system_error& error) {
    started = Fail(ErrorCode::kUnavailable, fmt::format("cannot start {} threads for metadata: {}",
                                                        options_.threads, error.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) Stop();
  return started;
}

void WorkerPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

WorkerPool::Job* WorkerPool::TakeFree() {
  const std::lock_guard lock(mutex_);
  Job* job = free_;
  if (job != nullptr) free_ = job->next;
  return job;
}

void WorkerPool::Push(const Request& request, Slot* slot) {
  Job* job = TakeFree();
  if (job == nullptr) job = new Job();
  const size_t fixed = request.fixed.size();
  const size_t rest = request.rest.size();
  job->message.resize(fixed + rest);
  std::copy(request.fixed.begin(), request.fixed.end(), job->message.begin());
  std::copy(request.rest.begin(), request.rest.end(),
            job->message.begin() + static_cast<ptrdiff_t>(fixed));
  job->request = request;
  job->request.fixed = std::span<const std::byte>(job->message).first(fixed);
  job->request.rest = std::span<const std::byte>(job->message).subspan(fixed);
  job->slot = slot;
  job->next = nullptr;
  pending_.fetch_add(1, std::memory_order_acq_rel);
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    (first_ == nullptr ? first_ : last_->next) = job;
    last_ = job;
    wake = sleeping_ > 0;
  }
  if (wake) work_.notify_one();
}

void WorkerPool::Run() {
  pthread_setname_np(pthread_self(), "weir-meta");
  struct AlignedDelete {
    void operator()(std::byte* p) const { std::free(p); }
  };
  const std::unique_ptr<std::byte, AlignedDelete> buffer(
      static_cast<std::byte*>(std::aligned_alloc(kSlotHeadBytes, kBufferBytes)));
  std::unique_lock lock(mutex_);
  while (true) {
    while (first_ == nullptr && !stopping_) {
      ++sleeping_;
      work_.wait(lock);
      --sleeping_;
    }
    Job* job = first_;
    if (job == nullptr) return;
    first_ = job->next;
    lock.unlock();
    Execute(job, buffer.get() + kSlotHeadBytes);
    if (job->message.capacity() > kKeepMessageBytes) job->message = {};
    const size_t before = pending_.fetch_sub(1, std::memory_order_acq_rel);
    if (before == options_.most_queued) on_room_();
    if (before > kKeepJobs) {
      delete job;
      job = nullptr;
    }
    lock.lock();
    if (job != nullptr) {
      job->next = free_;
      free_ = job;
    }
  }
}

void WorkerPool::Execute(Job* job, std::byte* buffer) {
  std::byte* payload = job->slot != nullptr ? job->slot->data : buffer;
  const Answer answer =
      backing_->Handle(job->request, std::span<std::byte>(payload, kMaxTransferBytes));
  if (WantsNoAnswer(job->request.opcode)) return;
  sink_->AnswerMetadata(job->request.unique, job->slot, answer, payload);
}

}  // namespace weir::volume
