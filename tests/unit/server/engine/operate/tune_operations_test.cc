// SPDX-License-Identifier: MIT
// Tuning operations over real schedules and a fake tuner: their course, budgets, watchers, owners,
// limits, and what the next daemon of the data folder makes of them.
#include "server/engine/operate/tune_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <set>
#include <thread>
#include <utility>

#include "core/base/text.h"
#include "tests/support/eventually.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using std::chrono::milliseconds;
using test::Eventually;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

size_t KernelsIn(const TuneState& state, KernelPhase phase) {
  return static_cast<size_t>(std::ranges::count(state.kernels, phase, &TunedKernelState::phase));
}

// Tries some candidates, each faster than the one before. The heuristic's choice takes 8 us.
class OperationsTuner final : public KernelTuner {
 public:
  std::string Environment(const devices::Device&, const CompileOptions& options) const override {
    return Cat("beam=", options.beam);
  }
  absl::StatusOr<TuningRecord> Tune(std::string_view graph, const devices::Device&,
                                    const CompileOptions&, const SearchControl& control) override {
    {
      MutexLock lock(mu_);
      limits.push_back(control.limits);
      graphs.emplace_back(graph);
    }
    ++calls;
    search::Trial trial;
    const int n = std::min(candidates.load(), control.limits.candidates);
    for (int i = 0; i < n; ++i) {
      trial.outcome = i == 1 ? search::Trial::kFailed : search::Trial::kMeasured;
      trial.seconds = 8e-6 / (i + 1);
      trial.opts = {{codegen::OptKind::kUpcast, 0, i + 1}};
      if (control.progress) control.progress(trial);
      if (i == 1 && on_tune) UOPD_TRY(on_tune(control));
      // What was left out first is measured later, all but two.
      if (control.left_out) control.left_out(static_cast<uint64_t>(n - i + 1), 3);
    }
    return TuningRecord{.opts = {{codegen::OptKind::kUpcast, 0, 4}},
                        .seconds = 2e-6,
                        .heuristic_seconds = 8e-6,
                        .measured = n - 1,
                        .failed = 1};
  }
  absl::StatusOr<TuningRecord> Prove(std::string_view, const devices::Device&,
                                     const CompileOptions&, const Opts&,
                                     const WorkLimits&) override {
    return absl::UnimplementedError("nothing is imported here");
  }

  std::string Unready() const override { return away ? "it was killed" : ""; }

  std::atomic<int> calls{0}, candidates{5};
  std::atomic<bool> away{false};                              // the workers
  std::function<absl::Status(const SearchControl&)> on_tune;  // in the middle of a search
  Mutex mu_;
  std::vector<SearchLimits> limits UOPD_GUARDED_BY(mu_);
  std::vector<std::string> graphs UOPD_GUARDED_BY(mu_);
};

// Holds searches until it is opened, or the search is cancelled.
class Gate {
 public:
  absl::Status Wait(const SearchControl& control) {
    ++waiting_;
    while (!open_) {
      if (control.work.IsCancelled()) return absl::CancelledError("cancelled");
      std::this_thread::sleep_for(milliseconds(1));
    }
    return absl::OkStatus();
  }
  void Open() { open_ = true; }
  bool AwaitSearch() {
    return Eventually([this] { return waiting_ > 0; });
  }

 private:
  std::atomic<bool> open_{false};
  std::atomic<int> waiting_{0};
};

// One daemon of a data folder.
struct OperationsDaemon {
  explicit OperationsDaemon(cache::Store& store, std::string name = "one",
                            TuneOperations::Options options = {}) {
    compiler.ns_per_element = 1000;
    CompileService::Options service_options;
    service_options.lease.owner = name;
    service_options.tuner = &tuner;
    service = std::make_unique<CompileService>(std::move(service_options), compiler, store, devices,
                                               pool);
    options.owner = name;
    options.look_every = milliseconds(5);
    options.write_every = milliseconds(1);
    operations = std::make_unique<TuneOperations>(options, *service, store);
  }
  ~OperationsDaemon() { End(); }
  void End() {
    if (operations != nullptr) operations->Stop();
    if (service != nullptr) service->StopTuning();
    operations.reset();
    service.reset();
  }
  absl::StatusOr<std::shared_ptr<TuneOperation>> Start(const std::string& graph, TuneWish wish = {},
                                                       const std::string& tenant = "") {
    RequestContext request;
    request.caller.tenant = tenant;
    wish.graph.bytes = graph;
    if (wish.options.beam == 0) wish.options.beam = 2;
    return operations->Start(request, wish);
  }

  FakeCompiler compiler;
  OperationsTuner tuner;
  DeviceSet devices{NullRegistry()};
  TaskPool pool{2, SIZE_MAX};
  std::unique_ptr<CompileService> service;
  std::unique_ptr<TuneOperations> operations;
};

class TuneOperationsTest : public ::testing::Test {
 protected:
  static Caller All() {
    Caller out;
    out.sees_all = true;
    return out;
  }
  static bool Becomes(const std::shared_ptr<TuneOperation>& op, TunePhase phase) {
    return Eventually([&] { return op->phase() == phase; });
  }
  // The operation of this id in a daemon, whichever object it is.
  static bool Becomes(OperationsDaemon& daemon, const std::string& id, TunePhase phase) {
    return Eventually([&] {
      const auto op = daemon.operations->Find(All(), id);
      return op.ok() && (*op)->phase() == phase;
    });
  }

  cache::Store store_{4 << 20};
  const std::string graph_ = ScaleGraphs({8, 64, 16});
};

TEST_F(TuneOperationsTest, TunesEveryKernelAndKeepsTheWinnersForRequests) {
  OperationsDaemon daemon(store_);
  const auto op = daemon.Start(graph_, {.title = "model"});
  ASSERT_TRUE(op.ok()) << op.status();
  ASSERT_TRUE(Becomes(*op, TunePhase::kDone));
  const TuneState state = (*op)->Copy();
  EXPECT_EQ(state.title, "model");
  EXPECT_EQ(state.candidates, 15u);
  EXPECT_GT(state.ended_us, 0);
  ASSERT_EQ(state.kernels.size(), 3u);
  std::vector<double> estimates;
  for (const TunedKernelState& k : state.kernels) {
    estimates.push_back(k.estimate_s);
    EXPECT_EQ(k.phase, KernelPhase::kTuned);
    EXPECT_EQ(k.opts, "[UPCAST(0, 4)]");
    EXPECT_EQ(k.best_s, 2e-6);
    EXPECT_EQ(k.heuristic_s, 8e-6);
    EXPECT_EQ(k.measured, 4u);
    EXPECT_EQ(k.failed, 1u);
    EXPECT_EQ(k.pruned, 2u);
    EXPECT_EQ(k.duplicates, 3u);
    EXPECT_EQ(k.points.size(), 4u);
    EXPECT_FALSE(k.limited);
  }
  EXPECT_EQ((*op)->Summary().pruned, 6u);
  EXPECT_EQ((*op)->Summary().duplicates, 9u);
  // The most expensive kernel comes first.
  EXPECT_THAT(estimates, ElementsAre(DoubleEq(64e-6), DoubleEq(16e-6), DoubleEq(8e-6)));
  // A request with this beam has nothing to tune and nothing to compile: its kernels are there.
  const int builds = daemon.compiler.builds;
  RequestContext request;
  const auto program = WaitForProgram(*daemon.service, request, {.bytes = graph_}, {.beam = 2});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ((*program)->Get()->tuned_kernels, 3u);
  EXPECT_EQ(request.cache.kernels_compiled, 0u);
  EXPECT_EQ(daemon.compiler.builds, builds);
  // The same once more finds everything.
  const auto again = daemon.Start(graph_);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->phase(), TunePhase::kDone);
  EXPECT_EQ(KernelsIn((*again)->Copy(), KernelPhase::kFound), 3u);
  EXPECT_EQ(daemon.tuner.calls, 3);
}

TEST_F(TuneOperationsTest, AWatcherGetsEverythingOnceHoweverSlowItIs) {
  Gate gate;
  OperationsDaemon daemon(store_);
  daemon.tuner.candidates = 40;
  daemon.tuner.on_tune = [&](const SearchControl& control) { return gate.Wait(control); };
  const auto op = daemon.Start(graph_);
  ASSERT_TRUE(op.ok()) << op.status();
  ASSERT_TRUE(gate.AwaitSearch());
  TuneCursor quick, slow;
  TuneChanges first = (*op)->Changes(quick);
  EXPECT_TRUE(first.any);
  EXPECT_FALSE(first.replan);
  EXPECT_EQ(first.kernels, 3u);
  ASSERT_EQ(first.changed.size(), 3u);
  EXPECT_EQ(first.changed[0].second.phase, KernelPhase::kSearching);
  EXPECT_EQ(first.changed[0].second.heuristic_s, 8e-6);
  EXPECT_EQ(first.changed[0].second.trying, "[UPCAST(0, 2)]");
  EXPECT_FALSE((*op)->Changes(quick).any) << "nothing happened since";
  std::map<size_t, std::vector<TunePoint>> points;
  points[0] = first.changed[0].second.points;
  gate.Open();
  for (bool over = false; !over;) {
    over = IsOver((*op)->phase());
    for (const auto& [i, kernel] : (*op)->Changes(quick).changed)
      points[i].insert(points[i].end(), kernel.points.begin(), kernel.points.end());
  }
  // All points, each once, in order; and the one who asks only now gets the same.
  const TuneChanges all = (*op)->Changes(slow);
  ASSERT_EQ(all.changed.size(), 3u);
  EXPECT_FALSE(all.more);
  for (const auto& [i, kernel] : all.changed) {
    EXPECT_EQ(kernel.points.size(), 39u);
    EXPECT_EQ(points[i], kernel.points);
  }
  EXPECT_EQ(all.counts[static_cast<size_t>(KernelPhase::kTuned)], 3u);
  EXPECT_FALSE((*op)->Changes(slow).any);
}

TEST_F(TuneOperationsTest, TheBudgetIsSharedByWhereTheTimeGoes) {
  OperationsDaemon daemon(store_);
  const auto op = daemon.Start(graph_, {.budget_ms = 88'000, .budget_candidates = 10'000'000'000});
  ASSERT_TRUE(op.ok()) << op.status();
  ASSERT_TRUE(Becomes(*op, TunePhase::kDone));
  MutexLock lock(daemon.tuner.mu_);
  ASSERT_EQ(daemon.tuner.limits.size(), 3u);
  // 64, 16 and 8 of 88 shares. What a search leaves goes to those behind it, by their shares, which
  // then are times that were measured or estimates.
  EXPECT_NEAR(static_cast<double>(daemon.tuner.limits[0].time.count()), 64'000, 2'000);
  EXPECT_NEAR(static_cast<double>(daemon.tuner.limits[1].time.count()), 88'000 * 2 / 3.0, 2'000);
  EXPECT_NEAR(static_cast<double>(daemon.tuner.limits[2].time.count()), 88'000, 2'000);
  EXPECT_GT(daemon.tuner.limits[0].candidates, 1'000'000);
}

TEST_F(TuneOperationsTest, WhatTheBudgetDoesNotReachIsSkippedAndCanBeResumed) {
  OperationsDaemon daemon(store_);
  const auto op = daemon.Start(graph_, {.budget_candidates = 7});
  ASSERT_TRUE(op.ok()) << op.status();
  ASSERT_TRUE(Becomes(*op, TunePhase::kDone));
  TuneState state = (*op)->Copy();
  EXPECT_LE(state.candidates, 7u);
  EXPECT_EQ(state.kernels[0].phase, KernelPhase::kTuned);
  EXPECT_TRUE(state.kernels[0].limited);
  const size_t skipped = KernelsIn(state, KernelPhase::kSkipped);
  ASSERT_GE(skipped, 1u);
  EXPECT_THAT(state.kernels[2].detail, HasSubstr("budget"));
  // Without more budget there is nothing to resume with.
  const Caller viewer;
  const auto refused = daemon.operations->Resume(viewer, (*op)->id(), 0, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  const auto resumed = daemon.operations->Resume(viewer, (*op)->id(), 0, 100);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  ASSERT_TRUE(Becomes(*resumed, TunePhase::kDone));
  state = (*resumed)->Copy();
  EXPECT_EQ(KernelsIn(state, KernelPhase::kTuned), 3u);
  EXPECT_EQ(daemon.tuner.calls, 3) << "what was tuned is not tuned again";
  EXPECT_TRUE(daemon.operations->IsReplaced(*op));
  // Now it has left nothing out.
  const auto done = daemon.operations->Resume(viewer, (*op)->id(), 0, 100);
  EXPECT_THAT(done.status().message(), HasSubstr("left no kernel out"));
}

TEST_F(TuneOperationsTest, ASearchThatTheBudgetCutsIsNoFailureOfTheKernel) {
  OperationsDaemon daemon(store_);
  daemon.tuner.on_tune = [](const SearchControl&) { return absl::DeadlineExceededError("late"); };
  const auto op = daemon.Start(ScaleGraphs({8}), {.budget_ms = 60'000});
  ASSERT_TRUE(op.ok()) << op.status();
  ASSERT_TRUE(Becomes(*op, TunePhase::kDone));
  EXPECT_EQ((*op)->Copy().kernels[0].phase, KernelPhase::kSkipped);
  // The kernel is tried again; without a budget its failure is its own, and is remembered.
  const auto other = daemon.Start(ScaleGraphs({8}));
  ASSERT_TRUE(Becomes(*other, TunePhase::kDone));
  EXPECT_EQ((*other)->Copy().kernels[0].phase, KernelPhase::kFailed);
  EXPECT_THAT((*other)->Copy().kernels[0].detail, HasSubstr("late"));
  EXPECT_EQ(daemon.tuner.calls, 2);
  const auto third = daemon.Start(ScaleGraphs({8}));
  ASSERT_TRUE(Becomes(*third, TunePhase::kDone));
  EXPECT_EQ((*third)->Copy().kernels[0].phase, KernelPhase::kFailed);
  EXPECT_EQ(daemon.tuner.calls, 2);
}

TEST_F(TuneOperationsTest, CancelEndsTheSearchAndResumeGoesOn) {
  Gate gate;
  OperationsDaemon daemon(store_);
  daemon.tuner.on_tune = [&](const SearchControl& control) { return gate.Wait(control); };
  const auto op = daemon.Start(graph_);
  ASSERT_TRUE(op.ok()) << op.status();
  ASSERT_TRUE(gate.AwaitSearch());
  const Caller viewer;
  const std::string id = (*op)->id();
  EXPECT_TRUE(absl::IsFailedPrecondition(daemon.operations->Resume(viewer, id, 0, 0).status()));
  ASSERT_TRUE(daemon.operations->Cancel(viewer, id.substr(0, 6)).ok());
  EXPECT_EQ((*op)->phase(), TunePhase::kCancelled);
  EXPECT_TRUE(Eventually([&] { return daemon.service->kernels_to_tune() == 0; }));
  EXPECT_EQ(daemon.tuner.calls, 1);
  EXPECT_EQ(KernelsIn((*op)->Copy(), KernelPhase::kPending), 3u);
  const auto twice = daemon.operations->Cancel(viewer, id);
  EXPECT_TRUE(absl::IsFailedPrecondition(twice.status()));
  EXPECT_THAT(twice.status().message(), HasSubstr("cancelled already"));
  gate.Open();
  const auto resumed = daemon.operations->Resume(viewer, id, 0, 0);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  ASSERT_TRUE(Becomes(*resumed, TunePhase::kDone));
  EXPECT_EQ(KernelsIn((*resumed)->Copy(), KernelPhase::kTuned), 3u);
  EXPECT_EQ((*resumed)->id(), id);
}

TEST_F(TuneOperationsTest, OthersDoNotSeeIt) {
  OperationsDaemon daemon(store_);
  const auto op = daemon.Start(graph_, {}, "alice");
  ASSERT_TRUE(op.ok()) << op.status();
  const std::string id = (*op)->id();
  const Caller alice{.tenant = "alice"}, bob{.tenant = "bob"};
  const Caller boss{.tenant = "boss", .sees_all = true};
  EXPECT_EQ(daemon.operations->List(alice).size(), 1u);
  EXPECT_EQ(daemon.operations->List(boss).size(), 1u);
  EXPECT_TRUE(daemon.operations->List(bob).empty());
  const auto other = daemon.operations->Find(bob, id), none = daemon.operations->Find(bob, "f00");
  EXPECT_TRUE(absl::IsNotFound(other.status())) << other.status();
  EXPECT_EQ(other.status().message(), Cat("no tuning operation has the id ", id));
  EXPECT_EQ(none.status().code(), other.status().code());
  EXPECT_TRUE(absl::IsNotFound(daemon.operations->Cancel(bob, id).status()));
  EXPECT_TRUE(absl::IsNotFound(daemon.operations->Resume(bob, id, 0, 0).status()));
  EXPECT_TRUE(daemon.operations->Find(boss, id).ok());
  for (const std::string& bad : {std::string(), std::string(65, 'a')})
    EXPECT_TRUE(absl::IsInvalidArgument(daemon.operations->Find(alice, bad).status()));
}

TEST_F(TuneOperationsTest, WhatIsWrongIsRefusedByName) {
  OperationsDaemon daemon(store_);
  const auto refused = [&](TuneWish wish, const char* word) {
    wish.options.beam = wish.options.beam < 0 ? 0 : 2;
    RequestContext request;
    wish.graph.bytes = graph_;
    const absl::Status status = daemon.operations->Start(request, wish).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(word));
  };
  refused({.options = {.beam = -1}}, "beam");
  refused({.options = {.noopt = true}}, "noopt");
  refused({.options = {.cache_level = 0}}, "cache_level");
  refused({.budget_ms = UINT64_MAX}, "budget_ms");
  refused({.request_id = std::string(257, 'r')}, "request_id");
  refused({.title = std::string(257, 't')}, "title");
  RequestContext request;
  EXPECT_TRUE(absl::IsInvalidArgument(
      daemon.operations->Start(request, {.graph = {.bytes = "junk"}, .options = {.beam = 2}})
          .status()));
  EXPECT_TRUE(daemon.operations->List({}).empty());
  EXPECT_EQ(daemon.tuner.calls, 0);
}

TEST_F(TuneOperationsTest, TooManyAreRefusedAndTheSameCallIsOne) {
  Gate gate;
  OperationsDaemon daemon(store_, "one", {.active = 3, .active_of_tenant = 2});
  daemon.tuner.on_tune = [&](const SearchControl& control) { return gate.Wait(control); };
  const auto first = daemon.Start(ScaleGraphs({8}), {.request_id = "r1"}, "alice");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*daemon.Start(ScaleGraphs({8}), {.request_id = "r1"}, "alice"), *first);
  ASSERT_TRUE(daemon.Start(ScaleGraphs({16}), {.request_id = "r2"}, "alice").ok());
  const auto third = daemon.Start(ScaleGraphs({24}), {}, "alice");
  EXPECT_TRUE(absl::IsResourceExhausted(third.status()));
  EXPECT_THAT(third.status().message(), HasSubstr("alice"));
  // The id of another tenant's call means nothing.
  const auto bobs = daemon.Start(ScaleGraphs({8}), {.request_id = "r1"}, "bob");
  ASSERT_TRUE(bobs.ok()) << bobs.status();
  EXPECT_NE((*bobs)->id(), (*first)->id());
  EXPECT_TRUE(absl::IsResourceExhausted(daemon.Start(graph_, {}, "carol").status()));
  gate.Open();
  EXPECT_TRUE(Becomes(*first, TunePhase::kDone));
  EXPECT_TRUE(Becomes(*bobs, TunePhase::kDone));
  EXPECT_EQ(daemon.tuner.calls, 2) << "both tenants wanted the kernel of 8, which is tuned once";
}

// An id names one call. Another one under the same id would be told of what it did not ask for.
TEST_F(TuneOperationsTest, AnIdIsOfOneGraphAndItsOptions) {
  OperationsDaemon daemon(store_);
  const std::string graph = ScaleGraphs({8}), other = ScaleGraphs({16});
  const auto first = daemon.Start(graph, {.request_id = "r"}, "alice");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto refused = [&](const std::string& bytes, TuneWish wish, const char* why) {
    wish.request_id = "r";
    const absl::Status status = daemon.Start(bytes, wish, "alice").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << why << status;
    EXPECT_THAT(StatusText(status), HasSubstr(Cat("request id (r) was used for ", why)));
  };
  const auto same = [&](const std::string& bytes, TuneWish wish) {
    wish.request_id = "r";
    const auto found = daemon.Start(bytes, wish, "alice");
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, *first);
  };
  for (const bool over : {false, true}) {
    if (over) {
      ASSERT_TRUE(Becomes(*first, TunePhase::kDone));
    }
    same(graph, {});
    const Digest digest = HashBytes(graph);
    same("", {.graph = {.digest = digest.view()}});
    same(graph, {.options = {.beam = 3}, .beam_is_default = true});
    refused(other, {}, "another graph");
    const Digest unknown = HashBytes("nobody has sent it");
    refused("", {.graph = {.digest = unknown.view()}}, "another graph");
    refused(graph, {.options = {.beam = 3}}, "other options");
    refused(graph, {.options = {.fast_math = true, .beam = 2}}, "other options");
  }
  EXPECT_EQ(daemon.operations->List(All()).size(), 1u);
}

TEST_F(TuneOperationsTest, TheSameCallTwiceAtOnceIsOneOperation) {
  constexpr int kRounds = 20;
  std::barrier both(2);
  thread_local bool caller = false;
  OperationsDaemon daemon(store_);
  // Both calls have found no operation of this id before either of them has planned.
  daemon.compiler.on_interrupt = [&](Interrupt&) {
    if (std::exchange(caller, false)) both.arrive_and_wait();
    return absl::OkStatus();
  };
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::shared_ptr<TuneOperation>> started(2);
    {
      std::vector<std::jthread> callers;
      for (auto& op : started) {
        callers.emplace_back([&] {
          caller = true;
          const auto result = daemon.Start(ScaleGraphs({8}), {.request_id = Cat("r", round)}, "al");
          EXPECT_TRUE(result.ok()) << result.status();
          if (result.ok()) op = *result;
        });
      }
    }
    ASSERT_NE(started[0], nullptr);
    EXPECT_EQ(started[0], started[1]);
    EXPECT_EQ(daemon.operations->List({.tenant = "al"}).size(), static_cast<size_t>(round) + 1);
    ASSERT_TRUE(Becomes(started[0], TunePhase::kDone));
  }
  EXPECT_EQ(daemon.tuner.calls, 1);
}

TEST_F(TuneOperationsTest, WhatAnotherDaemonWroteDoesNotUndoACancel) {
  // This daemon has read the row of an operation that runs elsewhere. Then it is cancelled here,
  // and only then the row that was read before takes the place of the state.
  TuneState running{.id = "0123abcd", .phase = TunePhase::kRunning, .kernels = {{}, {}}};
  TuneOperation op(running);
  ASSERT_TRUE(op.Cancel().ok());
  op.Replace(running);
  EXPECT_EQ(op.phase(), TunePhase::kCancelled);
  EXPECT_TRUE(op.cancelled());
  EXPECT_GT(op.Copy().ended_us, 0);
  // Before a cancel it does, also with another list of kernels, of which watchers are told.
  TuneOperation other(running);
  TuneCursor cursor;
  EXPECT_EQ(other.Changes(cursor).kernels, 2u);
  running.kernels.resize(1);
  other.Replace(running);
  const TuneChanges changes = other.Changes(cursor);
  EXPECT_TRUE(changes.replan);
  EXPECT_EQ(changes.kernels, 1u);
}

TEST_F(TuneOperationsTest, OldOnesGo) {
  OperationsDaemon daemon(store_, "one", {.kept_of_tenant = 2});
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) {
    const auto op = daemon.Start(ScaleGraphs({8 + i}));
    ASSERT_TRUE(op.ok()) << op.status();
    ASSERT_TRUE(Becomes(*op, TunePhase::kDone));
    ids.push_back((*op)->id());
  }
  EXPECT_TRUE(Eventually([&] { return daemon.operations->List({}).size() == 2; }));
  EXPECT_TRUE(absl::IsNotFound(daemon.operations->Find({}, ids[0]).status()));
  EXPECT_TRUE(daemon.operations->Find({}, ids[3]).ok());
}

TEST_F(TuneOperationsTest, TheNextDaemonGoesOn) {
  Gate gate;
  std::string id;
  {
    OperationsDaemon daemon(store_);
    daemon.tuner.on_tune = [&](const SearchControl& control) {
      return daemon.tuner.calls < 2 ? absl::OkStatus() : gate.Wait(control);
    };
    const auto op = daemon.Start(graph_, {.budget_ms = 100'000, .title = "model"});
    ASSERT_TRUE(op.ok()) << op.status();
    id = (*op)->id();
    ASSERT_TRUE(gate.AwaitSearch());
    // The second search may begin before the operation knows the result of the first one.
    ASSERT_TRUE(Eventually([&] { return KernelsIn((*op)->Copy(), KernelPhase::kTuned) == 1; }));
  }
  OperationsDaemon next(store_, "two");
  ASSERT_TRUE(Becomes(next, id, TunePhase::kDone));
  const TuneState state = (*next.operations->Find({}, id))->Copy();
  EXPECT_EQ(state.title, "model");
  EXPECT_EQ(state.budget_us, 100'000'000);
  EXPECT_EQ(next.tuner.calls, 2) << "what the first daemon tuned is there";
  EXPECT_EQ(KernelsIn(state, KernelPhase::kTuned), 3u);
  EXPECT_EQ(state.kernels[0].points.size(), 4u) << "the picture of the first search stays";
}

TEST_F(TuneOperationsTest, WhatEndsTheDaemonAgainAndAgainIsGivenUp) {
  std::string id;
  TuneState state;
  {
    OperationsDaemon daemon(store_);
    const auto op = daemon.Start(graph_);
    ASSERT_TRUE(op.ok()) << op.status();
    ASSERT_TRUE(Becomes(*op, TunePhase::kDone));
    state = (*op)->Copy();
    id = state.id;
  }
  // As three daemons that were killed leave it.
  state.phase = TunePhase::kRunning;
  state.attempts = 3;
  state.ended_us = 0;
  TuneRows(store_, "dead", 1).Put(state);
  OperationsDaemon next(store_, "two");
  ASSERT_TRUE(Becomes(next, id, TunePhase::kInterrupted));
  const auto op = *next.operations->Find({}, id);
  EXPECT_THAT(op->Copy().error, HasSubstr("ended 3 times"));
  // By hand it goes on, with all attempts.
  const auto resumed = next.operations->Resume({}, id, 0, 0);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ((*resumed)->Copy().attempts, 1);
  EXPECT_TRUE(Becomes(next, id, TunePhase::kDone));
}

TEST_F(TuneOperationsTest, AnotherDaemonOfTheFolderWatchesAndTakesOver) {
  Gate gate;
  OperationsDaemon one(store_, "one");
  OperationsDaemon two(store_, "two");
  one.tuner.on_tune = [&](const SearchControl& control) { return gate.Wait(control); };
  const auto op = one.Start(graph_);
  ASSERT_TRUE(op.ok()) << op.status();
  ASSERT_TRUE(gate.AwaitSearch());
  const std::string id = (*op)->id();
  EXPECT_TRUE(Eventually([&] { return two.operations->List({}).size() == 1; }));
  ASSERT_TRUE(Becomes(two, id, TunePhase::kRunning));
  const auto cancelled = two.operations->Cancel({}, id);
  EXPECT_TRUE(absl::IsFailedPrecondition(cancelled.status())) << cancelled.status();
  EXPECT_THAT(cancelled.status().message(), HasSubstr("held by one"));
  EXPECT_TRUE(Eventually([&] { return (*two.operations->Find({}, id))->Summary().host == "one"; }));
  one.End();
  EXPECT_TRUE(Becomes(two, id, TunePhase::kDone));
  EXPECT_EQ(two.tuner.calls, 3);
}

TEST_F(TuneOperationsTest, AKernelThatAnotherDaemonTunesIsWaitedFor) {
  Gate gate;
  OperationsDaemon one(store_, "other host pid 1"), two(store_, "two");
  one.tuner.on_tune = [&](const SearchControl& control) { return gate.Wait(control); };
  const std::string graph = ScaleGraphs({8});
  ASSERT_TRUE(one.Start(graph).ok());
  ASSERT_TRUE(gate.AwaitSearch());
  const auto op = two.Start(graph);
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_TRUE(Eventually([&] { return (*op)->Copy().kernels[0].phase == KernelPhase::kWaiting; }));
  EXPECT_EQ((*op)->Copy().kernels[0].detail, "the daemon other host pid 1, which tunes it");
  EXPECT_EQ((*op)->Summary().waits_for, "the daemon other host pid 1, which tunes it");
  gate.Open();
  ASSERT_TRUE(Becomes(*op, TunePhase::kDone));
  const TunedKernelState kernel = (*op)->Copy().kernels[0];
  EXPECT_EQ(kernel.phase, KernelPhase::kFound);
  EXPECT_EQ(kernel.best_s, 2e-6);
  EXPECT_EQ(two.tuner.calls, 0);
}

TEST_F(TuneOperationsTest, WhatWaitsBehindOthersSaysSo) {
  Gate gate;
  OperationsDaemon daemon(store_);
  daemon.tuner.on_tune = [&](const SearchControl& control) { return gate.Wait(control); };
  const auto first = daemon.Start(ScaleGraphs({8}));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(gate.AwaitSearch());
  const auto second = daemon.Start(ScaleGraphs({16})), third = daemon.Start(ScaleGraphs({32}));
  ASSERT_TRUE(second.ok() && third.ok());
  EXPECT_EQ((*first)->Summary().waits_for, "");
  EXPECT_EQ((*second)->Summary().waits_for, "a program that is tuned before it");
  EXPECT_EQ((*third)->Summary().waits_for, "2 programs that are tuned before it");
  ASSERT_TRUE(daemon.operations->Cancel({}, (*second)->id()).ok());
  gate.Open();
  ASSERT_TRUE(Becomes(*third, TunePhase::kDone));
  EXPECT_EQ((*third)->Summary().waits_for, "");
}

TEST_F(TuneOperationsTest, WhatWaitsForAWorkerSaysSo) {
  OperationsDaemon daemon(store_);
  daemon.tuner.away = true;
  const auto op = daemon.Start(ScaleGraphs({8}));
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_TRUE(
      Eventually([&] { return (*op)->Summary().waits_for == "a worker process: it was killed"; }));
  EXPECT_EQ(daemon.tuner.calls, 0);
  daemon.tuner.away = false;
  ASSERT_TRUE(Becomes(*op, TunePhase::kDone));
  EXPECT_EQ(daemon.tuner.calls, 1);
}

TEST_F(TuneOperationsTest, ManyWatchersAtOnce) {
  OperationsDaemon daemon(store_);
  daemon.tuner.candidates = 300;
  const auto op = daemon.Start(graph_);
  ASSERT_TRUE(op.ok()) << op.status();
  std::vector<std::thread> watchers;
  std::atomic<int> complete{0};
  for (int i = 0; i < 4; ++i) {
    watchers.emplace_back([&] {
      TuneCursor cursor;
      std::map<size_t, KernelPhase> phases;
      for (bool over = false; !over;) {
        over = IsOver((*op)->phase());
        for (const auto& [number, kernel] : (*op)->Changes(cursor).changed)
          phases[number] = kernel.phase;
        (*op)->Summary();
      }
      complete += phases.size() == 3 && std::ranges::all_of(phases, [](const auto& one) {
                    return one.second == KernelPhase::kTuned;
                  });
    });
  }
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_EQ(complete, 4);
}

}  // namespace
}  // namespace uopd::engine
