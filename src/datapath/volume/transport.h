// How requests come from the kernel and answers go back, on the engine's own thread and ring.
// Two ways: /dev/fuse ("resumable": a successor of a daemon that died can have the requests
// delivered again), and FUSE over io_uring ("fast"). Internal.
//
// Data requests go to the DataPath without a thread switch; everything else to the WorkerPool.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "datapath/uring/loop_extension.h"
#include "datapath/volume/data_path.h"
#include "datapath/volume/protocol.h"
#include "datapath/volume/transport_buffers.h"
#include "datapath/volume/transport_workers.h"

namespace weir::volume {

struct TransportOptions {
  int device_fd = -1;  // of /dev/fuse, after INIT; non-blocking
  BufferLimits buffers;
  // Payloads in memory; beyond it requests wait in the kernel. Not of the fast transport, where
  // the number of entries bounds them.
  int64_t most_bytes = int64_t{1} << 30;
  bool resend = false;  // a predecessor died: have its requests delivered again
  // Held open by the ring until the kernel has freed it, closed here by Start; -1: none.
  int lifetime_fd = -1;
  // Of FUSE over io_uring: queues (possible CPUs) and entries of each.
  uint32_t queues = 0;
  uint32_t entries_a_queue = 0;
  // Called by Start with the descriptors of ring and engine, after lifetime_fd was closed.
  std::function<void(int ring_fd, int wake_fd)> publish;
  // Makes the loop turn once more. Threads: any.
  std::function<void()> wake;
  // Called now and then while requests flow. Threads: the owner.
  std::function<void()> on_tick;
  // The kernel has ended the connection (unmounted, aborted). Threads: the owner.
  std::function<void()> on_end;
};

struct TransportStats {
  std::array<uint64_t, abi::kMostOpcodes> requests{};  // by opcode; 0: unknown ones
  uint64_t resent = 0;                                 // of them, delivered before to a predecessor
  uint64_t malformed = 0;                              // answered with an error by the decoder
  uint64_t held = 0;  // times that a request had to wait in the kernel for memory
};

class Transport : public uring::LoopExtension, public AnswerSink, public DataSink {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Transport>> CreateClassic(TransportOptions options);
  [[nodiscard]] static Result<std::unique_ptr<Transport>> CreateFast(TransportOptions options);

  // Requests flow from here on. All outlive the engine's last round. Threads: the owner.
  virtual void Begin(DataPath* data, WorkerPool* workers, Attribution* attribution);
  // Takes no new ones; what was taken is answered. Threads: the owner.
  void StopReading() { reading_ = false; }
  // Nothing taken is unanswered. Threads: the owner.
  [[nodiscard]] virtual bool Idle() const = 0;
  [[nodiscard]] bool ended() const { return ended_; }

  [[nodiscard]] SlotPool* slots() { return slots_.get(); }
  [[nodiscard]] uint16_t plain_writer() const { return plain_writer_; }
  [[nodiscard]] const TransportStats& stats() const { return stats_; }

  // LoopExtension.
  [[nodiscard]] Result<void> Start(const uring::LoopStart& start) override;
  void Complete(uint64_t token, const uring::Ring::Completion& completion) override;
  [[nodiscard]] bool Round(TimePoint now) override;
  // DataSink.
  void WriteOut(int fd, int64_t offset, uint32_t bytes) override;

 protected:
  // What a completion belongs to; the token's low bits. The rest: a slot's index.
  enum class Kind : uint8_t { kPoll, kIgnore, kAnswer, kEntry };
  static uint64_t UserDataOf(Kind kind, uint32_t index = 0) {
    return UserData(static_cast<uint64_t>(index) << 2 | static_cast<uint64_t>(kind));
  }

  explicit Transport(TransportOptions options) : options_(std::move(options)) {}

  // A message of /dev/fuse: `bytes` of it, from 80 before slot->data on. The slot is theirs.
  virtual void TakeMessage(Slot* slot, std::span<const std::byte> message) = 0;
  virtual void CompleteEntry(Slot* slot, const uring::Ring::Completion& completion) = 0;
  // True: there is more to do at once.
  virtual bool OwnRound() { return false; }

  // Starts a decoded request that holds `slot` or goes to a worker without it. True: the slot is
  // in use until AnswerData or AnswerMetadata.
  [[nodiscard]] bool Dispatch(const Decoded& decoded, Slot* slot, bool workers_use_slot);
  virtual void AnswerNow(Slot* slot, uint64_t unique, Answer answer) = 0;
  // Makes room in the ring; false: the kernel takes nothing at the moment.
  [[nodiscard]] bool HaveSpace();
  void End();
  // Writes a whole answer to /dev/fuse. Threads: any.
  void WriteAnswer(const std::byte* bytes, size_t size);

  const TransportOptions options_;
  std::unique_ptr<SlotPool> slots_;
  uring::Ring* ring_ = nullptr;
  uring::RingFile device_;
  DataPath* data_ = nullptr;
  WorkerPool* workers_ = nullptr;
  Attribution* attribution_ = nullptr;
  TransportStats stats_;

 private:
  bool ReadMessages();
  void TellAttribution(const Request& request);

  uint16_t plain_writer_ = 0;
  TimePoint next_tick_{};
  int messages_a_round_ = 1;
  bool reading_ = false;
  bool ended_ = false;
  bool poll_armed_ = false;
  bool readable_ = false;
};

}  // namespace weir::volume
