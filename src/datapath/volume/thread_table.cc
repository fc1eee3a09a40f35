#include "datapath/volume/thread_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace weir::volume {
namespace {

constexpr uint32_t kMask = kThreadTableSlots - 1;
constexpr int kAttempts = 3;  // of a reader, while a writer changes the slot

// Neighbouring TIDs should not share their probes.
uint32_t FirstSlot(uint32_t tid) { return (tid * 0x9E3779B1u >> 16) & kMask; }

uint32_t TidOf(uint64_t thread) { return static_cast<uint32_t>(thread >> 32); }

tl::unexpected<Error> Cannot(std::string_view what, const std::string& path, int error) {
  return Fail(ErrorCode::kIo,
              fmt::format("thread table {}: cannot {}: {}", path, what, std::strerror(error)),
              error);
}

// Creates it, whole, or opens what is there. The file appears under its name with everything in
// it; of two creators one wins, and both use that one.
Result<int> OpenOrCreate(const std::string& path) {
  const int there = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (there >= 0) return there;
  if (errno != ENOENT) return Cannot("be opened", path, errno);
  const std::string temporary = fmt::format("{}.{}", path, ::getpid());
  ::unlink(temporary.c_str());
  const int fd =
      ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Cannot("be created", temporary, errno);
  const auto fail = [&](const char* what) {
    const int error = errno;
    ::close(fd);
    ::unlink(temporary.c_str());
    return Cannot(what, path, error);
  };
  if (::ftruncate(fd, sizeof(ThreadTableLayout)) != 0) return fail("be given its size");
  const struct {
    uint64_t magic = kThreadTableMagic;
    uint32_t version = kThreadTableVersion;
    uint32_t slots = kThreadTableSlots;
  } header;
  if (::pwrite(fd, &header, sizeof header, 0) != sizeof header) return fail("be written");
  if (::link(temporary.c_str(), path.c_str()) == 0) {
    ::unlink(temporary.c_str());
    return fd;
  }
  if (errno != EEXIST) return fail("get its name");
  ::close(fd);
  ::unlink(temporary.c_str());
  const int other = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (other < 0) return Cannot("be opened", path, errno);
  return other;
}

struct Mapping {
  int fd = -1;
  ThreadTableLayout* table = nullptr;
};

Result<Mapping> Map(const std::string& path, int protection) {
  const Result<int> fd = OpenOrCreate(path);
  if (!fd) return tl::unexpected(fd.error());
  const auto refuse = [&](std::string_view why) {
    ::close(*fd);
    return Fail(ErrorCode::kFailedPrecondition, fmt::format("thread table {}: {}", path, why));
  };
  struct stat st = {};
  if (::fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) return refuse("it is not a regular file");
  if (st.st_uid != ::geteuid() && st.st_uid != 0) {
    return refuse(fmt::format("it belongs to uid {}; remove it", st.st_uid));
  }
  if ((st.st_mode & 077) != 0) return refuse("others than its owner may use it; chmod 600");
  if (st.st_size != sizeof(ThreadTableLayout)) {
    return refuse(fmt::format("it has {} bytes instead of {}; remove it", st.st_size,
                              sizeof(ThreadTableLayout)));
  }
  void* memory = ::mmap(nullptr, sizeof(ThreadTableLayout), protection, MAP_SHARED, *fd, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    ::close(*fd);
    return Cannot("be mapped", path, error);
  }
  auto* table = static_cast<ThreadTableLayout*>(memory);
  if (table->magic.load(std::memory_order_acquire) != kThreadTableMagic ||
      table->version != kThreadTableVersion || table->slots != kThreadTableSlots) {
    ::munmap(memory, sizeof(ThreadTableLayout));
    return refuse(
        fmt::format("it is no thread table of version {}; remove it", kThreadTableVersion));
  }
  return Mapping{*fd, table};
}

}  // namespace

// --- Writer --------------------------------------------------------------------------------------

Result<ThreadTableWriter> ThreadTableWriter::Open(const std::string& path) {
  Result<Mapping> mapping = Map(path, PROT_READ | PROT_WRITE);
  if (!mapping) return tl::unexpected(std::move(mapping.error()));
  if (::flock(mapping->fd, LOCK_EX | LOCK_NB) != 0) {
    ::munmap(mapping->table, sizeof(ThreadTableLayout));
    ::close(mapping->fd);
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("thread table {}: another process writes it; stop that one", path));
  }
  return ThreadTableWriter(mapping->fd, mapping->table);
}

ThreadTableWriter::~ThreadTableWriter() {
  if (table_ != nullptr) ::munmap(table_, sizeof(ThreadTableLayout));
  if (fd_ >= 0) ::close(fd_);
}

ThreadTableWriter::ThreadTableWriter(ThreadTableWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), table_(std::exchange(other.table_, nullptr)) {}

ThreadTableSlot* ThreadTableWriter::Find(uint32_t tid) const {
  for (uint32_t i = 0; i < kThreadTableProbes; ++i) {
    ThreadTableSlot& slot = table_->slot[(FirstSlot(tid) + i) & kMask];
    const uint64_t thread = slot.thread.load(std::memory_order_relaxed);
    if (thread == ThreadTableSlot::kFree) return nullptr;
    if (thread != ThreadTableSlot::kRemoved && TidOf(thread) == tid) return &slot;
  }
  return nullptr;
}

// A reader takes a token only if the check says that it is the thread's. A slot that changes its
// thread is first marked removed, so that readers of other threads pass it by.
Result<void> ThreadTableWriter::Set(uint32_t tid, uint32_t start_time, uint64_t token) {
  if (tid == 0 || tid > INT32_MAX || token == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("thread table: tid {} and token {} must be above 0", tid, token));
  }
  const uint64_t thread = static_cast<uint64_t>(tid) << 32 | start_time;
  ThreadTableSlot* slot = Find(tid);
  if (slot != nullptr && slot->thread.load(std::memory_order_relaxed) == thread) {
    slot->token.store(token, std::memory_order_release);
    slot->check.store(ThreadTableCheck(thread, token), std::memory_order_release);
    return {};
  }
  for (uint32_t i = 0; slot == nullptr && i < kThreadTableProbes; ++i) {
    ThreadTableSlot& candidate = table_->slot[(FirstSlot(tid) + i) & kMask];
    const uint64_t there = candidate.thread.load(std::memory_order_relaxed);
    if (there == ThreadTableSlot::kFree || there == ThreadTableSlot::kRemoved) slot = &candidate;
  }
  if (slot == nullptr) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("thread table: no free slot for tid {} among {}; clear threads that "
                            "ended",
                            tid, kThreadTableProbes));
  }
  slot->thread.store(ThreadTableSlot::kRemoved, std::memory_order_relaxed);
  slot->token.store(token, std::memory_order_release);
  slot->check.store(ThreadTableCheck(thread, token), std::memory_order_release);
  slot->thread.store(thread, std::memory_order_release);
  return {};
}

void ThreadTableWriter::Clear(uint32_t tid) {
  if (ThreadTableSlot* slot = Find(tid)) {
    slot->thread.store(ThreadTableSlot::kRemoved, std::memory_order_release);
  }
}

void ThreadTableWriter::ClearAll() {
  for (ThreadTableSlot& slot : table_->slot) {
    slot.thread.store(ThreadTableSlot::kFree, std::memory_order_release);
  }
}

// --- Reader --------------------------------------------------------------------------------------

Result<ThreadTableReader> ThreadTableReader::Open(const std::string& path) {
  Result<Mapping> mapping = Map(path, PROT_READ);
  if (!mapping) return tl::unexpected(std::move(mapping.error()));
  ::close(mapping->fd);  // the mapping stays
  return ThreadTableReader(mapping->table);
}

ThreadTableReader::~ThreadTableReader() {
  if (table_ != nullptr) {
    ::munmap(const_cast<ThreadTableLayout*>(table_), sizeof(ThreadTableLayout));
  }
}

ThreadTableReader::ThreadTableReader(ThreadTableReader&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)) {}

uint64_t ThreadTableReader::Find(uint32_t tid, uint32_t start_time) const {
  for (uint32_t i = 0; i < kThreadTableProbes; ++i) {
    const ThreadTableSlot& slot = table_->slot[(FirstSlot(tid) + i) & kMask];
    const uint64_t thread = slot.thread.load(std::memory_order_acquire);
    if (thread == ThreadTableSlot::kFree) return 0;
    if (thread == ThreadTableSlot::kRemoved || TidOf(thread) != tid) continue;
    const auto start = static_cast<uint32_t>(thread);
    if (start != 0 && start_time != 0 && start != start_time) return 0;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const uint64_t token = slot.token.load(std::memory_order_acquire);
      const uint64_t check = slot.check.load(std::memory_order_acquire);
      if (check == ThreadTableCheck(thread, token)) return token;
    }
    return 0;  // changed under our hands: the rules apply to this one request
  }
  return 0;
}

}  // namespace weir::volume
