// SPDX-License-Identifier: MIT
// A daemon that requires tokens, with clients that have a token, a wrong token, or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "client/cpp/net/session.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"

namespace uopd::e2e {
namespace {

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

}  // namespace
}  // namespace uopd::e2e
