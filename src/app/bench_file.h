// The file that loads run on: a scratch file full of real data, or one that the user names.
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/target.h"

namespace weir::app {

inline constexpr int64_t kDefaultBenchFileBytes = int64_t{1} << 30;

struct BenchFileOptions {
  // A directory: a scratch file is made there. A file or a block device: that one is used, whole.
  std::string path;
  // For messages: what `path` was given by, "--file" or what stands for it in a file, and the
  // option that names another place.
  std::string given_by = "--file";
  std::string option = "--file";
  int64_t bytes = 0;  // of the scratch file, or what a file must have; 0 = default, or as it is
  int64_t least_bytes = 0;  // the largest request
  bool writes = false;      // the loads write
  bool overwrite = false;   // what exists may be written to
};

class BenchFile {
 public:
  // A scratch file has no name, so that nothing is left behind however the process ends.
  // Errors: kNotFound (nothing is there, also behind a symbolic link); kInvalidArgument (too small,
  // neither file nor directory nor block device); kFailedPrecondition (would write to what exists,
  // without `overwrite`; in use); kResourceExhausted (space); kIo. Nothing has been written then.
  [[nodiscard]] static Result<BenchFile> Open(const BenchFileOptions& options);

  BenchFile(BenchFile&& other) noexcept;
  BenchFile& operator=(BenchFile&& other) noexcept;
  ~BenchFile();

  // Fills a scratch file with data that no device can compress; nothing to do for others.
  // `on_progress` gets bytes written and in all; returning false ends it. Errors: kCancelled; kIo.
  [[nodiscard]] Result<void> LayOut(const std::function<bool(int64_t, int64_t)>& on_progress);

  [[nodiscard]] int fd() const { return scratch_ ? scratch_->fd() : fd_; }
  [[nodiscard]] int64_t bytes() const { return scratch_ ? scratch_->bytes() : bytes_; }
  [[nodiscard]] bool is_scratch() const { return scratch_.has_value(); }
  [[nodiscard]] const std::string& directory() const { return directory_; }  // it lies here
  // "scratch file of 1 GiB in /data on nvme0n1 (...)", for people.
  [[nodiscard]] const std::string& what() const { return what_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  BenchFile() = default;
  static Result<BenchFile> OpenScratch(const std::string& directory,
                                       const BenchFileOptions& options);
  static Result<BenchFile> OpenExisting(const BenchFileOptions& options, bool block_device);

  std::optional<device::Target> scratch_;
  int fd_ = -1;
  int64_t bytes_ = 0;
  std::string directory_;
  std::string what_;
  std::vector<std::string> warnings_;
};

}  // namespace weir::app
