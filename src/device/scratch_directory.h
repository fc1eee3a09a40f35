// For tests only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <system_error>

namespace weir::device {

// Where a scratch file neither waits for a busy disk nor disturbs one.
inline std::filesystem::path ScratchDirectory() {
  std::error_code error;
  const auto space = std::filesystem::space("/dev/shm", error);
  const bool roomy = !error && space.available > (uintmax_t{512} << 20);
  return roomy ? "/dev/shm" : std::filesystem::temp_directory_path();
}

}  // namespace weir::device
