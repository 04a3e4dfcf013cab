// SPDX-License-Identifier: MIT
// Clients that send nothing, send half a message, or read nothing. They hold up nobody else.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"

namespace uopd::e2e {
namespace {

using Clock = std::chrono::steady_clock;

// Connections to one address that stay open.
class OpenConnections {
 public:
  explicit OpenConnections(const std::string& address)
      : port_(std::stoi(address.substr(address.rfind(':') + 1))) {}
  ~OpenConnections() {
    for (int fd : fds_) close(fd);
  }
  void Add(int n, const std::string& says) {
    for (int i = 0; i < n; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<uint16_t>(port_));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
      if (!says.empty()) {
        EXPECT_GT(send(fd, says.data(), says.size(), MSG_NOSIGNAL), 0);
      }
      fds_.push_back(fd);
    }
  }

 private:
  int port_;
  std::vector<int> fds_;
};

// Waits until a series of the daemon has this value.
bool Await(const DaemonProcess& daemon, const std::string& series, double value) {
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (Clock::now() < deadline) {
    if (daemon.Metric(series) == value) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

TEST(SlowClientsTest, SilentAndHalfSentConnectionsHoldUpNeitherPort) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  OpenConnections http(daemon.http()), rpc(daemon.listen());
  http.Add(250, "");
  http.Add(250, "GET /metrics HTTP/1.1\r\nHo");
  rpc.Add(500, "");
  rpc.Add(100, "PRI * HTTP/2.0\r\n");
  int64_t slowest_us = 0;
  for (int i = 0; i < 20; ++i) {
    const auto begin = Clock::now();
    EXPECT_NE(daemon.Http("/metrics").find("uopd_sessions"), std::string::npos);
    slowest_us = std::max<int64_t>(
        slowest_us,
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
  }
  RecordProperty("slowest_metrics_us", std::to_string(slowest_us));
  std::printf("slowest /metrics beside 500 slow clients: %ld us\n", static_cast<long>(slowest_us));
  ExpectServes(daemon);
}

class StreamsTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags) {
    daemon_ = std::make_unique<DaemonProcess>(folder_.path(), std::move(flags));
    ASSERT_TRUE(daemon_->running());
    client_ = std::make_unique<Client>(*daemon_);
  }
  struct Uploading {
    grpc::ClientContext context;
    v1::UploadResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>> writer;
  };
  // The first chunk of a larger buffer.
  std::unique_ptr<Uploading> BeginUpload(uint64_t handle) {
    auto out = std::make_unique<Uploading>();
    out->writer = client_->stub().Upload(&out->context, &out->response);
    v1::UploadRequest message;
    message.set_session_id(client_->session());
    message.mutable_buffer()->set_handle(handle);
    message.mutable_buffer()->set_bytes(1024);
    message.set_data("begun");
    EXPECT_TRUE(out->writer->Write(message));
    return out;
  }
  bool AwaitUploaded(double bytes) { return Await(*daemon_, "uopd_bytes_received_total", bytes); }

  TemporaryFolder folder_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<Client> client_;
};

TEST_F(StreamsTest, AnUploadThatDoesNotGoOnIsEnded) {
  Start({"--limits-stream-idle-ms=300ms"});
  ASSERT_TRUE(client_->OpenSession().ok());
  auto upload = BeginUpload(1);
  const grpc::Status status = upload->writer->Finish();  // without saying that it is all
  EXPECT_EQ(status.error_code(), grpc::DEADLINE_EXCEEDED) << status.error_message();
  EXPECT_NE(status.error_message().find("limits.stream_idle_ms"), std::string::npos);
  EXPECT_TRUE(client_->Upload(2, Bytes({1, 2})).ok());
}

TEST_F(StreamsTest, OpenUploadsHoldNoLeaseAndNoDrain) {
  Start({"--session-grace-ms=0", "--limits-stream-idle-ms=1h", "--server-drain-timeout-ms=10m"});
  ASSERT_TRUE(client_->OpenSession(1000).ok());
  std::vector<std::unique_ptr<Uploading>> uploads;
  for (uint64_t i = 1; i <= 100; ++i) uploads.push_back(BeginUpload(i));
  ASSERT_TRUE(AwaitUploaded(500));
  EXPECT_TRUE(Await(*daemon_, "uopd_sessions", 0));
  grpc::ClientContext idle_context;
  auto idle = client_->stub().Pipeline(&idle_context);
  ASSERT_TRUE(idle->Write(v1::PipelineRequest()));
  v1::PipelineResponse answer;
  ASSERT_TRUE(idle->Read(&answer));
  const auto begin = Clock::now();
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(uploads[0]->writer->Finish().error_code(), grpc::UNAVAILABLE);
  EXPECT_FALSE(idle->Read(&answer));
  EXPECT_EQ(idle->Finish().error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(daemon_->Wait(), 0);
  EXPECT_LT(Clock::now() - begin, std::chrono::minutes(2));  // of the ten that it had
}

TEST_F(StreamsTest, APipelineWhoseClientDoesNotReadIsReadNoMoreAndThenEnded) {
  Start({"--limits-stream-idle-ms=1s", "--limits-pipeline-bytes=1MiB"});
  ASSERT_TRUE(client_->OpenSession().ok());
  ASSERT_TRUE(client_->Create(1, 1 << 20).ok());
  grpc::ClientContext context;
  auto stream = client_->stub().Pipeline(&context);
  v1::PipelineRequest message;
  message.mutable_execute()->set_session_id(client_->session());
  message.mutable_execute()->set_graph(AddGraph(1 << 18));
  *message.mutable_execute()->add_arguments() = Returned(1);
  *message.mutable_execute()->add_arguments() = Buffer(1);
  *message.mutable_execute()->add_arguments() = Buffer(1);
  int written = 0;
  while (written < 100'000 && stream->Write(message)) ++written;  // until the daemon ends it
  EXPECT_LT(written, 100'000);
  v1::PipelineResponse answer;
  while (stream->Read(&answer)) {  // gRPC gives the status after what has arrived
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(Await(*daemon_, "uopd_client_bytes{class=\"answers\"}", 0));
  EXPECT_TRUE(Await(*daemon_, "uopd_client_bytes{class=\"messages\"}", 0));
  // Of answers of a megabyte each, few were made.
  EXPECT_LT(daemon_->Metric("uopd_bytes_sent_total"), 16.0 * (1 << 20));
  ExpectServes(*daemon_);
}

// Data that waits for its turn is charged like stored data.
TEST_F(StreamsTest, AMessageForWhichThereIsNoMemoryIsRefused) {
  Start({"--limits-total-bytes=3MiB"});
  ASSERT_TRUE(client_->OpenSession().ok());
  ASSERT_TRUE(client_->Create(1, 5 << 19).ok());
  grpc::ClientContext context;
  auto stream = client_->stub().Pipeline(&context);
  v1::PipelineRequest message;
  message.mutable_upload()->set_session_id(client_->session());
  message.mutable_upload()->mutable_buffer()->set_handle(1);
  v1::PipelineResponse answer;
  for (const size_t bytes : {size_t{1} << 20, size_t{4}}) {
    message.set_sequence(bytes);
    message.mutable_upload()->set_data(std::string(bytes, 'x'));
    ASSERT_TRUE(stream->Write(message));
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.sequence(), bytes);
    EXPECT_EQ(answer.code(), bytes == 4 ? grpc::OK : grpc::RESOURCE_EXHAUSTED) << answer.message();
    EXPECT_EQ(answer.message().find("limits.total_bytes") != std::string::npos, bytes > 4);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamsTest, ARefusedUploadLeavesNoBuffer) {
  Start({});
  ASSERT_TRUE(client_->OpenSession().ok());
  grpc::ClientContext context;
  v1::UploadResponse response;
  auto writer = client_->stub().Upload(&context, &response);
  v1::UploadRequest message;
  message.set_session_id(client_->session());
  message.mutable_buffer()->set_handle(7);
  message.mutable_buffer()->set_bytes(4);
  message.set_data("more than four");
  writer->Write(message);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(daemon_->Metric("uopd_buffers_bytes{device=\"CPU:0\"}"), 0);
  EXPECT_TRUE(client_->Create(7, 8).ok());  // the handle is free
}

}  // namespace
}  // namespace uopd::e2e
