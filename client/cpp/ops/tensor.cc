// SPDX-License-Identifier: MIT
// The parts of Tensor that are no operations: state, errors, reading, assignment, gradients.
#include "uopd/tensor.h"

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

Tensor Made(const Tensor& t, UOp u, std::string_view what, Site site) {
  const auto& graph = t.state()->graph;
  auto state = graph->NewTensor(u, t.state()->device);
  if (!state->error.ok()) state->error = Located(what, site, state->error);
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

Dtype Tensor::dtype() const { return state_ == nullptr ? Dtype::Void : state_->dtype; }

const std::string& Tensor::device() const {
  static const std::string* const none = new std::string;
  return state_ == nullptr ? *none : state_->device;
}

bool Tensor::is_symbolic() const { return state_ != nullptr && state_->symbolic; }

bool Tensor::is_realized() const {
  return status().ok() && IsStored(state_->uop) && !state_->replaces;
}

absl::Status Tensor::Realize() const { return client::Realize({*this}); }
absl::Status Tensor::Submit() const { return client::Submit({*this}); }

absl::StatusOr<std::string> Tensor::ToBytes() const {
  UOPD_TRY(status());
  std::string out(static_cast<size_t>(size() * ir::ByteSize(dtype())), '\0');
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

void Tensor::Assign(Operand value) {
  if (!status().ok()) return;
  TensorState& t = *state_;
  auto fail = [&](absl::Status error) {
    t.error = std::move(error);
    t.uop = UOp();
    t.replaces = UOp();
  };
  if (value.tensor() == nullptr) {
    const absl::Status fits = CheckNumber(t.dtype, value);
    if (!fits.ok()) return fail(Located("Assign", value.site(), fits));
  }
  const Tensor v = value.tensor() != nullptr ? *value.tensor()
                                             : NumberLike(*this, t.dtype, value).Expand(t.dims);
  if (!v.status().ok()) return fail(v.status());
  if (v.state()->graph != t.graph || v.dims() != t.dims || v.dtype() != t.dtype ||
      v.is_symbolic()) {
    return fail(Located("Assign", value.site(),
                        absl::InvalidArgumentError(Cat("a tensor of ", ir::Name(t.dtype), " ",
                                                       Text(t.dims), " of one client cannot take ",
                                                       ir::Name(v.dtype()), " ", Text(v.dims())))));
  }
  if (t.uop == Value(v)) return;
  if (IsStored(t.uop) && !t.replaces) t.replaces = t.uop;
  t.uop = Value(v);
  t.answer = {};
  t.places.clear();
}

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
  if (on && !IsStored(state_->uop)) {
    state_->uop = state_->graph->Distinct(state_->uop);
    state_->error = state_->graph->Verified(state_->uop);
  }
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

// What Backward of this loss gives a gradient.
std::vector<Tensor> LeavesOf(const Tensor& loss) {
  const UOp value = Value(loss);
  std::vector<bool> below(Ctx(loss).size());
  for (UOp u : ir::Toposort(Ctx(loss), value)) below[u.id()] = true;
  std::vector<Tensor> asked, all;
  bool reached = false;
  for (TensorState* t = loss.state()->graph->oldest(); t != nullptr; t = t->newer) {
    if (!t->uop) continue;
    if (t->requires_grad.value_or(false)) {
      asked.emplace_back(t->shared_from_this());
      reached |= below[t->uop.id()];
    } else if (!t->requires_grad && below[t->uop.id()] && ir::IsFloat(t->dtype)) {
      all.emplace_back(t->shared_from_this());
    }
  }
  return reached ? asked : all;
}

}  // namespace

absl::Status Tensor::Backward(Site site) const {
  UOPD_TRY(status());
  const std::vector<Tensor> targets = LeavesOf(*this);
  UOPD_ASSIGN(std::vector<Tensor> gradients, Gradient(*this, targets, site));
  for (size_t i = 0; i < targets.size(); ++i) {
    auto& grad = targets[i].state()->grad;
    const Tensor sum = grad == nullptr ? gradients[i] : Tensor(grad) + gradients[i];
    grad = sum.state();
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
  if (IsStored(Value(loss))) {
    return Located("Gradient", site,
                   absl::FailedPreconditionError("the loss has been realised: its graph is gone"));
  }
  std::vector<UOp> wanted;
  for (const Tensor& t : targets) {
    UOPD_TRY(t.status());
    if (t.state()->graph != loss.state()->graph) {
      return Located("Gradient", site,
                     absl::InvalidArgumentError("loss and target belong to different clients"));
    }
    wanted.push_back(Value(t));
  }
  ir::UOpContext& ctx = Ctx(loss);
  const UOp seed = ir::Expand(ctx, ctx.Const(loss.dtype(), 1), loss.dims());
  UOPD_TRY(loss.state()->graph->Verified(seed));
  auto gradients = rules::Gradient(ctx, Value(loss), seed, wanted);
  if (!gradients.ok()) return Located("Gradient", site, gradients.status());
  std::vector<Tensor> out;
  for (size_t i = 0; i < targets.size(); ++i) {
    out.push_back(Made(targets[i], (*gradients)[i], "Gradient", site));
    UOPD_TRY(out.back().status());
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
