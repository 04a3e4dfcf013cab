// SPDX-License-Identifier: MIT
// Attention on a real daemon, one kernel as it is scheduled, against loops in double precision.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tests/e2e/daemon_process.h"
#include "tests/e2e/graphs.h"
#include "uopd/client.h"
#include "uopd/connection.h"
#include "uopd/functional.h"

namespace uopd::e2e {
namespace {

using client::Tensor;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Sizes {
  int64_t batch, heads, kv, queries, keys, depth, width;
};

struct Inputs {
  explicit Inputs(const Sizes& s)
      : sizes(s),
        q(Scattered(s.batch * s.heads * s.queries * s.depth, 1)),
        k(Scattered(s.batch * s.kv * s.keys * s.depth, 2)),
        v(Scattered(s.batch * s.kv * s.keys * s.width, 3)) {}

  Sizes sizes;
  std::vector<float> q, k, v, mask;  // mask: is added; queries x keys; empty: no mask
  bool causal = false;
};

// `largest`: the largest magnitude among the summands of each element. Errors are relative to it.
std::vector<double> Reference(const Inputs& in, std::vector<double>& largest) {
  const Sizes& s = in.sizes;
  std::vector<double> out;
  for (int64_t row = 0; row < s.batch * s.heads * s.queries; ++row) {
    const int64_t i = row % s.queries, h = row / s.queries % s.heads, b = row / s.queries / s.heads,
                  g = b * s.kv + h / (s.heads / s.kv);
    std::vector<double> x(static_cast<size_t>(s.keys));
    double most = -INFINITY, sum = 0;
    bool undefined = false;
    for (int64_t j = 0; j < s.keys; ++j) {
      double& dot = x[static_cast<size_t>(j)];
      for (int64_t d = 0; d < s.depth; ++d)
        dot += static_cast<double>(in.q[static_cast<size_t>(row * s.depth + d)]) *
               static_cast<double>(in.k[static_cast<size_t>((g * s.keys + j) * s.depth + d)]);
      dot /= std::sqrt(static_cast<double>(s.depth));
      if (!in.mask.empty()) dot += in.mask[static_cast<size_t>(i * s.keys + j)];
      if (in.causal && j > i + s.keys - s.queries) dot = -INFINITY;
      undefined |= std::isnan(dot);
      most = std::max(most, dot);
    }
    // A query that sees no key has the result 0.
    const bool blind = !undefined && most == -INFINITY;
    for (double& e : x) sum += e = undefined ? NAN : blind ? 0 : std::exp(e - most);
    if (blind) sum = 1;
    for (int64_t w = 0; w < s.width; ++w) {
      double y = 0, all = 0;
      for (int64_t j = 0; j < s.keys; ++j) {
        const double term = x[static_cast<size_t>(j)] / sum *
                            in.v[static_cast<size_t>((g * s.keys + j) * s.width + w)];
        y += term, all += std::abs(term);
      }
      out.push_back(y), largest.push_back(all);
    }
  }
  return out;
}

class AttentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    auto connection = client::Connection::Connect({.address = daemon_.listen()});
    ASSERT_TRUE(connection.ok()) << connection.status();
    client_ = std::make_unique<client::Client>(*connection);
  }

  void Check(const Inputs& in) {
    const Sizes& s = in.sizes;
    SCOPED_TRACE(::testing::Message()
                 << s.batch << " x " << s.heads << " heads of " << s.kv << ", " << s.queries
                 << " queries, " << s.keys << " keys of " << s.depth << ", values of " << s.width
                 << (in.causal ? ", causal" : "") << (in.mask.empty() ? "" : ", masked"));
    const Tensor mask =
        in.mask.empty() ? Tensor() : client_->FromHost(in.mask, {s.queries, s.keys});
    const Tensor y = client::fn::Attention(
        client_->FromHost(in.q, {s.batch, s.heads, s.queries, s.depth}),
        client_->FromHost(in.k, {s.batch, s.kv, s.keys, s.depth}),
        client_->FromHost(in.v, {s.batch, s.kv, s.keys, s.width}), mask, {.causal = in.causal});
    const auto got = y.ToHost<float>();
    ASSERT_TRUE(got.ok()) << got.status();
    std::vector<double> largest;
    const std::vector<double> want = Reference(in, largest);
    ASSERT_EQ(got->size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      const auto value = static_cast<double>((*got)[i]);
      if (std::isfinite(want[i])) {
        // Rounding of sums of `keys` terms, and of exponents that are sums of `depth`.
        EXPECT_NEAR(value, want[i], 3e-6 * std::max(largest[i], 0.01)) << "element " << i;
      } else if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(value)) << "element " << i << " is " << value;
      } else {
        EXPECT_EQ(value, want[i]) << "element " << i;
      }
    }
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path()};
  std::unique_ptr<client::Client> client_;
};

TEST_F(AttentionTest, OfAnyShape) {
  for (const Sizes& s :
       {Sizes{1, 1, 1, 1, 1, 1, 1}, Sizes{2, 3, 3, 5, 1, 4, 3}, Sizes{1, 2, 2, 7, 13, 5, 11},
        Sizes{1, 8, 8, 1, 37, 16, 16}, Sizes{2, 6, 2, 9, 17, 8, 8}, Sizes{1, 32, 8, 1, 100, 64, 64},
        Sizes{1, 4, 4, 33, 65, 31, 29}, Sizes{3, 4, 1, 16, 128, 64, 64}}) {
    Inputs in(s);
    Check(in);
    in.causal = s.queries <= s.keys;
    Check(in);
  }
}

// More scores than a kernel keeps in an array of its own: the keys are divided into blocks.
TEST_F(AttentionTest, OverManyKeys) {
  for (const Sizes& s : {Sizes{1, 4, 2, 8, 16385, 8, 8}, Sizes{1, 1, 1, 9, 40960, 16, 24},
                         Sizes{1, 1, 1, 8, 100003, 4, 1}}) {
    Inputs in(s);
    Check(in);
    in.causal = true;
    Check(in);
    in.mask.assign(static_cast<size_t>(s.queries * s.keys), 0);
    for (int64_t i = 0; i < s.queries; ++i) {
      for (int64_t j = 0; j < s.keys; ++j) {  // whole blocks have no key
        if (j / 3000 % 2 == i % 2) in.mask[static_cast<size_t>(i * s.keys + j)] = -kInf;
      }
    }
    Check(in);
  }
}

TEST_F(AttentionTest, WithAMask) {
  Inputs in({2, 4, 2, 6, 19, 8, 8});
  in.mask = Scattered(6 * 19, 7);
  for (size_t i = 0; i < in.mask.size(); ++i) {
    if (i % 3 == 1) in.mask[i] = -kInf;
  }
  Check(in);
  in.causal = true;
  Check(in);
}

// A row whose mask hides every key is 0 / 0. The other rows keep their values.
TEST_F(AttentionTest, OfARowThatSeesNothing) {
  Inputs in({1, 4, 4, 8, 24, 16, 16});
  in.mask.assign(8 * 24, 0);
  for (size_t j = 0; j < 24; ++j) in.mask[3 * 24 + j] = -kInf;
  Check(in);
}

TEST_F(AttentionTest, OfInfinitiesAndNan) {
  for (const float odd : {kInf, -kInf, kNan}) {
    for (const int where : {0, 1, 2}) {
      Inputs in({1, 4, 4, 8, 24, 16, 16});
      std::vector<float>& values = where == 0 ? in.q : where == 1 ? in.k : in.v;
      values[values.size() / 2 + 5] = odd;
      Check(in);
    }
  }
}

}  // namespace
}  // namespace uopd::e2e
