// SPDX-License-Identifier: MIT
// A daemon that ends: first it says so, then it refuses, then it waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "client/cpp/net/session.h"
#include "core/base/digest.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"
#include "uopd/connection.h"

namespace uopd::e2e {
namespace {

using test::Eventually;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

constexpr char kText[] = "the daemon is shutting down";

TEST(DrainTest, WithADelayRequestsAreServedAfterItSaidThatItEnds) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--server-drain-delay-ms=2s"});
  ExpectServes(daemon);
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  const auto begin = Clock::now();
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(
      Eventually([&] { return daemon.Http("/readyz").find("draining") != std::string::npos; }));
  EXPECT_THAT(daemon.Http("/readyz"), HasSubstr(" 503 "));
  int served = 0;
  grpc::Status status;
  for (;; ++served) {
    status = client.Create(static_cast<uint64_t>(served) + 1, 64);
    if (!status.ok()) break;
  }
  EXPECT_GE(Clock::now() - begin, std::chrono::seconds(2));
  EXPECT_GT(served, 0);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), StartsWith(kText));
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_THAT(daemon.Log(), HasSubstr("still serving, until load balancers send nothing more"));
}

TEST(DrainTest, ASecondSignalEndsTheDelay) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--server-drain-delay-ms=1h"});
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(
      Eventually([&] { return daemon.Http("/readyz").find("draining") != std::string::npos; }));
  daemon.Signal(SIGINT);
  EXPECT_EQ(daemon.Wait(), 130);
}

// Keeps a daemon busy for longer than any test waits for it.
class LongCall {
 public:
  explicit LongCall(const DaemonProcess& daemon) : client_(daemon) {
    EXPECT_TRUE(client_.OpenSession().ok());
    client_.Prepare(PairsGraph(kElements));
    const double others = daemon.Metric("uopd_rpc_in_flight");  // pipelines
    thread_ = std::thread([this] {
      const std::string ones = Bytes(std::vector<float>(kElements, 1));
      status_ =
          client_.Execute("", PairsGraph(kElements), {Buffer(1), Data(ones), Data(ones)}).status;
    });
    EXPECT_TRUE(Eventually([&] { return daemon.Metric("uopd_rpc_in_flight") == others + 1; }));
  }
  ~LongCall() { Join(); }
  const grpc::Status& Join() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  static constexpr int64_t kElements = 1 << 20;
  Client client_;
  grpc::Status status_;
  std::thread thread_;
};

// What supervisors do: a hook has the daemon drain, and then comes their signal.
TEST(DrainTest, ASignalAfterTheCallOfAnOperatorIsTheFirst) {
  TemporaryFolder folder;
  const std::filesystem::path ready = folder.path() / "ready.json";
  DaemonProcess daemon(folder.path(), {"--server-drain-delay-ms=1h"});
  Client client(daemon);
  v1::GetStatusResponse state;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(client.stub().GetStatus(&context, {}, &state).ok());
    grpc::ClientContext drain;
    v1::DrainRequest request;
    request.set_instance(state.instance());
    v1::DrainResponse response;
    ASSERT_TRUE(client.stub().Drain(&drain, request, &response).ok());
  }
  ASSERT_TRUE(
      Eventually([&] { return daemon.Http("/readyz").find("draining") != std::string::npos; }));
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(Eventually(
      [&] { return daemon.Log().find("a signal during the drain") != std::string::npos; }));
  ExpectServes(daemon);  // the delay goes on
  EXPECT_TRUE(std::filesystem::exists(ready));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 130);
  EXPECT_FALSE(std::filesystem::exists(ready));
}

// Sends an upload of `chunks` bytes, one every 50 ms, and has the daemon end after the first one.
grpc::Status UploadDuringADrain(DaemonProcess& daemon, int chunks, bool goes_on) {
  Client client(daemon);
  EXPECT_TRUE(client.OpenSession().ok());
  grpc::ClientContext context;
  v1::UploadResponse done;
  const auto upload = client.stub().Upload(&context, &done);
  v1::UploadRequest chunk;
  chunk.set_session_id(client.session());
  chunk.mutable_buffer()->set_handle(1);
  chunk.mutable_buffer()->set_bytes(static_cast<uint64_t>(chunks));
  for (int i = 0; i < chunks; ++i) {
    chunk.set_data("a");
    if (!upload->Write(chunk)) break;
    chunk.Clear();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (i == 0) {
      // The first chunk has come: the buffer is there.
      EXPECT_TRUE(Eventually([&] { return daemon.Metric("uopd_bytes_received_total") > 0; }));
      daemon.Signal(SIGTERM);
      if (!goes_on) return upload->Finish();
    }
  }
  upload->WritesDone();
  return upload->Finish();
}

TEST(DrainTest, AnUploadThatGoesOnIsWaitedFor) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  const grpc::Status status = UploadDuringADrain(daemon, 60, true);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("connection ended")));
}

TEST(DrainTest, AnUploadThatStopsIsNot) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  const auto begin = Clock::now();
  const grpc::Status status = UploadDuringADrain(daemon, 60, false);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), StartsWith(kText));
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));  // 30 s: the time of a drain
}

// A client that needs more than a second for what is on the way to it.
TEST(DrainTest, ADownloadThatIsReadSlowlyIsWaitedFor) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  const std::string data(12 << 20, 'a');
  ASSERT_TRUE(client.Upload(1, data).ok());
  grpc::ClientContext context;
  v1::DownloadRequest request;
  request.set_session_id(client.session());
  request.set_handle(1);
  const auto download = client.stub().Download(&context, request);
  v1::DownloadResponse piece;
  size_t came = 0;
  for (int i = 0; download->Read(&piece); ++i) {
    came += piece.data().size();
    if (i == 0) daemon.Signal(SIGTERM);
    if (i < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  }
  const grpc::Status status = download->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(came, data.size());
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST(DrainTest, CallsAndPipelinesHearThatTheDaemonIsShuttingDown) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--server-drain-timeout-ms=3s"});
  Client idle(daemon), unary(daemon);
  ASSERT_TRUE(unary.OpenSession().ok());
  grpc::ClientContext context;
  auto stream = idle.stub().Pipeline(&context);
  LongCall call(daemon);
  daemon.Signal(SIGTERM);
  v1::PipelineResponse none;
  EXPECT_FALSE(stream->Read(&none));
  const grpc::Status ended = stream->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ended.error_message(), StartsWith(kText));
  EXPECT_THAT(ended.error_details(), HasSubstr("type.googleapis.com/google.rpc.RetryInfo"));
  const grpc::Status refused = unary.OpenSession();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(), StartsWith(kText));
  EXPECT_THAT(refused.error_details(), HasSubstr("type.googleapis.com/google.rpc.RetryInfo"));
  EXPECT_THAT(call.Join().error_message(), StartsWith(kText));  // it was cut off
  EXPECT_EQ(daemon.Wait(), 4);
  EXPECT_THAT(daemon.Log(), AllOf(HasSubstr("level=warn msg=\"the drain was cut short"),
                                  HasSubstr("requests=1 sessions=1")));
}

TEST(DrainTest, UsersSeeWhyTheirCallsFail) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--server-drain-timeout-ms=30s"});
  auto connection = client::Connection::Connect({.address = daemon.listen()});
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto upload = [&](uint64_t handle) {
    return (*connection)->UploadCopy(handle, "", std::string(64, 'x')).Wait();
  };
  ASSERT_TRUE(upload(1).ok());
  LongCall call(daemon);
  daemon.Signal(SIGTERM);
  absl::Status status;
  ASSERT_TRUE(Eventually([&] { return !(status = upload(2)).ok(); }));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(kText));
  const auto another = client::Connection::Connect({.address = daemon.listen()});
  EXPECT_THAT(std::string(another.status().message()), HasSubstr(kText));
  daemon.Signal(SIGTERM);
}

// The daemon says why it ends a run. That nobody answers when the client looks for it again is not
// what users have to hear.
TEST(DrainTest, ARunThatIsCutOffFailsWithTheReason) {
  for (const bool by_session : {true, false}) {
    TemporaryFolder folder;
    DaemonProcess daemon(folder.path(), {"--server-drain-timeout-ms=300ms"});
    client::ConnectOptions options{.address = daemon.listen()};
    const auto graph = std::make_shared<const std::string>(LongGraph(int64_t{1} << 40));
    v1::ExecuteRequest request;
    request.set_graph(*graph);
    request.add_arguments()->set_return_data(true);
    client::Call call;
    call.digest = std::string(HashBytes(*graph).view());
    call.graph = graph;
    call.arguments = {{.handle = 0, .return_data = true}};
    auto session = client::Session::Open(options);
    ASSERT_TRUE(session.ok()) << session.status();
    auto connection = client::Connection::Connect(options);
    ASSERT_TRUE(connection.ok()) << connection.status();
    std::thread end([&] {
      EXPECT_TRUE(Eventually(
          [&] { return daemon.Metric("uopd_device_busy_seconds_total{device=\"CPU:0\"}") > 0; }));
      daemon.Signal(SIGTERM);  // in any case, or the test would not end
    });
    const absl::Status status = by_session ? (*session)->Execute(request).status()
                                           : (*connection)->Submit(std::move(call)).future.Wait();
    end.join();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kText));
    EXPECT_THAT(std::string(status.message()), HasSubstr("it was cut off"));
    EXPECT_EQ(daemon.Wait(), 4);
  }
}

// What was not begun goes to the daemon that has the address then.
TEST(DrainTest, ACallThatWasRefusedIsSentToTheNextDaemon) {
  TemporaryFolder folder, other;
  const std::string at = "--listen=unix:" + (folder.path() / "socket").string();
  auto first = std::make_unique<DaemonProcess>(folder.path(), std::vector{at});
  auto connection = client::Connection::Connect({.address = first->listen()});
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto upload = [&](uint64_t handle) {
    return (*connection)->UploadCopy(handle, "", std::string(64, 'x')).Wait();
  };
  ASSERT_TRUE(upload(1).ok());
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> done{1};
  absl::Status failed;
  std::thread load([&] {
    while (!stop) {
      const uint64_t handle = done + 1;
      if (failed = upload(handle); !failed.ok()) return;
      done = handle;
    }
  });
  ASSERT_TRUE(Eventually([&] { return done > 20; }));
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 0);
  const uint64_t before = done;
  DaemonProcess second(other.path(), {at});
  EXPECT_TRUE(Eventually([&] { return done > before + 20 || !failed.ok(); }));
  stop = true;
  load.join();
  EXPECT_TRUE(failed.ok()) << failed;
}

}  // namespace
}  // namespace uopd::e2e
