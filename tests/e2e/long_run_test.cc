// SPDX-License-Identifier: MIT
// Kernels that would run for days: who may stop them, and what they must not hold up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <deque>
#include <thread>

#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using grpc::StatusCode;
using test::Eventually;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kDays = int64_t{1} << 40;

// Execute of one slot, with a deadline.
grpc::Status ExecuteFor(Client& client, const std::string& graph, uint64_t request_id,
                        std::chrono::milliseconds time, v1::ExecuteResponse* response) {
  v1::ExecuteRequest request;
  request.set_session_id(client.session());
  request.set_request_id(request_id);
  request.set_graph(graph);
  *request.add_arguments() = Returned();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + time);
  return client.stub().Execute(&context, request, response);
}

class LongRunTest : public ::testing::Test {
 protected:
  LongRunTest() { EXPECT_TRUE(client_.OpenSession().ok()); }
  bool Idle() {
    return Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") == 0; });
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(), {"--server-drain-timeout-ms=100ms"}};
  Client client_{daemon_};
};

TEST_F(LongRunTest, AClientThatLeavesFreesTheDevice) {
  client_.Prepare(LongGraph(kDays));
  v1::ExecuteResponse response;
  const grpc::Status status =
      ExecuteFor(client_, LongGraph(kDays), 0, std::chrono::milliseconds(300), &response);
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Idle()) << daemon_.Log();
  ExpectServes(daemon_);
}

// Calls that wait behind a run of their own session, or behind runs of others because no thread is
// free. A call that waits ends with its client. It does not wait for the end of what is ahead.
TEST_F(LongRunTest, WhatWaitsEndsAtItsDeadline) {
  client_.Prepare(LongGraph(kDays));
  constexpr int kRuns = 40;  // more than there are threads
  std::deque<Client> clients;
  std::deque<grpc::ClientContext> contexts(kRuns);
  std::vector<std::thread> runs;
  for (int i = 0; i < kRuns; ++i) {
    Client& client = i == 0 ? client_ : clients.emplace_back(daemon_);
    if (i > 0) {
      ASSERT_TRUE(client.OpenSession().ok());
    }
    runs.emplace_back([&client, &context = contexts[static_cast<size_t>(i)]] {
      v1::ExecuteRequest request;
      request.set_session_id(client.session());
      request.set_graph(LongGraph(kDays));
      *request.add_arguments() = Returned();
      v1::ExecuteResponse response;
      EXPECT_EQ(client.stub().Execute(&context, request, &response).error_code(),
                StatusCode::CANCELLED);
    });
  }
  EXPECT_TRUE(Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") == kRuns; }));
  const auto ends = [&](const char* what, const auto& call) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    EXPECT_EQ(call(context).error_code(), StatusCode::DEADLINE_EXCEEDED) << what;
    EXPECT_TRUE(Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") <= kRuns; })) << what;
  };
  Client other(daemon_);
  ASSERT_TRUE(other.OpenSession().ok());
  for (Client* client : {&client_, &other}) {
    v1::ExecuteRequest execute;
    execute.set_session_id(client->session());
    execute.set_graph(LongGraph(kDays));
    *execute.add_arguments() = Returned();
    ends("Execute", [&](grpc::ClientContext& context) {
      v1::ExecuteResponse response;
      return client->stub().Execute(&context, execute, &response);
    });
    ends("Pipeline", [&](grpc::ClientContext& context) {
      v1::PipelineRequest message;
      *message.mutable_execute() = execute;
      const auto stream = client->stub().Pipeline(&context);
      stream->Write(message);
      v1::PipelineResponse response;
      while (stream->Read(&response)) {
      }
      return stream->Finish();
    });
  }
  ends("Run", [&](grpc::ClientContext& context) {
    v1::RunRequest request;
    request.set_graph(LongGraph(kDays));
    *request.add_arguments() = Returned();
    v1::RunResponse response;
    return other.stub().Run(&context, request, &response);
  });
  ends("Upload", [&](grpc::ClientContext& context) {
    v1::UploadRequest message;
    message.set_session_id(client_.session());
    message.mutable_buffer()->set_handle(5);
    message.mutable_buffer()->set_bytes(4);
    message.set_data("abcd");
    v1::UploadResponse response;
    const auto stream = client_.stub().Upload(&context, &response);
    stream->Write(message);
    stream->WritesDone();
    return stream->Finish();
  });
  ends("Download", [&](grpc::ClientContext& context) {
    v1::DownloadRequest request;
    request.set_session_id(client_.session());
    request.set_handle(5);
    const auto stream = client_.stub().Download(&context, request);
    v1::DownloadResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  });
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (std::thread& run : runs) run.join();
  EXPECT_TRUE(Idle());
  ExpectServes(daemon_);
}

TEST_F(LongRunTest, ARunWithAnIdGoesOnWithoutItsClientAndIsNotRunTwice) {
  const std::string graph = LongGraph(int64_t{1} << 26);
  client_.Prepare(graph);
  v1::ExecuteResponse once, again;
  ASSERT_TRUE(ExecuteFor(client_, graph, 0, std::chrono::minutes(2), &once).ok());
  const double runs = daemon_.Metric("uopd_kernel_duration_seconds_count{device=\"CPU:0\"}");
  // Long enough to begin, too short to end. If the machine is so quick that the run does end, the
  // repetition is answered from the first run too.
  (void)ExecuteFor(client_, graph, 7, std::chrono::milliseconds(20), &again);
  const grpc::Status status = ExecuteFor(client_, graph, 7, std::chrono::minutes(2), &again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.data(0), once.data(0));
  EXPECT_EQ(daemon_.Metric("uopd_kernel_duration_seconds_count{device=\"CPU:0\"}"), runs + 1);
}

TEST_F(LongRunTest, AnIdCanBeCancelled) {
  client_.Prepare(LongGraph(kDays));
  grpc::Status status;
  std::thread run([&] {
    v1::ExecuteResponse response;
    status = ExecuteFor(client_, LongGraph(kDays), 9, std::chrono::minutes(2), &response);
  });
  EXPECT_TRUE(Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") == 1; }));
  v1::CancelExecuteRequest request;
  request.set_session_id(client_.session());
  v1::CancelExecuteResponse response;
  grpc::ClientContext none, context;
  EXPECT_EQ(client_.stub().CancelExecute(&none, request, &response).error_code(),
            StatusCode::INVALID_ARGUMENT);
  request.set_request_id(9);
  EXPECT_TRUE(client_.stub().CancelExecute(&context, request, &response).ok());
  run.join();
  EXPECT_EQ(status.error_code(), StatusCode::CANCELLED) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("request id (9)"));
  ExpectServes(daemon_);
}

TEST_F(LongRunTest, AnIdThatWaitsForItsTurnCanBeCancelled) {
  client_.Prepare(LongGraph(kDays));
  grpc::Status ahead, waits;
  const auto run = [&](uint64_t id, grpc::Status* status) {
    return std::thread([this, id, status] {
      v1::ExecuteResponse response;
      *status = ExecuteFor(client_, LongGraph(kDays), id, std::chrono::minutes(2), &response);
    });
  };
  const auto cancel = [&](uint64_t id) {
    v1::CancelExecuteRequest request;
    request.set_session_id(client_.session());
    request.set_request_id(id);
    v1::CancelExecuteResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(client_.stub().CancelExecute(&context, request, &response).ok());
  };
  std::thread first = run(9, &ahead);
  EXPECT_TRUE(Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") == 1; }));
  std::thread second = run(10, &waits);
  EXPECT_TRUE(Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") == 2; }));
  cancel(10);
  second.join();
  EXPECT_EQ(waits.error_code(), StatusCode::CANCELLED) << waits.error_message();
  EXPECT_THAT(waits.error_message(), HasSubstr("request id (10)"));
  EXPECT_EQ(daemon_.Metric("uopd_rpc_in_flight"), 1) << "the call ahead goes on";
  cancel(9);
  first.join();
  ExpectServes(daemon_);
}

TEST_F(LongRunTest, AnIdOfAPipelineCanBeCancelled) {
  client_.Prepare(LongGraph(kDays));
  v1::PipelineRequest message;
  v1::ExecuteRequest& execute = *message.mutable_execute();
  execute.set_session_id(client_.session());
  execute.set_request_id(9);
  execute.set_graph(LongGraph(kDays));
  *execute.add_arguments() = Returned();
  grpc::ClientContext context;
  const auto stream = client_.stub().Pipeline(&context);
  ASSERT_TRUE(stream->Write(message));
  // A request that has not begun can be cancelled too: its id stays cancelled.
  v1::CancelExecuteRequest cancel;
  cancel.set_session_id(client_.session());
  cancel.set_request_id(9);
  v1::CancelExecuteResponse cancelled;
  grpc::ClientContext other;
  EXPECT_TRUE(client_.stub().CancelExecute(&other, cancel, &cancelled).ok());
  v1::PipelineResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.code(), StatusCode::CANCELLED) << answer.message();
  EXPECT_THAT(answer.message(), HasSubstr("request id (9)"));
  // The stream goes on.
  message.mutable_execute()->set_request_id(0);
  message.mutable_execute()->set_graph(LongGraph(1 << 10));
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.code(), StatusCode::OK) << answer.message();
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(LongRunTest, TheProcessEndsWhateverRuns) {
  client_.Prepare(LongGraph(kDays));
  std::vector<std::thread> runs;
  for (int i = 0; i < 4; ++i) {
    runs.emplace_back([this] {
      Client client(daemon_);
      const grpc::Status opened = client.OpenSession();
      EXPECT_TRUE(opened.ok()) << opened.error_code() << " " << opened.error_message();
      v1::ExecuteResponse response;
      const grpc::Status status =
          ExecuteFor(client, LongGraph(kDays), 1, std::chrono::minutes(2), &response);
      EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
    });
  }
  EXPECT_TRUE(Eventually([&] { return daemon_.Metric("uopd_rpc_in_flight") == 4; }));
  const auto begin = std::chrono::steady_clock::now();
  daemon_.Signal(SIGTERM);
  EXPECT_THAT(daemon_.Wait(), AnyOf(3, 4)) << daemon_.Log();
  // 2.1 s on a machine with nothing else to do; the runs would take days.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  for (std::thread& run : runs) run.join();
}

TEST(RunLimitTest, ARunThatTakesTooLongSaysSo) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--limits-run-ms=200ms"});
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  v1::ExecuteResponse response;
  const grpc::Status status =
      ExecuteFor(client, LongGraph(int64_t{1} << 36), 0, std::chrono::minutes(2), &response);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("limits.run_ms (200 ms)"));
  EXPECT_THAT(status.error_message(), HasSubstr("kernel r_"));
  const grpc::Status refused =
      ExecuteFor(client, LongGraph(int64_t{1} << 45), 0, std::chrono::minutes(2), &response);
  EXPECT_EQ(refused.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("at least"));
  ExpectServes(daemon);
}

}  // namespace
}  // namespace uopd::e2e
