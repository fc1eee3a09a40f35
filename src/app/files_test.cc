// Goal: a report never takes the place of something else, nor is half of one left where a good file
// was. Method: a directory of its own; writes that fail are made with a limit on the file size.
#include "app/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "app/report_files.h"

namespace weir::app {
namespace {

using ::testing::HasSubstr;

// Writes beyond `bytes` fail with EFBIG while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    struct rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  struct rlimit before_ {};
  void (*handler_)(int) = nullptr;
};

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    std::string pattern = ::testing::TempDir() + "/weir_files_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::string Make(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  [[nodiscard]] long Names() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }
  static unsigned ModeOf(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 ? st.st_mode & 07777u : 0;
  }

  std::filesystem::path folder_;
};

TEST_F(FilesTest, AFailedWriteLeavesWhatWasThere) {
  const std::string old = Make("report", "old");
  const FileSizeLimit limit(4096);
  for (const std::string& path : {old, Path("new")}) {
    const auto written = WriteTextFile(path, std::string(100'000, 'x'));
    ASSERT_FALSE(written.has_value());
    EXPECT_EQ(written.error().sys_errno, EFBIG);
    EXPECT_THAT(written.error().message, HasSubstr(path));
  }
  EXPECT_EQ(Read(old), "old");
  EXPECT_EQ(Names(), 1);
}

TEST_F(FilesTest, ANewFileHasThePermissionsOfAnyOtherAndAnOldOneKeepsItsOwn) {
  const std::string old = Make("old", "old");
  ASSERT_EQ(chmod(old.c_str(), 0640), 0);
  const mode_t before = umask(027);
  ASSERT_TRUE(WriteTextFile(Path("new"), "text").has_value());
  ASSERT_TRUE(WriteTextFile(old, "text").has_value());
  umask(before);
  EXPECT_EQ(ModeOf(Path("new")), 0640u);
  EXPECT_EQ(ModeOf(old), 0640u);
  EXPECT_EQ(Read(old), "text");
  EXPECT_EQ(Names(), 2);
}

TEST_F(FilesTest, ASymbolicLinkStaysAndLeadsToTheNewText) {
  const std::string file = Make("file", "old");
  std::filesystem::create_symlink("file", Path("link"));
  std::filesystem::create_symlink("made", Path("dangling"));
  for (const char* name : {"link", "dangling"}) {
    ASSERT_TRUE(CheckWritable(Path(name)).has_value());
    ASSERT_TRUE(WriteTextFile(Path(name), "new").has_value());
    EXPECT_TRUE(std::filesystem::is_symlink(Path(name)));
  }
  EXPECT_EQ(Read(file), "new");
  EXPECT_EQ(Read(Path("made")), "new");
}

TEST_F(FilesTest, APipeIsWrittenAndStays) {
  const std::string fifo = Path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = Read(fifo); });
  EXPECT_TRUE(CheckWritable(fifo).has_value());
  const auto written = WriteTextFile(fifo, "text");
  reader.join();
  EXPECT_TRUE(written.has_value());
  EXPECT_EQ(read, "text");
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
}

TEST_F(FilesTest, AFullDeviceIsAnError) {
  EXPECT_TRUE(CheckWritable("/dev/full").has_value());
  const auto written = WriteTextFile("/dev/full", "text");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().sys_errno, ENOSPC);
}

TEST_F(FilesTest, SaysBeforehandWhatCannotBeWritten) {
  struct Case {
    std::string path;
    std::string why;
  };
  std::filesystem::create_symlink(Path("no/such"), Path("dangling"));
  const std::vector<Case> cases = {
      {folder_.string(), "it is a directory"},      {Path("no/such/file"), "No such file"},
      {Path("dangling"), "No such file"},           {Path("new/"), "lacks a file name"},
      {Make("file", "") + "/x", "Not a directory"}, {Path(std::string(300, 'x')), "too long"},
  };
  for (const Case& c : cases) {
    const auto checked = CheckWritable(c.path);
    ASSERT_FALSE(checked.has_value()) << c.path;
    EXPECT_THAT(checked.error().message, HasSubstr(c.path));
    EXPECT_THAT(checked.error().message, HasSubstr(c.why));
  }
  for (const std::string& path : {Path("file"), Path("new"), std::string("-"), std::string("")}) {
    EXPECT_TRUE(CheckWritable(path).has_value()) << path;
  }
}

TEST_F(FilesTest, KnowsWhenTwoNamesAreOneFile) {
  const std::string file = Make("file", "");
  std::filesystem::create_directory(Path("sub"));
  std::filesystem::create_symlink("file", Path("link"));
  std::filesystem::create_symlink("new", Path("dangling"));
  std::filesystem::create_hard_link(file, Path("twin"));
  using Names = std::array<std::string, 2>;
  for (const Names& same :
       {Names{"file", "file"}, Names{"file", "sub/../file"}, Names{"file", "link"},
        Names{"file", "twin"}, Names{"new", "sub/../new"}, Names{"new", "dangling"}}) {
    EXPECT_TRUE(IsSameFile(Path(same[0]), Path(same[1]))) << same[0] << " " << same[1];
  }
  for (const Names& two : {Names{"file", "new"}, Names{"new", "newer"}, Names{"new", "sub/new"}}) {
    EXPECT_FALSE(IsSameFile(Path(two[0]), Path(two[1]))) << two[0] << " " << two[1];
  }
}

TEST_F(FilesTest, EachReportNeedsAFileOfItsOwn) {
  const std::string input = Make("scenario.toml", "");
  const auto check = [&](const ReportFiles& files) {
    const auto checked = CheckReports(files, {{"the scenario", input}});
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(check({Path("a"), Path("b"), Path("c")}), "");
  EXPECT_EQ(check({"/dev/null", "/dev/null", "-"}), "");
  EXPECT_THAT(check({input, "", ""}),
              HasSubstr("--json " + input + " would overwrite the scenario"));
  EXPECT_THAT(check({"", "", Path("./scenario.toml")}), HasSubstr("--html"));
  EXPECT_THAT(check({Path("a"), Path("./a"), ""}), HasSubstr("are one file"));
  EXPECT_THAT(check({"-", "-", ""}), HasSubstr("are one file"));
  EXPECT_THAT(check({"", Path("no/such"), ""}), HasSubstr("No such file"));
}

TEST_F(FilesTest, AReportThatCannotBeWrittenDoesNotTakeTheOthersWithIt) {
  const auto written = WriteReports({Path("no/r.json"), Path("r.csv"), Path("no/r.html")}, {}, {});
  ASSERT_FALSE(written.has_value());
  EXPECT_THAT(written.error().message, HasSubstr("r.json"));
  EXPECT_THAT(written.error().message, HasSubstr("r.html"));
  EXPECT_THAT(Read(Path("r.csv")), HasSubstr("start_s,"));
}

}  // namespace
}  // namespace weir::app
