// SPDX-License-Identifier: MIT
// Kept values on the CPU device with the real compiler: two engines get the same random calls, one
// of them keeps nothing, and every result is the same.
#include "server/engine/kept/kept_runs.h"

#include <gtest/gtest.h>

#include <future>

#include <cstring>
#include <random>
#include <thread>

#include "cache/store.h"
#include "core/base/telemetry/metrics.h"
#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "devices/null/null_device.h"
#include "server/engine/compile/source/core_compiler.h"
#include "server/engine/engine.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"
#include "tests/support/model_graphs.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using ir::UOp;

constexpr int64_t kBatchRows = 40, kInputs = 64, kOutputs = 96;
// Slots of the graph.
enum : size_t { kX, kW, kVariance, kState, kSteps, kResult, kLayerSlots };
constexpr int64_t kSlotElements[kLayerSlots] = {
    kBatchRows * kInputs, kInputs* kOutputs, kOutputs, kBatchRows* kOutputs, 1,
    kBatchRows* kOutputs};

// result = x w / sqrt(variance + 1) + state; state = result / 2; w changes only if a caller writes
// it. All values are small multiples of powers of two, so that no order of additions matters.
std::string Layer(double factor = 0.5) {
  ir::UOpContext ctx;
  uopd::test::GraphBuilder g(ctx);
  const UOp x = g.Input({kBatchRows, kInputs}), w = g.Input({kInputs, kOutputs}),
            variance = g.Input({kOutputs}), state = g.Input({kBatchRows, kOutputs}),
            steps = g.Input({1});
  const UOp root =
      ctx.Make(ir::Op::SQRT, ir::Dtype::F32, {ir::Add(ctx, variance, g.Const(variance, 1))});
  const UOp scale = ctx.Make(ir::Op::RECIPROCAL, ir::Dtype::F32, {root});
  const UOp y = ir::Add(ctx, ir::Mul(ctx, g.MatMul(x, w), g.Reshape(scale, {1, kOutputs})), state);
  g.Output(y);
  g.Assign(state, ir::Mul(ctx, y, g.Const(y, factor)));
  g.Assign(steps, ir::Add(ctx, steps, g.Const(steps, 1)));
  return ir::Encode(ctx, g.Finish());
}

std::vector<Argument> Usual() {
  return {{.buffer = 1}, {.buffer = 2}, {.buffer = 3},
          {.buffer = 4}, {.buffer = 5}, {.buffer = 6, .return_data = true}};
}

class Side {
 public:
  explicit Side(std::string_view kept_bytes, std::string_view session_bytes = "64MiB",
                std::chrono::microseconds late = {}, std::string_view peer_bytes = "64MiB",
                size_t device_bytes = 256 << 20) {
    Config config;
    EXPECT_TRUE(config.Set("limits.session_kept_bytes", kept_bytes, ConfigSource::kFlag).ok());
    EXPECT_TRUE(config.Set("limits.session_bytes", session_bytes, ConfigSource::kFlag).ok());
    EXPECT_TRUE(config.Set("limits.peer_bytes", peer_bytes, ConfigSource::kFlag).ok());
    EXPECT_TRUE(config.ResolveDefaults().ok());
    devices::RegistryOptions options = TestDevices();
    options.memory_limit_bytes = device_bytes;
    options.cpu_threads = 2;
    if (late.count() > 0) options.force_async_us = static_cast<int>(late.count());
    engine_ = *Engine::Create(config, std::make_unique<CoreCompiler>(),
                              std::make_unique<cache::Store>(16 << 20),
                              *devices::Registry::Create(options), nullptr);
    session_.emplace(*engine_->sessions().Open(std::chrono::minutes(1), {}));
  }

  void Write(uint64_t handle, size_t slot, int seed) {
    std::string bytes = Bytes(slot, seed);
    ASSERT_TRUE(engine_->buffers().OpenUpload(**session_, handle, bytes.size(), "").ok());
    ASSERT_TRUE(engine_->buffers().Write(**session_, handle, 0, bytes).ok());
  }
  static std::string Bytes(size_t slot, int seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::string bytes(static_cast<size_t>(kSlotElements[slot]) * 4, '\0');
    for (size_t i = 0; i < bytes.size(); i += 4) {
      // A variance of 3 gives the exact factor 1/2.
      const float value =
          slot == kVariance ? 3.0f : static_cast<float>(static_cast<int>(random() % 9) - 4);
      std::memcpy(&bytes[i], &value, 4);
    }
    return bytes;
  }
  void Free(uint64_t handle) { (*session_)->buffers().Free(std::span(&handle, 1)); }

  // All bytes that the call returned, or its error.
  std::string Run(std::span<const Argument> arguments) {
    RequestContext request;
    ExecuteCall call;
    call.where = ExecuteCall::Where::kHere;
    call.wanted = engine_->programs().Resolve({"", graph_}, {});
    call.run.arguments = arguments;
    const auto result = Await<absl::StatusOr<ExecuteResult>>(
        [&](auto done) { engine_->runs().Execute(request, **session_, call, done); });
    if (!result.ok()) return StatusText(result.status());
    std::string out;
    for (const std::string& data : result->data) out += data;
    return out;
  }
  // Runs the usual call of a session that closes as soon as the answer is there.
  void RunAndClose() {
    const std::string x = Bytes(kX, 7);
    std::vector<Argument> arguments = Usual();
    arguments[kX] = {.data = x};
    RequestContext request;
    ExecuteCall call;
    call.where = ExecuteCall::Where::kHere;
    call.wanted = engine_->programs().Resolve({"", graph_}, {});
    call.run.arguments = arguments;
    const std::string id = (*session_)->id();
    std::weak_ptr<Quota> quota = (*session_)->shared_quota();
    const auto result = Await<absl::StatusOr<ExecuteResult>>([&](auto done) {
      engine_->runs().Execute(request, **session_, call,
                              [&, done](absl::StatusOr<ExecuteResult> result) mutable {
                                EXPECT_TRUE(engine_->sessions().Close(id, "").ok());
                                session_.reset();
                                done(std::move(result));
                              });
    });
    EXPECT_TRUE(result.ok()) << StatusText(result.status());
    EXPECT_TRUE(uopd::test::Eventually([&] { return quota.expired(); }));
  }
  // Makes the buffer of a slot, which was written, a constant.
  void MakeConstant(uint64_t handle, size_t slot, int seed) {
    const std::string bytes = Bytes(slot, seed);
    const Digest sha256 = HashBytes(bytes);
    const NamedContent content{.handle = handle, .bytes = bytes.size(), .sha256 = sha256.view()};
    const auto needed = engine_->contents().Open(**session_, {&content, 1}, {});
    ASSERT_TRUE(needed.ok()) << StatusText(needed.status());
    EXPECT_TRUE(needed->empty());
  }
  // From now on calls are of another session. The one before stays open.
  void OpenAnother() {
    others_.push_back(*std::move(session_));
    session_.emplace(*engine_->sessions().Open(std::chrono::minutes(1), {}));
  }
  void Use(std::string graph) { graph_ = std::move(graph); }
  Engine& engine() { return *engine_; }
  Session& session() { return **session_; }

 private:
  std::string graph_ = Layer();
  std::unique_ptr<Engine> engine_;
  std::vector<SessionUse> others_;
  std::optional<SessionUse> session_;
};

double Used() { return static_cast<double>(metrics::KeptRuns({"used"}).value()); }
double Made() { return static_cast<double>(metrics::KeptRuns({"made"}).value()); }

void WriteAll(Side& side) {
  for (size_t slot = 0; slot < kResult; ++slot) side.Write(slot + 1, slot, static_cast<int>(slot));
}

const std::string& X() {
  static const std::string& x = *new std::string(Side::Bytes(kX, 7));
  return x;
}

// The usual call with X, which comes with every call, so it is not stable.
std::vector<Argument> WithX() {
  std::vector<Argument> out = Usual();
  out[kX] = {.data = X()};
  return out;
}

// Runs until a run has used kept values.
bool RunsUntilUsed(Side& side) {
  const double before = Used();
  return uopd::test::Eventually([&] {
    (void)side.Run(WithX());
    return Used() > before;
  });
}

TEST(KeptRuns, UsesWhatHasNotChanged) {
  Side side("16MiB");
  WriteAll(side);
  const int64_t before = side.session().quota().used();
  ASSERT_TRUE(RunsUntilUsed(side));
  // The weights in packed order, and the scale.
  EXPECT_GE(side.session().quota().used() - before, 4 * (kInputs * kOutputs + kOutputs));
  // A change is seen by the next run, and after some runs the values are made again.
  const double made = Made();
  side.Write(2, kW, 99);
  ASSERT_TRUE(RunsUntilUsed(side));
  EXPECT_EQ(Made(), made + 1);
}

// Sessions with the same constants: one has the values made, the others use them.
TEST(KeptRuns, SessionsShareWhatWasMadeFromTheSameConstants) {
  Side side("16MiB"), plain("0");
  const auto write_all = [](Side& to, int weights) {
    WriteAll(to);
    to.Write(kW + 1, kW, weights);
  };
  const auto make_constants = [&](int weights) {
    side.MakeConstant(kW + 1, kW, weights);
    side.MakeConstant(kVariance + 1, kVariance, kVariance);
  };
  const auto shared = [] { return metrics::KeptRuns({"shared"}).value(); };
  write_all(side, 50);
  make_constants(50);
  ASSERT_TRUE(RunsUntilUsed(side));
  const double made = Made(), used = Used();
  const uint64_t before = shared();
  Quota& total = side.engine().clients().bytes;
  const int64_t in_all = total.used();
  side.OpenAnother();
  write_all(side, 50);
  make_constants(50);
  write_all(plain, 50);
  for (int i = 0; i < 8; ++i) ASSERT_EQ(side.Run(WithX()), plain.Run(WithX())) << i;
  EXPECT_EQ(Made(), made);
  EXPECT_EQ(shared(), before + 1);
  EXPECT_GE(Used(), used + 4);
  // The weights and the packed ones count for the session, and in all they did before.
  EXPECT_GE(side.session().quota().used() - (total.used() - in_all), 2 * 4 * kInputs * kOutputs);
  // A session that drops its values takes nothing from the other one.
  side.session().Reclaim();
  for (int i = 0; i < 8; ++i) ASSERT_EQ(side.Run(WithX()), plain.Run(WithX())) << i;
  // Other constants have other values.
  const uint64_t weights = kW + 1;
  side.Free(weights);
  side.Write(weights, kW, 51);
  make_constants(51);
  plain.Write(weights, kW, 51);
  for (int i = 0; i < 8; ++i) ASSERT_EQ(side.Run(WithX()), plain.Run(WithX())) << i;
  ASSERT_TRUE(RunsUntilUsed(side));
  // A slot that is no constant, though it has the same contents.
  const uint64_t again = shared();
  const double made_again = Made();
  side.OpenAnother();
  write_all(side, 50);
  side.MakeConstant(kVariance + 1, kVariance, kVariance);
  ASSERT_TRUE(RunsUntilUsed(side));
  EXPECT_EQ(shared(), again);
  EXPECT_EQ(Made(), made_again + 1);
}

// A divided program that is no quicker costs memory for nothing.
TEST(KeptRuns, AreGivenUpIfTheyAreNoQuicker) {
  Side side("16MiB");
  WriteAll(side);
  RequestContext request;
  const std::string graph = Layer();
  const auto program = Await<absl::StatusOr<std::shared_ptr<const Program>>>([&](auto done) {
    side.engine().programs().Prepare(request, side.engine().programs().Resolve({"", graph}, {}),
                                     std::move(done));
  });
  ASSERT_TRUE(program.ok()) << StatusText(program.status());
  const double slower = metrics::KeptRuns({"slower"}).value();
  ASSERT_TRUE(RunsUntilUsed(side));
  const int64_t kept = side.session().quota().used();
  for (int run = 0; run < KeptRuns::kRunsBeforeJudging / 2; ++run) ASSERT_TRUE(RunsUntilUsed(side));
  (*program)->run_time.Add(1);  // in nanoseconds
  const double before = Used();
  const std::vector<Argument> arguments = WithX();
  for (int run = 0; run < KeptRuns::kRunsBeforeJudging; ++run) (void)side.Run(arguments);
  EXPECT_EQ(metrics::KeptRuns({"slower"}).value(), slower + 1);
  EXPECT_LE(Used(), before + KeptRuns::kRunsBeforeJudging);
  EXPECT_LT(side.session().quota().used(), kept);
}

// The call that used kept values ends after its session: it must not touch what is gone
// (AddressSanitizer tells), and all charges are given back.
TEST(KeptRuns, ASessionMayCloseBeforeItsLastCallHasEnded) {
  const double before = metrics::ClientBytes({"kept"}).value();
  Side side("16MiB");
  WriteAll(side);
  ASSERT_TRUE(RunsUntilUsed(side));
  EXPECT_GT(metrics::ClientBytes({"kept"}).value(), before);
  side.RunAndClose();
  EXPECT_EQ(metrics::ClientBytes({"kept"}).value(), before);
}

TEST(KeptRuns, GivesItsMemoryBack) {
  Side side("16MiB", "1MiB");
  WriteAll(side);
  ASSERT_TRUE(RunsUntilUsed(side));
  const uint64_t dropped = metrics::KeptDropped().value();
  // As many bytes as the session may hold beside its buffers, but not beside the kept values.
  const int64_t left = (1 << 20) - side.session().quota().used();
  const absl::Status made =
      side.engine().buffers().Create(side.session(), 100, static_cast<uint64_t>(left), "");
  EXPECT_TRUE(made.ok()) << StatusText(made);
  EXPECT_EQ(metrics::KeptDropped().value(), dropped + 1);
  side.Free(100);
  EXPECT_TRUE(RunsUntilUsed(side));
}

// Values are made only while a quarter of the session's memory stays free for runs, so few runs
// have to wait for the end of a making.
TEST(KeptRuns, MakingLeavesMemoryForRuns) {
  Side side("1MiB", "1MiB");
  WriteAll(side);
  const auto fill = [&](int64_t left) {
    const int64_t bytes = (1 << 20) - side.session().quota().used() - left;
    ASSERT_TRUE(
        side.engine().buffers().Create(side.session(), 100, static_cast<uint64_t>(bytes), "").ok());
  };
  fill((1 << 18) + 20'000);
  const std::vector<Argument> arguments = WithX();
  const double made = Made();
  for (int run = 0; run < 30; ++run) {
    EXPECT_EQ(side.Run(arguments).find("exceed"), std::string::npos);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // a making would end meanwhile
  }
  EXPECT_EQ(Made(), made);
  side.Free(100);
  EXPECT_TRUE(RunsUntilUsed(side));
}

// y = x + 1
std::string Increment(int64_t elements) {
  ir::UOpContext ctx;
  uopd::test::GraphBuilder g(ctx);
  const UOp x = g.Input({elements});
  g.Output(ir::Add(ctx, x, g.Const(x, 1)));
  return ir::Encode(ctx, g.Finish());
}

// Calls that need all memory that the session has beside its buffers, while values are being made:
// they get it.
TEST(KeptRuns, CallsEndAMakingForItsMemory) {
  Side side("1MiB", "1MiB", std::chrono::milliseconds(10));  // a making takes some 100 ms
  WriteAll(side);
  const std::vector<Argument> usual = WithX();
  (void)side.Run(usual);  // makes the buffer of the result
  const double kept = metrics::ClientBytes({"kept"}).value();
  const int64_t before = side.session().quota().used();
  const int64_t left = (1 << 20) - before - 8192;
  int seed = 100;
  const auto until_making = [&] {
    double made = Made();
    ASSERT_TRUE(uopd::test::Eventually([&] {
      (void)side.Run(usual);
      if (Made() > made) {  // this thread was too slow to see the making
        made = Made();
        side.Write(2, kW, ++seed);
        return false;
      }
      return metrics::ClientBytes({"kept"}).value() > kept;
    }));
  };
  const std::string graph = Layer(), big = Increment(left / 8);
  const std::string data(static_cast<size_t>(left / 8 * 4), '\0');
  const std::vector<Argument> all = {{.data = data}, {.return_data = true}};
  side.Use(big);
  EXPECT_EQ(side.Run(all).size(), data.size());  // compiles it
  side.Use(graph);
  until_making();
  side.Use(big);
  EXPECT_EQ(side.Run(all).size(), data.size());
  side.Use(graph);
  until_making();
  const absl::Status made =
      side.engine().buffers().Create(side.session(), 100, static_cast<uint64_t>(left), "");
  EXPECT_TRUE(made.ok()) << StatusText(made);
  side.Free(100);
  EXPECT_TRUE(RunsUntilUsed(side));
}

// Memory that is not enough for a run and for the values that it uses, but for the run alone.
TEST(KeptRuns, ARunGivesUpItsOwnValuesForItsMemory) {
  Side side("1MiB", "1MiB");
  WriteAll(side);
  ASSERT_TRUE(RunsUntilUsed(side));
  // With the state in the call, all calls have the same result.
  const std::string state = Side::Bytes(kState, 5);
  std::vector<Argument> call = WithX();
  call[kState] = {.data = state};
  const double used = Used();
  const std::string before = side.Run(call);
  EXPECT_EQ(Used(), used + 1);
  const uint64_t dropped = metrics::KeptDropped().value();
  const int64_t left = (1 << 20) - side.session().quota().used() - 2000;
  ASSERT_LT(2000u, X().size());
  ASSERT_TRUE(
      side.engine().buffers().Create(side.session(), 100, static_cast<uint64_t>(left), "").ok());
  EXPECT_EQ(metrics::KeptDropped().value(), dropped);
  const std::string undivided = side.Run(call);
  EXPECT_TRUE(undivided == before) << undivided.substr(0, 200);
  EXPECT_EQ(metrics::KeptDropped().value(), dropped + 1);
}

// On a busy machine a run may end before another thread sees it.
bool HasEnded(const std::future<std::string>& run) {
  return run.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// A run that uses kept values is on its way when their memory is needed: whoever needs it waits for
// the run's end.
TEST(KeptRuns, CallsWaitForARunThatUsesValues) {
  Side side("16MiB", "64MiB", std::chrono::milliseconds(10), "1MiB");
  WriteAll(side);
  ASSERT_TRUE(RunsUntilUsed(side));
  const std::vector<Argument> usual = WithX();
  const SessionUse other = *side.engine().sessions().Open(std::chrono::minutes(1), {});
  const auto run = [&] { return side.Run(usual); };
  const int64_t idle = side.session().quota().used();
  auto running = std::async(std::launch::async, run);
  ASSERT_TRUE(uopd::test::Eventually(
      [&] { return side.session().quota().used() > idle || HasEnded(running); }));
  // All that there is beside the buffers of the session, and more than the values leave.
  const int64_t bytes = (1 << 20) - idle + 8192;
  const absl::Status made =
      side.engine().buffers().Create(*other, 1, static_cast<uint64_t>(bytes), "");
  EXPECT_TRUE(made.ok()) << StatusText(made);
  EXPECT_EQ(running.get().find("exceed"), std::string::npos);
}

// A message cannot wait. So it takes the memory of values that are about to be freed.
TEST(KeptRuns, AMessageTakesTheMemoryOfValuesInUse) {
  Side side("16MiB", "64MiB", std::chrono::milliseconds(10));
  WriteAll(side);
  ASSERT_TRUE(RunsUntilUsed(side));
  const std::vector<Argument> usual = WithX();
  Quota& total = side.engine().clients().bytes;
  const int64_t idle = total.used(), limit = total.limit();
  auto running = std::async(std::launch::async, [&] { return side.Run(usual); });
  ASSERT_TRUE(uopd::test::Eventually([&] { return total.used() > idle || HasEnded(running); }));
  total.set_limit(total.used());
  {
    const auto charge = side.engine().clients().ChargeMessage(8192);
    EXPECT_TRUE(charge.ok()) << StatusText(charge.status());
    EXPECT_TRUE(absl::IsResourceExhausted(side.engine().clients().ChargeMessage(1 << 20).status()));
  }
  total.set_limit(limit);
  EXPECT_EQ(running.get().find("exceed"), std::string::npos);
}

// Where memory is short again and again, values are made ever more rarely.
TEST(KeptRuns, DroppedValuesAreNotMadeAgainAtOnce) {
  Side side("1MiB", "1MiB");
  WriteAll(side);
  ASSERT_TRUE(RunsUntilUsed(side));
  const std::vector<Argument> usual = WithX();
  for (int run = 0; run < 60; ++run)
    (void)side.Run(usual);  // the weights have not changed for long
  const double made = Made();
  for (int time = 0; time < 4; ++time) {
    // More than there is beside the values.
    const int64_t bytes = (1 << 20) - side.session().quota().used() + 1;
    (void)side.engine().buffers().Create(side.session(), 100, static_cast<uint64_t>(bytes), "");
    side.Free(100);
    for (int run = 0; run < 10; ++run) {
      (void)side.Run(usual);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a making would end meanwhile
    }
  }
  EXPECT_LE(Made(), made + 2);  // after 6 and 12 runs
}

// The limit of a client's sessions together: the kept values of one of them make room for another.
TEST(KeptRuns, GiveWayToAnotherSessionOfTheClient) {
  Side side("16MiB", "64MiB", {}, "1MiB");
  WriteAll(side);
  ASSERT_TRUE(RunsUntilUsed(side));
  const uint64_t dropped = metrics::KeptDropped().value();
  const SessionUse other = *side.engine().sessions().Open(std::chrono::minutes(1), {});
  const int64_t left = (1 << 20) - side.session().quota().used();
  const absl::Status made =
      side.engine().buffers().Create(*other, 1, static_cast<uint64_t>(left), "");
  EXPECT_TRUE(made.ok()) << StatusText(made);
  EXPECT_EQ(metrics::KeptDropped().value(), dropped + 1);
}

// So they do if a device has less memory than the limits allow.
TEST(KeptRuns, GiveWayWhenADeviceIsFull) {
  Side side("16MiB", "64MiB", {}, "64MiB", 1 << 20);
  WriteAll(side);
  ASSERT_TRUE(RunsUntilUsed(side));
  const uint64_t dropped = metrics::KeptDropped().value();
  // The values take 24,960 bytes.
  const int64_t left = (1 << 20) - side.session().quota().used() + 20'000;
  const absl::Status made =
      side.engine().buffers().Create(side.session(), 100, static_cast<uint64_t>(left), "");
  EXPECT_TRUE(made.ok()) << StatusText(made);
  EXPECT_EQ(metrics::KeptDropped().value(), dropped + 1);
}

TEST(KeptRuns, KeepsNothingIfItMayNot) {
  const double before = Made();
  Side side("0");
  WriteAll(side);
  for (int i = 0; i < 20; ++i) (void)side.Run(Usual());
  Side small("1000");
  WriteAll(small);
  for (int i = 0; i < 20; ++i) (void)small.Run(Usual());
  EXPECT_EQ(Made(), before);
}

// The limit is one of all programs of the session: the values of the other program make room.
TEST(KeptRuns, TwoProgramsShareTheLimit) {
  Side side("30000");  // the values of one program take 24,960 bytes
  WriteAll(side);
  const double before = metrics::ClientBytes({"kept"}).value();
  for (const double factor : {0.5, 0.25, 0.5}) {
    side.Use(Layer(factor));
    ASSERT_TRUE(RunsUntilUsed(side)) << factor;
    EXPECT_LE(metrics::ClientBytes({"kept"}).value() - before, 30000) << factor;
  }
}

// Calls with the same arguments, other buffers, data for read and written slots, one buffer for two
// slots, frees and writes between them: each as likely after values were kept as before.
TEST(KeptRuns, RandomCallsGiveTheSameResults) {
  const auto rounds = static_cast<int>(uopd::test::FromEnvironment("UOPD_FUZZ_KEPT", 6));
  std::mt19937 random(static_cast<unsigned>(uopd::test::FromEnvironment("UOPD_FUZZ_SEED", 1)));
  double used = 0;
  for (int round = 0; round < rounds; ++round) {
    Side keeps("16MiB"), forgets("0");
    for (Side* side : {&keeps, &forgets}) WriteAll(*side);
    ASSERT_TRUE(RunsUntilUsed(keeps));
    for (Side* side : {&keeps, &forgets}) WriteAll(*side);  // the state has changed
    const double before = Used();
    std::vector<Argument> arguments = Usual();
    std::vector<std::string> data(kLayerSlots);
    for (int step = 0; step < 120; ++step) {
      const unsigned what = random() % 24;
      const size_t slot = random() % kResult;
      const auto seed = static_cast<int>(random() % 1000);
      const bool also_other = random() % 2 == 0;
      for (Side* side : {&keeps, &forgets}) {
        if (what == 0) side->Write(slot + 1, slot, seed);
        if (what == 1) {
          // The same bytes again: another version with equal contents.
          side->Write(2, kW, 1);
        }
        if (what == 2) {
          side->Write(slot + 20, slot, seed);
          side->Free(slot + 20);
        }
        if (what == 3) {
          side->Free(slot + 1);
          side->Write(slot + 1, slot, seed);
        }
        if (what == 4) side->Write(slot + 10, slot, seed);
      }
      if (what == 4) arguments[slot].buffer = slot + 10;
      if (what == 5) arguments = Usual();
      std::vector<Argument> call = arguments;
      if (what == 6) {
        data[slot] = Side::Bytes(slot, seed);
        call[slot].data = data[slot];
      }
      if (what == 7) {
        data[kX] = Side::Bytes(kX, seed);
        call[kX] = {.data = data[kX]};
      }
      if (what == 8) call[kState].buffer = call[kResult].buffer;  // an error
      if (what == 9) call[kW].buffer = 12345;                     // unknown
      call[kState].return_data = also_other;
      const std::string want = forgets.Run(call), got = keeps.Run(call);
      ASSERT_EQ(got.size(), want.size())
          << "round " << round << " step " << step << " call " << what << "\n"
          << got.substr(0, 300) << "\n"
          << want.substr(0, 300);
      ASSERT_TRUE(got == want) << "round " << round << " step " << step << " call " << what;
      // Now and then nothing changes for so long that values are kept.
      if (step % 20 != 0) continue;
      const double used_before = Used();
      const std::string x = Side::Bytes(kX, step);
      std::vector<Argument> usual = Usual();
      usual[kX] = {.data = x};
      EXPECT_TRUE(uopd::test::Eventually([&] {
        EXPECT_TRUE(keeps.Run(usual) == forgets.Run(usual))
            << "round " << round << " step " << step;
        return Used() > used_before + 2;
      }));
    }
    used += Used() - before;
  }
  EXPECT_GT(used, 20 * rounds) << "few of the runs used kept values";
}

// The main part does not use the weights, but a client may ask for them all the same.
TEST(KeptRuns, AReadSlotWhoseValueIsKeptCanBeReturned) {
  Side side("16MiB");
  WriteAll(side);
  ASSERT_TRUE(RunsUntilUsed(side));
  for (int i = 0; i < 4; ++i) {
    std::vector<Argument> arguments = Usual();
    arguments[kW].return_data = i % 2 == 0;
    arguments[kResult].return_data = false;
    const std::string got = side.Run(arguments);
    EXPECT_TRUE(got == (i % 2 == 0 ? Side::Bytes(kW, kW) : "")) << got.substr(0, 300);
  }
}

// What is kept on a lost device goes with it, and so does the code that made it.
TEST(LostKeptRunsTest, TheyAreMadeAgainOnTheDeviceThatWasOpenedAgain) {
  devices::RegistryOptions options{.devices = "NULL", .retry = std::chrono::milliseconds(0)};
  std::vector<std::shared_ptr<devices::null::NullDevice>> opened;
  options.open =
      [&](const devices::DeviceName&) -> absl::StatusOr<std::shared_ptr<devices::Device>> {
    return opened.emplace_back(devices::null::NullDevice::Open({}));
  };
  Config config;
  ASSERT_TRUE(config.Set("limits.session_kept_bytes", "16MiB", ConfigSource::kFlag).ok());
  ASSERT_TRUE(config.ResolveDefaults().ok());
  const auto engine = *Engine::Create(config, std::make_unique<CoreCompiler>(),
                                      std::make_unique<cache::Store>(16 << 20),
                                      *devices::Registry::Create(options), nullptr);
  const SessionUse session = *engine->sessions().Open(std::chrono::minutes(1), {});
  const std::string graph = Layer();
  const std::vector<Argument> arguments = Usual();
  const auto run = [&] {
    RequestContext request;
    ExecuteCall call;
    call.where = ExecuteCall::Where::kHere;
    call.wanted = engine->programs().Resolve({"", graph}, {});
    call.run.arguments = arguments;
    return Await<absl::StatusOr<ExecuteResult>>(
               [&](auto done) { engine->runs().Execute(request, *session, call, done); })
        .status();
  };
  const auto make_buffers = [&] {
    for (size_t slot = 0; slot < kLayerSlots; ++slot) {
      const auto bytes = static_cast<uint64_t>(kSlotElements[slot]) * 4;
      ASSERT_EQ(engine->buffers().Create(*session, slot + 1, bytes, ""), absl::OkStatus());
    }
  };
  const auto runs_with_kept_values = [&] {
    const uint64_t before = metrics::KeptRuns({"used"}).value();
    return uopd::test::Eventually([&] {
      EXPECT_EQ(run(), absl::OkStatus());
      return metrics::KeptRuns({"used"}).value() > before;
    });
  };
  make_buffers();
  ASSERT_TRUE(runs_with_kept_values());
  opened[0]->SetStatus(absl::UnavailableError("fell off the bus"));
  EXPECT_TRUE(absl::IsDataLoss(run()));
  EXPECT_EQ(session->quota().used(), 0);  // of the buffers and of the values
  const int64_t launches = opened[0]->launches();
  const uint64_t all[] = {1, 2, 3, 4, 5, 6};
  session->buffers().Free(all);
  make_buffers();
  EXPECT_TRUE(runs_with_kept_values());
  EXPECT_EQ(opened.size(), 2u);
  EXPECT_EQ(opened[0]->launches(), launches);
}

}  // namespace
}  // namespace uopd::engine
