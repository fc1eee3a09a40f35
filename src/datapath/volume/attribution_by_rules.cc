#include "datapath/volume/attribution_by_rules.h"

#include <algorithm>

#include "base/monotonic_clock.h"

namespace weir::volume {
namespace {

// A thread that was idle is looked at again when it is back: its id may be another's by now.
constexpr uint32_t kStaleTicks = 3;
constexpr uint32_t kActiveTicks = 1;

uint64_t SignatureOf(uint64_t version, const std::vector<int>& candidates) {
  uint64_t hash = 0xCBF29CE484222325u ^ version;
  for (const int i : candidates) {
    hash = (hash ^ static_cast<uint64_t>(i + 1)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash | 1;
}

}  // namespace

RuleAttribution::RuleAttribution(const AttributionOptions& options)
    : options_(options),
      used_(new std::atomic<uint32_t>[options.max_threads]),
      verified_(new std::atomic<uint32_t>[options.max_threads]) {
  for (uint32_t i = 0; i < options.max_threads; ++i) used_[i] = verified_[i] = 0;
  if (options.own_thread) checker_ = std::thread([this] { Run(); });
}

RuleAttribution::~RuleAttribution() {
  {
    const std::lock_guard lock(lock_);
    stop_ = true;
  }
  wake_.notify_all();
  if (checker_.joinable()) checker_.join();
}

void RuleAttribution::Install(std::shared_ptr<const RuleSet> rules,
                              std::vector<core::GroupId> groups) {
  const FactsWanted before = rules_ == nullptr ? FactsWanted{} : rules_->wanted();
  const FactsWanted wanted = rules->wanted();
  rules_ = std::move(rules);
  groups_ = std::move(groups);
  ++version_;
  want_cgroup_.store(wanted.cgroup, std::memory_order_relaxed);
  want_process_.store(wanted.process, std::memory_order_relaxed);
  if ((wanted.cgroup && !before.cgroup) || (wanted.process && !before.process)) {
    // What is known of the threads is not enough any more.
    for (const auto& [tid, slot] : slots_) {
      threads_[slot].look_again = true;
      threads_[slot].used_tick = 0;
    }
  }
}

// --- The owner: asking --------------------------------------------------------------------------

core::GroupId RuleAttribution::GroupOf(const Caller& caller, uint64_t node) {
  if (rules_ == nullptr) return {};
  const int leaf = LeafOf(caller, node);
  if (leaf == rules_->unmatched()) ++stats_.unmatched;
  last_caller_ = caller;
  last_node_ = node;
  last_version_ = version_;
  last_leaf_ = leaf;
  return groups_[static_cast<size_t>(leaf)];
}

int RuleAttribution::LeafOf(const Caller& caller, uint64_t node) {
  if (has_updates_.load(std::memory_order_acquire)) TakeUpdates();
  if (caller.pid == 0) {
    ++stats_.by_kernel;
    const auto known = nodes_.find(node);
    const int leaf = known == nodes_.end() || known->second.writer == 0
                         ? -1
                         : rules_->LeafOfToken(known->second.writer);
    if (leaf >= 0) return leaf;
    return LeafOfUnseen(caller.uid, node);
  }
  Thread& thread = Know(caller);
  if (options_.table != nullptr) {
    if (const int leaf = LeafByTable(&thread); leaf >= 0) return leaf;
  }
  return thread.need_path ? LeafByPath(thread, node) : thread.leaf;
}

// No thread is known: the user and the path may still tell.
int RuleAttribution::LeafOfUnseen(uint32_t uid, uint64_t id) {
  const std::vector<int> candidates = rules_->Candidates(ThreadFacts{}, uid);
  if (options_.paths == nullptr || id == 0 || !rules_->NeedPath(candidates)) {
    return rules_->Choose(candidates, nullptr);
  }
  const Node& node = KnowPath(id);
  return rules_->Choose(candidates, node.has_path ? &node.path : nullptr);
}

RuleAttribution::Node& RuleAttribution::KnowPath(uint64_t id) {
  Node& node = KnowNode(id);
  if (!node.path_known) {
    node.has_path = options_.paths->PathOf(id, &node.path);
    node.path_known = true;
    node.signature = 0;
  }
  return node;
}

RuleAttribution::Thread& RuleAttribution::Know(const Caller& caller) {
  const auto found = slots_.find(caller.pid);
  uint32_t slot = 0;
  if (found == slots_.end()) {
    slot = LookUp(caller.pid, std::nullopt);
  } else {
    slot = found->second;
    const uint32_t tick = tick_.load(std::memory_order_relaxed);
    Thread& thread = threads_[slot];
    if (thread.used_tick != tick) {
      // The first request of this second.
      if (thread.look_again ||
          tick - verified_[slot].load(std::memory_order_relaxed) > kStaleTicks) {
        slot = LookUp(caller.pid, slot);
      }
      Touch(slot);
    }
  }
  Thread& thread = threads_[slot];
  if (thread.rules_version != version_ || thread.uid != caller.uid) Match(&thread, caller.uid);
  return thread;
}

void RuleAttribution::Match(Thread* thread, uint32_t uid) {
  thread->uid = uid;
  thread->rules_version = version_;
  thread->candidates = rules_->Candidates(thread->facts, uid);
  thread->signature = SignatureOf(version_, thread->candidates);
  thread->need_path = options_.paths != nullptr && rules_->NeedPath(thread->candidates);
  thread->leaf = rules_->Choose(thread->candidates, nullptr);
  thread->token = 0;
}

int RuleAttribution::LeafByTable(Thread* thread) {
  // A worker of the kernel has its owner's token, whose start time is not at hand.
  const bool itself = thread->facts.tid == thread->tid;
  const auto start = itself ? static_cast<uint32_t>(thread->facts.start_time) : 0;
  const uint64_t token = options_.table->Find(thread->facts.tid, start);
  if (token == 0) return -1;
  if (token != thread->token) {
    thread->token = token;
    thread->token_leaf = rules_->LeafOfToken(token);
  }
  if (thread->token_leaf >= 0) ++stats_.by_table;
  return thread->token_leaf;
}

int RuleAttribution::LeafByPath(const Thread& thread, uint64_t id) {
  if (id == 0) return thread.leaf;
  Node& node = KnowPath(id);
  if (node.signature != thread.signature) {
    node.leaf = rules_->Choose(thread.candidates, node.has_path ? &node.path : nullptr);
    node.signature = thread.signature;
  }
  return node.leaf;
}

// --- The owner: nodes ---------------------------------------------------------------------------

RuleAttribution::Node& RuleAttribution::KnowNode(uint64_t node) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) return found->second;
  if (nodes_.size() >= options_.max_nodes) nodes_.erase(nodes_.begin());
  return nodes_[node];
}

void RuleAttribution::Opened(uint64_t node) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) found->second.path_known = false;
}

void RuleAttribution::Wrote(const Caller& caller, uint64_t node) {
  if (caller.pid == 0 || node == 0 || rules_ == nullptr) return;
  const bool same = caller.pid == last_caller_.pid && caller.uid == last_caller_.uid &&
                    node == last_node_ && version_ == last_version_;
  const int leaf = same ? last_leaf_ : LeafOf(caller, node);
  KnowNode(node).writer = rules_->TokenOfLeaf(leaf);
}

void RuleAttribution::Forgotten(uint64_t node) { nodes_.erase(node); }

// --- The owner: threads -------------------------------------------------------------------------

void RuleAttribution::Unlink(uint32_t slot) {
  Thread& thread = threads_[slot];
  (thread.newer < 0 ? newest_ : threads_[static_cast<size_t>(thread.newer)].older) = thread.older;
  (thread.older < 0 ? oldest_ : threads_[static_cast<size_t>(thread.older)].newer) = thread.newer;
}

void RuleAttribution::LinkNewest(uint32_t slot) {
  Thread& thread = threads_[slot];
  thread.newer = -1;
  thread.older = newest_;
  (newest_ < 0 ? oldest_ : threads_[static_cast<size_t>(newest_)].newer) = static_cast<int>(slot);
  newest_ = static_cast<int>(slot);
}

void RuleAttribution::Touch(uint32_t slot) {
  const uint32_t tick = tick_.load(std::memory_order_relaxed);
  threads_[slot].used_tick = tick;
  used_[slot].store(tick, std::memory_order_relaxed);
  if (newest_ == static_cast<int>(slot)) return;
  Unlink(slot);
  LinkNewest(slot);
}

void RuleAttribution::Forget(uint32_t slot) {
  slots_.erase(threads_[slot].tid);
  Unlink(slot);
  threads_[slot] = Thread{};
  free_.push_back(slot);
}

uint32_t RuleAttribution::TakeSlot() {
  if (free_.empty() && threads_.size() >= options_.max_threads) {
    ++stats_.evictions;
    Forget(static_cast<uint32_t>(oldest_));
  }
  if (free_.empty()) {
    threads_.emplace_back();
    return static_cast<uint32_t>(threads_.size()) - 1;
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

uint32_t RuleAttribution::LookUp(uint32_t tid, std::optional<uint32_t> known) {
  const TimePoint begin = MonotonicNow();
  ThreadFacts facts = ReadThreadFacts(tid, rules_->wanted(), options_.proc);
  ++stats_.lookups;
  stats_.lookup_ns += static_cast<uint64_t>(ToNanos(MonotonicNow() - begin));
  const uint32_t slot = known ? *known : TakeSlot();
  const uint32_t tick = tick_.load(std::memory_order_relaxed);
  Thread& thread = threads_[slot];
  if (!known) {
    slots_.emplace(tid, slot);
    LinkNewest(slot);
  }
  thread.tid = tid;
  thread.facts = std::move(facts);
  thread.look_again = false;
  thread.rules_version = 0;
  thread.used_tick = tick;
  used_[slot].store(tick, std::memory_order_relaxed);
  verified_[slot].store(tick, std::memory_order_relaxed);
  pending_.push_back({slot, tid, thread.facts});
  SendPending();
  return slot;
}

void RuleAttribution::SendPending() {
  if (pending_.empty()) return;
  const std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // with the next one
  for (Message& message : pending_) looked_up_.push_back(std::move(message));
  pending_.clear();
}

void RuleAttribution::TakeUpdates() {
  std::vector<Message> updates;
  {
    const std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock.owns_lock()) return;  // with the next request
    updates.swap(updates_);
    has_updates_.store(false, std::memory_order_relaxed);
    for (Message& message : pending_) looked_up_.push_back(std::move(message));
    pending_.clear();
  }
  for (Message& update : updates) {
    const auto found = slots_.find(update.tid);
    if (found == slots_.end() || found->second != update.slot) continue;
    Thread& thread = threads_[update.slot];
    ++stats_.changes;
    if (!update.facts.alive) {
      Forget(update.slot);
      continue;
    }
    thread.facts = std::move(update.facts);
    thread.rules_version = 0;
  }
}

AttributionStats RuleAttribution::stats() const {
  AttributionStats stats = stats_;
  stats.threads = slots_.size();
  stats.nodes = nodes_.size();
  return stats;
}

// --- The checker --------------------------------------------------------------------------------

void RuleAttribution::CheckThreads() {
  std::vector<Message> looked_up;
  {
    const std::lock_guard lock(lock_);
    looked_up.swap(looked_up_);
  }
  for (Message& message : looked_up) {
    const uint32_t slot = message.slot;
    if (known_.size() <= slot) known_.resize(slot + 1);
    known_[slot] = std::move(message);
  }
  FactsWanted wanted;
  wanted.cgroup = want_cgroup_.load(std::memory_order_relaxed);
  wanted.process = want_process_.load(std::memory_order_relaxed);
  const uint32_t tick = tick_.load(std::memory_order_relaxed);
  std::vector<Message> updates;
  for (Message& known : known_) {
    if (known.tid == 0) continue;
    if (tick - used_[known.slot].load(std::memory_order_relaxed) > kActiveTicks) continue;
    ThreadFacts facts = ReadThreadFacts(known.tid, wanted, options_.proc);
    verified_[known.slot].store(tick, std::memory_order_relaxed);
    if (facts == known.facts) continue;
    known.facts = facts;
    updates.push_back({known.slot, known.tid, std::move(facts)});
    if (!updates.back().facts.alive) known.tid = 0;
  }
  {
    const std::lock_guard lock(lock_);
    for (Message& update : updates) updates_.push_back(std::move(update));
    if (!updates_.empty()) has_updates_.store(true, std::memory_order_release);
  }
  tick_.store(tick + 1, std::memory_order_relaxed);
}

void RuleAttribution::Run() {
  std::unique_lock lock(lock_);
  while (!wake_.wait_for(lock, options_.check_every, [this] { return stop_; })) {
    lock.unlock();
    CheckThreads();
    lock.lock();
  }
}

}  // namespace weir::volume
