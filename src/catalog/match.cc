// What a [[match]] can be, alone.
#include <fmt/format.h>

#include "base/text.h"
#include "catalog/config.h"

namespace weir::catalog {
namespace {

constexpr size_t kMaxCommBytes = 15;  // the kernel keeps no more of a thread's name

std::string WhyNoPattern(std::string_view key, std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return fmt::format("{} = {}: a pattern has at most {} bytes", key, Quote(pattern),
                       kMaxPatternBytes);
  }
  if (pattern.find('\0') != std::string_view::npos) {
    return fmt::format("{} = {}: it cannot contain NUL", key, Quote(pattern));
  }
  return {};
}

std::string WhyNoPath(std::string_view path) {
  if (path.starts_with('/')) {
    return fmt::format("path = {}: it is relative to the volume; write it without the first '/'",
                       Quote(path));
  }
  if (path.ends_with('/')) {
    return fmt::format("path = {}: a directory is written without the last '/'", Quote(path));
  }
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    const bool empty = part.empty() && !path.empty();
    if (empty || part == "." || part == "..") {
      return fmt::format("path = {}: it can never match: write it without \"//\", \".\" and \"..\"",
                         Quote(path));
    }
    begin = end + 1;
  }
  return {};
}

std::string WhyNoCgroup(std::string_view cgroup) {
  if (cgroup.empty()) return {};
  if (!cgroup.starts_with('/') && !cgroup.starts_with('*')) {
    return fmt::format(
        "cgroup = {}: it begins with '/', as in /proc/PID/cgroup, without the place where the "
        "hierarchy is mounted",
        Quote(cgroup));
  }
  if (cgroup.size() > 1 && cgroup.ends_with('/')) {
    return fmt::format("cgroup = {}: write it without the last '/'", Quote(cgroup));
  }
  return {};
}

}  // namespace

std::string WhyNoMatch(const Match& match) {
  if (match.cgroup.empty() && match.path.empty() && match.comm.empty() && match.user.empty() &&
      match.uid < 0 && match.pid < 0) {
    return "nothing to match; add at least one of cgroup, uid, user, comm, pid, path";
  }
  for (const auto& [key, pattern] :
       {std::pair<std::string_view, std::string_view>("cgroup", match.cgroup),
        {"path", match.path},
        {"comm", match.comm},
        {"user", match.user}}) {
    if (std::string why = WhyNoPattern(key, pattern); !why.empty()) return why;
  }
  if (std::string why = WhyNoPath(match.path); !why.empty()) return why;
  if (std::string why = WhyNoCgroup(match.cgroup); !why.empty()) return why;
  if (match.comm.size() > kMaxCommBytes && match.comm.find('*') == std::string::npos) {
    return fmt::format(
        "comm = {}: it can never match: a thread's name has at most {} bytes; end "
        "it with '*'",
        Quote(match.comm), kMaxCommBytes);
  }
  if (match.uid >= 0 && !match.user.empty()) {
    return "uid and user say the same; write one of them";
  }
  return {};
}

std::string DescribeMatch(const Match& match) {
  std::string text;
  const auto add = [&](std::string_view key, std::string_view value) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", key, value);
  };
  if (!match.cgroup.empty()) add("cgroup", Printable(match.cgroup, 256));
  if (match.uid >= 0) add("uid", std::to_string(match.uid));
  if (!match.user.empty()) add("user", Printable(match.user, 64));
  if (!match.comm.empty()) add("comm", Printable(match.comm, 64));
  if (match.pid >= 0) add("pid", std::to_string(match.pid));
  if (!match.path.empty()) add("path", Printable(match.path, 256));
  return text;
}

}  // namespace weir::catalog
