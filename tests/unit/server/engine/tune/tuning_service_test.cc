// SPDX-License-Identifier: MIT
#include "server/engine/tune/tuning_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <thread>

#include "cache/memory/memory_tier.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "devices/null/null_device.h"
#include "server/engine/base/lease_owner.h"
#include "tests/support/eventually.h"
#include "tests/support/forwarding_tier.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using std::chrono::seconds;
using test::Eventually;

const Opts kOpts = {{codegen::OptKind::kUpcast, 0, 4}};

// Finds kOpts in every kernel.
class FakeTuner final : public KernelTuner {
 public:
  std::string Environment(const devices::Device&, const CompileOptions& options) const override {
    return "beam=" + std::to_string(options.beam);
  }
  absl::StatusOr<TuningRecord> Tune(std::string_view, const devices::Device&, const CompileOptions&,
                                    const SearchControl& control) override {
    ++calls;
    if (on_tune) UOPD_TRY(on_tune(control.work.cancelled));
    return TuningRecord{.opts = kOpts, .seconds = 1e-6, .heuristic_seconds = 2e-6, .measured = 7};
  }
  absl::StatusOr<TuningRecord> Prove(std::string_view, const devices::Device&,
                                     const CompileOptions&, const Opts& opts,
                                     const WorkLimits&) override {
    ++proofs;
    UOPD_TRY(proof);
    return TuningRecord{.opts = opts, .seconds = 3e-6, .heuristic_seconds = 2e-6, .measured = 1};
  }
  void Rest(const devices::Device&) override { ++rests; }

  std::atomic<int> calls{0}, rests{0}, proofs{0};
  absl::Status proof;  // what Prove returns if it is an error
  std::function<absl::Status(const std::function<bool()>&)> on_tune;
};

// Programs of real schedules on the NULL device, tuned by a fake.
class TuningServiceTest : public ::testing::Test {
 protected:
  std::unique_ptr<CompileService> Service(KernelTuner* tuner, const std::string& owner = "test") {
    CompileService::Options options;
    options.lease.owner = owner;
    options.tuner = tuner;
    return std::make_unique<CompileService>(std::move(options), graph_compiler_, store_, devices_,
                                            task_pool_);
  }
  static std::shared_ptr<ProgramHandle> Prepare(CompileService& service, const std::string& graph,
                                                const CompileOptions& options = {.beam = 2}) {
    RequestContext request;
    auto program = WaitForProgram(service, request, {"", graph}, options);
    EXPECT_TRUE(program.ok()) << program.status();
    return program.ok() ? *program : nullptr;
  }
  static bool IsTuned(const ProgramHandle& program) { return program.Get()->tuned_kernels == 1; }
  // Stores a result of tuning under the key of the kernel of graph_, which only the schedule knows.
  void StoreWinner(const std::string& record) {
    ir::UOpContext ctx;
    auto sink = ir::Decode(ctx, graph_, ir::Level::kTensor);
    ASSERT_TRUE(sink.ok());
    const auto schedule =
        graph_compiler_.MakeSchedule(ctx, *sink, ScheduleTargetOf(ctx, *sink, devices_)->options);
    ASSERT_TRUE(schedule.ok());
    ASSERT_TRUE(store_.Put({"tuning", schedule->items[0].graph, "beam=2"}, record, 1).ok());
  }

  const std::string graph_ = ScaleGraph(4, 2);
  FakeCompiler graph_compiler_;
  cache::Store store_{1 << 20};
  DeviceSet devices_{NullRegistry()};
  TaskPool task_pool_{2, SIZE_MAX};
  FakeTuner tuner_;
};

TEST_F(TuningServiceTest, ServesAtOnceAndSwapsWhatIsFound) {
  std::latch go(1);
  tuner_.on_tune = [&](const auto&) { return go.wait(), absl::OkStatus(); };
  const auto service = Service(&tuner_);
  const auto program = Prepare(*service, graph_);
  const auto before = program->Get();
  EXPECT_EQ(before->tuned_kernels, 0u);
  ASSERT_TRUE(Eventually([&] { return tuner_.calls == 1; }));
  EXPECT_EQ(service->kernels_to_tune(), 1u);
  const int rests = tuner_.rests;
  go.count_down();
  EXPECT_TRUE(Eventually([&] { return IsTuned(*program); }));
  EXPECT_NE(program->Get(), before);
  EXPECT_NE(program->Get()->steps[0].kernel, before->steps[0].kernel);
  EXPECT_EQ(graph_compiler_.builds, 2);
  EXPECT_TRUE(Eventually([&] { return tuner_.rests > rests; }));
  EXPECT_EQ(service->kernels_to_tune(), 0u);
}

TEST_F(TuningServiceTest, WithoutABeamNothingIsTuned) {
  {
    const auto service = Service(&tuner_);
    Prepare(*service, graph_, {});
  }
  EXPECT_EQ(tuner_.calls, 0);
  EXPECT_FALSE(Service(nullptr)->tunes());
}

TEST_F(TuningServiceTest, WhatWasFoundIsUsedAtOnce) {
  {
    const auto service = Service(&tuner_);
    const auto program = Prepare(*service, graph_);
    ASSERT_TRUE(Eventually([&] { return IsTuned(*program); }));
  }
  const auto service = Service(&tuner_);
  EXPECT_TRUE(IsTuned(*Prepare(*service, graph_)));
  EXPECT_EQ(graph_compiler_.builds, 2);
  // In another program too, by another way of asking; another beam is another question.
  EXPECT_TRUE(IsTuned(*Prepare(*service, graph_, {.fast_math = true, .beam = 2})));
  EXPECT_EQ(tuner_.calls, 1);
  const auto wider = Prepare(*service, graph_, {.beam = 3});
  EXPECT_TRUE(Eventually([&] { return IsTuned(*wider); }));
  EXPECT_EQ(tuner_.calls, 2);
}

TEST_F(TuningServiceTest, WhoIgnoresTheCacheTunesAnew) {
  const auto service = Service(&tuner_);
  const auto first = Prepare(*service, graph_);
  ASSERT_TRUE(Eventually([&] { return IsTuned(*first); }));
  const auto again = Prepare(*service, graph_, {.beam = 2, .ignore_beam_cache = true});
  EXPECT_TRUE(Eventually([&] { return IsTuned(*again); }));
  EXPECT_EQ(tuner_.calls, 2);
}

// What tuning finds in one store is put into another as an import does it.
class ImportedWinnerTest : public TuningServiceTest {
 protected:
  ImportedWinnerTest() {
    cache::Store other(1 << 20);
    CompileService::Options options;
    options.tuner = &tuner_;
    CompileService service(std::move(options), graph_compiler_, other, devices_, task_pool_);
    const auto program = Prepare(service, graph_);
    EXPECT_TRUE(Eventually([&] { return IsTuned(*program); }));
    const auto found = other.Select({.filter = {.store = "tuning"}});
    const auto row = other.ReadRow(found->at(0).address);
    const cache::Key key = TuningService::UnprovenKey(cache::KeyOf(**row));
    EXPECT_TRUE(store_.Put(key, (*row)->value, 1).ok());
    tuner_.calls = 0;
  }
  size_t Count(const char* store) { return store_.Select({.filter = {.store = store}})->size(); }
};

TEST_F(ImportedWinnerTest, IsUsedAfterItProvedRight) {
  const auto service = Service(&tuner_);
  const auto program = Prepare(*service, graph_);
  ASSERT_TRUE(Eventually([&] { return IsTuned(*program); }));
  EXPECT_EQ(tuner_.proofs, 1);
  EXPECT_EQ(tuner_.calls, 0);
  EXPECT_EQ(Count("unproven"), 0u);
  ASSERT_EQ(Count("tuning"), 1u);
  const auto row = store_.ReadRow(store_.Select({.filter = {.store = "tuning"}})->at(0).address);
  EXPECT_EQ(TuningRecord::Decode((*row)->value)->seconds, 3e-6);  // as it was measured here
}

// A tier that may refuse results of tuning, and notes what it was told to do.
class NotedTier final : public cache::ForwardingTier {
 public:
  NotedTier(cache::Tier& inner, std::vector<std::string>& notes, const std::atomic<bool>& is_full)
      : ForwardingTier(inner), notes_(notes), is_full_(is_full) {}
  absl::Status Put(const Digest& address, std::shared_ptr<const cache::Row> row,
                   cache::Settled settled) override {
    if (row->store == "tuning") Note("put");
    if (row->store == "tuning" && is_full_) return absl::ResourceExhaustedError("full");
    return ForwardingTier::Put(address, std::move(row), std::move(settled));
  }
  absl::Status Flush() override {
    Note("flush");
    return ForwardingTier::Flush();
  }
  absl::StatusOr<int64_t> Remove(std::span<const Digest> addresses) override {
    Note("remove");
    return ForwardingTier::Remove(addresses);
  }

 private:
  void Note(const char* what) {
    const MutexLock lock(mu_);
    notes_.emplace_back(what);
  }
  Mutex mu_;
  std::vector<std::string>& notes_;  // read when the store is gone
  const std::atomic<bool>& is_full_;
};

// The store of ImportedWinnerTest behind such a tier. Returns what the tier was told while the
// kernel was tuned.
class CrashSafeWinnerTest : public ImportedWinnerTest {
 protected:
  std::vector<std::string> Tune(bool is_full) {
    cache::StatsTable stats;
    cache::MemoryTier rows(1 << 20, cache::WallClockUs, stats);
    std::vector<std::string> notes;
    const std::atomic<bool> full = is_full;
    {
      const auto noted = cache::StoreOf(std::make_unique<NotedTier>(rows, notes, full));
      const auto unproven = store_.Select({.filter = {.store = "unproven"}});
      EXPECT_TRUE(noted->Import(**store_.ReadRow(unproven->at(0).address)).ok());
      CompileService::Options options;
      options.tuner = &tuner_;
      CompileService service(std::move(options), graph_compiler_, *noted, devices_, task_pool_);
      const auto program = Prepare(service, graph_);
      EXPECT_TRUE(Eventually([&] { return IsTuned(*program); }));
      service.StopTuning();
      waits_ = noted->Select({.filter = {.store = "unproven"}})->size();
    }
    return notes;
  }
  size_t waits_ = 0;  // winners that are still unproven
};

TEST_F(CrashSafeWinnerTest, IsRemovedAfterTheProvenOneIsDurable) {
  const std::vector<std::string> notes = Tune(false);
  EXPECT_EQ(waits_, 0u);
  const auto put = std::ranges::find(notes, "put");
  const auto removed = std::ranges::find(notes, "remove");
  ASSERT_LT(put, removed) << "a daemon that is killed in between has lost the winner";
  ASSERT_NE(removed, notes.end());
  EXPECT_NE(std::find(put, removed, "flush"), removed);
  EXPECT_EQ(tuner_.proofs, 1);
}

TEST_F(CrashSafeWinnerTest, StaysWhenTheProvenOneCannotBeKept) {
  const std::vector<std::string> notes = Tune(true);
  EXPECT_EQ(waits_, 1u);
  EXPECT_EQ(std::ranges::count(notes, "put"), 1);
  EXPECT_EQ(std::ranges::count(notes, "remove"), 0);
}

TEST_F(ImportedWinnerTest, IsForgottenWhenItIsWrong) {
  tuner_.proof = absl::InternalError("computes another result");
  const auto service = Service(&tuner_);
  const auto program = Prepare(*service, graph_);
  ASSERT_TRUE(Eventually([&] { return IsTuned(*program); }));
  EXPECT_EQ(tuner_.proofs, 1);
  EXPECT_EQ(tuner_.calls, 1);  // the kernel is tuned instead
  EXPECT_EQ(Count("unproven"), 0u);
  const auto row = store_.ReadRow(store_.Select({.filter = {.store = "tuning"}})->at(0).address);
  EXPECT_EQ(TuningRecord::Decode((*row)->value)->seconds, 1e-6);
}

TEST_F(ImportedWinnerTest, StaysWhenNothingWasFoundOut) {
  tuner_.proof = absl::UnavailableError("no workers now");
  const auto service = Service(&tuner_);
  const auto program = Prepare(*service, graph_);
  ASSERT_TRUE(Eventually([&] { return IsTuned(*program); }));
  EXPECT_EQ(tuner_.calls, 1);
  EXPECT_EQ(Count("unproven"), 1u);
}

TEST_F(ImportedWinnerTest, StaysWhenTheErrorIsNotItsOwn) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kResourceExhausted,
        absl::StatusCode::kFailedPrecondition}) {
    tuner_.proof = absl::Status(code, "the machine is busy");
    tuner_.calls = 0;
    const auto service = Service(&tuner_);
    const auto program = Prepare(*service, graph_);
    ASSERT_TRUE(Eventually([&] { return IsTuned(*program); }));
    EXPECT_EQ(tuner_.calls, 1);
    EXPECT_EQ(Count("unproven"), 1u) << absl::StatusCodeToString(code);
    ASSERT_TRUE(store_.Clear("tuning").ok());
  }
}

TEST_F(TuningServiceTest, TwoDaemonsOnOneStoreTuneOnce) {
  FakeTuner other;
  const auto one = Service(&tuner_), two = Service(&other);
  const auto first = Prepare(*one, graph_), second = Prepare(*two, graph_);
  EXPECT_TRUE(Eventually([&] { return IsTuned(*first) && IsTuned(*second); }));
  EXPECT_EQ(tuner_.calls + other.calls, 1);
}

// Two kernels: their results have different sizes.
std::string TwoKernelsGraph() {
  ir::UOpContext ctx;
  std::vector<ir::UOp> stores;
  for (const int64_t i : {0, 1}) {
    const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{4 + i});
    const ir::UOp in = ir::Param(ctx, 2 * i + 1, ir::Dtype::F32, shape, "");
    const ir::UOp value = ir::Mul(ctx, in, ctx.Float(ir::Dtype::F32, 3));
    stores.push_back(ir::Store(ctx, ir::Param(ctx, 2 * i, ir::Dtype::F32, shape, ""), value));
  }
  return ir::Encode(ctx, ir::Sink(ctx, stores));
}

// Each of two daemons tunes a kernel while the other tunes the other one.
TEST_F(TuningServiceTest, DaemonsOfTwoMachinesShareTheKernelsOfAProgram) {
  FakeTuner other;
  std::latch both(2);
  tuner_.on_tune = other.on_tune = [&](const auto&) {
    both.arrive_and_wait();
    return absl::OkStatus();
  };
  const auto one = Service(&tuner_, "a pid 1 boot 11"), two = Service(&other, "b pid 1 boot 22");
  const std::string graph = TwoKernelsGraph();
  const auto first = Prepare(*one, graph), second = Prepare(*two, graph);
  EXPECT_TRUE(Eventually(
      [&] { return first->Get()->tuned_kernels == 2 && second->Get()->tuned_kernels == 2; }));
  EXPECT_EQ(tuner_.calls, 1);
  EXPECT_EQ(other.calls, 1);
}

TEST(LeaseOwnerTest, NamesTheMachine) {
  const std::string me = LeaseOwner();
  EXPECT_NE(me.find(" pid "), std::string::npos);
  EXPECT_TRUE(OnOneMachine(me, me));
  EXPECT_TRUE(OnOneMachine("a pid 1 boot 11", "container pid 1 boot 11"));
  EXPECT_FALSE(OnOneMachine("a pid 1 boot 11", "a pid 1 boot 22"));
  EXPECT_TRUE(OnOneMachine("pid 1", "a pid 1 boot 22")) << "cannot be told";
}

TEST_F(TuningServiceTest, StopEndsTheSearchAndGivesItsLeaseBack) {
  std::latch tuning(1);
  tuner_.on_tune = [&](const std::function<bool()>& cancelled) -> absl::Status {
    tuning.count_down();
    while (!cancelled()) std::this_thread::yield();
    return absl::CancelledError("stopped");
  };
  auto service = Service(&tuner_);
  const auto program = Prepare(*service, graph_);
  tuning.wait();
  service->StopTuning();
  EXPECT_FALSE(IsTuned(*program));
  // The next one need not wait for the lease to end.
  tuner_.on_tune = nullptr;
  service = Service(&tuner_);
  const auto next = Prepare(*service, graph_);
  EXPECT_TRUE(Eventually([&] { return IsTuned(*next); }));
}

TEST_F(TuningServiceTest, AFailureKeepsWhatIsThereAndIsNotRepeated) {
  // As it does when a worker dies with the kernel without opts. A load whose value somebody else
  // makes is ABORTED, too.
  tuner_.on_tune = [this](const auto&) -> absl::Status {
    return tuner_.calls == 1 ? absl::AbortedError("a worker died") : absl::OkStatus();
  };
  const auto service = Service(&tuner_);
  const auto program = Prepare(*service, graph_);
  const auto other = Prepare(*service, graph_, {.fast_math = true, .beam = 2});  // the same key
  // A third, of another kernel, comes after it in the queue.
  const auto third = Prepare(*service, ScaleGraph(8, 3));
  EXPECT_TRUE(Eventually([&] { return IsTuned(*third); }));
  EXPECT_EQ(tuner_.calls, 2);
  EXPECT_FALSE(IsTuned(*program));
  EXPECT_FALSE(IsTuned(*other));
}

TEST_F(TuningServiceTest, StoredOptsThatDoNotApplyFailNoRequest) {
  const auto service = Service(&tuner_);
  TuningRecord useless;
  useless.opts = FakeCompiler::kUselessOpts;
  StoreWinner(useless.Encode());
  EXPECT_FALSE(IsTuned(*Prepare(*service, graph_)));
}

// The log says which opt of which store it was.
TEST_F(TuningServiceTest, ARecordOfALaterVersionIsSetAside) {
  const std::string path = Cat(testing::TempDir(), "/set_aside_log_", getpid());
  ASSERT_TRUE(OpenLogFile(path).ok());
  std::string later = TuningRecord{.opts = kOpts}.Encode();
  later[1] = 99;  // the kind of the first opt
  StoreWinner(later);
  auto& corrupt = metrics::CacheRequests({"tuning", "corrupt"});
  const uint64_t before = corrupt.value();
  {
    const auto service = Service(&tuner_);
    const auto program = Prepare(*service, graph_);
    EXPECT_TRUE(Eventually([&] { return IsTuned(*program); }));
  }
  EXPECT_TRUE(OpenLogFile("").ok());
  EXPECT_EQ(tuner_.calls, 1);
  EXPECT_EQ(corrupt.value(), before);
  std::ifstream log(path);
  const std::string lines{std::istreambuf_iterator<char>(log), {}};
  EXPECT_THAT(lines, testing::ContainsRegex("level=warn msg=\"a record of a later version is set "
                                            "aside\" store=tuning status=.*opt of kind 99"));
  std::filesystem::remove(path);
}

// The service alone, with a clock that stands until it is told.
class TuningLeaseTest : public ::testing::Test {
 protected:
  TuningTask Task() {
    TuningTask task;
    task.options.beam = 2;
    task.kernels.push_back(
        {.graph = "graph", .device = &(*devices_.Get(""))->device(), .name = "k"});
    task.program = program_;
    task.use = [this](size_t, const TuningRecord& found) {
      used_ = found.seconds;
      return absl::OkStatus();
    };
    return task;
  }

  void Announce(const cache::Key& key, const std::string& value) {
    store_.arrivals().Announce(cache::MakeRow(key, value, 1, now_, 1));
  }

  std::atomic<int64_t> now_{1'000'000};
  cache::Store store_{1 << 20, [this] { return now_.load(); }};
  const cache::Key key_{"tuning", "graph", "beam=2"};
  DeviceSet devices_{NullRegistry()};
  FakeTuner tuner_;
  std::atomic<double> used_{0};
  const std::shared_ptr<ProgramHandle> program_ = std::make_shared<ProgramHandle>(nullptr);
};

TEST_F(TuningLeaseTest, WhoLosesTheLeaseTakesWhatTheOtherFound) {
  const TuningRecord theirs = {.opts = kOpts, .seconds = 42};
  tuner_.on_tune = [&](const std::function<bool()>& cancelled) -> absl::Status {
    // Frozen for longer than the lease lives; somebody takes over.
    now_ += 60'000'000;
    const auto lease = store_.TryLease(key_, "other", 1'000'000);
    EXPECT_TRUE(lease.granted());
    EXPECT_TRUE(store_.PutFenced(key_, theirs.Encode(), 1, lease.token).ok());
    while (!cancelled()) std::this_thread::yield();
    return absl::CancelledError("lost the lease");
  };
  TuningService service({.owner = "test", .lease_us = 3'000}, store_, &tuner_);
  service.Add(Task());
  EXPECT_TRUE(Eventually([&] { return used_ == 42; }));
  EXPECT_EQ(tuner_.calls, 1);
}

TEST_F(TuningLeaseTest, WhoFinishesTooLateTakesWhatTheOtherFound) {
  const TuningRecord theirs = {.opts = kOpts, .seconds = 42};
  tuner_.on_tune = [&](const auto&) -> absl::Status {
    now_ += 60'000'000;
    const auto lease = store_.TryLease(key_, "other", 1'000'000);
    EXPECT_TRUE(store_.PutFenced(key_, theirs.Encode(), 1, lease.token).ok());
    return absl::OkStatus();
  };
  TuningService service({.owner = "test", .lease_us = 30'000'000}, store_, &tuner_);
  service.Add(Task());
  EXPECT_TRUE(Eventually([&] { return used_ == 42; }));
}

TEST_F(TuningLeaseTest, ADeadOwnersLeaseIsTakenOver) {
  ASSERT_TRUE(store_.TryLease(key_, "dead", 5'000'000).granted());
  TuningService service({.owner = "test"}, store_, &tuner_);
  service.Add(Task());
  EXPECT_EQ(used_, 0);
  now_ += 6'000'000;
  EXPECT_TRUE(Eventually([&] { return used_ == 1e-6; }));
}

// The clock stands, so the lease of the ghost never ends.
TEST_F(TuningLeaseTest, AnOwnerThatNeverEndsIsNotAwaitedForEver) {
  ASSERT_TRUE(store_.TryLease(key_, "ghost", 5'000'000).granted());
  TuningService service({.owner = "test", .patience = std::chrono::milliseconds(10)}, store_,
                        &tuner_);
  service.Add(Task());
  EXPECT_TRUE(Eventually([&] { return used_ == 1e-6; }));
}

TEST_F(TuningLeaseTest, AProgramThatNobodyWantsIsNotTuned) {
  TuningService service({.owner = "test"}, store_, &tuner_);
  TuningTask forgotten = Task();
  forgotten.program = std::weak_ptr<ProgramHandle>();
  TuningTask wanted = Task();
  wanted.kernels[0].graph = "another";
  service.Add(std::move(forgotten));
  service.Add(std::move(wanted));
  EXPECT_TRUE(Eventually([&] { return used_ == 1e-6; }));
  EXPECT_EQ(tuner_.calls, 1);
}

// A program that waits in the queue gets what another machine found, while this daemon still tunes
// something else.
TEST_F(TuningLeaseTest, WhatArrivesIsUsedAtOnce) {
  std::latch begun(1), go(1);
  tuner_.on_tune = [&](const auto&) {
    begun.count_down();
    go.wait();
    return absl::OkStatus();
  };
  TuningService service({.owner = "test"}, store_, &tuner_);
  std::atomic<double> first = 0;
  TuningTask other = Task();
  other.kernels[0].graph = "other";
  other.use = [&](size_t, const TuningRecord& found) {
    first = found.seconds;
    return absl::OkStatus();
  };
  service.Add(std::move(other));
  begun.wait();
  service.Add(Task());
  TuningTask anew = Task();  // it does not take what others found
  anew.options.ignore_beam_cache = true;
  std::atomic<double> own = 0;
  anew.use = [&](size_t, const TuningRecord& found) {
    own = found.seconds;
    return absl::OkStatus();
  };
  service.Add(std::move(anew));
  EXPECT_EQ(service.kernels_left(), 3u);
  const std::string record = TuningRecord{.opts = kOpts, .seconds = 42}.Encode();
  Announce({"tuning", "unknown", "beam=2"}, record);
  Announce({"kernel", "graph", "beam=2"}, record);
  Announce({"tuning", "other", "beam=2"}, "damaged");
  Announce(key_, record);
  EXPECT_TRUE(Eventually([&] { return used_ == 42 && service.kernels_left() == 2; }));
  EXPECT_EQ(first, 0);
  EXPECT_EQ(own, 0);
  go.count_down();
  EXPECT_TRUE(Eventually([&] { return first == 1e-6 && own == 1e-6; }));
  EXPECT_EQ(tuner_.calls, 2);
  EXPECT_TRUE(Eventually([&] { return service.kernels_left() == 0; }));
}

// Programs on two devices, which are of one processor or of two.
class TwoDevicesTest : public TuningServiceTest {
 protected:
  // How many kernels are tuned at the same time.
  int MostAtOnce(const char* second_processor, std::chrono::milliseconds patience) {
    const std::shared_ptr<devices::Device> all[] = {
        devices::null::NullDevice::Open({.index = 0}),
        devices::null::NullDevice::Open({.index = 1, .processor = second_processor})};
    DeviceSet devices(*devices::Registry::Of(all));
    std::atomic<int> now{0}, most{0};
    tuner_.on_tune = [&](const auto&) {
      const int seen = ++now;
      for (int old = most; old < seen && !most.compare_exchange_weak(old, seen);) {
      }
      // Whoever is first waits for the other.
      const auto limit = std::chrono::steady_clock::now() + patience;
      while (most < 2 && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      --now;
      return absl::OkStatus();
    };
    CompileService::Options options;
    options.tuner = &tuner_;
    CompileService service(std::move(options), graph_compiler_, store_, devices, task_pool_);
    const auto first = Prepare(service, ScaleGraph(4, 2, "NULL:0"));
    const auto second = Prepare(service, ScaleGraph(4, 3, "NULL:1"));
    EXPECT_TRUE(Eventually([&] { return IsTuned(*first) && IsTuned(*second); }));
    return most;
  }
};

TEST_F(TwoDevicesTest, OfTwoProcessorsAreTunedAtTheSameTime) {
  EXPECT_EQ(MostAtOnce("gpu", seconds(60)), 2);
}

TEST_F(TwoDevicesTest, OfOneProcessorAreTunedOneAfterTheOther) {
  EXPECT_EQ(MostAtOnce("host", std::chrono::milliseconds(100)), 1);
}

}  // namespace
}  // namespace uopd::engine
