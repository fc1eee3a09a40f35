// The bytes that a calibration reads and overwrites: a scratch file without a name, or a block
// device whose owner said so. Threads: one.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weir::device {

// A scratch file below this shows caches rather than the device.
inline constexpr int64_t kMinTargetBytes = int64_t{16} << 20;
inline constexpr int64_t kDefaultTargetBytes = int64_t{1} << 30;
inline constexpr int64_t kDefaultQuickTargetBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxTargetBytes = int64_t{1} << 40;

struct TargetOptions {
  std::string path;  // a directory, a file (scratch beside it), a block device
  int64_t size = 0;  // bytes; 0 = `default_size`, less where space is short
  int64_t default_size = kDefaultTargetBytes;
  bool destroy_data = false;  // required for a block device
};

class Target {
 public:
  // A scratch file is unlinked as soon as it is open, so that no way to die leaves it behind.
  // Errors: kNotFound; kFailedPrecondition (a block device without `destroy_data`, or in use);
  // kInvalidArgument (size, neither directory nor file nor device); kResourceExhausted (no space);
  // kIo. All before anything is written.
  [[nodiscard]] static Result<Target> Open(const TargetOptions& options);

  Target(Target&& other) noexcept;
  Target& operator=(Target&& other) noexcept;
  ~Target();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] bool direct() const { return direct_; }
  [[nodiscard]] const std::string& what() const { return what_; }  // for messages
  // Keeps only the part that was laid out. Requires: 0 < bytes <= bytes().
  void Shorten(int64_t bytes) { bytes_ = bytes; }

 private:
  Target() = default;
  static Result<Target> OpenScratch(const std::string& directory, const TargetOptions& options);
  static Result<Target> OpenBlockDevice(const TargetOptions& options);

  int fd_ = -1;
  int64_t bytes_ = 0;
  bool direct_ = true;
  std::string what_;
};

}  // namespace weir::device
