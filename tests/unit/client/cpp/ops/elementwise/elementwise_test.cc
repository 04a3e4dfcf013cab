// SPDX-License-Identifier: MIT
#include <cmath>

#include "tests/unit/client/cpp/fixture.h"

namespace uopd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

class ElementwiseTest : public ClientTest {};

TEST_F(ElementwiseTest, BroadcastsLikeNumpy) {
  const Tensor a = Ramp({2, 1, 3}), b = Ramp({2, 1}, 10);
  const Tensor c = a + b;
  EXPECT_EQ(c.dims(), (Dims{2, 2, 3}));
  EXPECT_THAT(Out(c), ElementsAre(0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15));
}

TEST_F(ElementwiseTest, PromotesAndLetsNumbersFollow) {
  const Tensor i = In({2}, {7, -7}, Dtype::I32), b = In({2}, {1, 0}, Dtype::Bool),
               h = In({2}, {1, 2}, Dtype::F16);
  EXPECT_EQ((i + 1).dtype(), Dtype::I32);
  EXPECT_EQ((i + 1.5).dtype(), Dtype::F32);
  EXPECT_EQ((b + 1).dtype(), Dtype::I32);
  EXPECT_EQ((b | true).dtype(), Dtype::Bool);
  EXPECT_EQ((2.0 * h).dtype(), Dtype::F16);
  EXPECT_EQ((h + i).dtype(), Dtype::F16);
  EXPECT_EQ((In({1}, {1}, Dtype::I8) + In({1}, {1}, Dtype::U8)).dtype(), Dtype::I16);
  EXPECT_THAT(Out(i / 2), ElementsAre(3.5, -3.5));
  EXPECT_THAT(Out(i.FloorDiv(2)), ElementsAre(3, -4));
  EXPECT_THAT(Out(i % 3), ElementsAre(1, 2));
  EXPECT_THAT(Out(In({2}, {7.5, -7.5}) % 2.0), ElementsAre(1.5, 0.5));
  EXPECT_THAT(Out(10 - i), ElementsAre(3, 17));
  EXPECT_THAT(Out((i << 2) ^ 1), ElementsAre(29, -27));
}

TEST_F(ElementwiseTest, ComparesWithNanAsIeeeSays) {
  const Tensor x = In({3}, {1, NAN, 2}), y = In({3}, {1, 1, 1});
  EXPECT_THAT(Out(x < y), ElementsAre(0, 0, 0));
  EXPECT_THAT(Out(x <= y), ElementsAre(1, 0, 0));
  EXPECT_THAT(Out(x >= y), ElementsAre(1, 0, 1));
  EXPECT_THAT(Out(x > y), ElementsAre(0, 0, 1));
  EXPECT_THAT(Out(x == y), ElementsAre(1, 0, 0));
  EXPECT_THAT(Out(x != y), ElementsAre(0, 1, 1));
}

TEST_F(ElementwiseTest, FunctionsMatchTheLibrarys) {
  const std::vector<double> at = {-2.5, -1, -0.3, 0, 0.4, 1.7, 3};
  const Tensor x = In({7}, at, Dtype::F64);
  struct Case {
    const char* name;
    Tensor got;
    double (*want)(double);
  };
  const Case cases[] = {
      {"exp", x.Exp(), [](double v) { return std::exp(v); }},
      {"log", x.Abs().Log(), [](double v) { return std::log(std::abs(v)); }},
      {"sin", x.Sin(), [](double v) { return std::sin(v); }},
      {"cos", x.Cos(), [](double v) { return std::cos(v); }},
      {"tanh", x.Tanh(), [](double v) { return std::tanh(v); }},
      {"sigmoid", x.Sigmoid(), [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"silu", x.Silu(), [](double v) { return v / (1 + std::exp(-v)); }},
      {"relu", x.Relu(), [](double v) { return std::max(v, 0.0); }},
      {"gelu", x.Gelu(),
       [](double v) {
         return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
       }},
      {"sqrt", x.Square().Sqrt(), [](double v) { return std::abs(v); }},
      {"rsqrt", (x.Square() + 1).Rsqrt(), [](double v) { return 1 / std::sqrt(v * v + 1); }},
      {"floor", x.Floor(), [](double v) { return std::floor(v); }},
      {"ceil", x.Ceil(), [](double v) { return std::ceil(v); }},
      {"pow", x.Pow(2), [](double v) { return v * v; }},
      {"min", x.Minimum(0.5), [](double v) { return std::min(v, 0.5); }},
  };
  for (const Case& c : cases) {
    std::vector<double> want;
    for (double v : at) want.push_back(c.want(v));
    EXPECT_THAT(Out(c.got), Pointwise(DoubleNear(1e-12), want)) << c.name;
  }
}

TEST_F(ElementwiseTest, WhereChoosesAndPromotes) {
  const Tensor c = In({3}, {1, 0, 1}, Dtype::Bool);
  EXPECT_THAT(Out(Where(c, Ramp({3}), -1)), ElementsAre(0, -1, 2));
  EXPECT_EQ(Where(c, 1, 0).dtype(), Dtype::I32);
  EXPECT_EQ(Where(c, 1, 0.5).dtype(), Dtype::F32);
  EXPECT_THAT(Out(Where(c, 1, 0.5)), ElementsAre(1, 0.5, 1));
}

TEST_F(ElementwiseTest, IntegerMinimumAndComplementDoNotOverflow) {
  const Tensor x = In({3}, {-128, 127, 0}, Dtype::I8);
  EXPECT_THAT(Out(x.Minimum(0)), ElementsAre(-128, 0, 0));
  EXPECT_THAT(Out(x.Not()), ElementsAre(127, -128, -1));
  EXPECT_THAT(Out(In({2}, {1, 0}, Dtype::Bool).Not()), ElementsAre(0, 1));
  EXPECT_THAT(Out(In({2}, {200, 3}, Dtype::U8).Minimum(In({2}, {100, 4}, Dtype::U8))),
              ElementsAre(100, 3));
}

TEST_F(ElementwiseTest, CastsAndBitcasts) {
  EXPECT_THAT(Out(In({3}, {-1.7, 300, NAN}).Cast(Dtype::U8)), ElementsAre(0, 255, 0));
  EXPECT_THAT(Out(In({1}, {1}).Bitcast(Dtype::I32)), ElementsAre(0x3f800000));
}

TEST_F(ElementwiseTest, BitcastsToOtherSizes) {
  const Tensor words = In({2, 2}, {1, 258, -1, 65536}, Dtype::I32);
  EXPECT_THAT(Out(words.Bitcast(Dtype::U8)),
              ElementsAre(1, 0, 0, 0, 2, 1, 0, 0, 255, 255, 255, 255, 0, 0, 1, 0));
  EXPECT_EQ(words.Bitcast(Dtype::U8).dims(), (Dims{2, 8}));
  const Tensor wide = words.Bitcast(Dtype::I64);
  EXPECT_EQ(wide.dims(), (Dims{2, 1}));
  EXPECT_THAT(Out(wide), ElementsAre(1 + 258 * 0x1p32, 0x1p32 - 1 + 0x1p48));
  const Tensor x = In({1, 4}, {1.5, -2, 3e30, 0.1}, Dtype::F64);
  for (const Dtype d : {Dtype::U8, Dtype::F16, Dtype::I32, Dtype::F32})
    EXPECT_EQ(Out(x.Bitcast(d).Bitcast(Dtype::F64)), Out(x)) << ir::Name(d);
  EXPECT_EQ(In({0}, {}, Dtype::F64).Bitcast(Dtype::F32).dims(), Dims{0});
  for (const Tensor& t : {In({1}, {1}), In({}, {1}), In({3}, {1, 2, 3})})
    EXPECT_EQ(t.Bitcast(Dtype::I64).status().code(), absl::StatusCode::kInvalidArgument);
}

// Infinity and NaN are no integers: a tensor of integers that meets one becomes f32, and where an
// integer is asked for they are refused. UBSan looks on.
TEST_F(ElementwiseTest, NumbersThatNoIntegerIsAreDefined) {
  const Tensor x = In({3}, {-2, 0, 3}, Dtype::I32);
  const double inf = INFINITY;
  EXPECT_EQ((x * inf).dtype(), Dtype::F32);
  EXPECT_THAT(Out(x + inf), ElementsAre(inf, inf, inf));
  const std::vector<double> product = Out(x * inf);
  EXPECT_EQ(product[0], -inf);
  EXPECT_TRUE(std::isnan(product[1]));
  EXPECT_THAT(Out(x < 1e300), ElementsAre(1, 1, 1));
  EXPECT_THAT(Out(x == NAN), ElementsAre(0, 0, 0));
  EXPECT_THAT(Out(Where(x < 0, inf, x)), ElementsAre(inf, 0, 3));
  EXPECT_THAT(Out(x.Clip(-inf, 1)), ElementsAre(-2, 0, 1));
  EXPECT_THAT(Out(x.Clip(-1e30, inf)), ElementsAre(-2, 0, 3));
  EXPECT_THAT(Out(In({2}, {3, 200}, Dtype::U8).Clip(-5, 1000)), ElementsAre(3, 200));
  EXPECT_THAT(Out(In({2}, {-3, 100}, Dtype::I8).Clip(-5, 1000)), ElementsAre(-3, 100));
  Tensor assigned = In({1}, {1}, Dtype::I32);
  assigned.Assign(NAN);
  const Tensor refused[] = {client_.Full({2}, inf, Dtype::I64),
                            client_.Full({2}, NAN, Dtype::U8),
                            client_.Full({2}, 256, Dtype::U8),
                            client_.Full({2}, -1, Dtype::U16),
                            client_.Full({2}, 0x1p63, Dtype::I64),
                            x.Clip(NAN, 1),
                            x.Pad({1}, {0}, -inf),
                            assigned};
  for (const Tensor& t : refused)
    EXPECT_EQ(t.status().code(), absl::StatusCode::kInvalidArgument) << StatusText(t.status());
  EXPECT_THAT(Out(client_.Full({1}, 0x1p63, Dtype::U64)), ElementsAre(0x1p63));
  EXPECT_THAT(Out(client_.Full({1}, -3.7, Dtype::I8)), ElementsAre(-3));
  EXPECT_THAT(Out(client_.Full({1}, 0.5, Dtype::Bool)), ElementsAre(1));
}

TEST_F(ElementwiseTest, EmptyTensorsNeedNoDaemon) {
  EXPECT_THAT(Out(Ramp({0, 3}) + Ramp({3})), IsEmpty());
  EXPECT_TRUE(daemon_->requests.empty());
}

TEST_F(ElementwiseTest, TheFirstErrorTravels) {
  const Tensor bad = Ramp({2, 3}) + Ramp({4});
  const Tensor later = (bad * 2.0).Sum().Relu();
  EXPECT_EQ(later.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(StatusText(later.status()), HasSubstr("+: ADD of shapes (2, 3) and (4)"));
  EXPECT_THAT(StatusText(later.status()), HasSubstr("elementwise_test.cc:"));
  EXPECT_EQ(later.Realize(), later.status());
  EXPECT_EQ(later.ToBytes().status(), later.status());
  // The same mistake again is the same error, though its nodes exist already.
  EXPECT_FALSE((Ramp({2, 3}) + Ramp({4})).status().ok());
  EXPECT_TRUE(daemon_->requests.empty());
}

TEST_F(ElementwiseTest, ErrorsNameThePlaceOfTheScope) {
  auto text = [&] { return StatusText((Ramp({2}) + Ramp({3})).status()); };
  {
    const SiteScope outer({"outer.py", 7});
    EXPECT_THAT(text(), HasSubstr("(at outer.py:7)"));
    {
      const SiteScope inner({"inner.py", 8});
      EXPECT_THAT(text(), HasSubstr("(at inner.py:8)"));
    }
    EXPECT_THAT(text(), HasSubstr("(at outer.py:7)"));
  }
  EXPECT_THAT(text(), HasSubstr("(at elementwise_test.cc:"));
}

TEST_F(ElementwiseTest, ClientsDoNotMix) {
  Client other(std::make_shared<InterpreterExecutor>());
  EXPECT_THAT(StatusText((Ramp({2}) + other.Ones({2})).status()), HasSubstr("different clients"));
  EXPECT_FALSE((Ramp({2}) + Tensor()).status().ok());
  EXPECT_FALSE((Tensor() * 2).status().ok());
  EXPECT_FALSE(Tensor().Exp().Sum().status().ok());
}

}  // namespace
}  // namespace uopd::client
