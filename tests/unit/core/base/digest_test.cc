// SPDX-License-Identifier: MIT
#include "core/base/digest.h"

#include <gtest/gtest.h>

#include <string>

namespace uopd {
namespace {

// Published vectors: FIPS 180-4 and NIST's examples.
TEST(DigestTest, IsSha256) {
  const std::pair<std::string, const char*> vectors[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmn"
       "opqrsmnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1'000'000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const auto& [text, want] : vectors) EXPECT_EQ(HashBytes(text).Hex(), want) << text.size();
}

TEST(DigestTest, PiecesMakeNoDifference) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7 + i / 13);
  for (const size_t bytes : {0, 1, 55, 56, 63, 64, 65, 119, 128, 129, 1000}) {
    const std::string_view all = std::string_view(text).substr(0, bytes);
    for (const size_t piece : {1, 3, 63, 64, 65, 200}) {
      Hasher hasher;
      for (size_t at = 0; at < all.size(); at += piece) hasher.Update(all.substr(at, piece));
      EXPECT_EQ(hasher.Finish(), HashBytes(all)) << bytes << " in pieces of " << piece;
    }
  }
}

}  // namespace
}  // namespace uopd
