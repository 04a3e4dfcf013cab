// SPDX-License-Identifier: MIT
// What a client of the same machine may try with the side socket and with the memory that it gets
// there. The daemon must serve afterwards, and have no more descriptors than before.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/e2e/graphs.h"
#include "tests/e2e/side_socket.h"
#include "tests/support/eventually.h"
#include "uopd/connection.h"

namespace uopd::e2e {
namespace {

using ::testing::HasSubstr;

class SideHostileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    ExpectServes(daemon_);
    session_ = OpenSession(client_);
    before_ = DescriptorsOf(daemon_.pid());
    ASSERT_GT(before_, 0U);
  }
  // The session ends first.
  void TearDown() override {
    ExpectServes(daemon_);
    grpc::ClientContext context;
    v1::CloseSessionRequest close;
    close.set_session_id(session_.session_id());
    v1::CloseSessionResponse closed;
    client_.stub().CloseSession(&context, close, &closed);
    EXPECT_TRUE(test::Eventually([&] { return daemon_.Metric("uopd_side_areas") == 0; }));
    EXPECT_TRUE(test::Eventually([&] { return DescriptorsOf(daemon_.pid()) <= before_; }))
        << DescriptorsOf(daemon_.pid()) << " descriptors, and " << before_ << " before";
    EXPECT_EQ(daemon_.Metric("uopd_client_bytes{class=\"shared\"}"), 0);
  }

  std::string token() const { return session_.side().token(); }
  const std::string& id() const { return session_.session_id(); }
  SideAnswer Area() {
    SideAnswer out = AskForArea(daemon_, token());
    EXPECT_TRUE(out.file);
    return out;
  }
  v1::PipelineResponse Call(v1::PipelineRequest request) {
    return CallInPipeline(client_, std::move(request));
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(),
                        // Without warm-up: no process that starts later takes descriptors.
                        {"--listen=unix:" + (folder_.path() / "socket").string(),
                         "--session-grace-ms=100", "--compile-warm-up=false"}};
  Client client_{daemon_};
  v1::OpenSessionResponse session_;
  size_t before_ = 0;
};

TEST_F(SideHostileTest, TheSizeOfTheAreaCannotBeChanged) {
  const SideAnswer area = Area();
  const int file = area.file.get();
  EXPECT_EQ(ftruncate(file, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(file, static_cast<off_t>(area.bytes * 2)), -1);
  EXPECT_EQ(pwrite(file, "x", 1, static_cast<off_t>(area.bytes)), -1);
  EXPECT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), -1) << "the daemon could not write any more";
  // Another open description of the file, and a hole in it.
  const UniqueFd again(open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(again);
  EXPECT_EQ(ftruncate(again.get(), 0), -1);
  const std::string data(kMiB, 'x');
  ASSERT_EQ(pwrite(file, data.data(), data.size(), 0), static_cast<ssize_t>(kMiB));
  EXPECT_EQ(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kMiB / 2), 0);
  EXPECT_EQ(Call(UploadFrom(id(), 5, kMiB, Range(area.number, 0, kMiB))).code(), 0);
  std::string got;
  ASSERT_TRUE(client_.Download(5, &got).error_code() == grpc::StatusCode::NOT_FOUND);  // another's
  v1::PipelineRequest read;
  read.mutable_download()->set_session_id(id());
  read.mutable_download()->set_handle(5);
  EXPECT_EQ(Call(read).download().data(), std::string(kMiB / 2, '\0') + std::string(kMiB / 2, 'x'));
}

TEST_F(SideHostileTest, WhatIsWrittenAfterAnUploadChangesNothing) {
  const SideAnswer area = Area();
  void* const memory =
      mmap(nullptr, area.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, area.file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::atomic<bool> stop{false};
  // Somebody writes and makes holes all the time, also while the daemon copies.
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      std::memset(memory, 'a' + i % 2, kMiB);
      if (i % 16 == 0)
        fallocate(area.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kMiB);
    }
  });
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(Call(UploadFrom(id(), 5, kMiB, Range(area.number, 0, kMiB))).code(), 0);
    EXPECT_EQ(Call(DownloadTo(id(), 5, kMiB, Range(area.number, 0, kMiB))).code(), 0);
  }
  stop = true;
  writer.join();
  std::memset(memory, 'q', kMiB);
  ASSERT_EQ(Call(UploadFrom(id(), 5, kMiB, Range(area.number, 0, kMiB))).code(), 0);
  std::memset(memory, 'r', kMiB);
  ASSERT_EQ(Call(DownloadTo(id(), 5, kMiB, Range(area.number, kMiB, kMiB))).code(), 0);
  EXPECT_EQ(std::string(static_cast<char*>(memory) + kMiB, kMiB), std::string(kMiB, 'q'));
  munmap(memory, area.bytes);
}

TEST_F(SideHostileTest, RangesAreChecked) {
  const SideAnswer area = Area();
  const uint64_t end = area.bytes, n = area.number;
  const struct {
    v1::AreaRange range;
    int code;
    const char* says;
  } kCases[] = {{Range(n, end - 10, 11), 3, "outside shared area"},
                {Range(n, UINT64_MAX - 4, 11), 3, "outside shared area"},
                {Range(n, end + 1, 0), 3, "outside shared area"},
                {Range(n, 0, kMiB + 1), 3, "more than 1048576"},
                {Range(n, 0, UINT64_MAX), 3, "more than 1048576"},
                {Range(n + 1, 0, 11), 5, "no shared area"},
                {Range(0, 0, 11), 5, "no shared area"}};
  for (const auto& c : kCases) {
    const v1::PipelineResponse refused = Call(UploadFrom(id(), 5, 2 * kMiB, c.range));
    EXPECT_EQ(refused.code(), c.code) << refused.message();
    EXPECT_THAT(refused.message(), HasSubstr(c.says));
    EXPECT_EQ(refused.missing_error().kind(), c.code == 5 ? "area" : "");
  }
  // Bytes outside of the buffer, and as many as the buffer has not.
  EXPECT_EQ(Call(UploadFrom(id(), 6, 100, Range(n, 0, 101))).code(), 3);
  EXPECT_EQ(Call(UploadFrom(id(), 6, 100, Range(n, 0, 100))).code(), 0);
  EXPECT_EQ(Call(UploadFrom(id(), 6, 100, Range(n, 0, 1), 100)).code(), 3);
  EXPECT_EQ(Call(DownloadTo(id(), 6, 100, Range(n, 0, 99))).code(), 3);
  EXPECT_EQ(Call(DownloadTo(id(), 6, 100, Range(n, end - 99, 100))).code(), 3);
  EXPECT_EQ(Call(DownloadTo(id(), 99, 100, Range(n, 0, 100))).missing_error().kind(), "buffer");
  // Data in both places; and calls outside of a pipeline.
  v1::PipelineRequest both = UploadFrom(id(), 7, 100, Range(n, 0, 100));
  both.mutable_upload()->set_data("x");
  EXPECT_EQ(Call(both).code(), 3);
  grpc::ClientContext up, down;
  v1::UploadResponse uploaded;
  const auto writer = client_.stub().Upload(&up, &uploaded);
  writer->Write(UploadFrom(id(), 7, 100, Range(n, 0, 100)).upload());
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto reader =
      client_.stub().Download(&down, DownloadTo(id(), 6, 100, Range(n, 0, 100)).download());
  v1::DownloadResponse part;
  EXPECT_FALSE(reader->Read(&part));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(SideHostileTest, ATokenOpensOneAreaOfItsOwnSession) {
  const SideAnswer area = Area();
  EXPECT_FALSE(AskForArea(daemon_, token()).file) << "the token was used twice";
  for (const std::string& wrong :
       {std::string(32, '0'), std::string(32, '\0'), std::string("short"), std::string()})
    EXPECT_FALSE(AskForArea(daemon_, wrong).file);
  // The other session has no area, so it cannot name this one's.
  const v1::OpenSessionResponse other = OpenSession(client_);
  const v1::PipelineResponse refused =
      Call(UploadFrom(other.session_id(), 5, kMiB, Range(area.number, 0, kMiB)));
  EXPECT_EQ(refused.missing_error().kind(), "area");
  // Each answer to OpenSession has another token, and the one before is none any more.
  const v1::OpenSessionResponse resumed = OpenSession(client_, other.resume_token());
  EXPECT_NE(resumed.side().token(), other.side().token());
  EXPECT_FALSE(AskForArea(daemon_, other.side().token()).file);
  EXPECT_TRUE(AskForArea(daemon_, resumed.side().token()).file);
  // A new area takes the place of the old one.
  const SideAnswer next =
      AskForArea(daemon_, OpenSession(client_, session_.resume_token()).side().token());
  ASSERT_TRUE(next.file);
  EXPECT_NE(next.number, area.number);
  EXPECT_EQ(Call(UploadFrom(id(), 5, kMiB, Range(area.number, 0, kMiB))).missing_error().kind(),
            "area");
  EXPECT_EQ(daemon_.Metric("uopd_side_areas"), 2);
  EXPECT_EQ(daemon_.Metric("uopd_client_bytes{class=\"shared\"}"),
            static_cast<double>(2 * area.bytes));
  // A closed session has no token.
  const std::string late = OpenSession(client_, other.resume_token()).side().token();
  grpc::ClientContext context;
  v1::CloseSessionRequest close;
  close.set_session_id(other.session_id());
  v1::CloseSessionResponse closed;
  ASSERT_TRUE(client_.stub().CloseSession(&context, close, &closed).ok());
  EXPECT_FALSE(AskForArea(daemon_, late).file);
}

TEST_F(SideHostileTest, DescriptorsThatAClientSendsAreNotTaken) {
  int pipe_fds[2], pair[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const std::string path = (folder_.path() / "file").string();
  std::ofstream(path) << "text";
  const std::vector<int> kinds = {pipe_fds[0],
                                  pipe_fds[1],
                                  pair[0],
                                  open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY),
                                  open("/dev/zero", O_RDWR),
                                  open(path.c_str(), O_PATH),
                                  open(path.c_str(), O_RDWR),
                                  memfd_create("mine", 0)};
  for (const int fd : kinds) ASSERT_GE(fd, 0);
  for (const int fd : kinds) {
    for (const std::string& said : {std::string("x"), "uopd-side-1\n" + std::string(32, '0')}) {
      const UniqueFd connection = ConnectSide(daemon_);
      ASSERT_TRUE(SendSide(connection, said, std::span(&fd, 1)));
      EXPECT_TRUE(AwaitSideClosed(connection));
    }
  }
  // A flood of them, on connections that stay silent otherwise.
  const std::vector<int> many(200, kinds[0]);
  std::vector<UniqueFd> connections;
  for (int i = 0; i < 20; ++i) {
    connections.push_back(ConnectSide(daemon_));
    SendSide(connections.back(), "uopd", many);
  }
  ExpectServes(daemon_);
  EXPECT_LE(DescriptorsOf(daemon_.pid()), before_ + 30);
  connections.clear();
  // With a right token: the area comes, and what was sent is gone.
  const UniqueFd connection = ConnectSide(daemon_);
  ASSERT_TRUE(SendSide(connection, "uopd-side-1\n" + token(), kinds));
  EXPECT_TRUE(test::Eventually([&] { return daemon_.Metric("uopd_side_areas") == 1; }));
  for (const int fd : kinds) close(fd);
  close(pair[1]);
}

TEST_F(SideHostileTest, FloodsOfConnectionsKeepNobodyOut) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 700; ++i) silent.push_back(ConnectSide(daemon_));
  for (int i = 0; i < 300; ++i) AskForArea(daemon_, std::string(32, 'f'));
  EXPECT_LE(DescriptorsOf(daemon_.pid()), before_ + 560);
  const SideAnswer area = Area();
  EXPECT_EQ(Call(UploadFrom(id(), 5, kMiB, Range(area.number, 0, kMiB))).code(), 0);
  EXPECT_GE(daemon_.Metric("uopd_side_refused_total{reason=\"token\"}"), 300);
}

TEST_F(SideHostileTest, ABufferThatWasUploadedInPartHasNothingOfOthers) {
  const std::string secret(4 * kMiB, 's');
  ASSERT_TRUE(client_.OpenSession().ok());
  ASSERT_TRUE(client_.Upload(1, secret).ok());
  v1::FreeBuffersRequest free;
  free.set_session_id(client_.session());
  free.add_handles(1);
  grpc::ClientContext context;
  v1::FreeBuffersResponse freed;
  ASSERT_TRUE(client_.stub().FreeBuffers(&context, free, &freed).ok());
  Client other(daemon_);
  ASSERT_TRUE(other.OpenSession().ok());
  v1::PipelineRequest part;
  part.mutable_upload()->set_session_id(other.session());
  part.mutable_upload()->mutable_buffer()->set_handle(7);
  part.mutable_upload()->mutable_buffer()->set_bytes(4 * kMiB);
  part.mutable_upload()->set_data("mine");
  ASSERT_EQ(CallInPipeline(other, part).code(), 0);
  part.mutable_upload()->set_offset(3 * kMiB);  // leaves a gap
  ASSERT_EQ(CallInPipeline(other, part).code(), 0);
  std::string got;
  ASSERT_TRUE(other.Download(7, &got).ok());
  std::string expected(4 * kMiB, '\0');
  expected.replace(0, 4, "mine").replace(3 * kMiB, 4, "mine");
  EXPECT_TRUE(got == expected);
}

TEST_F(SideHostileTest, AKilledClientLeavesNothing) {
  Client waker(daemon_);
  const std::string address = daemon_.listen();
  for (int i = 0; i < 3; ++i) {
    // gRPC cannot be used after fork(), so the child is another program of this test.
    const pid_t child = fork();
    if (child == 0) {
      setenv("UOPD_SIDE_LOOP", address.c_str(), 1);
      unsetenv("GTEST_TOTAL_SHARDS");  // the filter names the one test
      unsetenv("GTEST_SHARD_INDEX");
      execl("/proc/self/exe", "uopd_e2e_test", "--gtest_filter=SideLoopTest.*",
            "--gtest_also_run_disabled_tests", nullptr);
      _exit(127);
    }
    const double so_far = daemon_.Metric("uopd_side_transfers_total{direction=\"upload\"}");
    EXPECT_TRUE(test::Eventually([&] {
      return daemon_.Metric("uopd_side_transfers_total{direction=\"upload\"}") >= so_far + 100;
    }));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  EXPECT_TRUE(test::Eventually([&] { return daemon_.Metric("uopd_side_areas") == 0; }));
}

// A client that transfers until it is killed.
TEST(SideLoopTest, DISABLED_Transfers) {
  const char* const address = std::getenv("UOPD_SIDE_LOOP");
  if (address == nullptr) GTEST_SKIP() << "is a part of another test";
  auto connection = client::Connection::Connect({.address = address, .ttl = absl::Seconds(1)});
  ASSERT_TRUE(connection.ok());
  std::string data(16 * kMiB, 'x'), got(16 * kMiB, '\0');
  for (;;) {
    const uint64_t handle = (*connection)->NewHandle();
    ASSERT_TRUE((*connection)->UploadCopy(handle, "", data).Wait().ok());
    ASSERT_TRUE((*connection)->Download(handle, got).Wait().ok());
    (*connection)->Free({handle});
  }
}

}  // namespace
}  // namespace uopd::e2e
