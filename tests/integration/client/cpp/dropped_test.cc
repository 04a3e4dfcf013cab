// SPDX-License-Identifier: MIT
// Tensors that are made of host memory and dropped, without any request.
#include <unistd.h>

#include "tests/support/footprint.h"
#include "tests/unit/client/cpp/fixture.h"

namespace uopd::client {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

double ResidentMib() { return test::FootprintOf(getpid()).resident_mib; }

class DroppedTest : public ClientTest {
 protected:
  // 3 MiB.
  Tensor Large(float value) {
    return client_.FromHost(std::vector<float>((3 << 20) / sizeof(float), value),
                            {(3 << 20) / static_cast<int64_t>(sizeof(float))});
  }
};

TEST_F(DroppedTest, LargeOnesDoNotAddUp) {
  const double before = ResidentMib();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(Large(1).Submit().ok());
  EXPECT_LT(ResidentMib() - before, 700) << "1500 MiB were made; a sanitizer keeps 256 for a while";
  EXPECT_TRUE(daemon_->requests.empty());
}

// Each buffer that is not free has a number and a node of its own.
TEST_F(DroppedTest, SmallOnesDoNotAddUp) {
  for (int i = 0; i < 200'000; ++i)
    ASSERT_TRUE(client_.FromHost(std::vector<float>{1}, {1}).status().ok());
  EXPECT_LT(client_.graph_nodes(), 50'000U);
}

TEST_F(DroppedTest, WhatIsKeptOrReadByOthersStays) {
  const Tensor kept = Large(2);
  Tensor sum;
  {
    const Tensor gone = Large(3);
    sum = gone + kept;
  }
  for (int i = 0; i < 50; ++i) Large(static_cast<float>(i));
  EXPECT_THAT(Out(kept.Narrow(0, 7, 1)), ElementsAre(2));
  EXPECT_THAT(Out(sum), Each(5));
}

// What lives is not looked through for each new tensor.
TEST_F(DroppedTest, ManyThatAreKeptCostNoTime) {
  std::vector<Tensor> kept;
  for (int i = 0; i < 100'000; ++i) {
    kept.push_back(client_.FromHost(std::vector<float>{static_cast<float>(i)}, {1}));
    client_.FromHost(std::vector<float>{0}, {1});
  }
  EXPECT_THAT(Out(kept[777]), ElementsAre(777));
}

}  // namespace
}  // namespace uopd::client
