// The engine's open files and buffer regions. Internal. Threads: the owner.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "datapath/uring/engine.h"
#include "datapath/uring/ring.h"

namespace weir::uring {

class FileTable {
 public:
  // Registers the files with `ring` as far as its table goes. `ring` outlives this.
  FileTable(Ring* ring, uint32_t max_files) : ring_(ring), max_files_(max_files) {}
  ~FileTable() = default;
  FileTable(const FileTable&) = delete;
  FileTable& operator=(const FileTable&) = delete;

  // Errors: kResourceExhausted (max_files).
  [[nodiscard]] Result<FileId> Add(int fd);
  // Errors: kNotFound.
  [[nodiscard]] Result<void> Close(FileId id);
  // Closes all and takes them out of the ring, which would keep them open for a while even after
  // its end. Requires: no requests.
  void CloseAll();

  // Counts a request in; false: no such file, or closed. Release counts it out.
  [[nodiscard]] bool Acquire(FileId id);
  void Release(FileId id);

  // Whether a transfer goes on where the last one of that direction ended, and remembers its end.
  [[nodiscard]] core::Access Classify(FileId id, Direction direction, int64_t offset,
                                      int64_t bytes);
  // Requires: acquired.
  [[nodiscard]] RingFile Target(FileId id) const { return files_[id.index].target; }

 private:
  struct File {
    int fd = -1;
    RingFile target;
    uint32_t generation = 0;
    uint32_t requests = 0;  // accepted, not completed
    bool closing = false;
    std::array<int64_t, kDirections> last_end{-1, -1};
  };
  [[nodiscard]] File* Find(FileId id);
  void CloseNow(uint32_t index);

  Ring* ring_;
  uint32_t max_files_;
  std::vector<File> files_;
  std::vector<uint32_t> free_;
};

// Where the last transfers of descriptors ended that the engine does not own: fixed memory, of the
// descriptors used last.
class ForeignFiles {
 public:
  // As FileTable::Classify.
  [[nodiscard]] core::Access Classify(int fd, Direction direction, int64_t offset, int64_t bytes) {
    if (files_.empty()) files_.resize(kFiles);
    File& file = files_[static_cast<uint32_t>(fd) % kFiles];
    if (file.fd != fd) file = File{.fd = fd};
    int64_t& last_end = file.last_end[static_cast<int>(direction)];
    const bool sequential = offset == last_end;
    last_end = offset + bytes;
    return sequential ? core::Access::kSequential : core::Access::kRandom;
  }

 private:
  static constexpr uint32_t kFiles = 8192;
  struct File {
    int fd = -1;
    std::array<int64_t, kDirections> last_end{-1, -1};
  };
  std::vector<File> files_;
};

class BufferTable {
 public:
  explicit BufferTable(Ring* ring) : ring_(ring) {}
  ~BufferTable();
  BufferTable(const BufferTable&) = delete;
  BufferTable& operator=(const BufferTable&) = delete;

  // As Engine::AllocateBuffers and FreeBuffers.
  [[nodiscard]] Result<BufferRegion> Allocate(int64_t bytes);
  [[nodiscard]] Result<void> Free(const BufferRegion& region);
  // Unpins the memory; it stays usable.
  void UnregisterAll();

 private:
  void Unmap(BufferRegion* region);

  Ring* ring_;
  std::vector<BufferRegion> regions_;  // by id; data nullptr: free
};

}  // namespace weir::uring
