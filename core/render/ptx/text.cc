// SPDX-License-Identifier: MIT
#include "core/render/ptx/text.h"

namespace uopd::render {
namespace {

struct PtxRegisterName {
  std::string_view prefix, type;
};
constexpr PtxRegisterName kPtxRegisters[] = {
    {"%p", ".pred"}, {"%h", ".b16"}, {"%r", ".b32"}, {"%q", ".b64"}};

}  // namespace

std::string PtxText::Fresh(PtxRegister kind) {
  const auto i = static_cast<size_t>(kind);
  return Cat(kPtxRegisters[i].prefix, registers_[i]++);
}

std::string PtxText::Declarations() const {
  std::string out;
  for (size_t i = 0; i < std::size(kPtxRegisters); ++i) {
    if (registers_[i] == 0) continue;
    const PtxRegisterName& r = kPtxRegisters[i];
    Append(out, "  .reg ", r.type, " ", r.prefix, "<", registers_[i], ">;\n");
  }
  return out + declarations_;
}

void PtxText::Define(ir::UOp u, const std::function<std::string(int64_t lane)>& make) {
  const int64_t n = std::max<int64_t>(Lanes(ctx_, u), 1);
  std::vector<std::string> lanes;
  lanes.reserve(static_cast<size_t>(n));
  for (int64_t lane = 0; lane < n; ++lane) lanes.push_back(make(lane));
  Set(u, std::move(lanes));
}

std::string PtxText::Operand(ir::UOp u, int64_t lane) {
  if (u.Is(ir::Op::CONST)) {
    if (u.dtype() != ir::Dtype::Bool) return PtxConstant(u);
    return New(kPtxPredicate, u.const_int() != 0 ? "setp.eq.s32" : "setp.ne.s32", "0, 0");
  }
  const std::vector<std::string>& lanes = values_.at(u.id());
  return lanes.size() == 1 ? lanes[0] : lanes[static_cast<size_t>(lane)];
}

std::string PtxText::Register(ir::UOp u, int64_t lane) {
  std::string operand = Operand(u, lane);
  if (operand.starts_with('%')) return operand;
  return New(PtxRegisterOf(u.dtype()), Cat("mov.", PtxMoveType(u.dtype())), operand);
}

}  // namespace uopd::render
