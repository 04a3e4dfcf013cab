// SPDX-License-Identifier: MIT
// Recorded functions: what a replay sends, what it takes and gives, and what is refused.
#include "uopd/jit.h"

#include "tests/unit/client/cpp/fixture.h"
#include "uopd/nn.h"
#include "uopd/optim.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JitTest : public ClientTest {
 protected:
  static std::vector<Tensor> Call(Jit& jit, std::initializer_list<Tensor> inputs,
                                  std::initializer_list<VariableValue> variables = {}) {
    auto out = jit(inputs, variables);
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? *out : std::vector<Tensor>(4);
  }
};

TEST_F(JitTest, AReplayIsOneRequestWithoutAGraphAndMakesNoNodes) {
  int runs = 0;
  Jit jit(client_, [&](std::span<const Tensor> in) {
    ++runs;
    return std::vector{(in[0] * 2.0 + in[1]).Sum({1}), in[0].Max()};
  });
  for (int i = 0; i < 6; ++i) {
    const Tensor x = Ramp({2, 3}, 1, i), y = Ramp({3}, 10);
    const size_t requests = daemon_->requests.size(), nodes = client_.graph_nodes();
    const std::vector<Tensor> out = Call(jit, {x, y});
    EXPECT_THAT(Out(out[0]), ElementsAre(2 * (3 * i + 3) + 30, 2 * (3 * i + 12) + 30)) << i;
    EXPECT_THAT(Out(out[1]), ElementsAre(i + 5)) << i;
    EXPECT_EQ(jit.Graphs().size(), i < 1 ? 0u : 1u);
    if (i < 2) continue;
    EXPECT_EQ(daemon_->requests.size(), requests + 1);
    EXPECT_TRUE(daemon_->requests.back().graph().empty());
    EXPECT_EQ(HashBytes(*jit.Graphs()[0].graph).view(), daemon_->requests.back().digest());
    EXPECT_EQ(client_.graph_nodes(), nodes);
  }
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(jit.recorded());
  EXPECT_LE(daemon_->buffers.size(), 8u) << "inputs of earlier replays are freed";
}

TEST_F(JitTest, InputsOfAnySizeAndKind) {
  Jit jit(client_, [](std::span<const Tensor> in) { return std::vector{in[0].Sum() + in[1]}; });
  for (int i = 0; i < 4; ++i) {
    // Too large for a request; and a value that is not computed yet.
    const Tensor large = client_.FromBytes(Dtype::F32, {300000}, std::string(1200000, '\0'));
    const Tensor lazy = Ramp({2}) * static_cast<double>(i);
    EXPECT_THAT(Out(Call(jit, {large, lazy})[0]), ElementsAre(0, i));
  }
}

TEST_F(JitTest, TrainsAsWithoutIt) {
  const auto train = [&](bool jitted) {
    Client client(daemon_, {.seed = 3});
    Linear first(client, 5, 4), second(client, 4, 3);
    std::vector<Tensor> parameters = {first.weight, first.bias, second.weight, second.bias};
    auto adam = Adam(client, parameters, {.lr = 0.05});
    const auto body = [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
      const Tensor loss = second(first(in[0]).Relu().Dropout(0.25)).CrossEntropy(in[1]);
      UOPD_TRY(loss.Backward());
      UOPD_TRY(adam->Step({loss}));
      return std::vector{loss};
    };
    Jit jit(client, body);
    std::vector<double> losses;
    for (int i = 0; i < 8; ++i) {
      std::vector<float> x(30);
      std::vector<int32_t> y(6);
      for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>((k * 7 + i * 3) % 11) / 5;
      for (size_t k = 0; k < y.size(); ++k) y[k] = static_cast<int32_t>((k + i) % 3);
      const Tensor inputs[] = {client.FromHost(x, {6, 5}), client.FromHost(y, {6})};
      auto out = jitted ? jit(inputs) : body(inputs);
      EXPECT_TRUE(out.ok()) << out.status();
      if (out.ok()) losses.push_back(Out((*out)[0])[0]);
    }
    for (const Tensor& p : parameters) losses.push_back(Out(p)[0]);
    return losses;
  };
  const std::vector<double> plain = train(false), jitted = train(true);
  EXPECT_EQ(plain, jitted);
  EXPECT_NE(plain[6], plain[7]);
}

TEST_F(JitTest, SeveralRequestsWithMemoryBetweenThem) {
  Tensor total = Ramp({2});
  ASSERT_TRUE((total + 0.0).Realize().ok());
  Jit jit(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    const Tensor between = in[0] + 1.0;
    UOPD_TRY(between.Submit());
    total.Assign(total + between);
    UOPD_TRY(total.Submit());
    return std::vector{between * total};
  });
  double sum[2] = {0, 1};
  for (int i = 0; i < 5; ++i) {
    const std::vector<Tensor> out = Call(jit, {In({2}, {1.0 * i, 2.0 * i})});
    sum[0] += i + 1;
    sum[1] += 2 * i + 1;
    EXPECT_THAT(Out(out[0]), ElementsAre((i + 1) * sum[0], (2 * i + 1) * sum[1])) << i;
    EXPECT_THAT(Out(total), ElementsAre(sum[0], sum[1])) << i;
  }
}

TEST_F(JitTest, OutputsMayBeInputs) {
  Jit jit(client_, [](std::span<const Tensor> in) { return std::vector{in[0] * 2.0}; });
  Tensor x = Ramp({3}, 1, 1);
  for (int i = 0; i < 6; ++i) x = Call(jit, {x})[0];
  EXPECT_THAT(Out(x), ElementsAre(64, 128, 192));
}

TEST_F(JitTest, AnInputThatTheFunctionAssigns) {
  Jit jit(client_, [](std::span<const Tensor> in) {
    Tensor x = in[0];
    x.Assign(x + in[1]);
    return std::vector{x};
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = Ramp({200}, 1, i), y = Ramp({200});
    Call(jit, {x, y});
    EXPECT_EQ(Out(x)[10], 20 + i);
    EXPECT_EQ(Out(y)[10], 10);
  }
  // Whether it reads its second input before or after it assigns to the first one is not known.
  const Tensor z = Ramp({200});
  EXPECT_THAT(StatusText(jit({z, z}).status()), HasSubstr("inputs 0 and 1 are the same tensor"));
  const Tensor same = z.Snapshot();
  Call(jit, {z, same});
  EXPECT_EQ(Out(z)[10], 20);
  EXPECT_EQ(Out(same)[10], 10);
}

TEST_F(JitTest, ValuesOfVariables) {
  Tensor table = Ramp({10}, 1);
  ASSERT_TRUE((table + 0.0).Realize().ok());
  int64_t at = 2;
  double scale = 0.5;
  Jit jit(client_, [&](std::span<const Tensor>) {
    const Tensor i = client_.Variable("i", 0, 9, at);
    return std::vector{table.Narrow(0, i, 1) * client_.FloatVariable("scale", scale)};
  });
  EXPECT_THAT(Out(Call(jit, {})[0]), ElementsAre(1));
  EXPECT_THAT(Out(Call(jit, {})[0]), ElementsAre(1));
  EXPECT_THAT(Out(Call(jit, {}, {{"i", 7}, {"scale", 2.0}})[0]), ElementsAre(14));
  EXPECT_THAT(Out(Call(jit, {}, {{"i", 4}})[0]), ElementsAre(2)) << "the recorded value of `scale`";
  EXPECT_EQ(jit({}, {{"scale", 3}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JitTest, RandomNumbersGoOn) {
  Client plain(daemon_, {.seed = 7});
  Jit jit(client_, [&](std::span<const Tensor>) { return std::vector{client_.Rand({3})}; });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Out(Call(jit, {})[0]), Out(plain.Rand({3})));
}

TEST_F(JitTest, DataAndMemoryOfTheFunctionAreThereInEveryReplay) {
  Jit jit(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    Tensor data = In({2}, {5, 6}), zeros = client_.Empty({2});
    data.Assign(data + in[0]);  // the data come again in each replay
    zeros.Assign(zeros + in[0]);
    UOPD_TRY(Submit({data, zeros}));
    return std::vector{data + In({2}, {100, 200}), zeros + 0.0};
  });
  for (int i = 0; i < 4; ++i) {
    const std::vector<Tensor> out = Call(jit, {Ramp({2}, 1, i)});
    EXPECT_THAT(Out(out[0]), ElementsAre(105 + i, 207 + i)) << i;
    EXPECT_THAT(Out(out[1]), ElementsAre(i, i + 1)) << i;
  }
}

TEST_F(JitTest, ValuesAssignedOutsideAreSeen) {
  Tensor w = Ramp({100});
  ASSERT_TRUE((w + 0.0).Realize().ok());
  Jit jit(client_, [&](std::span<const Tensor> in) { return std::vector{(w * in[0]).Sum()}; });
  for (int i = 0; i < 3; ++i) Call(jit, {In({1}, {2})});
  w.Assign(w * 0.0 + 1.0);  // not submitted
  EXPECT_THAT(Out(Call(jit, {In({1}, {2})})[0]), ElementsAre(200));
}

TEST_F(JitTest, AFailedReplayGivesNoOldContents) {
  Tensor w = Ramp({2});
  ASSERT_TRUE((w + 0.0).Realize().ok());
  Jit jit(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    w.Assign(w + in[0]);
    const Tensor out = w * 10.0;
    UOPD_TRY(Submit({w, out}));
    return std::vector{out};
  });
  for (int i = 0; i < 3; ++i) Call(jit, {In({1}, {1})});
  daemon_->fail_with = absl::ResourceExhaustedError("full");
  const Tensor out = Call(jit, {In({1}, {1})})[0];
  daemon_->fail_with = absl::OkStatus();
  EXPECT_EQ(client_.Sync().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(out.ToBytes().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Out(w), ElementsAre(3, 4));
  EXPECT_THAT(Out(Call(jit, {In({1}, {1})})[0]), ElementsAre(40, 50));
}

TEST_F(JitTest, WrongInputsAreNamed) {
  Jit jit(client_, [](std::span<const Tensor> in) { return std::vector{in[0] + in[1]}; });
  const Tensor a = Ramp({2}), b = Ramp({2});
  for (int i = 0; i < 3; ++i) Call(jit, {a, b});
  const auto fails = [&](std::initializer_list<Tensor> in, const std::string& text) {
    const absl::Status s = jit(in).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(StatusText(s), HasSubstr(text));
  };
  fails({a}, "recorded with 2 inputs, not 1");
  fails({a, Ramp({3})}, "input 1 is f32 (3) on ; the function was recorded with f32 (2)");
  fails({a.Cast(Dtype::F64), b}, "input 0 is f64 (2)");
  Client other(daemon_);
  fails({a, other.Ones({2})}, "input 1 belongs to another client");
  EXPECT_FALSE(jit({a, Tensor()}).ok());
  EXPECT_THAT(Out(Call(jit, {b, b})[0]), ElementsAre(0, 2)) << "it still works";
}

TEST_F(JitTest, StateThatIsAssignedIsComputed) {
  Tensor state = Ramp({2});
  ASSERT_TRUE((state + 0.0).Realize().ok());
  Jit jit(client_, [&](std::span<const Tensor> in) {
    state.Assign(state + in[0]);  // neither submitted nor returned
    return std::vector{in[0] + 1.0};
  });
  for (int i = 1; i <= 4; ++i) {
    ASSERT_TRUE(jit({In({2}, {1, 10})}).ok());
    EXPECT_THAT(Out(state), ElementsAre(i, 1 + 10 * i));
  }
}

TEST_F(JitTest, MisuseIsExplained) {
  const Tensor x = Ramp({2});
  const auto refused = [&](Jit::Function f, const std::string& text) {
    Jit jit(client_, std::move(f));
    EXPECT_TRUE(jit({x}).ok());
    const absl::Status s = jit({x}).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition) << s;
    EXPECT_THAT(StatusText(s), HasSubstr(text));
    EXPECT_THAT(Out(x + 1.0), ElementsAre(1, 2)) << "the client is usable";
  };
  refused(
      [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
        UOPD_TRY((in[0] + 1.0).ToBytes().status());
        return std::vector{in[0] + 2.0};
      },
      "is read while a Jit records");
  refused([&](std::span<const Tensor>) { return std::vector<Tensor>(); }, "computes nothing");
  Jit inner(client_, [&](std::span<const Tensor> in) { return std::vector{in[0] + 1.0}; });
  ASSERT_TRUE(inner({x}).ok());
  refused([&](std::span<const Tensor> in) { return inner(in); }, "while another one is recorded");
  Jit twice(client_, [](std::span<const Tensor> in) { return std::vector{in[0] + in[1]}; });
  ASSERT_TRUE(twice({x, x}).ok());
  EXPECT_THAT(StatusText(twice({x, x}).status()), HasSubstr("two inputs are the same tensor"));
}

// State is written where replays find it, and whoever needs its old contents keeps them.
TEST_F(JitTest, AssignmentsLeaveWhatWasComputedBefore) {
  Tensor w = Ramp({2}), user;
  ASSERT_TRUE((w + 0.0).Realize().ok());
  Jit jit(client_, [&](std::span<const Tensor> in) {
    user = w * 2.0;  // made by the function: each replay computes it again
    w.Assign(w + in[0]);
    return std::vector{w, user};
  });
  std::vector<std::pair<Tensor, float>> olds;
  for (int i = 0; i < 5; ++i) {
    const auto w0 = static_cast<float>(2 * i);
    const std::vector<Tensor> out = Call(jit, {In({2}, {1, 1})});
    EXPECT_THAT(Out(out[0]), ElementsAre(w0 + 1, w0 + 2));
    EXPECT_THAT(Out(user), ElementsAre(2 * w0, 2 * w0 + 2));
    olds.emplace_back(out[0] * 1.0, w0 + 1);
    olds.emplace_back(out[0].Detach(), w0 + 1);
    w.Assign(w + 1.0);
  }
  for (const auto& [old, first] : olds) EXPECT_THAT(Out(old), ElementsAre(first, first + 1));
}

TEST_F(JitTest, LazyTensorsOfOutsideAreValues) {
  Tensor w = Ramp({2});
  ASSERT_TRUE((w + 0.0).Realize().ok());
  const Tensor v = w * 10.0;
  Jit jit(client_, [&](std::span<const Tensor> in) { return std::vector{v + in[0]}; });
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Out(Call(jit, {In({2}, {1, 1})})[0]), ElementsAre(1, 11));
  w.Assign(w + 1.0);
  ASSERT_TRUE(w.Realize().ok());
  EXPECT_THAT(StatusText(jit({In({2}, {1, 1})}).status()),
              HasSubstr("made outside of it and not realised"));
  jit.Reset();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Out(Call(jit, {In({2}, {1, 1})})[0]), ElementsAre(1, 11));
}

TEST_F(JitTest, AnInputThatTheFunctionUsesByAnotherName) {
  Tensor x = Ramp({2});
  Jit jit(client_, [x](std::span<const Tensor> in) { return std::vector{in[0] * 10.0 + x}; });
  for (int i = 0; i < 4; ++i) EXPECT_THAT(Out(Call(jit, {x})[0]), ElementsAre(0, 11));
  EXPECT_THAT(StatusText(jit({In({2}, {1, 1})}).status()), HasSubstr("by another name"));
  jit.Reset();
  Call(jit, {x});
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(Out(Call(jit, {In({2}, {float(i), 1})})[0]), ElementsAre(10 * i, 11));
}

TEST_F(JitTest, AConstantOfOutsideThatIsAssigned) {
  Tensor c = client_.Full({2}, 2.0);
  const Tensor equal = client_.Full({2}, 2.0);
  Jit jit(client_, [c](std::span<const Tensor> in) { return std::vector{in[0] * c}; });
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Out(Call(jit, {In({2}, {1, 3})})[0]), ElementsAre(2, 6));
  Tensor(equal).Assign(5.0);
  EXPECT_THAT(Out(Call(jit, {In({2}, {1, 3})})[0]), ElementsAre(2, 6));
  c.Assign(5.0);
  EXPECT_THAT(StatusText(jit({In({2}, {1, 3})}).status()),
              HasSubstr("made outside of the function and not realised"));
}

TEST_F(JitTest, AnInputThatIsStateOrAResult) {
  Tensor state = Ramp({2});
  Jit moves(client_, [state](std::span<const Tensor> in) mutable {
    state.Assign(state + 1.0);
    return std::vector{in[0] * 10.0};
  });
  for (int i = 0; i < 3; ++i) Call(moves, {In({2}, {1, 1})});
  EXPECT_THAT(StatusText(moves({state}).status()), HasSubstr("assigns to by another name"));
  Jit adds(client_, [](std::span<const Tensor> in) {
    Tensor x = in[0];
    x.Assign(x + 1.0);
    return std::vector{x * 2.0};
  });
  Tensor out;
  for (int i = 0; i < 3; ++i) out = Call(adds, {In({2}, {1, 1})})[0];
  EXPECT_THAT(StatusText(adds({out}).status()), HasSubstr("the function assigns to input 0"));
  EXPECT_THAT(Out(out), ElementsAre(4, 4));
}

TEST_F(JitTest, AnEqualValueOfOutsideThatIsComputedApart) {
  Tensor x = In({2}, {1, 2});
  Jit jit(client_, [x](std::span<const Tensor> in) mutable {
    const Tensor y = in[0] + x.Flip({0});
    x.Assign(x * 2.0);
    return std::vector{y, x};
  });
  Call(jit, {In({2}, {0, 0})});
  const Tensor outside = x.Flip({0});
  for (float i : {2.F, 4.F, 8.F})
    EXPECT_THAT(Out(Call(jit, {In({2}, {0, 0})})[0]), ElementsAre(2 * i, i));
  EXPECT_THAT(Out(outside), ElementsAre(4, 2));
}

TEST_F(JitTest, ItOutlivesNothingThatItNeeds) {
  std::unique_ptr<Jit> jit;
  {
    Tensor constant = Ramp({300});
    ASSERT_TRUE((constant + 0.0).Realize().ok());
    jit = std::make_unique<Jit>(client_, [constant](std::span<const Tensor> in) {
      return std::vector{(constant * in[0]).Sum()};
    });
    for (int i = 0; i < 2; ++i) Call(*jit, {In({1}, {1})});
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE((Ramp({300}) + 5.0).Realize().ok());  // would take the memory of what is gone
    EXPECT_THAT(Out(Call(*jit, {In({1}, {1})})[0]), ElementsAre(44850));
  }
  jit.reset();
  ASSERT_TRUE(Ramp({1}).Sum().Realize().ok());
  ASSERT_TRUE(Ramp({1}).Sum().Realize().ok());
  EXPECT_LE(daemon_->buffers.size(), 3u);
}

TEST_F(JitTest, PiecesOnSeveralDevices) {
  const std::vector<std::string> devices = {"CPU:0", "CPU:1"};
  Jit jit(client_, [](std::span<const Tensor> in) { return std::vector{in[0] * 2.0}; });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = Ramp({5, 2}, 1, i).Shard(devices, 0);
    EXPECT_EQ(Out(Call(jit, {x})[0])[9], 2 * (9 + i));
  }
  EXPECT_EQ(jit({Ramp({5, 2})}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace uopd::client
