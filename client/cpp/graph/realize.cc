// SPDX-License-Identifier: MIT
// GraphState: what one request computes, from live tensors to a normalised graph.
#include <algorithm>

#include "client/cpp/graph/graph_state.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "uopd/tensor.h"

namespace uopd::client {
namespace {

constexpr int64_t kMoreMemory = 1 << 20;  // bytes
constexpr size_t kMostForms = 256;        // normalised graphs that are remembered

using ir::Op;
using ir::UOp;

constexpr ir::OpSet kWork = ir::kElementwiseOps | ir::OpSet{Op::REDUCE};

}  // namespace

// The buffers that live tensors other than the pending ones read. These buffers must keep their
// contents and must not be freed.
NumberSet GraphState::ReadByOthers(std::span<const Pending> pending, NumberSet& pinned) {
  absl::flat_hash_set<const TensorState*> computed;
  for (const Pending& p : pending) computed.insert(p.state.get());
  NumberSet out;
  std::vector<UOp> lazy;
  for (const TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (!t->uop || computed.contains(t)) continue;
    if (t->pinned) {
      for (uint64_t number : NumbersOf(t->uop)) pinned.Insert(number);
      continue;
    }
    if (t->replaces) {
      for (uint64_t number : NumbersOf(t->replaces)) out.Insert(number);
    }
    if (t->uop.Is(Op::BUFFER))
      out.Insert(static_cast<uint64_t>(t->uop.slot()));
    else
      lazy.push_back(t->uop);
  }
  if (lazy.empty()) return out;
  for (UOp u : ir::Toposort(*ctx_, lazy)) {
    if (u.Is(Op::BUFFER)) out.Insert(static_cast<uint64_t>(u.slot()));
  }
  return out;
}

absl::StatusOr<std::string> GraphState::Wire(UOp sink) {
  UOPD_TRY(Verified(sink));
  UOPD_TRY(ir::VerifyRoot(*ctx_, sink, ir::Level::kTensor));
  return ir::Encode(*ctx_, sink);
}

// A lazy tensor that reads the old contents of an assigned one, such as the loss of a step that
// writes the weights, forces the assigned tensor into a second buffer, and most of the step would
// be computed again when somebody reads the loss. So such readers are computed in the same request,
// if they take at most kMoreMemory more than the second buffers, and if the request computes more than half of
// what they need anyway: a program whose other tensors differ from step to step must not get
// another graph in each step.
void GraphState::AddReaders(Plan& plan) {
  absl::flat_hash_set<uint64_t> blocked;
  int64_t blocked_bytes = 0;
  absl::flat_hash_set<const TensorState*> computed;
  for (const Pending& p : plan.pending) {
    computed.insert(p.state.get());
    if (!p.state->replaces) continue;
    for (uint64_t number : NumbersOf(p.state->replaces)) {
      if (!plan.kept.Contains(number) || !blocked.insert(number).second) continue;
      blocked_bytes += static_cast<int64_t>(buffers_.at(number).bytes);
    }
  }
  if (blocked.empty()) return;
  std::vector<TensorState*> lazy;
  std::vector<UOp> values;
  for (TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (!t->uop || t->pinned || computed.contains(t) || t->uop.Is(Op::BUFFER)) continue;
    lazy.push_back(t);
    values.push_back(t->uop);
  }
  absl::flat_hash_set<uint32_t> reads;  // ids of the nodes that depend on a blocked buffer
  for (UOp u : ir::Toposort(*ctx_, values)) {
    bool found = u.Is(Op::BUFFER) && blocked.contains(static_cast<uint64_t>(u.slot()));
    for (UOp src : u.srcs()) found |= reads.contains(src.id());
    if (found) reads.insert(u.id());
  }
  std::vector<Pending> readers;
  std::vector<UOp> wanted;
  int64_t bytes = 0;
  for (TensorState* t : lazy) {
    const int64_t size = ir::Product(t->dims) * ir::ByteSize(t->dtype);
    if (size == 0 || !reads.contains(t->uop.id())) continue;
    if (IsStored(t->uop) || t->replaces || t->symbolic) return;  // these keep their buffers
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
  plan.pinned = {};
  plan.kept = ReadByOthers(plan.pending, plan.pinned);
}

absl::Status GraphState::Complete(Call& call, UOp sink) {
  auto memo = wire_.find(sink.id());
  if (memo == wire_.end()) {
    UOPD_ASSIGN(std::string graph, Wire(sink));
    std::string digest(HashBytes(graph).view());
    Form form{std::move(digest), std::make_shared<const std::string>(std::move(graph))};
    memo = wire_.emplace(sink.id(), std::move(form)).first;
  }
  call.digest = memo->second.digest;
  call.graph = memo->second.graph;
  call.options = execution();
  return absl::OkStatus();
}

void GraphState::Discard(std::span<const Pending> pending) {
  for (const Pending& p : pending) {
    if (!p.target || p.replaces) continue;
    for (uint64_t number : NumbersOf(p.target)) Remove(number);
  }
}

UOp GraphState::NewTarget(const TensorState& t) {
  auto buffer = [&](const ir::Dims& dims, std::string_view device) {
    return NewBuffer(t.dtype, dims, device,
                     static_cast<uint64_t>(ir::Product(dims) * ir::ByteSize(t.dtype)));
  };
  if (!InPieces(t.uop)) return buffer(t.dims, t.device);
  const ir::Layout layout = LayoutOf(t.uop);
  std::vector<UOp> pieces;
  for (size_t i = 0; i < layout.devices.size(); ++i) {
    ir::Dims dims = t.dims;
    if (layout.sharded()) dims[static_cast<size_t>(layout.axis)] = layout.sizes[i];
    pieces.push_back(buffer(dims, layout.devices[i]));
  }
  const ir::Dims axis = layout.sharded() ? ir::Dims{layout.axis} : ir::Dims{};
  return ctx_->Make(Op::MULTI, t.dtype, pieces, ctx_->Data(axis, ""));
}

absl::StatusOr<GraphState::Plan> GraphState::MakePlan(
    std::span<const std::shared_ptr<TensorState>> tensors) {
  Plan plan;
  absl::Status places;
  absl::flat_hash_set<const TensorState*> seen;
  auto add = [&](const std::shared_ptr<TensorState>& t) {
    if ((IsStored(t->uop) && !t->replaces) || ir::Product(t->dims) == 0 ||
        !seen.insert(t.get()).second)
      return;
    if (IsOfOthers(*t)) NoteTaken(*t);
    if (places.ok()) places = CheckPlaces(t->uop);
    plan.pending.push_back({t, UOp(), false});
  };
  for (const auto& t : tensors) {
    if (t == nullptr) return absl::FailedPreconditionError("an empty tensor cannot be computed");
    if (!t->error.ok()) return t->error;
    if (t->graph.get() != this)
      return absl::InvalidArgumentError("tensors of different clients cannot be computed together");
    if (t->symbolic) {
      return absl::InvalidArgumentError(
          "a tensor with a symbolic dimension cannot be computed by itself");
    }
    UOPD_TRY(Verified(t->uop));
    add(t);
    // An assignment to this tensor, or to another view of the same tensor, waits in the tensors that it is a view of.
    for (const View* view = t->view.get(); view != nullptr; view = view->above.get()) {
      const std::shared_ptr<TensorState> whole = view->of.lock();
      if (whole != nullptr && whole->error.ok() && whole->replaces && !whole->symbolic &&
          !IsOfOthers(*whole))
        add(whole);
    }
  }
  UOPD_TRY(places);
  if (plan.pending.empty()) return plan;

  // An assigned tensor is written in place if nobody else reads the old contents; otherwise it gets
  // a new buffer.
  plan.kept = ReadByOthers(plan.pending, plan.pinned);
  AddReaders(plan);
  std::vector<Output> outputs;
  for (Pending& p : plan.pending) {
    TensorState& t = *p.state;
    p.replaces = static_cast<bool>(t.replaces);
    if (p.replaces) {
      for (uint64_t old : NumbersOf(t.replaces))
        p.replaces &= !plan.kept.Contains(old) && !plan.written.Contains(old);
    }
    p.target = p.replaces ? t.replaces : NewTarget(t);
    outputs.push_back({t.uop, p.target, p.replaces});
    for (uint64_t number : NumbersOf(p.target)) {
      plan.written.Insert(number);
      if (!t.replaces) plan.made.Insert(number);
    }
  }
  auto form = Normalized(outputs);
  if (!form.ok()) {
    Discard(plan.pending);
    return form.status();
  }
  plan.form = *std::move(form);
  PlanHistories(plan);
  return plan;
}

const std::vector<uint64_t>& GraphState::ReadsOf(UOp value, bool gradients) {
  auto& known = reads_[gradients ? 1 : 0];
  if (const auto it = known.find(value.id()); it != known.end()) return it->second;
  constexpr ir::OpSet kNone = {Op::BITCAST, Op::TRUNC};
  const auto enter = [&](UOp u) {
    return !gradients || u.Is(Op::STORE) ||
           (ir::IsFloat(u.dtype()) && !u.Is(kNone) && !(u.Is(Op::DETACH) && u.n_src() == 1));
  };
  std::vector<uint64_t> out;
  for (UOp u : ir::Toposort(*ctx_, std::span(&value, 1), enter)) {
    if (u.Is(Op::BUFFER) && enter(u)) out.push_back(static_cast<uint64_t>(u.slot()));
  }
  return known.emplace(value.id(), std::move(out)).first->second;
}

void GraphState::PlanHistories(Plan& plan) {
  NumberSet live, overwritten;
  for (uint64_t number = 0; number < buffers_.end(); ++number) {
    if (buffers_.Has(number) && plan.Keeps(number)) live.Insert(number);
  }
  ir::Substitution stored;
  for (const Pending& p : plan.pending) {
    stored.try_emplace(p.state->uop.id(), p.target);
    if (!p.replaces) continue;
    for (uint64_t number : NumbersOf(p.target)) overwritten.Insert(number);
  }
  const auto written = [&](uint64_t n) { return overwritten.Contains(n); };
  std::vector<uint64_t> all;
  NumberSet asked = live;
  for (Pending& p : plan.pending) {
    const UOp value = p.state->uop;
    // A leaf by declaration has no history: it is what gradients are asked for.
    if (!ir::IsFloat(value.dtype()) || p.state->requires_grad.value_or(false)) continue;
    if (!histories_.empty()) {  // those that contain this graph will read its buffers
      for (uint64_t number : ReadsOf(value)) asked.Insert(number);
    }
    if (std::ranges::any_of(ReadsOf(value), written)) {
      // What only its own old contents say, such as a counter, depends on nothing else.
      p.ended = std::ranges::any_of(ReadsOf(value, true), [&](uint64_t n) {
        return !overwritten.Contains(n) || histories_.Has(n);
      });
      continue;
    }
    UOp history = value;
    if (plan.pending.size() > 1) {
      auto own = stored.extract(value.id());
      history = ir::Substitute(*ctx_, value, stored);
      stored.insert(std::move(own));
    }
    const std::vector<uint64_t>& reads = ReadsOf(history);
    if (!histories_.MayBeAsked(reads, live, buffers_)) continue;
    p.history = history;
    p.reads = reads;
    all.insert(all.end(), reads.begin(), reads.end());
  }
  histories_.Keep(live, asked, all, buffers_, plan.history);
}

absl::StatusOr<Exported> GraphState::Export(std::span<const std::shared_ptr<TensorState>> tensors) {
  UOPD_ASSIGN(const Plan plan, MakePlan(tensors));
  Discard(plan.pending);
  if (plan.pending.empty())
    return absl::InvalidArgumentError("there is nothing to compute: the tensors are realised");
  Exported out;
  UOPD_ASSIGN(out.graph, Wire(plan.form.sink));
  out.digest = std::string(HashBytes(out.graph).view());
  out.nodes = ir::Toposort(*ctx_, plan.form.sink).size();
  out.slots = plan.form.buffers.size();
  return out;
}

absl::StatusOr<NormalForm> GraphState::Normalized(std::span<const Output> outputs) {
  std::vector<uint32_t> key;
  for (const Output& o : outputs)
    key.insert(key.end(), {o.value.id(), o.target.id(), o.replaces ? 1U : 0U});
  if (const auto known = forms_.find(key); known != forms_.end()) return known->second;
  UOPD_ASSIGN(NormalForm form, Normalize(*ctx_, outputs));
  if (forms_.size() >= kMostForms) forms_.clear();
  forms_.emplace(std::move(key), form);
  return form;
}

}  // namespace uopd::client
