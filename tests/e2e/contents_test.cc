// SPDX-License-Identifier: MIT
// Constants by content: sessions and tenants that name what others have uploaded, with and without
// a proof, and what a client cannot do with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/possession.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using grpc::StatusCode;
using test::Eventually;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kWeightElements = 50'000;

std::string ModelWeights(uint64_t salt = 1) { return Bytes(Scattered(kWeightElements, salt)); }

// A client of some tenant, by its token.
class ContentClient {
 public:
  explicit ContentClient(const DaemonProcess& daemon, std::string token = "")
      : token_(std::move(token)), client_(daemon) {
    grpc::ClientContext context;
    AddToken(context);
    v1::HelloResponse hello;
    EXPECT_TRUE(client_.stub().Hello(&context, v1::HelloRequest(), &hello).ok());
    key_ = hello.content_key();
    grpc::ClientContext open;
    AddToken(open);
    v1::OpenSessionResponse response;
    EXPECT_TRUE(client_.stub().OpenSession(&open, v1::OpenSessionRequest(), &response).ok());
    session_ = response.session_id();
  }

  v1::NamedContent Named(uint64_t handle, const std::string& contents) const {
    ContentHasher hasher(key_);
    hasher.Update(contents);
    const ContentHasher::Names names = hasher.Finish();
    v1::NamedContent out;
    out.mutable_buffer()->set_handle(handle);
    out.mutable_buffer()->set_bytes(contents.size());
    out.set_sha256(std::string(names.sha256.view()));
    out.set_proof(std::string(ProofOfPossession(session_, names.tag).view()));
    return out;
  }
  struct Opened {
    grpc::Status status;
    std::vector<uint32_t> needed;
  };
  Opened Open(const std::vector<v1::NamedContent>& contents) {
    grpc::ClientContext context;
    AddToken(context);
    v1::OpenContentsRequest request;
    request.set_session_id(session_);
    for (const v1::NamedContent& content : contents) *request.add_contents() = content;
    v1::OpenContentsResponse response;
    Opened out;
    out.status = client_.stub().OpenContents(&context, request, &response);
    out.needed.assign(response.needed().begin(), response.needed().end());
    return out;
  }
  grpc::Status Upload(uint64_t handle, const std::string& data) {
    return Write(handle, data.size(), 0, data);
  }
  // `bytes`: of a new buffer.
  grpc::Status Write(uint64_t handle, uint64_t bytes, uint64_t offset, const std::string& data) {
    grpc::ClientContext context;
    AddToken(context);
    v1::UploadResponse response;
    auto writer = client_.stub().Upload(&context, &response);
    v1::UploadRequest message;
    message.set_session_id(session_);
    message.mutable_buffer()->set_handle(handle);
    message.mutable_buffer()->set_bytes(bytes);
    message.set_offset(offset);
    message.set_data(data);
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }
  std::string Download(uint64_t handle) {
    grpc::ClientContext context;
    AddToken(context);
    v1::DownloadRequest request;
    request.set_session_id(session_);
    request.set_handle(handle);
    auto reader = client_.stub().Download(&context, request);
    std::string out;
    for (v1::DownloadResponse part; reader->Read(&part);) out += part.data();
    const grpc::Status status = reader->Finish();
    return status.ok() ? out : status.error_message();
  }
  Executed Execute(const std::string& graph, const std::vector<v1::Argument>& arguments,
                   const std::vector<uint64_t>& free = {}) {
    grpc::ClientContext context;
    AddToken(context);
    v1::ExecuteRequest request;
    request.set_session_id(session_);
    request.set_graph(graph);
    for (const v1::Argument& argument : arguments) *request.add_arguments() = argument;
    request.mutable_free_buffers()->Add(free.begin(), free.end());
    Executed out;
    out.status = client_.stub().Execute(&context, request, &out.response);
    return out;
  }
  // Uploads contents and makes them a constant.
  void Give(uint64_t handle, const std::string& contents) {
    ASSERT_TRUE(Upload(handle, contents).ok());
    const Opened sealed = Open({Named(handle, contents)});
    ASSERT_TRUE(sealed.status.ok()) << sealed.status.error_message();
    ASSERT_THAT(sealed.needed, IsEmpty());
  }
  const std::string& key() const { return key_; }
  const std::string& session() const { return session_; }

 private:
  void AddToken(grpc::ClientContext& context) const {
    if (!token_.empty()) context.AddMetadata("authorization", Cat("Bearer ", token_));
  }

  const std::string token_;
  Client client_;
  std::string key_, session_;
};

class ContentsTest : public ::testing::Test {
 protected:
  std::string TokenFile() { return WriteTokenFile(folder_.path(), {"alice", "bob"}); }
  bool AwaitDisk(const DaemonProcess& daemon, double contents) {
    return Eventually([&] { return daemon.Metric("uopd_contents{tier=\"disk\"}") == contents; });
  }

  TemporaryFolder folder_;
};

TEST_F(ContentsTest, AnotherSessionNeedsNoUpload) {
  DaemonProcess daemon(folder_.path());
  ASSERT_TRUE(daemon.running());
  ContentClient first(daemon), second(daemon);
  ASSERT_EQ(first.key().size(), 32u);
  const std::string x = ModelWeights(1), y = ModelWeights(2);
  const auto asked = first.Open({first.Named(1, x), first.Named(2, y)});
  ASSERT_TRUE(asked.status.ok()) << asked.status.error_message();
  EXPECT_THAT(asked.needed, ElementsAre(0, 1));
  first.Give(1, x);
  const auto again = first.Open({first.Named(1, x), first.Named(2, y)});
  EXPECT_THAT(again.needed, ElementsAre(1));  // may be repeated
  first.Give(2, y);
  EXPECT_THAT(second.Open({second.Named(5, x), second.Named(6, y)}).needed, IsEmpty());
  EXPECT_EQ(second.Download(5), x);
  // One of them frees what it has; the other one computes on.
  const Executed freed =
      first.Execute(AddGraph(kWeightElements), {Returned(), Buffer(1), Buffer(2)}, {1, 2});
  ASSERT_TRUE(freed.status.ok()) << freed.status.error_message();
  const Executed ran =
      second.Execute(AddGraph(kWeightElements), {Returned(), Buffer(5), Buffer(6)});
  ASSERT_TRUE(ran.status.ok()) << ran.status.error_message();
  EXPECT_EQ(ran.response.data(0), freed.response.data(0));
  const std::vector<float> sum = Floats(ran.response.data(0)), a = Floats(x), b = Floats(y);
  for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], a[i] + b[i]) << i;
  EXPECT_EQ(first.Download(1), "buffer 1 is unknown");
}

TEST_F(ContentsTest, TenantsShareWithAProofAlone) {
  DaemonProcess daemon(folder_.path(), {"--server-token-file=" + TokenFile()});
  ASSERT_TRUE(daemon.running());
  ContentClient alice(daemon, "alice's"), bob(daemon, "bob's");
  const std::string secret = ModelWeights();
  alice.Give(1, secret);
  // Bob knows the digest, and the proof that Alice sent.
  v1::NamedContent named = bob.Named(7, secret);
  const v1::NamedContent with_alices_proof = [&] {
    v1::NamedContent out = named;
    out.set_proof(alice.Named(1, secret).proof());
    return out;
  }();
  v1::NamedContent without = named, zero = named, absent = named;
  without.clear_proof();
  zero.set_proof(std::string(32, '\0'));
  absent.set_sha256(std::string(HashBytes("nobody has this").view()));
  const auto refused = bob.Open({with_alices_proof, without, zero, absent});
  ASSERT_TRUE(refused.status.ok()) << refused.status.error_message();
  EXPECT_THAT(refused.needed, ElementsAre(0, 1, 2, 3));  // all the same
  EXPECT_THAT(bob.Open({named}).needed, IsEmpty());
  EXPECT_EQ(bob.Download(7), secret);
}

TEST_F(ContentsTest, NoCallWritesAConstant) {
  DaemonProcess daemon(folder_.path());
  ASSERT_TRUE(daemon.running());
  ContentClient client(daemon), other(daemon);
  const std::string x = ModelWeights();
  client.Give(1, x);
  ASSERT_THAT(other.Open({other.Named(1, x)}).needed, IsEmpty());
  const auto expect_refused = [](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("buffer 1 is a constant"));
  };
  expect_refused(client.Write(1, 0, 0, x.substr(0, 8)));
  expect_refused(client.Write(1, 0, 64, x.substr(0, 8)));
  expect_refused(client.Upload(1, x));
  const std::string graph = AddGraph(kWeightElements);
  expect_refused(client.Execute(graph, {Buffer(1), Data(x), Data(x)}).status);
  v1::Argument filled = Data(x);
  filled.set_buffer(1);
  expect_refused(client.Execute(graph, {Returned(), filled, Data(x)}).status);
  const auto wrong = client.Open({client.Named(1, ModelWeights(2))});
  EXPECT_EQ(wrong.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client.Download(1), x);
  EXPECT_EQ(other.Download(1), x);
}

TEST_F(ContentsTest, AWrongDigestKeepsNothing) {
  DaemonProcess daemon(folder_.path());
  ASSERT_TRUE(daemon.running());
  ContentClient client(daemon);
  const std::string x = ModelWeights(1), y = ModelWeights(2);
  ASSERT_TRUE(client.Upload(3, x).ok());
  v1::NamedContent named = client.Named(3, y);
  const auto wrong = client.Open({named});
  EXPECT_EQ(wrong.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(wrong.status.error_message(), HasSubstr("content 0 as buffer 3"));
  EXPECT_THAT(wrong.status.error_message(), HasSubstr(HashBytes(x).Hex()));
  EXPECT_EQ(client.Download(3), "buffer 3 is unknown");
  EXPECT_THAT(client.Open({client.Named(4, x), client.Named(5, y)}).needed, ElementsAre(0, 1));
  EXPECT_EQ(daemon.Metric("uopd_contents{tier=\"memory\"}"), 0);
}

TEST_F(ContentsTest, HostileRequestsGetErrorsThatNameTheirPart) {
  DaemonProcess daemon(folder_.path());
  ASSERT_TRUE(daemon.running());
  ContentClient client(daemon);
  const std::string x = ModelWeights();
  const auto expect_error = [&](v1::NamedContent content, const std::string& text) {
    const auto opened = client.Open({client.Named(90, "absent"), content});
    EXPECT_EQ(opened.status.error_code(), StatusCode::INVALID_ARGUMENT) << text;
    EXPECT_THAT(opened.status.error_message(), HasSubstr("opening content 1 as buffer"));
    EXPECT_THAT(opened.status.error_message(), HasSubstr(text));
  };
  v1::NamedContent named = client.Named(1, x);
  named.set_sha256("short");
  expect_error(named, "SHA-256 (5 bytes)");
  named = client.Named(1, x);
  named.set_proof(std::string(1 << 20, 'p'));
  expect_error(named, "proof (1048576 bytes)");
  expect_error(client.Named(0, x), "buffer handle (0)");
  named = client.Named(1, x);
  named.mutable_buffer()->set_device("TOASTER:7");
  expect_error(named, "no driver \"TOASTER\"");
  ASSERT_TRUE(client.Upload(2, x).ok());
  named = client.Named(2, x);
  named.mutable_buffer()->set_bytes(x.size() + 1);
  expect_error(named, Cat("buffer has ", x.size(), " bytes, not ", x.size() + 1));
  // Sizes that nobody has are contents that are not there, also next to those of the same name.
  client.Give(2, x);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX}) {
    named = client.Named(3, x);
    named.mutable_buffer()->set_bytes(bytes);
    EXPECT_THAT(client.Open({named}).needed, ElementsAre(0)) << bytes;
  }
  const std::vector<v1::NamedContent> many(4097, client.Named(4, "absent"));
  const auto too_many = client.Open(many);
  EXPECT_EQ(too_many.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(too_many.status.error_message(), HasSubstr("4097 contents"));
  std::vector<uint32_t> all(4096);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(client.Open({many.begin(), many.begin() + 4096}).needed, all);
  EXPECT_THAT(client.Open({}).needed, IsEmpty());
  ExpectServes(daemon);
}

TEST_F(ContentsTest, AWarmDiskServesTheNextDaemon) {
  const std::string x = ModelWeights(1), y = ModelWeights(2);
  {
    DaemonProcess daemon(folder_.path());
    ASSERT_TRUE(daemon.running());
    ContentClient client(daemon);
    client.Give(1, x);
    client.Give(2, y);
    ASSERT_TRUE(AwaitDisk(daemon, 2));
    daemon.Signal(SIGKILL);
    daemon.Wait();
  }
  size_t changed = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (file.path().filename() != HashBytes(y).Hex()) continue;
    std::fstream damaged(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(100'000);
    damaged.put('\x7f');
    ++changed;
  }
  ASSERT_EQ(changed, 1u);
  DaemonProcess daemon(folder_.path());
  ASSERT_TRUE(daemon.running());
  ContentClient client(daemon);
  EXPECT_THAT(client.Open({client.Named(1, x), client.Named(2, y)}).needed, ElementsAre(1));
  EXPECT_EQ(client.Download(1), x);
  EXPECT_EQ(daemon.Metric("uopd_content_damaged_total"), 1);
  client.Give(2, y);
  EXPECT_EQ(client.Download(2), y);
  EXPECT_TRUE(AwaitDisk(daemon, 2));
}

TEST_F(ContentsTest, MemoryInUseStaysAndWhatNobodyUsesGivesWay) {
  DaemonProcess daemon(folder_.path(), {"--content-memory-bytes=500000", "--content-disk-bytes=0"});
  ASSERT_TRUE(daemon.running());
  ContentClient user(daemon), other(daemon);
  const std::string x = ModelWeights(1), y = ModelWeights(2),
                    z = ModelWeights(3);  // 200,000 bytes each
  user.Give(1, x);
  other.Give(1, y);
  other.Give(2, z);  // has no room: it is the session's own
  EXPECT_THAT(user.Open({user.Named(2, y)}).needed, IsEmpty());
  EXPECT_THAT(user.Open({user.Named(3, z)}).needed, ElementsAre(0));
  EXPECT_EQ(other.Download(2), z);
  const grpc::Status refused = other.Write(2, 0, 0, z.substr(0, 8));
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(user.Download(1), x);
  EXPECT_TRUE(
      Eventually([&] { return daemon.Metric("uopd_content_bytes{tier=\"used\"}") > 400'000; }));
}

}  // namespace
}  // namespace uopd::e2e
