#include "datapath/volume/attribution_rules.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "catalog/glob.h"
#include "catalog/leaf_index.h"
#include "datapath/volume/thread_table.h"

namespace weir::volume {
namespace {

bool Fits(const catalog::Match& match, const ThreadFacts& facts, uint32_t uid) {
  if (match.uid >= 0 && match.uid != static_cast<int64_t>(uid)) return false;
  if (match.pid >= 0) {
    const auto pid = static_cast<uint32_t>(match.pid);
    const bool is_process = facts.process == pid && facts.process != 0;
    if (!facts.alive || (!is_process && facts.tid != pid)) return false;
    const uint64_t started = is_process ? facts.process_start : facts.start_time;
    if (match.pid_start != 0 && match.pid_start != started) return false;
  }
  if (!match.comm.empty() && (!facts.alive || !catalog::GlobMatches(match.comm, facts.comm))) {
    return false;
  }
  if (match.cgroup.empty()) return true;
  return std::any_of(facts.cgroups.begin(), facts.cgroups.end(), [&](const std::string& path) {
    return catalog::GlobMatchesAtOrAbove(match.cgroup, path);
  });
}

}  // namespace

Result<void> RuleSet::Add(const catalog::Match& match, int leaf, const UserLookup& users) {
  Rule rule{match, leaf};
  if (!match.user.empty()) {
    const Result<uint32_t> uid = users(match.user);
    if (!uid) {
      return Fail(uid.error().code,
                  fmt::format("match of {} to {}: {}", catalog::DescribeMatch(match),
                              Quote(match.group), uid.error().message));
    }
    rule.match.uid = *uid;
  }
  wanted_.cgroup = wanted_.cgroup || !match.cgroup.empty();
  wanted_.process = wanted_.process || match.pid >= 0;
  rules_.push_back(std::move(rule));
  return {};
}

Result<std::shared_ptr<const RuleSet>> RuleSet::Compile(const std::vector<catalog::Match>& attached,
                                                        const std::vector<catalog::Match>& matches,
                                                        const std::vector<catalog::TreeNode>& nodes,
                                                        int unmatched, const UserLookup& users) {
  auto rules = std::make_shared<RuleSet>();
  rules->unmatched_ = unmatched;
  const catalog::LeafIndex leaves(nodes);
  for (const std::vector<catalog::Match>* list : {&attached, &matches}) {
    for (const catalog::Match& match : *list) {
      const Result<int> leaf =
          match.group == catalog::kUnmatched ? Result<int>(unmatched) : leaves.Find(match.group);
      if (!leaf) continue;  // of another device; the catalog has checked that it is somewhere
      if (Result<void> added = rules->Add(match, *leaf, users); !added) {
        return tl::unexpected(std::move(added.error()));
      }
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    rules->tokens_.push_back(GroupToken(nodes[i].path));
    if (nodes[i].leaf) rules->by_token_.emplace(rules->tokens_.back(), static_cast<int>(i));
  }
  return std::shared_ptr<const RuleSet>(std::move(rules));
}

std::vector<int> RuleSet::Candidates(const ThreadFacts& facts, uint32_t uid) const {
  std::vector<int> candidates;
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (!Fits(rules_[i].match, facts, uid)) continue;
    candidates.push_back(static_cast<int>(i));
    if (rules_[i].match.path.empty()) break;
  }
  return candidates;
}

int RuleSet::Choose(const std::vector<int>& candidates, const std::string* path) const {
  for (const int i : candidates) {
    const Rule& rule = rules_[static_cast<size_t>(i)];
    if (rule.match.path.empty() ||
        (path != nullptr && catalog::GlobMatchesAtOrAbove(rule.match.path, *path))) {
      return rule.leaf;
    }
  }
  return unmatched_;
}

bool RuleSet::NeedPath(const std::vector<int>& candidates) const {
  return !candidates.empty() && !rules_[static_cast<size_t>(candidates.front())].match.path.empty();
}

int RuleSet::LeafOfToken(uint64_t token) const {
  const auto found = by_token_.find(token);
  return found == by_token_.end() ? -1 : found->second;
}

Result<uint32_t> LookUpUser(const std::string& name) {
  passwd entry = {};
  passwd* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  const int error = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr) return entry.pw_uid;
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no user {}{}; create it, or write uid", Quote(name),
                          error != 0 ? " (or the user database cannot be read)" : ""));
}

}  // namespace weir::volume
