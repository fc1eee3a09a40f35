// Goal: a plan on a real engine is applied as a whole or not at all; what is queued survives; the
// observer sees every plan on the owner thread. Method: a real engine and a real file.
#include "control/plan_holder.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "control/random_config.h"

namespace weir::control {
namespace {

constexpr char kGood[] = R"(
[[unit]]
name = "tp_unit"
min_iops = 1000
max_iops = 20000
plan = "htap"
[[unit]]
name = "reports"
[[plan]]
name = "htap"
[[plan.directive]]
group = "oltp"
min_iops = 60
[[plan.directive]]
group = "olap"
max_iops = 50
[[group]]
name = "oltp"
[[group]]
name = "olap"
)";

class Recorder : public PlanObserver {
 public:
  Result<void> Prepare(const Plan& next) override {
    prepared = next.version;
    if (refuse) return Fail(ErrorCode::kNotFound, "refused by the observer");
    return {};
  }
  void Install(const std::shared_ptr<const Plan>& plan) override {
    installed = plan->version;
    thread = std::this_thread::get_id();
  }
  std::atomic<bool> refuse{false};
  std::atomic<uint64_t> prepared{0}, installed{0};
  std::thread::id thread;
};

PlanState StateOf(const std::string& toml) {
  PlanState state;
  state.file = "weir.toml";
  state.toml = toml;
  return state;
}

class PlanHolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engine = Engine::Create({});
    ASSERT_TRUE(engine.has_value()) << engine.error().message;
    engine_ = std::move(*engine);
    auto holder = PlanHolder::Create(engine_.get(), StateOf(kGood), {.observer = &recorder_});
    ASSERT_TRUE(holder.has_value()) << holder.error().message;
    holder_ = std::move(*holder);
  }

  core::GroupId Group(const std::string& path) {
    const auto plan = holder_->Current();
    for (size_t i = 0; i < plan->nodes.size(); ++i) {
      if (plan->nodes[i].path == path) return plan->groups[i];
    }
    return {};
  }
  ResourceParams Params(const std::string& path) {
    return engine_->Params(Group(path)).value_or(ResourceParams{});
  }
  void ExpectEngineHasThePlan() {
    const auto plan = holder_->Current();
    for (size_t i = 0; i < plan->nodes.size(); ++i) {
      EXPECT_EQ(engine_->Params(plan->groups[i]).value_or(ResourceParams{}), plan->nodes[i].params)
          << plan->nodes[i].path;
    }
  }

  Recorder recorder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<PlanHolder> holder_;
};

TEST_F(PlanHolderTest, TheFirstPlanIsInTheEngineWithUnmatched) {
  const auto plan = holder_->Current();
  EXPECT_EQ(plan->version, 1u);
  ExpectEngineHasThePlan();
  EXPECT_EQ(Params("tp_unit/oltp").MinOf(Dimension::kNorm), 600 * kOp);
  EXPECT_EQ(plan->nodes[static_cast<size_t>(plan->unmatched)].path, "unmatched");
  EXPECT_EQ(Params("unmatched").weight, 100);
  EXPECT_EQ(recorder_.installed, 1u);
  EXPECT_NE(recorder_.thread, std::this_thread::get_id());
}

TEST_F(PlanHolderTest, SetChangesTheEngineAndSaysWhat) {
  const core::GroupId before = Group("tp_unit/oltp");
  const auto done = holder_->Set("tp_unit", {{"max_iops", "40000"}, {"min_iops", "2000"}});
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_EQ(done->version, 2u);
  ASSERT_EQ(done->summary.size(), 3u);
  EXPECT_EQ(done->summary[0],
            "change tp_unit: min_iops 1,000/s -> 2,000/s, max_iops 20,000/s -> 40,000/s");
  EXPECT_EQ(Params("tp_unit").MaxOf(Dimension::kNorm, Scope::kBoth), 40'000 * kOp);
  EXPECT_EQ(Params("tp_unit/olap").MaxOf(Dimension::kNorm, Scope::kBoth), 20'000 * kOp);
  EXPECT_EQ(Group("tp_unit/oltp"), before);
  EXPECT_EQ(recorder_.installed, 2u);
}

TEST_F(PlanHolderTest, AnErrorLeavesTheOldPlanWhole) {
  const auto before = holder_->Current();
  EXPECT_FALSE(holder_->Set("tp_unit", {{"min_iops", "30000"}}).has_value());
  EXPECT_FALSE(holder_->Set("tp_unitt", {{"min_iops", "30"}}).has_value());
  EXPECT_FALSE(holder_->Set("tp_unit/olap", {{"max_iops", "0"}}).has_value());
  recorder_.refuse = true;
  const auto refused = holder_->Apply("[[unit]]\nname=\"x\"\n", "weir.toml");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "refused by the observer");
  EXPECT_EQ(holder_->Current(), before);
  EXPECT_EQ(recorder_.installed, 1u);
  ExpectEngineHasThePlan();
}

TEST_F(PlanHolderTest, ADryRunChecksAndChangesNothing) {
  const auto before = holder_->Current();
  const auto would = holder_->Apply("[[unit]]\nname=\"reports\"\nmax_iops=5\n", "weir.toml", true);
  ASSERT_TRUE(would.has_value());
  EXPECT_EQ(would->version, 1u);
  EXPECT_EQ(would->summary.front(), "change reports: max_iops unlimited -> 5/s");
  EXPECT_EQ(would->summary.back(), "remove tp_unit");
  EXPECT_FALSE(holder_->Set("tp_unit", {{"min_iops", "30000"}}, true).has_value());
  EXPECT_EQ(holder_->Current(), before);
}

TEST_F(PlanHolderTest, RandomPlansOneAfterTheOtherAreWhatTheEngineHas) {
  Random random(11);
  for (int i = 0; i < 100; ++i) {
    const auto done = holder_->Apply(ToToml(RandomConfig(&random)), "random.toml");
    ASSERT_TRUE(done.has_value()) << i << ": " << done.error().message;
    ExpectEngineHasThePlan();
    if (HasFailure()) return;
  }
}

TEST_F(PlanHolderTest, WhatIsQueuedInAGroupThatGoesIsServedElsewhere) {
  ASSERT_TRUE(holder_->Set("reports", {{"max_iops", "1"}, {"burst", "0s"}}).has_value());
  const std::string path = ::testing::TempDir() + "/plan_holder_test";
  auto file = engine_->Open(path, O_RDWR | O_CREAT | O_TRUNC);
  ASSERT_TRUE(file.has_value());
  ::unlink(path.c_str());
  static char data[4096];
  std::vector<std::future<IoResult>> results;
  for (int i = 0; i < 50; ++i) {
    results.push_back(
        engine_->SubmitFuture(IoRequest::Write(*file, Group("reports"), data, 4096, i * 4096)));
  }
  const core::GroupId reports = Group("reports");
  while (engine_->Stats(reports)->queued[1] < 40) std::this_thread::yield();
  // A plan for the unit keeps its limit over what is queued; without the unit it is served at once.
  ASSERT_TRUE(holder_
                  ->Apply("[[unit]]\nname=\"reports\"\nmax_iops=1\nplan=\"p\"\n"
                          "[[plan]]\nname=\"p\"\n[[plan.directive]]\ngroup=\"a\"\n"
                          "[[group]]\nname=\"a\"\n",
                          "weir.toml")
                  .has_value());
  EXPECT_EQ(Group("reports/OTHER_GROUPS"), reports);
  EXPECT_GE(engine_->Stats(reports)->queued[1], 30u);
  ASSERT_TRUE(holder_->Apply("[[unit]]\nname=\"other\"\n", "weir.toml").has_value());
  for (auto& result : results) {
    const IoResult io = result.get();
    EXPECT_TRUE(io.ok()) << io.error().message;
  }
}

catalog::Match ByUid(int64_t uid, const std::string& group) {
  catalog::Match match;
  match.uid = uid;
  match.group = group;
  return match;
}

TEST_F(PlanHolderTest, AttachedMatchesComeFirstNewestBeforeOlderAndReplaceTheirLike) {
  ASSERT_TRUE(holder_->Attach(ByUid(1, "reports")).has_value());
  ASSERT_TRUE(holder_->Attach(ByUid(2, "tp_unit/oltp")).has_value());
  ASSERT_TRUE(holder_->Attach(ByUid(1, "tp_unit")).has_value());
  const auto plan = holder_->Current();
  ASSERT_EQ(plan->attached().size(), 2u);
  EXPECT_EQ(plan->attached()[0].group, "tp_unit");
  EXPECT_EQ(plan->attached()[1].uid, 2);

  const auto wrong = holder_->Attach(ByUid(3, "tp_unit/oltpp"));
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().message,
            "attach uid 3: there is no unit or group \"tp_unit/oltpp\"; did you mean "
            "\"tp_unit/oltp\"?");
  const auto unknown = holder_->Detach(ByUid(9, ""));
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().message, "detach uid 9: it is not attached; attached: uid 1, uid 2");
  EXPECT_TRUE(holder_->Detach(ByUid(1, "")).has_value());

  const auto applied = holder_->Apply("[[unit]]\nname=\"reports\"\n", "weir.toml");
  ASSERT_TRUE(applied.has_value());
  ASSERT_EQ(applied->warnings.size(), 1u);
  EXPECT_EQ(applied->warnings[0], "uid 2 is no longer attached: \"tp_unit/oltp\" is gone");
  EXPECT_TRUE(holder_->Current()->attached().empty());
}

TEST_F(PlanHolderTest, TheMaximumOfAttachedMatchesIsNamed) {
  for (size_t i = 0; i < kMaxAttached; ++i) {
    ASSERT_TRUE(holder_->Attach(ByUid(static_cast<int64_t>(i), "reports")).has_value());
  }
  const auto more = holder_->Attach(ByUid(99'999, "reports"));
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(PlanHolderTest, ASuccessorStartsFromTheStateWithAllThatWasSet) {
  ASSERT_TRUE(holder_->Set("tp_unit", {{"min_iops", "19000"}}).has_value());
  ASSERT_TRUE(holder_->Set("tp_unit", {{"max_iops", "50000"}}).has_value());
  ASSERT_TRUE(holder_->Set("tp_unit", {{"min_iops", "40000"}}).has_value());
  ASSERT_TRUE(holder_->Set("tp_unit/olap", {{"max_iops", "10"}}).has_value());
  ASSERT_TRUE(holder_->Attach(ByUid(1, "reports")).has_value());
  const auto before = holder_->Current();
  auto state = ParsePlanState(PlanStateJson(before->state));
  ASSERT_TRUE(state.has_value()) << state.error().message;
  auto engine = Engine::Create({});
  ASSERT_TRUE(engine.has_value());
  auto successor = PlanHolder::Create(engine->get(), *state, {});
  ASSERT_TRUE(successor.has_value()) << successor.error().message;
  const auto after = (*successor)->Current();
  ASSERT_EQ(after->nodes.size(), before->nodes.size());
  for (size_t i = 0; i < after->nodes.size(); ++i) {
    EXPECT_EQ(after->nodes[i].path, before->nodes[i].path);
    EXPECT_EQ(after->nodes[i].params, before->nodes[i].params) << after->nodes[i].path;
  }
  EXPECT_EQ(after->attached().at(0).uid, 1);
  const std::string json = PlanStateJson(before->state);
  for (size_t n = 0; n < json.size(); ++n) EXPECT_FALSE(ParsePlanState(json.substr(0, n)));
}

TEST_F(PlanHolderTest, TheDefaultGroupMustBeInEveryPlan) {
  auto engine = Engine::Create({});
  ASSERT_TRUE(engine.has_value());
  PlanOptions options;
  options.default_group = "tp_unit/olap";
  auto holder = PlanHolder::Create(engine->get(), StateOf(kGood), options);
  ASSERT_TRUE(holder.has_value());
  const auto plan = (*holder)->Current();
  EXPECT_EQ(plan->nodes[static_cast<size_t>(plan->unmatched)].path, "tp_unit/olap");
  const auto without = (*holder)->Apply("[[unit]]\nname=\"x\"\n", "weir.toml");
  ASSERT_FALSE(without.has_value());
  EXPECT_EQ(without.error().message,
            "default group: there is no unit or group \"tp_unit/olap\"; known: x, unmatched");
}

TEST_F(PlanHolderTest, AStoppedEngineRefusesChanges) {
  ASSERT_TRUE(engine_->Stop(StopMode::kDrain).has_value());
  const auto refused = holder_->Set("tp_unit", {{"max_iops", "40000"}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace weir::control
