// SPDX-License-Identifier: MIT
// Recordings that are saved and loaded: a loaded one replays as the one that was saved, on another
// daemon too.
#include <functional>

#include "tests/unit/client/cpp/fixture.h"
#include "uopd/jit.h"
#include "uopd/movement.h"
#include "uopd/nn.h"
#include "uopd/optim.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Results = absl::StatusOr<std::vector<Tensor>>;

Tensor Values(Client& client, Dims dims, double from, double step = 1, Dtype dtype = Dtype::F32) {
  std::vector<double> v(static_cast<size_t>(ir::Product(dims)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = from + step * static_cast<double>(i);
  return client.FromBytes(dtype, dims, test::HostArray::Of(dtype, dims, v).ToBytes());
}

// A function with its state, and what it is called with.
struct Program {
  std::string name;
  // `at` is the number of the call, which a replay gets as a variable.
  std::function<Jit::Function(Client&, std::shared_ptr<int> at)> make;
  std::function<std::vector<Tensor>(Client&, int at)> inputs;
  std::vector<std::string> variables = {};  // they are `at`
};

Tensor Realised(const Tensor& t) {
  EXPECT_TRUE(t.Realize().ok());
  return t;
}

Jit::Function TrainsANetwork(Client& client) {
  auto first = std::make_shared<Linear>(client, 3, 4),
       second = std::make_shared<Linear>(client, 4, 2);
  const std::vector<Tensor> parameters = {first->weight, first->bias, second->weight, second->bias};
  std::shared_ptr<Optimizer> adam = Adam(client, parameters, {.lr = 0.05});
  return [=](std::span<const Tensor> in) -> Results {
    const Tensor loss = (*second)((*first)(in[0]).Relu().Dropout(0.25)).Square().Mean();
    UOPD_TRY(loss.Backward());
    UOPD_TRY(adam->Step({loss}));
    return std::vector{loss, second->bias};
  };
}

std::vector<Program> Programs() {
  const std::vector<std::string> kTwo = {"CPU:0", "CPU:1"};
  const auto one = [](Client& c, int at) { return std::vector{Values(c, {2, 3}, at)}; };
  const auto none = [](Client&, int) { return std::vector<Tensor>(); };
  using At = std::shared_ptr<int>;
  std::vector<Program> out;
  out.push_back({"several results",
                 [](Client&, At) {
                   return [](std::span<const Tensor> in) -> Results {
                     return std::vector{(in[0] * 2.0).Sum({1}), in[0].Max(), in[0] + in[1]};
                   };
                 },
                 [](Client& c, int at) {
                   return std::vector{Values(c, {2, 3}, at), Values(c, {3}, 2, 0.5)};
                 }});
  out.push_back({"weights that are captured",
                 [](Client& c, At) {
                   const Tensor w = Realised(Values(c, {3, 4}, -1, 0.25) * 2.0);
                   return [w](std::span<const Tensor> in) -> Results {
                     return std::vector{in[0].MatMul(w)};
                   };
                 },
                 one});
  out.push_back({"state that is assigned and returned",
                 [](Client& c, At) {
                   Tensor total = Realised(Values(c, {2, 3}, 5) * 1.0);
                   return [total](std::span<const Tensor> in) mutable -> Results {
                     total.Assign(total + in[0]);
                     return std::vector{total};
                   };
                 },
                 one});
  out.push_back({"several requests, and state that is assigned and not returned",
                 [](Client& c, At) {
                   Tensor total = Realised(c.Zeros({2, 3}) + 1.0);
                   return [total](std::span<const Tensor> in) mutable -> Results {
                     const Tensor between = in[0] + 1.0;
                     UOPD_TRY(between.Submit());
                     total.Assign(total * 0.5 + between);
                     UOPD_TRY(total.Submit());
                     return std::vector{between * total};
                   };
                 },
                 one});
  out.push_back({"random numbers that two requests use",
                 [](Client& c, At) {
                   return [&c](std::span<const Tensor>) -> Results {
                     const Tensor r = c.Rand({4}), one = r + 1.0;
                     UOPD_TRY(one.Submit());
                     return std::vector{one, r * 2.0, c.Randn({2})};
                   };
                 },
                 none});
  out.push_back({"variables",
                 [](Client& c, At at) {
                   const Tensor table = Realised(Values(c, {10}, 1) * 1.0);
                   return [&c, at, table](std::span<const Tensor>) -> Results {
                     return std::vector{table.Narrow(0, c.Variable("at", 0, 9, *at), 1) *
                                        c.FloatVariable("scale", 0.5)};
                   };
                 },
                 none,
                 {"at"}});
  out.push_back({"a cache that is written, and a result with a symbolic size",
                 [](Client& c, At at) {
                   Tensor cache = Realised(c.Zeros({8, 3}) + 0.0);
                   return [&c, at, cache](std::span<const Tensor> in) mutable -> Results {
                     const Tensor now = c.Variable("at", 0, 7, *at);
                     cache.AssignNarrow(0, now, in[0]);
                     return std::vector{cache.Narrow(0, 0, now + 1) * 2.0, cache.Sum()};
                   };
                 },
                 [](Client& c, int at) { return std::vector{Values(c, {1, 3}, at)}; },
                 {"at"}});
  out.push_back({"an input with a symbolic size, and a box that fits now",
                 [](Client&, At) {
                   return [](std::span<const Tensor> in) -> Results {
                     return std::vector{in[0] + 1.0, in[0].Narrow(0, 0, 1)};
                   };
                 },
                 [](Client& c, int at) {
                   return std::vector{
                       Values(c, {9}, 2).Narrow(0, 0, c.Variable("n", 0, 9, at + 1))};
                 }});
  out.push_back(
      {"an argument that is assigned and returned, and one that is returned alone",
       [](Client&, At) {
         return [](std::span<const Tensor> in) -> Results {
           Tensor x = in[0];
           x.Assign(x * 2.0 + in[1]);
           return std::vector{x, in[1], x + in[1]};
         };
       },
       [](Client& c, int at) { return std::vector{Values(c, {2, 3}, at), Values(c, {3}, 1)}; }});
  out.push_back({"training with dropout", [](Client& c, At) { return TrainsANetwork(c); }, one});
  out.push_back({"one tensor twice, one without elements, a constant, state that nothing uses",
                 [](Client& c, At) {
                   const Tensor state = Realised(Values(c, {2}, 3) * 1.0);
                   return [&c, state](std::span<const Tensor> in) -> Results {
                     const Tensor y = in[0] * 3.0;
                     return std::vector{y, y, c.Zeros({0, 2}), c.Full({2}, 7), state};
                   };
                 },
                 one});
  out.push_back(
      {"pieces on two devices",
       [kTwo](Client& c, At) {
         const Tensor w = Realised(Values(c, {3}, 1).Replicate(kTwo));
         Tensor sum = Realised(c.Zeros({4, 3}).Shard(kTwo, 0) + 0.0);
         return [w, sum](std::span<const Tensor> in) mutable -> Results {
           sum.Assign(sum + in[0] * w);
           return std::vector{sum, in[0] + 1.0, (in[0] * w).Sum({0})};
         };
       },
       [kTwo](Client& c, int at) { return std::vector{Values(c, {4, 3}, at).Shard(kTwo, 0)}; }});
  out.push_back({"data and memory of the function",
                 [](Client& c, At) {
                   return [&c](std::span<const Tensor> in) -> Results {
                     Tensor data = Values(c, {2, 3}, 5), zeros = c.Empty({2, 3});
                     data.Assign(data + in[0]);
                     zeros.Assign(zeros + in[0]);
                     UOPD_TRY(Submit({data, zeros}));
                     return std::vector{data + Values(c, {3}, 100), zeros + 0.0};
                   };
                 },
                 one});
  out.push_back({"other dtypes",
                 [](Client& c, At) {
                   Tensor count = Realised(c.Zeros({3}, Dtype::I64) + c.Full({3}, 1, Dtype::I64));
                   return [count](std::span<const Tensor> in) mutable -> Results {
                     count.Assign(count + in[0].Cast(Dtype::I64));
                     return std::vector{count, in[0].Cast(Dtype::BF16), in[0] > 2};
                   };
                 },
                 [](Client& c, int at) { return std::vector{Values(c, {3}, at, 1, Dtype::U8)}; }});
  return out;
}

class SavedJit : public ClientTest, public ::testing::WithParamInterface<size_t> {
 protected:
  static std::vector<VariableValue> VariablesOf(const Program& p, int at) {
    std::vector<VariableValue> out;
    for (const std::string& name : p.variables) out.emplace_back(name, at);
    return out;
  }
  // The bytes of all results of a call, and of its inputs after it.
  static std::vector<std::string> Call(const Program& p, Client& client, Jit& jit, int at) {
    const std::vector<Tensor> inputs = p.inputs(client, at);
    auto results = jit(inputs, VariablesOf(p, at));
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<std::string> out;
    if (!results.ok()) return out;
    results->insert(results->end(), inputs.begin(), inputs.end());
    for (const Tensor& t : *results) {
      const auto bytes = t.ToBytes();
      EXPECT_TRUE(bytes.ok()) << bytes.status();
      out.push_back(bytes.value_or("none"));
    }
    return out;
  }
  static Jit Loaded(Client& client, Jit& jit) {
    const auto bytes = jit.Serialize();
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    auto out = Jit::Deserialize(client, bytes.value_or(""));
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? *std::move(out) : Jit(client, nullptr);
  }

  std::shared_ptr<InterpreterExecutor> far_daemon_ = std::make_shared<InterpreterExecutor>();
  Client far_{far_daemon_, ClientOptions{.seed = 3}};
};

TEST_P(SavedJit, ReplaysAsTheOneThatWasSaved) {
  const Program p = Programs()[GetParam()];
  SCOPED_TRACE(p.name);
  const auto at = std::make_shared<int>(0);
  Jit jit(client_, p.make(client_, at));
  for (; *at < 3; ++*at) Call(p, client_, jit, *at);
  ASSERT_TRUE(jit.recorded());
  Jit here = Loaded(client_, jit), far = Loaded(far_, jit);
  ASSERT_TRUE(far.recorded());
  // What was loaded and not used yet can be saved.
  Jit again = Loaded(far_, far);
  for (; *at < 7; ++*at) {
    client_.SetSeed(static_cast<uint64_t>(*at));
    const auto want = Call(p, client_, jit, *at);
    ASSERT_FALSE(want.empty());
    for (Jit* loaded : {&here, &far, &again}) {
      Client& client = loaded == &here ? client_ : far_;
      client.SetSeed(static_cast<uint64_t>(*at));
      EXPECT_EQ(Call(p, client, *loaded, *at), want) << "call " << *at;
    }
  }
  // And what was used is saved as it is then.
  Jit later = Loaded(far_, far);
  far_.SetSeed(1);
  const auto want = Call(p, far_, far, 6);
  far_.SetSeed(1);
  EXPECT_EQ(Call(p, far_, later, 6), want);
}

INSTANTIATE_TEST_SUITE_P(Programs, SavedJit, ::testing::Range<size_t>(0, Programs().size()));

TEST_F(SavedJit, HasStateOfItsOwn) {
  Tensor total = Ramp({2});
  ASSERT_TRUE(total.Realize().ok());
  Jit jit(client_, [&](std::span<const Tensor> in) -> Results {
    total.Assign(total + in[0]);
    return std::vector{total * 1.0};
  });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({Ramp({2})}).ok());
  Jit loaded = Loaded(client_, jit);
  auto out = loaded({Ramp({2})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Out((*out)[0]), ElementsAre(0, 4));
  EXPECT_THAT(Out(total), ElementsAre(0, 3)) << "the saved one's state";
  total.Assign(total + 10.0);  // and lazy
  Jit after = Loaded(far_, jit);
  out = after({far_.FromHost(std::vector<float>{1, 1}, {2})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Out((*out)[0]), ElementsAre(11, 14));
}

TEST_F(SavedJit, StateThatIsGivenIsShared) {
  Tensor total = Ramp({2}), unused = Ramp({2});
  const Tensor weight = Ramp({2}, 0, 3);
  ASSERT_TRUE(Realize({total, unused, weight}).ok());
  Jit jit(client_, [&](std::span<const Tensor> in) -> Results {
    total.Assign(total + in[0] * weight);
    return std::vector{total, total * 2.0};
  });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({Ramp({2})}).ok());
  ASSERT_EQ(jit.State().size(), 2u) << "results are no state";
  const Tensor given[] = {total};
  EXPECT_THAT(StatusText(jit.Serialize(std::array{unused}).status()), HasSubstr("is no state"));
  const auto bytes = jit.Serialize(given);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const Tensor elsewhere = Values(far_, {2}, 10);
  const auto load = [&](std::vector<Tensor> outside) {
    return Jit::Deserialize(far_, *bytes, nullptr, outside);
  };
  auto loaded = load({elsewhere});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (int i = 1; i < 4; ++i) {
    const auto out = (*loaded)({Values(far_, {2}, 0)});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].state(), elsewhere.state());
    EXPECT_THAT(Out(elsewhere), ElementsAre(10, 11 + 3 * i));
    EXPECT_THAT(Out((*out)[1]), ElementsAre(20, 22 + 6 * i));
  }
  Tensor assigned = elsewhere;
  assigned.Assign(assigned * 0.0);
  const auto out = (*loaded)({Values(far_, {2}, 0)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Out((*out)[1]), ElementsAre(0, 6));
  EXPECT_EQ(loaded->State().size(), 1u);
  EXPECT_THAT(StatusText(load({}).status()), HasSubstr("takes 1 tensors, and 0 are given"));
  EXPECT_THAT(StatusText(load({elsewhere, elsewhere}).status()), HasSubstr("and 2 are given"));
  EXPECT_THAT(StatusText(load({Values(far_, {3}, 0)}).status()), HasSubstr("is f32 (3)"));
  EXPECT_THAT(StatusText(load({Ramp({2})}).status()), HasSubstr("another client"));
  EXPECT_THAT(StatusText(load({Values(far_, {2}, 0) * 2.0}).status()), HasSubstr("not realised"));
  EXPECT_THAT(StatusText(load({Tensor()}).status()), HasSubstr("empty"));
}

TEST_F(SavedJit, MemoryIsFreedWithIt) {
  const Tensor w = Ramp({100});
  ASSERT_TRUE((w * 1.0).Realize().ok());
  Jit jit(client_, [&](std::span<const Tensor> in) -> Results { return std::vector{in[0] * w}; });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({Ramp({100})}).ok());
  const auto bytes = jit.Serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  std::vector<size_t> left;
  for (int i = 0; i < 6; ++i) {
    auto loaded = Jit::Deserialize(far_, *bytes);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    // One that was never replayed has memory that the daemon does not know.
    const Tensor x = Values(far_, {100}, 1);
    if (i % 2 != 0) {
      ASSERT_TRUE((*loaded)({x}).ok());
    }
    loaded->Reset();
    EXPECT_EQ(loaded->Replay({}).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(StatusText((*loaded)({x}).status()), HasSubstr("no function"));
    ASSERT_TRUE((Values(far_, {1}, 1) * 2.0).Realize().ok());
    left.push_back(far_daemon_->buffers.size());
  }
  EXPECT_EQ(left[4], left[2]);
  EXPECT_EQ(left[5], left[3]);
}

TEST_F(SavedJit, AFailedFirstReplayCanBeRepeated) {
  Jit jit(client_, [](std::span<const Tensor> in) -> Results { return std::vector{in[0] * 2.0}; });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({Ramp({2})}).ok());
  Jit loaded = Loaded(far_, jit);
  far_daemon_->fail_with = absl::UnavailableError("for a while");
  const auto out = loaded({Values(far_, {2}, 1)});
  EXPECT_FALSE(out.ok() && (*out)[0].ToBytes().ok());
  EXPECT_FALSE(far_.Sync().ok() && out.ok() && (*out)[0].ToBytes().ok());
  far_daemon_->fail_with = absl::OkStatus();
  const auto again = loaded({Values(far_, {2}, 1)});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(Out((*again)[0]), ElementsAre(2, 4));
}

TEST_F(SavedJit, RefusesWhatItRefusedBefore) {
  Jit jit(client_, [&](std::span<const Tensor> in) -> Results {
    return std::vector{in[0] * client_.Variable("n", 0, 4, 2)};
  });
  EXPECT_EQ(jit.Serialize().status().code(), absl::StatusCode::kFailedPrecondition);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({Ramp({2})}).ok());
  Jit loaded = Loaded(client_, jit);
  EXPECT_THAT(StatusText(loaded({Ramp({3})}).status()), HasSubstr("recorded with f32 (2)"));
  EXPECT_THAT(StatusText(loaded({Ramp({2}), Ramp({2})}).status()), HasSubstr("with 1 inputs"));
  EXPECT_THAT(StatusText(loaded({Ramp({2}, 1, 0, Dtype::I32)}).status()), HasSubstr("is i32"));
  EXPECT_THAT(StatusText(loaded({Ramp({2})}, {{"n", 5}}).status()), HasSubstr("outside 0 to 4"));
}

TEST_F(SavedJit, OneTensorAsTwoInputs) {
  Jit jit(client_, [](std::span<const Tensor> in) -> Results {
    Tensor x = in[0];
    x.Assign(x + in[1]);
    return std::vector{x};
  });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({Ramp({2}), Ramp({2})}).ok());
  Jit loaded = Loaded(client_, jit);
  const Tensor x = Ramp({2});
  EXPECT_THAT(StatusText(loaded({x, x}).status()), HasSubstr("inputs 0 and 1 are the same tensor"));
}

TEST_F(SavedJit, ItsResultsHaveNoGradients) {
  const Tensor w = Realised(Ramp({2}));
  Jit jit(client_, [&](std::span<const Tensor> in) -> Results { return std::vector{in[0] * w}; });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({Ramp({2})}).ok());
  const auto bytes = jit.Serialize(std::array{w});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  auto loaded = Jit::Deserialize(client_, *bytes, nullptr, std::array{w});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tensor x = Ramp({2});
  for (Jit* each : {&jit, &*loaded}) {
    const auto out = (*each)({x});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_FALSE(Gradient((*out)[0].Sum(), std::array{x}).ok());
    EXPECT_FALSE(Gradient((*out)[0].Sum(), std::array{w}).ok());
  }
}

TEST_F(SavedJit, BoxesAreCheckedWithTheValuesOfNow) {
  const Tensor table = Realised(Ramp({8}));
  Jit jit(client_, [&](std::span<const Tensor>) -> Results {
    const Tensor at = client_.Variable("at", 0, 8, 2), n = client_.Variable("n", 0, 8, 3);
    return std::vector{table.Narrow(0, at, n)};
  });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({}).ok());
  Jit loaded = Loaded(far_, jit);
  const auto out = loaded({}, {{"at", 5}, {"n", 2}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Out((*out)[0]), ElementsAre(5, 6));
  EXPECT_THAT(StatusText(loaded({}, {{"at", 5}, {"n", 4}}).status()),
              HasSubstr("n elements from at on are not within 8"));
}

TEST_F(SavedJit, AnInputWithAnotherName) {
  const Tensor x = Ramp({2});
  Jit jit(client_, [&](std::span<const Tensor> in) -> Results { return std::vector{in[0] + x}; });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({x}).ok());
  EXPECT_THAT(StatusText(jit.Serialize().status()), HasSubstr("input 0 by another name"));
}

TEST_F(SavedJit, WhileAFunctionIsRecorded) {
  Jit done(client_, [](std::span<const Tensor> in) -> Results { return std::vector{in[0] * 2.0}; });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(done({Ramp({2})}).ok());
  const std::string bytes = done.Serialize().value_or("");
  Jit jit(client_, nullptr);
  const Tensor inputs[] = {Ramp({2})};
  ASSERT_TRUE(jit.Begin(inputs).ok());
  EXPECT_EQ(jit.Serialize().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(done.Serialize().status()), HasSubstr("while another one is recorded"));
  EXPECT_THAT(StatusText(Jit::Deserialize(client_, bytes).status()), HasSubstr("is recorded"));
  jit.Abandon();
  EXPECT_TRUE(Jit::Deserialize(client_, bytes).ok());
}

// A daemon that has one device.
class OneDevice : public InterpreterExecutor {
 public:
  absl::Status UploadNow(uint64_t handle, std::string_view device,
                         std::string_view bytes) override {
    if (!device.empty()) return absl::NotFoundError(Cat("there is no device ", device));
    return InterpreterExecutor::UploadNow(handle, device, bytes);
  }
};

TEST_F(SavedJit, ADeviceThatTheDaemonLacks) {
  const Tensor w = Realised(Ramp({2}).To("CPU:1"));
  Jit jit(client_, [&](std::span<const Tensor> in) -> Results { return std::vector{in[0] * w}; });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(jit({Ramp({2}).To("CPU:1")}).ok());
  const std::string bytes = jit.Serialize().value_or("");
  Client client(std::make_shared<OneDevice>(), {});
  const absl::Status status = Jit::Deserialize(client, bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(StatusText(status), HasSubstr("there is no device CPU:1"));
  EXPECT_THAT(StatusText(status), HasSubstr("loading buffer 0 of a recording"));
  EXPECT_TRUE(client.Sync().ok()) << "it is told once";
}

}  // namespace
}  // namespace uopd::client
