#include "device/block_info.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/units.h"

namespace weir::device {

namespace {

namespace fs = std::filesystem;

std::string Trim(std::string text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  text.resize(last == std::string::npos ? 0 : last + 1);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first);
}

// The first line; empty if there is none.
std::string ReadLine(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return Trim(line);
}

std::string MajorMinor(dev_t device) { return fmt::format("{}:{}", major(device), minor(device)); }

// Spaces and the like are octal in mountinfo: "\040".
std::string Unescape(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                  (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

struct Mount {
  std::string major_minor;
  std::string point;
  std::string source;
};

std::vector<Mount> Mounts() {
  std::vector<Mount> mounts;
  std::ifstream in("/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string skip, word;
    Mount mount;
    fields >> skip >> skip >> mount.major_minor >> skip >> mount.point;
    while (fields >> word && word != "-") {
    }
    fields >> skip >> mount.source;
    mount.point = Unescape(mount.point);
    mount.source = Unescape(mount.source);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

bool IsBlockDevice(const std::string& path, dev_t* device) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0 || !S_ISBLK(st.st_mode)) return false;
  *device = st.st_rdev;
  return true;
}

// The folder of a block device in sysfs; empty if it is none. A file system without a device of
// its own (btrfs) is looked up by what is mounted.
fs::path SysfsFolder(dev_t device) {
  std::error_code error;
  const fs::path link = "/sys/dev/block/" + MajorMinor(device);
  fs::path folder = fs::canonical(link, error);
  if (!error) return folder;
  for (const Mount& mount : Mounts()) {
    dev_t source{};
    if (mount.major_minor == MajorMinor(device) && IsBlockDevice(mount.source, &source)) {
      folder = fs::canonical("/sys/dev/block/" + MajorMinor(source), error);
      if (!error) return folder;
    }
  }
  return {};
}

std::string Model(const fs::path& disk) {
  std::string model = ReadLine(disk / "device/model");
  if (model.empty()) model = ReadLine(disk / "dm/name");
  if (model.empty()) model = ReadLine(disk / "loop/backing_file");
  if (!model.empty()) return model;
  std::error_code error;
  const fs::path subsystem = fs::canonical(disk / "device/subsystem", error);
  return error ? "" : subsystem.filename().string();
}

// "254:0" of the device itself and of its partitions.
std::vector<std::string> NumbersOf(const fs::path& folder) {
  std::vector<std::string> numbers = {ReadLine(folder / "dev")};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (fs::exists(entry.path() / "partition", error)) {
      numbers.push_back(ReadLine(entry.path() / "dev"));
    }
  }
  return numbers;
}

}  // namespace

std::string BlockInfo::Describe() const {
  if (name.empty()) return "";
  if (model.empty()) return fmt::format("{} ({})", name, FormatBytes(bytes));
  return fmt::format("{} ({}, {})", name, model, FormatBytes(bytes));
}

Result<BlockInfo> FindBlockDevice(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot look at {}: {}", path, std::strerror(errno)),
                errno);
  }
  BlockInfo info;
  fs::path folder = SysfsFolder(S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
  if (folder.empty()) return info;
  std::error_code error;
  if (fs::exists(folder / "partition", error)) folder = folder.parent_path();
  info.name = folder.filename().string();
  info.model = Model(folder);
  info.major_minor = ReadLine(folder / "dev");
  info.rotational = ReadLine(folder / "queue/rotational") == "1";
  info.bytes = std::strtoll(ReadLine(folder / "size").c_str(), nullptr, 10) * 512;
  return info;
}

std::string UseOfBlockDevice(const std::string& path) {
  dev_t device{};
  if (!IsBlockDevice(path, &device)) return "";
  const fs::path folder = SysfsFolder(device);
  if (folder.empty()) return "";
  const std::vector<std::string> numbers = NumbersOf(folder);
  const auto is_ours = [&](const std::string& major_minor) {
    for (const std::string& number : numbers) {
      if (number == major_minor) return true;
    }
    return false;
  };
  for (const Mount& mount : Mounts()) {
    dev_t source{};
    if (is_ours(mount.major_minor) ||
        (IsBlockDevice(mount.source, &source) && is_ours(MajorMinor(source)))) {
      return "mounted at " + mount.point;
    }
  }
  std::ifstream swaps("/proc/swaps");
  for (std::string line; std::getline(swaps, line);) {
    dev_t source{};
    if (IsBlockDevice(Unescape(line.substr(0, line.find_first_of(" \t"))), &source) &&
        is_ours(MajorMinor(source))) {
      return "used as swap";
    }
  }
  std::error_code error;
  for (const std::string& number : numbers) {
    for (const auto& holder :
         fs::directory_iterator("/sys/dev/block/" + number + "/holders", error)) {
      return "part of " + holder.path().filename().string();
    }
  }
  return "";
}

}  // namespace weir::device
