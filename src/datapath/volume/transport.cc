#include "datapath/volume/transport.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weir::volume {

namespace {

// Of a round; more would let the disk run dry while they are looked at.
constexpr int kMessagesARound = 4;
// Of a round while more keep coming than that: what waits in the kernel waits in order of arrival,
// so it must not pile up there.
constexpr int kMostMessagesARound = 64;
constexpr Duration kTick = std::chrono::milliseconds(200);
// What lies before a WRITE's data in a message.
constexpr size_t kWriteHead = sizeof(fuse_in_header) + sizeof(fuse_write_in);
static_assert(kWriteHead == 80);

// Runs `work` with this thread's credentials less CAP_FSETID.
template <typename F>
void WithoutFsetid(F work) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct before[2] = {};
  if (syscall(SYS_capget, &header, before) != 0) return;
  __user_cap_data_struct without[2] = {before[0], before[1]};
  without[CAP_TO_INDEX(CAP_FSETID)].effective &= ~CAP_TO_MASK(CAP_FSETID);
  if (syscall(SYS_capset, &header, without) != 0) return;
  work();
  static_cast<void>(syscall(SYS_capset, &header, before));
}

}  // namespace

Result<void> Transport::Start(const uring::LoopStart& start) {
  ring_ = start.ring;
  const uint32_t device_file = start.first_file;
  const uint32_t lifetime_file = start.first_file + 1;
  device_ = ring_->SetFile(device_file, options_.device_fd)
                ? uring::RingFile{static_cast<int>(device_file), true}
                : uring::RingFile{options_.device_fd, false};
  if (options_.lifetime_fd >= 0) {
    const bool held = ring_->SetFile(lifetime_file, options_.lifetime_fd);
    close(options_.lifetime_fd);
    if (!held) {
      return Fail(ErrorCode::kUnavailable,
                  "cannot start the volume: the kernel refuses to keep files in an io_uring, "
                  "without which a restart could overtake old writes; use Linux 5.12 or later");
    }
  }
  if (options_.publish) options_.publish(ring_->fd(), start.wake_fd);
  WithoutFsetid([this] { plain_writer_ = ring_->RegisterPersonality(); });
  return {};
}

void Transport::Begin(DataPath* data, WorkerPool* workers, Attribution* attribution) {
  data_ = data;
  attribution_ = attribution;
  workers_ = workers;
  if (options_.resend) {
    const fuse_out_header message = ResendMessage();
    WriteAnswer(reinterpret_cast<const std::byte*>(&message), sizeof(message));
  }
  reading_ = true;
  readable_ = true;
}

void Transport::Complete(uint64_t token, const uring::Ring::Completion& completion) {
  const auto index = static_cast<uint32_t>(token >> 2);
  switch (static_cast<Kind>(token & 3)) {
    case Kind::kPoll:
      readable_ = true;
      if (!completion.more) poll_armed_ = false;
      return;
    case Kind::kIgnore:
      return;
    case Kind::kAnswer:
    case Kind::kEntry:
      return CompleteEntry(slots_->At(index), completion);
  }
}

bool Transport::Round(TimePoint now) {
  if (data_ == nullptr) return false;
  const bool more = OwnRound();
  if (ended_) return false;
  if (now >= next_tick_) {
    next_tick_ = now + kTick;
    if (options_.on_tick) options_.on_tick();
  }
  if (!poll_armed_ && HaveSpace()) {
    ring_->PreparePoll(device_, UserDataOf(Kind::kPoll));
    poll_armed_ = true;
  }
  return ReadMessages() || more;
}

// True: there may be more.
bool Transport::ReadMessages() {
  const int limit = messages_a_round_;
  messages_a_round_ = kMessagesARound;
  for (int i = 0; i < limit; ++i) {
    if (!readable_ || !reading_) return false;
    if (slots_->busy_bytes() > options_.most_bytes || !workers_->HasRoom()) {
      ++stats_.held;  // an answer, which is a completion or comes with `on_room`, goes on with it
      return false;
    }
    Slot* slot = slots_->Take();
    if (slot == nullptr) {
      ++stats_.held;
      return false;
    }
    std::byte* begin = slot->data - kWriteHead;
    const ssize_t got = read(options_.device_fd, begin, kWriteHead + kMaxTransferBytes);
    if (got >= 0) {
      const auto size = static_cast<size_t>(got);
      slots_->Touch(slot, static_cast<uint32_t>(size > kWriteHead ? size - kWriteHead : 0));
      TakeMessage(slot, std::span<const std::byte>(begin, size));
      continue;
    }
    slots_->Free(slot);
    switch (errno) {
      case EINTR:
      case ENOENT:  // interrupted before it was read
        continue;
      case EAGAIN:
        readable_ = false;
        return false;
      default:  // ENODEV: unmounted; ECONNABORTED: aborted
        End();
        return false;
    }
  }
  messages_a_round_ = std::min(2 * limit, kMostMessagesARound);
  return readable_ && reading_;
}

bool Transport::Dispatch(const Decoded& decoded, Slot* slot, bool workers_use_slot) {
  const Request& request = decoded.request;
  const uint32_t opcode = request.opcode;
  ++stats_.requests[opcode < stats_.requests.size() ? opcode : 0];
  if (request.resent) ++stats_.resent;
  if (decoded.error != 0) {
    ++stats_.malformed;
    if (!WantsNoAnswer(opcode)) AnswerNow(slot, request.unique, decoded.error);
    return false;
  }
  switch (opcode) {
    case FUSE_READ:
    case FUSE_WRITE:
    case FUSE_FSYNC:
      data_->Start(request, slot);
      return true;
    case FUSE_INTERRUPT:
      data_->Interrupt(FixedAs<fuse_interrupt_in>(request).unique);
      return false;
    case FUSE_DESTROY:
      AnswerNow(slot, request.unique, 0);
      return false;
    case FUSE_INIT:
    case FUSE_POLL:
      AnswerNow(slot, request.unique, -ENOSYS);
      return false;
    default:
      TellAttribution(request);
      workers_->Push(request, workers_use_slot ? slot : nullptr);
      return workers_use_slot;
  }
}

void Transport::TellAttribution(const Request& request) {
  switch (request.opcode) {
    case FUSE_OPEN:
      attribution_->Opened(request.node);
      if ((FixedAs<fuse_open_in>(request).flags & O_ACCMODE) != O_RDONLY) {
        attribution_->Wrote(request.caller, request.node);
      }
      return;
    case FUSE_FORGET:
      return attribution_->Forgotten(request.node);
    case FUSE_BATCH_FORGET: {
      const auto in = FixedAs<fuse_batch_forget_in>(request);
      for (uint32_t i = 0; i < in.count; ++i) {
        fuse_forget_one one{};
        std::memcpy(&one, request.rest.data() + i * sizeof(one), sizeof(one));
        attribution_->Forgotten(one.nodeid);
      }
      return;
    }
    default:
      return;
  }
}

bool Transport::HaveSpace() {
  if (ring_->SpaceLeft() > 0) return true;
  static_cast<void>(ring_->Enter(false, Duration(0)));
  return ring_->SpaceLeft() > 0;
}

void Transport::WriteOut(int fd, int64_t offset, uint32_t bytes) {
  if (!HaveSpace()) return;  // only later, then: by the kernel's flusher
  ring_->PrepareSyncRange(fd, offset, bytes, UserDataOf(Kind::kIgnore));
}

void Transport::End() {
  if (ended_) return;
  ended_ = true;
  reading_ = false;
  if (options_.on_end) options_.on_end();
}

void Transport::WriteAnswer(const std::byte* bytes, size_t size) {
  if (write(options_.device_fd, bytes, size) >= 0) return;
  // ENOENT: the caller was interrupted and is gone. ENODEV and the like: nobody is there.
  if (errno != EINVAL && errno != EFAULT && errno != ENOMEM) return;
  // Without an answer the caller would hang.
  fuse_out_header header{};
  std::memcpy(&header, bytes, std::min(size, sizeof(header)));
  const fuse_out_header failure = AnswerHeader(header.unique, -EIO);
  if (write(options_.device_fd, &failure, sizeof(failure)) < 0 && errno == EINVAL) {
    fmt::print(stderr, "weir volume: the kernel refuses the answer to request {}\n", header.unique);
  }
}

}  // namespace weir::volume
