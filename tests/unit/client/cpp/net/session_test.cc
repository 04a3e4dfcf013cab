// SPDX-License-Identifier: MIT
// A session against a gRPC server in this process that plays a daemon: versions, chunks,
// errors, lost sessions.
#include "client/cpp/net/session.h"

#include <gmock/gmock.h>
#include <google/protobuf/any.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>

#include "client/cpp/net/grpc_status.h"
#include "core/base/mutex.h"
#include "tests/support/fake_daemon.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void PutField(std::string& out, int number, const std::string& bytes) {
  out += static_cast<char>(number << 3 | 2);
  for (size_t n = bytes.size();; n >>= 7) {
    out += static_cast<char>(n < 0x80 ? n : (n & 0x7f) | 0x80);
    if (n < 0x80) break;
  }
  out += bytes;
}

// A google.rpc.Status with one detail, as bytes.
grpc::Status WithDetail(grpc::StatusCode code, const std::string& message, const std::string& type,
                        const std::string& detail) {
  google::protobuf::Any any;
  any.set_type_url("type.googleapis.com/" + type);
  any.set_value(detail);
  std::string details;
  PutField(details, 2, message);
  PutField(details, 3, any.SerializeAsString());
  return {code, message, details};
}
grpc::Status Missing(const std::string& kind) {
  std::string detail;
  PutField(detail, 1, kind);
  return WithDetail(grpc::NOT_FOUND, "no such " + kind, "uopd.v1.MissingError", detail);
}

class OneCallDaemon : public v1::UopdService::Service {
 public:
  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest* request,
                     v1::HelloResponse* response) override {
    response->set_api_version(api_version);
    response->set_ir_version(request->ir_version());
    response->add_devices()->set_name("CPU:0");
    return grpc::Status::OK;
  }
  grpc::Status OpenSession(grpc::ServerContext*, const v1::OpenSessionRequest* request,
                           v1::OpenSessionResponse* response) override {
    if (!request->resume_token().empty()) {
      ++resumes;
      if (session_gone) return Missing("session");
    }
    response->set_session_id("s1");
    response->set_resume_token("t" + std::to_string(resumes));
    response->set_ttl_ms(ttl_ms);
    return grpc::Status::OK;
  }
  grpc::Status CloseSession(grpc::ServerContext*, const v1::CloseSessionRequest*,
                            v1::CloseSessionResponse*) override {
    ++closes;
    return grpc::Status::OK;
  }
  grpc::Status CreateBuffers(grpc::ServerContext*, const v1::CreateBuffersRequest*,
                             v1::CreateBuffersResponse*) override {
    MutexLock lock(mutex);
    ++renewals;
    renewed.notify_all();
    return grpc::Status::OK;
  }
  grpc::Status Execute(grpc::ServerContext*, const v1::ExecuteRequest* request,
                       v1::ExecuteResponse* response) override {
    ids.push_back(request->request_id());
    if (request->session_id() != "s1") return Missing("session");
    if (!failures.empty()) {
      const grpc::Status next = failures.front();
      failures.erase(failures.begin());
      return next;
    }
    response->add_data("done");
    debug_levels.push_back(request->options().debug());
    if (request->options().debug() > 0) {
      response->set_debug_text("level " + std::to_string(request->options().debug()) + "\n");
    }
    return grpc::Status::OK;
  }
  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadRequest>* reader,
                      v1::UploadResponse* response) override {
    v1::UploadRequest part;
    uint64_t handle = 0;
    std::string data;
    while (reader->Read(&part)) {
      if (part.has_buffer()) handle = part.buffer().handle();
      chunks.push_back(part.data().size());
      data += part.data();
    }
    response->set_bytes(data.size());
    buffers[handle] = data;
    return grpc::Status::OK;
  }
  grpc::Status Download(grpc::ServerContext*, const v1::DownloadRequest* request,
                        grpc::ServerWriter<v1::DownloadResponse>* writer) override {
    if (!buffers.contains(request->handle())) return Missing("buffer");
    const std::string& data = buffers[request->handle()];
    for (size_t at = 0; at < data.size(); at += 1000) {
      v1::DownloadResponse part;
      part.set_data(data.substr(at, 1000));
      writer->Write(part);
    }
    return grpc::Status::OK;
  }

  uint32_t api_version = 1;
  uint64_t ttl_ms = 60'000;
  std::atomic<int> resumes = 0, closes = 0;
  Mutex mutex;
  std::condition_variable renewed;
  int renewals UOPD_GUARDED_BY(mutex) = 0;
  bool session_gone = false;
  std::vector<grpc::Status> failures;
  std::vector<uint64_t> ids;
  std::vector<uint32_t> debug_levels;
  std::vector<size_t> chunks;
  std::map<uint64_t, std::string> buffers;
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : server_(Served(daemon_, options_)) {}
  std::unique_ptr<Session> Open() {
    auto c = Session::Open(options_);
    EXPECT_TRUE(c.ok()) << c.status();
    return *std::move(c);
  }

  OneCallDaemon daemon_;
  ConnectOptions options_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(SessionTest, OpensAndClosesItsSession) {
  {
    auto c = Open();
    EXPECT_EQ(c->hello().devices(0).name(), "CPU:0");
  }
  EXPECT_EQ(daemon_.closes, 1);
}

TEST_F(SessionTest, RefusesAnotherVersion) {
  daemon_.api_version = 2;
  const absl::Status s = Session::Open(options_).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(s), HasSubstr("the daemon speaks API 2"));
}

TEST_F(SessionTest, SaysWhereNobodyAnswers) {
  server_->Shutdown();
  const absl::Status s = Session::Open(options_).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(StatusText(s), HasSubstr(options_.address));
}

TEST_F(SessionTest, UploadsInChunksAndDownloadsInParts) {
  auto c = Open();
  std::string data((2 << 20) + 5, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31);
  ASSERT_TRUE(c->Upload(9, "", data).ok());
  EXPECT_THAT(daemon_.chunks, ElementsAre(1 << 20, 1 << 20, 5));
  EXPECT_EQ(*c->Download(9, data.size()), data);
  EXPECT_EQ(c->Download(8, 4).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SessionTest, RepeatsWhatTheTransportLost) {
  auto c = Open();
  v1::ExecuteRequest request;
  request.set_request_id(41);
  daemon_.failures = {{grpc::UNAVAILABLE, "connection reset"}, Missing("session")};
  auto r = c->Execute(request);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_THAT(daemon_.ids, ElementsAre(41, 41, 41))
      << "the same id, so that the daemon runs it once";
  EXPECT_EQ(daemon_.resumes, 2);
  // Without an id nobody could tell whether it ran.
  request.set_request_id(0);
  daemon_.failures = {{grpc::UNAVAILABLE, "connection reset"}};
  EXPECT_EQ(c->Execute(request).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(SessionTest, ALostSessionIsNotAnUnknownProgram) {
  auto c = Open();
  v1::ExecuteRequest request;
  request.set_request_id(1);
  daemon_.failures = {Missing("program")};
  EXPECT_EQ(c->Execute(request).status().code(), absl::StatusCode::kNotFound);
  daemon_.session_gone = true;
  daemon_.failures = {Missing("session")};
  const absl::Status s = c->Execute(request).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(s), HasSubstr("has ended"));
  daemon_.failures = {Missing("buffer")};
  EXPECT_EQ(c->Execute(request).status().code(), absl::StatusCode::kInternal);
}

TEST_F(SessionTest, RenewsTheLeaseWhileIdle) {
  daemon_.ttl_ms = 300;
  auto c = Open();
  MutexLock lock(daemon_.mutex);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  EXPECT_TRUE(lock.WaitUntil(daemon_.renewed, deadline,
                             [&]() UOPD_REQUIRES(daemon_.mutex) { return daemon_.renewals >= 2; }));
}

TEST(GrpcStatusTest, RestoresTheNode) {
  v1::NodeError node;
  node.set_node(3);
  node.set_text("%3 = ADD<f32> %1, %2");
  const std::string message =
      "ADD of shapes (2) and (3): they do not broadcast (node %3: %3 = ADD<f32> %1, %2) (while "
      "preparing)";
  const absl::Status s = FromGrpc(
      WithDetail(grpc::INVALID_ARGUMENT, message, "uopd.v1.NodeError", node.SerializeAsString()));
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(GetNode(s).has_value());
  EXPECT_EQ(GetNode(s)->index, 3);
  EXPECT_EQ(GetNode(s)->text, "%3 = ADD<f32> %1, %2");
  EXPECT_EQ(StatusText(s),
            "ADD of shapes (2) and (3): they do not broadcast (while preparing) (node %3: %3 = "
            "ADD<f32> %1, %2)");
}

TEST(GrpcStatusTest, ToleratesForeignDetails) {
  for (const std::string& details :
       {std::string("garbage"), std::string("\x1a\xff\xff\xff\xff\x0f"),
        std::string(1000, '\x1a')}) {
    const absl::Status s = FromGrpc(grpc::Status(grpc::INTERNAL, "bug", details));
    EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
    EXPECT_FALSE(GetNode(s).has_value());
  }
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST_F(SessionTest, ShowsDebugTextAndAsksForTheCodeOfAGraphOnce) {
  std::string shown;
  options_.debug_text = [&](std::string_view text) { shown += text; };
  const auto session = Open();
  const auto execute = [&](const std::string& digest, uint32_t debug) {
    v1::ExecuteRequest request;
    request.set_digest(digest);
    request.mutable_options()->set_debug(debug);
    EXPECT_TRUE(session->Execute(request).ok());
  };
  daemon_.failures = {Missing("program")};
  v1::ExecuteRequest unknown;
  unknown.set_digest("a");
  unknown.mutable_options()->set_debug(4);
  EXPECT_TRUE(absl::IsNotFound(session->Execute(unknown).status()));
  for (const uint32_t debug : {0, 2, 4, 4, 1}) execute("a", debug);
  execute("b", 6);
  EXPECT_THAT(daemon_.debug_levels, ElementsAre(0, 2, 4, 2, 1, 6));
  EXPECT_EQ(shown, "level 2\nlevel 4\nlevel 2\nlevel 1\nlevel 6\n");
}

TEST_F(SessionTest, DebugTextGoesToStandardError) {
  v1::ExecuteRequest request;
  request.mutable_options()->set_debug(2);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Open()->Execute(request).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "level 2\n");
}

TEST(BackoffTest, WaitsTwiceAsLongEachTimeUpToABound) {
  Backoff backoff(1);
  auto most = Backoff::kFirst;
  for (int i = 0; i < 12; ++i) {
    const auto wait = backoff.Next();
    EXPECT_GE(wait, most / 2) << i;
    EXPECT_LE(wait, most) << i;
    most = std::min(most * 2, Backoff::kLongest);
  }
}

TEST(BackoffTest, ClientsDoNotWaitEquallyLong) {
  Backoff a(1), b(2);
  bool differ = false;
  for (int i = 0; i < 12; ++i) differ |= a.Next() != b.Next();
  EXPECT_TRUE(differ);
}

}  // namespace
}  // namespace uopd::client
