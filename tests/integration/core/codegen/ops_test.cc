// SPDX-License-Identifier: MIT
// Every elementwise op of every dtype, on values that hurt, against ir::EvalAlu.
#include <algorithm>
#include <iterator>

#include "core/ir/verify/spec.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using tests::CheckKernel;
using tests::CheckOptions;
using tests::CompiledText;
using tests::KernelBuilder;
using tests::Memory;
using tests::SampleBuffer;

constexpr int64_t kOpElements = 307;
constexpr ir::OpSet kInexact = {Op::EXP2, Op::EXP, Op::LOG2, Op::LOG,
                                Op::SIN,  Op::COS, Op::POW,  Op::MULACC};

constexpr Dtype kStored[] = {Dtype::Bool, Dtype::I8,     Dtype::U8,     Dtype::I16,
                             Dtype::U16,  Dtype::I32,    Dtype::U32,    Dtype::I64,
                             Dtype::U64,  Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F16,
                             Dtype::BF16, Dtype::TF32,   Dtype::F32,    Dtype::F64};

std::vector<Dtype> Integers() {
  std::vector<Dtype> out;
  std::copy_if(std::begin(kStored), std::end(kStored), std::back_inserter(out), ir::IsInt);
  return out;
}

// One kernel with an output for each value that `make` gives for elements x, y, z (of dtype d) and
// c (bool).
struct Outputs {
  ir::UOpContext ctx;
  Memory memory;
  UOp sink;
};

template <class Make>
void Build(Outputs& out, Dtype d, Make make) {
  KernelBuilder b(out.ctx);
  const UOp i = b.Loop(kOpElements);
  const Dtype dtypes[] = {d, d, d, Dtype::Bool};
  std::vector<UOp> loaded, stores;
  for (int64_t s = 0; s < 4; ++s) {
    loaded.push_back(b.Load(b.Buffer(s, dtypes[s], kOpElements), i));
    out.memory.push_back(
        SampleBuffer(dtypes[s], kOpElements, static_cast<uint64_t>(s) + 100, false));
  }
  for (UOp value : make(out.ctx, loaded)) {
    const auto slot = static_cast<int64_t>(out.memory.size());
    stores.push_back(b.StoreLoops(b.Buffer(slot, value.dtype(), kOpElements), i, value, {i}));
    out.memory.emplace_back(static_cast<size_t>(kOpElements * ir::ByteSize(value.dtype())), 0);
  }
  // Inputs that no output uses must be there all the same: slots are dense.
  for (int64_t s = 0; s < 4; ++s) {
    const auto slot = static_cast<int64_t>(out.memory.size());
    stores.push_back(b.StoreLoops(b.Buffer(slot, dtypes[s], kOpElements), i,
                                  loaded[static_cast<size_t>(s)], {i}));
    out.memory.emplace_back(static_cast<size_t>(kOpElements * ir::ByteSize(dtypes[s])), 0);
  }
  out.sink = ir::KernelSink(out.ctx, stores, "ops");
}

void Check(Outputs& k, double ulps) {
  const std::vector<std::vector<Opt>> opts = {{},
                                              {{OptKind::kVector, 0, 8}, {OptKind::kUpcast, 0, 2}}};
  for (auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
    for (const auto& o : opts) {
      CheckOptions check;
      check.options.opts = &o, check.language = language, check.ulps = ulps;
      EXPECT_EQ(CheckKernel(k.ctx, k.sink, k.memory, check).substr(0, 200), "")
          << (o.empty() ? "scalar" : "vector");
    }
  }
}

class OpsTest : public testing::TestWithParam<Dtype> {};

std::vector<UOp> AluOf(ir::UOpContext& ctx, const std::vector<UOp>& v, bool inexact) {
  std::vector<UOp> out;
  for (int i = 0; i < ir::kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    if (!ir::kAluOps.Has(op) || kInexact.Has(op) != inexact) continue;
    UOp u;
    if (op == Op::WHERE) {
      u = Where(ctx, v[3], v[0], v[1]);
    } else if (ir::kTernaryOps.Has(op)) {
      u = ir::Alu(ctx, op, {v[0], v[1], v[2]});
    } else if (ir::kBinaryOps.Has(op)) {
      u = ir::Alu(ctx, op, {v[0], v[1]});
    } else {
      u = ir::Alu(ctx, op, {v[0]});
    }
    if (ir::VerifyNode(ctx, u, ir::Level::kKernel).ok()) out.push_back(u);
  }
  return out;
}

TEST_P(OpsTest, ExactOps) {
  Outputs k;
  Build(k, GetParam(),
        [](ir::UOpContext& ctx, const std::vector<UOp>& v) { return AluOf(ctx, v, false); });
  Check(k, 0);
}

TEST_P(OpsTest, InexactOps) {
  Outputs k;
  Build(k, GetParam(),
        [](ir::UOpContext& ctx, const std::vector<UOp>& v) { return AluOf(ctx, v, true); });
  Check(k, 2);
}

TEST_P(OpsTest, Casts) {
  Outputs k;
  Build(k, GetParam(), [](ir::UOpContext& ctx, const std::vector<UOp>& v) {
    std::vector<UOp> out;
    for (Dtype to : kStored) {
      if (to != v[0].dtype()) out.push_back(Cast(ctx, v[0], to));
    }
    for (Dtype to : kStored) {
      const UOp u = ctx.Make(Op::BITCAST, to, {v[0]});
      if (to != v[0].dtype() && ir::VerifyNode(ctx, u, ir::Level::kKernel).ok()) out.push_back(u);
    }
    return out;
  });
  Check(k, 0);
}

using IntegerOpsTest = OpsTest;

TEST_P(IntegerOpsTest, ByConstants) {
  Outputs k;
  Build(k, GetParam(), [](ir::UOpContext& ctx, const std::vector<UOp>& v) {
    std::vector<UOp> out;
    for (Op op : {Op::CDIV, Op::CMOD, Op::FLOORDIV, Op::FLOORMOD, Op::SHL, Op::SHR, Op::POW}) {
      for (int c : {0, 1, 2, 3, 7, 64, -1, -3}) {
        if (c < 0 && ir::IsUnsigned(v[0].dtype())) continue;
        out.push_back(ir::Alu(ctx, op, {v[0], ctx.Int(v[0].dtype(), c)}));
      }
    }
    return out;
  });
  Check(k, 0);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, OpsTest, testing::ValuesIn(kStored),
                         [](const auto& p) { return std::string(ir::Name(p.param)); });
INSTANTIATE_TEST_SUITE_P(Dtypes, IntegerOpsTest, testing::ValuesIn(Integers()),
                         [](const auto& p) { return std::string(ir::Name(p.param)); });

}  // namespace
}  // namespace uopd
