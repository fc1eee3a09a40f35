// READ, WRITE and FSYNC of a volume: each becomes a request of the engine, in its caller's group,
// on a descriptor of the backing file.
//
// Which descriptor: reads bypass the backing file's page cache wherever alignment allows (the
// volume's own pages are the cache; a second copy would only take memory), so do writes of
// programs that opened the file with O_DIRECT. Other writes go to the backing's page cache, are
// charged when they are made, and are sent on to the disk early, so that the kernel's flusher
// never has a heap of writes that nobody scheduled.
// Threads: the engine's owner, all.
#pragma once

#include <cstdint>
#include <vector>

#include "datapath/uring/engine.h"
#include "datapath/uring/ring.h"
#include "datapath/volume/attribution.h"
#include "datapath/volume/backing.h"
#include "datapath/volume/transport_buffers.h"

namespace weir::volume {

// Where the answers of the data path go.
class DataSink {
 public:
  virtual ~DataSink() = default;
  DataSink(const DataSink&) = delete;
  DataSink& operator=(const DataSink&) = delete;
  // `answer` as FileSystem::Handle returns it; the payload is in the slot, which is the sink's
  // again.
  virtual void AnswerData(Slot* slot, Answer answer) = 0;
  // Has `bytes` of a file's dirty pages written out, without waiting for it.
  virtual void WriteOut(int fd, int64_t offset, uint32_t bytes) = 0;

 protected:
  DataSink() = default;
};

// Everybody is one group.
class OneGroup final : public Attribution {
 public:
  explicit OneGroup(core::GroupId group) : group_(group) {}
  [[nodiscard]] core::GroupId GroupOf(const Caller& /*caller*/, uint64_t /*node*/) override {
    return group_;
  }

 private:
  core::GroupId group_;
};

struct DataPathOptions {
  Engine* engine = nullptr;
  const Backing* backing = nullptr;
  Attribution* attribution = nullptr;
  SlotPool* slots = nullptr;
  DataSink* sink = nullptr;
  // uring::Ring::RegisterPersonality of credentials without CAP_FSETID: writes with them take
  // setuid and setgid bits away. 0: none.
  uint16_t plain_writer = 0;
};

struct DataPathStats {
  uint64_t direct = 0;       // transfers past the backing's page cache
  uint64_t buffered = 0;     // through it
  uint64_t retried = 0;      // O_DIRECT refused, repeated through the page cache
  uint64_t interrupted = 0;  // taken out of the queue for a signal
};

class DataPath {
 public:
  explicit DataPath(const DataPathOptions& options);

  // Requires: `request` is a decoded READ, WRITE or FSYNC; a write's data are at slot->data.
  void Start(const Request& request, Slot* slot);
  // The caller of `unique` has a signal: if still queued it ends with EINTR.
  void Interrupt(uint64_t unique);

  [[nodiscard]] const DataPathStats& stats() const { return stats_; }
  [[nodiscard]] uint32_t outstanding() const { return outstanding_; }

 private:
  struct Pending {
    IoRequest io;
    OpId op;
    int buffered_fd = -1;
  };
  // Buffered writes of a descriptor that have not been sent on to the disk.
  struct Unsent {
    int fd = -1;
    int64_t begin = 0;
    int64_t end = 0;
    int64_t bytes = 0;
  };

  void StartRead(const Request& request, const DataFile& file, Pending* pending);
  void StartWrite(const Request& request, const DataFile& file, Pending* pending);
  void Submit(Slot* slot);
  void Complete(Slot* slot, const IoResult& result);
  void NoteBuffered(int fd, int64_t offset, int64_t bytes);
  [[nodiscard]] bool CanBeDirect(const DataFile& file, int64_t offset, int64_t bytes);

  const DataPathOptions options_;
  int64_t alignment_ = 0;         // of O_DIRECT; 0: not known yet
  std::vector<Pending> pending_;  // by Slot::index
  std::vector<Unsent> unsent_;    // by descriptor, modulo its size
  uint32_t outstanding_ = 0;
  DataPathStats stats_;
};

}  // namespace weir::volume
