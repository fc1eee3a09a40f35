#include "datapath/volume/data_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "datapath/volume/protocol.h"

namespace weir::volume {

namespace {

constexpr int64_t kEarlyWriteBytes = int64_t{1} << 20;
constexpr size_t kUnsentFiles = 4096;
constexpr int64_t kDefaultAlignment = 4096;
constexpr int64_t kLeastAlignment = 512;

// What O_DIRECT transfers must be multiples of on the file's device.
int64_t DirectAlignment(int fd) {
  struct statx found {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) != 0 ||
      (found.stx_mask & STATX_DIOALIGN) == 0 || found.stx_dio_offset_align == 0) {
    return kDefaultAlignment;  // what every device can do
  }
  return std::max<int64_t>(found.stx_dio_offset_align, kLeastAlignment);
}

int ErrnoOf(const IoResult& result) {
  switch (result.code) {
    case ErrorCode::kCancelled:
      return EINTR;
    case ErrorCode::kIo:
      return result.sys_errno != 0 ? result.sys_errno : EIO;
    default:
      return EIO;
  }
}

}  // namespace

DataPath::DataPath(const DataPathOptions& options)
    : options_(options), pending_(options.slots->size()), unsent_(kUnsentFiles) {}

bool DataPath::CanBeDirect(const DataFile& file, int64_t offset, int64_t bytes) {
  if (file.direct_fd < 0) return false;
  if (alignment_ == 0) alignment_ = DirectAlignment(file.direct_fd);
  return ((offset | bytes) & (alignment_ - 1)) == 0;
}

void DataPath::Start(const Request& request, Slot* slot) {
  slot->unique = request.unique;
  ++outstanding_;
  // READ, WRITE and FSYNC all begin with the file handle.
  const std::optional<DataFile> file = options_.backing->File(FixedAs<uint64_t>(request));
  Pending* pending = &pending_[slot->index];
  pending->op = OpId{};
  if (!file) {
    --outstanding_;
    options_.sink->AnswerData(slot, -EBADF);
    return;
  }
  pending->buffered_fd = file->buffered_fd;
  IoRequest& io = pending->io;
  io = IoRequest{};
  io.buffer = slot->data;
  io.group = options_.attribution->GroupOf(request.caller, file->node);
  if (request.opcode == FUSE_READ) {
    StartRead(request, *file, pending);
    options_.slots->Touch(slot, static_cast<uint32_t>(io.bytes));
  } else if (request.opcode == FUSE_WRITE) {
    options_.attribution->Wrote(request.caller, file->node);
    StartWrite(request, *file, pending);
  } else {
    const bool data_only =
        (FixedAs<fuse_fsync_in>(request).fsync_flags & FUSE_FSYNC_FDATASYNC) != 0;
    io.op = data_only ? IoOp::kFdatasync : IoOp::kFsync;
    io.fd = file->buffered_fd;
    io.buffer = nullptr;
  }
  Submit(slot);
}

void DataPath::StartRead(const Request& request, const DataFile& file, Pending* pending) {
  const auto in = FixedAs<fuse_read_in>(request);
  IoRequest& io = pending->io;
  io.op = IoOp::kRead;
  io.bytes = in.size;
  io.offset = static_cast<int64_t>(std::min<uint64_t>(in.offset, INT64_MAX - in.size));
  const bool direct = CanBeDirect(file, io.offset, io.bytes);
  io.fd = direct ? file.direct_fd : file.buffered_fd;
  ++(direct ? stats_.direct : stats_.buffered);
}

void DataPath::StartWrite(const Request& request, const DataFile& file, Pending* pending) {
  const auto in = FixedAs<fuse_write_in>(request);
  IoRequest& io = pending->io;
  io.op = IoOp::kWrite;
  io.bytes = in.size;
  io.offset = static_cast<int64_t>(in.offset);
  const bool direct = (in.flags & O_DIRECT) != 0 && CanBeDirect(file, io.offset, io.bytes);
  io.fd = direct ? file.direct_fd : file.buffered_fd;
  ++(direct ? stats_.direct : stats_.buffered);
  // O_SYNC includes the bit of O_DSYNC. With direct I/O the kernel sends no FSYNC of its own.
  if ((in.flags & O_SYNC) == O_SYNC) {
    io.rw_flags = RWF_SYNC;
  } else if ((in.flags & O_DSYNC) != 0) {
    io.rw_flags = RWF_DSYNC;
  }
  io.cached = !direct && io.rw_flags == 0;
  if ((in.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0) io.personality = options_.plain_writer;
}

void DataPath::Submit(Slot* slot) {
  Pending& pending = pending_[slot->index];
  const Result<OpId> op = options_.engine->Submit(
      pending.io, [this, slot](const IoResult& result) { Complete(slot, result); });
  if (op) {
    pending.op = *op;
    return;
  }
  --outstanding_;
  options_.sink->AnswerData(slot, -EAGAIN);  // the engine is stopping
}

void DataPath::Complete(Slot* slot, const IoResult& result) {
  Pending& pending = pending_[slot->index];
  IoRequest& io = pending.io;
  if (result.failed) {
    const int error = ErrnoOf(result);
    // Alignment is a matter of the file system and the place in the file, not only of the device.
    if (error == EINVAL && io.fd != pending.buffered_fd) {
      io.fd = pending.buffered_fd;
      ++stats_.retried;
      return Submit(slot);
    }
    --outstanding_;
    options_.sink->AnswerData(slot, -error);
    return;
  }
  --outstanding_;
  switch (io.op) {
    case IoOp::kRead:
      return options_.sink->AnswerData(slot, static_cast<Answer>(result.bytes));
    case IoOp::kWrite: {
      if (io.cached) NoteBuffered(io.fd, io.offset, result.bytes);
      fuse_write_out out{};
      out.size = static_cast<uint32_t>(result.bytes);
      std::memcpy(slot->data, &out, sizeof(out));
      return options_.sink->AnswerData(slot, sizeof(out));
    }
    case IoOp::kFsync:
    case IoOp::kFdatasync:
      return options_.sink->AnswerData(slot, 0);
  }
}

// One entry a descriptor: what a file that meets it replaces would soon be sent anyway.
void DataPath::NoteBuffered(int fd, int64_t offset, int64_t bytes) {
  Unsent& unsent = unsent_[static_cast<size_t>(fd) % unsent_.size()];
  if (unsent.fd != fd || unsent.bytes == 0) {
    unsent = Unsent{.fd = fd, .begin = offset, .end = offset + bytes, .bytes = 0};
  }
  unsent.begin = std::min(unsent.begin, offset);
  unsent.end = std::max(unsent.end, offset + bytes);
  unsent.bytes += bytes;
  if (unsent.bytes < kEarlyWriteBytes) return;
  // A range longer than the field can say is written out to the end of the file: 0.
  const int64_t length = unsent.end - unsent.begin;
  options_.sink->WriteOut(fd, unsent.begin,
                          length <= UINT32_MAX ? static_cast<uint32_t>(length) : 0);
  unsent.bytes = 0;
}

// Interrupts are rare; a scan costs every other request nothing.
void DataPath::Interrupt(uint64_t unique) {
  for (uint32_t i = 0; i < options_.slots->size(); ++i) {
    Slot* slot = options_.slots->At(i);
    if (slot->unique != unique) continue;
    const CancelOutcome outcome = options_.engine->Cancel(pending_[i].op);
    if (outcome == CancelOutcome::kCancelled) ++stats_.interrupted;
    return;
  }
}

}  // namespace weir::volume
