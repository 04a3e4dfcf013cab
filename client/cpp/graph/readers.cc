// SPDX-License-Identifier: MIT
// GraphState: the live tensors that need the contents of buffers which are about to be written.
#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "client/cpp/graph/graph_state.h"
#include "client/cpp/jit/recording.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::client {
namespace {

constexpr int64_t kMoreMemory = 1 << 20;  // bytes

using ir::Op;
using ir::UOp;

constexpr ir::OpSet kWork = ir::kElementwiseOps | ir::OpSet{Op::REDUCE};

bool HasOneOf(UOp stored, const NumberSet& numbers) {
  if (stored.Is(Op::BUFFER)) return numbers.Contains(static_cast<uint64_t>(stored.slot()));
  return std::ranges::any_of(
      stored.srcs(), [&](UOp s) { return numbers.Contains(static_cast<uint64_t>(s.slot())); });
}

}  // namespace

bool GraphState::WillBeStored(UOp value) {
  const bool distinct =
      value.Is(Op::CONTIGUOUS) && value.tag() != 0;  // it is equal to no other constant
  return !IsStored(value) && (distinct || !ReadsOf(value).empty());
}

absl::flat_hash_set<uint32_t> GraphState::StoredBy(std::span<const Pending> pending) {
  absl::flat_hash_set<uint32_t> out;
  for (const Pending& p : pending) {
    if (WillBeStored(p.state->uop)) out.insert(p.state->uop.id());
  }
  return out;
}

void GraphState::FindReaders(Plan& plan) {
  plan.kept = plan.lazy = plan.pinned = {};
  absl::flat_hash_set<const TensorState*> computed;
  for (const Pending& p : plan.pending) computed.insert(p.state.get());
  const absl::flat_hash_set<uint32_t> stored = StoredBy(plan.pending);
  const auto read_lazily = [&](uint64_t number) {
    plan.kept.Insert(number);
    plan.lazy.Insert(number);
  };
  std::vector<UOp> lazy;
  for (const TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (!t->uop || computed.contains(t)) continue;
    if (t->pinned) {
      for (uint64_t number : NumbersOf(t->uop)) plan.pinned.Insert(number);
      continue;
    }
    if (t->replaces) {
      for (uint64_t number : NumbersOf(t->replaces)) plan.kept.Insert(number);
    }
    if (t->uop.Is(Op::BUFFER)) {
      plan.kept.Insert(static_cast<uint64_t>(t->uop.slot()));
    } else if (stored.contains(t->uop.id())) {
      for (uint64_t number : ReadsOf(t->uop)) read_lazily(number);
    } else {
      lazy.push_back(t->uop);
    }
  }
  if (lazy.empty()) return;
  const auto enter = [&](UOp u) { return !stored.contains(u.id()); };
  for (UOp u : ir::Toposort(*ctx_, lazy, enter)) {
    if (u.Is(Op::BUFFER)) read_lazily(static_cast<uint64_t>(u.slot()));
  }
}

std::vector<TensorState*> GraphState::Readers(const NumberSet& numbers,
                                              std::span<const Pending> pending) {
  absl::flat_hash_set<const TensorState*> computed;
  for (const Pending& p : pending) computed.insert(p.state.get());
  const absl::flat_hash_set<uint32_t> stored = StoredBy(pending);
  std::vector<UOp> values;
  for (const TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (t->uop && !t->uop.Is(Op::BUFFER) && !stored.contains(t->uop.id())) values.push_back(t->uop);
  }
  absl::flat_hash_set<uint32_t> reads;  // ids of the nodes that depend on one of the buffers
  for (UOp u : ir::Toposort(*ctx_, values, [&](UOp v) { return !stored.contains(v.id()); })) {
    if (stored.contains(u.id())) continue;
    bool found = u.Is(Op::BUFFER) && numbers.Contains(static_cast<uint64_t>(u.slot()));
    for (UOp src : u.srcs()) found |= reads.contains(src.id());
    if (found) reads.insert(u.id());
  }
  std::vector<TensorState*> out;
  for (TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (!t->uop || t->pinned || computed.contains(t)) continue;
    const bool found =
        t->uop.Is(Op::BUFFER) ? HasOneOf(t->uop, numbers)
        : stored.contains(t->uop.id())
            ? std::ranges::any_of(ReadsOf(t->uop), [&](uint64_t n) { return numbers.Contains(n); })
            : reads.contains(t->uop.id());
    if (found) out.push_back(t);
  }
  return out;
}

bool GraphState::MakeComputable(TensorState& t) {
  if (ir::Product(t.dims) == 0 || IsOfOthers(t) || !Verified(t.uop).ok()) return false;
  if (IsStored(t.uop) && !t.replaces) t.uop = Distinct(t.uop);
  return Verified(t.uop).ok();
}

absl::Status GraphState::SubmitApart(std::span<TensorState* const> tensors) {
  std::vector<std::shared_ptr<TensorState>> computed;
  std::vector<std::pair<std::shared_ptr<TensorState>, std::vector<uint64_t>>> copied;
  for (TensorState* t : tensors) {
    const UOp before = t->uop;
    if (Recording* const r = Recorder()) r->NoteApart(*t);
    if (!MakeComputable(*t)) continue;
    computed.push_back(t->shared_from_this());
    if (IsStored(before) && !t->replaces) copied.emplace_back(computed.back(), NumbersOf(before));
  }
  if (computed.empty()) return absl::OkStatus();
  {
    const bool outer = std::exchange(apart_, true);
    const absl::Cleanup end = [this, outer] { apart_ = outer; };
    UOPD_TRY(Submit(computed));
  }
  for (const auto& [t, origins] : copied) {
    const std::vector<uint64_t> numbers = NumbersOf(t->uop);
    for (size_t i = 0; i < numbers.size(); ++i) buffers_.NoteCopy(numbers[i], origins[i]);
  }
  return absl::OkStatus();
}

void GraphState::NoteWritten(uint64_t number, bool assigned) {
  histories_.Written(number, assigned, buffers_);
  if (!assigned) return;
  for (Recording* r : all_recordings_) r->NoteWritten(number);
}

bool GraphState::IsState(const TensorState& t) const {
  return std::ranges::any_of(all_recordings_, [&](const Recording* r) { return r->Knows(t); });
}

void GraphState::StateFirst(std::vector<Pending>& pending) const {
  if (all_recordings_.empty() || pending.size() == 1) return;
  std::vector<Pending> state, others;
  for (Pending& p : pending)
    (p.state->replaces && IsState(*p.state) ? state : others).push_back(std::move(p));
  pending = std::move(state);
  for (Pending& p : others) pending.push_back(std::move(p));
}

absl::Status GraphState::FreeInPlace(Plan& plan) {
  const Recording* const recorder = Recorder();
  for (;;) {
    NumberSet blocked;
    bool any = false;
    for (const Pending& p : plan.pending) {
      if (!p.state->replaces) continue;
      const std::vector<uint64_t> numbers = NumbersOf(p.state->replaces);
      const auto kept = [&](uint64_t number) { return plan.kept.Contains(number); };
      if (std::ranges::none_of(numbers, kept) || !IsState(*p.state)) continue;
      any = true;
      for (uint64_t number : numbers) blocked.Insert(number);
    }
    if (!any) return absl::OkStatus();
    std::vector<TensorState*> before;
    const size_t pending = plan.pending.size();
    for (TensorState* t : Readers(blocked, plan.pending)) {
      if (recorder != nullptr && t->writer != recorder->id()) {
        before.push_back(t);
      } else if (MakeComputable(*t)) {
        plan.pending.push_back({t->shared_from_this(), UOp(), false});
      }
    }
    UOPD_TRY(SubmitApart(before));
    FindReaders(plan);
    if (plan.pending.size() == pending) return absl::OkStatus();
  }
}

// A lazy tensor that reads the old contents of an assigned one, such as the loss of a step that
// writes the weights, forces the assigned tensor into a second buffer, and most of the step would
// be computed again when somebody reads the loss. So such readers are computed in the same request,
// if they take at most kMoreMemory more than the second buffers, and if the request computes more
// than half of what they need anyway: a program whose other tensors differ from step to step must
// not get another graph in each step.
void GraphState::AddReaders(Plan& plan) {
  NumberSet blocked;
  int64_t blocked_bytes = 0;
  for (const Pending& p : plan.pending) {
    if (!p.state->replaces) continue;
    for (uint64_t number : NumbersOf(p.state->replaces)) {
      if (!plan.kept.Contains(number) || blocked.Contains(number)) continue;
      blocked.Insert(number);
      blocked_bytes += static_cast<int64_t>(buffers_.at(number).bytes);
    }
  }
  if (blocked_bytes == 0) return;
  std::vector<Pending> readers;
  std::vector<UOp> wanted;
  int64_t bytes = 0;
  for (TensorState* t : Readers(blocked, plan.pending)) {
    const int64_t size = ir::Product(t->dims) * ir::ByteSize(t->dtype);
    if (t->uop.Is(Op::BUFFER) || size == 0) continue;
    if (IsStored(t->uop) || t->replaces) return;  // these keep their buffers
    if (IsOfOthers(*t)) return;  // a replay of what another thread records must compute it
    bytes += size;
    if (bytes > blocked_bytes + kMoreMemory || !Verified(t->uop).ok()) return;
    readers.push_back({t->shared_from_this(), UOp(), false});
    wanted.push_back(t->uop);
  }
  if (readers.empty()) return;
  std::vector<UOp> planned;
  for (const Pending& p : plan.pending) planned.push_back(p.state->uop);
  absl::flat_hash_set<uint32_t> common;
  for (UOp u : ir::Toposort(*ctx_, planned)) common.insert(u.id());
  size_t shared = 0, more = 0;
  for (UOp u : ir::Toposort(*ctx_, wanted)) {
    if (kWork.Has(u.op())) ++(common.contains(u.id()) ? shared : more);
  }
  if (more >= shared) return;
  plan.pending.insert(plan.pending.end(), readers.begin(), readers.end());
  FindReaders(plan);
}

// A maximum equals an element of its operand, and so does what is only moved, chosen or compared
// from there on. A live operand that is a sum would be computed anew by whoever uses it later, in
// another kernel, which may add up in another order: then no element might equal the maximum that
// is stored now. So such operands are stored with it.
void GraphState::AddOperandsOfMaxima(Plan& plan) {
  constexpr ir::OpSet kExact = {Op::RESHAPE, Op::PERMUTE, Op::FLIP,   Op::SHRINK,     Op::EXPAND,
                                Op::PAD,     Op::MAX,     Op::NEG,    Op::WHERE,      Op::CMPLT,
                                Op::CMPEQ,   Op::CMPNE,   Op::REDUCE, Op::CONTIGUOUS, Op::AND,
                                Op::OR,      Op::CAST,    Op::SCAN};
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  const auto exact = [&](UOp u) {
    return u.Is(kExact) && (!u.Is(ir::OpSet{Op::REDUCE, Op::SCAN}) || u.reduce_op() == Op::MAX);
  };
  absl::flat_hash_set<uint32_t> operands;
  for (const Pending& p : plan.pending) {
    bool maximum = false;
    const std::vector<UOp> chain = ir::Toposort(*ctx_, std::span(&p.state->uop, 1), exact);
    for (UOp u : chain) maximum |= u.Is(ir::OpSet{Op::REDUCE, Op::SCAN}) && exact(u);
    if (!maximum) continue;
    for (UOp u : chain) {
      if (u != p.state->uop && ir::IsFloat(u.dtype())) operands.insert(u.id());
    }
  }
  if (operands.empty()) return;
  const size_t before = plan.pending.size();
  for (TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (!t->uop || !operands.contains(t->uop.id()) || IsStored(t->uop) || t->replaces ||
        IsOfOthers(*t) || t->pinned || ir::Product(t->dims) * ir::ByteSize(t->dtype) > kMostBytes ||
        !Verified(t->uop).ok() ||
        std::ranges::any_of(plan.pending, [&](const Pending& p) { return p.state.get() == t; }))
      continue;
    const auto adds_up = [](UOp u) {
      return u.Is(ir::OpSet{Op::REDUCE, Op::SCAN}) && u.reduce_op() != Op::MAX &&
             ir::IsFloat(u.dtype());
    };
    if (std::ranges::any_of(ir::Toposort(*ctx_, std::span(&t->uop, 1)), adds_up))
      plan.pending.push_back({t->shared_from_this(), UOp(), false});
  }
  if (plan.pending.size() != before) FindReaders(plan);
}

}  // namespace uopd::client
