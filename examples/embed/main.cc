// Two groups share a file 2:1 through weir::Engine. Usage: embed FILE [SECONDS]
//
// Each group keeps 32 random reads of 16 KiB outstanding: the callback of one read submits the
// next. The program prints what each group got, and why.
#include <fcntl.h>
#include <sys/stat.h>
#include <weir/engine.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kBlock = 16 * 1024;
constexpr int kDepth = 32;

// Ends the program if a call failed; the message says what to do about it.
template <typename T>
T Must(weir::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "embed: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}

// One read that starts again whenever it has ended.
struct Reader {
  weir::Engine* engine;
  weir::IoRequest request;
  int64_t blocks;
  unsigned seed;

  void Next() {
    request.offset = rand_r(&seed) % blocks * kBlock;
    // Fails once the engine is stopped, which ends this reader.
    static_cast<void>(
        engine->Submit(request, [this](const weir::IoResult& result) { Done(result); }));
  }
  void Done(const weir::IoResult& result) {
    if (result.ok()) {
      Next();
    } else if (result.code == weir::ErrorCode::kIo) {
      std::fprintf(stderr, "embed: %s\n", result.error().message.c_str());
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  struct stat info {};
  if (argc < 2 || stat(argv[1], &info) != 0 || info.st_size < kBlock) {
    std::fprintf(stderr, "usage: %s FILE [SECONDS]   FILE: at least 16 KiB, only read\n", argv[0]);
    return 2;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;

  std::unique_ptr<weir::Engine> engine = Must(weir::Engine::Create({}));
  const weir::FileId file = Must(engine->Open(argv[1], O_RDONLY | O_DIRECT));
  const weir::BufferRegion buffers = Must(engine->AllocateBuffers(2 * kDepth * kBlock));

  weir::ResourceParams gold_params;
  gold_params.weight = 200;
  weir::ResourceParams silver_params;
  silver_params.weight = 100;
  const weir::core::GroupId gold = Must(engine->AddGroup(engine->RootGroup(), gold_params));
  const weir::core::GroupId silver = Must(engine->AddGroup(engine->RootGroup(), silver_params));

  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 2 * kDepth; ++i) {
    weir::IoRequest request = weir::IoRequest::Read(file, i % 2 == 0 ? gold : silver,
                                                    buffers.data + i * kBlock, kBlock, 0);
    request.region = buffers.index;
    readers.push_back(std::make_unique<Reader>(
        Reader{engine.get(), request, info.st_size / kBlock, static_cast<unsigned>(i)}));
  }
  // On the owner thread, where the callbacks run too: no thread switch for each request.
  if (!engine->Post([&] {
        for (auto& reader : readers) reader->Next();
      })) {
    return 1;
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  if (!engine->Stop(weir::StopMode::kDrain)) return 1;

  const auto stats = Must(engine->Stats({gold, silver}));
  const char* names[] = {"gold (weight 200)", "silver (weight 100)"};
  for (int i = 0; i < 2; ++i) {
    std::printf("%-20s %8llu reads  %8.0f/s  waited %.3f ms on average\n", names[i],
                static_cast<unsigned long long>(stats[i].completed),
                static_cast<double>(stats[i].completed) / seconds,
                static_cast<double>(stats[i].wait.mean().count()) / 1e6);
  }
  std::printf("ratio %.3f\n",
              static_cast<double>(stats[0].completed) / static_cast<double>(stats[1].completed));
  return 0;
}
