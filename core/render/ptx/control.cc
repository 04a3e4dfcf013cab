// SPDX-License-Identifier: MIT
#include "core/render/ptx/control.h"

#include "core/render/ptx/bulk.h"
#include "core/render/ptx/values.h"

namespace uopd::render {

using ir::Dtype;
using ir::Op;
using ir::UOp;

namespace {

// The word of a lane's partner in its warp.
std::string PtxExchanged(PtxText& text, const std::string& x, int64_t mask) {
  return text.New(kPtxWord, "shfl.sync.bfly.b32", x, ", ", mask, ", 31, -1");
}

}  // namespace

void PtxControl::Poll() {
  polls_ = true;
  std::string word;
  if (kernel_.together) {
    // The word is in the host's memory, and a read of it by each warp takes a chip's bus for half a
    // microsecond.
    const std::string thread = text_.New(kPtxWord, "mov.u32", "%tid.x");
    const std::string first = text_.New(kPtxPredicate, "setp.eq.u32", thread, ", 0");
    word = text_.New(kPtxWord, "mov.u32", "0");
    text_.PutIf(first, "ld.volatile.global.u32 ", word, ", [", kStop, "]");
  } else {
    word = text_.New(kPtxWord, "ld.volatile.global.u32", Cat("[", kStop, "]"));
  }
  std::string stop = text_.New(kPtxPredicate, "setp.ne.s32", word, ", 0");
  if (kernel_.together) stop = text_.New(kPtxPredicate, "bar.red.or.pred", "0, ", stop);
  if (!kernel_.has_groups) return text_.PutIf(stop, "ret");
  // No thread ends while its matrix instructions run. The wait is in a block of its own: a compiler
  // that sees only a predicate before it adds a wait for all threads.
  const std::string on = text_.FreshLabel();
  text_.PutIf(Cat("!", stop), "bra ", on);
  text_.Put("wgmma.wait_group.sync.aligned 0");
  text_.Put("ret");
  text_.Label(on);
}

// The body runs, then the number grows and is compared. A loop that polls every n iterations is two
// loops: the outer one polls and sets the inner one's limit, at most n further and at most the
// size. Nothing goes beyond the size, so nothing overflows.
void PtxControl::Begin(UOp range) {
  const PtxRegister kind = PtxRegisterOf(range.dtype());
  Loop loop;
  loop.type = PtxAluType(range.dtype());
  loop.size = text_.Operand(range.src(0));
  loop.number = text_.New(kind, Cat("mov.", PtxMoveType(range.dtype())), "0");
  text_.Set(range, {loop.number});
  if (!range.src(0).Is(Op::CONST) || range.src(0).const_int() < 1) {
    loop.after = text_.FreshLabel();
    const std::string none =
        text_.New(kPtxPredicate, Cat("setp.ge.", loop.type), loop.number, ", ", loop.size);
    text_.PutIf(none, "bra ", loop.after);
  }
  if (range.tag() > 1) {
    loop.chunk = text_.FreshLabel();
    text_.Label(loop.chunk);
    Poll();
    const std::string size = text_.Register(range.src(0));
    const std::string left = text_.New(kind, Cat("sub.", loop.type), size, ", ", loop.number);
    const std::string step = text_.New(kind, Cat("min.", loop.type), left, ", ", range.tag());
    loop.limit = text_.New(kind, Cat("add.", loop.type), loop.number, ", ", step);
  }
  loop.body = text_.FreshLabel();
  text_.Label(loop.body);
  if (range.tag() == 1) Poll();
  loops_.push_back(std::move(loop));
}

void PtxControl::End() {
  const Loop loop = std::move(loops_.back());
  loops_.pop_back();
  text_.Put("add.", loop.type, " ", loop.number, ", ", loop.number, ", 1");
  const auto again = [&](const std::string& limit, const std::string& label) {
    text_.PutIf(text_.New(kPtxPredicate, Cat("setp.lt.", loop.type), loop.number, ", ", limit),
                "bra ", label);
  };
  again(loop.chunk.empty() ? loop.size : loop.limit, loop.body);
  if (!loop.chunk.empty()) again(loop.size, loop.chunk);
  if (!loop.after.empty()) text_.Label(loop.after);
}

absl::Status PtxControl::Special(UOp u) {
  const auto axis = static_cast<ir::AxisType>(u.ints()[0]);
  if (axis != ir::AxisType::GLOBAL && axis != ir::AxisType::LOCAL) return NoPtx(u);
  const char* const name = axis == ir::AxisType::GLOBAL ? "%ctaid." : "%tid.";
  std::string x = text_.New(kPtxWord, "mov.u32", name, "xyz"[u.ints()[1]]);
  if (IsLongInPtx(u.dtype())) x = text_.New(kPtxLong, "cvt.u64.u32", x);
  text_.Set(u, {x});
  return absl::OkStatus();
}

void PtxControl::BeginRole(UOp u) {
  const ir::WarpRole& role = kernel_.RoleOf(u);
  const std::string_view type = PtxAluType(u.src(0).dtype());
  const std::string thread = text_.Register(u.src(0));
  const auto leave = [&](std::string_view relation, int64_t bound, const std::string& label) {
    text_.PutIf(text_.New(kPtxPredicate, Cat("setp.", relation, ".", type), thread, ", ", bound),
                "bra ", label);
  };
  if (roles_end_.empty()) roles_end_ = text_.FreshLabel();
  next_role_.clear();
  if (!kernel_.IsLast(role)) {
    next_role_ = text_.FreshLabel();
    if (role.first > 0) leave("lt", role.first, next_role_);
    if (role.first + role.count < kernel_.threads) leave("ge", role.first + role.count, next_role_);
  }
  if (role.registers > 0) text_.Put(PtxSetRegisters(role, kernel_.threads));
  if (role.active < role.count) leave("ge", role.first + role.active, roles_end_);
}

void PtxControl::EndRole() {
  if (next_role_.empty()) return text_.Label(roles_end_);
  text_.Put("bra ", roles_end_);
  text_.Label(next_role_);
}

absl::Status PtxControl::Shuffle(UOp u) {
  const Dtype d = u.dtype();
  const int64_t mask = u.arg().AsInt();
  text_.Define(u, [&](int64_t lane) {
    const std::string x = text_.Register(u.src(0), lane);
    if (d == Dtype::Bool) {
      const std::string word = text_.New(kPtxWord, "selp.b32", "1, 0, ", x);
      return text_.New(kPtxPredicate, "setp.ne.s32", PtxExchanged(text_, word, mask), ", 0");
    }
    if (!IsLongInPtx(d)) return PtxExchanged(text_, x, mask);
    const std::string low = text_.Fresh(kPtxWord), high = text_.Fresh(kPtxWord);
    text_.Put("mov.b64 {", low, ", ", high, "}, ", x);
    const std::string other_low = PtxExchanged(text_, low, mask),
                      other_high = PtxExchanged(text_, high, mask);
    return text_.New(kPtxLong, "mov.b64", "{", other_low, ", ", other_high, "}");
  });
  return absl::OkStatus();
}

}  // namespace uopd::render
