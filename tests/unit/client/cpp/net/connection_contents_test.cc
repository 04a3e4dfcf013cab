// SPDX-License-Identifier: MIT
// Constants by content: what a connection sends, and what it does where the daemon cannot keep
// them.
#include <gtest/gtest.h>

#include "core/base/digest.h"
#include "tests/support/fake_daemon.h"
#include "uopd/connection.h"

namespace uopd::client {
namespace {

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

}  // namespace
}  // namespace uopd::client
