// SPDX-License-Identifier: MIT
// Transfers through shared memory against a server in this process that plays a daemon with a side
// socket: one that gives no memory or a wrong one, forgets the memory, or breaks the stream.
#include "client/cpp/net/shared_area.h"

#include <endian.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>

#include "core/base/mutex.h"
#include "core/base/unique_fd.h"
#include "uopd/connection.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::client {
namespace {

constexpr size_t kAreaBytes = 3 << 20;
constexpr std::chrono::milliseconds kTime = std::chrono::minutes(1);

UniqueFd MakeFile(size_t bytes, int seals) {
  UniqueFd file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

// A socket at PATH.side that answers each greeting as it is told.
class SideDoor {
 public:
  using Answer = std::function<void(int connection, const std::string& greeting)>;

  SideDoor(const std::string& path, Answer answer) : answer_(std::move(answer)) {
    listener_.Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.data(), path.size());
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~SideDoor() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  SideDoor(const SideDoor&) = delete;
  SideDoor& operator=(const SideDoor&) = delete;

  static void Give(int connection, uint64_t number, uint64_t bytes, int file) {
    uint64_t said[] = {htole64(number), htole64(bytes)};
    iovec data{said, sizeof said};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
    EXPECT_EQ(sendmsg(connection, &message, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof said));
  }

 private:
  void Run() {
    for (;;) {
      const UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection) return;
      char said[64];
      const ssize_t n = recv(connection.get(), said, sizeof said, 0);
      answer_(connection.get(), std::string(said, static_cast<size_t>(std::max<ssize_t>(n, 0))));
    }
  }

  const Answer answer_;
  UniqueFd listener_;
  std::thread thread_;
};

class SharedAreaTest : public ::testing::Test {
 protected:
  SharedAreaTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "uopd-side-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~SharedAreaTest() override { std::filesystem::remove_all(folder_); }

  std::string Address() const { return "unix:" + folder_ + "/s"; }
  std::string SidePath() const { return folder_ + "/s.side"; }
  std::shared_ptr<SharedArea> Open(std::chrono::milliseconds time = kTime) const {
    return SharedArea::Open(Address(), ".side", "token", time);
  }
  // What Open makes of an answer.
  std::shared_ptr<SharedArea> OpenWith(SideDoor::Answer answer,
                                       std::chrono::milliseconds time = kTime) const {
    std::filesystem::remove(SidePath());
    const SideDoor door(SidePath(), std::move(answer));
    return Open(time);
  }

  std::string folder_;
};

TEST_F(SharedAreaTest, WithoutAProperAnswerThereIsNone) {
  EXPECT_EQ(Open(), nullptr);  // nobody listens
  for (const char* address : {"127.0.0.1:1", "localhost", "unix:", "unix-abstract:", ""})
    EXPECT_EQ(SharedArea::Open(address, ".side", "token", kTime), nullptr) << address;
  EXPECT_EQ(SharedArea::Open("unix:/" + std::string(200, 'x'), ".side", "t", kTime), nullptr);
  EXPECT_EQ(OpenWith([](int, const std::string&) {}), nullptr);
  EXPECT_EQ(OpenWith([](int fd, const std::string&) { send(fd, "text", 4, 0); }), nullptr);
  const auto silent = [](int fd, const std::string&) {
    char none;
    EXPECT_EQ(recv(fd, &none, sizeof none, 0), 0) << "until the client gives up";
  };
  EXPECT_EQ(OpenWith(silent, std::chrono::milliseconds(50)), nullptr);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const UniqueFd read_end(pipe_fds[0]), write_end(pipe_fds[1]);
  const UniqueFd small = MakeFile(4096, F_SEAL_SHRINK), open = MakeFile(kAreaBytes, F_SEAL_GROW);
  for (const int file : {read_end.get(), small.get(), open.get()}) {
    EXPECT_EQ(
        OpenWith([file](int fd, const std::string&) { SideDoor::Give(fd, 1, kAreaBytes, file); }),
        nullptr);
  }
  const UniqueFd good = MakeFile(kAreaBytes, F_SEAL_SHRINK);
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1} << 19, uint64_t{kAreaBytes + 1}, ~uint64_t{0}}) {
    EXPECT_EQ(
        OpenWith([&](int fd, const std::string&) { SideDoor::Give(fd, 1, bytes, good.get()); }),
        nullptr)
        << bytes;
  }
}

TEST_F(SharedAreaTest, SlotsAreGivenOnceAndComeBack) {
  const UniqueFd file = MakeFile(kAreaBytes, F_SEAL_SHRINK);
  std::string greeting;
  const auto area = OpenWith([&](int fd, const std::string& said) {
    greeting = said;
    SideDoor::Give(fd, 7, kAreaBytes, file.get());
  });
  ASSERT_NE(area, nullptr);
  EXPECT_EQ(greeting, "uopd-side-1\ntoken");
  EXPECT_EQ(area->number(), 7U);
  EXPECT_FALSE(SharedSlot::Take(nullptr));
  {
    std::vector<SharedSlot> slots;
    for (int i = 0; i < 3; ++i) {
      slots.push_back(SharedSlot::Take(area));
      ASSERT_TRUE(slots.back());
      std::memset(slots.back().data(), 'a' + i, SharedArea::kSlotBytes);
    }
    EXPECT_FALSE(SharedSlot::Take(area));
    EXPECT_FALSE(area->HasFree());
    for (const SharedSlot& slot : slots) {
      char byte = 0;
      ASSERT_EQ(pread(file.get(), &byte, 1, static_cast<off_t>(slot.offset())), 1);
      EXPECT_EQ(byte, slot.data()[SharedArea::kSlotBytes - 1]);
    }
  }
  EXPECT_TRUE(SharedSlot::Take(area));
  // A child does not have the memory.
  char* const memory = SharedSlot::Take(area).data();
  const pid_t child = fork();
  if (child == 0) {
    unsigned char there = 0;
    _exit(mincore(memory, 4096, &there) == 0 ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Serves uploads and downloads, with data in messages or in the latest area.
class AreaDaemon final : public v1::UopdService::Service {
 public:
  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest* request,
                     v1::HelloResponse* response) override {
    response->set_api_version(1);
    response->set_ir_version(request->ir_version());
    return grpc::Status::OK;
  }
  grpc::Status OpenSession(grpc::ServerContext*, const v1::OpenSessionRequest*,
                           v1::OpenSessionResponse* response) override {
    response->set_session_id("s");
    response->set_resume_token("t");
    response->set_ttl_ms(60000);
    response->set_last_sequence(last_sequence_);
    response->mutable_side()->set_suffix(".side");
    response->mutable_side()->set_token("token" + std::to_string(++tokens_));
    return grpc::Status::OK;
  }
  grpc::Status CloseSession(grpc::ServerContext*, const v1::CloseSessionRequest*,
                            v1::CloseSessionResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Pipeline(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::PipelineResponse, v1::PipelineRequest>* stream) override {
    v1::PipelineRequest request;
    uint64_t failed_epoch = 0;
    while (stream->Read(&request)) {
      v1::PipelineResponse response;
      response.set_sequence(request.sequence());
      if (request.epoch() == failed_epoch)
        response.set_code(static_cast<int>(absl::StatusCode::kAborted));
      else
        Serve(request, response);
      if (response.code() != 0) failed_epoch = request.epoch();
      if (response.code() == 0) last_sequence_ = request.sequence();
      if (break_after_ > 0 && --break_after_ == 0) return {grpc::UNAVAILABLE, "it broke"};
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
  void Serve(const v1::PipelineRequest& request, v1::PipelineResponse& response)
      UOPD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const v1::AreaRange& range =
        request.has_upload() ? request.upload().area() : request.download().area();
    if (range.bytes() > 0 &&
        (range.area() != area_ || (forget_after_ > 0 && --forget_after_ == 0))) {
      area_ = 0;
      response.set_code(static_cast<int>(absl::StatusCode::kNotFound));
      response.mutable_missing_error()->set_kind("area");
      return;
    }
    if (range.bytes() > 0) ++through_area_;
    if (request.has_upload()) {
      const v1::UploadRequest& upload = request.upload();
      std::string& buffer = buffers_[upload.buffer().handle()];
      buffer.resize(upload.buffer().bytes());
      std::string data = upload.data();
      if (range.bytes() > 0) {
        data.resize(range.bytes());
        EXPECT_EQ(pread(file_.get(), data.data(), data.size(), static_cast<off_t>(range.offset())),
                  static_cast<ssize_t>(data.size()));
      }
      buffer.replace(upload.offset(), data.size(), data);
    } else if (request.has_download()) {
      const v1::DownloadRequest& download = request.download();
      const std::string data =
          buffers_[download.handle()].substr(download.offset(), download.bytes());
      if (range.bytes() == 0) {
        response.mutable_download()->set_data(data);
        return;
      }
      EXPECT_EQ(pwrite(file_.get(), data.data(), data.size(), static_cast<off_t>(range.offset())),
                static_cast<ssize_t>(data.size()));
    }
  }
  // A new area, as the answer of the side socket.
  void Give(int connection) UOPD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    file_ = MakeFile(kAreaBytes, F_SEAL_SHRINK | F_SEAL_GROW);
    area_ = ++areas_;
    SideDoor::Give(connection, area_, kAreaBytes, file_.get());
  }

  Mutex mutex_;
  std::map<uint64_t, std::string> buffers_ UOPD_GUARDED_BY(mutex_);
  UniqueFd file_ UOPD_GUARDED_BY(mutex_);
  std::atomic<uint64_t> area_{0}, areas_{0}, last_sequence_{0};
  std::atomic<int> tokens_{0}, break_after_{0}, forget_after_{0}, through_area_{0};
};

class AreaTransferTest : public SharedAreaTest {
 protected:
  AreaTransferTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(Address(), grpc::InsecureServerCredentials());
    builder.RegisterService(&daemon_);
    server_ = builder.BuildAndStart();
    auto connection = Connection::Connect({.address = Address()});
    EXPECT_TRUE(connection.ok()) << connection.status();
    connection_ = *std::move(connection);
  }
  ~AreaTransferTest() override {
    connection_.reset();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  void ExpectTransfer(size_t bytes) {
    std::string data(bytes, '\0'), got(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + (i >> 20) + bytes);
    const uint64_t handle = connection_->NewHandle();
    const Future up = connection_->UploadCopy(handle, "", data);
    const std::string sent = std::exchange(data, std::string(bytes, '!'));  // it was copied
    const Future down = connection_->Download(handle, got);
    EXPECT_TRUE(up.Wait().ok()) << up.Wait();
    EXPECT_TRUE(down.Wait().ok()) << down.Wait();
    EXPECT_TRUE(got == sent);
  }

  AreaDaemon daemon_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<Connection> connection_;
};

TEST_F(AreaTransferTest, DataGoThroughTheAreaIfThereIsOne) {
  ExpectTransfer(10 << 20);
  EXPECT_EQ(daemon_.through_area_, 0);
  // No token is left for this stream, so there is no other attempt until the next one.
  const SideDoor door(SidePath(), [this](int fd, const std::string&) { daemon_.Give(fd); });
  ExpectTransfer(10 << 20);
  EXPECT_EQ(daemon_.through_area_, 0);
  Connection::BeforeFork();
  Connection::AfterForkInParent();
  ExpectTransfer((10 << 20) + 5);
  EXPECT_EQ(daemon_.through_area_, 20);
  ExpectTransfer(100 << 10);
  EXPECT_EQ(daemon_.through_area_, 20) << "a small transfer went through the area";
}

TEST_F(AreaTransferTest, AnAreaThatTheDaemonForgetsIsNoError) {
  const SideDoor door(SidePath(), [this](int fd, const std::string&) { daemon_.Give(fd); });
  ExpectTransfer(5 << 20);
  EXPECT_EQ(daemon_.through_area_, 10);
  for (const int after : {1, 4, 13}) {
    daemon_.forget_after_ = after;
    ExpectTransfer(16 << 20);
    Connection::BeforeFork();  // the next stream gets an area again
    Connection::AfterForkInParent();
  }
  EXPECT_GE(daemon_.areas_, 3U);
}

TEST_F(AreaTransferTest, ABrokenStreamLosesNothing) {
  const SideDoor door(SidePath(), [this](int fd, const std::string&) { daemon_.Give(fd); });
  for (const int after : {1, 2, 5, 9, 17, 30}) {
    daemon_.break_after_ = after;
    ExpectTransfer(16 << 20);
    EXPECT_EQ(daemon_.break_after_, 0);
  }
  EXPECT_GT(daemon_.through_area_, 50);
}

}  // namespace
}  // namespace uopd::client
