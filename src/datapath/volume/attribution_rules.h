// The matches of a plan, ready to be asked: thread, user and path -> leaf.
//
// PURE once compiled (the look-up of user names is given). Immutable, so any thread may use it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "catalog/config.h"
#include "datapath/volume/attribution_facts.h"

namespace weir::volume {

class RuleSet {
 public:
  // Errors: kNotFound: no such user.
  using UserLookup = std::function<Result<uint32_t>(const std::string& name)>;

  // `attached` come before `matches`. `nodes` is the tree of the volume's device, `unmatched` the
  // leaf of what no match names. Matches for units of other devices do not count here. Errors:
  // those of `users`, with the match.
  [[nodiscard]] static Result<std::shared_ptr<const RuleSet>> Compile(
      const std::vector<catalog::Match>& attached, const std::vector<catalog::Match>& matches,
      const std::vector<catalog::TreeNode>& nodes, int unmatched, const UserLookup& users);

  // The rules that fit all but for the path, in order, up to the first without a path. Few.
  [[nodiscard]] std::vector<int> Candidates(const ThreadFacts& facts, uint32_t uid) const;
  // The leaf (index into nodes) of the first candidate that fits `path`; nullptr: it has none.
  [[nodiscard]] int Choose(const std::vector<int>& candidates, const std::string* path) const;
  // True if the choice depends on the path.
  [[nodiscard]] bool NeedPath(const std::vector<int>& candidates) const;

  // The leaf of GroupToken(path); -1: none.
  [[nodiscard]] int LeafOfToken(uint64_t token) const;
  [[nodiscard]] uint64_t TokenOfLeaf(int leaf) const { return tokens_[static_cast<size_t>(leaf)]; }

  [[nodiscard]] FactsWanted wanted() const { return wanted_; }
  [[nodiscard]] int unmatched() const { return unmatched_; }
  [[nodiscard]] size_t size() const { return rules_.size(); }

 private:
  struct Rule {
    catalog::Match match;
    int leaf = 0;
  };
  [[nodiscard]] Result<void> Add(const catalog::Match& match, int leaf, const UserLookup& users);

  std::vector<Rule> rules_;
  FactsWanted wanted_;
  int unmatched_ = 0;
  std::vector<uint64_t> tokens_;  // of the nodes
  std::unordered_map<uint64_t, int> by_token_;
};

// By getpwnam_r(3). May ask a directory service: not for the owner thread.
[[nodiscard]] Result<uint32_t> LookUpUser(const std::string& name);

}  // namespace weir::volume
