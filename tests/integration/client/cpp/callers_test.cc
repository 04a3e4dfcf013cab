// SPDX-License-Identifier: MIT
// What belongs to the thread that calls: the switches of a Context, and what is recorded. One
// thread calls at a time.
#include <functional>
#include <thread>

#include "tests/unit/client/cpp/fixture.h"
#include "uopd/context.h"
#include "uopd/jit.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CallersTest : public ClientTest {
 protected:
  static void Elsewhere(const std::function<void()>& f) { std::thread(f).join(); }
  uint32_t BeamOfARequest() {
    EXPECT_TRUE((In({1}, {1}) + static_cast<double>(++requests_)).Realize().ok());
    return daemon_->requests.back().options().beam();
  }
  static absl::StatusOr<double> Call(Jit& jit, const Tensor& x) {
    UOPD_ASSIGN(const std::vector<Tensor> out, jit({x}));
    return out[0].Item<float>();
  }

  int requests_ = 0;
};

TEST_F(CallersTest, AContextIsOfItsThread) {
  const Context outer(client_, {.beam = 2});
  Elsewhere([&] {
    EXPECT_EQ(BeamOfARequest(), 0U);
    EXPECT_EQ(client_.execution().beam, 0U);
    const Context other(client_, {.beam = 5});
    EXPECT_EQ(BeamOfARequest(), 5U);
  });
  EXPECT_EQ(BeamOfARequest(), 2U);
}

TEST_F(CallersTest, ContextsThatOverlapEndByThemselves) {
  auto first = std::make_unique<Context>(client_, ContextChanges{.beam = 2});
  auto second = std::make_unique<Context>(client_, ContextChanges{.beam = 3, .noopt = true});
  first = nullptr;
  EXPECT_EQ(BeamOfARequest(), 3U);
  second = nullptr;
  EXPECT_EQ(BeamOfARequest(), 0U);
  EXPECT_FALSE(client_.execution().noopt);
}

TEST_F(CallersTest, AContextOfOneClientChangesNoOther) {
  Client other(std::make_shared<InterpreterExecutor>());
  const Context outer(client_, {.beam = 2});
  EXPECT_EQ(other.execution().beam, 0U);
}

// What another thread submits meanwhile happens once, and a replay repeats what the function
// submits.
TEST_F(CallersTest, ARecordingIsOfItsThread) {
  Tensor counter = In({1}, {0}), state = In({1}, {0});
  ASSERT_TRUE(Realize({counter, state}).ok());
  const Tensor lazy = state * 100.0;  // nobody has asked for it yet
  int calls = 0;
  std::vector<double> seen;
  Jit step(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    Tensor y = in[0] * 2.0;
    UOPD_TRY(y.Submit());
    if (++calls == 2) {
      Elsewhere([&] {
        counter.Assign(counter + 1.0);
        EXPECT_TRUE(counter.Submit().ok());
        seen = Out(counter + 10.0);  // reads are those of this thread
        const Tensor large = Ramp({1000});
        EXPECT_EQ(Out(large.Sum({0}))[0], 499500);
      });
      EXPECT_TRUE(absl::IsFailedPrecondition(y.Item<float>().status()));
    }
    return std::vector{y + 1.0};
  });
  for (int i = 0; i < 6; ++i) {
    const auto out = Call(step, In({1}, {static_cast<double>(i)}));
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(*out, 2 * i + 1);
  }
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(seen, ElementsAre(11));
  EXPECT_THAT(Out(counter), ElementsAre(1));
  EXPECT_THAT(Out(lazy), ElementsAre(0));
}

// Buffers that only the recorded calls use outlive the requests of others.
TEST_F(CallersTest, OthersFreeNothingOfARecording) {
  int calls = 0;
  const Tensor other = Ramp({4});
  Jit step(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    Tensor y;
    {
      const Tensor passing = in[0] * 3.0;
      UOPD_TRY(passing.Submit());
      y = passing + 1.0;
      UOPD_TRY(y.Submit());
    }
    if (++calls == 2) {
      Elsewhere([&] {
        for (int i = 0; i < 20; ++i) EXPECT_TRUE((other * static_cast<double>(i)).Realize().ok());
      });
    }
    return std::vector{y * 2.0};
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(*Call(step, In({1}, {1.0 * i})), (3 * i + 1) * 2);
}

TEST_F(CallersTest, TwoThreadsRecordAtTheSameTime) {
  int outer_calls = 0, inner_calls = 0;
  Tensor a = In({1}, {0}), b = In({1}, {0});
  ASSERT_TRUE(Realize({a, b}).ok());
  Jit inner(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    ++inner_calls;
    b.Assign(b + in[0]);
    UOPD_TRY(b.Submit());
    return std::vector{b * 10.0};
  });
  Jit outer(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    a.Assign(a + in[0]);
    if (++outer_calls == 2) {
      Elsewhere([&] {
        for (int i = 0; i < 3; ++i) EXPECT_EQ(*Call(inner, In({1}, {1})), 10 * (i + 1));
      });
    }
    UOPD_TRY(a.Submit());
    return std::vector{a * 1.0};
  });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(*Call(outer, In({1}, {5})), 5 * (i + 1));
  EXPECT_EQ(*Call(inner, In({1}, {1})), 40);
  EXPECT_EQ(inner_calls, 2);
  EXPECT_EQ(outer_calls, 2);
  EXPECT_THAT(Out(a), ElementsAre(20));
  EXPECT_THAT(Out(b), ElementsAre(4));
}

// A replay would not compute it.
TEST_F(CallersTest, WhatTheFunctionMadeIsNotTakenByAnotherThread) {
  int calls = 0;
  Jit step(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    const Tensor y = in[0] * 2.0;
    if (++calls == 2) Elsewhere([&] { EXPECT_TRUE(y.Submit().ok()); });
    return std::vector{y + 1.0};
  });
  EXPECT_TRUE(Call(step, In({1}, {1})).ok());
  const absl::Status s = Call(step, In({1}, {2})).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(s), HasSubstr("another thread has computed a tensor"));
}

// A tensor of another thread that reads the old contents is not made a part of what every replay
// computes.
TEST_F(CallersTest, OthersTensorsAreNoPartOfARecording) {
  Tensor w = In({1}, {1});
  ASSERT_TRUE(w.Realize().ok());
  Tensor theirs;
  int calls = 0;
  Jit step(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    if (++calls == 2) Elsewhere([&] { theirs = w + in[0]; });
    w.Assign(w + in[0]);
    UOPD_TRY(w.Submit());
    return std::vector{w * 1.0};
  });
  EXPECT_EQ(*Call(step, In({1}, {1})), 2);
  const absl::Status s = Call(step, In({1}, {1})).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition) << s;
  EXPECT_THAT(Out(theirs), ElementsAre(3));
}

}  // namespace
}  // namespace uopd::client
