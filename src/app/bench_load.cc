#include "app/bench_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/monotonic_clock.h"

namespace weir::app {

namespace {

constexpr int64_t kOffsetUnit = 4096;  // of sequential streams' starting points, and of buffers
constexpr int64_t kContentBytes = int64_t{8} << 20;  // what writes write, again and again

int64_t WholePages(int64_t bytes) { return (bytes + kOffsetUnit - 1) / kOffsetUnit * kOffsetUnit; }

int SlotsOf(const scenario::Load& load) {
  const int closed = load.threads * load.depth;
  return load.rate > 0 ? std::max(closed, kOpenLoopSlots) : closed;
}

int64_t LargestOf(const scenario::Load& load) {
  int64_t largest = 0;
  for (const scenario::SizeShare& size : load.sizes) largest = std::max(largest, size.bytes);
  return largest;
}

TimePoint After(TimePoint start, Duration length) {
  return length < kNever - start ? start + length : kNever;
}

// Content for writes, so that the device cannot shrink it.
void FillRandom(std::byte* data, int64_t bytes, uint64_t seed) {
  Random random(seed);
  for (int64_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t word = random.Next();
    std::memcpy(data + i, &word, sizeof(word));
  }
}

}  // namespace

int64_t MaxOutstanding(const std::vector<scenario::Load>& loads) {
  return std::accumulate(
      loads.begin(), loads.end(), int64_t{0},
      [](int64_t sum, const scenario::Load& load) { return sum + SlotsOf(load); });
}

int64_t LargestRequest(const std::vector<scenario::Load>& loads) {
  int64_t largest = 0;
  for (const scenario::Load& load : loads) largest = std::max(largest, LargestOf(load));
  return largest;
}

bool AnyWrites(const std::vector<scenario::Load>& loads) {
  return std::any_of(loads.begin(), loads.end(),
                     [](const scenario::Load& load) { return load.read_share < 1; });
}

struct LoadDriver::Timed {
  explicit Timed(bool load) : is_load(load) {}
  const bool is_load;
};

struct LoadDriver::LoadState : Timed {
  LoadState() : Timed(true) {}
  scenario::Load spec;
  core::GroupId group;
  int meter = 0;
  int64_t largest = 0;
  int64_t usable = 0;            // sequential: offsets wrap at this
  std::vector<Choice> choices;   // by size
  std::vector<int64_t> cursors;  // sequential: one a thread
  std::vector<Slot*> slots;
  std::vector<Slot*> free_slots;  // open loop
  Random random{0};
  TimePoint start{};
  TimePoint stop = kNever;
  TimePoint next_arrival{};

  [[nodiscard]] bool open_loop() const { return spec.rate > 0; }

  [[nodiscard]] const Choice& PickSize() {
    if (choices.size() == 1) return choices.front();
    const double u = random.Uniform();
    for (const Choice& choice : choices) {
      if (u < choice.up_to) return choice;
    }
    return choices.back();
  }

  // The first moment from `at` on in which the load is active, by its bursts.
  [[nodiscard]] TimePoint ActiveFrom(TimePoint at) const {
    if (spec.burst_on.count() == 0) return at;
    const Duration period = spec.burst_on + spec.burst_off;
    const Duration into = (at - start) % period;
    return into < spec.burst_on ? at : at + (period - into);
  }
};

struct LoadDriver::Slot : Timed {
  Slot() : Timed(false) {}
  LoadState* load = nullptr;
  std::byte* buffer = nullptr;
  int64_t* cursor = nullptr;
  OpId op;
  TimePoint intended{};  // open loop: when it should have started
  int64_t bytes = 0;
  bool outstanding = false;
};

LoadDriver::LoadDriver(Engine* engine, FileId file, const LoadDriverOptions& options)
    : engine_(engine), file_(file), options_(options) {
  pacer_ = std::make_unique<Pacer>([this](std::vector<Pacer::Entry> due) {
    // After the engine has stopped nobody waits for these.
    static_cast<void>(engine_->Post([this, due = std::move(due)] { OnDue(due); }));
  });
}

LoadDriver::~LoadDriver() {
  pacer_.reset();
  if (buffers_.data != nullptr) static_cast<void>(engine_->FreeBuffers(buffers_));
}

void LoadDriver::AddLoad(const scenario::Load& load, core::GroupId group, int meter) {
  LoadState& state = loads_.emplace_back();
  state.spec = load;
  state.group = group;
  state.meter = meter;
  state.largest = LargestOf(load);
  state.usable = (options_.file_bytes - state.largest) / kOffsetUnit * kOffsetUnit;
  state.random = Random(options_.seed * 1'000'003 + loads_.size());
  double sum = 0;
  for (const scenario::SizeShare& size : load.sizes) {
    sum += size.share;
    state.choices.push_back(
        {sum, size.bytes, std::max<int64_t>(1, options_.file_bytes / size.bytes)});
  }
  const int64_t between = state.usable / load.threads / kOffsetUnit * kOffsetUnit;
  for (int i = 0; i < load.threads; ++i) state.cursors.push_back(i * between);
  for (int i = 0; i < SlotsOf(load); ++i) {
    Slot& slot = slots_.emplace_back();
    slot.load = &state;
    slot.cursor = &state.cursors[static_cast<size_t>(i % load.threads)];
    state.slots.push_back(&slot);
  }
  if (meter >= static_cast<int>(meters_.size())) {
    meters_.resize(static_cast<size_t>(meter) + 1);
    const int64_t steps =
        options_.grid_step.count() > 0 ? options_.grid_length / options_.grid_step + 1 : 0;
    grids_.resize(meters_.size(), DispatchGrid(static_cast<size_t>(steps)));
  }
}

Result<void> LoadDriver::Prepare() {
  int64_t for_reads = 0;
  int64_t largest = 0;
  bool writes = false;
  for (const LoadState& load : loads_) {
    for_reads += WholePages(load.largest) * static_cast<int64_t>(load.slots.size());
    largest = std::max(largest, WholePages(load.largest));
    writes = writes || load.spec.read_share < 1;
  }
  for_reads = std::min(for_reads, std::max(largest, kMaxBufferBytes));
  if (writes) content_bytes_ = std::max(largest, kContentBytes);
  auto buffers = engine_->AllocateBuffers(for_reads + content_bytes_);
  if (!buffers) return tl::unexpected(std::move(buffers.error()));
  buffers_ = *buffers;
  region_ = buffers_.index;
  content_ = buffers_.data + for_reads;
  FillRandom(content_, content_bytes_, options_.seed);
  int64_t at = 0;
  for (LoadState& load : loads_) {
    const int64_t each = WholePages(load.largest);
    for (Slot* slot : load.slots) {
      if (at + each > for_reads) at = 0;
      slot->buffer = buffers_.data + at;
      at += each;
    }
  }
  return {};
}

void LoadDriver::ShareBuffersOf(LoadDriver* owner) {
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].buffer = owner->slots_[i].buffer;
  content_ = owner->content_;
  region_ = owner->region_ = -1;  // registered with the other engine's ring only
}

// Writes only read from memory, so all share one stretch of it.
std::byte* LoadDriver::NextContent(int64_t bytes) {
  if (content_next_ + bytes > content_bytes_) content_next_ = 0;
  std::byte* content = content_ + content_next_;
  content_next_ += WholePages(bytes);
  return content;
}

void LoadDriver::Start(TimePoint start, TimePoint end) {
  {
    const std::lock_guard lock(mutex_);
    drained_ = false;
  }
  static_cast<void>(engine_->Post([this, start, end] {
    start_ = start;
    end_ = end;
    stopping_ = false;
    for (LoadState& load : loads_) {
      load.start = After(start, load.spec.start);
      load.stop = load.spec.stop.count() > 0 ? std::min(end, After(start, load.spec.stop)) : end;
      load.free_slots.clear();
      if (load.open_loop()) {
        load.free_slots = load.slots;
        load.next_arrival = load.start;
        pacer_->Add(load.start, static_cast<Timed*>(&load));
      } else {
        for (Slot* slot : load.slots) pacer_->Add(load.start, static_cast<Timed*>(slot));
      }
    }
  }));
}

bool LoadDriver::Pause(Duration limit) {
  static_cast<void>(engine_->Post([this] {
    stopping_ = true;
    for (Slot& slot : slots_) {
      if (slot.outstanding) static_cast<void>(engine_->Cancel(slot.op));
    }
    if (outstanding_ == 0) {
      const std::lock_guard lock(mutex_);
      drained_ = true;
      all_back_.notify_all();
    }
  }));
  std::unique_lock lock(mutex_);
  const bool drained = all_back_.wait_for(lock, limit, [this] { return drained_; });
  lock.unlock();
  pacer_->Clear();
  return drained;
}

void LoadDriver::TakeMeters(std::vector<LoadMeter>* meters) {
  *meters = meters_;
  std::fill(meters_.begin(), meters_.end(), LoadMeter{});
}

// --- Owner ---------------------------------------------------------------------------------------

void LoadDriver::OnDue(const std::vector<Pacer::Entry>& due) {
  const TimePoint now = MonotonicNow();
  for (const Pacer::Entry& entry : due) {
    if (stopping_) return;
    auto* timed = static_cast<Timed*>(entry.what);
    if (timed->is_load) {
      Arrive(static_cast<LoadState*>(timed), now);
    } else {
      Continue(static_cast<Slot*>(timed), entry.at, now);
    }
  }
}

// Everything that has arrived by now. Poisson: the gaps are exponential.
void LoadDriver::Arrive(LoadState* load, TimePoint now) {
  while (load->next_arrival <= now && load->next_arrival < load->stop) {
    const TimePoint active = load->ActiveFrom(load->next_arrival);
    if (active > load->next_arrival) {
      load->next_arrival = active;
      continue;
    }
    if (load->free_slots.empty()) {
      ++missed_arrivals_;
    } else {
      Slot* slot = load->free_slots.back();
      load->free_slots.pop_back();
      slot->intended = load->next_arrival;
      SubmitNext(slot, now);
    }
    load->next_arrival +=
        Duration(static_cast<int64_t>(load->random.Exponential(1e9 / load->spec.rate)));
  }
  if (load->next_arrival < load->stop) pacer_->Add(load->next_arrival, static_cast<Timed*>(load));
}

void LoadDriver::SubmitNext(Slot* slot, TimePoint now) {
  LoadState& load = *slot->load;
  const Choice& choice = load.PickSize();
  const bool read = load.spec.read_share >= 1 ||
                    (load.spec.read_share > 0 && load.random.Chance(load.spec.read_share));
  int64_t offset;
  if (load.spec.sequential) {
    offset = load.usable > 0 ? *slot->cursor % load.usable : 0;
    *slot->cursor = offset + choice.bytes;
  } else {
    offset = load.random.Range(0, choice.places - 1) * choice.bytes;
  }
  IoRequest request;
  request.op = read ? IoOp::kRead : IoOp::kWrite;
  request.file = file_;
  request.group = load.group;
  request.buffer = read ? slot->buffer : NextContent(choice.bytes);
  request.bytes = slot->bytes = choice.bytes;
  request.offset = offset;
  request.region = region_;
  if (load.spec.deadline.count() > 0) request.deadline = now + load.spec.deadline;
  if (!slot->outstanding) {
    slot->outstanding = true;
    ++outstanding_;
  }
  const Result<OpId> submitted =
      engine_->Submit(request, [this, slot](const IoResult& result) { OnDone(slot, result); });
  if (submitted) {
    slot->op = *submitted;
    return;
  }
  ++meters_[static_cast<size_t>(load.meter)].failed;
  if (first_error_.empty()) first_error_ = submitted.error().message;
  Retire(slot);
  Continue(slot, now + kRetryAfterFailure, now);
}

void LoadDriver::OnDone(Slot* slot, const IoResult& result) {
  LoadState& load = *slot->load;
  if (stopping_ && result.failed && result.code == ErrorCode::kCancelled) {
    Retire(slot);
    return;
  }
  const TimePoint now = result.completed_at;
  TimePoint next = now;
  LoadMeter& meter = meters_[static_cast<size_t>(load.meter)];
  if (result.ok() && result.bytes == slot->bytes) {
    ++meter.completed;
    meter.latency.Record(now - (load.open_loop() ? slot->intended : result.submitted_at));
    if (options_.grid_step.count() > 0) {
      DispatchGrid& grid = grids_[static_cast<size_t>(load.meter)];
      const int64_t step = (result.dispatched_at - start_) / options_.grid_step;
      if (step >= 0 && step < static_cast<int64_t>(grid.size())) {
        grid[static_cast<size_t>(step)] += result.cost;
      }
    }
  } else {
    CountFailure(*slot, result);
    next += kRetryAfterFailure;
  }
  if (load.spec.think.count() > 0) {
    next += load.spec.think_random ? Duration(static_cast<int64_t>(load.random.Exponential(
                                         static_cast<double>(load.spec.think.count()))))
                                   : load.spec.think;
  }
  if (load.open_loop()) {
    Retire(slot);
    load.free_slots.push_back(slot);
  } else {
    Continue(slot, next, now);
  }
}

void LoadDriver::CountFailure(const Slot& slot, const IoResult& result) {
  const LoadState& load = *slot.load;
  LoadMeter& meter = meters_[static_cast<size_t>(load.meter)];
  if (result.failed && result.code == ErrorCode::kDeadlineExceeded) {
    ++meter.timeouts;
    return;
  }
  ++meter.failed;
  if (!first_error_.empty()) return;
  first_error_ = fmt::format("load {}: {}", load.spec.name,
                             result.failed ? result.error().message
                                           : fmt::format("only {} of {} bytes were transferred",
                                                         result.bytes, slot.bytes));
}

// The slot's next request is due at `at`; sends it, or sets a timer, or ends the slot.
void LoadDriver::Continue(Slot* slot, TimePoint at, TimePoint now) {
  const LoadState& load = *slot->load;
  const TimePoint when = std::max(at, load.ActiveFrom(std::max(at, now)));
  if (stopping_ || load.open_loop() || std::max(when, now) >= load.stop) {
    if (slot->outstanding) Retire(slot);
    if (load.open_loop() && !stopping_) slot->load->free_slots.push_back(slot);
  } else if (when <= now) {
    SubmitNext(slot, now);
  } else {
    if (slot->outstanding) Retire(slot);
    pacer_->Add(when, static_cast<Timed*>(slot));
  }
}

void LoadDriver::Retire(Slot* slot) {
  slot->outstanding = false;
  if (--outstanding_ == 0 && stopping_) {
    const std::lock_guard lock(mutex_);
    drained_ = true;
    all_back_.notify_all();
  }
}

}  // namespace weir::app
