// SPDX-License-Identifier: MIT
// The Pipeline stream: order, errors that do not end it, more messages than it holds at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"

namespace uopd::e2e {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    ASSERT_TRUE(client_.OpenSession().ok());
    stream_ = client_.stub().Pipeline(&context_);
  }
  v1::PipelineRequest Execute(uint64_t sequence, const std::string& graph,
                              const std::vector<v1::Argument>& arguments) {
    v1::PipelineRequest out;
    out.set_sequence(sequence);
    out.mutable_execute()->set_session_id(client_.session());
    out.mutable_execute()->set_graph(graph);
    for (const v1::Argument& argument : arguments) {
      *out.mutable_execute()->add_arguments() = argument;
    }
    return out;
  }
  v1::PipelineResponse Read() {
    v1::PipelineResponse out;
    EXPECT_TRUE(stream_->Read(&out));
    return out;
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path()};
  Client client_{daemon_};
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>> stream_;
};

TEST_F(PipelineTest, CallsRunInOrderWithoutWaiting) {
  v1::PipelineRequest prepare;
  prepare.set_sequence(1);
  prepare.mutable_prepare()->set_graph(AddGraph(2));
  v1::PipelineRequest create;
  create.set_sequence(2);
  create.mutable_create_buffers()->set_session_id(client_.session());
  v1::BufferSpec* spec = create.mutable_create_buffers()->add_buffers();
  spec->set_handle(1);
  spec->set_bytes(8);
  v1::PipelineRequest upload;
  upload.set_sequence(3);
  upload.mutable_upload()->set_session_id(client_.session());
  upload.mutable_upload()->mutable_buffer()->set_handle(1);
  upload.mutable_upload()->set_data(Bytes({1, 2}));
  v1::PipelineRequest free;
  free.set_sequence(6);
  free.mutable_free_buffers()->set_session_id(client_.session());
  free.mutable_free_buffers()->add_handles(1);
  for (const v1::PipelineRequest& message :
       {prepare, create, upload, Execute(4, AddGraph(2), {Buffer(2), Buffer(1), Buffer(1)}),
        Execute(5, AddGraph(2), {Returned(), Buffer(2), Buffer(1)}), free,
        Execute(7, AddGraph(2), {Returned(), Buffer(2), Buffer(1)})}) {
    ASSERT_TRUE(stream_->Write(message));
  }
  stream_->WritesDone();
  for (uint64_t sequence = 1; sequence <= 6; ++sequence) {
    const v1::PipelineResponse answer = Read();
    EXPECT_EQ(answer.sequence(), sequence);
    EXPECT_EQ(answer.code(), 0) << answer.message();
    if (sequence == 1) {
      EXPECT_EQ(answer.prepare().signature().slots_size(), 3);
    }
    if (sequence == 5) {
      EXPECT_THAT(Floats(answer.execute().data(0)), ElementsAre(3, 6));
    }
  }
  EXPECT_EQ(Read().code(), grpc::StatusCode::NOT_FOUND);  // buffer 1 is freed
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(PipelineTest, AnErrorDoesNotEndTheStream) {
  v1::PipelineRequest unknown;
  unknown.set_sequence(1);
  unknown.mutable_execute()->set_session_id(client_.session());
  unknown.mutable_execute()->set_digest(std::string(HashBytes("no graph").view()));
  ASSERT_TRUE(stream_->Write(unknown));
  const v1::PipelineResponse missing = Read();
  EXPECT_EQ(missing.code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(missing.missing_error().kind(), "program");

  ASSERT_TRUE(stream_->Write(Execute(2, "\x08\x01\x12\x02\x08\x7f", {})));
  const v1::PipelineResponse bad = Read();
  EXPECT_EQ(bad.code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(bad.node_error().node(), 0);

  ASSERT_TRUE(stream_->Write(v1::PipelineRequest()));
  EXPECT_NE(Read().code(), 0);

  ASSERT_TRUE(
      stream_->Write(Execute(4, AddGraph(1), {Returned(), Data(Bytes({1})), Data(Bytes({2}))})));
  EXPECT_THAT(Floats(Read().execute().data(0)), ElementsAre(3));
  stream_->WritesDone();
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(PipelineTest, MessagesAreCountedAsTheCallsThatTheyStandFor) {
  const auto count = [&](std::string_view method, std::string_view code) {
    return daemon_.Metric(
        Cat("uopd_rpc_duration_seconds_count{method=\"", method, "\",code=\"", code, "\"}"));
  };
  constexpr int kGood = 3;
  for (int i = 1; i <= kGood; ++i) {
    ASSERT_TRUE(
        stream_->Write(Execute(i, AddGraph(1), {Returned(), Data(Bytes({1})), Data(Bytes({2}))})));
    EXPECT_EQ(Read().code(), 0);
  }
  ASSERT_TRUE(stream_->Write(Execute(4, AddGraph(1), {Returned(), Buffer(9), Buffer(9)})));
  EXPECT_EQ(Read().code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(count("Execute", "OK"), kGood);
  EXPECT_EQ(count("Execute", "NOT_FOUND"), 1);
  EXPECT_EQ(count("Pipeline", "OK"), -1) << "it has not ended";
  // A client that goes with nothing open is no failure.
  context_.TryCancel();
  EXPECT_FALSE(stream_->Finish().ok());
  while (count("Pipeline", "OK") != 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(count("Pipeline", "CANCELLED"), -1);
}

TEST_F(PipelineTest, AfterAFailureAnEpochRunsNothing) {
  ASSERT_TRUE(client_.Upload(1, Bytes({1})).ok());
  const std::string add = AddGraph(1);
  v1::PipelineRequest wrong = Execute(2, add, {Buffer(1), Buffer(77), Buffer(1)});
  std::vector<v1::PipelineRequest> calls = {Execute(1, add, {Buffer(1), Buffer(1), Buffer(1)}),
                                            wrong,
                                            wrong,
                                            Execute(3, add, {Buffer(1), Buffer(1), Buffer(1)}),
                                            Execute(4, add, {Buffer(1), Buffer(1), Buffer(1)}),
                                            Execute(5, add, {Buffer(1), Buffer(1), Buffer(1)})};
  // The failure of epoch 0 does not end the one of epoch 7.
  const std::vector<uint64_t> epochs = {7, 7, 0, 7, 8, 0};
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].set_epoch(epochs[i]);
    ASSERT_TRUE(stream_->Write(calls[i]));
  }
  stream_->WritesDone();
  std::vector<int> codes;
  for (size_t i = 0; i < calls.size(); ++i) codes.push_back(Read().code());
  EXPECT_THAT(codes, ElementsAre(0, grpc::StatusCode::NOT_FOUND, grpc::StatusCode::NOT_FOUND,
                                 grpc::StatusCode::ABORTED, 0, 0));
  EXPECT_TRUE(stream_->Finish().ok());
  std::string bytes;
  ASSERT_TRUE(client_.Download(1, &bytes).ok());
  EXPECT_THAT(Floats(bytes), ElementsAre(8)) << "three of the four additions";
}

TEST_F(PipelineTest, WhatNamesNoCallOrNoSessionIsAnError) {
  ASSERT_TRUE(stream_->Write(v1::PipelineRequest()));
  const v1::PipelineResponse answer = Read();
  EXPECT_EQ(answer.code(), grpc::StatusCode::INVALID_ARGUMENT) << answer.message();
  grpc::ClientContext context;
  v1::UploadResponse done;
  const auto upload = client_.stub().Upload(&context, &done);
  v1::UploadRequest chunk;
  chunk.set_data("a");
  upload->Write(chunk);
  upload->WritesDone();
  EXPECT_EQ(upload->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(PipelineTest, DownloadsAtMostOneChunk) {
  std::string data(3 << 20, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + i / 1000);
  ASSERT_TRUE(client_.Upload(1, data).ok());
  struct Case {
    uint64_t handle, offset, bytes;
    int code;
  };
  const std::vector<Case> cases = {
      {1, 5, 1 << 20, 0},
      {1, (2 << 20) + 1, 0, 0},
      {1, 3 << 20, 0, 0},
      {1, 0, (1 << 20) + 1, grpc::StatusCode::INVALID_ARGUMENT},
      {1, 0, 0, grpc::StatusCode::INVALID_ARGUMENT},
      {1, (3 << 20) + 1, 0, grpc::StatusCode::INVALID_ARGUMENT},
      {1, 2, UINT64_MAX, grpc::StatusCode::INVALID_ARGUMENT},
      {2, 0, 1, grpc::StatusCode::NOT_FOUND},
  };
  for (const Case& c : cases) {
    v1::PipelineRequest request;
    request.mutable_download()->set_session_id(client_.session());
    request.mutable_download()->set_handle(c.handle);
    request.mutable_download()->set_offset(c.offset);
    request.mutable_download()->set_bytes(c.bytes);
    ASSERT_TRUE(stream_->Write(request));
    const v1::PipelineResponse answer = Read();
    EXPECT_EQ(answer.code(), c.code) << c.offset << " " << c.bytes << " " << answer.message();
    if (c.code == 0) {
      EXPECT_TRUE(answer.download().data() ==
                  data.substr(c.offset, c.bytes == 0 ? std::string::npos : c.bytes));
    }
  }
  stream_->WritesDone();
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(PipelineTest, AResumedSessionKnowsWhatWasServed) {
  v1::OpenSessionResponse session;
  const auto open = [&](const std::string& token) {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    request.set_resume_token(token);
    EXPECT_TRUE(client_.stub().OpenSession(&context, request, &session).ok());
    return session.last_sequence();
  };
  EXPECT_EQ(open(""), 0u);
  const std::string token = session.resume_token();
  const auto free = [&](uint64_t sequence, const std::string& id) {
    v1::PipelineRequest request;
    request.set_sequence(sequence);
    request.mutable_free_buffers()->set_session_id(id);
    return request;
  };
  for (const auto& request : {free(3, session.session_id()), free(5, session.session_id()),
                              free(4, session.session_id()), free(9, "another")}) {
    ASSERT_TRUE(stream_->Write(request));
    Read();
  }
  stream_->WritesDone();
  EXPECT_TRUE(stream_->Finish().ok());
  EXPECT_EQ(open(token), 5u);
}

TEST_F(PipelineTest, ThousandsOfMessagesPass) {
  constexpr int kMessages = 3000;
  ASSERT_TRUE(client_.Upload(1, Bytes({0})).ok());
  std::thread writer([&] {
    for (int i = 1; i <= kMessages; ++i) {
      stream_->Write(Execute(i, AddGraph(1), {Returned(1), Buffer(1), Data(Bytes({1}))}));
    }
    stream_->WritesDone();
  });
  for (int i = 1; i <= kMessages; ++i) {
    const v1::PipelineResponse answer = Read();
    ASSERT_EQ(answer.sequence(), static_cast<uint64_t>(i));
    ASSERT_EQ(answer.code(), 0) << answer.message();
    ASSERT_THAT(Floats(answer.execute().data(0)), Each(static_cast<float>(i)));
  }
  writer.join();
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(PipelineTest, AClientThatLeavesIsForgotten) {
  ASSERT_TRUE(stream_->Write(Execute(1, PairsGraph(1 << 14), {})));
  context_.TryCancel();
  EXPECT_FALSE(stream_->Finish().ok());
  ExpectServes(daemon_);
}

// Ends that race with answers: on the wire, in the session's order and on the task pool.
TEST_F(PipelineTest, StreamsThatEndAtAnyMomentLeaveADaemonThatServes) {
  constexpr int kThreads = 4, kStreams = 60;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      Client client(daemon_);
      ASSERT_TRUE(client.OpenSession().ok());
      for (int i = 0; i < kStreams; ++i) {
        grpc::ClientContext context;
        auto stream = client.stub().Pipeline(&context);
        const unsigned messages = random() % 20;
        for (unsigned m = 0; m < messages; ++m) {
          v1::PipelineRequest message;
          switch (random() % 3) {
            case 0:
              message.mutable_free_buffers()->set_session_id(client.session());
              break;
            case 1:
              message.mutable_prepare()->set_graph(AddGraph(1 + random() % 3));
              break;
            default:
              message = Execute(m, AddGraph(2), {Returned(), Data(Bytes({1, 2})), {}});
          }
          if (!stream->Write(message)) break;
        }
        if (random() % 2 == 0) stream->WritesDone();
        v1::PipelineResponse answer;
        for (unsigned m = random() % (messages + 1); m > 0; --m) stream->Read(&answer);
        context.TryCancel();
        stream->Finish();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stream_->WritesDone();
  EXPECT_TRUE(stream_->Finish().ok());
  ASSERT_TRUE(daemon_.running());
  ExpectServes(daemon_);
}

}  // namespace
}  // namespace uopd::e2e
