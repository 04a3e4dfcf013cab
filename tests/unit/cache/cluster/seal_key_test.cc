// SPDX-License-Identifier: MIT
// Keys of signatures: what files may hold, and what they sign.
#include "cache/cluster/seal_key.h"

#include <sys/stat.h>

#include "tests/unit/cache/cluster/key_files.h"

namespace uopd::cache {
namespace {

class SealKeyTest : public KeyFiles {};

TEST_F(SealKeyTest, HmacIsThatOfRfc4231) {
  // Test case 6 of RFC 4231: a key of 131 bytes.
  const absl::StatusOr<SealKey> key = SealKey::Read(Secret("hmac", std::string(262, 'a')));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(
      absl::BytesToHexString(key->Sign("Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_F(SealKeyTest, Ed25519IsThatOfRfc8032) {
  // Test 1 of section 7.1: the seed, as PKCS #8 in PEM.
  const absl::StatusOr<SealKey> key = SealKey::Read(
      Write("ed",
            "-----BEGIN PRIVATE "
            "KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
            "-----END PRIVATE KEY-----\n"));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(absl::BytesToHexString(key->Sign("")),
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39"
            "701cf9b46bd25bf5f0"
            "595bbe24655141438e7a100b");
}

TEST_F(SealKeyTest, EachKindSignsAndChecks) {
  for (const SealKey& key : {hmac_, ed25519_}) {
    const std::string signature = key.Sign("bytes");
    EXPECT_TRUE(key.Verify("bytes", signature));
    EXPECT_FALSE(key.Verify("Bytes", signature));
    EXPECT_FALSE(key.Verify("bytes", signature.substr(1)));
    EXPECT_FALSE(key.Verify("bytes", ""));
    for (const SealKey& other : {other_hmac_, other_ed25519_}) {
      EXPECT_FALSE(other.Verify("bytes", signature));
      EXPECT_NE(other.id(), key.id());
    }
  }
}

TEST_F(SealKeyTest, ThePublicKeyChecksAndDoesNotSign) {
  EXPECT_FALSE(public_ed25519_.can_sign());
  EXPECT_EQ(public_ed25519_.id(), ed25519_.id());
  EXPECT_TRUE(public_ed25519_.Verify("bytes", ed25519_.Sign("bytes")));
  EXPECT_FALSE(public_ed25519_.Verify("bytes", other_ed25519_.Sign("bytes")));
}

TEST_F(SealKeyTest, FilesThatAreNoKeysAreRefusedWithoutTheirContent) {
  const std::string rsa =
      "-----BEGIN PUBLIC "
      "KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf\n"
      "9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQ==\n-----END PUBLIC "
      "KEY-----\n";
  const std::string cases[] = {"",
                               "\n",
                               "abc",
                               std::string(62, 'a'),
                               std::string(65, 'a'),
                               std::string(64, 'g'),
                               "-----BEGIN PRIVATE KEY-----\n",
                               rsa,
                               std::string(1 << 17, 'a')};
  for (const std::string& text : cases) {
    const absl::Status status = SealKey::Read(Write("bad", text)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find("bad"), std::string::npos) << status;
    if (text.size() > 1) {
      EXPECT_EQ(status.message().find(text.substr(0, 20)), std::string::npos) << status;
    }
  }
  EXPECT_TRUE(absl::IsNotFound(SealKey::Read(folder_ + "/missing").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SealKey::Read(folder_).status()));
}

TEST_F(SealKeyTest, SecretsThatEveryUserMayReadAreRefused) {
  const std::string file = Secret("open", std::string(64, 'a'));
  chmod(file.c_str(), 0644);
  EXPECT_TRUE(absl::IsPermissionDenied(SealKey::Read(file).status()));
  chmod(file.c_str(), 0640);
  EXPECT_TRUE(SealKey::Read(file).ok());
}

}  // namespace
}  // namespace uopd::cache
