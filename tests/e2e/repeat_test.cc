// SPDX-License-Identifier: MIT
// Loops of a program on the daemon (RepeatRequest): their steps, ends, errors and repetitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"

namespace uopd::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Slot 0 [n] += the variable "by". Slot 1: whether slot 0 is not below slot 2. The sums are small
// integers, which f32 has exactly.
std::string CountGraph(int64_t n) {
  ir::UOpContext ctx;
  const auto slot = [&](int64_t number, ir::Dtype dtype) {
    return ir::Param(ctx, number, dtype, ir::ShapeArg(ctx, ir::Dims{n}));
  };
  const int64_t shape[] = {n}, one[] = {1};
  const ir::UOp by = ir::Cast(ctx, ir::Variable(ctx, "by", 0, 100), ir::Dtype::F32);
  const ir::UOp state = slot(0, ir::Dtype::F32);
  const ir::UOp next = ir::Add(ctx, state, ir::Expand(ctx, ir::Reshape(ctx, by, one), shape));
  const ir::UOp below = ir::Lt(ctx, next, slot(2, ir::Dtype::F32));
  const ir::UOp stores[] = {
      ir::Store(ctx, state, next),
      ir::Store(ctx, slot(1, ir::Dtype::I32), ir::Cast(ctx, ir::Not(ctx, below), ir::Dtype::I32))};
  return ir::Encode(ctx, ir::Sink(ctx, stores));
}

class RepeatTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kState = 1, kOver = 2, kLimit = 3;
  using Stream = grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>;

  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    ASSERT_TRUE(client_.OpenSession().ok());
    Open();
    Set(kState, 0);
    Set(kLimit, 1000);
  }
  void Open() {
    context_ = std::make_unique<grpc::ClientContext>();
    stream_ = client_.stub().Pipeline(context_.get());
  }
  void Set(uint64_t handle, float value) {
    ASSERT_TRUE(client_.Upload(handle, Bytes({value})).ok());
  }
  float State() {
    std::string bytes;
    EXPECT_TRUE(client_.Download(kState, &bytes).ok());
    return bytes.empty() ? -1 : Floats(bytes)[0];
  }
  v1::PipelineRequest Repeat(uint32_t steps, uint64_t first_id, int64_t by = 1,
                             int64_t stride = 0) {
    v1::PipelineRequest out;
    out.set_sequence(++sequence_);
    v1::RepeatRequest& repeat = *out.mutable_repeat();
    repeat.set_steps(steps);
    repeat.add_strides(stride);
    repeat.set_stop(1);
    v1::ExecuteRequest& execute = *repeat.mutable_execute();
    execute.set_session_id(client_.session());
    execute.set_graph(graph_);
    execute.set_request_id(first_id);
    execute.add_variables(by);
    *execute.add_arguments() = Returned(kState);
    *execute.add_arguments() = Returned(kOver);
    *execute.add_arguments() = Buffer(kLimit);
    return out;
  }
  // The states that the answers to a call have.
  std::vector<float> Answers(const v1::PipelineRequest& request) {
    EXPECT_TRUE(stream_->Write(request));
    std::vector<float> out;
    do {
      last_.Clear();
      if (!stream_->Read(&last_)) {
        ADD_FAILURE() << "the stream ended";
        return out;
      }
      EXPECT_EQ(last_.sequence(), request.sequence());
      if (last_.code() == 0 && !last_.stopped()) out.push_back(Floats(last_.execute().data(0))[0]);
    } while (last_.more());
    return out;
  }

  const std::string graph_ = CountGraph(1);
  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path()};
  Client client_{daemon_};
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<Stream> stream_;
  uint64_t sequence_ = 0;
  v1::PipelineResponse last_;
};

TEST_F(RepeatTest, AStepFindsWhatTheOneBeforeLeft) {
  EXPECT_THAT(Answers(Repeat(5, 10, 1, 2)), ElementsAre(1, 4, 9, 16, 25));
  EXPECT_EQ(State(), 25);
  EXPECT_THAT(Answers(Repeat(1, 20, 5)), ElementsAre(30));
}

TEST_F(RepeatTest, TheStepThatSetsItsStopIsTheLastOne) {
  Set(kLimit, 3);
  EXPECT_THAT(Answers(Repeat(1024, 10)), ElementsAre(1, 2, 3));
  EXPECT_EQ(State(), 3);
  // What was sent behind it is not run if it says so, and the next one is.
  v1::PipelineRequest behind = Repeat(4, 3000);
  behind.mutable_repeat()->set_unless_stopped(true);
  EXPECT_THAT(Answers(behind), IsEmpty());
  EXPECT_EQ(last_.code(), 0);
  EXPECT_TRUE(last_.stopped());
  EXPECT_EQ(State(), 3);
  EXPECT_THAT(Answers(Repeat(4, 4000)), ElementsAre(4));
}

TEST_F(RepeatTest, StepsThatRanAreAnsweredAgainAndTheOthersAreRun) {
  const v1::PipelineRequest first = Repeat(3, 10);
  EXPECT_THAT(Answers(first), ElementsAre(1, 2, 3));
  stream_->WritesDone();
  EXPECT_TRUE(stream_->Finish().ok());
  Open();
  // As a client that has the first answer alone, of a loop that the connection cut.
  v1::PipelineRequest again = Repeat(6, 10);
  again.mutable_repeat()->set_skip(1);
  EXPECT_THAT(Answers(again), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_EQ(State(), 6);
  EXPECT_THAT(Answers(again), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_EQ(State(), 6);
  // A step that ran does not hear of the stop that it or a later one set.
  Set(kLimit, 8);
  v1::PipelineRequest stopped = Repeat(9, 100);
  stopped.mutable_repeat()->set_unless_stopped(true);
  EXPECT_THAT(Answers(stopped), ElementsAre(7, 8));
  EXPECT_THAT(Answers(stopped), ElementsAre(7, 8));
  EXPECT_EQ(State(), 8);
}

TEST_F(RepeatTest, ACancelledLoopEndsAndItsStepsBeforeStayDone) {
  const auto cancel = [&](uint64_t first, uint32_t more) {
    grpc::ClientContext context;
    v1::CancelExecuteRequest request;
    request.set_session_id(client_.session());
    request.set_request_id(first);
    request.set_more(more);
    v1::CancelExecuteResponse response;
    return client_.stub().CancelExecute(&context, request, &response).error_code();
  };
  // Ids that have not arrived yet.
  EXPECT_EQ(cancel(13, 1020), grpc::StatusCode::OK);
  EXPECT_THAT(Answers(Repeat(1024, 10)), ElementsAre(1, 2, 3));
  EXPECT_EQ(last_.code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(State(), 3);
  EXPECT_EQ(cancel(10, 1024), grpc::StatusCode::INVALID_ARGUMENT);
  // A step that would run for days.
  v1::PipelineRequest endless;
  endless.set_sequence(++sequence_);
  endless.mutable_repeat()->set_steps(100);
  v1::ExecuteRequest& step = *endless.mutable_repeat()->mutable_execute();
  step.set_session_id(client_.session());
  step.set_graph(LongGraph(int64_t{1} << 40));
  step.set_request_id(5000);
  *step.add_arguments() = Buffer(9);
  ASSERT_TRUE(stream_->Write(endless));
  EXPECT_EQ(cancel(5000, 99), grpc::StatusCode::OK);
  v1::PipelineResponse answer;
  ASSERT_TRUE(stream_->Read(&answer));
  EXPECT_EQ(answer.code(), grpc::StatusCode::CANCELLED);
  EXPECT_FALSE(answer.more());
  EXPECT_THAT(Answers(Repeat(1, 6000)), ElementsAre(4));
}

TEST_F(RepeatTest, AnErrorNamesWhatIsWrongAndEndsTheLoop) {
  const auto refused = [&](const char* what, auto change) {
    v1::PipelineRequest request = Repeat(4, 0);
    change(*request.mutable_repeat());
    EXPECT_THAT(Answers(request), IsEmpty()) << what;
    EXPECT_EQ(last_.code(), grpc::StatusCode::INVALID_ARGUMENT) << last_.message();
    EXPECT_THAT(last_.message(), HasSubstr(what));
  };
  refused("steps (0)", [](v1::RepeatRequest& r) { r.set_steps(0); });
  refused("steps (1025)", [](v1::RepeatRequest& r) { r.set_steps(1025); });
  refused("skip (4)", [](v1::RepeatRequest& r) { r.set_skip(4); });
  refused("2 strides for 1 variables", [](v1::RepeatRequest& r) { r.add_strides(1); });
  refused("stop (3)", [](v1::RepeatRequest& r) { r.set_stop(3); });
  refused("stop: argument 2", [](v1::RepeatRequest& r) { r.set_stop(2); });
  refused("needs stop", [](v1::RepeatRequest& r) {
    r.clear_stop();
    r.set_unless_stopped(true);
  });
  refused("no buffer", [](v1::RepeatRequest& r) {
    r.set_unless_stopped(true);
    r.mutable_execute()->mutable_arguments(1)->clear_buffer();
  });
  EXPECT_EQ(State(), 0);
  // Within its bounds for two steps only: these stay done.
  EXPECT_THAT(Answers(Repeat(5, 10, 50, 50)), ElementsAre(50, 150));
  EXPECT_EQ(last_.code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(last_.message(), HasSubstr("by"));
  EXPECT_EQ(State(), 150);
  // A stride beyond all integers wraps, and the variable is out of its bounds.
  EXPECT_THAT(Answers(Repeat(3, 20, 1, INT64_MAX)), ElementsAre(151));
  EXPECT_EQ(last_.code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Answers(Repeat(2, 30)), ElementsAre(152, 153));
}

TEST_F(RepeatTest, AClientThatLeavesALoopLeavesADaemonThatServes) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(stream_->Write(Repeat(1024, static_cast<uint64_t>(10'000 * (i + 1)), 0)));
    v1::PipelineResponse answer;
    for (int k = 0; k < i; ++k) ASSERT_TRUE(stream_->Read(&answer));
    context_->TryCancel();
    Open();
  }
  EXPECT_THAT(Answers(Repeat(2, 7)), ElementsAre(1, 2));
  ExpectServes(daemon_);
}

}  // namespace
}  // namespace uopd::e2e
