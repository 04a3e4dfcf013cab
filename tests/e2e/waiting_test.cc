// SPDX-License-Identifier: MIT
// Calls that wait for a compile that does not end: how much of the daemon remains for others, and
// what the calls leave behind when their clients leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"
#include "tests/support/processes.h"

namespace uopd::e2e {
namespace {

using test::Eventually;
using test::Process;

// A kernel whose compiler is busy long enough to be stopped in the middle. Each salt gives another
// kernel.
std::string LongGraph(int salt) {
  ir::UOpContext ctx;
  const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{16});
  ir::UOp value = ir::Param(ctx, 1, ir::Dtype::F32, shape);
  for (int i = 0; i < 150; ++i) {
    value = ir::Alu(ctx, i % 2 == 0 ? ir::Op::EXP2 : ir::Op::LOG2, {value});
    value = ir::Add(ctx, value, ctx.Float(ir::Dtype::F32, salt + i / 256.0));
  }
  const ir::UOp store = ir::Store(ctx, ir::Param(ctx, 0, ir::Dtype::F32, shape), value);
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

// A call on a thread and a connection of its own, until its client leaves. On a busy machine a
// compile may end before the test has stopped its compiler; and StoppedCompilers makes a compile
// fail whose compiler it has stopped too often. In both cases the next graph follows.
class LongCall {
 public:
  LongCall(const DaemonProcess& daemon, int salt)
      : client_(daemon), thread_([this, salt] {
          for (int next = salt; CallOnce(next); next += 1000) {
          }
        }) {}
  ~LongCall() {
    if (thread_.joinable()) Leave();
  }
  grpc::StatusCode Leave() {
    {
      const std::lock_guard lock(mu_);
      left_ = true;
      if (context_ != nullptr) context_->TryCancel();
    }
    thread_.join();
    return status_.error_code();
  }

 private:
  // False once the client has left.
  bool CallOnce(int salt) {
    v1::PrepareRequest request;
    v1::PrepareResponse response;
    request.set_graph(LongGraph(salt));
    grpc::ClientContext context;
    {
      const std::lock_guard lock(mu_);
      if (left_) {
        status_ = grpc::Status::CANCELLED;
        return false;
      }
      context_ = &context;
    }
    status_ = client_.stub().Prepare(&context, request, &response);
    const std::lock_guard lock(mu_);
    context_ = nullptr;
    return !left_;
  }

  Client client_;
  std::mutex mu_;
  bool left_ = false;
  grpc::ClientContext* context_ = nullptr;  // of the call that is under way
  grpc::Status status_;
  std::thread thread_;
};

std::vector<Process> CompilersOf(pid_t daemon) {
  std::vector<Process> out;
  for (Process& process : test::Descendants(daemon)) {
    if (process.name == "uopd-compile" && process.state != 'Z') out.push_back(std::move(process));
  }
  return out;
}

// While this object lives, it stops every compiler in the middle of its work. The daemon replaces a
// stopped compiler after half a second or more and gives up after thirty of them, so no compile
// ends for fifteen seconds.
class StoppedCompilers {
 public:
  explicit StoppedCompilers(const DaemonProcess& daemon)
      : thread_([this, pid = daemon.pid()] {
          while (!end_) {
            for (const Process& compiler : CompilersOf(pid)) {
              if (compiler.cpu_ticks >= 3 && compiler.state != 'T') kill(compiler.pid, SIGSTOP);
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}
  ~StoppedCompilers() {
    end_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> end_{false};
  std::thread thread_;
};

class WaitingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    ASSERT_TRUE(client_.OpenSession().ok());
  }

  std::vector<Process> Compilers() const { return CompilersOf(daemon_.pid()); }
  bool BothCompilersAreStopped() const {
    return Eventually([&] {
      const auto compilers = Compilers();
      return compilers.size() == 2 && compilers[0].state == 'T' && compilers[1].state == 'T';
    });
  }
  bool NothingIsLeft() const {
    return Eventually([&] {
      for (const Process& compiler : Compilers()) {
        if (compiler.state == 'T') return false;
      }
      return daemon_.Metric("uopd_rpc_in_flight") == 0;
    });
  }
  grpc::Status Execute(const std::string& digest, int64_t n) {
    v1::ExecuteRequest request;
    v1::ExecuteResponse response;
    request.set_session_id(client_.session());
    request.set_digest(digest);
    const std::string zeros(static_cast<size_t>(4 * n), '\0');
    for (const v1::Argument& a : {Returned(), Data(zeros), Data(zeros)})
      *request.add_arguments() = a;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    return client_.stub().Execute(&context, request, &response);
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(), {"--compile-threads", "2", "--compile-warm-up=false"}};
  Client client_{daemon_};
};

TEST_F(WaitingTest, EndlessCompilesLeaveThreadsForWhatIsPrepared) {
  const std::string tiny = client_.Prepare(AddGraph(4)).digest();
  const std::string large = client_.Prepare(AddGraph(200'000)).digest();
  ASSERT_FALSE(tiny.empty() || large.empty());
  ASSERT_TRUE(Execute(tiny, 4).ok());
  ASSERT_TRUE(Execute(large, 200'000).ok());
  auto stopped = std::make_unique<StoppedCompilers>(daemon_);
  // More of them than the daemon has threads for requests; most wait for another one's compile.
  std::deque<LongCall> calls;
  for (int i = 0; i < 24; ++i) calls.emplace_back(daemon_, i % 4);
  ASSERT_TRUE(Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") == 24; }));
  ASSERT_TRUE(BothCompilersAreStopped());
  for (int i = 0; i < 20; ++i) {
    const grpc::Status small = Execute(tiny, 4), big = Execute(large, 200'000);
    ASSERT_TRUE(small.ok()) << small.error_message();
    ASSERT_TRUE(big.ok()) << big.error_message();
  }
  for (LongCall& call : calls) EXPECT_EQ(call.Leave(), grpc::StatusCode::CANCELLED);
  stopped.reset();
  EXPECT_TRUE(NothingIsLeft()) << daemon_.Metric("uopd_rpc_in_flight");
  // The places are free again.
  grpc::Status status;
  client_.Prepare(ScaleGraph(8, 3), &status);
  EXPECT_TRUE(status.ok()) << status.error_message();
  // No job has been blamed.
  EXPECT_EQ(daemon_.Metric("uopd_worker_kills_total{pool=\"compile\"}"), 0);
}

TEST_F(WaitingTest, TheLastToLeaveEndsTheCompile) {
  auto stopped = std::make_unique<StoppedCompilers>(daemon_);
  std::deque<LongCall> calls;
  for (int i = 0; i < 3; ++i) calls.emplace_back(daemon_, 7);
  ASSERT_TRUE(Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") == 3; }));
  ASSERT_TRUE(Eventually([&] { return !Compilers().empty(); }));
  calls.emplace_back(daemon_, 8);
  ASSERT_TRUE(BothCompilersAreStopped());
  EXPECT_EQ(calls[0].Leave(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(calls[1].Leave(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") == 2; }));
  EXPECT_TRUE(BothCompilersAreStopped());  // one still waits for each
  EXPECT_EQ(calls[2].Leave(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(calls[3].Leave(), grpc::StatusCode::CANCELLED);
  stopped.reset();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(WaitingTest, AStreamThatIsCancelledLeavesNothing) {
  Client other(daemon_);
  ASSERT_TRUE(other.OpenSession().ok());
  grpc::ClientContext context;
  auto stream = other.stub().Pipeline(&context);
  for (int i = 0; i < 2; ++i) {
    v1::PipelineRequest message;
    message.set_sequence(static_cast<uint64_t>(i) + 1);
    v1::ExecuteRequest& execute = *message.mutable_execute();
    execute.set_session_id(other.session());
    execute.set_graph(LongGraph(20 + i));
    for (const v1::Argument& a : {Returned(), Data(std::string(64, '\0'))})
      *execute.add_arguments() = a;
    ASSERT_TRUE(stream->Write(message));
  }
  LongCall beside(daemon_, 30);  // the other compiler's
  auto stopped = std::make_unique<StoppedCompilers>(daemon_);
  ASSERT_TRUE(BothCompilersAreStopped());
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(beside.Leave(), grpc::StatusCode::CANCELLED);
  stopped.reset();
  EXPECT_TRUE(NothingIsLeft());
}

// The daemon's own work for a late call ends as well.
TEST_F(WaitingTest, ADeadlineEndsTheCompile) {
  LongCall beside(daemon_, 40);
  auto stopped = std::make_unique<StoppedCompilers>(daemon_);
  grpc::StatusCode code = grpc::StatusCode::OK;
  // OK: the compile ended before its compiler was stopped.
  for (int salt = 41; code == grpc::StatusCode::OK && salt < 60; ++salt) {
    v1::PrepareRequest request;
    v1::PrepareResponse response;
    request.set_graph(LongGraph(salt));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(3));
    code = client_.stub().Prepare(&context, request, &response).error_code();
  }
  EXPECT_EQ(code, grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(beside.Leave(), grpc::StatusCode::CANCELLED);
  stopped.reset();
  EXPECT_TRUE(NothingIsLeft());
}

}  // namespace
}  // namespace uopd::e2e
