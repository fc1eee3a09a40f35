#include "app/volume_control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "app/files.h"
#include "base/group_token.h"
#include "control/client.h"

namespace weir::app {
namespace {

constexpr size_t kMostPrefixBytes = 90;  // a socket's path has at most 107 bytes

// Answers like the engine's handler, and saves the plan after whatever changed it.
class SavingHandler final : public control::Handler {
 public:
  SavingHandler(std::unique_ptr<control::Handler> inner, control::PlanHolder* plans,
                std::function<void(const control::Plan&)> save)
      : inner_(std::move(inner)), plans_(plans), save_(std::move(save)) {}
  Result<std::string> Handle(const control::Request& request) override {
    Result<std::string> answer = inner_->Handle(request);
    const std::shared_ptr<const control::Plan> plan = plans_->Current();
    if (plan->version != saved_) save_(*plan);
    saved_ = plan->version;
    return answer;
  }

 private:
  const std::unique_ptr<control::Handler> inner_;
  control::PlanHolder* const plans_;
  const std::function<void(const control::Plan&)> save_;
  uint64_t saved_ = 1;
};

std::string OwnerLine(int64_t owner) { return fmt::format("{}\n", owner); }

// What a daemon of the same owner saved; nothing if there is none.
std::optional<control::PlanState> SavedState(const std::string& path, int64_t owner) {
  const Result<std::string> text = ReadTextFile(path);
  const std::string line = OwnerLine(owner);
  if (!text || !text->starts_with(line)) return std::nullopt;
  Result<control::PlanState> state =
      control::ParsePlanState(std::string_view(*text).substr(line.size()));
  if (!state) return std::nullopt;
  return std::move(*state);
}

// Whole or not at all, for the owner only.
bool WriteState(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  ::close(fd);
  return done == text.size() && ::rename(temporary.c_str(), path.c_str()) == 0;
}

}  // namespace

std::string ControlPrefix(const std::string& mountpoint) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(mountpoint, error);
  std::string name;
  for (const char c : (error ? mountpoint : whole.lexically_normal().string())) {
    if (c != '/') {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (name.ends_with('-')) name.pop_back();
  const std::string prefix = std::string(control::kSocketDirectory) + "/";
  if (name.empty()) name = "root";
  if (prefix.size() + name.size() > kMostPrefixBytes) {
    const uint64_t hash = GroupToken(name);
    name = name.substr(0, kMostPrefixBytes - prefix.size() - 17) + fmt::format("-{:016x}", hash);
  }
  return prefix + name;
}

void RemoveControlFiles(const std::string& prefix) {
  for (const char* end : {".sock", ".plan"}) ::unlink((prefix + end).c_str());
  // Its lock says that nobody writes it.
  const std::string table = prefix + ".threads";
  if (volume::ThreadTableWriter::Open(table)) ::unlink(table.c_str());
}

VolumeControl::VolumeControl(Engine* engine, const VolumeControlOptions& options)
    : engine_(engine), options_(options) {}

VolumeControl::~VolumeControl() {
  server_.reset();
  plans_.reset();
}

Result<std::unique_ptr<VolumeControl>> VolumeControl::Create(Engine* engine,
                                                             const VolumeControlOptions& options) {
  std::unique_ptr<VolumeControl> control(new VolumeControl(engine, options));
  if (Result<void> started = control->Start(); !started) {
    return tl::unexpected(std::move(started.error()));
  }
  return control;
}

Result<void> VolumeControl::Start() {
  if (!options_.prefix.empty()) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(options_.prefix).parent_path(),
                                        error);
    auto table = volume::ThreadTableReader::Open(options_.prefix + ".threads");
    if (!table) return tl::unexpected(std::move(table.error()));
    table_ = std::make_unique<volume::ThreadTableReader>(std::move(*table));
  }
  volume::AttributionOptions rules;
  rules.paths = this;
  rules.table = table_.get();
  rules_ = std::make_unique<volume::RuleAttribution>(rules);
  if (Result<void> plan = StartPlan(); !plan) return plan;
  if (options_.prefix.empty()) return {};
  control::EngineHandlerOptions handler;
  handler.version = options_.version;
  handler.more_stats = [this] { return AttributionJson(); };
  handler.start_time = [](uint32_t pid) { return volume::StartTimeOf(pid); };
  handler_ = std::make_unique<SavingHandler>(
      std::make_unique<control::EngineHandler>(engine_, plans_.get(), handler), plans_.get(),
      [this](const control::Plan& plan) { Save(plan); });
  auto server = control::Server::Start({options_.prefix + ".sock", handler_.get(), true});
  if (!server) return tl::unexpected(std::move(server.error()));
  server_ = std::move(*server);
  return {};
}

Result<void> VolumeControl::StartPlan() {
  control::PlanOptions options;
  options.device = options_.device;
  options.capacity = options_.capacity;
  options.default_group = options_.default_group;
  options.observer = this;
  if (!options_.prefix.empty()) {
    if (auto saved = SavedState(options_.prefix + ".plan", options_.owner)) {
      auto plans = control::PlanHolder::Create(engine_, std::move(*saved), options);
      if (plans) {
        plans_ = std::move(*plans);
        return {};
      }
      fmt::print(stderr, "weir volume: what was changed since the start is lost: {}\n",
                 plans.error().message);
    }
  }
  auto plans = control::PlanHolder::Create(engine_, options_.state, options);
  if (!plans) return tl::unexpected(std::move(plans.error()));
  plans_ = std::move(*plans);
  if (!options_.prefix.empty()) ::unlink((options_.prefix + ".plan").c_str());
  return {};
}

void VolumeControl::Save(const control::Plan& plan) const {
  if (WriteState(options_.prefix + ".plan",
                 OwnerLine(options_.owner) + control::PlanStateJson(plan.state))) {
    return;
  }
  fmt::print(stderr,
             "weir volume: {}.plan cannot be written; a daemon that takes over will not know what "
             "was changed\n",
             options_.prefix);
}

Result<void> VolumeControl::Prepare(const control::Plan& next) {
  auto rules = volume::RuleSet::Compile(next.attached(), next.config.matches, next.nodes,
                                        next.unmatched, volume::LookUpUser);
  if (!rules) return tl::unexpected(std::move(rules.error()));
  prepared_ = std::move(*rules);
  return {};
}

void VolumeControl::Install(const std::shared_ptr<const control::Plan>& plan) {
  rules_->Install(prepared_, plan->groups);
}

bool VolumeControl::PathOf(uint64_t node, std::string* path) {
  return paths_ != nullptr && paths_->PathOf(node, path);
}

std::string VolumeControl::AttributionJson() {
  const auto done = std::make_shared<std::promise<volume::AttributionStats>>();
  std::future<volume::AttributionStats> future = done->get_future();
  if (!engine_->Post([this, done] { done->set_value(rules_->stats()); })) return "";
  volume::AttributionStats stats;
  try {
    stats = future.get();
  } catch (const std::future_error&) {
    return "";
  }
  return fmt::format(
      "\"threads\":{},\"thread_lookups\":{},\"thread_lookup_us\":{},\"thread_changes\":{},"
      "\"thread_evictions\":{},\"by_thread_table\":{},\"unmatched\":{},\"by_kernel\":{}",
      stats.threads, stats.lookups, stats.lookup_ns / 1000, stats.changes, stats.evictions,
      stats.by_table, stats.unmatched, stats.by_kernel);
}

}  // namespace weir::app
