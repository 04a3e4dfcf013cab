// SPDX-License-Identifier: MIT
// GraphState: what one request computes, from live tensors to a normalised graph.
#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "client/cpp/graph/graph_state.h"
#include "client/cpp/jit/recording.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "uopd/tensor.h"

namespace uopd::client {
namespace {

constexpr size_t kMostForms = 256;  // normalised graphs that are remembered

using ir::Op;
using ir::UOp;

}  // namespace

absl::StatusOr<std::string> GraphState::Wire(UOp sink) {
  UOPD_TRY(Verified(sink));
  UOPD_TRY(ir::VerifyRoot(*ctx_, sink, ir::Level::kTensor));
  return ir::Encode(*ctx_, sink);
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
  const ir::Shape shape = *ctx_->ShapeOf(t.uop);
  auto buffer = [&](const ir::Dims& dims, std::string_view device) {
    const UOp whole = NewBuffer(t.dtype, dims, device,
                                static_cast<uint64_t>(ir::Product(dims) * ir::ByteSize(t.dtype)));
    if (!t.symbolic) return whole;
    ir::SymbolicDims sizes(shape.begin(), shape.end());
    for (size_t i = 0; i < sizes.size(); ++i)  // a piece has a part of one axis, which is a number
      if (sizes[i].Is(Op::CONST)) sizes[i] = ctx_->Idx(dims[i]);
    return ctx_->WithSources(whole, ir::SymbolicDims{ir::ShapeArg(*ctx_, ir::Shape(sizes))});
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
  const Recording* const recorder = RecorderOfCalls();
  std::vector<TensorState*> outside;
  auto add = [&](const std::shared_ptr<TensorState>& t) {
    if ((IsStored(t->uop) && !t->replaces) || ir::Product(t->dims) == 0 ||
        !seen.insert(t.get()).second)
      return;
    if (IsOfOthers(*t)) NoteTaken(*t);
    if (places.ok()) places = CheckPlaces(t->uop);
    if (recorder != nullptr && !t->replaces && t->writer != recorder->id() && !IsOfOthers(*t)) {
      outside.push_back(t.get());
      return;
    }
    plan.pending.push_back({t, UOp(), false});
  };
  for (const auto& t : tensors) {
    if (t == nullptr) return absl::FailedPreconditionError("an empty tensor cannot be computed");
    if (!t->error.ok()) return t->error;
    if (t->graph.get() != this)
      return absl::InvalidArgumentError("tensors of different clients cannot be computed together");
    UOPD_TRY(Verified(t->uop));
    add(t);
    // An assignment to this tensor, or to another view of the same tensor, waits in the tensors
    // that it is a view of.
    for (TensorState* whole = apart_ ? nullptr : t->view.of; whole != nullptr;
         whole = whole->view.of) {
      if (whole->error.ok() && whole->replaces && !IsOfOthers(*whole))
        add(whole->shared_from_this());
    }
  }
  UOPD_TRY(places);
  UOPD_TRY(SubmitApart(outside));
  if (plan.pending.empty()) return plan;

  // An assigned tensor is written in place if nobody else reads the old contents; otherwise it gets
  // a new buffer.
  FindReaders(plan);
  UOPD_TRY(FreeInPlace(plan));
  AddReaders(plan);
  if (recorder == nullptr) AddOperandsOfMaxima(plan);
  StateFirst(plan.pending);
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
  const auto enter = [&](UOp u) { return !gradients || CarriesGradient(u); };
  std::vector<uint64_t> out;
  for (UOp u : ir::Toposort(*ctx_, std::span(&value, 1), enter)) {
    if (u.Is(Op::BUFFER) && enter(u)) out.push_back(static_cast<uint64_t>(u.slot()));
  }
  return known.emplace(value.id(), std::move(out)).first->second;
}

bool GraphState::ContainsConstant(const TensorState& tensor) const {
  absl::flat_hash_set<uint32_t> below;
  for (UOp u : ir::Toposort(*ctx_, std::span(&tensor.uop, 1), CarriesGradient))
    below.insert(u.id());
  below.erase(tensor.uop.id());
  for (const TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (t->uop && below.contains(t->uop.id()) && t->requires_grad.value_or(true)) return true;
  }
  return false;
}

const GraphState::Pending* GraphState::Twin(std::span<const Pending> pending, const Pending& p) {
  const auto twin =
      std::ranges::find(pending, p.state->uop, [](const Pending& q) { return q.state->uop; });
  return &*twin == &p ? nullptr : &*twin;
}

void GraphState::PlanHistories(Plan& plan) {
  // `known`: by which gradients may be asked for, since a float has the memory, or a tensor without
  // memory is computed from it.
  NumberSet live, known, overwritten;
  for (uint64_t number = 0; number < buffers_.end(); ++number) {
    if (!buffers_.Has(number) || !plan.Keeps(number)) continue;
    live.Insert(number);
    if (plan.lazy.Contains(number) || ir::IsFloat(buffers_.at(number).dtype)) known.Insert(number);
  }
  ir::Substitution stored;
  for (const Pending& p : plan.pending) {
    stored.try_emplace(p.state->uop.id(), p.target);
    if (!p.replaces) continue;
    for (uint64_t number : NumbersOf(p.target)) overwritten.Insert(number);
  }
  const auto written = [&](uint64_t n) { return overwritten.Contains(n); };
  std::vector<uint64_t> all;
  NumberSet asked = known, of_ended;
  for (Pending& p : plan.pending) {
    const UOp value = p.state->uop;
    if (!ir::IsFloat(value.dtype())) continue;
    if (!histories_.empty()) {  // those that contain this graph will read its buffers
      for (uint64_t number : ReadsOf(value)) asked.Insert(number);
    }
    // A leaf by declaration has no history: it is what gradients are asked for.
    if (p.state->requires_grad.value_or(false)) continue;
    // What it shares with others of the request it reads from where that is stored.
    auto own = stored.extract(value.id());
    const absl::Cleanup back = [&] { stored.insert(std::move(own)); };
    std::vector<uint64_t> old;  // what it reads beside
    if (stored.empty()) {
      old = ReadsOf(value);
    } else {
      for (UOp u : ir::Toposort(*ctx_, std::span(&value, 1),
                                [&](UOp v) { return !stored.contains(v.id()); })) {
        if (u.Is(Op::BUFFER)) old.push_back(static_cast<uint64_t>(u.slot()));
      }
    }
    if (std::ranges::any_of(old, written)) {
      if (const Pending* const twin = Twin(plan.pending, p)) {
        p.CopyOf(*twin);
        continue;
      }
      // A value that is computed from its own old contents alone, such as a counter, depends on
      // nothing else. If another tensor has a copy of these, or if it contains the value of another
      // tensor of the request, somebody may ask for the gradient by that tensor.
      const std::vector<uint64_t>& reads = ReadsOf(value, true);
      p.ended = std::ranges::any_of(reads, [&](uint64_t n) {
        return !overwritten.Contains(n) || histories_.Has(n) || buffers_.IsCopied(n);
      });
      for (UOp u : ir::Toposort(*ctx_, std::span(&value, 1), CarriesGradient)) {
        const auto other = stored.find(u.id());
        if (other == stored.end()) continue;
        p.ended = true;
        for (uint64_t number : NumbersOf(other->second)) of_ended.Insert(number);
      }
      for (uint64_t number : reads) of_ended.Insert(number);
      continue;
    }
    const UOp history = ReplaceValues(*ctx_, value, stored);
    const std::vector<uint64_t>& reads = ReadsOf(history);
    if (reads.empty()) {
      if (const Pending* const twin = Twin(plan.pending, p);
          twin != nullptr && IsWhole(*twin->state, *p.state)) {
        p.CopyOf(*twin);
        continue;
      }
      // The history is wrapped, so that two tensors of equal values are not taken for each other.
      if (ContainsConstant(*p.state)) p.history = Distinct(history, Op::CONTIGUOUS_BACKWARD);
      continue;
    }
    const Histories::Asked may_be = histories_.MayBeAsked(reads, known);
    if (may_be == Histories::Asked::kInVain) {
      p.ended = true;
      for (uint64_t number : reads) of_ended.Insert(number);
    }
    if (may_be != Histories::Asked::kMaybe) continue;
    p.history = history;
    p.reads = reads;
    all.insert(all.end(), reads.begin(), reads.end());
  }
  // Those of the request together: an optimiser has as many as parameters, and each may read all of
  // them.
  Histories::Buffers below;
  for (Pending& p : plan.pending) {
    if (!p.ended) continue;
    if (below == nullptr) {
      std::vector<uint64_t> reads;
      for (uint64_t number = 0; number < buffers_.end(); ++number) {
        if (of_ended.Contains(number)) reads.push_back(number);
      }
      below = histories_.AllBelow(reads, buffers_);
    }
    p.below = below;
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
