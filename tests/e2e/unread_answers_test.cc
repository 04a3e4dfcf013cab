// SPDX-License-Identifier: MIT
// Clients that ask for much and read nothing of it. Others at the same address go on, and what the
// daemon holds is bounded.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

constexpr double kMiB = 1 << 20;
constexpr char kAnswers[] = "uopd_client_bytes{class=\"answers\"}";
constexpr char kRefused[] = "uopd_memory_refused_total{limit=\"unread_answers\"}";

// A client of HTTP/2 that lets the daemon send nothing but headers: the window of its streams is 0.
// No library does that, and none would keep an answer unread for long.
class ClosedWindow {
 public:
  explicit ClosedWindow(const std::string& address)
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    Send(Frame(4, 0, 0, std::string("\0\4\0\0\0\0", 6)));  // SETTINGS: initial window 0
  }
  void Call(const std::string& method, const google::protobuf::Message& message) {
    const std::string path = Cat("/uopd.v1.UopdService/", method);
    std::string headers;
    for (const auto& [name, value] : {std::pair<std::string, std::string>{":method", "POST"},
                                      {":scheme", "http"},
                                      {":path", path},
                                      {":authority", "daemon"},
                                      {"content-type", "application/grpc"},
                                      {"te", "trailers"}}) {
      // Literals without an index, and without Huffman's code.
      headers += '\0';
      headers += static_cast<char>(name.size()) + name;
      headers += static_cast<char>(value.size()) + value;
    }
    const std::string bytes = message.SerializeAsString();
    Send(Frame(1, 4, stream_, headers));
    Send(Frame(0, 1, stream_, std::string(1, '\0') + Big(bytes.size(), 4) + bytes));
    stream_ += 2;
  }

 private:
  static std::string Big(size_t value, int bytes) {
    std::string out;
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
    return out;
  }
  static std::string Frame(char type, char flags, uint32_t stream, const std::string& payload) {
    return Big(payload.size(), 3) + type + flags + Big(stream, 4) + payload;
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  const UniqueFd socket_;
  uint32_t stream_ = 1;
};

class UnreadAnswersTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags) {
    daemon_ = std::make_unique<DaemonProcess>(folder_.path(), std::move(flags));
    ASSERT_TRUE(daemon_->running());
    mean_ = std::make_unique<Client>(*daemon_);
    good_ = std::make_unique<Client>(*daemon_);
    for (Client* client : {mean_.get(), good_.get()}) {
      ASSERT_TRUE(client->OpenSession().ok());
      ASSERT_TRUE(client->Create(1, client == mean_.get() ? 4 << 20 : 1 << 20).ok());
    }
  }
  // A call of the mean client whose answer has 4 MiB.
  v1::ExecuteRequest Asking() const {
    v1::ExecuteRequest request;
    request.set_session_id(mean_->session());
    request.set_graph(AddGraph(1 << 20));
    *request.add_arguments() = Returned();
    *request.add_arguments() = Buffer(1);
    *request.add_arguments() = Buffer(1);
    return request;
  }
  // The good client works. Nothing that it does is refused, and what is unread stays below `most`.
  void GoodClientWorks(double most) {
    for (int i = 0; i < 20; ++i) {
      const Executed added =
          good_->Execute("", AddGraph(1 << 18), {Returned(), Buffer(1), Buffer(1)});
      ASSERT_TRUE(added.status.ok()) << i << ": " << added.status.error_message();
      const grpc::Status uploaded = good_->Upload(2, std::string(1 << 20, 'x'));
      ASSERT_TRUE(uploaded.ok()) << i << ": " << uploaded.error_message();
      std::string back;
      const grpc::Status downloaded = good_->Download(2, &back);
      ASSERT_TRUE(downloaded.ok()) << i << ": " << downloaded.error_message();
      ASSERT_EQ(back.size(), size_t{1} << 20);
      const double unread = daemon_->Metric(kAnswers);
      EXPECT_LE(unread, most) << i;
      largest_ = std::max(largest_, unread);
    }
  }
  TemporaryFolder folder_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<Client> mean_, good_;
  double largest_ = 0;
};

TEST_F(UnreadAnswersTest, OfDownloads) {
  Start({"--limits-total-bytes=32MiB", "--limits-stream-idle-ms=1h"});
  struct Downloading {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::DownloadResponse>> reader;
  };
  v1::DownloadRequest request;
  request.set_session_id(mean_->session());
  request.set_handle(1);
  request.set_bytes(1 << 20);
  std::vector<std::unique_ptr<Downloading>> downloads;
  for (int i = 0; i < 200; ++i) {
    auto& one = *downloads.emplace_back(std::make_unique<Downloading>());
    one.reader = mean_->stub().Download(&one.context, request);
  }
  ASSERT_TRUE(test::Eventually([&] { return daemon_->Metric(kAnswers) > 7 * kMiB; }));
  GoodClientWorks(11 * kMiB);  // a quarter of all, and what the good client is about to read
  // All of them go on when they are read, also those that waited.
  for (auto& one : downloads) {
    v1::DownloadResponse piece;
    size_t bytes = 0;
    while (one->reader->Read(&piece)) bytes += piece.data().size();
    const grpc::Status status = one->reader->Finish();
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(bytes, size_t{1} << 20);
  }
  EXPECT_TRUE(test::Eventually([&] { return daemon_->Metric(kAnswers) == 0; }));
}

TEST_F(UnreadAnswersTest, OfCalls) {
  Start({"--limits-total-bytes=256MiB", "--limits-stream-idle-ms=1h"});
  {
    ClosedWindow window(daemon_->listen());
    for (int i = 0; i < 100; ++i) window.Call("Execute", Asking());
    ASSERT_TRUE(test::Eventually([&] { return daemon_->Metric(kRefused) >= 80; }))
        << daemon_->Log();
    GoodClientWorks(75 * kMiB);
    EXPECT_GT(largest_, 40 * kMiB);
  }
  EXPECT_TRUE(test::Eventually([&] { return daemon_->Metric(kAnswers) == 0; }));
  EXPECT_TRUE(test::Eventually([&] {
    const Executed again =
        mean_->Execute("", AddGraph(1 << 20), {Returned(), Buffer(1), Buffer(1)});
    return again.status.ok();
  }));
}

TEST_F(UnreadAnswersTest, OfPipelines) {
  Start({"--limits-total-bytes=256MiB", "--limits-stream-idle-ms=1h"});
  struct Open {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>> stream;
  };
  v1::PipelineRequest message;
  *message.mutable_execute() = Asking();
  std::vector<std::unique_ptr<Open>> pipelines;
  for (int i = 0; i < 40; ++i) {
    auto& one = *pipelines.emplace_back(std::make_unique<Open>());
    one.stream = mean_->stub().Pipeline(&one.context);
    for (int n = 0; n < 4; ++n) ASSERT_TRUE(one.stream->Write(message));
  }
  ASSERT_TRUE(test::Eventually([&] { return daemon_->Metric(kRefused) >= 100; })) << daemon_->Log();
  GoodClientWorks(75 * kMiB);
  for (auto& one : pipelines) {
    one->context.TryCancel();
    one->stream->Finish();
  }
  EXPECT_TRUE(test::Eventually([&] { return daemon_->Metric(kAnswers) == 0; }));
}

// A client that is as slow as none is does not keep its answer for ever.
TEST_F(UnreadAnswersTest, ACallWhoseAnswerIsNotReadEnds) {
  Start({"--limits-stream-idle-ms=100ms"});
  ClosedWindow window(daemon_->listen());
  window.Call("Execute", Asking());
  const std::string cancelled = "uopd_bytes_sent_total";
  ASSERT_TRUE(test::Eventually([&] { return daemon_->Metric(cancelled) >= 4 * kMiB; }))
      << daemon_->Log();
  EXPECT_TRUE(test::Eventually([&] { return daemon_->Metric(kAnswers) == 0; }));
  ExpectServes(*daemon_);
}

}  // namespace
}  // namespace uopd::e2e
