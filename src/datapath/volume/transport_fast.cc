// Requests and answers through FUSE over io_uring (Linux 6.14): each entry of a queue is a slot
// that the kernel fills with a request and takes back with the answer. FORGET and INTERRUPT still
// come through /dev/fuse.
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "datapath/volume/transport.h"

namespace weir::volume {

namespace {

// Slots beside the entries, for messages of /dev/fuse.
constexpr uint32_t kMessageSlots = 8;
// Entries whose memory is given back in a round.
constexpr int kGiveBackARound = 16;

class FastTransport final : public Transport {
 public:
  explicit FastTransport(TransportOptions options) : Transport(std::move(options)) {}

  [[nodiscard]] bool NeedsWideEntries() const override { return true; }
  [[nodiscard]] uint32_t MostOutstanding() const override { return entries_ + kMessageSlots; }
  [[nodiscard]] bool Idle() const override { return in_hand_ == 0 && workers_->pending() == 0; }

  Result<void> Init() {
    entries_ = options_.queues * options_.entries_a_queue;
    BufferLimits limits = options_.buffers;
    limits.slots = entries_ + kMessageSlots;
    auto slots = SlotPool::Create(limits);
    if (!slots) return tl::unexpected(std::move(slots.error()));
    slots_ = std::move(*slots);
    vectors_.resize(limits.slots);
    answers_.resize(limits.slots);
    in_kernel_.resize(limits.slots);
    return {};
  }

  void Begin(DataPath* data, WorkerPool* workers, Attribution* attribution) override {
    Transport::Begin(data, workers, attribution);
    for (uint32_t i = 0; i < entries_; ++i) {
      Slot* slot = slots_->Take();
      vectors_[slot->index] = {iovec{HeadersOf(slot), sizeof(abi::UringHeaders)},
                               iovec{slot->data, kMaxTransferBytes}};
      Command(slot, abi::kUringRegister);
    }
  }

  void AnswerData(Slot* slot, Answer answer) override {
    Commit(slot, std::exchange(slot->unique, 0), answer);
  }

  // The owner commits: its thread is the only one on the ring.
  void AnswerMetadata(uint64_t unique, Slot* slot, Answer answer, std::byte* /*payload*/) override {
    slot->unique = unique;
    answers_[slot->index] = answer;
    Slot* head = done_.load(std::memory_order_relaxed);
    do {
      slot->next = head;
    } while (!done_.compare_exchange_weak(head, slot, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    if (head == nullptr) options_.wake();
  }

 protected:
  // FORGET, BATCH_FORGET and INTERRUPT: nothing here is answered.
  void TakeMessage(Slot* slot, std::span<const std::byte> message) override {
    const Decoded decoded = Decode(message);
    if (WantsNoAnswer(decoded.request.opcode)) static_cast<void>(Dispatch(decoded, slot, false));
    slots_->Free(slot);
  }

  // The kernel has filled the entry with a request, or ends the connection.
  void CompleteEntry(Slot* slot, const uring::Ring::Completion& completion) override {
    slots_->Unpark(slot);
    in_kernel_[slot->index] = false;
    if (completion.result < 0) {
      if (completion.result != -EAGAIN) return End();
      return Command(slot, abi::kUringRegister);
    }
    ++in_hand_;
    const abi::UringHeaders* headers = HeadersOf(slot);
    slot->commit_id = headers->entry.commit_id;
    const uint32_t payload = std::min(headers->entry.payload_size, kMaxTransferBytes);
    slots_->Touch(slot, payload);
    const Decoded decoded = Decode(std::span<const std::byte>(headers->in_out), headers->op_in,
                                   std::span<const std::byte>(slot->data, payload));
    static_cast<void>(Dispatch(decoded, slot, true));
  }

  void AnswerNow(Slot* slot, uint64_t unique, Answer answer) override {
    Commit(slot, unique, answer);
  }

  bool OwnRound() override {
    CommitWorkersAnswers();
    if (slots_->KeepsTooMuch() && !ended()) return GiveMemoryBack();
    return false;
  }

 private:
  static abi::UringHeaders* HeadersOf(Slot* slot) {
    return reinterpret_cast<abi::UringHeaders*>(slot->data - kSlotHeadBytes);
  }

  void CommitWorkersAnswers() {
    Slot* slot = done_.exchange(nullptr, std::memory_order_acq_rel);
    while (slot != nullptr) {
      Slot* next = slot->next;
      Commit(slot, std::exchange(slot->unique, 0), answers_[slot->index]);
      slot = next;
    }
  }

  void Commit(Slot* slot, uint64_t unique, Answer answer) {
    abi::UringHeaders* headers = HeadersOf(slot);
    const fuse_out_header header = AnswerHeader(unique, answer);
    std::memcpy(headers->in_out, &header, sizeof(header));
    headers->entry.payload_size = static_cast<uint32_t>(std::max(answer, 0));
    slots_->Touch(slot, headers->entry.payload_size);
    --in_hand_;
    Command(slot, abi::kUringCommitAndFetch);
  }

  void Command(Slot* slot, uint32_t operation) {
    slots_->Park(slot);
    if (ended()) return;
    while (!HaveSpace()) {
    }
    abi::UringCommand command{};
    command.queue = static_cast<uint16_t>(slot->index / options_.entries_a_queue);
    const bool registers = operation == abi::kUringRegister;
    if (!registers) command.commit_id = slot->commit_id;
    ring_->PrepareCommand(device_, operation, registers ? &vectors_[slot->index] : nullptr,
                          registers ? 2 : 0, &command, sizeof(command),
                          UserDataOf(Kind::kEntry, slot->index));
    in_kernel_[slot->index] = true;
  }

  // The kernel fills entries only while this thread is in it, and every filled one has a
  // completion; so when none is left to look at and all commits are submitted, what lies in the
  // entries is of requests that were answered.
  bool GiveMemoryBack() {
    if (ring_->Unsubmitted() != 0 || ring_->HasCompletions() || ring_->NeedsEnter()) return false;
    int given = 0;
    for (uint32_t looked = 0; looked < entries_ && given < kGiveBackARound; ++looked) {
      Slot* slot = slots_->At(next_to_give_);
      next_to_give_ = (next_to_give_ + 1) % entries_;
      if (!in_kernel_[slot->index] || slot->touched == 0) continue;
      slots_->GiveBack(slot);
      ++given;
    }
    return given > 0 && slots_->KeepsTooMuch();
  }

  uint32_t entries_ = 0;
  uint32_t in_hand_ = 0;  // requests
  uint32_t next_to_give_ = 0;
  std::vector<std::array<iovec, 2>> vectors_;  // by slot, as all below
  std::vector<Answer> answers_;
  std::vector<bool> in_kernel_;
  std::atomic<Slot*> done_{nullptr};
};

}  // namespace

Result<std::unique_ptr<Transport>> Transport::CreateFast(TransportOptions options) {
  auto transport = std::make_unique<FastTransport>(std::move(options));
  if (auto ready = transport->Init(); !ready) return tl::unexpected(std::move(ready.error()));
  return transport;
}

}  // namespace weir::volume
