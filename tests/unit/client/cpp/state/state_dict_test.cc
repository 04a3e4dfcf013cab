// SPDX-License-Identifier: MIT
// The states of models: names, loading, and that a state which does not fit changes nothing.
#include "uopd/state_dict.h"

#include "tests/unit/client/cpp/fixture.h"
#include "uopd/optim.h"
#include "uopd/recurrent.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> NamesOf(const StateDict& state) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : state) out.push_back(name);
  return out;
}

class StateDictTest : public ClientTest {
 protected:
  StateDict ModelState(const Linear& a, const BatchNorm& b) {
    StateDict state;
    AddState(state, "first", a.state_dict());
    AddState(state, "norm", b.state_dict());
    return state;
  }
};

TEST_F(StateDictTest, NamesAreThoseOfPyTorch) {
  EXPECT_THAT(NamesOf(ModelState(Linear(client_, 2, 3), BatchNorm(client_, 3))),
              ElementsAre("first.weight", "first.bias", "norm.weight", "norm.bias",
                          "norm.running_mean", "norm.running_var"));
  StateDict state;
  AddState(state, "c", Conv1d(client_, 1, 2, 3, {}, false).state_dict());
  AddState(state, "r", Lstm(client_, 1, 2, 2).state_dict());
  AddState(state, "a", MultiHeadAttention(client_, 4, 2).state_dict());
  EXPECT_THAT(
      NamesOf(state),
      ElementsAre("c.weight", "r.weight_ih_l0", "r.weight_hh_l0", "r.bias_ih_l0", "r.bias_hh_l0",
                  "r.weight_ih_l1", "r.weight_hh_l1", "r.bias_ih_l1", "r.bias_hh_l1",
                  "a.in_proj_weight", "a.in_proj_bias", "a.out_proj.weight", "a.out_proj.bias"));
  Sequential layers;
  layers.Add(Linear(client_, 2, 3)).Add([](const Tensor& x) { return x.Relu(); });
  layers.Add(Linear(client_, 3, 1, false));
  EXPECT_THAT(NamesOf(layers.state_dict()), ElementsAre("0.weight", "0.bias", "2.weight"));
}

TEST_F(StateDictTest, LoadsIntoNewAndIntoRealisedModels) {
  const Linear from(client_, 2, 3);
  const BatchNorm norm(client_, 3);
  const StateDict state = ModelState(from, norm);
  for (const bool realised : {false, true}) {
    const Linear to(client_, 2, 3);
    const BatchNorm other(client_, 3);
    const StateDict own = ModelState(to, other);
    if (realised) {
      ASSERT_TRUE(Realize({to.weight, to.bias}).ok());
    }
    const auto report = LoadStateDict(own, state);
    ASSERT_TRUE(report.ok()) << report.status();
    for (size_t i = 0; i < own.size(); ++i)
      EXPECT_EQ(Out(own[i].second), Out(state[i].second)) << own[i].first;
    EXPECT_TRUE(to.weight.requires_grad());
    // Each model goes its own way.
    auto sgd = Sgd(client_, {to.weight}, {.lr = 1});
    const std::vector<double> before = Out(from.weight);
    ASSERT_TRUE(to.weight.Sum().Backward().ok());
    ASSERT_TRUE(sgd->Step().ok());
    EXPECT_EQ(Out(from.weight), before);
    EXPECT_NE(Out(to.weight), before);
  }
}

TEST_F(StateDictTest, OtherDtypesAreCast) {
  const Tensor w = Ramp({3}, 1, 0, Dtype::F32);
  ASSERT_TRUE(LoadStateDict({{"w", w}}, {{"w", Ramp({3}, 2, 1, Dtype::F16)}}).ok());
  EXPECT_EQ(w.dtype(), Dtype::F32);
  EXPECT_THAT(Out(w), ElementsAre(1, 3, 5));
}

TEST_F(StateDictTest, WhatDoesNotFitChangesNothing) {
  const Tensor a = Ramp({2}), b = Ramp({3});
  const StateDict model = {{"a", a}, {"b", b}};
  const auto says = [&](const StateDict& state, bool strict = true) {
    return StatusText(LoadStateDict(model, state, strict).status());
  };
  EXPECT_THAT(says({{"a", Ramp({2}, 5)}}), HasSubstr("the state lacks `b`"));
  EXPECT_THAT(says({{"a", Ramp({2}, 5)}, {"b", Ramp({3}, 5)}, {"c", Ramp({1})}}),
              HasSubstr("the model has no `c`"));
  EXPECT_THAT(says({{"a", Ramp({2}, 5)}, {"b", Ramp({4}, 5)}}, false),
              HasSubstr("`b` has shape (3) in the model and shape (4) in the state"));
  EXPECT_THAT(says({{"a", Ramp({2}, 5)}, {"a", Ramp({2}, 5)}}, false),
              HasSubstr("two tensors with the name `a`"));
  EXPECT_THAT(says({{"a", Ramp({2}) + Ramp({3})}}, false), HasSubstr("(while reading `a`)"));
  EXPECT_THAT(Out(a), ElementsAre(0, 1));
  const auto report = LoadStateDict(model, {{"a", Ramp({2}, 5)}, {"c", Ramp({1})}}, false);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->missing, ElementsAre("b"));
  EXPECT_THAT(report->unexpected, ElementsAre("c"));
  EXPECT_THAT(Out(a), ElementsAre(0, 5));
  EXPECT_THAT(Out(b), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace uopd::client
