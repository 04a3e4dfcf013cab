// SPDX-License-Identifier: MIT
#include "server/engine/compile/schedule/key_explainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "server/engine/base/not_found.h"
#include "server/engine/compile/schedule/schedule.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// slot 0 = 2 ** slot 1: shares little with a ScaleGraph.
std::string ExpGraph(int64_t n) {
  ir::UOpContext ctx;
  const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{n});
  const ir::UOp x = ir::Param(ctx, 1, ir::Dtype::F32, shape);
  const ir::UOp store =
      ir::Store(ctx, ir::Param(ctx, 0, ir::Dtype::F32, shape), ir::Alu(ctx, ir::Op::EXP2, {x}));
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

// As FakeCompiler and schedule_target.h write it.
std::string Environment(std::string_view device, int threads) {
  const schedule::KernelLimits limits;
  return Cat("fake default=", device, " threads=", threads, " kernel_buffers=", limits.max_buffers,
             " cache_bytes=", limits.cache_bytes, " kernel_instructions=", limits.max_instructions,
             " kernel_loops=", limits.max_loops, " factors=", limits.factors.bits(),
             " stage_bytes=", limits.stage_bytes, " units=", limits.units);
}

class KeyExplainerTest : public testing::Test {
 protected:
  KeyExplainerTest() { request_.caller.sees_all = true; }
  void Cache(const std::string& graph, std::string_view environment = "") {
    const Digest digest = HashBytes(graph);
    cache::Key key = ScheduleKey(digest, graph_compiler_, *OnlyScheduleTarget(devices_));
    if (!environment.empty())
      key = {"schedule", std::string(digest.view()), std::string(environment)};
    ASSERT_TRUE(store_.Put(key, "bytes", 1).ok());
    ASSERT_TRUE(store_.Put(GraphKey(digest.view()), graph, 1).ok());
  }
  KeyExplanation Explain(const GraphRef& a, const GraphRef& b = {}) {
    auto out = explainer_.Explain(request_, a, b);
    EXPECT_TRUE(out.ok()) << StatusText(out.status());
    return out.ok() ? *std::move(out) : KeyExplanation{};
  }

  FakeCompiler graph_compiler_;
  cache::Store store_{1 << 20};
  DeviceSet devices_{NullRegistry()};
  KeyExplainer explainer_{graph_compiler_, store_, devices_, {}};
  RequestContext request_;
};

TEST_F(KeyExplainerTest, AHitNeedsNoExplanation) {
  const std::string graph = ScaleGraph(4, 2);
  const Digest digest = HashBytes(graph);
  Cache(graph);
  for (const GraphRef& ref : {GraphRef{"", graph}, GraphRef{digest.view(), ""}}) {
    const KeyExplanation found = Explain(ref);
    EXPECT_TRUE(found.cached);
    EXPECT_FALSE(found.has_b);
    EXPECT_EQ(found.a, digest);
  }
}

TEST_F(KeyExplainerTest, AnEmptyCacheHasNothingNear) {
  const KeyExplanation found = Explain({"", ScaleGraph(4, 2)});
  EXPECT_FALSE(found.cached);
  EXPECT_FALSE(found.has_b);
  EXPECT_THAT(found.differences, SizeIs(0));
}

TEST_F(KeyExplainerTest, TheNearestEntryAndWhatDiffers) {
  Cache(ExpGraph(4));
  Cache(ScaleGraph(4, 3));
  Cache(ExpGraph(8));
  const KeyExplanation found = Explain({"", ScaleGraph(4, 2)});
  ASSERT_TRUE(found.has_b);
  EXPECT_EQ(found.b, HashBytes(ScaleGraph(4, 3)));
  EXPECT_EQ(found.similarity, 1);
  ASSERT_THAT(found.differences, SizeIs(1));
  EXPECT_EQ(found.differences[0].field, "value");
  EXPECT_EQ(found.differences[0].a, "{2}");
  EXPECT_EQ(found.differences[0].b, "{3}");
}

TEST_F(KeyExplainerTest, TheSameGraphInAnotherEnvironment) {
  Cache(ScaleGraph(4, 2), Cat(Environment("NULL:1", 4), " extra=1"));
  Cache(ScaleGraph(4, 3));
  const KeyExplanation found = Explain({"", ScaleGraph(4, 2)});
  EXPECT_FALSE(found.cached);
  EXPECT_EQ(found.a, found.b);
  ASSERT_THAT(found.differences, SizeIs(3));
  EXPECT_EQ(found.differences[0].field, "default");
  EXPECT_EQ(found.differences[0].a, "NULL:0");
  EXPECT_EQ(found.differences[0].b, "NULL:1");
  EXPECT_EQ(found.differences[1].field, "threads");
  EXPECT_EQ(found.differences[1].a, "1");
  EXPECT_EQ(found.differences[1].b, "4");
  EXPECT_EQ(found.differences[2].field, "extra");
  EXPECT_EQ(found.differences[2].a, "");
}

TEST_F(KeyExplainerTest, TwoGraphs) {
  const std::string a = ScaleGraph(4, 2), b = ScaleGraph(16, 2);
  EXPECT_THAT(Explain({"", a}, {"", a}).differences, SizeIs(0));
  const KeyExplanation found = Explain({"", a}, {"", b});
  EXPECT_EQ(found.b, HashBytes(b));
  ASSERT_THAT(found.differences, SizeIs(1));
  EXPECT_EQ(found.differences[0].a, "{4}");
  EXPECT_EQ(found.differences[0].b, "{16}");
}

TEST_F(KeyExplainerTest, UnknownDigestsAndBadGraphs) {
  const std::string graph = ScaleGraph(4, 2);
  EXPECT_EQ(MissingKind(explainer_.Explain(request_, {HashBytes(graph).view(), ""}, {}).status()),
            kProgram);
  EXPECT_TRUE(absl::IsInvalidArgument(explainer_.Explain(request_, {"short", ""}, {}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(explainer_.Explain(request_, {"", "noise"}, {}).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(explainer_.Explain(request_, {"", graph}, {"", "noise"}).status()));
}

// The nearest entry may be of anybody: who may not see all gets what he has sent, and whether that
// is cached.
TEST_F(KeyExplainerTest, OthersDoNotGetTheNearestEntry) {
  const std::string own = ScaleGraph(4, 2), secret = ScaleGraph(4, 3);
  Cache(secret);
  request_.caller = {.tenant = "bob"};
  const KeyExplanation found = Explain({"", own});
  EXPECT_FALSE(found.cached);
  EXPECT_TRUE(found.search_refused);
  EXPECT_FALSE(found.has_b);
  EXPECT_EQ(found.similarity, 0);
  EXPECT_THAT(found.differences, SizeIs(0));
  EXPECT_THAT(Explain({"", own}, {"", ScaleGraph(4, 5)}).differences, SizeIs(1));
  Cache(own);
  EXPECT_TRUE(Explain({"", own}).cached);
  EXPECT_FALSE(Explain({"", own}).search_refused);
  // Only the search finds this graph, because the cache has it for another environment. So a tenant
  // is not told of it.
  Cache(ScaleGraph(8, 2), Environment("NULL:1", 4));
  EXPECT_TRUE(Explain({"", ScaleGraph(8, 2)}).search_refused);
}

// Every phase of the work looks whether anybody still waits for it.
TEST_F(KeyExplainerTest, EndsWhenItsCallerLeaves) {
  constexpr int kLeastLooks = 6;
  const std::string graph = ScaleGraph(4, 2), other = ExpGraph(4);
  Cache(other);
  const auto looks_until_done = [&](const GraphRef& b) {
    for (int looks = 1;; ++looks) {
      int look = 0;
      request_.cancelled = [&] { return ++look >= looks; };
      const absl::Status status = explainer_.Explain(request_, {"", graph}, b).status();
      if (status.ok()) return looks;
      EXPECT_TRUE(absl::IsCancelled(status)) << status;
      EXPECT_EQ(look, looks);
    }
  };
  EXPECT_GT(looks_until_done({"", other}), kLeastLooks);
  EXPECT_GT(looks_until_done({}), kLeastLooks);
  // The search looks again at entries that it had not finished when a caller left.
  request_.cancelled = nullptr;
  EXPECT_EQ(Explain({"", graph}).b, HashBytes(other));
  request_.deadline = RequestContext::Clock::now() - std::chrono::seconds(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(explainer_.Explain(request_, {"", graph}, {}).status()));
}

// What a daemon writes about its misses.
class MissLogTest : public KeyExplainerTest {
 protected:
  MissLogTest() { EXPECT_TRUE(OpenLogFile(path_).ok()); }
  ~MissLogTest() override {
    SetLogLevel(LogLevel::kInfo);
    EXPECT_TRUE(OpenLogFile("").ok());
    std::filesystem::remove(path_);
  }
  // The lines of preparing a graph.
  std::string Prepare(const std::string& graph) {
    std::filesystem::resize_file(path_, 0);
    RequestContext request;
    const auto made = WaitForProgram(service_, request, {"", graph}, {});
    EXPECT_TRUE(made.ok()) << StatusText(made.status());
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string path_ = Cat(testing::TempDir(), "/miss_log_", getpid());
  TaskPool task_pool_{2, SIZE_MAX};
  CompileService service_{
      {.lease = {.owner = "test"}, .repro_folder = "", .limits = {}, .explainer = &explainer_},
      graph_compiler_,
      store_,
      devices_,
      task_pool_};
};

TEST_F(MissLogTest, SaysWhatDiffersFromTheNearestEntry) {
  SetLogLevel(LogLevel::kDebug);
  const std::string a = ScaleGraph(4, 2), b = ScaleGraph(4, 3);
  EXPECT_THAT(Prepare(a), HasSubstr(Cat("level=debug msg=\"schedule is not cached\" digest=",
                                        HashBytes(a).Hex(), " nearest=none")));
  EXPECT_EQ(Prepare(a), "");  // it is in memory
  EXPECT_THAT(Prepare(b), HasSubstr(Cat("digest=", HashBytes(b).Hex(),
                                        " nearest=", HashBytes(a).Hex(), " alike=1 at=")));
  Cache(ScaleGraph(8, 2), Environment("NULL:0", 4));
  EXPECT_THAT(Prepare(ScaleGraph(8, 2)),
              HasSubstr("at=environment field=threads wanted=1 cached=4 differences=1"));
}

TEST_F(MissLogTest, NothingAboveLevelDebug) {
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(Prepare(ScaleGraph(4, 2)), "");
}

// An entry whose graph is gone, or is none (another version's, say), is passed over.
TEST_F(KeyExplainerTest, EntriesWithoutGraphs) {
  ASSERT_TRUE(store_.Put({"schedule", "gone", "fake"}, "bytes", 1).ok());
  ASSERT_TRUE(store_.Put({"schedule", "noise", "fake"}, "bytes", 1).ok());
  ASSERT_TRUE(store_.Put(GraphKey("noise"), "no graph", 1).ok());
  Cache(ScaleGraph(4, 3));
  EXPECT_EQ(Explain({"", ScaleGraph(4, 2)}).b, HashBytes(ScaleGraph(4, 3)));
}

}  // namespace
}  // namespace uopd::engine
