// SPDX-License-Identifier: MIT
#include "core/base/possession.h"

#include <gtest/gtest.h>

#include <string>

namespace uopd {
namespace {

TEST(PossessionTest, NamesAreThoseOfTheWholeContents) {
  const std::string contents(300'000, 'x');
  ContentHasher hasher("key");
  hasher.Update(std::string_view(contents).substr(0, 100'000));
  hasher.Update(std::string_view(contents).substr(100'000));
  const ContentHasher::Names names = hasher.Finish();
  EXPECT_EQ(names.sha256, HashBytes(contents));
  EXPECT_EQ(names.tag, KeyedDigest("key", contents));
}

TEST(PossessionTest, AProofIsOfOneSessionOneKeyAndOneContent) {
  const auto proof = [](std::string_view key, std::string_view contents, std::string_view session) {
    ContentHasher hasher(key);
    hasher.Update(contents);
    return ProofOfPossession(session, hasher.Finish().tag);
  };
  const Digest right = proof("key", "contents", "session");
  EXPECT_EQ(right, proof("key", "contents", "session"));
  EXPECT_NE(right, proof("kex", "contents", "session"));
  EXPECT_NE(right, proof("key", "contentz", "session"));
  EXPECT_NE(right, proof("key", "contents", "sessiom"));
}

}  // namespace
}  // namespace uopd
