// SPDX-License-Identifier: MIT
// Operations that have nothing to do give another tensor: an assignment to one does not change the
// other, or, if the result is a view of the whole, changes what it is a view of.
#include <functional>

#include "tests/unit/client/cpp/fixture.h"
#include "uopd/activations.h"
#include "uopd/image.h"
#include "uopd/indexing.h"
#include "uopd/math.h"
#include "uopd/movement.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;

struct Nothing {
  const char* name;
  Dtype dtype;
  std::function<Tensor(const Tensor&)> make;  // of (1, 1, 3)
};

const Nothing kValues[] = {
    {"Pad", Dtype::F32, [](const Tensor& x) { return x.Pad({0, 0, 0}, {0, 0, 0}); }},
    {"Expand", Dtype::F32, [](const Tensor& x) { return x.Expand({1, 1, 3}); }},
    {"Cast", Dtype::F32, [](const Tensor& x) { return x.Cast(Dtype::F32); }},
    {"Bitcast", Dtype::F32, [](const Tensor& x) { return x.Bitcast(Dtype::F32); }},
    {"Trunc", Dtype::I32, [](const Tensor& x) { return x.Trunc(); }},
    {"Floor", Dtype::I32, [](const Tensor& x) { return x.Floor(); }},
    {"Ceil", Dtype::I32, [](const Tensor& x) { return x.Ceil(); }},
    {"Round", Dtype::I32, [](const Tensor& x) { return fn::Round(x); }},
    {"NanToNum", Dtype::I32, [](const Tensor& x) { return fn::NanToNum(x); }},
    {"Abs", Dtype::U8, [](const Tensor& x) { return x.Abs(); }},
    {"To", Dtype::F32, [](const Tensor& x) { return x.To("CPU"); }},
    {"ToLayoutOf", Dtype::F32, [](const Tensor& x) { return x.ToLayoutOf(x + 1); }},
    {"Dropout", Dtype::F32, [](const Tensor& x) { return x.Dropout(0); }},
    {"Sum over no axis", Dtype::F32, [](const Tensor& x) { return x.Reshape({}).Sum(); }},
    {"Roll", Dtype::F32, [](const Tensor& x) { return fn::Roll(x, {0}, {2}); }},
    {"Interpolate", Dtype::F32,
     [](const Tensor& x) { return fn::Interpolate(x, {3}, fn::InterpolateMode::kNearest); }},
    {"Concat", Dtype::F32,
     [](const Tensor& x) {
       const Tensor parts[] = {x};
       return Concat(parts, 0);
     }},
    {"Contiguous", Dtype::F32, [](const Tensor& x) { return x.Contiguous(); }},
    {"Snapshot", Dtype::F32, [](const Tensor& x) { return x.Snapshot(); }},
};

const Nothing kViews[] = {
    {"Reshape", Dtype::F32, [](const Tensor& x) { return x.Reshape({1, 1, 3}); }},
    {"Permute", Dtype::F32, [](const Tensor& x) { return x.Permute({0, 1, 2}); }},
    {"Transpose", Dtype::F32, [](const Tensor& x) { return x.Transpose(2, 2); }},
    {"Shrink", Dtype::F32, [](const Tensor& x) { return x.Shrink({0, 0, 0}, {1, 1, 3}); }},
    {"Flip", Dtype::F32, [](const Tensor& x) { return x.Flip({}); }},
    {"Slice", Dtype::F32, [](const Tensor& x) { return x.Slice({}); }},
    {"Narrow", Dtype::F32, [](const Tensor& x) { return x.Narrow(2, 0, 3); }},
    {"Split", Dtype::F32, [](const Tensor& x) { return x.Split(2, {3})[0]; }},
    {"Detach", Dtype::F32, [](const Tensor& x) { return x.Detach(); }},
};

class AnotherTest : public ClientTest {
 protected:
  AnotherTest() { daemon_->default_name = "CPU:0"; }
  Tensor Made(Dtype dtype, bool stored) {
    Tensor x = Ramp({1, 1, 3}, 1, 1, dtype);
    if (stored)
      EXPECT_TRUE(x.Realize().ok());
    else
      x = x + 0;
    return x;
  }
};

TEST_F(AnotherTest, ValuesAreNotTheTensor) {
  for (const Nothing& n : kValues) {
    for (const bool stored : {false, true}) {
      SCOPED_TRACE(n.name);
      Tensor x = n.name == std::string_view("Sum over no axis")
                     ? Made(n.dtype, stored).Narrow(2, 0, 1).Snapshot()
                     : Made(n.dtype, stored);
      const std::vector<double> before = Out(x);
      Tensor y = n.make(x);
      ASSERT_TRUE(y.status().ok()) << y.status();
      EXPECT_FALSE(y.is_view());
      y.Assign(y + 1);
      EXPECT_EQ(Out(x), before);
      const Tensor z = n.make(x);
      x.Assign(x + 2);
      EXPECT_EQ(Out(z), before);
    }
  }
}

TEST_F(AnotherTest, ViewsOfTheWholeWriteThrough) {
  for (const Nothing& n : kViews) {
    for (const bool stored : {false, true}) {
      SCOPED_TRACE(n.name);
      Tensor x = Made(n.dtype, stored), y = n.make(x);
      ASSERT_TRUE(y.status().ok()) << y.status();
      y.Assign(y + 1);
      EXPECT_THAT(Out(x), ElementsAre(2, 3, 4));
      const Tensor z = n.make(x);
      x.Assign(x * 2);
      EXPECT_THAT(Out(z), ElementsAre(2, 3, 4));
      EXPECT_THAT(Out(x), ElementsAre(4, 6, 8));
    }
  }
}

TEST_F(AnotherTest, WithoutAxes) {
  const Tensor x = In({}, {3});
  Tensor flipped = x.Flip({-1});
  flipped.Assign(5);
  EXPECT_THAT(Out(x), ElementsAre(5));
}

TEST_F(AnotherTest, ACopyOfAHandleIsTheTensor) {
  const Tensor x = Made(Dtype::F32, true);
  Tensor same = x;
  same.Assign(same + 1);
  EXPECT_THAT(Out(x), ElementsAre(2, 3, 4));
  // A step that makes a new value changes the variable alone.
  Tensor part = x.Narrow(2, 0, 2);
  part = part + 1;
  EXPECT_THAT(Out(x), ElementsAre(2, 3, 4));
}

}  // namespace
}  // namespace uopd::client
