#include "datapath/uring/files.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weir::uring {

Result<FileId> FileTable::Add(int fd) {
  if (free_.empty()) {
    if (files_.size() >= max_files_) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("cannot open another file: {} are open, the maximum of this engine; "
                              "close some or raise max_files",
                              files_.size()));
    }
    free_.push_back(static_cast<uint32_t>(files_.size()));
    files_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  File& file = files_[index];
  const bool fixed = ring_->SetFile(index, fd);
  file = File{.fd = fd,
              .target = fixed ? RingFile{static_cast<int>(index), true} : RingFile{fd, false},
              .generation = file.generation + 1};
  return FileId{index, file.generation};
}

FileTable::File* FileTable::Find(FileId id) {
  if (id.index >= files_.size()) return nullptr;
  File& file = files_[id.index];
  return file.generation == id.generation && file.fd >= 0 && !file.closing ? &file : nullptr;
}

Result<void> FileTable::Close(FileId id) {
  File* file = Find(id);
  if (file == nullptr) {
    return Fail(ErrorCode::kNotFound, "cannot close the file: it is not open in this engine");
  }
  file->closing = true;
  if (file->requests == 0) CloseNow(id.index);
  return {};
}

void FileTable::CloseAll() {
  for (uint32_t index = 0; index < files_.size(); ++index) {
    if (files_[index].fd >= 0) CloseNow(index);
  }
}

void FileTable::CloseNow(uint32_t index) {
  File& file = files_[index];
  if (file.target.fixed) static_cast<void>(ring_->SetFile(index, -1));
  close(file.fd);
  file.fd = -1;
  free_.push_back(index);
}

bool FileTable::Acquire(FileId id) {
  File* file = Find(id);
  if (file == nullptr) return false;
  ++file->requests;
  return true;
}

void FileTable::Release(FileId id) {
  File& file = files_[id.index];
  if (--file.requests == 0 && file.closing) CloseNow(id.index);
}

core::Access FileTable::Classify(FileId id, Direction direction, int64_t offset, int64_t bytes) {
  int64_t& last_end = files_[id.index].last_end[static_cast<int>(direction)];
  const bool sequential = offset == last_end;
  last_end = offset + bytes;
  return sequential ? core::Access::kSequential : core::Access::kRandom;
}

BufferTable::~BufferTable() {
  for (BufferRegion& region : regions_) {
    if (region.data != nullptr) munmap(region.data, static_cast<size_t>(region.bytes));
  }
}

Result<BufferRegion> BufferTable::Allocate(int64_t bytes) {
  constexpr int64_t kPage = 4096;
  constexpr int64_t kMaxRegion = int64_t{1} << 30;  // what io_uring registers as one buffer
  if (bytes <= 0 || bytes > kMaxRegion) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot allocate a buffer region of {} bytes: it must be 1 byte to 1 "
                            "GiB; allocate several",
                            bytes));
  }
  uint32_t id = 0;
  while (id < regions_.size() && regions_[id].data != nullptr) ++id;
  if (id >= kMaxEngineBufferRegions) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("cannot allocate a buffer region: there are {}, the maximum; free "
                            "some, or allocate fewer and larger ones",
                            kMaxEngineBufferRegions));
  }
  const int64_t size = (bytes + kPage - 1) / kPage * kPage;
  void* data = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("cannot allocate a buffer region of {} bytes: {}", size, std::strerror(errno)),
        errno);
  }
  if (id == regions_.size()) regions_.emplace_back();
  BufferRegion& region = regions_[id];
  region =
      BufferRegion{.data = static_cast<std::byte*>(data), .bytes = size, .index = -1, .id = id};
  if (ring_->SetBuffer(id, data, size)) region.index = static_cast<int32_t>(id);
  return region;
}

void BufferTable::UnregisterAll() {
  for (BufferRegion& region : regions_) {
    if (region.index < 0) continue;
    static_cast<void>(ring_->SetBuffer(static_cast<uint32_t>(region.index), nullptr, 0));
    region.index = -1;
  }
}

void BufferTable::Unmap(BufferRegion* region) {
  if (region->index >= 0) {
    static_cast<void>(ring_->SetBuffer(static_cast<uint32_t>(region->index), nullptr, 0));
  }
  munmap(region->data, static_cast<size_t>(region->bytes));
  *region = BufferRegion{};
}

Result<void> BufferTable::Free(const BufferRegion& region) {
  if (region.id >= regions_.size() || region.data == nullptr ||
      regions_[region.id].data != region.data) {
    return Fail(ErrorCode::kNotFound,
                "cannot free the buffer region: it is not one of this engine's, or already free");
  }
  Unmap(&regions_[region.id]);
  return {};
}

}  // namespace weir::uring
