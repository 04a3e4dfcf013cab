// SPDX-License-Identifier: MIT
// Bundles of a cache in a real store of the S3 protocol that checks signatures: from one daemon to
// another, and what goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/s3/s3_client.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/support/services/s3_service.h"

namespace uopd::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGraphFile[] = UOPD_SOURCE_DIR "/docs/examples/matmul.uop";
constexpr char kBundle[] = "s3://uopd-test/deploy/m.uopb";

class S3BundleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::HasServices()) GTEST_SKIP() << "UOPD_SERVICES names no S3 server";
    auto started = test::S3Service::Start();
    ASSERT_TRUE(started.ok()) << started.status();
    service_ = *std::move(started);
    std::ofstream(Key('1')) << std::string(64, '1') << "\n";
    std::ofstream(Key('2')) << std::string(64, '2') << "\n";
    chmod(Key('1').c_str(), 0600);
    chmod(Key('2').c_str(), 0600);
  }
  std::string Key(char digit) const { return (folder_.path() / Cat("key", digit)).string(); }
  std::unique_ptr<DaemonProcess> Start(const char* name, char key = '1') const {
    const auto folder = folder_.path() / name;
    std::filesystem::create_directories(folder);
    return std::make_unique<DaemonProcess>(
        folder, std::vector<std::string>{"--cache-cluster-sign-key=" + Key(key)});
  }
  // uopctl; what it printed is in `out`, and the result is its exit status.
  int Uopctl(const DaemonProcess& daemon, const std::string& arguments,
             const std::string& profile = "default") {
    const std::string line =
        Cat("UOPD_S3_ENDPOINT=", service_->endpoint(), " UOPD_S3_CREDENTIALS='",
            service_->credentials_file(), "' '", UOPCTL_BINARY, "' --address ", daemon.listen(),
            " ", arguments, " --s3-profile ", profile, " 2>&1");
    FILE* pipe = popen(line.c_str(), "r");
    char text[4096];
    out_.clear();
    while (const size_t n = fread(text, 1, sizeof text, pipe)) out_.append(text, n);
    const int status = pclose(pipe);
    EXPECT_THAT(out_, Not(HasSubstr(service_->secret())));
    EXPECT_THAT(out_, Not(HasSubstr("hunter2")));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Puts the object in the place of the bundle.
  void Replace(const std::string& bytes) const {
    const std::string file = (folder_.path() / "replaced").string();
    std::ofstream(file, std::ios::binary) << bytes;
    s3::S3Client client({.credentials = {service_->id(), service_->secret(), ""},
                         .endpoint = service_->endpoint()});
    ASSERT_TRUE(client.Put(*s3::ParseS3Url(kBundle), file).ok());
  }

  TemporaryFolder folder_;
  std::unique_ptr<test::S3Service> service_;
  std::string out_;
};

TEST_F(S3BundleTest, FromOneDaemonToAnother) {
  const auto one = Start("a"), other = Start("b"), third = Start("c"), stranger = Start("d", '2');
  ASSERT_EQ(Uopctl(*one, Cat("cache warm ", kGraphFile)), 0) << out_;
  ASSERT_EQ(Uopctl(*one, Cat("--json cache export ", kBundle)), 0) << out_;
  const auto exported = nlohmann::json::parse(out_, nullptr, false)["data"];
  EXPECT_EQ(exported["file"], kBundle) << out_;
  EXPECT_GE(exported["entries"], 3) << out_;

  ASSERT_EQ(Uopctl(*other, Cat("--json cache warm --bundle ", kBundle)), 0) << out_;
  const auto warmed = nlohmann::json::parse(out_, nullptr, false)["data"];
  EXPECT_EQ(warmed["graphs"][0]["kernels_compiled"], 0) << out_;
  ASSERT_EQ(Uopctl(*third, Cat("--json cache diff ", kBundle)), 0) << out_;
  EXPECT_EQ(nlohmann::json::parse(out_, nullptr, false)["data"]["only_a"].size(),
            exported["entries"]);
  ASSERT_EQ(Uopctl(*third, Cat("cache import ", kBundle)), 0) << out_;
  EXPECT_THAT(out_, HasSubstr("imported"));

  EXPECT_EQ(Uopctl(*stranger, Cat("cache import ", kBundle)), 4);
  EXPECT_THAT(out_, HasSubstr("does not trust"));
  EXPECT_THAT(out_, HasSubstr(kBundle)) << "and not the file that was between";
}

TEST_F(S3BundleTest, WhatGoesWrongIsSaid) {
  const auto daemon = Start("a");
  ASSERT_EQ(Uopctl(*daemon, Cat("cache warm ", kGraphFile)), 0) << out_;
  EXPECT_EQ(Uopctl(*daemon, "cache import s3://uopd-test/none"), 5);
  EXPECT_THAT(out_, HasSubstr("404 NoSuchKey"));
  EXPECT_EQ(Uopctl(*daemon, Cat("cache export ", kBundle), "wrong"), 4);
  EXPECT_THAT(out_, HasSubstr("403 SignatureDoesNotMatch"));
  EXPECT_EQ(Uopctl(*daemon, Cat("cache import ", kBundle), "nobody"), 2);
  EXPECT_THAT(out_, HasSubstr("no profile [nobody]"));
  EXPECT_EQ(Uopctl(*daemon, Cat("cache export --s3-credentials=/missing ", kBundle)), 5);
  EXPECT_THAT(out_, HasSubstr("/missing"));
  EXPECT_EQ(Uopctl(*daemon, "cache import s3://uopd-test"), 2);
  EXPECT_THAT(out_, HasSubstr("the key is missing"));
  EXPECT_EQ(Uopctl(*daemon, Cat("cache import --help ", kBundle)), 0);

  // What lies in the bucket is not believed.
  for (const std::string& bytes : {std::string("no bundle"), std::string()}) {
    Replace(bytes);
    EXPECT_EQ(Uopctl(*daemon, Cat("cache import ", kBundle)), 1) << out_;
  }
  const auto other = Start("b");
  const std::string file = (folder_.path() / "m.uopb").string();
  ASSERT_EQ(Uopctl(*daemon, Cat("cache export ", file)), 0) << out_;
  std::string bytes = ReadFile(file);
  Replace(bytes.substr(0, bytes.size() - 5));
  EXPECT_EQ(Uopctl(*other, Cat("cache import --dry-run ", kBundle)), 1);
  EXPECT_THAT(out_, HasSubstr("was cut"));
  bytes[bytes.size() - 100] ^= 1;
  Replace(bytes);
  EXPECT_EQ(Uopctl(*other, Cat("cache import --dry-run ", kBundle)), 1);
  EXPECT_THAT(out_, HasSubstr("refused"));
}

}  // namespace
}  // namespace uopd::e2e
