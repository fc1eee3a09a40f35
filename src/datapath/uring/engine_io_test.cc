// What is read and written through the engine is what pread and pwrite would have given, errors and
// short transfers included. Real files in the working directory, with O_DIRECT and without.
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>

#include "base/monotonic_clock.h"
#include "datapath/uring/test_util.h"

namespace weir::uring {
namespace {

// The bytes of block `number` as written by `writer`: no two blocks are alike.
void FillPattern(std::byte* data, int64_t bytes, uint64_t writer, uint64_t number) {
  for (int64_t i = 0; i < bytes; i += 8) {
    const uint64_t word =
        (writer << 48) ^ (number << 16) ^ static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u;
    std::memcpy(data + i, &word, 8);
  }
}

bool HasPattern(const std::byte* data, int64_t bytes, uint64_t writer, uint64_t number) {
  std::vector<std::byte> wanted(static_cast<size_t>(bytes));
  FillPattern(wanted.data(), bytes, writer, number);
  return std::memcmp(data, wanted.data(), static_cast<size_t>(bytes)) == 0;
}

struct Mode {
  const char* name;
  int flags;
  bool isolation;
  int64_t max_piece_bytes;
  bool registered;
};

class EngineDataTest : public testing::TestWithParam<Mode> {
 protected:
  static EngineOptions Options() {
    EngineOptions options = FixedDepth(16);
    options.isolation = GetParam().isolation;
    options.max_piece_bytes = GetParam().max_piece_bytes;
    return options;
  }
};

// Goal: no block is lost, torn or mixed up. 8 threads, each with its own group and part of the
// file, write patterned blocks of mixed sizes, sync, and read them back.
TEST_P(EngineDataTest, EightThreadsReadBackWhatTheyWrote) {
  constexpr int kThreads = 8;
  constexpr int kBlocks = 24;
  constexpr int64_t kSizes[] = {4096, 16384, 65536, 131072};
  constexpr int64_t kSlot = 131072;
  constexpr int64_t kArea = kBlocks * kSlot;
  TempDir dir;
  const std::string path = dir.File(kThreads * kArea);
  auto engine = MakeEngine(Options());
  const Result<FileId> file = engine->Open(path, O_RDWR | GetParam().flags);
  ASSERT_TRUE(file) << file.error().message;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const core::GroupId group = AddGroup(engine.get());
      const Result<BufferRegion> region = engine->AllocateBuffers(kArea);
      ASSERT_TRUE(region) << region.error().message;
      const int32_t index = GetParam().registered ? region->index : -1;
      Collector writes;
      for (int b = 0; b < kBlocks; ++b) {
        std::byte* data = region->data + b * kSlot;
        const int64_t bytes = kSizes[b % 4];
        FillPattern(data, bytes, t, b);
        IoRequest request = IoRequest::Write(*file, group, data, bytes, t * kArea + b * kSlot);
        request.region = index;
        ASSERT_TRUE(engine->Submit(request, writes.Keep(b)));
      }
      writes.WaitForAll();
      for (int b = 0; b < kBlocks; ++b) {
        ASSERT_TRUE(writes.result(b).ok()) << writes.result(b).error().message;
        ASSERT_EQ(writes.result(b).bytes, kSizes[b % 4]);
      }
      const IoResult synced = engine->SubmitFuture(IoRequest::Fdatasync(*file, group)).get();
      ASSERT_TRUE(synced.ok()) << synced.error().message;
      std::memset(region->data, 0, kArea);
      Collector reads;
      for (int b = 0; b < kBlocks; ++b) {
        IoRequest request = IoRequest::Read(*file, group, region->data + b * kSlot, kSizes[b % 4],
                                            t * kArea + b * kSlot);
        request.region = index;
        ASSERT_TRUE(engine->Submit(request, reads.Keep(b)));
      }
      reads.WaitForAll();
      for (int b = 0; b < kBlocks; ++b) {
        ASSERT_TRUE(reads.result(b).ok()) << reads.result(b).error().message;
        ASSERT_TRUE(HasPattern(region->data + b * kSlot, kSizes[b % 4], t, b))
            << "thread " << t << " block " << b;
      }
      const Result<core::GroupStats> stats = engine->Stats(group);
      ASSERT_TRUE(stats);
      EXPECT_EQ(stats->served[2][0], stats->served[2][1]) << "bytes read and written";
      EXPECT_EQ(stats->in_flight, 0u);
      EXPECT_TRUE(engine->FreeBuffers(*region));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const EngineStats stats = engine->TotalStats();
  EXPECT_EQ(stats.submitted, stats.completed);
  EXPECT_EQ(stats.submitted, kThreads * (2u * kBlocks + 1));
  EXPECT_EQ(stats.cost_in_flight, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, EngineDataTest,
    testing::Values(Mode{"direct", O_DIRECT, true, 0, false},
                    Mode{"direct_registered", O_DIRECT, true, 0, true},
                    Mode{"direct_pieces", O_DIRECT, true, 8192, true},
                    Mode{"buffered", 0, true, 0, false},
                    Mode{"buffered_pieces", 0, true, 4096, false},
                    Mode{"direct_without_isolation", O_DIRECT, false, 0, false},
                    Mode{"pieces_without_isolation", O_DIRECT, false, 16384, false}),
    [](const auto& mode) { return mode.param.name; });

class EngineIoTest : public testing::Test {
 protected:
  EngineIoTest() : engine_(MakeEngine(FixedDepth(16))), group_(AddGroup(engine_.get())) {}

  FileId Open(const std::string& path, int flags) {
    Result<FileId> file = engine_->Open(path, flags);
    EXPECT_TRUE(file) << file.error().message;
    return *file;
  }
  IoResult Do(const IoRequest& request) { return engine_->SubmitFuture(request).get(); }

  TempDir dir_;
  std::unique_ptr<Engine> engine_;
  core::GroupId group_;
  char buffer_[kBlock] = {};
};

TEST_F(EngineIoTest, AReadPastTheEndIsShort) {
  const FileId file = Open(dir_.File(10'000), O_RDONLY);
  IoResult result = Do(IoRequest::Read(file, group_, buffer_, kBlock, 4096));
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.bytes, 10'000 - 4096);
  result = Do(IoRequest::Read(file, group_, buffer_, kBlock, 10'000));
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.bytes, 0);
}

TEST_F(EngineIoTest, AnEmptyTransferSucceeds) {
  const FileId file = Open(dir_.File(4096), O_RDWR);
  EXPECT_TRUE(Do(IoRequest::Read(file, group_, buffer_, 0, 0)).ok());
  EXPECT_TRUE(Do(IoRequest::Write(file, group_, buffer_, 0, 0)).ok());
}

TEST_F(EngineIoTest, KernelErrorsArriveAsTheyAre) {
  const std::string path = dir_.File(kBlock);
  const FileId read_only = Open(path, O_RDONLY);
  IoResult result = Do(IoRequest::Write(read_only, group_, buffer_, 512, 0));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.code, ErrorCode::kIo);
  EXPECT_EQ(result.sys_errno, EBADF);
  EXPECT_EQ(result.bytes, 0);

  const FileId full = Open("/dev/full", O_WRONLY);
  result = Do(IoRequest::Write(full, group_, buffer_, 4096, 0));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.code, ErrorCode::kIo);
  EXPECT_EQ(result.sys_errno, ENOSPC);

  const FileId ok = Open(path, O_RDWR);
  result = Do(IoRequest::Read(ok, group_, reinterpret_cast<void*>(8), 4096, 0));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.sys_errno, EFAULT);
  EXPECT_EQ(engine_->TotalStats().io_errors, 3u);
}

TEST_F(EngineIoTest, AFullDiskGivesAShortWriteAndThenEnospc) {
  constexpr int64_t kDisk = 64 * 1024;
  const std::string where = dir_.path() + "/small";
  ASSERT_EQ(mkdir(where.c_str(), 0755), 0);
  if (mount("weir-test", where.c_str(), "tmpfs", 0, "size=64k") != 0) {
    const int error = errno;
    rmdir(where.c_str());
    GTEST_SKIP() << "cannot mount a small file system here: " << std::strerror(error);
  }
  Aligned data(2 * kDisk);
  for (const int64_t piece : {int64_t{0}, int64_t{16384}}) {
    EngineOptions options = FixedDepth(16);
    options.max_piece_bytes = piece;
    auto engine = MakeEngine(options);
    const core::GroupId group = AddGroup(engine.get());
    const std::string path = where + "/f";
    const Result<FileId> file = engine->Open(path, O_RDWR | O_CREAT | O_TRUNC);
    ASSERT_TRUE(file);
    const IoResult part =
        engine->SubmitFuture(IoRequest::Write(*file, group, data.get(), 2 * kDisk, 0)).get();
    EXPECT_TRUE(part.ok());
    EXPECT_EQ(part.bytes, kDisk) << "pieces of " << piece;
    const IoResult none =
        engine->SubmitFuture(IoRequest::Write(*file, group, data.get(), 4096, kDisk)).get();
    EXPECT_FALSE(none.ok());
    EXPECT_EQ(none.sys_errno, ENOSPC);
    engine.reset();
    unlink(path.c_str());
  }
  const int unmounted = umount(where.c_str());
  EXPECT_EQ(unmounted, 0) << std::strerror(errno);
  if (unmounted != 0) umount2(where.c_str(), MNT_DETACH);
  rmdir(where.c_str());
}

TEST_F(EngineIoTest, UnknownFilesAndGroupsAreToldApart) {
  const FileId file = Open(dir_.File(kBlock), O_RDONLY);
  IoResult result = Do(IoRequest::Read(FileId{}, group_, buffer_, 512, 0));
  EXPECT_EQ(result.code, ErrorCode::kNotFound);
  EXPECT_EQ(result.sys_errno, EBADF);
  result = Do(IoRequest::Read(file, core::GroupId{}, buffer_, 512, 0));
  EXPECT_EQ(result.code, ErrorCode::kNotFound);
  EXPECT_EQ(result.sys_errno, 0);
  result = Do(IoRequest::Read(file, engine_->RootGroup(), buffer_, 512, 0));
  EXPECT_EQ(result.code, ErrorCode::kFailedPrecondition) << "the root has a group below it";
  EXPECT_TRUE(Do(IoRequest::Read(file, group_, buffer_, 512, 0)).ok());
}

TEST_F(EngineIoTest, RequestsOutOfRangeAreRefusedAtOnce) {
  const FileId file = Open(dir_.File(kBlock), O_RDONLY);
  const IoCallback callback = [](const IoResult&) { ADD_FAILURE() << "called"; };
  for (const auto& [bytes, offset] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 0}, {kMaxEngineRequestBytes + 1, 0}, {1, -1}, {2, INT64_MAX}}) {
    const auto id =
        engine_->Submit(IoRequest::Read(file, group_, buffer_, bytes, offset), callback);
    ASSERT_FALSE(id);
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
  }
  IoRequest region = IoRequest::Read(file, group_, buffer_, 512, 0);
  region.region = kMaxEngineBufferRegions;
  EXPECT_FALSE(engine_->Submit(region, callback));
  EXPECT_FALSE(engine_->Submit(IoRequest::Read(file, group_, buffer_, 512, 0), IoCallback{}));
}

TEST_F(EngineIoTest, AClosedFileTakesNoMoreAndItsIdIsNotReused) {
  const std::string path = dir_.File(kBlock);
  const FileId first = Open(path, O_RDONLY);
  EXPECT_TRUE(engine_->Close(first));
  EXPECT_EQ(engine_->Close(first).error().code, ErrorCode::kNotFound);
  const FileId second = Open(path, O_RDONLY);
  EXPECT_EQ(first.index, second.index) << "the slot is used again";
  EXPECT_EQ(Do(IoRequest::Read(first, group_, buffer_, 512, 0)).code, ErrorCode::kNotFound);
  EXPECT_TRUE(Do(IoRequest::Read(second, group_, buffer_, 512, 0)).ok());
}

TEST_F(EngineIoTest, CloseWaitsForAcceptedRequests) {
  auto engine = MakeEngine(FixedDepth(1));
  const core::GroupId group = AddGroup(engine.get());
  Blocker blocker(engine.get(), group);
  const Result<FileId> file = engine->Open(dir_.File(kBlock), O_RDONLY);
  Collector reads;
  ASSERT_TRUE(engine->Submit(IoRequest::Read(*file, group, buffer_, kBlock, 0), reads.Keep(0)));
  ASSERT_TRUE(engine->Close(*file));
  blocker.Release();
  reads.WaitForAll();
  EXPECT_TRUE(reads.result(0).ok());
  EXPECT_EQ(reads.result(0).bytes, kBlock);
}

TEST_F(EngineIoTest, FilesAndRegionsHaveTheirMaximum) {
  EngineOptions options;
  options.max_files = 2;
  auto engine = MakeEngine(options);
  const std::string path = dir_.File(kBlock);
  const Result<FileId> first = engine->Open(path, O_RDONLY);
  ASSERT_TRUE(first);
  ASSERT_TRUE(engine->Open(path, O_RDONLY));
  EXPECT_EQ(engine->Open(path, O_RDONLY).error().code, ErrorCode::kResourceExhausted);
  ASSERT_TRUE(engine->Close(*first));
  EXPECT_TRUE(engine->Open(path, O_RDONLY));
  std::vector<BufferRegion> regions;
  for (uint32_t i = 0; i < kMaxEngineBufferRegions; ++i) {
    Result<BufferRegion> region = engine->AllocateBuffers(4096);
    ASSERT_TRUE(region) << region.error().message;
    regions.push_back(*region);
  }
  EXPECT_EQ(engine->AllocateBuffers(4096).error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(engine->FreeBuffers(regions[5]));
  EXPECT_EQ(engine->FreeBuffers(regions[5]).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(engine->AllocateBuffers(1)->id, regions[5].id);
  EXPECT_EQ(engine->AllocateBuffers(0).error().code, ErrorCode::kInvalidArgument);
}

// Nothing of the engine holds a file back once it has stopped (a file system can be unmounted).
TEST_F(EngineIoTest, StopClosesTheFiles) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_TRUE(engine_->Adopt(ends[1]));
  ASSERT_TRUE(engine_->Stop(StopMode::kDrain));
  EXPECT_EQ(read(ends[0], buffer_, 1), 0) << "end of file: no writer is left";
  close(ends[0]);
}

TEST_F(EngineIoTest, OpeningFailsWithTheKernelsReason) {
  const Result<FileId> missing = engine_->Open(dir_.path() + "/no-such-file", O_RDONLY);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().sys_errno, ENOENT);
  EXPECT_NE(missing.error().message.find("no-such-file"), std::string::npos);
  EXPECT_EQ(engine_->Adopt(-1).error().sys_errno, EBADF);
}

TEST_F(EngineIoTest, APieceAtTheEndOfTheFileMakesTheWholeShort) {
  EngineOptions options = FixedDepth(64);
  options.max_piece_bytes = 4096;
  auto engine = MakeEngine(options);
  const core::GroupId group = AddGroup(engine.get());
  const Result<FileId> file = engine->Open(dir_.File(100'000), O_RDWR);
  Aligned data(1 << 20);
  const IoResult read =
      engine->SubmitFuture(IoRequest::Read(*file, group, data.get(), 1 << 20, 0)).get();
  EXPECT_TRUE(read.ok());
  EXPECT_EQ(read.bytes, 100'000);
  const IoResult write =
      engine->SubmitFuture(IoRequest::Write(*file, group, data.get(), 1 << 20, 0)).get();
  EXPECT_EQ(write.bytes, 1 << 20);
  const Result<core::GroupStats> stats = engine->Stats(group);
  EXPECT_EQ(stats->served[1][1], (1 << 20) / 4096 * kOp) << "raw operations as issued";
  EXPECT_EQ(stats->served[2][1], 1 << 20);
  const Result<FileId> full = engine->Open("/dev/full", O_WRONLY);
  const IoResult none =
      engine->SubmitFuture(IoRequest::Write(*full, group, data.get(), 1 << 20, 0)).get();
  EXPECT_FALSE(none.ok());
  EXPECT_EQ(none.sys_errno, ENOSPC);
  EXPECT_EQ(none.bytes, 0);
}

// Reads that go on where the last one ended cost as sequential, if the cost model says so.
TEST_F(EngineIoTest, SequentialAccessIsRecognised) {
  core::CostCurve curve;
  curve.points[0][0] = {{4096, 100'000}, {16384, 200'000}};
  curve.points[0][1] = {{4096, 25'000}, {16384, 100'000}};
  EngineOptions options = FixedDepth(16);
  options.cost_model = *core::CostModel::FromCurve(curve);
  auto engine = MakeEngine(options);
  const core::GroupId group = AddGroup(engine.get());
  const Result<FileId> file = engine->Open(dir_.File(4 * kBlock), O_RDONLY);
  const auto cost = [&](int64_t offset) {
    return engine->SubmitFuture(IoRequest::Read(*file, group, buffer_, kBlock, offset)).get().cost;
  };
  EXPECT_EQ(cost(0), kOp);
  EXPECT_EQ(cost(kBlock), kOp / 2);
  EXPECT_EQ(cost(2 * kBlock), kOp / 2);
  EXPECT_EQ(cost(0), kOp);
}

TEST_F(EngineIoTest, TimesOfAResultAreInOrder) {
  const FileId file = Open(dir_.File(kBlock), O_RDONLY);
  const TimePoint before = MonotonicNow();
  const IoResult result = Do(IoRequest::Read(file, group_, buffer_, kBlock, 0));
  EXPECT_LE(before, result.submitted_at);
  EXPECT_LE(result.dispatched_at, result.completed_at);
  EXPECT_LE(result.submitted_at, result.completed_at);
  EXPECT_LE(result.completed_at, MonotonicNow());
}

}  // namespace
}  // namespace weir::uring
