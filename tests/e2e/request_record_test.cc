// SPDX-License-Identifier: MIT
// What operators see of requests: counts and times by method, code, tenant and program, and lines
// of the log. The client is the library, whose calls are messages of a pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <thread>

#include "client/cpp/net/session.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/compilers.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using test::Eventually;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class RequestRecordTest : public ::testing::Test {
 protected:
  static std::unique_ptr<client::Session> Open(const DaemonProcess& daemon,
                                               const std::string& token = "") {
    client::ConnectOptions options;
    options.address = daemon.listen();
    options.credentials.token = token;
    auto session = client::Session::Open(std::move(options));
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }
  std::string TokenFile() { return WriteTokenFile(folder_.path(), {"alice", "bob"}); }
  static absl::Status Run(client::Session& session, v1::ExecuteRequest request) {
    return session.Execute(request).status();
  }
  static v1::ExecuteRequest AddOf(const std::string& graph) {
    v1::ExecuteRequest out;
    out.set_graph(graph);
    out.add_arguments()->set_return_data(true);
    for (const float value : {1.f, 2.f}) out.add_arguments()->set_data(Bytes({value}));
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(RequestRecordTest, TenantsAndProgramsAreCounted) {
  const DaemonProcess daemon(folder_.path(), {"--server-token-file=" + TokenFile()});
  ASSERT_TRUE(daemon.running());
  const auto alice = Open(daemon, "alice's"), bob = Open(daemon, "bob's");
  ASSERT_TRUE(alice && bob);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Run(*alice, AddOf(AddGraph(1))).ok());
  v1::ExecuteRequest wrong = AddOf(AddGraph(1));
  wrong.mutable_arguments(1)->clear_data();
  wrong.mutable_arguments(1)->set_buffer(99);
  EXPECT_FALSE(Run(*bob, wrong).ok());
  EXPECT_EQ(
      daemon.Metric("uopd_tenant_requests_total{tenant=\"alice\",method=\"Execute\",code=\"OK\"}"),
      3);
  EXPECT_EQ(
      daemon.Metric("uopd_tenant_requests_total{tenant=\"bob\",method=\"Execute\",code=\"OK\"}"),
      -1);
  EXPECT_GE(daemon.Metric(
                "uopd_tenant_requests_total{tenant=\"bob\",method=\"Execute\",code=\"NOT_FOUND\"}"),
            1);
  EXPECT_EQ(
      daemon.Metric("uopd_tenant_request_duration_seconds_count{tenant=\"alice\",span=\"total\"}"),
      daemon.Metric(
          "uopd_tenant_request_duration_seconds_count{tenant=\"alice\",span=\"waited\"}"));
  EXPECT_GE(
      daemon.Metric("uopd_tenant_request_duration_seconds_count{tenant=\"alice\",span=\"total\"}"),
      3);
  EXPECT_GT(daemon.Metric("uopd_tenant_seconds_total{tenant=\"alice\",part=\"compile\"}"), 0);
  EXPECT_GE(daemon.Metric("uopd_tenant_bytes_total{tenant=\"alice\",direction=\"received\"}"), 24);
  // The gauges of the last second.
  EXPECT_TRUE(Eventually([&] {
    return daemon.Metric("uopd_tenant_sessions{tenant=\"alice\"}") == 1 &&
           daemon.Metric("uopd_tenant_sessions{tenant=\"bob\"}") == 1 &&
           daemon.Metric("uopd_workers_cpu_seconds_total") > 0 &&
           daemon.Metric("uopd_workers_resident_memory_bytes{process=\"uopd-forks\"}") > 0 &&
           daemon.Metric("uopd_workers_resident_memory_bytes{process=\"uopd-compile\"}") > 0;
  })) << daemon.Http("/metrics");
  // A program has its name once it has been seen for a second.
  std::string program = AddGraph(1);
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(Run(*alice, AddOf(program)).ok());
    return daemon.Http("/metrics")
                   .find("uopd_program_requests_total{program=\"other\",outcome=\"ok\"}") !=
               std::string::npos &&
           std::string(daemon.Http("/metrics")).find("uopd_program_seconds_total{program=") !=
               std::string::npos;
  }));
}

TEST_F(RequestRecordTest, AnInternalErrorOfAPipelineIsCountedAndLogged) {
  const DaemonProcess daemon(folder_.path(),
                             {"--compile-fast-tier=false", "--compile-warm-up=false"});
  ASSERT_TRUE(daemon.running());
  const auto session = Open(daemon);
  ASSERT_TRUE(session);
  // The series are there before the first fault.
  EXPECT_EQ(daemon.Metric("uopd_rpc_faults_total{method=\"Execute\"}"), 0);
  EXPECT_EQ(daemon.Metric("uopd_tenant_faults_total{tenant=\"-\"}"), 0);
  const std::string graph = SlowToCompile();
  absl::Status failed;
  std::thread call([&] {
    v1::ExecuteRequest request;
    request.set_graph(graph);
    request.add_arguments()->set_return_data(true);
    request.add_arguments()->set_data(std::string(4, '\0'));
    failed = session->Execute(request).status();
  });
  HitCompiler({daemon.pid()}, SIGSEGV);
  call.join();
  ASSERT_TRUE(absl::IsInternal(failed)) << failed;
  EXPECT_EQ(daemon.Metric("uopd_rpc_duration_seconds_count{method=\"Execute\",code=\"INTERNAL\"}"),
            1);
  EXPECT_EQ(daemon.Metric(
                "uopd_tenant_requests_total{tenant=\"-\",method=\"Execute\",code=\"INTERNAL\"}"),
            1);
  EXPECT_EQ(daemon.Metric("uopd_rpc_faults_total{method=\"Execute\"}"), 1);
  EXPECT_EQ(daemon.Metric("uopd_tenant_faults_total{tenant=\"-\"}"), 1);
  EXPECT_THAT(daemon.Log(),
              ContainsRegex("level=error msg=rpc method=Execute req=[^\n]*status=\"INTERNAL"));
}

TEST_F(RequestRecordTest, SlowRequestsHaveALineWithTheirPhases) {
  const DaemonProcess daemon(folder_.path(), {"--log-slow-ms=50ms", "--compile-fast-tier=false"});
  ASSERT_TRUE(daemon.running());
  {
    const auto session = Open(daemon);
    ASSERT_TRUE(session);
    ASSERT_TRUE(Run(*session, AddOf(AddGraph(1))).ok());
    v1::PrepareRequest slow;
    slow.set_graph(SlowToCompile());
    ASSERT_TRUE(session->Prepare(slow).ok());
    std::this_thread::sleep_for(
        std::chrono::milliseconds(100));  // a stream that is open is not slow
  }
  const std::string log = daemon.Log();
  EXPECT_THAT(log,
              ContainsRegex("level=warn msg=\"slow request\" method=Prepare req=[^\n]*us=[0-9]+ "
                            "code=OK program=[0-9a-f]+ [^\n]*compile_us=[0-9]+"));
  EXPECT_THAT(log, Not(HasSubstr("method=Pipeline")));
  EXPECT_EQ(daemon.Metric("uopd_slow_requests_total{method=\"Prepare\"}"), 1);
}

TEST_F(RequestRecordTest, WithoutALimitNothingIsSlow) {
  const DaemonProcess daemon(folder_.path(), {"--log-slow-ms=0", "--compile-fast-tier=false"});
  ASSERT_TRUE(daemon.running());
  const auto session = Open(daemon);
  ASSERT_TRUE(session);
  v1::PrepareRequest slow;
  slow.set_graph(SlowToCompile());
  ASSERT_TRUE(session->Prepare(slow).ok());
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("slow request")));
}

}  // namespace
}  // namespace uopd::e2e
