// SPDX-License-Identifier: MIT
// The parts of Tensor that are no operations: state, errors, reading, assignment, gradients.
#include "uopd/tensor.h"

#include <algorithm>

#include "client/cpp/graph/build.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/gradient.h"

namespace uopd::client {

using ir::Op;
using ir::UOp;

absl::Status Located(std::string_view what, Site site, const absl::Status& error) {
  site = SiteScope::Or(site);
  const std::string_view path = site.file;
  const size_t slash = path.rfind('/');
  const std::string_view file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return absl::Status(error.code(),
                      Cat(what, ": ", StatusText(error), " (at ", file, ":", site.line, ")"));
}

Tensor Poisoned(std::shared_ptr<GraphState> graph, absl::Status error) {
  auto state = std::make_shared<TensorState>(std::move(graph));
  state->error = std::move(error);
  return Tensor(std::move(state));
}

Tensor Same(const Tensor& t) {
  NoteUse(t);
  return Tensor(t.state()->graph->NewAlias(t.state(), true));
}

Tensor Made(const Tensor& t, UOp u, std::string_view what, Site site) {
  const auto& graph = t.state()->graph;
  auto state = graph->NewTensor(u, t.state()->device);
  if (!state->error.ok())
    state->error = Located(what, site, state->error);
  else if (MakesView(u) && u.src(0) == Value(t))
    BeginView(*state, *t.state(), u);
  return Tensor(std::move(state));
}

std::string Text(const Dims& dims) {
  std::string out = "(";
  for (size_t i = 0; i < dims.size(); ++i) Append(out, i > 0 ? ", " : "", dims[i]);
  return out + ")";
}

std::optional<int64_t> Axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) return std::nullopt;
  return axis < 0 ? axis + rank : axis;
}

absl::Status Tensor::status() const {
  return state_ == nullptr ? absl::FailedPreconditionError("an empty tensor has no value")
                           : state_->error;
}

const Dims& Tensor::dims() const {
  static const Dims* const none = new Dims;
  return state_ == nullptr ? *none : state_->dims;
}

Dims Tensor::sizes() const {
  return status().ok() ? SizesNow(state_->graph->ctx(), *state_) : Dims();
}

Dtype Tensor::dtype() const { return state_ == nullptr ? Dtype::Void : state_->dtype; }

const std::string& Tensor::device() const {
  static const std::string* const none = new std::string;
  return state_ == nullptr ? *none : state_->device;
}

bool Tensor::is_symbolic() const { return state_ != nullptr && state_->symbolic; }

bool Tensor::is_realized() const {
  return status().ok() && IsStored(state_->uop) && !state_->replaces;
}

bool Tensor::at_hand() const { return status().ok() && state_->graph->AtHand(*state_); }

absl::Status Tensor::Realize() const { return client::Realize({*this}); }
absl::Status Tensor::Submit() const { return client::Submit({*this}); }

absl::StatusOr<std::string> Tensor::ToBytes() const {
  UOPD_TRY(status());
  std::string out(static_cast<size_t>(ir::Product(sizes()) * ir::ByteSize(dtype())), '\0');
  UOPD_TRY(ReadInto(out).Wait());
  return out;
}

Future Tensor::Upload() const {
  if (absl::Status s = status(); !s.ok()) return Future(s);
  return state_->graph->Upload(state_);
}

Future Tensor::ReadInto(std::span<char> out) const {
  if (absl::Status s = status(); !s.ok()) return Future(s);
  return state_->graph->Read(state_, out);
}

absl::Status Tensor::CheckReadable(Dtype as) const {
  UOPD_TRY(status());
  if (as == dtype() || (as == Dtype::U8 && dtype() == Dtype::Bool)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("a tensor of ", ir::Name(dtype()), " cannot be read as ", ir::Name(as)));
}

namespace {
// Whether the shapes differ, and NumPy's broadcasting makes `to` of the first one.
bool Broadcasts(ir::Shape from, ir::Shape to) {
  if (ir::SameShape(from, to)) return false;
  const auto both = ir::BroadcastShapes(from, to);
  return both && ir::SameShape(*both, to);
}
}  // namespace

absl::Status Tensor::TryAssign(Operand value) {
  UOPD_TRY(status());
  TensorState& t = *state_;
  NoteUse(*this);
  if (value.tensor() == nullptr) {
    const absl::Status fits = CheckNumber(t.dtype, value);
    if (!fits.ok()) return Located("Assign", value.site(), fits);
  }
  ir::UOpContext& ctx = t.graph->ctx();
  Tensor v = value.tensor() != nullptr
                 ? *value.tensor()
                 : Made(*this,
                        ir::Expand(ctx, Value(NumberLike(*this, t.dtype, value)),
                                   ir::ShapeArg(ctx, ShapeOf(*this))),
                        "Assign", value.site());
  if (v.status().ok() && v.state()->graph == t.graph && Broadcasts(ShapeOf(v), ShapeOf(*this)))
    v = Made(v, ir::Expand(ctx, Value(v), ir::ShapeArg(ctx, ShapeOf(*this))), "Assign",
             value.site());
  UOPD_TRY(v.status());
  if (v.state()->graph != t.graph || v.dtype() != t.dtype ||
      !ir::SameShape(ShapeOf(v), ShapeOf(*this))) {
    return Located("Assign", value.site(),
                   absl::InvalidArgumentError(
                       Cat(v.dtype() != t.dtype ? "assign dtype mismatch: " : "", "a tensor of ",
                           ir::Name(t.dtype), " ", ShapeText(*this), " of one client cannot take ",
                           ir::Name(v.dtype()), " ", ShapeText(v))));
  }
  const absl::Status status = t.graph->Assign(t, Value(v));
  return status.ok() ? status : Located("Assign", value.site(), status);
}

void Tensor::Assign(Operand value) {
  if (!status().ok()) return;
  const absl::Status status = TryAssign(value);
  if (status.ok()) return;
  state_->error = status;
  state_->uop = UOp();
  state_->replaces = UOp();
}

Tensor Tensor::Snapshot() const {
  if (!status().ok()) return *this;
  NoteUse(*this);
  return Tensor(state_->graph->NewAlias(state_, false));
}

bool Tensor::is_view() const { return status().ok() && state_->view.of != nullptr; }

Tensor& Tensor::RequireGrad(bool on) {
  if (!status().ok()) return *this;
  if (on && !ir::IsFloat(state_->dtype)) {
    state_->error = absl::InvalidArgumentError(
        Cat("a tensor of ", ir::Name(state_->dtype), " has no gradient"));
    state_->uop = UOp();
    return *this;
  }
  state_->requires_grad = on;
  // Two leaves with equal graphs (such as zeros of one shape) must not share a gradient.
  if (on && !IsStored(state_->uop)) state_->graph->MakeLeaf(*state_);
  return *this;
}

bool Tensor::requires_grad() const { return grad_wish().value_or(false); }
std::optional<bool> Tensor::grad_wish() const {
  return state_ == nullptr ? std::nullopt : state_->requires_grad;
}
Tensor Tensor::grad() const { return state_ == nullptr ? Tensor() : Tensor(state_->grad); }
void Tensor::ClearGrad() {
  if (state_ != nullptr) state_->grad = nullptr;
}

absl::Status Tensor::SetGrad(const Tensor& grad, Site site) {
  UOPD_TRY(status());
  UOPD_TRY(grad.status());
  if (grad.state()->graph != state_->graph || grad.dims() != dims() || grad.dtype() != dtype()) {
    return Located("SetGrad", site,
                   absl::InvalidArgumentError(Cat("the gradient of a tensor of ", ir::Name(dtype()),
                                                  " ", Text(dims()), " cannot be ",
                                                  ir::Name(grad.dtype()), " ", Text(grad.dims()))));
  }
  state_->grad = grad.state();
  return absl::OkStatus();
}

namespace {

// What Backward of this loss gives a gradient. FAILED_PRECONDITION if there may be more, whose
// graph is gone.
absl::StatusOr<std::vector<Tensor>> LeavesOf(const Tensor& loss) {
  GraphState& graph = *loss.state()->graph;
  std::vector<Tensor> floats;
  std::vector<UOp> values = {Value(loss)};
  for (TensorState* t = graph.oldest(); t != nullptr; t = t->newer) {
    if (!t->uop || !ir::IsFloat(t->dtype)) continue;
    floats.emplace_back(t->shared_from_this());
    values.push_back(t->uop);
  }
  if (graph.HasHistories())
    values = graph.histories().Expand(graph.ctx(), values, graph.buffers()).roots;
  std::vector<bool> below(graph.ctx().size());
  for (UOp u : ir::Toposort(graph.ctx(), values[0])) below[u.id()] = true;
  std::vector<Tensor> asked, all;
  std::vector<const TensorState*> wanted, any;
  bool reached = false;
  for (size_t i = 0; i < floats.size(); ++i) {
    const bool found = below[values[i + 1].id()];
    const std::optional<bool> wish = floats[i].grad_wish();
    if (wish.value_or(false)) {
      asked.push_back(floats[i]);
      wanted.push_back(floats[i].state().get());
      reached |= found;
    } else if (!wish && found) {
      all.push_back(floats[i]);
    } else if (!wish) {
      any.push_back(floats[i].state().get());
    }
  }
  // A leaf by declaration that is not below may have been.
  if (!reached && !all.empty()) wanted.insert(wanted.end(), any.begin(), any.end());
  UOPD_TRY(graph.histories().CheckWhole(graph.ctx(), values[0], wanted, graph.buffers()));
  return reached ? asked : all;
}

}  // namespace

absl::Status Tensor::Backward(Site site) const {
  UOPD_TRY(status());
  const GraphState& graph = *state_->graph;
  auto leaves = LeavesOf(*this);
  if (!leaves.ok()) return Located("Backward", site, leaves.status());
  const std::vector<Tensor>& targets = *leaves;
  // Else a loss that is stored, and whose graph is gone, would be its own leaf.
  if (targets.size() == 1 && targets[0].state() == state_ && IsStored(state_->uop) &&
      !requires_grad())
    return Gradient(*this, {}, site).status();
  UOPD_ASSIGN(std::vector<Tensor> gradients, Gradient(*this, targets, site));
  for (size_t i = 0; i < targets.size(); ++i) {
    auto& grad = targets[i].state()->grad;
    if (grad == nullptr) {
      grad = gradients[i].state();
    } else if (graph.IsOutside(*grad) && !IsStored(grad->uop)) {
      // A replay could not add to it, since it has no memory. The gradient of the recorded call is
      // a tensor of that call.
      grad = (Tensor(grad) + gradients[i]).state();
    } else {  // whoever holds the gradient sees the sum
      Tensor sum(grad);
      UOPD_TRY(sum.TryAssign({sum + gradients[i], site}));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Gradient(const Tensor& loss, std::span<const Tensor> targets,
                                             Site site) {
  UOPD_TRY(loss.status());
  if (loss.size() != 1) {
    return Located("Gradient", site,
                   absl::InvalidArgumentError(
                       Cat("the loss has shape ", Text(loss.dims()), ", not one element")));
  }
  GraphState& graph = *loss.state()->graph;
  std::vector<UOp> values = {Value(loss)};
  std::vector<const TensorState*> asked;
  for (const Tensor& t : targets) {
    UOPD_TRY(t.status());
    if (t.state()->graph != loss.state()->graph) {
      return Located("Gradient", site,
                     absl::InvalidArgumentError("loss and target belong to different clients"));
    }
    values.push_back(t.state()->uop);
    asked.push_back(t.state().get());
  }
  ir::UOpContext& ctx = Ctx(loss);
  // Gradients flow through tensors that were realised. What these hold is read, not computed again.
  ir::Substitution back;
  if (graph.HasHistories()) {
    const Histories& histories = graph.histories();
    Histories::Expansion expansion = histories.Expand(ctx, values, graph.buffers());
    values = std::move(expansion.roots);
    back = std::move(expansion.back);
    const absl::Status whole = histories.CheckWhole(ctx, values[0], asked, graph.buffers());
    if (!whole.ok()) return Located("Gradient", site, whole);
  }
  const std::span<const UOp> wanted = std::span(values).subspan(1);
  if (IsStored(values[0]) && std::ranges::find(wanted, values[0]) == wanted.end()) {
    return Located(
        "Gradient", site,
        absl::FailedPreconditionError("the graph of the loss is gone: it was computed from a "
                                      "tensor that has another value now, or from none "
                                      "that is left"));
  }
  const UOp seed = ir::Expand(ctx, ctx.Const(loss.dtype(), 1), loss.dims());
  UOPD_TRY(graph.Verified(seed));
  UOPD_TRY(graph.Verified(values[0]));
  auto gradients = rules::Gradient(ctx, values[0], seed, wanted, graph.executor().default_device());
  if (!gradients.ok()) return Located("Gradient", site, gradients.status());
  std::vector<Tensor> out;
  for (size_t i = 0; i < targets.size(); ++i) {
    const UOp gradient = ReplaceValues(ctx, (*gradients)[i], back);
    // A value of its own, even if it is the target in another shape.
    auto state = graph.NewTensor(gradient, targets[i].state()->device);
    if (!state->error.ok()) return Located("Gradient", site, state->error);
    out.emplace_back(std::move(state));
  }
  return out;
}

namespace {

absl::StatusOr<std::vector<std::shared_ptr<TensorState>>> StatesOf(
    std::span<const Tensor> tensors) {
  std::vector<std::shared_ptr<TensorState>> states;
  for (const Tensor& t : tensors) {
    UOPD_TRY(t.status());
    states.push_back(t.state());
  }
  return states;
}

}  // namespace

absl::StatusOr<Exported> Export(std::span<const Tensor> tensors) {
  UOPD_ASSIGN(const auto states, StatesOf(tensors));
  if (states.empty()) return absl::InvalidArgumentError("there are no tensors to compute");
  return states[0]->graph->Export(states);
}

absl::Status Realize(std::span<const Tensor> tensors) {
  UOPD_ASSIGN(const auto states, StatesOf(tensors));
  return states.empty() ? absl::OkStatus() : states[0]->graph->Realize(states);
}

absl::Status Submit(std::span<const Tensor> tensors) {
  UOPD_ASSIGN(const auto states, StatesOf(tensors));
  return states.empty() ? absl::OkStatus() : states[0]->graph->Submit(states);
}

namespace {

Tensor Mark(const Tensor& t, Op op, std::string_view what, Site site) {
  return t.status().ok() ? Made(t, Ctx(t).Make(op, t.dtype(), {Value(t)}), what, site) : t;
}

}  // namespace

Tensor Tensor::Detach(Site site) const { return Mark(*this, Op::DETACH, "Detach", site); }
Tensor Tensor::Apart(Site site) const {
  if (!status().ok()) return *this;
  return Made(*this, state_->graph->Distinct(Value(*this), Op::CONTIGUOUS_BACKWARD), "Apart", site);
}
Tensor Tensor::Contiguous(Site site) const {
  return Mark(*this, Op::CONTIGUOUS, "Contiguous", site);
}
Tensor Tensor::ContiguousBackward(Site site) const {
  return Mark(*this, Op::CONTIGUOUS_BACKWARD, "ContiguousBackward", site);
}

}  // namespace uopd::client
