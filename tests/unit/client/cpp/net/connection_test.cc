// SPDX-License-Identifier: MIT
// The stream of calls against a gRPC server in this process that plays a daemon: order, failures,
// lost streams, cancellation.
#include "uopd/connection.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>
#include <thread>

#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Serves the calls of a session as a daemon does. An Execute sets each buffer that it makes to its
// digest, and appends the digest to the other ones.
class FakeDaemon final : public v1::UopdService::Service {
 public:
  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest* request,
                     v1::HelloResponse* response) override {
    MutexLock lock(mutex_);
    response->set_api_version(1);
    response->set_ir_version(request->ir_version());
    response->add_devices()->set_name("CPU:0");
    response->set_instance("start " + std::to_string(starts_));
    response->set_content_key(content_key_);
    response->mutable_limits()->set_max_message_bytes(16 << 20);
    return grpc::Status::OK;
  }
  grpc::Status OpenSession(grpc::ServerContext*, const v1::OpenSessionRequest* request,
                           v1::OpenSessionResponse* response) override {
    MutexLock lock(mutex_);
    if (!request->resume_token().empty()) {
      ++resumes_;
      if (refuses_to_resume_ > 0) {
        --refuses_to_resume_;
        return {grpc::RESOURCE_EXHAUSTED, "too many calls"};
      }
      if (session_.empty()) return {grpc::NOT_FOUND, "no such session"};
    } else {
      if (refuses_sessions_) return {grpc::RESOURCE_EXHAUSTED, "too many sessions"};
      ForgetSession();
      session_ = "s" + std::to_string(++sessions_);
    }
    response->set_session_id(session_);
    response->set_resume_token("t");
    response->set_ttl_ms(60000);
    response->set_last_sequence(last_sequence_);
    return grpc::Status::OK;
  }
  grpc::Status CancelExecute(grpc::ServerContext*, const v1::CancelExecuteRequest* request,
                             v1::CancelExecuteResponse*) override {
    MutexLock lock(mutex_);
    cancelled_.insert(request->request_id());
    wake_.notify_all();
    return grpc::Status::OK;
  }
  // Has the contents with these digests, and takes the proofs of all. Like an older daemon, if it
  // has no key.
  grpc::Status OpenContents(grpc::ServerContext*, const v1::OpenContentsRequest* request,
                            v1::OpenContentsResponse* response) override {
    MutexLock lock(mutex_);
    ++asked_;
    if (content_key_.empty() || refuses_contents_) return {grpc::UNIMPLEMENTED, "no such call"};
    if (request->session_id() != session_) return {grpc::NOT_FOUND, "no such session"};
    for (int i = 0; i < request->contents_size(); ++i) {
      const v1::NamedContent& content = request->contents(i);
      std::string& buffer = buffers_[content.buffer().handle()];
      if (HashBytes(buffer).view() == content.sha256()) {
        contents_[content.sha256()] = buffer;
      } else if (const auto at = contents_.find(content.sha256()); at != contents_.end()) {
        buffer = at->second;
      } else {
        buffers_.erase(content.buffer().handle());
        response->add_needed(static_cast<uint32_t>(i));
      }
    }
    return grpc::Status::OK;
  }
  grpc::Status Pipeline(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::PipelineResponse, v1::PipelineRequest>* stream) override {
    v1::PipelineRequest request;
    uint64_t failed_epoch = 0;
    while (stream->Read(&request)) {
      v1::PipelineResponse response;
      response.set_sequence(request.sequence());
      {
        MutexLock lock(mutex_);
        if (request.epoch() != 0 && request.epoch() == failed_epoch) {
          response.set_code(static_cast<int>(absl::StatusCode::kAborted));
        } else {
          Serve(request, response, lock, *context);
        }
        if (response.code() != 0)
          failed_epoch = request.epoch();
        else
          last_sequence_ = request.sequence();
        if (always_breaks_) return {grpc::UNAVAILABLE, "it breaks always"};
        if (forgets_after_ > 0 && --forgets_after_ == 0) {
          ++starts_;
          ForgetSession();
        }
        if (reads_no_more_) {
          reads_no_more_ = false;
          response.set_code(static_cast<int>(absl::StatusCode::kNotFound));
          response.mutable_missing_error()->set_kind("session");
          stream->Write(response);
          lock.Wait(wake_, [&]() UOPD_REQUIRES(mutex_) { return released_; });
          return grpc::Status::OK;
        }
        if (break_after_ > 0 && --break_after_ == 0) {
          return {grpc::UNAVAILABLE, "the connection broke"};  // the answer is lost
        }
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }

  void Serve(const v1::PipelineRequest& request, v1::PipelineResponse& response, MutexLock& lock,
             const grpc::ServerContext& context) UOPD_REQUIRES(mutex_) {
    auto fail = [&](absl::StatusCode code, const std::string& message,
                    const std::string& kind = "") {
      response.set_code(static_cast<int>(code));
      response.set_message(message);
      if (!kind.empty()) response.mutable_missing_error()->set_kind(kind);
    };
    if (SessionOf(request) != session_)
      return fail(absl::StatusCode::kNotFound, "no such session", "session");
    if (request.has_upload()) {
      const v1::UploadRequest& upload = request.upload();
      std::string& buffer = buffers_[upload.buffer().handle()];
      buffer.resize(upload.buffer().bytes());
      buffer.replace(upload.offset(), upload.data().size(), upload.data());
      ++uploads_;
      if (uploads_ == failing_upload_) fail(absl::StatusCode::kResourceExhausted, "no room");
      return;
    }
    if (request.has_download()) {
      const v1::DownloadRequest& download = request.download();
      if (!buffers_.contains(download.handle()))
        return fail(absl::StatusCode::kNotFound, "no such buffer", "buffer");
      response.mutable_download()->set_data(
          buffers_[download.handle()].substr(download.offset(), download.bytes()));
      return;
    }
    const v1::ExecuteRequest& execute = request.execute();
    if (!execute.graph().empty()) graphs_.insert(execute.digest());
    if (!graphs_.contains(execute.digest()))
      return fail(absl::StatusCode::kNotFound, "unknown program", "program");
    if (execute.digest() == "hang") {
      lock.Wait(wake_, [&]() UOPD_REQUIRES(mutex_) {
        return cancelled_.contains(execute.request_id()) || context.IsCancelled() || released_;
      });
    }
    if (cancelled_.contains(execute.request_id()))
      return fail(absl::StatusCode::kCancelled, "cancelled");
    if (failures_.contains(execute.digest()))
      return fail(absl::StatusCode::kResourceExhausted, "no room for " + execute.digest());
    const bool first = ran_.insert(execute.request_id()).second;
    if (first) order_.push_back(execute.digest());
    for (const v1::Argument& a : execute.arguments()) {
      if (a.buffer() != 0 && first) buffers_[a.buffer()] += execute.digest();
      if (a.return_data()) response.mutable_execute()->add_data(execute.digest());
    }
  }

  static std::string SessionOf(const v1::PipelineRequest& request) {
    if (request.has_upload()) return request.upload().session_id();
    if (request.has_download()) return request.download().session_id();
    if (request.has_free_buffers()) return request.free_buffers().session_id();
    return request.execute().session_id();
  }

  // Forgets everything, as a daemon that is restarted, or the session alone.
  void Restart() {
    MutexLock lock(mutex_);
    ++starts_;
    graphs_.clear();
    ForgetSession();
  }
  void EndSession() {
    MutexLock lock(mutex_);
    ForgetSession();
  }
  void ForgetSession() UOPD_REQUIRES(mutex_) {
    session_.clear();
    buffers_.clear();
    ran_.clear();
    last_sequence_ = 0;
  }

  Mutex mutex_;
  std::condition_variable wake_;
  std::string content_key_ UOPD_GUARDED_BY(mutex_);
  bool refuses_contents_ UOPD_GUARDED_BY(mutex_) = false;
  int asked_ UOPD_GUARDED_BY(mutex_) = 0;                                // for contents
  std::map<std::string, std::string> contents_ UOPD_GUARDED_BY(mutex_);  // by SHA-256
  std::string session_ UOPD_GUARDED_BY(mutex_);                          // empty: it is gone
  int sessions_ UOPD_GUARDED_BY(mutex_) = 0, starts_ UOPD_GUARDED_BY(mutex_) = 1;
  int refuses_to_resume_ UOPD_GUARDED_BY(mutex_) = 0;  // times
  bool refuses_sessions_ UOPD_GUARDED_BY(mutex_) = false;
  // Answers the next message that the session is unknown, leaves the stream open and reads nothing.
  bool reads_no_more_ UOPD_GUARDED_BY(mutex_) = false;
  int forgets_after_ UOPD_GUARDED_BY(mutex_) = -1;  // messages
  std::map<uint64_t, std::string> buffers_ UOPD_GUARDED_BY(mutex_);
  std::set<std::string> graphs_ UOPD_GUARDED_BY(mutex_), failures_ UOPD_GUARDED_BY(mutex_);
  std::set<uint64_t> ran_ UOPD_GUARDED_BY(mutex_), cancelled_ UOPD_GUARDED_BY(mutex_);
  std::vector<std::string> order_ UOPD_GUARDED_BY(mutex_);  // digests that ran
  uint64_t last_sequence_ UOPD_GUARDED_BY(mutex_) = 0;
  int resumes_ UOPD_GUARDED_BY(mutex_) = 0, uploads_ UOPD_GUARDED_BY(mutex_) = 0;
  int failing_upload_ UOPD_GUARDED_BY(mutex_) = -1;
  int break_after_ UOPD_GUARDED_BY(mutex_) = -1;  // messages
  bool always_breaks_ UOPD_GUARDED_BY(mutex_) = false;
  bool released_ UOPD_GUARDED_BY(mutex_) = false;
};

class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&daemon_);
    server_ = builder.BuildAndStart();
    options_.address = "127.0.0.1:" + std::to_string(port);
    options_.timeout = absl::Seconds(20);
  }
  ~ConnectionTest() override {
    connection_.reset();
    MutexLock lock(daemon_.mutex_);
    daemon_.released_ = true;
    daemon_.wake_.notify_all();
  }
  void Connect() {
    auto c = Connection::Connect(options_);
    ASSERT_TRUE(c.ok()) << c.status();
    connection_ = *c;
  }
  // A call of a graph that is called `digest`, which makes and reads these buffers.
  Answer Run(const std::string& digest, std::vector<uint64_t> makes = {},
             std::vector<uint64_t> reads = {}) {
    Call call;
    call.digest = digest;
    call.graph = std::make_shared<const std::string>("graph");
    for (uint64_t handle : makes) call.arguments.push_back({.handle = handle, .made = true});
    for (uint64_t handle : reads) call.arguments.push_back({.handle = handle});
    return connection_->Submit(std::move(call));
  }
  std::vector<std::string> Order() {
    MutexLock lock(daemon_.mutex_);
    return daemon_.order_;
  }

  FakeDaemon daemon_;
  std::unique_ptr<grpc::Server> server_;
  ConnectOptions options_;
  std::shared_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, TellsOfTheDaemon) {
  Connect();
  EXPECT_EQ(connection_->devices()[0].name, "CPU:0");
  EXPECT_EQ(connection_->max_message_bytes(), 16u << 20);
}

TEST_F(ConnectionTest, SendsAGraphOnceAndKeepsTheOrder) {
  Connect();
  std::vector<Answer> answers;
  for (const char* digest : {"a", "b", "a", "c", "b"}) answers.push_back(Run(digest));
  for (const Answer& a : answers) EXPECT_TRUE(a.future.Wait().ok()) << a.future.Wait();
  EXPECT_THAT(Order(), ElementsAre("a", "b", "a", "c", "b"));
  EXPECT_TRUE(answers[0].result->report.graph_sent);
  EXPECT_FALSE(answers[2].result->report.graph_sent);
}

TEST_F(ConnectionTest, ATransferIsInChunks) {
  Connect();
  std::string data((2 << 20) + 5, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31);
  const Future sent = connection_->Upload(9, "", std::make_shared<const std::string>(data));
  std::string read(data.size(), '\0');
  EXPECT_TRUE(connection_->Download(9, read).Wait().ok());
  EXPECT_TRUE(sent.Done());
  EXPECT_TRUE(sent.Wait().ok());
  EXPECT_TRUE(read == data);
  EXPECT_EQ(connection_->Download(8, read).Wait().code(), absl::StatusCode::kNotFound);
  EXPECT_GE(connection_->traffic().upload_bytes, data.size());
  EXPECT_LT(connection_->traffic().upload_bytes, data.size() + 200);
}

// Contents that calls only read.
class ContentsTest : public ConnectionTest {
 protected:
  void ConnectWithKey(const std::string& key) {
    {
      MutexLock lock(daemon_.mutex_);
      daemon_.content_key_ = key;
    }
    Connect();
    for (const std::string& contents : contents_)
      named_.push_back({connection_->NewHandle(), "", contents});
  }
  void Keep(const std::string& contents) {
    MutexLock lock(daemon_.mutex_);
    daemon_.contents_.emplace(HashBytes(contents).view(), contents);
  }
  void ExpectThere() {
    for (const Content& content : named_) {
      std::string read(content.bytes.size(), '\0');
      EXPECT_TRUE(connection_->Download(content.handle, read).Wait().ok());
      EXPECT_EQ(read, content.bytes);
    }
  }
  int uploads() {
    MutexLock lock(daemon_.mutex_);
    return daemon_.uploads_;
  }
  int asked() {
    MutexLock lock(daemon_.mutex_);
    return daemon_.asked_;
  }

  const std::vector<std::string> contents_ = {"one", std::string((1 << 20) + 1, '2'), "three"};
  std::vector<Content> named_;
};

TEST_F(ContentsTest, OnlyWhatTheDaemonNeedsIsSent) {
  ConnectWithKey("key");
  Keep(contents_[0]);
  Keep(contents_[2]);
  ASSERT_TRUE(connection_->UploadContents(named_).ok());
  EXPECT_EQ(uploads(), 2);  // two chunks of the second one
  EXPECT_EQ(asked(), 2);
  ExpectThere();
  auto again = named_;
  for (Content& content : again) content.handle = connection_->NewHandle();
  const uint64_t before = connection_->traffic().total();
  ASSERT_TRUE(connection_->UploadContents(again).ok());
  EXPECT_EQ(uploads(), 2);
  EXPECT_EQ(asked(), 3);
  EXPECT_LT(connection_->traffic().total() - before, 500u);
  EXPECT_GT(connection_->traffic().total(), before);
}

TEST_F(ContentsTest, AnOlderDaemonGetsOrdinaryUploads) {
  ConnectWithKey("");
  ASSERT_TRUE(connection_->UploadContents(named_).ok());
  EXPECT_EQ(uploads(), 4);
  EXPECT_EQ(asked(), 0);
  ExpectThere();
}

TEST_F(ContentsTest, ADaemonThatDoesNotKnowTheCallGetsOrdinaryUploads) {
  ConnectWithKey("key");
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.refuses_contents_ = true;
  }
  ASSERT_TRUE(connection_->UploadContents(named_).ok());
  EXPECT_EQ(uploads(), 4);
  ExpectThere();
}

TEST_F(ContentsTest, ASessionThatEndsMeanwhileLosesNothing) {
  ConnectWithKey("key");
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.forgets_after_ = 2;
  }
  ASSERT_TRUE(connection_->UploadContents(named_).ok());
  ExpectThere();
}

TEST_F(ContentsTest, AnUploadThatFailsIsTheError) {
  ConnectWithKey("key");
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.failing_upload_ = 2;
  }
  EXPECT_EQ(connection_->UploadContents(named_).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ConnectionTest, WhatNeedsAFailedCallFailsAndAllElseRuns) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a", "b", "c", "d", "e"};
    daemon_.failures_ = {"b"};
  }
  const Answer a = Run("a", {1}), b = Run("b", {2}, {1}), c = Run("c", {3}, {2}),
               d = Run("d", {4}, {1}), e = Run("e", {5}, {3});
  std::string missing(1, '\0'), there(2, '\0');
  const Future of_c = connection_->Download(3, missing), of_d = connection_->Download(1, there);
  EXPECT_TRUE(a.future.Wait().ok());
  for (const Future& f : {b.future, c.future, e.future, of_c}) {
    EXPECT_EQ(f.Wait().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(StatusText(f.Wait()), HasSubstr("no room for b"));
  }
  EXPECT_TRUE(d.future.Wait().ok());
  EXPECT_TRUE(of_d.Wait().ok());
  EXPECT_EQ(there, "ad");
  EXPECT_THAT(Order(), ElementsAre("a", "d"));
}

TEST_F(ConnectionTest, AnUploadThatFailsFailsWhatReadsIt) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a", "b"};
    daemon_.failing_upload_ = 2;
  }
  auto data = std::make_shared<const std::string>(std::string((2 << 20) + 5, 'x'));
  const Future upload = connection_->Upload(1, "", data);
  const Answer a = Run("a", {2}, {1}), b = Run("b", {3});
  EXPECT_EQ(upload.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(a.future.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(b.future.Wait().ok());
  EXPECT_THAT(Order(), ElementsAre("b"));
}

// Whatever message the stream breaks after, the calls run once, and uploads overwrite nothing that
// a later call wrote.
TEST_F(ConnectionTest, ABrokenStreamLosesAndRepeatsNothing) {
  for (int message = 1; message <= 7; ++message) {
    Connect();
    {
      MutexLock lock(daemon_.mutex_);
      daemon_.graphs_ = {"a", "b"};
      daemon_.buffers_.clear();
      daemon_.order_.clear();
      daemon_.ran_.clear();
      daemon_.last_sequence_ = 0;
      daemon_.resumes_ = 0;
      daemon_.break_after_ = message;
    }
    const Future upload = connection_->Upload(1, "", std::make_shared<const std::string>("xy"));
    const Answer a = Run("a", {}, {1});
    const Answer b = Run("b", {2}, {1});
    std::string first(4, '\0'), second(1, '\0');
    const Future one = connection_->Download(1, first), two = connection_->Download(2, second);
    for (const Future& f : {upload, a.future, b.future, one, two})
      EXPECT_TRUE(f.Wait().ok()) << message << ": " << f.Wait();
    EXPECT_EQ(first, "xyab") << message;
    EXPECT_EQ(second, "b") << message;
    EXPECT_THAT(Order(), ElementsAre("a", "b"));
    MutexLock lock(daemon_.mutex_);
    EXPECT_EQ(daemon_.resumes_, message <= 5 ? 1 : 0) << message;
  }
}

// Each call runs once and in order, whatever is on its way at the moment of a fork, and whoever
// waits is answered. (tests/python/test_process.py forks.)
TEST_F(ConnectionTest, CallsGoOnAfterAFork) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a", "b"};
  }
  std::vector<std::string> expected;
  std::string contents(100, '\0'), read(100, '\0');
  for (int i = 0; i < 30; ++i) {
    for (char& c : contents) c = static_cast<char>(c + i + 1);
    const Future upload = connection_->Upload(1, "", std::make_shared<const std::string>(contents));
    std::vector<Answer> answers;
    for (int k = 0; k < i % 7; ++k) {
      answers.push_back(Run(k % 2 == 0 ? "a" : "b"));
      expected.emplace_back(k % 2 == 0 ? "a" : "b");
    }
    const Future download = connection_->Download(1, read);
    std::thread waiter([&] { EXPECT_TRUE(download.Wait().ok()) << download.Wait(); });
    if (i % 3 == 1) {
      EXPECT_TRUE(upload.Wait().ok());
    }
    Connection::BeforeFork();
    Connection::AfterForkInParent();
    for (const Answer& a : answers) EXPECT_TRUE(a.future.Wait().ok()) << a.future.Wait();
    waiter.join();
    EXPECT_EQ(read, contents) << i;
  }
  EXPECT_EQ(Order(), expected);
  Connection::BeforeFork();
  Connection::AfterForkInParent();
  connection_.reset();  // without any call since
}

TEST_F(ConnectionTest, ACallThatTheDaemonRunsGoesOnAfterAFork) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"hang"};
  }
  const Answer answer = Run("hang");
  // More forks than a stream may break: a fork is no fault of the daemon.
  for (int i = 0; i < 12; ++i) {
    Connection::BeforeFork();
    Connection::AfterForkInParent();
    EXPECT_FALSE(answer.future.WaitFor(absl::Milliseconds(50))) << answer.future.Wait();
  }
  connection_->Cancel();
  EXPECT_EQ(answer.future.Wait().code(), absl::StatusCode::kCancelled);
}

TEST_F(ConnectionTest, AStreamThatBreaksAlwaysIsGivenUp) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a"};
    daemon_.always_breaks_ = true;
  }
  const absl::Status s = Run("a").future.Wait();
  EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(StatusText(s), HasSubstr("it breaks always"));
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.always_breaks_ = false;
  }
  EXPECT_TRUE(Run("a").future.Wait().ok());
}

// What was made before is lost, and says so. Everything else is done in another session, also what
// was on its way.
TEST_F(ConnectionTest, AfterARestartOnlyWhatWasMadeBeforeIsLost) {
  for (const bool breaks :
       {false, true}) {  // the stream, or the daemon says that it knows no such session
    Connect();
    {
      MutexLock lock(daemon_.mutex_);
      daemon_.order_.clear();
    }
    const uint64_t old = connection_->NewHandle(), unsent = connection_->NewHandle();
    EXPECT_TRUE(Run("a", {old}).future.Wait().ok());
    EXPECT_TRUE(connection_->Held(old).ok());
    daemon_.Restart();
    if (breaks) {
      MutexLock lock(daemon_.mutex_);
      daemon_.break_after_ = 1;
    }
    const uint64_t made = connection_->NewHandle(), lost = connection_->NewHandle();
    std::string kept(4, '\0'), gone(1, '\0');
    const Answer alone = Run("b"), uses = Run("c", {lost}, {old}), uses_that = Run("d", {}, {lost}),
                 makes = Run("e", {made});
    const Future upload =
        connection_->Upload(unsent, "", std::make_shared<const std::string>("xy"));
    const Answer both = Run("f", {}, {made, unsent});
    const Future read = connection_->Download(unsent, std::span(kept).first(3)),
                 read_old = connection_->Download(old, gone);
    for (const Future& f : {alone.future, makes.future, upload, both.future, read})
      EXPECT_TRUE(f.Wait().ok()) << f.Wait();
    EXPECT_EQ(kept.substr(0, 3), "xyf");
    for (const Future& f : {uses.future, uses_that.future, read_old}) {
      EXPECT_EQ(f.Wait().code(), absl::StatusCode::kFailedPrecondition) << f.Wait();
      EXPECT_THAT(StatusText(f.Wait()),
                  HasSubstr("the daemon at " + options_.address + " was restarted"));
    }
    EXPECT_THAT(Order(), ElementsAre("a", "b", "e", "f"));
    EXPECT_TRUE(absl::IsFailedPrecondition(connection_->Held(old)));
    EXPECT_TRUE(connection_->Held(made).ok());
    EXPECT_TRUE(connection_->Held(unsent).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(Run("a", {}, {old}).future.Wait()));
    EXPECT_TRUE(Run("a", {}, {made, unsent}).future.Wait().ok());
    // And once more.
    daemon_.Restart();
    EXPECT_TRUE(Run("a").future.Wait().ok());
    for (const uint64_t handle : {old, made, unsent}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(connection_->Held(handle)));
      EXPECT_TRUE(absl::IsFailedPrecondition(Run("a", {}, {handle}).future.Wait()));
    }
  }
}

// A transfer of which the daemon had a part is lost as a whole.
TEST_F(ConnectionTest, AnUploadThatARestartCutsIsLost) {
  Connect();
  const uint64_t handle = connection_->NewHandle();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.forgets_after_ = 2;
  }
  const Future upload = connection_->Upload(
      handle, "", std::make_shared<const std::string>(std::string(4 << 20, 'x')));
  EXPECT_TRUE(absl::IsFailedPrecondition(upload.Wait())) << upload.Wait();
  std::string read(1, '\0');
  EXPECT_TRUE(absl::IsFailedPrecondition(connection_->Download(handle, read).Wait()));
  // The same handle again, as the client does that has kept the contents.
  EXPECT_TRUE(
      connection_->Upload(handle, "", std::make_shared<const std::string>("y")).Wait().ok());
  EXPECT_TRUE(connection_->Download(handle, read).Wait().ok());
  EXPECT_EQ(read, "y");
}

TEST_F(ConnectionTest, ALeaseThatRanOutIsNoRestart) {
  Connect();
  const uint64_t handle = connection_->NewHandle();
  EXPECT_TRUE(Run("a", {handle}).future.Wait().ok());
  daemon_.EndSession();
  const absl::Status s = Run("a", {}, {handle}).future.Wait();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(s), HasSubstr("the session on " + options_.address + " has ended"));
  EXPECT_TRUE(Run("a").future.Wait().ok());
}

TEST_F(ConnectionTest, ADaemonThatRefusesForAWhileKeepsTheSession) {
  Connect();
  const uint64_t handle = connection_->NewHandle();
  EXPECT_TRUE(Run("a", {handle}).future.Wait().ok());
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.refuses_to_resume_ = 2;
    daemon_.break_after_ = 1;
  }
  EXPECT_TRUE(Run("b", {}, {handle}).future.Wait().ok());
  EXPECT_TRUE(connection_->Held(handle).ok());
}

TEST_F(ConnectionTest, WithoutAnotherSessionTheReasonIsTold) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.refuses_sessions_ = true;
  }
  daemon_.Restart();
  const absl::Status s = Run("a").future.Wait();
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(s), HasSubstr("too many sessions"));
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.refuses_sessions_ = false;
  }
  EXPECT_TRUE(Run("a").future.Wait().ok());
}

// The daemon answers the first chunk and leaves the stream open. Some later chunk is being written
// then, since the daemon reads no more. The client must end the stream by itself.
TEST_F(ConnectionTest, AStreamThatTheClientGivesUpEndsWhileAMessageIsWritten) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.reads_no_more_ = true;
  }
  const Future upload =
      connection_->Upload(1, "", std::make_shared<const std::string>(std::string(64 << 20, 'x')));
  EXPECT_TRUE(upload.WaitFor(absl::Minutes(1)));
  if (upload.Done()) {
    EXPECT_TRUE(upload.Wait().ok()) << upload.Wait();
  }
}

TEST_F(ConnectionTest, ADaemonThatIsAwayIsTriedSomeTimes) {
  Connect();
  server_->Shutdown();
  const absl::Status s = Run("a").future.Wait();
  EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(StatusText(s), HasSubstr(options_.address));
}

TEST_F(ConnectionTest, CancelEndsWhatRunsAndWhatWaits) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"hang", "a"};
  }
  std::vector<Answer> all = {Run("hang"), Run("a"), Run("a", {1})};
  EXPECT_FALSE(all[0].future.WaitFor(absl::Milliseconds(50)));
  connection_->Cancel();
  for (const Answer& a : all) EXPECT_EQ(a.future.Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Order(), ElementsAre());
  EXPECT_TRUE(Run("a").future.Wait().ok());
}

TEST_F(ConnectionTest, ACallThatTakesTooLongIsEnded) {
  options_.timeout = absl::Seconds(1);
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"hang", "a"};
  }
  const Answer hang = Run("hang"), next = Run("a");
  EXPECT_EQ(hang.future.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(next.future.Wait().ok());
}

TEST_F(ConnectionTest, ClosingEndsWhatIsNotDone) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"hang"};
  }
  const Answer hang = Run("hang");
  EXPECT_FALSE(hang.future.WaitFor(absl::Milliseconds(50)));
  connection_.reset();
  EXPECT_EQ(hang.future.Wait().code(), absl::StatusCode::kCancelled);
}

TEST_F(ConnectionTest, ManyThreadsShareIt) {
  Connect();
  {
    MutexLock lock(daemon_.mutex_);
    daemon_.graphs_ = {"a", "b"};
    daemon_.failures_ = {"b"};
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const bool fails = (i + t) % 5 == 0;
        wrong += Run(fails ? "b" : "a").future.Wait().ok() == fails;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// The server of the fixture is gRPC that the library knows nothing of.
TEST_F(ConnectionTest, AChildOfAProcessThatUsesGrpcForItselfGetsAnError) {
  Connection::BeforeFork();
  const pid_t child = fork();
  if (child == 0) {
    Connection::AfterForkInChild();
    ConnectOptions options;
    options.address = "127.0.0.1:1";
    const auto connected = Connection::Connect(options);
    _exit(absl::IsFailedPrecondition(connected.status()) ? 0 : 1);
  }
  Connection::AfterForkInParent();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace uopd::client
