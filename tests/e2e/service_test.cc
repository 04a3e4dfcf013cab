// SPDX-License-Identifier: MIT
// The calls of UopdService against a daemon: what they do, and what they answer to wrong requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/digest.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using grpc::StatusCode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    ASSERT_TRUE(client_.OpenSession().ok());
  }
  std::string DigestOf(const std::string& graph) { return std::string(HashBytes(graph).view()); }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(), {"--session-ttl-ms=1s", "--session-grace-ms=100ms"}};
  Client client_{daemon_};
};

TEST_F(ServiceTest, HelloNamesDevicesAndLimits) {
  grpc::ClientContext context;
  v1::HelloRequest request;
  request.set_api_version_min(1);
  request.set_api_version_max(3);
  v1::HelloResponse response;
  ASSERT_TRUE(client_.stub().Hello(&context, request, &response).ok());
  EXPECT_EQ(response.api_version(), 1u);
  EXPECT_EQ(response.ir_version(), 1u);
  ASSERT_EQ(response.devices_size(), 1);
  EXPECT_EQ(response.devices(0).name(), "CPU:0");
  EXPECT_EQ(response.devices(0).unavailable_reason(), "");
  EXPECT_EQ(response.limits().max_chunk_bytes(), 1u << 20);
  EXPECT_THAT(response.server(), HasSubstr("uopd "));
}

TEST_F(ServiceTest, HelloRefusesVersionsThatItDoesNotSpeak) {
  v1::HelloResponse response;
  v1::HelloRequest newer;
  newer.set_api_version_min(2);
  newer.set_api_version_max(3);
  grpc::ClientContext context;
  EXPECT_EQ(client_.stub().Hello(&context, newer, &response).error_code(),
            StatusCode::FAILED_PRECONDITION);
  v1::HelloRequest other_ir;
  other_ir.set_ir_version(99);
  grpc::ClientContext second;
  EXPECT_EQ(client_.stub().Hello(&second, other_ir, &response).error_code(),
            StatusCode::FAILED_PRECONDITION);
}

TEST_F(ServiceTest, UploadsAndDownloadsInChunks) {
  std::string data(3 * (1 << 20) + 7, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31 >> 3);
  ASSERT_TRUE(client_.Upload(5, data).ok());
  std::string back;
  ASSERT_TRUE(client_.Download(5, &back).ok());
  EXPECT_EQ(back, data);
  ASSERT_TRUE(client_.Download(5, &back, 1'000'000, 2'000'000).ok());
  EXPECT_EQ(back, data.substr(1'000'000, 2'000'000));
}

TEST_F(ServiceTest, NewBuffersAreZero) {
  ASSERT_TRUE(client_.Upload(1, std::string(4096, 'x')).ok());
  grpc::ClientContext context;
  v1::FreeBuffersRequest request;
  request.set_session_id(client_.session());
  request.add_handles(1);
  v1::FreeBuffersResponse response;
  ASSERT_TRUE(client_.stub().FreeBuffers(&context, request, &response).ok());
  ASSERT_TRUE(client_.Create(2, 4096).ok());
  std::string back;
  ASSERT_TRUE(client_.Download(2, &back).ok());
  EXPECT_THAT(back, Each('\0'));
  const grpc::Status freed = client_.Download(1, &back);
  EXPECT_EQ(freed.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(MissingOf(freed), "buffer");
}

TEST_F(ServiceTest, RefusesBadUploadsAndDownloads) {
  ASSERT_TRUE(client_.Create(1, 100).ok());
  EXPECT_EQ(client_.Create(1, 100).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_.Create(0, 100).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_.Create(2, 100, "TPU").error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_.Create(2, 100, "CPU:7").error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_.Upload(1, std::string(101, 'x')).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_.Upload(3, std::string((1 << 20) + 1, 'x'), (1 << 20) + 1).error_code(),
            StatusCode::INVALID_ARGUMENT);
  std::string back;
  EXPECT_EQ(client_.Download(1, &back, 50, 51).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_.Download(1, &back, 101).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_.Download(1, &back, UINT64_MAX, UINT64_MAX).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, TheGraphTravelsOnlyWhenTheDigestIsUnknown) {
  const std::string graph = AddGraph(16);
  const std::string digest = DigestOf(graph);
  const std::vector<v1::Argument> arguments = {Returned(),
                                               Data(Bytes(std::vector<float>(16, 1.5f))),
                                               Data(Bytes(std::vector<float>(16, 2)))};
  const Executed unknown = client_.Execute(digest, "", arguments);
  EXPECT_EQ(unknown.status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(MissingOf(unknown.status), "program");

  const Executed cold = client_.Execute(digest, graph, arguments);
  ASSERT_TRUE(cold.status.ok()) << cold.status.error_message();
  EXPECT_THAT(Floats(cold.response.data(0)), Each(3.5f));
  EXPECT_EQ(cold.response.cache().schedule(), v1::CACHE_RESULT_MISS);
  EXPECT_EQ(cold.response.cache().kernels_compiled(), 1u);
  EXPECT_GT(cold.response.timings().compile_us(), 0);

  const Executed warm = client_.Execute(digest, "", arguments);
  ASSERT_TRUE(warm.status.ok()) << warm.status.error_message();
  EXPECT_THAT(Floats(warm.response.data(0)), Each(3.5f));
  EXPECT_EQ(warm.response.cache().schedule(), v1::CACHE_RESULT_MEMORY);
  EXPECT_EQ(warm.response.timings().compile_us(), 0);
}

TEST_F(ServiceTest, ADigestMustBeThatOfItsGraph) {
  const Executed wrong = client_.Execute(DigestOf("something else"), AddGraph(4), {});
  EXPECT_EQ(wrong.status.error_code(), StatusCode::INVALID_ARGUMENT);
  const Executed cut = client_.Execute("short", "", {});
  EXPECT_EQ(cut.status.error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, BuffersStayBetweenCalls) {
  ASSERT_TRUE(client_.Upload(1, Bytes({1, 2, 3, 4})).ok());
  const std::string graph = AddGraph(4);
  // Makes buffer 7, then adds it to itself in place.
  ASSERT_TRUE(client_.Execute("", graph, {Buffer(7), Buffer(1), Buffer(1)}).status.ok());
  const Executed twice = client_.Execute("", graph, {Returned(7), Buffer(7), Buffer(7)});
  ASSERT_TRUE(twice.status.ok()) << twice.status.error_message();
  EXPECT_THAT(Floats(twice.response.data(0)), ElementsAre(4, 8, 12, 16));
  std::string back;
  ASSERT_TRUE(client_.Download(7, &back).ok());
  EXPECT_THAT(Floats(back), ElementsAre(4, 8, 12, 16));
}

TEST_F(ServiceTest, InputsAreReadBeforeTheSameBufferIsWritten) {
  ASSERT_TRUE(client_.Upload(1, Bytes({1, 2, 3, 4, 5})).ok());
  const Executed run = client_.Execute("", FlipGraph(5), {Returned(1), Buffer(1)});
  ASSERT_TRUE(run.status.ok()) << run.status.error_message();
  EXPECT_THAT(Floats(run.response.data(0)), ElementsAre(5, 4, 3, 2, 1));
}

TEST_F(ServiceTest, ARepeatedRequestIsAnsweredAndNotRunAgain) {
  const std::string graph = AddGraph(2);
  ASSERT_TRUE(client_.Upload(1, Bytes({1, 1})).ok());
  const std::vector<v1::Argument> increment = {Returned(1), Buffer(1), Data(Bytes({1, 1}))};
  for (int i = 0; i < 3; ++i) {
    const Executed run = client_.Execute("", graph, increment, 77);
    ASSERT_TRUE(run.status.ok()) << run.status.error_message();
    EXPECT_THAT(Floats(run.response.data(0)), ElementsAre(2, 2));
  }
  EXPECT_THAT(Floats(client_.Execute("", graph, increment, 78).response.data(0)),
              ElementsAre(3, 3));
  EXPECT_EQ(client_.Execute("", ScaleGraph(2, 3), {}, 77).status.error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, WrongArgumentsNameTheSlot) {
  const std::string graph = AddGraph(4);
  const v1::Argument good = Data(Bytes({1, 2, 3, 4}));
  const auto expect_wrong = [&](std::vector<v1::Argument> arguments, const std::string& text,
                                StatusCode code = StatusCode::INVALID_ARGUMENT) {
    const Executed run = client_.Execute("", graph, arguments);
    EXPECT_EQ(run.status.error_code(), code) << text;
    EXPECT_THAT(run.status.error_message(), HasSubstr(text));
  };
  expect_wrong({Returned(), good}, "slot 2");
  expect_wrong({Returned(), good, Data("123")}, "slot 2");
  expect_wrong({Returned(), Buffer(99), good}, "slot 1", StatusCode::NOT_FOUND);
  ASSERT_TRUE(client_.Create(3, 17).ok());
  expect_wrong({Returned(), good, Buffer(3)}, "slot 2");
  expect_wrong({Buffer(3), good, good}, "slot 0");
  expect_wrong({Returned(), good, good, good}, "4 arguments");
  // Nothing was made on the way.
  std::string back;
  EXPECT_EQ(client_.Execute("", graph, {Buffer(50), good, Data("1")}).status.error_code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_.Download(50, &back).error_code(), StatusCode::NOT_FOUND);
}

TEST_F(ServiceTest, ValuesForVariablesThatAreNotThereAreRefused) {
  grpc::ClientContext context;
  v1::RunRequest request;
  request.set_graph(AddGraph(1));
  request.add_variables(3);
  v1::RunResponse response;
  EXPECT_EQ(client_.stub().Run(&context, request, &response).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, RunNeedsNoSession) {
  grpc::ClientContext context;
  v1::RunRequest request;
  request.set_graph(ScaleGraph(3, 2.5));
  *request.add_arguments() = Returned();
  *request.add_arguments() = Data(Bytes({2, 4, 6}));
  v1::RunResponse response;
  const grpc::Status status = client_.stub().Run(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(Floats(response.data(0)), ElementsAre(5, 10, 15));
  EXPECT_EQ(response.digest(), DigestOf(request.graph()));
}

TEST_F(ServiceTest, PrepareGivesTheSignature) {
  const v1::PrepareResponse prepared = client_.Prepare(AddGraph(16));
  EXPECT_EQ(prepared.digest(), DigestOf(AddGraph(16)));
  const v1::Signature& signature = prepared.signature();
  ASSERT_EQ(signature.slots_size(), 3);
  EXPECT_TRUE(signature.slots(0).written());
  EXPECT_TRUE(signature.slots(1).read());
  EXPECT_FALSE(signature.slots(2).written());
  EXPECT_EQ(signature.slots(2).bytes(), 64u);
  EXPECT_EQ(signature.slots(2).device(), "CPU:0");
  EXPECT_THAT(signature.slots(2).dims(), ElementsAre(16));
  EXPECT_EQ(signature.kernels(), 1u);
}

TEST_F(ServiceTest, UnknownSessionsAreNotFound) {
  Client stranger(daemon_);
  const Executed run = stranger.Execute("", AddGraph(1), {});
  EXPECT_EQ(run.status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(MissingOf(run.status), "session");
  grpc::ClientContext context;
  v1::GetProgressRequest request;
  request.set_session_id("none");
  v1::GetProgressResponse response;
  EXPECT_EQ(stranger.stub().GetProgress(&context, request, &response).error_code(),
            StatusCode::NOT_FOUND);
}

TEST_F(ServiceTest, SessionsExpireAndFreeTheirBuffers) {
  ASSERT_TRUE(client_.Upload(1, std::string(1 << 16, 'x')).ok());
  EXPECT_EQ(daemon_.Metric("uopd_sessions"), 1);
  EXPECT_EQ(daemon_.Metric("uopd_buffers_bytes{device=\"CPU:0\"}"), 1 << 16);
  while (daemon_.Metric("uopd_sessions") != 0) {
  }
  // The session is out of the table before its buffers are freed.
  EXPECT_TRUE(test::Eventually(
      [&] { return daemon_.Metric("uopd_buffers_bytes{device=\"CPU:0\"}") == 0; }));
  std::string back;
  const grpc::Status status = client_.Download(1, &back);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(MissingOf(status), "session");
}

TEST_F(ServiceTest, ATokenResumesTheSession) {
  ASSERT_TRUE(client_.Upload(1, "hello").ok());
  grpc::ClientContext context;
  v1::OpenSessionRequest open;
  v1::OpenSessionResponse opened;
  ASSERT_TRUE(client_.stub().OpenSession(&context, open, &opened).ok());
  EXPECT_NE(opened.session_id(), client_.session());
  EXPECT_EQ(opened.session_id().size(), 32u);
  EXPECT_EQ(opened.ttl_ms(), 1000u);
  open.set_resume_token(opened.resume_token());
  v1::OpenSessionResponse resumed;
  grpc::ClientContext second;
  ASSERT_TRUE(client_.stub().OpenSession(&second, open, &resumed).ok());
  EXPECT_EQ(resumed.session_id(), opened.session_id());
  open.set_resume_token(client_.session());  // an id is no token
  grpc::ClientContext third;
  const grpc::Status status = client_.stub().OpenSession(&third, open, &resumed);
  EXPECT_EQ(MissingOf(status), "session");
}

TEST_F(ServiceTest, ClosedSessionsAreGone) {
  ASSERT_TRUE(client_.Upload(1, "hello").ok());
  grpc::ClientContext context;
  v1::CloseSessionRequest request;
  request.set_session_id(client_.session());
  v1::CloseSessionResponse response;
  ASSERT_TRUE(client_.stub().CloseSession(&context, request, &response).ok());
  EXPECT_EQ(MissingOf(client_.Create(2, 1)), "session");
  EXPECT_EQ(daemon_.Metric("uopd_sessions"), 0);
}

TEST_F(ServiceTest, TenGibibytesAreRefusedAndTheDaemonServes) {
  const grpc::Status status = client_.Create(1, uint64_t{10} << 30);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("limits.session_bytes"));
  EXPECT_EQ(client_.Create(1, UINT64_MAX).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  // As an argument of a program, made by the call.
  const Executed run =
      client_.Execute("", ScaleGraph(int64_t{10} << 28, 2), {Buffer(4), Buffer(5)});
  EXPECT_NE(run.status.error_code(), StatusCode::OK);
  ExpectServes(daemon_);
}

TEST_F(ServiceTest, AMessageAboveTheLimitIsRefused) {
  v1::ExecuteRequest request;
  request.set_session_id(client_.session());
  request.set_graph(std::string(17 << 20, 'x'));
  v1::ExecuteResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(client_.stub().Execute(&context, request, &response).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  ExpectServes(daemon_);
}

TEST_F(ServiceTest, APassedDeadlineEndsTheCall) {
  const int64_t n = 1 << 16;  // 4 billion steps
  const std::string graph = PairsGraph(n);
  client_.Prepare(graph);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
  v1::RunRequest request;
  request.set_graph(graph);
  request.add_arguments();
  for (int i = 0; i < 2; ++i) *request.add_arguments() = Data(std::string(4 * n, '\0'));
  v1::RunResponse response;
  EXPECT_EQ(client_.stub().Run(&context, request, &response).error_code(),
            StatusCode::DEADLINE_EXCEEDED);
  ExpectServes(daemon_);  // also while the kernel still runs
}

TEST_F(ServiceTest, CacheStatsNameTheStores) {
  client_.Prepare(AddGraph(8));
  grpc::ClientContext context;
  v1::GetCacheStatsResponse response;
  ASSERT_TRUE(client_.stub().GetCacheStats(&context, {}, &response).ok());
  EXPECT_EQ(response.state(), "ok");
  std::vector<std::string> names;
  for (const auto& store : response.stores()) names.push_back(store.store());
  EXPECT_THAT(names, ::testing::IsSupersetOf({"graph", "kernel", "schedule"}));
}

}  // namespace
}  // namespace uopd::e2e
