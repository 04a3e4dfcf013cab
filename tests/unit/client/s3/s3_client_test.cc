// SPDX-License-Identifier: MIT
// Objects on a real server (moto) that checks signatures, and on one that answers what no server
// should.
#include "client/s3/s3_client.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "core/base/text.h"
#include "tests/support/fake_http.h"
#include "tests/support/services/s3_service.h"

namespace uopd::s3 {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class S3ClientTest : public ::testing::Test {
 protected:
  S3ClientTest() {
    std::string name = (std::filesystem::temp_directory_path() / "uopd-s3-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~S3ClientTest() override { std::filesystem::remove_all(folder_); }
  std::string File(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(File(name), std::ios::binary) << text;
    return File(name);
  }
  std::string Text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(File(name), std::ios::binary).rdbuf();
    return text.str();
  }
  // Of a server that answers what `answer` says.
  static Options For(const test::FakeHttp& server) {
    return {.credentials = {.id = "ID", .secret = "hunter2", .token = "token2"},
            .endpoint = server.endpoint(),
            .timeout = milliseconds(5'000),
            .pause = milliseconds(1)};
  }
  static std::string Http(const std::string& status, const std::string& body,
                          const std::string& more = "") {
    return Cat("HTTP/1.1 ", status, "\r\nContent-Length: ", body.size(), "\r\n", more,
               "Connection: close\r\n\r\n", body);
  }

  std::string folder_;
};

const ObjectName kName{"uopd-test", "a folder/+\xc3\xa4 (1).uopb"};

TEST_F(S3ClientTest, ObjectsOnARealServer) {
  if (!test::HasServices()) GTEST_SKIP() << "UOPD_SERVICES names no S3 server";
  const auto service = test::S3Service::Start();
  ASSERT_TRUE(service.ok()) << service.status();
  Options options{.endpoint = (*service)->endpoint(), .pause = milliseconds(1)};
  options.credentials = *ReadCredentials((*service)->credentials_file(), "default");
  S3Client client(options);
  std::mt19937 random(1);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{3'000'001}}) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const absl::Status put = client.Put(kName, Write("in", text));
    ASSERT_TRUE(put.ok()) << put;
    Write("out", std::string(5'000'000, 'x'));  // is replaced
    const absl::Status got = client.Get(kName, File("out"));
    ASSERT_TRUE(got.ok()) << got;
    EXPECT_TRUE(Text("out") == text) << size;
  }
  absl::Status status = client.Get({"uopd-test", "none"}, File("out"));
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_NE(status.message().find("NoSuchKey"), std::string::npos) << status;
  EXPECT_NE(status.message().find("s3://uopd-test/none"), std::string::npos) << status;
  status = client.Put({"no-bucket", "x"}, File("in"));
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  options.max_bytes = 3'000'000;
  EXPECT_TRUE(absl::IsResourceExhausted(S3Client(options).Get(kName, File("out"))));
  EXPECT_TRUE(absl::IsResourceExhausted(S3Client(options).Put(kName, File("in"))));
  Write("in", "small");
  for (const char* profile : {"wrong", "stranger"}) {
    options.credentials = *ReadCredentials((*service)->credentials_file(), profile);
    for (const absl::Status& refused :
         {S3Client(options).Get(kName, File("out")), S3Client(options).Put(kName, File("in"))}) {
      EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
      EXPECT_EQ(refused.message().find("hunter2"), std::string::npos);
    }
  }
  (*service)->process().Kill();
  status = client.Get(kName, File("out"));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(S3ClientTest, TlsChecksTheServer) {
  if (!test::HasServices()) GTEST_SKIP() << "UOPD_SERVICES names no S3 server";
  const auto service = test::S3Service::Start(/*tls=*/true);
  ASSERT_TRUE(service.ok()) << service.status();
  Options options{.endpoint = (*service)->endpoint(), .ca_file = (*service)->folder() + "/ca.pem"};
  options.credentials = *ReadCredentials((*service)->credentials_file(), "default");
  absl::Status status = S3Client(options).Put(kName, Write("in", "text"));
  EXPECT_TRUE(status.ok()) << status;
  options.ca_file = "";
  options.pause = options.timeout / 2;  // before it would be tried again
  const auto begin = steady_clock::now();
  status = S3Client(options).Get(kName, File("out"));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_LT(steady_clock::now() - begin, options.pause) << "it is not tried again";
}

TEST_F(S3ClientTest, WhatMayPassIsTriedAgain) {
  const test::FakeHttp server([](int n) -> std::string {
    if (n == 0) return Http("503 Slow Down", "<Error><Code>SlowDown</Code></Error>");
    if (n == 1) return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npartial";
    return Http("200 OK", "whole");
  });
  const absl::Status status = S3Client(For(server)).Get(kName, File("out"));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Text("out"), "whole") << "nothing of the try before";
  EXPECT_EQ(server.requests(), 3);
}

TEST_F(S3ClientTest, AFileIsSentAgainAsAWhole) {
  test::FakeHttp server(
      [](int n) { return n == 0 ? Http("500 Internal Error", "") : Http("200 OK", ""); });
  const std::string text(100'000, 'u');
  const absl::Status status = S3Client(For(server)).Put(kName, Write("in", text));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(server.requests(), 2);
  EXPECT_TRUE(server.last_request().ends_with("\r\n\r\n" + text));
  EXPECT_NE(server.last_request().find("x-amz-security-token: token2"), std::string::npos);
  EXPECT_EQ(server.last_request().find("hunter2"), std::string::npos);
}

TEST_F(S3ClientTest, TriesEnd) {
  const test::FakeHttp server([](int) { return Http("503 Slow Down", ""); });
  const absl::Status status = S3Client(For(server)).Get(kName, File("out"));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(server.requests(), 4);
}

TEST_F(S3ClientTest, AServerThatSaysNothingCostsTheTimeout) {
  const test::FakeHttp server([](int) { return std::string(); });
  Options options = For(server);
  options.timeout = milliseconds(200);
  EXPECT_TRUE(absl::IsUnavailable(S3Client(options).Get(kName, File("out"))));
}

TEST_F(S3ClientTest, AnObjectThatDoesNotEndIsGivenUp) {
  const test::FakeHttp server([](int) {
    return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::string(4'000'000, 'x');
  });
  Options options = For(server);
  options.max_bytes = 1'000'000;
  EXPECT_TRUE(absl::IsResourceExhausted(S3Client(options).Get(kName, File("out"))));
  EXPECT_LE(std::filesystem::file_size(File("out")), 1'000'000u);
  EXPECT_EQ(server.requests(), 1);
}

TEST_F(S3ClientTest, NoRedirectIsFollowedAndNoWordRepeated) {
  const test::FakeHttp other([](int) { return Http("200 OK", "of another server"); });
  const std::string body = "<Error><Code>Permanent</Code><Message>hunter2</Message></Error>";
  const test::FakeHttp server([&](int) {
    return Http("307 Temporary Redirect", body, Cat("Location: ", other.endpoint(), "/x\r\n"));
  });
  const absl::Status status = S3Client(For(server)).Get(kName, File("out"));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("307 Permanent"), std::string::npos) << status;
  EXPECT_EQ(status.message().find("hunter2"), std::string::npos) << status;
  EXPECT_EQ(other.requests(), 0);
  EXPECT_EQ(server.requests(), 1);
}

TEST_F(S3ClientTest, FilesThatCannotBeUsed) {
  const test::FakeHttp server([](int) { return Http("200 OK", "text"); });
  EXPECT_TRUE(absl::IsNotFound(S3Client(For(server)).Put(kName, File("missing"))));
  EXPECT_TRUE(absl::IsNotFound(S3Client(For(server)).Get(kName, File("no/folder"))));
  EXPECT_TRUE(absl::IsResourceExhausted(S3Client(For(server)).Get(kName, "/dev/full")));
}

// Files of this process may not grow beyond so many bytes. A write that would is an error (EFBIG),
// not a signal.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit now = before_;
    now.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*const handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before_{};
};

// Messages name the first failure, not what a later call left in errno.
TEST_F(S3ClientTest, FailuresOfFilesAreNamed) {
  const test::FakeHttp large([](int) { return Http("200 OK", std::string(4'000'000, 'x')); });
  const test::FakeHttp small([](int) { return Http("200 OK", "text"); });
  const auto expect = [](const absl::Status& status, int error) {
    EXPECT_EQ(status.code(), absl::ErrnoToStatusCode(error)) << status;
    EXPECT_NE(status.message().find(std::strerror(error)), std::string::npos) << status;
  };
  expect(S3Client(For(large)).Get(kName, "/dev/full"), ENOSPC);
  expect(S3Client(For(small)).Get(kName, "/dev/full"), ENOSPC);
  expect(S3Client(For(small)).Put(kName, folder_), EISDIR);
  expect(S3Client(For(small)).Put(kName, File("missing")), ENOENT);
  {
    const FileSizeLimit limit(1'000'000);
    expect(S3Client(For(large)).Get(kName, File("out")), EFBIG);
  }
  EXPECT_EQ(large.requests(), 2) << "none is tried again";
}

TEST(S3ErrorTest, CodesAreWords) {
  EXPECT_EQ(ErrorCodeOf("<?xml?><Error><Code>NoSuchKey</Code><Message>m</Message></Error>"),
            "NoSuchKey");
  for (const std::string& body :
       {std::string(), std::string("<Code>"), std::string("<Code>NoSuch"), std::string("</Code>"),
        std::string("<Code>a b</Code>"), std::string("<Code>\x1b[31m</Code>"),
        "<Code>" + std::string(65, 'a') + "</Code>", std::string("</Code><Code>x")}) {
    EXPECT_EQ(ErrorCodeOf(body), "") << body;
  }
}

}  // namespace
}  // namespace uopd::s3
