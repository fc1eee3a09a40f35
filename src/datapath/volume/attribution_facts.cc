#include "datapath/volume/attribution_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace weir::volume {
namespace {

constexpr uint64_t kIoWorker = 0x10;         // PF_IO_WORKER of the kernel's task flags
constexpr size_t kMaxProcBytes = 16 * 1024;  // cgroup paths may be 4 KiB each
constexpr size_t kMaxCgroups = 32;

// Empty when it cannot be read.
std::string ReadSmallFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text(1024, '\0');
  size_t size = 0;
  while (size < kMaxProcBytes) {
    if (size == text.size()) text.resize(std::min(4 * text.size(), kMaxProcBytes));
    const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  ::close(fd);
  text.resize(size);
  return text;
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void ReadIdentity(uint32_t tid, FactsWanted wanted, const std::string& proc, ThreadFacts* facts) {
  if (wanted.cgroup)
    facts->cgroups = ParseCgroups(ReadSmallFile(fmt::format("{}/{}/cgroup", proc, tid)));
  if (!wanted.process) return;
  facts->process = ParseTgid(ReadSmallFile(fmt::format("{}/{}/status", proc, tid)));
  if (facts->process == 0) return;
  const auto stat = ParseStat(ReadSmallFile(fmt::format("{}/{}/stat", proc, facts->process)));
  if (stat) facts->process_start = stat->start_time;
}

}  // namespace

// "17 (a name ) with anything) S 1 17 17 0 -1 4194624 ...": the name ends at the last ')'.
std::optional<StatLine> ParseStat(std::string_view text) {
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  StatLine line;
  line.comm = text.substr(open + 1, close - open - 1);
  std::string_view rest = text.substr(close + 1);
  for (int field = 3; field <= 22; ++field) {
    const size_t begin = rest.find_first_not_of(' ');
    if (begin == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(begin);
    const std::string_view word = rest.substr(0, rest.find_first_of(" \n"));
    rest.remove_prefix(word.size());
    if (field != 9 && field != 22) continue;
    const std::optional<uint64_t> value = Number(word);
    if (!value) return std::nullopt;
    (field == 9 ? line.flags : line.start_time) = *value;
  }
  return line;
}

// "12:blkio,memory:/docker/ab\n0::/user.slice\n"
std::vector<std::string> ParseCgroups(std::string_view text) {
  std::vector<std::string> paths;
  while (!text.empty() && paths.size() < kMaxCgroups) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos || second + 1 >= line.size()) continue;
    std::string path(line.substr(second + 1));
    if (std::find(paths.begin(), paths.end(), path) == paths.end())
      paths.push_back(std::move(path));
  }
  return paths;
}

uint32_t ParseTgid(std::string_view status) {
  constexpr std::string_view kKey = "\nTgid:\t";
  const size_t at = status.find(kKey);
  if (at == std::string_view::npos) return 0;
  status.remove_prefix(at + kKey.size());
  const std::optional<uint64_t> value = Number(status.substr(0, status.find('\n')));
  return value && *value <= INT32_MAX ? static_cast<uint32_t>(*value) : 0;
}

uint32_t WorkerOwner(std::string_view comm) {
  for (const std::string_view prefix : {"iou-wrk-", "iou-sqp-"}) {
    if (!comm.starts_with(prefix)) continue;
    const std::optional<uint64_t> value = Number(comm.substr(prefix.size()));
    if (value && *value <= INT32_MAX) return static_cast<uint32_t>(*value);
  }
  return 0;
}

ThreadFacts ReadThreadFacts(uint32_t tid, FactsWanted wanted, const std::string& proc) {
  ThreadFacts facts;
  facts.tid = tid;
  std::optional<StatLine> stat = ParseStat(ReadSmallFile(fmt::format("{}/{}/stat", proc, tid)));
  if (!stat) return facts;
  facts.alive = true;
  facts.start_time = stat->start_time;
  // Anybody may call a thread so; only the kernel sets the flag, and a worker lives in its owner's
  // process.
  const uint32_t owner = (stat->flags & kIoWorker) != 0 ? WorkerOwner(stat->comm) : 0;
  if (owner != 0 && ::access(fmt::format("{}/{}/task/{}", proc, owner, tid).c_str(), F_OK) == 0) {
    if (auto of_owner = ParseStat(ReadSmallFile(fmt::format("{}/{}/stat", proc, owner)))) {
      facts.tid = owner;
      stat = std::move(of_owner);
    }
  }
  facts.comm = std::move(stat->comm);
  ReadIdentity(facts.tid, wanted, proc, &facts);
  return facts;
}

Result<uint64_t> StartTimeOf(uint32_t tid, const std::string& proc) {
  const auto stat = ParseStat(ReadSmallFile(fmt::format("{}/{}/stat", proc, tid)));
  if (stat) return stat->start_time;
  return Fail(ErrorCode::kNotFound, fmt::format("there is no process or thread {}", tid));
}

}  // namespace weir::volume
