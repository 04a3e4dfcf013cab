// SPDX-License-Identifier: MIT
// Kernels that stage values, under the heuristic and under random legal opts, against the
// interpreter.
#include <algorithm>

#include "core/ir/verify/spec.h"
#include "tests/support/attention_kernel.h"
#include "tests/support/environment.h"
#include "tests/support/opts/opts_fuzz.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;
using tests::AttentionShape;
using tests::KernelBuilder;
using tests::KernelCase;
using tests::Sum;

UOp Stage(UOpContext& c, UOp value, int64_t n, UOp index, std::initializer_list<UOp> ranges,
          UOp gate = {}) {
  return ir::Staged(c, value, n, index, gate, std::span<const UOp>(ranges.begin(), ranges.size()));
}

KernelCase Attention(std::string name, const AttentionShape& s, double tolerance = 5e-6) {
  const int64_t rows = s.heads * s.queries * s.depth, keys = s.heads * s.keys * s.depth;
  return {std::move(name),
          [s](UOpContext& c) { return tests::AttentionKernel(c, s); },
          {{s.dtype, rows}, {s.dtype, rows}, {s.dtype, keys}, {s.dtype, keys}},
          tolerance};
}

std::vector<KernelCase> StageCases() {
  std::vector<KernelCase> out;
  for (const auto& [h, q, k, d] : {std::array<int64_t, 4>{2, 3, 7, 5},
                                   {1, 1, 1, 1},
                                   {3, 4, 1, 64},
                                   {1, 5, 33, 3},
                                   {2, 2, 100, 64},
                                   {2, 8, 16, 16},
                                   {1, 6, 64, 33}}) {
    AttentionShape s{h, q, k, d};
    s.shared_range = k % 2 == 0, s.divided = d % 2 == 0;
    out.push_back(Attention("attention", s));
  }
  out.push_back(Attention("prime", {1, 11, 13, 8}));
  out.push_back(Attention("causal", {2, 9, 12, 8, Dtype::F32, true}));
  out.push_back(Attention("bf16", {2, 4, 33, 16, Dtype::BF16}, 4e-2));
  out.push_back(Attention("f16", {1, 3, 20, 8, Dtype::F16, true}, 4e-3));
  out.push_back(Attention("f64", {1, 2, 9, 4, Dtype::F64}, 1e-12));
  for (int64_t n : {0, 1, 7, 16, 33}) {
    AttentionShape s{2, 5, 33, 8};
    s.symbolic = true, s.shared_range = n == 33, s.divided = n == 7;
    out.push_back(Attention("symbolic", s));
    out.back().variables["keys"] = n;
  }
  out.push_back(Attention("hard_values", {2, 3, 10, 4}));
  out.back().tame = false;
  // Elements 0, 3, 6, ... are stored in reverse; the others are never looked at.
  out.push_back({"gated",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(5), j = b.Loop(10), k = b.Reduced(30);
                   const UOp third = ir::Alu(c, Op::FLOORDIV, {k, c.Idx(3)});
                   const UOp rest = ir::Alu(c, Op::FLOORMOD, {k, c.Idx(3)});
                   const UOp gate = ir::Alu(c, Op::CMPEQ, {rest, c.Idx(0)});
                   const UOp x = b.Load(b.Buffer(1, Dtype::F32, 150), b.At(i, 30, k));
                   const UOp s = Stage(c, Mul(c, x, x), 10, Sub(c, c.Idx(9), third), {k}, gate);
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 50), b.At(i, 10, j),
                                                 b.Load(s, j), {i, j})});
                 },
                 {{Dtype::F32, 50}, {Dtype::F32, 150}},
                 0,
                 false});
  out.push_back({"every_iteration_stores_one_element",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(6), k = b.Reduced(9);
                   const UOp x = b.Load(b.Buffer(1, Dtype::I32, 6), i);
                   const UOp s = Stage(c, Mul(c, x, x), 1, c.Idx(0), {k});
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::I32, 6), i,
                                                 Add(c, b.Load(s, c.Idx(0)), x), {i})});
                 },
                 {{Dtype::I32, 6}, {Dtype::I32, 6}},
                 0,
                 false});
  out.push_back({"two_dimensions_read_across",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(3), j = b.Loop(7), k = b.Reduced(5), l = b.Reduced(7);
                   const UOp m = b.Reduced(5);
                   const UOp x = b.Load(b.Buffer(1, Dtype::F32, 105), b.At(b.At(i, 5, k), 7, l));
                   const UOp s = Stage(c, Mul(c, x, x), 35, b.At(l, 5, k), {k, l});
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 21), b.At(i, 7, j),
                                                 Sum(c, b.Load(s, b.At(j, 5, m)), {m}), {i, j})});
                 },
                 {{Dtype::F32, 21}, {Dtype::F32, 105}}});
  out.push_back({"read_by_number",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(4), j = b.Loop(20), k = b.Reduced(12);
                   const UOp x = b.Load(b.Buffer(1, Dtype::I32, 48), b.At(i, 12, k));
                   const UOp s = Stage(c, Add(c, x, c.Int(Dtype::I32, 3)), 12, k, {k});
                   const UOp at =
                       Cast(c, b.Load(b.Buffer(2, Dtype::I32, 80), b.At(i, 20, j)), Dtype::Index);
                   const UOp gate = And(c, ir::Lt(c, c.Idx(-1), at), ir::Lt(c, at, c.Idx(12)));
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::I32, 80), b.At(i, 20, j),
                                                 b.Load(s, at, gate), {i, j})});
                 },
                 {{Dtype::I32, 80}, {Dtype::I32, 48}, {Dtype::I32, 80}},
                 0});
  out.push_back({"bools",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(6), j = b.Loop(17), k = b.Reduced(17), l = b.Reduced(17);
                   const UOp x = b.Load(b.Buffer(1, Dtype::Bool, 102), b.At(i, 17, k));
                   const UOp s = Stage(c, Not(c, x), 17, Sub(c, c.Idx(16), k), {k});
                   const UOp any = Sum(c, b.Load(s, l), {l}, Op::MUL);
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::Bool, 102), b.At(i, 17, j),
                                                 ir::Alu(c, Op::OR, {b.Load(s, j), any}), {i, j})});
                 },
                 {{Dtype::Bool, 102}, {Dtype::Bool, 102}},
                 0});
  out.push_back({"of_no_loop_around_and_of_one_of_two",
                 [](UOpContext& c) {
                   KernelBuilder b(c);
                   const UOp i = b.Loop(6), j = b.Loop(18), k = b.Reduced(18), l = b.Reduced(18);
                   const UOp x = b.Load(b.Buffer(1, Dtype::F32, 18), k);
                   const UOp s = Stage(c, Mul(c, x, x), 18, k, {k});
                   const UOp y = b.Load(b.Buffer(2, Dtype::F32, 6), i);
                   const UOp t = Stage(c, Add(c, b.Load(s, Sub(c, c.Idx(17), l)), y), 18, l, {l});
                   return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 108), b.At(i, 18, j),
                                                 Sub(c, b.Load(t, j), b.Load(s, j)), {i, j})});
                 },
                 {{Dtype::F32, 108}, {Dtype::F32, 18}, {Dtype::F32, 6}}});
  out.push_back(
      {"two_statements_read_one_stage",
       [](UOpContext& c) {
         KernelBuilder b(c);
         const UOp i = b.Loop(4), j = b.Loop(10), k = b.Reduced(10);
         const UOp x = b.Load(b.Buffer(2, Dtype::F32, 40), b.At(i, 10, k));
         const UOp s = Stage(c, Mul(c, x, x), 10, k, {k});
         return b.Kernel(
             {b.StoreLoops(b.Buffer(0, Dtype::F32, 40), b.At(i, 10, j), b.Load(s, j), {i, j}),
              b.StoreLoops(b.Buffer(1, Dtype::F32, 4), i, b.Load(s, c.Idx(7)), {i})});
       },
       {{Dtype::F32, 40}, {Dtype::F32, 4}, {Dtype::F32, 40}}});
  // The symbolic ones divide by an empty sum.
  for (KernelCase& k : out) k.fast_math = k.tame && k.name != "symbolic";
  return out;
}

TEST(StageTest, LegalOptsKeepResults) {
  EXPECT_GT(tests::FuzzOpts(StageCases(), 11,
                            static_cast<int>(test::FromEnvironment("UOPD_FUZZ_STAGES", 5))),
            40);
}

TEST(StageTest, LegalOptsKeepResultsInBlocks) {
  EXPECT_GT(
      tests::FuzzBlockOpts(StageCases(), 11,
                           static_cast<int>(test::FromEnvironment("UOPD_FUZZ_BLOCK_STAGES", 7))),
      40);
}

// A tile of rows loads the keys once for all of them, also where their number is a prime.
TEST(StageTest, AnyNumberOfRowsIsTiled) {
  for (const int64_t rows : {11, 31, 127, 128, 197}) {
    UOpContext ctx;
    AttentionShape s{8, rows, 131, 64};
    s.divided = true;
    Target target;
    target.vector_bytes = 64, target.vector_registers = 32, target.threads = 2;
    const auto out = codegen::Lower(ctx, tests::AttentionKernel(ctx, s), target, {});
    ASSERT_TRUE(out.ok()) << out.status();
    const auto tile = std::ranges::find_if(
        out->opts, [](const Opt& opt) { return opt.kind == OptKind::kUpcast && opt.axis == 1; });
    ASSERT_NE(tile, out->opts.end()) << rows;
    EXPECT_GE(tile->amount, 4) << rows;
    const int64_t padded = (rows + tile->amount - 1) / tile->amount * tile->amount;
    EXPECT_LE(10 * padded, 11 * rows) << rows;
  }
}

// Many queries share the keys of a head: these are transposed once for all queries, outside of the
// loop over tiles of queries, and the vectors of the scores lie along the keys.
TEST(StageTest, KeysArePackedOncePerHead) {
  const AttentionShape s{3, 60, 128, 32};
  UOpContext ctx;
  Target target;
  target.vector_bytes = 64, target.vector_registers = 32;
  const UOp sink = tests::AttentionKernel(ctx, s);
  const auto out = codegen::Lower(ctx, sink, target, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(
      std::ranges::any_of(out->opts, [](const Opt& opt) { return opt.kind == OptKind::kPack; }));
  std::vector<UOp> loops;
  int stores = 0;
  for (UOp u : out->linear.srcs()) {
    if (u.Is(Op::RANGE)) loops.push_back(u);
    if (u.Is(Op::END)) loops.pop_back();
    if (!u.Is(Op::STORE)) continue;
    const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
    if (!base.Is(Op::BUFFER) || !base.src(0).src(0).IsConstInt(128 * 32)) continue;
    ++stores;
    ASSERT_FALSE(loops.empty());
    EXPECT_TRUE(loops[0].src(0).IsConstInt(3)) << "the loop over heads";
    for (size_t i = 1; i < loops.size(); ++i) {
      EXPECT_FALSE(loops[i].src(0).IsConstInt(10)) << "the loop over tiles of queries";
    }
  }
  EXPECT_GT(stores, 0);
  // One query alone reads each key once: nothing is copied.
  const auto one = codegen::Lower(ctx, tests::AttentionKernel(ctx, {3, 1, 128, 32}), target, {});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_FALSE(
      std::ranges::any_of(one->opts, [](const Opt& opt) { return opt.kind == OptKind::kPack; }));
}

TEST(StageTest, MoreThanTheTargetHasIsRefused) {
  UOpContext ctx;
  const UOp sink = tests::AttentionKernel(ctx, {1, 8, 1000, 4});
  Target target;
  target.private_bytes = 7999;
  codegen::Options plain;
  plain.noopt = true;  // the heuristic would compute the row in blocks (ONLINE)
  auto out = codegen::Lower(ctx, sink, target, plain);
  EXPECT_EQ(out.status().code(), absl::StatusCode::kResourceExhausted) << out.status();
  EXPECT_NE(
      StatusText(out.status()).find("would stage 8000 bytes; a thread of the target has 7999"),
      std::string::npos)
      << StatusText(out.status());
  target.private_bytes = 8000;
  EXPECT_TRUE(codegen::Lower(ctx, sink, target, plain).ok());
  const Opt copies = {OptKind::kUpcast, 1, 4};
  EXPECT_EQ(codegen::ApplyOpts(ctx, sink, target, {&copies, 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  target.private_bytes = 40000;
  EXPECT_TRUE(codegen::ApplyOpts(ctx, sink, target, {&copies, 1}).ok());
}

}  // namespace
}  // namespace uopd
