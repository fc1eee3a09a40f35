// Goal: the runner never harms a file that it did not make and leaves nothing behind.
#include "app/bench_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace weir::app {
namespace {

using ::testing::HasSubstr;

class BenchFileTest : public ::testing::Test {
 protected:
  BenchFileTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("weir_bench_file_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~BenchFileTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::string Existing(size_t bytes) const {
    std::ofstream(Path("data")) << std::string(bytes, 'x');
    return Path("data");
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
};

TEST_F(BenchFileTest, AScratchFileHasNoNameAndRealData) {
  BenchFileOptions options;
  options.path = folder_.string();
  options.bytes = 16 << 20;
  auto file = BenchFile::Open(options);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_TRUE(file->is_scratch());
  int64_t written = 0;
  ASSERT_TRUE(file->LayOut([&](int64_t done, int64_t all) {
                    EXPECT_LE(done, all);
                    written = done;
                    return true;
                  })
                  .has_value());
  EXPECT_EQ(written, file->bytes());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  void* block = nullptr;
  ASSERT_EQ(posix_memalign(&block, 4096, 4096), 0);
  ASSERT_EQ(pread(file->fd(), block, 4096, file->bytes() - 4096), 4096);
  const std::string data(static_cast<const char*>(block), 4096);
  EXPECT_NE(data, std::string(4096, data[0]));
  free(block);
}

TEST_F(BenchFileTest, LayingOutCanBeStopped) {
  BenchFileOptions options;
  options.path = folder_.string();
  options.bytes = 64 << 20;
  auto file = BenchFile::Open(options);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto laid_out = file->LayOut([](int64_t, int64_t) { return false; });
  ASSERT_FALSE(laid_out.has_value());
  EXPECT_EQ(laid_out.error().code, ErrorCode::kCancelled);
}

TEST_F(BenchFileTest, ANameThatIsNotThereIsRefused) {
  std::filesystem::create_symlink(Path("nowhere"), Path("dangling"));
  for (const char* name : {"new", "dangling"}) {
    BenchFileOptions options;
    options.path = Path(name);
    options.bytes = 16 << 20;
    const auto file = BenchFile::Open(options);
    ASSERT_FALSE(file.has_value()) << name;
    EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(file.error().message, HasSubstr(options.path));
    EXPECT_THAT(file.error().message, HasSubstr("--file"));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("new")));
}

TEST_F(BenchFileTest, SaysWhereTheNameCameFromAndWhichOptionGivesAnother) {
  BenchFileOptions options;
  options.path = Path("new");
  options.given_by = "path of device \"d\"";
  options.option = "--dir";
  const auto file = BenchFile::Open(options);
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message, HasSubstr("path of device \"d\""));
  EXPECT_THAT(file.error().message, HasSubstr("--dir"));
}

TEST_F(BenchFileTest, AFileThatWasThereIsNotWrittenUnasked) {
  BenchFileOptions options;
  options.path = Existing(1 << 20);
  options.writes = true;
  const auto refused = BenchFile::Open(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("--overwrite-file"));
  options.overwrite = true;
  EXPECT_TRUE(BenchFile::Open(options).has_value());
  EXPECT_EQ(Read(options.path), std::string(1 << 20, 'x'));  // opening is not writing
}

TEST_F(BenchFileTest, AFileThatWasThereIsReadWholeAndKept) {
  BenchFileOptions options;
  options.path = Existing(1 << 20);
  {
    auto file = BenchFile::Open(options);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_FALSE(file->is_scratch());
    EXPECT_EQ(file->bytes(), 1 << 20);
    EXPECT_TRUE(file->LayOut([](int64_t, int64_t) { return true; }).has_value());
  }
  EXPECT_EQ(Read(options.path), std::string(1 << 20, 'x'));
}

TEST_F(BenchFileTest, AFileTooSmallForTheLoadsIsRefused) {
  BenchFileOptions options;
  options.path = Existing(8192);
  options.least_bytes = 16384;
  const auto refused = BenchFile::Open(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("8 KiB"));
  EXPECT_THAT(refused.error().message, HasSubstr("16 KiB"));
}

TEST_F(BenchFileTest, SaysWhereItFindsTooLittleSpaceOrNothing) {
  BenchFileOptions options;
  options.path = folder_.string();
  options.bytes = int64_t{1} << 39;
  struct Case {
    std::string path;
    std::string expected;
  };
  if (std::filesystem::space(folder_).available < (uint64_t{1} << 39)) {
    const auto full = BenchFile::Open(options);
    ASSERT_FALSE(full.has_value());
    EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(full.error().message, HasSubstr(folder_.string()));
  }
  options.bytes = 16 << 20;
  for (const Case& c :
       {Case{Path("no/such/place"), "No such file"}, Case{"/dev/null", "/dev/null"}}) {
    options.path = c.path;
    const auto refused = BenchFile::Open(options);
    ASSERT_FALSE(refused.has_value()) << c.path;
    EXPECT_THAT(refused.error().message, HasSubstr(c.expected));
  }
}

TEST_F(BenchFileTest, WarnsOfHoles) {
  BenchFileOptions options;
  options.path = Existing(4096);
  std::filesystem::resize_file(options.path, 1 << 20);
  auto file = BenchFile::Open(options);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_FALSE(file->warnings().empty());
  EXPECT_THAT(file->warnings().back(), HasSubstr("holes"));
}

}  // namespace
}  // namespace weir::app
