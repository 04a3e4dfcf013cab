// SPDX-License-Identifier: MIT
// Bytes that are no saved recording, or a damaged one, or one that somebody made to do harm.
#include <functional>

#include "client/cpp/jit/saved_file.h"
#include "client/cpp/jit/saved_size.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"
#include "tests/unit/client/cpp/fixture.h"
#include "uopd/jit.h"
#include "uopd/movement.h"

namespace uopd::client {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using Message = recording::v1::Recording;

class SavedBytes : public ClientTest {
 protected:
  // A recording with state, random numbers, variables, a symbolic result, data, and an input that
  // is assigned.
  std::string Saved() {
    Tensor total = Ramp({2, 3});
    EXPECT_TRUE(total.Realize().ok());
    Jit jit(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
      Tensor x = in[0], data = In({2}, {5, 6});
      const Tensor n = client_.Variable("n", 0, 2, 1);
      data.Assign(data + client_.Rand({2}));
      total.Assign(total + x + client_.FloatVariable("f", 0.5));
      UOPD_TRY(Submit({total, data}));
      x.Assign(x * 2.0);
      return std::vector{total.Narrow(0, n, 1), total.Narrow(0, 0, n) + 1.0, data * 1.0, x, total};
    });
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(jit(std::array{Ramp({2, 3})}).ok());
    const auto bytes = jit.Serialize();
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.value_or("");
  }

  // Loads it. If that goes well, replays it, which may fail.
  absl::Status Try(std::string_view bytes) {
    auto daemon = std::make_shared<InterpreterExecutor>();
    Client client(daemon, {});
    auto jit = Jit::Deserialize(client, bytes);
    UOPD_TRY(jit.status());
    const Tensor x = client.FromHost(std::vector<float>(6, 1), {2, 3});
    for (int i = 0; i < 2; ++i) {
      auto out = (*jit)({x});
      UOPD_TRY(out.status());
      for (const Tensor& t : *out) UOPD_TRY(t.ToBytes().status());
    }
    return absl::OkStatus();
  }
};

TEST_F(SavedBytes, EveryByteAndEveryLengthCounts) {
  const std::string good = Saved();
  ASSERT_TRUE(Try(good).ok()) << Try(good);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(Jit::Deserialize(client_, std::string_view(good).substr(0, i)).ok()) << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const absl::Status status = Jit::Deserialize(client_, bad).status();
      EXPECT_THAT(status.code(),
                  AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition))
          << i;
    }
  }
  EXPECT_FALSE(Jit::Deserialize(client_, good + "x").ok());
}

TEST_F(SavedBytes, AnyByteWithAFittingDigest) {
  const std::string good = Saved();
  size_t loaded = 0, refused = 0;
  const auto attempt = [&](std::string bad) {
    SealSavedFile(bad);
    (Try(bad).ok() ? loaded : refused) += 1;
  };
  for (size_t i = kSavedHeader; i < good.size(); ++i) {
    for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ mask);
      attempt(std::move(bad));
    }
    attempt(good.substr(0, i));
    attempt(std::string(good).erase(i, 1));
  }
  EXPECT_GT(refused, loaded);
}

// What is wrong, how the message becomes so, and what the error says.
struct Harm {
  const char* says;
  std::function<void(Message&)> make;
};

TEST_F(SavedBytes, ErrorsNameThePart) {
  const std::string good = Saved();
  const auto opened = OpenSavedFile(good);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::string contents(opened->contents);
  const int last = opened->message.outputs_size() - 1;
  const std::string big = "%0 = DEFINE_VAR<index> {0, 1, \"n\"}\n";
  std::string doubled = big;
  for (int i = 1; i < 60; ++i)
    Append(doubled, "%", i, " = MAX<index> %", i - 1, ", %", i - 1, "\n");
  const std::vector<Harm> harms = {
      {"it has no calls", [](Message& m) { m.clear_calls(); }},
      {"loading graph 0", [](Message& m) { m.set_graphs(0, "nonsense"); }},
      {"it has no graph 9 (while loading call 0",
       [](Message& m) { m.mutable_calls(0)->set_graph(9); }},
      {"unknown dtype 255 (while loading buffer 0",
       [](Message& m) { m.mutable_buffers(0)->set_dtype(255); }},
      {"size of -1", [](Message& m) { m.mutable_buffers(0)->set_dims(0, -1); }},
      {"size of 4611686018427387904",
       [](Message& m) { m.mutable_buffers(0)->set_dims(0, int64_t{1} << 62); }},
      {"it has a size of",
       [](Message& m) {
         for (int i = 0; i < 9; ++i) m.mutable_buffers(0)->add_dims(1 << 30);
       }},
      {"it has 40 axes", [](Message& m) { m.mutable_inputs(0)->mutable_dims()->Resize(40, 1); }},
      {"it has no elements", [](Message& m) { m.mutable_buffers(0)->set_dims(0, 0); }},
      {"ends within its contents",
       [](Message& m) {
         for (auto& b : *m.mutable_buffers()) b.set_has_contents(true);
       }},
      {"takes 1 tensors, and 0 are given",
       [](Message& m) {
         for (auto& b : *m.mutable_buffers()) {
           if (b.has_contents()) b.set_outside(0);
           b.set_has_contents(false);
         }
       }},
      {"another tensor of those that are given",
       [](Message& m) { m.mutable_buffers(0)->set_outside(5); }},
      {"bytes, and the file",
       [](Message& m) {
         for (auto& b : *m.mutable_buffers()) b.set_has_contents(false);
       }},
      {"it has 0 pieces", [](Message& m) { m.mutable_inputs(0)->clear_devices(); }},
      {"a piece has a size of 4611686018427387904",
       [](Message& m) {
         m.mutable_inputs(0)->set_axis(0);
         m.mutable_inputs(0)->clear_sizes();
         m.mutable_inputs(0)->add_sizes(int64_t{1} << 62);
       }},
      {"no part of its shape", [](Message& m) { m.mutable_inputs(0)->set_axis(2); }},
      {"it is number 4000 of",
       [](Message& m) { m.mutable_calls(0)->mutable_arguments(0)->set_buffer(4000); }},
      {"it is number 4000 of",
       [](Message& m) { m.mutable_calls(0)->mutable_arguments(0)->set_input(4000); }},
      {"it has no memory (while loading argument 0 of a recording) (while loading call 0",
       [](Message& m) { m.mutable_calls(0)->mutable_arguments(0)->clear_memory(); }},
      {"arguments, and its graph takes", [](Message& m) { m.mutable_calls(0)->add_arguments(); }},
      {"values, and its graph has", [](Message& m) { m.mutable_calls(0)->add_variables(1); }},
      {"options cannot be read", [](Message& m) { m.mutable_calls(0)->set_options("\xff"); }},
      {"a size is no size",
       [](Message& m) { m.mutable_calls(0)->add_conditions()->set_start("x"); }},
      {"too large an expression",
       [&](Message& m) { m.mutable_calls(0)->add_conditions()->set_start(doubled); }},
      {"there is no input 3", [](Message& m) { m.mutable_outputs(0)->set_input(3); }},
      {"there is no buffer 99 (while loading output",
       [&](Message& m) { m.mutable_outputs(last)->set_buffers(0, 99); }},
      {"several buffers", [&](Message& m) { m.mutable_outputs(last)->add_buffers(0); }},
      {"it has no axis 7",
       [&](Message& m) {
         m.mutable_outputs(last)->set_in_pieces(true);
         m.mutable_outputs(last)->set_axis(7);
       }},
      {"it has no memory (while loading output",
       [&](Message& m) {
         m.mutable_outputs(last)->clear_buffers();
         m.mutable_outputs(last)->set_dtype(m.buffers(0).dtype());
       }},
      {"its sizes are at most",
       [&](Message& m) {
         m.mutable_outputs(last)->add_sizes(big);
         m.mutable_outputs(last)->add_sizes("");
       }},
      {"it has 1 sizes", [&](Message& m) { m.mutable_outputs(last)->add_sizes(big); }},
  };
  for (const Harm& harm : harms) {
    SCOPED_TRACE(harm.says);
    Message message = opened->message;
    harm.make(message);
    std::string bad = *NewSavedFile(message, contents.size());
    bad.replace(bad.size() - contents.size(), contents.size(), contents);
    SealSavedFile(bad);
    EXPECT_THAT(StatusText(Try(bad)), HasSubstr(harm.says));
  }
}

TEST_F(SavedBytes, ContentsThatAreMissing) {
  const std::string good = Saved();
  Message message = OpenSavedFile(good)->message;
  for (auto& b : *message.mutable_buffers()) b.set_has_contents(false);
  std::string bad = *NewSavedFile(message, 0);
  SealSavedFile(bad);
  EXPECT_THAT(StatusText(Try(bad)), HasSubstr("nothing gives it contents (while loading argument"));
  for (auto& call : *message.mutable_calls()) {
    for (auto& a : *call.mutable_arguments()) a.set_made(a.has_buffer());
  }
  message.add_outputs()->add_buffers(static_cast<uint32_t>(message.buffers_size()));
  *message.add_buffers() = message.buffers(0);
  bad = *NewSavedFile(message, 0);
  SealSavedFile(bad);
  EXPECT_THAT(StatusText(Try(bad)), HasSubstr("contents (while loading output"));
}

TEST_F(SavedBytes, NothingIsMadeOfWhatIsRefused) {
  const std::string good = Saved();
  const auto opened = OpenSavedFile(good);
  ASSERT_TRUE(opened.ok());
  Message message = opened->message;
  message.mutable_calls(message.calls_size() - 1)->set_graph(77);
  std::string bad = *NewSavedFile(message, opened->contents.size());
  SealSavedFile(bad);
  const size_t requests = daemon_->requests.size(), buffers = daemon_->buffers.size();
  EXPECT_FALSE(Jit::Deserialize(client_, bad).ok());
  EXPECT_EQ(daemon_->requests.size(), requests);
  EXPECT_EQ(daemon_->buffers.size(), buffers);
}

TEST_F(SavedBytes, OtherFormats) {
  EXPECT_THAT(StatusText(Jit::Deserialize(client_, "{}").status()),
              HasSubstr("no saved recording"));
  std::string later = Saved();
  later[8] = 9;
  const absl::Status status = Jit::Deserialize(client_, later).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(status), HasSubstr("has format 9, and this version reads format 1"));
}

TEST_F(SavedBytes, Sizes) {
  ir::UOpContext ctx, other;
  const ir::UOp n = ir::Variable(ctx, "n.1", 0, 9);
  const ir::UOp bound = ctx.Make(ir::Op::BIND, ir::Dtype::Index, {n, ctx.Idx(4)}, {}, ir::kBound);
  const ir::UOp size = ir::Add(ctx, ir::Mul(ctx, bound, ctx.Idx(3)), ctx.Idx(-2));
  const auto loaded = LoadedSize(other, SavedSize(ctx, size));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(ir::BoundValue(*loaded), 10);
  EXPECT_EQ(ir::SizeText(*loaded), ir::SizeText(size));
  for (const char* bad :
       {"", "%0 = CONST<f32> {1}", "%0 = CONST<bool> {1}", "%0 = CONST<index> {2} #7",
        "%0 = STACK<index>", "%0 = DEFINE_VAR<index> {5, 1, \"n\"}",
        "%0 = CONST<index> {9223372036854775807}\n%1 = MUL<index> %0, %0"}) {
    EXPECT_FALSE(LoadedSize(other, bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace uopd::client
