// Requests and answers through /dev/fuse.
#include <cerrno>
#include <cstring>

#include "datapath/volume/transport.h"

namespace weir::volume {

namespace {

class ClassicTransport final : public Transport {
 public:
  explicit ClassicTransport(TransportOptions options) : Transport(std::move(options)) {}

  [[nodiscard]] bool NeedsWideEntries() const override { return false; }
  [[nodiscard]] uint32_t MostOutstanding() const override { return 4096; }
  [[nodiscard]] bool Idle() const override {
    return slots_->used() == 0 && workers_->pending() == 0;
  }
  Result<void> Init() {
    auto slots = SlotPool::Create(options_.buffers);
    if (!slots) return tl::unexpected(std::move(slots.error()));
    slots_ = std::move(*slots);
    return {};
  }

  void AnswerData(Slot* slot, Answer answer) override {
    std::byte* message = PutHeader(slot->data, slot->unique, answer);
    slot->unique = 0;
    fuse_out_header header{};
    std::memcpy(&header, message, sizeof(header));
    if (HaveSpace()) {
      ring_->PrepareTransfer(device_, true, message, header.len, 0, -1,
                             UserDataOf(Kind::kAnswer, slot->index));
      return;
    }
    WriteAnswer(message, header.len);
    slots_->Free(slot);
  }

  void AnswerMetadata(uint64_t unique, Slot* /*slot*/, Answer answer, std::byte* payload) override {
    const std::byte* message = PutHeader(payload, unique, answer);
    WriteAnswer(message, AnswerHeader(unique, answer).len);
  }

 protected:
  void TakeMessage(Slot* slot, std::span<const std::byte> message) override {
    if (!Dispatch(Decode(message), slot, false)) slots_->Free(slot);
  }

  // An answer was written.
  void CompleteEntry(Slot* slot, const uring::Ring::Completion& completion) override {
    if (completion.result < 0 && completion.result != -ENOENT) {
      std::byte* message = slot->data - sizeof(fuse_out_header);
      fuse_out_header header{};
      std::memcpy(&header, message, sizeof(header));
      WriteAnswer(message, header.len);
    }
    slots_->Free(slot);
  }

  void AnswerNow(Slot* slot, uint64_t unique, Answer answer) override {
    const std::byte* message = PutHeader(slot->data, unique, answer);
    WriteAnswer(message, sizeof(fuse_out_header));
  }

 private:
  // The header goes right before the payload. Returns where it begins.
  static std::byte* PutHeader(std::byte* payload, uint64_t unique, Answer answer) {
    const fuse_out_header header = AnswerHeader(unique, answer);
    std::byte* begin = payload - sizeof(header);
    std::memcpy(begin, &header, sizeof(header));
    return begin;
  }
};

}  // namespace

Result<std::unique_ptr<Transport>> Transport::CreateClassic(TransportOptions options) {
  auto transport = std::make_unique<ClassicTransport>(std::move(options));
  if (auto ready = transport->Init(); !ready) return tl::unexpected(std::move(ready.error()));
  return transport;
}

}  // namespace weir::volume
