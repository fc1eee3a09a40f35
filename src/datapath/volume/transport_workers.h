// A small fixed pool of threads for what blocks: metadata operations. Data never waits behind them,
// nor they behind data. Internal.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "datapath/volume/backing.h"
#include "datapath/volume/protocol.h"
#include "datapath/volume/transport_buffers.h"

namespace weir::volume {

// Takes the workers' answers. Threads: any.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  AnswerSink(const AnswerSink&) = delete;
  AnswerSink& operator=(const AnswerSink&) = delete;
  // `payload` has answer bytes if answer > 0, and 16 bytes of room in front. `slot` as in Push.
  virtual void AnswerMetadata(uint64_t unique, Slot* slot, Answer answer, std::byte* payload) = 0;

 protected:
  AnswerSink() = default;
};

struct WorkerOptions {
  int threads = 4;
  size_t most_queued = 65'536;
};

class WorkerPool {
 public:
  // `backing` and `sink` outlive it. `on_room` is called on a worker when a full queue has room.
  WorkerPool(const WorkerOptions& options, Backing* backing, AnswerSink* sink,
             std::function<void()> on_room);
  ~WorkerPool();  // as Stop
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Errors: kUnavailable (no thread).
  [[nodiscard]] Result<void> Start();
  // What was pushed is carried out first.
  void Stop();

  // False: nothing more may be pushed until `on_room`. Threads: that of Push.
  [[nodiscard]] bool HasRoom() const { return pending() < options_.most_queued; }
  // Copies what the request points to. With a slot, the answer is written to its
  // payload. Threads: one.
  void Push(const Request& request, Slot* slot);
  // Pushed and not yet answered.
  [[nodiscard]] size_t pending() const { return pending_.load(std::memory_order_acquire); }

 private:
  struct Job {
    std::vector<std::byte> message;
    Request request;
    Slot* slot = nullptr;
    Job* next = nullptr;
  };
  void Run();
  [[nodiscard]] Job* TakeFree();
  void Execute(Job* job, std::byte* buffer);

  const WorkerOptions options_;
  Backing* const backing_;
  AnswerSink* const sink_;
  const std::function<void()> on_room_;
  std::vector<std::thread> threads_;
  std::atomic<size_t> pending_{0};

  std::mutex mutex_;
  std::condition_variable work_;
  Job* first_ = nullptr;  // under mutex_, as all below
  Job* last_ = nullptr;
  Job* free_ = nullptr;
  int sleeping_ = 0;
  bool stopping_ = false;
};

}  // namespace weir::volume
