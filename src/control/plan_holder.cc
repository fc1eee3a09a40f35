#include "control/plan_holder.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "base/text.h"
#include "catalog/leaf_index.h"

namespace weir::control {
namespace {

bool SelectsTheSame(const catalog::Match& a, const catalog::Match& b) {
  return a.cgroup == b.cgroup && a.path == b.path && a.comm == b.comm && a.user == b.user &&
         a.uid == b.uid && a.pid == b.pid;
}

const catalog::Device* DeviceOf(const catalog::Config& config, const std::string& name) {
  if (name.empty() && config.devices.size() == 1) return &config.devices.front();
  for (const catalog::Device& device : config.devices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

Result<void> CheckTarget(const Plan& plan, const catalog::Match& match) {
  if (match.group == catalog::kUnmatched) return {};
  const Result<int> leaf = plan.FindLeaf(match.group);
  if (!leaf) return tl::unexpected(leaf.error());
  return {};
}

// Attached matches whose group is no longer there.
void DropLostMatches(Plan* plan) {
  std::erase_if(plan->state.attached, [&](const catalog::Match& match) {
    if (CheckTarget(*plan, match)) return false;
    plan->warnings.push_back(fmt::format("{} is no longer attached: {} is gone",
                                         catalog::DescribeMatch(match), Quote(match.group)));
    return true;
  });
}

// What of the device cannot change while it runs.
void WarnOfDevice(const catalog::Device& from, const catalog::Device& to, Plan* next) {
  if (from.path != to.path || from.profile != to.profile) {
    next->warnings.push_back(fmt::format(
        "device {}: another path or profile takes effect at the next start", Quote(to.name)));
  }
  if (from.fixed_depth > 0 && to.fixed_depth == 0) {
    next->warnings.push_back(
        fmt::format("device {}: depth = \"auto\" takes effect at the next start", Quote(to.name)));
  }
}

}  // namespace

Result<int> Plan::FindLeaf(std::string_view target) const {
  return catalog::LeafIndex(nodes).Find(target);
}

Result<std::unique_ptr<PlanHolder>> PlanHolder::Create(Engine* engine, PlanState state,
                                                       PlanOptions options) {
  std::unique_ptr<PlanHolder> holder(new PlanHolder(engine, std::move(options)));
  Result<catalog::Config> config = ConfigOf(state);
  if (!config) return tl::unexpected(std::move(config.error()));
  Plan first;
  first.warnings = config->warnings;
  first.config = std::move(*config);
  first.state = std::move(state);
  const std::lock_guard lock(holder->changing_);
  Result<PlanChange> made = holder->Change(std::move(first), false);
  if (!made) return tl::unexpected(std::move(made.error()));
  return holder;
}

std::shared_ptr<const Plan> PlanHolder::Current() const {
  const std::lock_guard lock(current_lock_);
  return current_;
}

Result<PlanChange> PlanHolder::Apply(std::string_view toml, const std::string& file, bool dry_run) {
  Result<catalog::Config> config = catalog::ParseConfig(toml, file);
  if (!config) return tl::unexpected(std::move(config.error()));
  const std::lock_guard lock(changing_);
  Plan next;
  next.state.file = file;
  next.state.toml = toml;
  next.state.attached = current_->attached();
  next.warnings = config->warnings;
  next.config = std::move(*config);
  return Change(std::move(next), dry_run);
}

Result<PlanChange> PlanHolder::Set(std::string_view target,
                                   const std::vector<std::pair<std::string, std::string>>& values,
                                   bool dry_run) {
  const std::lock_guard lock(changing_);
  Plan next;
  next.config = current_->config;
  next.state = current_->state;
  if (Result<void> done = catalog::ApplyChanges(&next.config, target, values); !done) {
    return tl::unexpected(std::move(done.error()));
  }
  next.state.Add(target, values);
  return Change(std::move(next), dry_run);
}

Result<PlanChange> PlanHolder::Attach(catalog::Match match) {
  const std::lock_guard lock(changing_);
  if (const std::string why = catalog::WhyNoMatch(match); !why.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "attach: " + why);
  }
  if (Result<void> known = CheckTarget(*current_, match); !known) {
    return Fail(known.error().code,
                fmt::format("attach {}: {}", catalog::DescribeMatch(match), known.error().message));
  }
  Plan next;
  next.config = current_->config;
  next.state = current_->state;
  std::erase_if(next.state.attached,
                [&](const catalog::Match& other) { return SelectsTheSame(other, match); });
  if (next.state.attached.size() >= kMaxAttached) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("attach {}: at most {} matches can be attached; detach some, or write "
                            "[[match]] with a pattern",
                            catalog::DescribeMatch(match), kMaxAttached));
  }
  const std::string line =
      fmt::format("attach {} to {}", catalog::DescribeMatch(match), match.group);
  next.state.attached.insert(next.state.attached.begin(), std::move(match));
  Result<PlanChange> made = Change(std::move(next), false);
  if (made) made->summary.push_back(line);
  return made;
}

Result<PlanChange> PlanHolder::Detach(const catalog::Match& match) {
  const std::lock_guard lock(changing_);
  Plan next;
  next.config = current_->config;
  next.state = current_->state;
  const size_t gone = std::erase_if(next.state.attached, [&](const catalog::Match& other) {
    return SelectsTheSame(other, match);
  });
  if (gone == 0) {
    std::vector<std::string> known;
    for (const catalog::Match& other : current_->attached()) {
      known.push_back(catalog::DescribeMatch(other));
    }
    return Fail(ErrorCode::kNotFound, fmt::format("detach {}: it is not attached; attached: {}",
                                                  catalog::DescribeMatch(match),
                                                  known.empty() ? "nothing" : JoinNames(known)));
  }
  Result<PlanChange> made = Change(std::move(next), false);
  if (made) made->summary.push_back("detach " + catalog::DescribeMatch(match));
  return made;
}

Result<PlanChange> PlanHolder::Change(Plan next, bool dry_run) {
  static const Plan kEmpty;
  const Plan& before = current_ == nullptr ? kEmpty : *current_;
  next.version = before.version + 1;
  next.device = options_.device;
  Result<std::vector<catalog::TreeNode>> nodes =
      catalog::Resolve(next.config, options_.device, options_.capacity, &next.warnings);
  if (!nodes) return tl::unexpected(std::move(nodes.error()));
  next.nodes = std::move(*nodes);
  next.unmatched = WithUnmatched(&next.nodes);
  if (!options_.default_group.empty()) {
    const Result<int> leaf = next.FindLeaf(options_.default_group);
    if (!leaf) return Fail(leaf.error().code, "default group: " + leaf.error().message);
    next.unmatched = *leaf;
  }
  DropLostMatches(&next);
  if (options_.observer != nullptr) {
    if (Result<void> able = options_.observer->Prepare(next); !able) {
      return tl::unexpected(std::move(able.error()));
    }
  }
  const catalog::Device* from = DeviceOf(before.config, options_.device);
  const catalog::Device* to = DeviceOf(next.config, options_.device);
  if (from != nullptr && to != nullptr) WarnOfDevice(*from, *to, &next);
  PlanDiff diff = Diff(before.nodes, before.groups, next.nodes, engine_->RootGroup());
  PlanChange made;
  made.summary = std::move(diff.summary);
  made.version = dry_run ? before.version : next.version;
  made.warnings = next.warnings;
  if (dry_run) return made;
  const int64_t capacity = to == nullptr ? 0 : to->capacity;
  const int64_t depth = to == nullptr ? 0 : to->fixed_depth;
  const bool new_capacity = from != nullptr && capacity > 0 && capacity != from->capacity;
  const bool new_depth = from != nullptr && depth > 0 && depth != from->fixed_depth;
  if (Result<void> done = Install(std::make_shared<Plan>(std::move(next)), diff); !done) {
    return tl::unexpected(std::move(done.error()));
  }
  if (new_capacity) engine_->SetCapacity(capacity);
  if (new_depth) engine_->SetDepth(depth);
  return made;
}

Result<void> PlanHolder::Install(std::shared_ptr<Plan> next, const PlanDiff& diff) {
  const auto done = std::make_shared<std::promise<Result<void>>>();
  std::future<Result<void>> result = done->get_future();
  // The caller waits, so that `diff` and `this` outlive the work; if the engine drops the work
  // instead of doing it, the promise goes with it.
  const Result<void> posted = engine_->Post([this, next, &diff, done] {
    Result<std::vector<core::GroupId>> groups = engine_->Apply(diff.changes);
    if (!groups) {
      done->set_value(tl::unexpected(std::move(groups.error())));
      return;
    }
    for (const NodePlace& place : diff.places) {
      next->groups.push_back(place.change < 0 ? place.group
                                              : (*groups)[static_cast<size_t>(place.change)]);
    }
    const std::shared_ptr<const Plan> plan = next;
    if (options_.observer != nullptr) options_.observer->Install(plan);
    {
      const std::lock_guard lock(current_lock_);
      current_ = plan;
    }
    done->set_value({});
  });
  if (!posted) return tl::unexpected(posted.error());
  try {
    return result.get();
  } catch (const std::future_error&) {
    return Fail(ErrorCode::kFailedPrecondition, "the engine stopped before the plan was changed");
  }
}

}  // namespace weir::control
