// SPDX-License-Identifier: MIT
// A daemon that requires tokens, with clients that have a token, a wrong token, or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "client/cpp/net/session.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using test::Eventually;
using ::testing::HasSubstr;

class TenantsTest : public ::testing::Test {
 protected:
  std::string TokenFile() { return WriteTokenFile(folder_.path(), {"alice", "bob"}); }
  static auto Open(const DaemonProcess& daemon, const std::string& token) {
    client::ConnectOptions options;
    options.address = daemon.listen();
    options.credentials.token = token;
    return client::Session::Open(std::move(options));
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(), {"--server-token-file=" + TokenFile()}};
};

TEST_F(TenantsTest, OnlyTokensOpenTheDoor) {
  for (const char* token : {"", "wrong", "alice", "alice's "}) {
    const absl::Status refused = Open(daemon_, token).status();
    EXPECT_TRUE(absl::IsUnauthenticated(refused)) << token << refused;
  }
  auto alice = Open(daemon_, "alice's");
  ASSERT_TRUE(alice.ok()) << alice.status();
  const std::string data(1 << 21, 'x');
  EXPECT_TRUE((*alice)->Upload(7, "", data).ok());
  EXPECT_EQ(*(*alice)->Download(7, data.size()), data);
  v1::PrepareRequest request;
  request.set_graph(AddGraph(8));
  EXPECT_TRUE((*alice)->Prepare(request).ok());
  // Every kind of call, without a token: nothing is done.
  Client nobody(daemon_);
  EXPECT_EQ(nobody.OpenSession().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(nobody.Execute("", AddGraph(8), {}).status.error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(nobody.Upload(1, "data").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  std::string got;
  EXPECT_EQ(nobody.Download(1, &got).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  grpc::ClientContext context;
  auto stream = nobody.stub().Pipeline(&context);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_NE(daemon_.Http("/healthz").find("200 OK"), std::string::npos);
}

// What an operator does: change the file, send SIGHUP.
class TokenReloadTest : public ::testing::Test {
 protected:
  void WriteTokens(const std::string& text) const { std::ofstream(tokens_) << text; }
  void WriteOperators(const std::string& names) const {
    std::ofstream(config_) << "[server]\noperators = \"" << names << "\"\n";
  }
  static std::string Line(const std::string& name) {
    return name + " " + HashBytes(name + "'s").Hex() + "\n";
  }
  void Reload(int times) const {
    daemon_->Signal(SIGHUP);
    ASSERT_TRUE(Eventually([&] { return CountReloads() >= times; })) << daemon_->Log();
  }
  int CountReloads() const {
    int out = 0;
    const std::string log = daemon_->Log();
    for (size_t at = 0; (at = log.find("settings reloaded", at)) != std::string::npos; ++at) ++out;
    return out;
  }
  absl::Status Call(const std::string& name) const {
    client::ConnectOptions options;
    options.address = daemon_->listen();
    options.credentials.token = name + "'s";
    return client::Session::Open(std::move(options)).status();
  }
  static void AddToken(grpc::ClientContext& context, const std::string& name) {
    context.AddMetadata("authorization", "Bearer " + name + "'s");
  }
  std::unique_ptr<v1::UopdService::Stub> Stub() const {
    return v1::UopdService::NewStub(
        grpc::CreateChannel(daemon_->listen(), grpc::InsecureChannelCredentials()));
  }
  bool IsOperator(const std::string& name) const {
    grpc::ClientContext context;
    AddToken(context, name);
    v1::ListQuarantineResponse response;
    return Stub()->ListQuarantine(&context, {}, &response).ok();
  }

  TemporaryFolder folder_;
  const std::string tokens_ = folder_.path() / "tokens", config_ = folder_.path() / "uopd.toml";
  std::unique_ptr<DaemonProcess> daemon_ = [this] {
    WriteTokens(Line("alice") + Line("bob"));
    WriteOperators("alice");
    return std::make_unique<DaemonProcess>(
        folder_.path(),
        std::vector<std::string>{"--server-token-file=" + tokens_, "--config=" + config_});
  }();
};

TEST_F(TokenReloadTest, TokensComeAndGo) {
  EXPECT_TRUE(Call("bob").ok());
  EXPECT_TRUE(absl::IsUnauthenticated(Call("carol")));
  WriteTokens(Line("alice") + Line("carol"));
  Reload(1);
  EXPECT_TRUE(Eventually([&] { return absl::IsUnauthenticated(Call("bob")); }));
  EXPECT_TRUE(Call("carol").ok());
  EXPECT_TRUE(Call("alice").ok());
}

TEST_F(TokenReloadTest, StreamsOfARemovedTenantEnd) {
  const auto stub = Stub();
  grpc::ClientContext of_bob, of_alice;
  AddToken(of_bob, "bob");
  AddToken(of_alice, "alice");
  const auto removed = stub->Pipeline(&of_bob), kept = stub->Pipeline(&of_alice);
  v1::PipelineRequest message;  // without a call: an error, which shows that the stream is served
  v1::PipelineResponse answer;
  ASSERT_TRUE(removed->Write(message) && removed->Read(&answer));
  ASSERT_TRUE(kept->Write(message) && kept->Read(&answer));
  WriteTokens(Line("alice"));
  Reload(1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(removed->Read(&answer));
  EXPECT_EQ(removed->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_TRUE(kept->Write(message) && kept->Read(&answer));
  of_alice.TryCancel();
}

// Also if the run has a request id, with which it goes on when a client leaves.
TEST_F(TokenReloadTest, WhatAPipelineOfARemovedTenantRunsEnds) {
  const auto stub = Stub();
  v1::OpenSessionResponse session;
  grpc::ClientContext open, context;
  AddToken(open, "bob");
  AddToken(context, "bob");
  ASSERT_TRUE(stub->OpenSession(&open, {}, &session).ok());
  const auto stream = stub->Pipeline(&context);
  v1::PipelineRequest message;
  message.mutable_execute()->set_session_id(session.session_id());
  message.mutable_execute()->set_request_id(1);
  message.mutable_execute()->set_graph(LongGraph(int64_t{1} << 40));
  *message.mutable_execute()->add_arguments() = Returned();
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(Eventually(
      [&] { return daemon_->Metric("uopd_device_busy_seconds_total{device=\"CPU:0\"}") > 0; }));
  WriteTokens(Line("alice"));
  Reload(1);
  const auto begin = std::chrono::steady_clock::now();
  v1::PipelineResponse answer;
  while (stream->Read(&answer)) EXPECT_NE(answer.code(), 0);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(TokenReloadTest, AnUploadOfARemovedTenantEnds) {
  const auto stub = Stub();
  v1::OpenSessionResponse session;
  {
    grpc::ClientContext context;
    AddToken(context, "bob");
    ASSERT_TRUE(stub->OpenSession(&context, {}, &session).ok());
  }
  grpc::ClientContext context;
  AddToken(context, "bob");
  v1::UploadResponse done;
  const auto upload = stub->Upload(&context, &done);
  v1::UploadRequest chunk;
  chunk.set_session_id(session.session_id());
  chunk.mutable_buffer()->set_handle(1);
  chunk.mutable_buffer()->set_bytes(1 << 20);
  chunk.set_data("a");
  ASSERT_TRUE(upload->Write(chunk));
  WriteTokens(Line("alice"));
  Reload(1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(upload->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));  // 30 s: idle
}

// A client that does not read is not waited for either.
TEST_F(TokenReloadTest, ADownloadOfARemovedTenantEnds) {
  const auto stub = Stub();
  constexpr uint64_t kBytes = 64 << 20;
  v1::OpenSessionResponse session;
  {
    grpc::ClientContext context;
    AddToken(context, "bob");
    ASSERT_TRUE(stub->OpenSession(&context, {}, &session).ok());
    grpc::ClientContext create;
    AddToken(create, "bob");
    v1::CreateBuffersRequest request;
    request.set_session_id(session.session_id());
    auto* buffer = request.add_buffers();
    buffer->set_handle(1);
    buffer->set_bytes(kBytes);
    v1::CreateBuffersResponse response;
    ASSERT_TRUE(stub->CreateBuffers(&create, request, &response).ok());
  }
  grpc::ClientContext context;
  AddToken(context, "bob");
  v1::DownloadRequest request;
  request.set_session_id(session.session_id());
  request.set_handle(1);
  const auto download = stub->Download(&context, request);
  v1::DownloadResponse piece;
  ASSERT_TRUE(download->Read(&piece));
  WriteTokens(Line("alice"));
  Reload(1);
  uint64_t came = piece.data().size();
  std::this_thread::sleep_for(std::chrono::seconds(1));  // the daemon looks ten times a second
  while (download->Read(&piece)) came += piece.data().size();
  EXPECT_FALSE(download->Finish().ok());
  EXPECT_LT(came, kBytes);
}

TEST_F(TokenReloadTest, AWrongFileKeepsTheOldTokens) {
  WriteTokens("alice 12\n");
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] {
    return daemon_->Log().find(
               "level=error msg=\"not all tokens and operators are as the "
               "settings say\"") != std::string::npos;
  }));
  EXPECT_TRUE(Call("alice").ok());
  EXPECT_TRUE(Call("bob").ok());
  EXPECT_TRUE(IsOperator("alice"));
}

// The settings still name an operator whose token was taken away: the token goes all the same, and
// nobody takes over.
TEST_F(TokenReloadTest, TheTokenOfAnOperatorGoesThoughTheSettingsNameIt) {
  ASSERT_TRUE(IsOperator("alice"));
  WriteTokens(Line("bob"));
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return absl::IsUnauthenticated(Call("alice")); }));
  EXPECT_TRUE(Call("bob").ok());
  EXPECT_FALSE(IsOperator("bob"));
  EXPECT_NE(daemon_->Log().find("alice is a tenant without a token"), std::string::npos);
}

// The file of tokens or of settings may be a pipe, a folder or a device later. Then the daemon
// neither ends nor waits.
TEST_F(TokenReloadTest, WhatIsNoFileKeepsTheOldTokens) {
  int times = 0;
  const auto reload = [&](const std::string& path) {
    daemon_->Signal(SIGHUP);
    ++times;
    EXPECT_TRUE(Eventually([&] {
      const std::string log = daemon_->Log();
      int found = 0;
      for (size_t at = 0; (at = log.find("not a regular file", at)) != std::string::npos; ++at)
        ++found;
      return found >= times;
    })) << path;
    std::filesystem::remove(path);
    EXPECT_TRUE(Call("alice").ok());
  };
  std::filesystem::remove(tokens_);
  ASSERT_EQ(mkfifo(tokens_.c_str(), 0600), 0);
  reload(tokens_);
  std::filesystem::create_directory(tokens_);
  reload(tokens_);
  std::filesystem::create_symlink("/dev/zero", tokens_);
  reload(tokens_);
  WriteTokens(Line("alice"));
  std::filesystem::remove(config_);
  ASSERT_EQ(mkfifo(config_.c_str(), 0600), 0);
  reload(config_);
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Wait(), 0);
}

TEST_F(TokenReloadTest, OperatorsComeAndGo) {
  EXPECT_TRUE(IsOperator("alice"));
  EXPECT_FALSE(IsOperator("bob"));
  WriteOperators("bob");
  Reload(1);
  EXPECT_TRUE(Eventually([&] { return IsOperator("bob"); }));
  EXPECT_FALSE(IsOperator("alice"));
  WriteOperators("nobody");  // a name without a token
  Reload(2);
  EXPECT_TRUE(Eventually(
      [&] { return daemon_->Log().find("server.operators (nobody)") != std::string::npos; }));
  EXPECT_TRUE(IsOperator("bob"));
}

// Whatever else is wrong, a token that was taken away is of no use any more.
TEST_F(TokenReloadTest, TokensAreReadThoughASettingIsWrong) {
  WriteTokens(Line("alice"));
  std::ofstream(config_) << "[log]\nlevel = \"loud\"\n";
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return absl::IsUnauthenticated(Call("bob")); }));
  EXPECT_THAT(daemon_->Log(), HasSubstr("settings not reloaded"));
}

// Calls without a right to them are limited like all others, and have an allowance of their own.
TEST_F(TenantsTest, RefusedCallsAreLimitedAndTakeNothingFromOthers) {
  std::filesystem::create_directories(folder_.path() / "limited");
  DaemonProcess limited(folder_.path() / "limited",
                        {"--server-token-file=" + TokenFile(), "--server-operators=alice",
                         "--limits-peer-requests-per-s=5"});
  const auto stub = v1::UopdService::NewStub(
      grpc::CreateChannel(limited.listen(), grpc::InsecureChannelCredentials()));
  const auto hello = [&](const char* token) {
    grpc::ClientContext context;
    if (*token != '\0') context.AddMetadata("authorization", Cat("Bearer ", token));
    v1::HelloResponse response;
    v1::HelloRequest request;
    request.set_api_version_min(1);
    request.set_api_version_max(1);
    return stub->Hello(&context, request, &response);
  };
  const auto list = [&] {  // for operators
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer bob's");
    v1::ListCacheEntriesResponse response;
    return stub->ListCacheEntries(&context, v1::ListCacheEntriesRequest(), &response);
  };
  // What one call is refused with at first, and then by the limit.
  const auto exhausts = [](const auto& call, grpc::StatusCode first) {
    int refused = 0;
    for (int i = 0; i < 200; ++i) {
      const grpc::Status status = call();
      if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
        EXPECT_THAT(status.error_message(), HasSubstr("limits.peer_requests_per_s (5)"));
        return refused;
      }
      EXPECT_EQ(status.error_code(), first) << status.error_message();
      ++refused;
    }
    return -1;
  };
  EXPECT_GE(exhausts([&] { return hello("wrong"); }, grpc::StatusCode::UNAUTHENTICATED), 5);
  const grpc::Status served = hello("bob's");
  EXPECT_TRUE(served.ok()) << served.error_message();
  EXPECT_GE(exhausts(list, grpc::StatusCode::PERMISSION_DENIED), 0);
  const grpc::Status again = hello("alice's");
  EXPECT_TRUE(again.ok()) << again.error_message();
}

// Another tenant cannot use a session id.
TEST_F(TenantsTest, SessionsBelongToTheirTenant) {
  Client stubs(daemon_);
  auto with = [](grpc::ClientContext& context, const char* token) {
    context.AddMetadata("authorization", Cat("Bearer ", token));
  };
  v1::OpenSessionResponse session;
  {
    grpc::ClientContext context;
    with(context, "alice's");
    ASSERT_TRUE(stubs.stub().OpenSession(&context, {}, &session).ok());
  }
  for (const char* token : {"bob's", "alice's"}) {
    const grpc::StatusCode want =
        token[0] == 'b' ? grpc::StatusCode::NOT_FOUND : grpc::StatusCode::OK;
    {
      grpc::ClientContext context;
      with(context, token);
      v1::CreateBuffersRequest request;
      request.set_session_id(session.session_id());
      v1::CreateBuffersResponse response;
      EXPECT_EQ(stubs.stub().CreateBuffers(&context, request, &response).error_code(), want);
    }
    {
      grpc::ClientContext context;
      with(context, token);
      v1::OpenSessionRequest request;
      request.set_resume_token(session.resume_token());
      v1::OpenSessionResponse response;
      EXPECT_EQ(stubs.stub().OpenSession(&context, request, &response).error_code(), want);
    }
    {
      grpc::ClientContext context;
      with(context, token);
      auto stream = stubs.stub().Pipeline(&context);
      v1::PipelineRequest request;
      request.mutable_create_buffers()->set_session_id(session.session_id());
      ASSERT_TRUE(stream->Write(request));
      stream->WritesDone();
      v1::PipelineResponse response;
      ASSERT_TRUE(stream->Read(&response));
      EXPECT_EQ(response.code(), static_cast<int>(want));
      EXPECT_TRUE(stream->Finish().ok());
    }
    {
      grpc::ClientContext context;
      with(context, token);
      v1::CloseSessionRequest request;
      request.set_session_id(session.session_id());
      v1::CloseSessionResponse response;
      EXPECT_EQ(stubs.stub().CloseSession(&context, request, &response).error_code(), want);
    }
  }
}

TEST_F(TenantsTest, LogsNameTheTenantAndNeverTheToken) {
  auto alice = Open(daemon_, "alice's");
  ASSERT_TRUE(alice.ok());
  EXPECT_FALSE((*alice)->Download(99, 8).ok());
  EXPECT_FALSE(Open(daemon_, "guessed").ok());
  const std::string log = daemon_.Log();
  EXPECT_THAT(log, HasSubstr("tenant=alice"));
  EXPECT_EQ(log.find("alice's"), std::string::npos);
  EXPECT_EQ(log.find("guessed"), std::string::npos);
}

// A daemon holds few bundles in memory; who may not have any takes no place.
class BundleSlotsTest : public TenantsTest {
 protected:
  BundleSlotsTest() {
    const std::string key = (folder_.path() / "key").string();
    std::ofstream(key) << std::string(64, '1') << "\n";
    std::filesystem::permissions(key, std::filesystem::perms::owner_read);
    std::filesystem::create_directories(folder_.path() / "b");
    bundles_ = std::make_unique<DaemonProcess>(
        folder_.path() / "b",
        std::vector<std::string>{"--server-token-file=" + TokenFile(), "--server-operators=alice",
                                 "--cache-cluster-sign-key=" + key});
    alice_ = *Open(*bundles_, "alice's");
    v1::PrepareRequest request;
    request.set_graph(AddGraph(8));
    EXPECT_TRUE(alice_->Prepare(request).ok());
  }
  static absl::Status Export(client::Session& session) {
    return session.ExportCache({}, [](std::string_view) { return absl::OkStatus(); }).status();
  }
  static absl::Status ImportNothing(client::Session& session) {
    return session.ImportCache(
        true, [] { return absl::StatusOr<std::string>(""); }, [](const auto&) {});
  }

  std::unique_ptr<DaemonProcess> bundles_;
  std::unique_ptr<client::Session> alice_;
};

TEST_F(BundleSlotsTest, WhoIsNoOperatorKeepsNoOperatorOut) {
  std::atomic<bool> ended{false};
  std::atomic<int> refused{0};
  std::vector<std::thread> crowd;
  for (int i = 0; i < 4; ++i) {
    crowd.emplace_back([&] {
      const auto bob = Open(*bundles_, "bob's");
      ASSERT_TRUE(bob.ok()) << bob.status();
      while (!ended) {
        EXPECT_TRUE(absl::IsPermissionDenied(Export(**bob)));
        EXPECT_TRUE(absl::IsPermissionDenied(ImportNothing(**bob)));
        ++refused;
      }
    });
  }
  while (refused < 4) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    const absl::Status status = Export(*alice_);
    EXPECT_TRUE(status.ok()) << i << status;
  }
  ended = true;
  for (std::thread& one : crowd) one.join();
}

TEST_F(BundleSlotsTest, OperatorsWaitForEachOther) {
  std::promise<void> end;
  const std::shared_future<void> ends = end.get_future().share();
  std::atomic<int> held{0};
  std::vector<std::thread> imports;
  for (int i = 0; i < 2; ++i) {
    imports.emplace_back([&, ends] {
      int reads = 0;
      const auto read = [&]() -> absl::StatusOr<std::string> {
        if (++reads == 1) return "UOPB";  // the beginning of a bundle
        ++held;                           // the daemon has answered
        ends.wait();
        return "";
      };
      const absl::Status status = alice_->ImportCache(true, read, [](const auto&) {});
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;  // it was cut
    });
  }
  EXPECT_TRUE(Eventually([&] { return held == 2; }));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(absl::IsResourceExhausted(Export(*alice_)));
  end.set_value();
  for (std::thread& one : imports) one.join();
  EXPECT_TRUE(Export(*alice_).ok());  // those that were refused took no place
}

}  // namespace
}  // namespace uopd::e2e
