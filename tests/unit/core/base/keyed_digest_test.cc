// SPDX-License-Identifier: MIT
#include "core/base/keyed_digest.h"

#include <gtest/gtest.h>

#include <string>

namespace uopd {
namespace {

// Published vectors: RFC 4231, cases 1, 2, 3 and 6.
TEST(KeyedDigestTest, IsHmacSha256) {
  struct Vector {
    std::string key, data;
    const char* want;
  };
  const std::string long_key(131, '\xaa');
  const Vector vectors[] = {{std::string(20, '\x0b'), "Hi There",
                             "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
                            {"Jefe", "what do ya want for nothing?",
                             "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
                            {std::string(20, '\xaa'), std::string(50, '\xdd'),
                             "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
                            {long_key, "Test Using Larger Than Block-Size Key - Hash Key First",
                             "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"}};
  for (const Vector& v : vectors) EXPECT_EQ(KeyedDigest(v.key, v.data).Hex(), v.want) << v.data;
}

TEST(KeyedDigestTest, ComparesEveryByte) {
  const Digest a = HashBytes("a");
  EXPECT_TRUE(SameInConstantTime(a, a));
  for (size_t i = 0; i < a.bytes.size(); ++i) {
    Digest b = a;
    b.bytes[i] ^= 0x80;
    EXPECT_FALSE(SameInConstantTime(a, b)) << i;
  }
}

}  // namespace
}  // namespace uopd
