// Drives weir::Engine as fio's io_uring engine drives the kernel: random reads of one size, a
// fixed number outstanding, each completion submits the next. Prints one JSON object.
// bench/engine_vs_fio runs it beside fio; `submit` measures the submit path alone.
// Usage: weir_engine_bench reads --file FILE ... | submit --jobs N
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic_clock.h"
#include "base/random.h"
#include "datapath/uring/engine.h"

namespace weir {
namespace {

struct Options {
  std::string file;
  int64_t bytes = 16384;
  int depth = 64;
  int jobs = 1;
  double warmup_s = 0;  // not measured
  double seconds = 3;
  bool isolation = true;
  bool registered_buffers = false;
  int64_t fixed_depth_ops = 0;
};

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <typename T>
T Must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}

// One outstanding request that renews itself.
class Loop {
 public:
  Loop(Engine* engine, const Options& options, IoRequest request, int64_t blocks, uint64_t seed,
       std::latch* ended)
      : engine_(engine),
        bytes_(options.bytes),
        request_(request),
        blocks_(blocks),
        random_(seed),
        ended_(ended) {}

  void Next() {
    request_.offset = random_.Range(0, blocks_ - 1) * bytes_;
    const auto id = engine_->Submit(request_, [this](const IoResult& result) { Done(result); });
    if (!id) ended_->count_down();
  }

  uint64_t failed = 0;
  static inline std::atomic<bool> stop{false};

 private:
  void Done(const IoResult& result) {
    if (!result.ok() || result.bytes != bytes_) ++failed;
    if (stop.load(std::memory_order_relaxed)) {
      ended_->count_down();
    } else {
      Next();
    }
  }

  Engine* engine_;
  int64_t bytes_;
  IoRequest request_;
  int64_t blocks_;
  Random random_;
  std::latch* ended_;
};

EngineOptions EngineOptionsOf(const Options& options) {
  EngineOptions engine_options;
  engine_options.isolation = options.isolation;
  engine_options.scheduler.capacity_per_s = 100'000 * kOp;
  if (options.fixed_depth_ops > 0) {
    engine_options.scheduler.depth.automatic = false;
    engine_options.scheduler.depth.initial = options.fixed_depth_ops * kOp;
  }
  return engine_options;
}

int RunReads(const Options& options) {
  struct stat info {};
  if (stat(options.file.c_str(), &info) != 0 || info.st_size < options.bytes) {
    std::fprintf(stderr, "%s: no such file, or too small\n", options.file.c_str());
    return 1;
  }
  auto engine = Must(Engine::Create(EngineOptionsOf(options)));
  const FileId file = Must(engine->Open(options.file, O_RDONLY | O_DIRECT));
  const int count = options.depth * options.jobs;
  const BufferRegion region = Must(engine->AllocateBuffers(options.bytes * count));
  std::latch ended(count);
  std::vector<std::unique_ptr<Loop>> loops;
  for (int job = 0; job < options.jobs; ++job) {
    const core::GroupId group = Must(engine->AddGroup(engine->RootGroup(), ResourceParams{}));
    for (int i = 0; i < options.depth; ++i) {
      const int n = job * options.depth + i;
      IoRequest request =
          IoRequest::Read(file, group, region.data + n * options.bytes, options.bytes, 0);
      if (options.registered_buffers) request.region = region.index;
      loops.push_back(std::make_unique<Loop>(engine.get(), options, request,
                                             info.st_size / options.bytes,
                                             static_cast<uint64_t>(n + 1), &ended));
    }
  }
  Must(engine
           ->Post([&] {
             for (auto& loop : loops) loop->Next();
           })
           .map([] { return 0; }));
  const auto total = [&] { return Must(engine->Stats(engine->RootGroup())).completed; };
  std::this_thread::sleep_for(std::chrono::duration<double>(options.warmup_s));
  const TimePoint start = MonotonicNow();
  const double cpu_before = CpuSeconds();
  const uint64_t completed_before = total();
  const uint64_t enters_before = engine->TotalStats().enters;
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  const auto n = static_cast<double>(total() - completed_before);
  const double elapsed = ToSeconds(MonotonicNow() - start);
  const double cpu = CpuSeconds() - cpu_before;
  const EngineStats stats = engine->TotalStats();
  Loop::stop = true;
  ended.wait();
  uint64_t failed = 0;
  for (const auto& loop : loops) failed += loop->failed;
  fmt::print(
      "{{\"iops\": {:.1f}, \"cpu_us_per_io\": {:.3f}, \"errors\": {}, \"enters_per_io\": {:.3f}, "
      "\"depth\": {:.1f}}}\n",
      n / elapsed, cpu / n * 1e6, failed, static_cast<double>(stats.enters - enters_before) / n,
      static_cast<double>(stats.depth) / static_cast<double>(kOp));
  return failed == 0 ? 0 : 1;
}

Duration ThreadCpu() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec);
}

// What one thread measured: per Submit call, the median of its batches.
struct SubmitCost {
  double cpu_ns = 0;
  double wall_ns = 0;
};

double MedianPerCall(std::vector<Duration> batches, int calls) {
  std::nth_element(batches.begin(), batches.begin() + batches.size() / 2, batches.end());
  return static_cast<double>(batches[batches.size() / 2].count()) / calls;
}

// Submits batches of zero-byte reads, waiting after each until it is done.
SubmitCost SubmitBatches(Engine* engine, FileId file, core::GroupId group) {
  constexpr int kBatch = 256;
  constexpr int kBatches = 2000;
  std::atomic<int> pending{0};
  std::atomic<int>* counter = &pending;
  std::vector<Duration> cpu;
  std::vector<Duration> wall;
  char byte = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    pending.store(kBatch, std::memory_order_relaxed);
    const TimePoint wall_before = MonotonicNow();
    const Duration cpu_before = ThreadCpu();
    for (int i = 0; i < kBatch; ++i) {
      const auto id =
          engine->Submit(IoRequest::Read(file, group, &byte, 0, 0), [counter](const IoResult&) {
            if (counter->fetch_sub(1) == 1) counter->notify_one();
          });
      if (!id) std::exit(1);
    }
    cpu.push_back(ThreadCpu() - cpu_before);
    wall.push_back(MonotonicNow() - wall_before);
    for (int left = pending.load(); left != 0; left = pending.load()) pending.wait(left);
  }
  return {MedianPerCall(std::move(cpu), kBatch), MedianPerCall(std::move(wall), kBatch)};
}

int RunSubmit(const Options& options) {
  auto engine = Must(Engine::Create(EngineOptionsOf(options)));
  const FileId file = Must(engine->Open("/dev/null", O_RDONLY));
  const core::GroupId group = Must(engine->AddGroup(engine->RootGroup(), ResourceParams{}));
  std::vector<std::thread> threads;
  std::vector<SubmitCost> costs(static_cast<size_t>(options.jobs));
  for (SubmitCost& cost : costs) {
    threads.emplace_back([&] { cost = SubmitBatches(engine.get(), file, group); });
  }
  for (std::thread& thread : threads) thread.join();
  SubmitCost mean;
  for (const SubmitCost& cost : costs) {
    mean.cpu_ns += cost.cpu_ns / options.jobs;
    mean.wall_ns += cost.wall_ns / options.jobs;
  }
  const EngineStats stats = engine->TotalStats();
  fmt::print("{{\"cpu_ns\": {:.1f}, \"wall_ns\": {:.1f}, \"wakeups_per_submit\": {:.4f}}}\n",
             mean.cpu_ns, mean.wall_ns,
             static_cast<double>(stats.wakeups) / static_cast<double>(stats.submitted));
  return 0;
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  weir::Options options;
  CLI::App app{"Benchmarks of the I/O engine"};
  app.require_subcommand(1);
  CLI::App* reads = app.add_subcommand("reads", "random reads of a file, O_DIRECT");
  reads->add_option("--file", options.file)->required();
  reads->add_option("--bytes", options.bytes);
  reads->add_option("--depth", options.depth);
  reads->add_option("--jobs", options.jobs);
  reads->add_option("--warmup", options.warmup_s);
  reads->add_option("--seconds", options.seconds);
  reads->add_option("--fixed-depth", options.fixed_depth_ops);
  reads->add_flag("!--without-isolation", options.isolation);
  reads->add_flag("--registered-buffers", options.registered_buffers);
  CLI::App* submit = app.add_subcommand("submit", "the cost of Submit from other threads");
  submit->add_option("--jobs", options.jobs);
  CLI11_PARSE(app, argc, argv);
  return reads->parsed() ? weir::RunReads(options) : weir::RunSubmit(options);
}
