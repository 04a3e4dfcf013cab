// SPDX-License-Identifier: MIT
// A daemon that requires tokens, with clients that have a token, a wrong token, or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
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
  std::string TokenFile() {
    const std::string path = (folder_.path() / "tokens").string();
    std::ofstream(path) << "alice " << HashBytes("alice's").Hex() << "\nbob "
                        << HashBytes("bob's").Hex() << "\n";
    return path;
  }
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
