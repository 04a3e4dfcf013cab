// SPDX-License-Identifier: MIT
#include "client/cpp/graph/graph_state.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "client/cpp/jit/recording.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::client {
namespace {

constexpr size_t kCompactFloor = 64 * 1024;
// Smaller contents are kept until a request needs them: many are never needed, or are computed
// with on the way.
constexpr size_t kSendAtOnce = 4 << 20;

using ir::Op;
using ir::UOp;

std::shared_ptr<TensorState> Failed(std::shared_ptr<GraphState> graph, absl::Status error) {
  auto out = std::make_shared<TensorState>(std::move(graph));
  out->error = std::move(error);
  return out;
}

}  // namespace

bool IsStored(UOp u) {
  if (u.Is(Op::BUFFER)) return true;
  return u.Is(Op::MULTI) &&
         std::all_of(u.srcs().begin(), u.srcs().end(), [](UOp s) { return s.Is(Op::BUFFER); });
}

std::vector<uint64_t> NumbersOf(UOp stored) {
  if (stored.Is(Op::BUFFER)) return {static_cast<uint64_t>(stored.slot())};
  std::vector<uint64_t> out;
  for (UOp s : stored.srcs()) out.push_back(static_cast<uint64_t>(s.slot()));
  return out;
}

TensorState::TensorState(std::shared_ptr<GraphState> g) : graph(std::move(g)) {
  if (graph == nullptr) return;
  since = ++graph->now_;
  if (!graph->recordings_.empty()) graph->NoteWriter(*this);
  older = graph->newest_;
  (older != nullptr ? older->newer : graph->oldest_) = this;
  graph->newest_ = this;
}

TensorState::~TensorState() {
  if (graph == nullptr) return;
  graph->dropped_ = true;
  if (view.of != nullptr || view.first != nullptr) EndView(*this);
  (older != nullptr ? older->newer : graph->oldest_) = newer;
  (newer != nullptr ? newer->older : graph->newest_) = older;
}

GraphState::GraphState(std::shared_ptr<Executor> executor, ClientOptions options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      ctx_(std::make_unique<ir::UOpContext>()),
      unchecked_(*ctx_),
      compact_at_(kCompactFloor),
      histories_(options_.history_bytes) {}

std::shared_ptr<TensorState> GraphState::NewTensor(UOp u, std::string device) {
  if (absl::Status s = Verified(u); !s.ok()) return Failed(shared_from_this(), s);
  auto out = std::make_shared<TensorState>(shared_from_this());
  if (!u.Is(Op::BUFFER)) ++values_made_;
  out->uop = u;
  const ir::Shape shape = *ctx_->ShapeOf(u);
  auto dims = ir::StaticDims(shape);
  out->symbolic = !dims;
  out->dims = dims ? std::move(*dims) : ir::MaxDims(*ctx_, shape);
  out->dtype = u.dtype();
  if (!InPieces(u)) out->device = DeviceOf(u, std::move(device));
  return out;
}

std::shared_ptr<TensorState> GraphState::NewAlias(const std::shared_ptr<TensorState>& t,
                                                  bool view) {
  auto out = std::make_shared<TensorState>(shared_from_this());
  ++values_made_;
  out->uop = t->uop;
  out->since = t->since;  // its value is as old
  out->dims = t->dims;
  out->symbolic = t->symbolic;
  out->dtype = t->dtype;
  out->device = t->device;
  if (!t->replaces) {
    out->answer = t->answer;
    out->places = t->places;
    out->version = t->version;
  }
  if (!t->requires_grad.value_or(true)) out->requires_grad = false;
  if (view) BeginView(*out, *t, UOp());
  return out;
}

UOp GraphState::InPiecesOf(UOp like, UOp value) {
  if (!InPieces(like)) return value;
  const ir::Layout to = LayoutOf(like);
  if (LayoutOf(value) == to) return value;
  return ir::Divided(*ctx_, value, to);
}

absl::Status GraphState::Assign(TensorState& t, UOp value, UOp written) {
  UOPD_TRY(CheckSamePlace(t.uop, value));
  // The value is the memory of another tensor, or a leaf without memory. A node of its own keeps
  // the gradients of the two tensors apart before the value is copied. No gradient flows from a
  // leaf by declaration to the other tensor.
  const bool of_other = IsStored(value) || (value.Is(Op::CONTIGUOUS) && value.tag() != 0);
  if (of_other && ir::IsFloat(t.dtype) && value != t.uop) {
    const Op apart = t.requires_grad.value_or(false) ? Op::DETACH : Op::CONTIGUOUS_BACKWARD;
    const UOp memory = t.replaces ? t.replaces : t.uop;
    value = IsStored(memory)  // in a loop the same node each time
                ? ctx_->Make(apart, t.dtype, {value}, {},
                             -1 - static_cast<int64_t>(NumbersOf(memory)[0]))
                : Distinct(value, apart);
  }
  // A view may be older than the assignments to what it is a view of: then its own value is news
  // there.
  const bool own = t.uop == value;
  std::vector<std::pair<TensorState*, UOp>> changes;
  // Nothing changes now, but a replay would have to write it.
  const auto same = [this](const TensorState& state) {
    if (IsStored(state.uop)) return;
    for (Recording* r : all_recordings_) r->NoteAssigned(state);
  };
  if (own)
    same(t);
  else
    changes.emplace_back(&t, value);
  std::vector<UOp> steps;
  for (const TensorState* part = &t; part->view.of != nullptr && !part->view.paused;
       part = part->view.of) {
    steps.insert(steps.end(), part->view.steps.begin(), part->view.steps.end());
    TensorState& whole = *part->view.of;
    if (whole.watchers != 0 && IsOutside(*part)) NoteUse(Tensor(whole.shared_from_this()));
    if (!whole.error.ok()) continue;
    if (own && PartOf(*ctx_, whole.uop, steps) == value) {
      same(whole);
      continue;
    }
    UOp given = value;
    if (written) {
      const UOp part = PartOf(*ctx_, whole.uop, steps);
      if (part != t.uop) given = ir::Where(*ctx_, written, value, part);
    }
    changes.emplace_back(&whole, Written(*ctx_, whole.uop, steps, given));
  }
  for (const auto& [state, now] : changes) {
    if (!InConstant(*state) || (Recorder() == nullptr && !IsState(*state))) continue;
    return absl::InvalidArgumentError(
        "a constant cannot be the state of a recorded function: assign to a copy of it");
  }
  for (auto& [state, now] : changes) {
    // A tensor in pieces stays where it is; a part of it may be on other devices than its new
    // value.
    if (state->view.of == nullptr || state->view.steps.empty()) now = InPiecesOf(state->uop, now);
    UOPD_TRY(Verified(now));
  }
  ++now_;
  ++values_made_;
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto& [state, now] = changes[i];
    for (Recording* r : all_recordings_) r->NoteAssigned(*state);
    NoteWriter(*state);
    // A view that is all of what it is a view of shares the memory, which the latter writes. State
    // of a recorded function has its own.
    const bool shares =
        !IsState(*state) &&
        std::any_of(changes.begin() + static_cast<std::ptrdiff_t>(i) + 1, changes.end(),
                    [old = state->uop](const auto& change) { return change.first->uop == old; });
    if (IsStored(state->uop) && !state->replaces && !shares && !InConstant(*state))
      state->replaces = state->uop;
    state->uop = now;
    state->since = now_;
    state->answer = {};
    state->places.clear();
  }
  return absl::OkStatus();
}

std::shared_ptr<TensorState> GraphState::NewInput(ir::Dtype dtype, ir::Dims dims,
                                                  std::string device, std::string bytes) {
  if (bytes.empty()) {  // the daemon has no empty buffers
    return NewTensor(ir::Expand(*ctx_, ctx_->Const(dtype, 0), dims), std::move(device));
  }
  NoteContents(bytes.size());
  const UOp buffer = NewBuffer(dtype, dims, device, bytes.size());
  buffers_.at(static_cast<uint64_t>(buffer.slot())).data =
      std::make_shared<const std::string>(std::move(bytes));
  return NewTensor(buffer, std::move(device));
}

bool GraphState::SendsAtOnce(size_t bytes) const {
  return bytes >= kSendAtOnce && SendsConstants();
}

bool GraphState::SendsConstants() const {
  return Recorder() == nullptr && executor_->uploads_at_once();
}

std::shared_ptr<TensorState> GraphState::NewUpload(ir::Dtype dtype, ir::Dims dims,
                                                   std::string device, std::string_view bytes) {
  Poll();
  FreeDropped();
  const UOp buffer = NewBuffer(dtype, dims, device, bytes.size());
  const auto number = static_cast<uint64_t>(buffer.slot());
  const uint64_t handle = buffers_.at(number).handle;
  Sent sent;
  sent.answer.future = executor_->UploadCopy(handle, device, bytes);
  sent.made.emplace_back(number, handle);
  ClientBuffer& b = buffers_.at(number);
  b.on_daemon = true;
  b.maker = sent.answer.future;
  sent_.push_back(std::move(sent));
  stats_.uploaded_bytes += bytes.size();
  return NewTensor(buffer, std::move(device));
}

absl::StatusOr<std::vector<std::shared_ptr<TensorState>>> GraphState::NewConstants(
    std::span<const Constant> constants, const std::string& device) {
  Poll();
  FreeDropped();
  std::vector<Content> contents;
  std::vector<UOp> buffers;
  for (const Constant& c : constants) {
    buffers.push_back(NewBuffer(c.dtype, c.dims, device, c.bytes.size()));
    contents.push_back(
        {buffers_.at(static_cast<uint64_t>(buffers.back().slot())).handle, device, c.bytes});
  }
  const absl::Status sent = executor_->UploadContents(contents);
  std::vector<std::shared_ptr<TensorState>> out;
  std::vector<uint64_t> unused;
  for (const UOp buffer : buffers) {
    const auto number = static_cast<uint64_t>(buffer.slot());
    ClientBuffer& b = buffers_.at(number);
    if (sent.ok()) {
      b.on_daemon = b.constant = true;
      out.push_back(NewTensor(buffer, device));
    } else {
      unused.push_back(b.handle);
      Remove(number);
    }
  }
  executor_->Free(std::move(unused));
  UOPD_TRY(sent);
  return out;
}

bool GraphState::InConstant(const TensorState& t) const {
  if (!IsStored(t.uop)) return false;
  return std::ranges::any_of(NumbersOf(t.uop),
                             [this](uint64_t number) { return buffers_.at(number).constant; });
}

void GraphState::FreeDropped() {
  if (!dropped_ || !recordings_.empty()) return;
  Plan plan;
  FindReaders(plan);
  executor_->Free(RemoveUnneeded(plan));
  dropped_ = false;
}

// Looking through all buffers takes time, so what is left then may be made once more before the
// next time.
void GraphState::NoteContents(uint64_t bytes) {
  constexpr uint64_t kOfBuffer = 512;  // about what a small buffer costs
  contents_ += bytes + kOfBuffer;
  if (contents_ < most_contents_ || !dropped_ || !recordings_.empty()) return;
  FreeDropped();
  contents_ = 0;
  most_contents_ = kLeastContents;
  for (uint64_t number = 0; number < buffers_.end(); ++number) {
    if (!buffers_.Has(number)) continue;
    if (const auto& data = buffers_.at(number).data) most_contents_ += data->size() + kOfBuffer;
  }
}

UOp GraphState::NewBuffer(ir::Dtype dtype, const ir::Dims& dims, std::string_view device,
                          uint64_t bytes) {
  ClientBuffer b;
  b.handle = executor_->NewHandle();
  b.dtype = dtype;
  b.bytes = bytes;
  b.device = device;
  const auto slot = static_cast<int64_t>(buffers_.Add(std::move(b), dims));
  return ir::Buffer(*ctx_, slot, dtype, ir::ShapeArg(*ctx_, dims), ir::AddrSpace::GLOBAL, device);
}

std::shared_ptr<TensorState> GraphState::NewZeros(ir::Dtype dtype, const ir::Dims& dims,
                                                  std::string device, uint64_t bytes) {
  const UOp buffer = NewBuffer(dtype, dims, device, bytes);
  buffers_.at(static_cast<uint64_t>(buffer.slot())).zeros = true;
  return NewTensor(buffer, std::move(device));
}

// Nodes are checked in the order of their ids, which puts sources first. A node with a bad source
// has the error of that source.
absl::Status GraphState::Verified(UOp u) {
  for (; verified_ < ctx_->size(); ++verified_) {
    const UOp v = ctx_->node(static_cast<uint32_t>(verified_));
    absl::Status s;
    for (UOp src : v.srcs()) {
      if (auto it = bad_.find(src.id()); it != bad_.end() && s.ok()) s = it->second;
    }
    if (s.ok()) s = ir::VerifyNode(*ctx_, v, ir::Level::kClient);
    placed_anywhere_ |= v.Is(Op::COPY) || (v.Is(Op::BUFFER) && !v.text().empty());
    if (!s.ok()) bad_.emplace(v.id(), s);
    multi_ |= v.Is(Op::MULTI);
  }
  auto it = bad_.find(u.id());
  return it == bad_.end() ? absl::OkStatus() : it->second;
}

// Without the name of the default device nothing is known: then the daemon checks it.
const GraphState::Place& GraphState::PlaceOf(UOp u) {
  static const Place unknown;
  const std::string_view main = executor_->default_device();
  if (!placed_anywhere_ || main.empty()) return unknown;
  std::vector<const ir::Layout*> sources;
  for (UOp v :
       ir::Toposort(*ctx_, std::span(&u, 1), [&](UOp w) { return !places_.contains(w.id()); })) {
    if (places_.contains(v.id())) continue;
    Place place;
    sources.clear();
    for (UOp s : v.srcs()) {
      const Place& source = places_.at(s.id());
      sources.push_back(&source.layout);
      if (place.error.ok()) place.error = source.error;
    }
    if (place.error.ok()) {
      auto rule = ir::RuleOf(*ctx_, v, sources, main);
      if (rule.ok())
        place.layout = std::move(rule->result);
      else
        place.error = rule.status();
    }
    places_.emplace(v.id(), std::move(place));
  }
  return places_.at(u.id());
}

std::string GraphState::DeviceOf(UOp u, std::string device) {
  const ir::Layout& layout = PlaceOf(u).layout;
  const std::string_view main = executor_->default_device();
  if (layout.anywhere() || layout.devices[0] == (device.empty() ? main : device)) return device;
  return layout.devices[0] == main ? std::string() : std::string(layout.devices[0]);
}

absl::Status GraphState::CheckSamePlace(UOp to, UOp from) {
  const Place &a = PlaceOf(to), &b = PlaceOf(from);
  UOPD_TRY(b.error);
  if (a.layout.anywhere() || b.layout.anywhere() || a.layout.pieces || b.layout.pieces ||
      a.layout.devices == b.layout.devices)
    return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("a tensor on ", a.layout.devices[0],
                                        " cannot take a value on ", b.layout.devices[0],
                                        ": move it there first"));
}

const ir::Layout& GraphState::LayoutOf(UOp u) {
  const std::vector<UOp> fresh =
      ir::Toposort(*ctx_, std::span(&u, 1), [&](UOp v) { return !layouts_.contains(v.id()); });
  std::vector<const ir::Layout*> sources;
  for (UOp v : fresh) {
    if (layouts_.contains(v.id())) continue;
    sources.clear();
    for (UOp s : v.srcs()) sources.push_back(&layouts_.at(s.id()));
    auto rule = ir::RuleOf(*ctx_, v, sources, "");
    // An error here is left to the daemon, which knows its default device.
    ir::Layout layout;
    if (rule.ok())
      layout = std::move(rule->result);
    else
      layout = *sources[0];
    layouts_.emplace(v.id(), std::move(layout));
  }
  return layouts_.at(u.id());
}

UOp GraphState::Distinct(UOp u, Op op) { return ctx_->Make(op, u.dtype(), {u}, {}, next_tag_++); }

void GraphState::MakeLeaf(TensorState& t) {
  const UOp old = t.uop;
  const bool alone = StandsForItsValue(t);
  t.uop = Distinct(old);
  t.error = Verified(t.uop);
  if (!t.error.ok() || !alone) return;
  const ir::Substitution map = {{old.id(), t.uop}};
  for (TensorState* u = oldest_; u != nullptr; u = u->newer) {
    if (u == &t || !u->uop || IsStored(u->uop)) continue;
    const bool made_of_it = u->since > t.since && u->uop.id() > old.id();
    if (u->uop == old || (made_of_it && ir::Reaches(*ctx_, u->uop, old)))
      u->uop = ReplaceValues(*ctx_, u->uop, map);
  }
  histories_.Renamed(*ctx_, old, t.uop, t.since);
}

std::string GraphState::TakePosition(uint64_t n) {
  const uint64_t position[2] = {next_counter_, options_.seed};
  next_counter_ += n;
  return {reinterpret_cast<const char*>(position), sizeof position};
}

void GraphState::Compact() {
  if (ctx_->size() < compact_at_) return;
  auto fresh = std::make_unique<ir::UOpContext>();
  absl::flat_hash_map<uint32_t, UOp> map;
  for (TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (t->uop) t->uop = ir::CopyTo(*ctx_, t->uop, *fresh, map);
    if (t->replaces) t->replaces = ir::CopyTo(*ctx_, t->replaces, *fresh, map);
  }
  for (TensorState* t = oldest_; t != nullptr; t = t->newer) {
    for (UOp& step : t->view.steps) step = StepIn(*fresh, step, *ctx_, map);
  }
  histories_.MoveTo(*ctx_, *fresh, map);
  unchecked_.reset();
  ctx_ = std::move(fresh);
  unchecked_.emplace(*ctx_);
  verified_ = 0;  // nodes are verified again when they are used, which memoises their shapes again
  bad_.clear();
  layouts_.clear();
  places_.clear();
  wire_.clear();
  forms_.clear();
  for (auto& reads : reads_) reads.clear();
  compact_at_ = 2 * ctx_->size() + kCompactFloor;
  ++stats_.compactions;
}

}  // namespace uopd::client
