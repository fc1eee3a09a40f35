// Attribution by the rules of the running plan, and before them by the thread table.
//
// Threads: GroupOf and the other functions of Attribution, and Install, on the engine's owner
// thread; a thread of its own looks once a second whether threads that made requests ended, moved
// to another cgroup or changed their name. They exchange messages; the owner never waits for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "datapath/volume/attribution.h"
#include "datapath/volume/attribution_facts.h"
#include "datapath/volume/attribution_rules.h"
#include "datapath/volume/thread_table.h"

namespace weir::volume {

// Named maxima: what is beyond is looked up again when it is needed.
inline constexpr uint32_t kMaxKnownThreads = 1u << 14;  // about 700 bytes each
inline constexpr uint32_t kMaxKnownNodes = 1u << 17;    // about 200 bytes each

struct AttributionOptions {
  NodePaths* paths = nullptr;  // not owned; without: matches with a path never fit
  // Not owned; may be null.
  const ThreadTableReader* table = nullptr;
  uint32_t max_threads = kMaxKnownThreads;
  uint32_t max_nodes = kMaxKnownNodes;
  Duration check_every = std::chrono::seconds(1);
  bool own_thread = true;  // false: somebody calls CheckThreads
  std::string proc = "/proc";
};

struct AttributionStats {
  uint64_t lookups = 0;    // threads read from /proc by the owner thread
  uint64_t lookup_ns = 0;  // time that took
  uint64_t by_table = 0;   // requests attributed by the thread table
  uint64_t unmatched = 0;  // requests that no match named
  uint64_t by_kernel = 0;  // requests of the kernel itself (pid 0)
  uint64_t threads = 0;    // known now
  uint64_t nodes = 0;      // known now
  uint64_t evictions = 0;  // threads that made room
  uint64_t changes = 0;    // threads found changed, or ended
};

class RuleAttribution : public Attribution {
 public:
  explicit RuleAttribution(const AttributionOptions& options);
  ~RuleAttribution() override;

  // Owner thread, at the instant at which the engine's groups become these: `groups` of the nodes
  // that `rules` were compiled for.
  void Install(std::shared_ptr<const RuleSet> rules, std::vector<core::GroupId> groups);

  [[nodiscard]] core::GroupId GroupOf(const Caller& caller, uint64_t node) override;
  void Opened(uint64_t node) override;
  void Wrote(const Caller& caller, uint64_t node) override;
  void Forgotten(uint64_t node) override;

  [[nodiscard]] AttributionStats stats() const;  // owner thread

  // One round of the other thread: every thread that made a request since the last but one round.
  // Threads: one at a time.
  void CheckThreads();

 private:
  struct Thread {
    uint32_t uid = 0;
    ThreadFacts facts;
    uint64_t rules_version = 0;
    std::vector<int> candidates;
    uint64_t signature = 0;  // of rules_version and candidates
    bool need_path = false;
    int leaf = 0;        // when no path is needed
    uint64_t token = 0;  // of the table, last seen under this version
    int token_leaf = -1;
    uint32_t tid = 0;
    uint32_t used_tick = 0;
    bool look_again = false;     // the facts lack what the rules want now
    int newer = -1, older = -1;  // by last use, to the second
  };
  struct Node {
    bool path_known = false;
    bool has_path = false;
    std::string path;
    uint64_t signature = 0;  // of the candidates that `leaf` was chosen from
    int leaf = -1;
    uint64_t writer = 0;  // token of the leaf of the last writer
  };
  struct Message {  // about the thread in `slot`
    uint32_t slot = 0;
    uint32_t tid = 0;
    ThreadFacts facts;
  };

  [[nodiscard]] int LeafOf(const Caller& caller, uint64_t node);
  Thread& Know(const Caller& caller);
  uint32_t LookUp(uint32_t tid, std::optional<uint32_t> slot);
  uint32_t TakeSlot();
  void Forget(uint32_t slot);
  void Touch(uint32_t slot);
  void Unlink(uint32_t slot);
  void LinkNewest(uint32_t slot);
  void Match(Thread* thread, uint32_t uid);
  [[nodiscard]] int LeafByTable(Thread* thread);
  [[nodiscard]] int LeafByPath(const Thread& thread, uint64_t node);
  [[nodiscard]] int LeafOfUnseen(uint32_t uid, uint64_t id);
  Node& KnowNode(uint64_t node);
  Node& KnowPath(uint64_t id);
  void TakeUpdates();
  void SendPending();
  void Run();

  const AttributionOptions options_;

  // The owner's.
  std::shared_ptr<const RuleSet> rules_;
  std::vector<core::GroupId> groups_;
  uint64_t version_ = 0;
  std::unordered_map<uint32_t, uint32_t> slots_;  // by tid
  std::deque<Thread> threads_;                    // by slot
  std::vector<uint32_t> free_;
  int newest_ = -1, oldest_ = -1;
  std::unordered_map<uint64_t, Node> nodes_;
  // The last answer, for Wrote.
  Caller last_caller_{};
  uint64_t last_node_ = 0;
  uint64_t last_version_ = 0;
  int last_leaf_ = 0;
  std::vector<Message> pending_;  // to be sent when the lock is free
  AttributionStats stats_;

  // Written by one side, read by the other; by slot.
  std::unique_ptr<std::atomic<uint32_t>[]> used_;      // tick of the last request; the owner's
  std::unique_ptr<std::atomic<uint32_t>[]> verified_;  // tick of the last look
  std::atomic<uint32_t> tick_{1};
  std::atomic<bool> want_cgroup_{false};
  std::atomic<bool> want_process_{false};
  std::atomic<bool> has_updates_{false};

  std::mutex lock_;                 // held only to exchange these
  std::vector<Message> looked_up_;  // to the checker
  std::vector<Message> updates_;    // to the owner
  bool stop_ = false;
  std::condition_variable wake_;

  std::vector<Message> known_;  // the checker's, by slot
  std::thread checker_;
};

}  // namespace weir::volume
