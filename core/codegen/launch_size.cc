// SPDX-License-Identifier: MIT
#include "core/codegen/launch_size.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/dtype.h"

namespace uopd::codegen {

using ir::Dtype;
using ir::Op;
using ir::Scalar;
using ir::UOp;

namespace {

// The ops that a size may use. All are total functions of integers: division by zero gives 0.
constexpr Op kOps[] = {Op::ADD,  Op::SUB,      Op::MUL,      Op::NEG, Op::CDIV,
                       Op::CMOD, Op::FLOORDIV, Op::FLOORMOD, Op::MAX};

bool IsSizeOp(Op op) { return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps); }

size_t Operands(Op op) {
  if (op == Op::CONST || op == Op::DEFINE_VAR) return 0;
  return op == Op::NEG ? 1 : 2;
}

}  // namespace

absl::StatusOr<LaunchSize> LaunchSize::Of(UOp size, std::span<const std::string> variables) {
  if (size.Is(Op::CONST)) return LaunchSize(size.const_int());
  LaunchSize out;
  absl::flat_hash_map<uint32_t, uint32_t> made;  // node id -> step
  struct Frame {
    UOp node;
    bool ready;
  };
  std::vector<Frame> stack = {{size, false}};
  while (!stack.empty()) {
    const auto [u, ready] = stack.back();
    stack.pop_back();
    if (made.contains(u.id())) continue;
    Step step{.op = u.op()};
    if (u.Is(Op::CONST)) {
      step.value = u.const_int();
    } else if (u.Is(Op::DEFINE_VAR)) {
      const auto it = std::find(variables.begin(), variables.end(), u.text());
      if (it == variables.end()) {
        return UOPD_BUG(Cat("variable ", u.text(), " is not in the kernel's list"));
      }
      step.value = it - variables.begin();
    } else if (!IsSizeOp(u.op())) {
      return absl::UnimplementedError(Cat("a launch dimension depends on ", ir::Name(u.op())));
    } else if (!ready) {
      stack.push_back({u, true});
      for (const UOp s : u.srcs()) stack.push_back({s, false});
      continue;
    } else {
      for (size_t i = 0; i < u.n_src(); ++i) step.srcs[i] = made.at(u.src(i).id());
    }
    if (out.steps_.size() == kMaxSteps) {
      return absl::UnimplementedError(
          Cat("a launch dimension has more than ", kMaxSteps, " operations"));
    }
    made[u.id()] = static_cast<uint32_t>(out.steps_.size());
    out.steps_.push_back(step);
  }
  return out;
}

int64_t LaunchSize::Evaluate(std::span<const int64_t> values) const {
  if (steps_.empty()) return constant_;
  absl::InlinedVector<Scalar, 16> results;
  for (const Step& step : steps_) {
    if (step.op == Op::CONST) {
      results.push_back(Scalar::Int(Dtype::I64, step.value));
    } else if (step.op == Op::DEFINE_VAR) {
      results.push_back(Scalar::Int(Dtype::I64, values[static_cast<size_t>(step.value)]));
    } else {
      std::array<Scalar, 2> operands;
      const size_t n = Operands(step.op);
      for (size_t i = 0; i < n; ++i) operands[i] = results[step.srcs[i]];
      const auto result = ir::EvalAlu(step.op, Dtype::I64, std::span(operands.data(), n));
      UOPD_CHECK(result.has_value());
      results.push_back(*result);
    }
  }
  return results.back().i;
}

void LaunchSize::Encode(std::string& out) const {
  PutVarint(out, steps_.size());
  if (steps_.empty()) PutSigned(out, constant_);
  for (const Step& step : steps_) {
    PutVarint(out, static_cast<uint64_t>(ir::Info(step.op).wire));
    if (Operands(step.op) == 0) PutSigned(out, step.value);
    for (size_t i = 0; i < Operands(step.op); ++i) PutVarint(out, step.srcs[i]);
  }
}

bool LaunchSize::Decode(ByteReader& in, size_t variables, LaunchSize& out) {
  uint64_t n;
  if (!in.Varint(n) || n > kMaxSteps) return false;
  out = LaunchSize();
  if (n == 0) return in.Signed(out.constant_);
  for (uint64_t at = 0; at < n; ++at) {
    uint64_t wire;
    Step step;
    if (!in.Varint(wire)) return false;
    const auto op = ir::OpByWire(wire);
    if (!op) return false;
    step.op = *op;
    if (step.op == Op::CONST || step.op == Op::DEFINE_VAR) {
      if (!in.Signed(step.value)) return false;
      const bool known = step.value >= 0 && static_cast<uint64_t>(step.value) < variables;
      if (step.op == Op::DEFINE_VAR && !known) return false;
    } else if (!IsSizeOp(step.op)) {
      return false;
    }
    for (size_t i = 0; i < Operands(step.op); ++i) {
      uint64_t src;
      if (!in.Varint(src) || src >= at) return false;
      step.srcs[i] = static_cast<uint32_t>(src);
    }
    out.steps_.push_back(step);
  }
  return true;
}

LaunchShape LaunchGeometry::At(std::span<const int64_t> variables) const {
  LaunchShape out;
  for (int i = 0; i < 3; ++i) {
    out.grid[i] = grid[i].Evaluate(variables);
    out.block[i] = block[i].Evaluate(variables);
  }
  out.shared_bytes = shared_bytes;
  out.maps = maps;
  return out;
}

void LaunchGeometry::Encode(std::string& out) const {
  for (const LaunchSize& size : grid) size.Encode(out);
  for (const LaunchSize& size : block) size.Encode(out);
  PutSigned(out, shared_bytes);
  EncodeTensorMaps(maps, out);
}

bool LaunchGeometry::Decode(ByteReader& in, size_t variables, LaunchGeometry& out) {
  for (LaunchSize& size : out.grid) {
    if (!LaunchSize::Decode(in, variables, size)) return false;
  }
  for (LaunchSize& size : out.block) {
    if (!LaunchSize::Decode(in, variables, size)) return false;
  }
  return in.Signed(out.shared_bytes) && DecodeTensorMaps(in, out.maps);
}

}  // namespace uopd::codegen
