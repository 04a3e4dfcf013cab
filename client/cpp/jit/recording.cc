// SPDX-License-Identifier: MIT
#include "client/cpp/jit/recording.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "client/cpp/graph/build.h"
#include "client/cpp/graph/caller.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::client {

// What GraphState knows of recordings.

Recording* GraphState::Recorder() const {
  if (recordings_.empty()) return nullptr;
  const Caller* const me = Caller::Current().get();
  const auto mine =
      std::ranges::find_if(recordings_, [me](Recording* r) { return r->caller() == me; });
  return mine == recordings_.end() ? nullptr : *mine;
}

void GraphState::NoteWriter(TensorState& tensor) const {
  const Recording* const r = Recorder();
  tensor.writer = r != nullptr ? r->id() : recordings_.empty() ? 0 : latest_recording_ + 1;
}

bool GraphState::IsOutside(const TensorState& tensor) const {
  const Recording* const r = Recorder();
  return r != nullptr && tensor.writer != r->id();
}

bool GraphState::IsOfOthers(const TensorState& tensor) const {
  if (recordings_.empty() || tensor.writer == 0) return false;
  const Recording* const r = Recorder();
  if (tensor.writer % 2 != 0) return r != nullptr && tensor.writer > r->id();
  return std::ranges::any_of(recordings_, [&](const Recording* other) {
    return other != r && other->id() == tensor.writer;
  });
}

void GraphState::NoteTaken(const TensorState& tensor) const {
  for (Recording* r : recordings_) {
    if (r->id() == tensor.writer) r->NoteTaken(tensor);
  }
}

Recording::Recording(std::shared_ptr<GraphState> graph)
    : graph_(std::move(graph)), caller_(Caller::Current()), id_(graph_->latest_recording_ += 2) {
  graph_->all_recordings_.push_back(this);
}

void Recording::NoteTaken(const TensorState& tensor) {
  if (!taken_.ok()) return;
  taken_ = Misused(Cat("another thread has computed a tensor (", Shown(tensor),
                       ") that the function made while it was recorded"));
}

void Recording::Leave() {
  std::erase(graph_->recordings_, this);
  for (const auto& watched : watched_) {
    if (const auto t = watched.lock()) --t->watchers;
  }
  watched_.clear();
  for (const auto& [view, input] : views_) {
    if (const auto t = view.lock()) t->view.paused = false;
  }
}

std::vector<Tensor> Recording::Arguments(std::span<const Tensor> inputs) const {
  std::vector<Tensor> out(inputs.begin(), inputs.end());
  for (Tensor& t : out) t.recording_ = id_;
  return out;
}

void Recording::Watch(std::span<const Tensor> inputs) {
  const auto watch = [this](TensorState& t) {
    ++t.watchers;
    watched_.push_back(t.weak_from_this());
  };
  for (const Tensor& t : inputs) {
    for (TensorState* whole = t.state().get(); whole != nullptr; whole = whole->view.of)
      watch(*whole);
  }
  for (TensorState* t = graph_->oldest(); t != nullptr; t = t->newer) {
    if (t->uop && !IsStored(t->uop) && !graph_->IsOfOthers(*t)) watch(*t);
  }
}

void GraphState::NoteUse(const Tensor& tensor) const {
  if (Recording* const r = Recorder()) r->NoteUse(tensor);
}

void Recording::NoteUse(const Tensor& tensor) {
  const auto& state = tensor.state();
  if (tensor.recording() == id_) {
    for (Input& input : inputs_) input.used_late |= assigns_state_ && input.given.lock() == state;
    return;
  }
  for (Input& input : inputs_) {
    const auto given = input.given.lock();
    for (const TensorState* t = given.get(); t != nullptr; t = t->view.of) {
      if (t != state.get()) continue;
      (t == given.get() ? input.named : input.whole_named) = true;
    }
  }
  if (!state->uop || IsStored(state->uop)) return;
  auto& list = graph_->ReadsOf(state->uop).empty() ? used_ : touched_;
  if (std::ranges::none_of(list, [&](const auto& u) { return u.lock() == state; }))
    list.push_back(state);
}

bool Recording::Touches(const TensorState& t) const {
  return std::ranges::any_of(touched_, [&](const auto& u) { return u.lock().get() == &t; });
}

void Recording::NoteApart(const TensorState& t) {
  if (IsStored(t.uop) || !Touches(t)) return;
  for (uint64_t number : graph_->ReadsOf(t.uop)) fixed_.Insert(number);
}

void Recording::NoteWritten(uint64_t number) {
  if (!spoiled_.ok() || !fixed_.Contains(number)) return;
  spoiled_ = Misused(
      "the function computes with a tensor that was made outside of it and not realised, and what "
      "that tensor is computed from has been assigned since. Realise it before the function is "
      "recorded");
}

void Recording::NoteAssigned(const TensorState& t) {
  const bool used = std::ranges::any_of(used_, [&](const auto& u) { return u.lock().get() == &t; });
  const bool mine = graph_->Recorder() == this;
  assigns_state_ |= mine && Knows(t);
  const bool outside = t.writer != id_ && mine && !IsStored(t.uop);
  if (!used && !outside) return;
  spoiled_.Update(Misused(Cat("a tensor (", Shown(t),
                              ") that was made outside of the function and not realised is "
                              "assigned, and the function uses it. Realise it before the "
                              "function is recorded")));
}

absl::StatusOr<std::unique_ptr<Recording>> Recording::Begin(const Client& client,
                                                            std::span<const Tensor> inputs) {
  std::unique_ptr<Recording> out(new Recording(client.graph_));
  GraphState& graph = *out->graph_;
  if (graph.Recorder() != nullptr)
    return Misused(
        "having TinyJit inside another TinyJit is not supported: another function is being "
        "recorded");
  std::vector<std::shared_ptr<TensorState>> assigned;
  for (TensorState* t = graph.oldest(); t != nullptr; t = t->newer) {
    if (t->uop && t->replaces && !graph.IsOfOthers(*t)) assigned.push_back(t->shared_from_this());
  }
  UOPD_TRY(graph.Submit(assigned));
  UOPD_TRY(SeparateAliases(graph));
  UOPD_ASSIGN(const std::vector<uint64_t> numbers, out->NumbersOfInputs(inputs));
  for (const Tensor& t : inputs) {
    TensorState& state = *t.state();
    out->inputs_.push_back(Describe(t));
    out->inputs_.back().pieces = NumbersOf(state.uop).size();
    out->inputs_.back().given = t.state();
    // What it is a view of is no argument: it gets the new values after the function
    // (WriteThrough).
    if (state.view.of == nullptr || state.view.paused) continue;
    state.view.paused = true;
    out->views_.emplace_back(t.state(), out->inputs_.size() - 1);
  }
  for (uint64_t number : numbers) {
    const auto position = static_cast<int>(out->input_of_.size());
    if (!out->input_of_.emplace(number, position).second)
      return Misused("two inputs are the same tensor");
  }
  // A lazy tensor that was made from an input before the function gets memory now. A replay must
  // not compute it from another input.
  NumberSet of_inputs;
  for (uint64_t number : numbers) of_inputs.Insert(number);
  std::vector<TensorState*> values = graph.Readers(of_inputs, {});
  std::erase_if(values, [](const TensorState* t) { return IsStored(t->uop); });
  UOPD_TRY(graph.SubmitApart(values));
  // Memory that reads as zeros and is older than the recording is not cleared again.
  NumberSet of_others;  // which clear theirs themselves
  for (TensorState* t = graph.oldest(); t != nullptr; t = t->newer) {
    if (!t->uop || !IsStored(t->uop) || !graph.IsOfOthers(*t)) continue;
    for (uint64_t number : NumbersOf(t->uop)) of_others.Insert(number);
  }
  std::vector<uint64_t> all;
  for (uint64_t number = 0; number < graph.buffers_.end(); ++number) {
    if (graph.buffers_.Has(number) && !of_others.Contains(number)) all.push_back(number);
  }
  UOPD_TRY(graph.MakeZeros(all));
  for (TensorState* t = graph.oldest(); t != nullptr; t = t->newer) {
    if (!t->uop || !IsStored(t->uop)) continue;
    out->AddKnown(*t);
  }
  out->Watch(inputs);
  graph.recordings_.push_back(out.get());
  return out;
}

Recording::~Recording() {
  Leave();
  std::erase(graph_->all_recordings_, this);
}

bool Recording::Knows(const TensorState& t) const {
  const auto at = known_at_.find(&t);  // an address may be that of a tensor that is gone
  return at != known_at_.end() && known_[at->second].state.lock().get() == &t;
}

void Recording::AddKnown(TensorState& t) {
  known_at_[&t] = known_.size();
  known_.push_back({t.shared_from_this(), NumbersOf(t.uop)});
}

absl::Status Recording::SeparateAliases(GraphState& graph) {
  NumberSet seen;
  std::vector<TensorState*> aliases;
  for (TensorState* t = graph.oldest(); t != nullptr; t = t->newer) {
    if (!t->uop || t->pinned || !IsStored(t->uop)) continue;
    const uint64_t number = NumbersOf(t->uop)[0];
    if (!seen.Contains(number)) {
      seen.Insert(number);
    } else if (std::ranges::none_of(graph.all_recordings_,
                                    [&](const Recording* r) { return r->Knows(*t); })) {
      aliases.push_back(t);
    }
  }
  return graph.SubmitApart(aliases);
}

void Recording::NoteUsed(std::span<const ir::UOp> values) {
  absl::flat_hash_set<uint32_t> nodes;
  for (ir::UOp u : ir::Toposort(graph_->ctx(), values)) nodes.insert(u.id());
  for (TensorState* t = graph_->oldest(); t != nullptr; t = t->newer) {
    // The function may have made an equal value itself. Tensors that another thread made since are
    // not watched.
    if (!t->uop || (t->watchers != 0 && !Touches(*t))) continue;
    if (!t->pinned && t->writer != id_ && !IsStored(t->uop) && nodes.contains(t->uop.id()) &&
        graph_->WillBeStored(t->uop)) {
      used_.push_back(t->weak_from_this());
      for (uint64_t number : graph_->ReadsOf(t->uop)) fixed_.Insert(number);
    }
  }
}

Recording::Input Recording::Describe(const Tensor& t) {
  Input out = {t.dtype(), t.dims(), t.device(), t.devices(), t.shard_axis(), t.shard_sizes(), ""};
  if (t.is_symbolic()) {
    for (ir::UOp d : ShapeOf(t)) Append(out.form, ir::SizeText(d), ";");
  }
  return out;
}

absl::StatusOr<std::vector<uint64_t>> Recording::NumbersOfInputs(std::span<const Tensor> inputs) {
  std::vector<std::shared_ptr<TensorState>> states;
  for (size_t i = 0; i < inputs.size(); ++i) {
    UOPD_TRY(WithFrame(inputs[i].status(), Cat("taking input ", i, " of a Jit")));
    if (inputs[i].state()->graph != graph_)
      return absl::InvalidArgumentError(Cat("Jit: input ", i, " belongs to another client"));
    if (inputs[i].size() == 0)
      return absl::InvalidArgumentError(Cat("Jit: input ", i, " has no elements"));
    states.push_back(inputs[i].state());
  }
  UOPD_TRY(graph_->Submit(states));
  std::vector<uint64_t> out;
  for (const auto& t : states) {
    for (uint64_t number : NumbersOf(t->uop)) out.push_back(number);
  }
  return out;
}

std::vector<bool> Recording::WrittenSlots(ir::UOpContext& ctx, ir::UOp sink, size_t slots) {
  std::vector<bool> written(slots);
  for (ir::UOp u : ir::Toposort(ctx, sink)) {
    if (!u.Is(ir::Op::STORE)) continue;
    for (ir::UOp base : ir::BasesOf(ctx, u.src(0)))
      written[static_cast<size_t>(base.slot())] = true;
  }
  return written;
}

void Recording::AddVariables(ir::UOpContext& ctx, ir::UOp sink, Recorded& recorded) {
  for (ir::UOp v : ir::Variables(ctx, sink)) {
    recorded.variables.emplace_back(v.text());
    const bool is_float = ir::IsFloat(v.dtype());
    recorded.floats.push_back(is_float);
    recorded.ranges.emplace_back(is_float ? 0 : v.ints()[0], is_float ? 0 : v.ints()[1]);
  }
}

void Recording::Add(const Call& call, std::span<const uint64_t> numbers, ir::UOpContext& ctx,
                    ir::UOp sink, std::span<const SizeCondition> conditions) {
  Recorded& recorded = calls_.emplace_back();
  recorded.call = call;
  recorded.call.free_buffers.clear();
  const std::vector<bool> written = WrittenSlots(ctx, sink, numbers.size());
  std::vector<uint64_t> below(numbers.begin(), numbers.end());
  if (calls_.size() > 1 && before_ != nullptr)
    below.insert(below.end(), before_->begin(), before_->end());
  if (calls_.size() == 1 || before_ != nullptr)
    before_ = graph_->histories_.AllBelow(below, graph_->buffers_);
  for (size_t i = 0; i < numbers.size(); ++i) {
    Slot& slot = recorded.slots.emplace_back();
    Argument& a = recorded.call.arguments[i];
    const auto input = input_of_.find(numbers[i]);
    slot.number = numbers[i];
    slot.input = input == input_of_.end() ? -1 : input->second;
    slot.written = written[i];
    slot.made = a.made;
    slot.counters = graph_->buffers_.at(numbers[i]).counters;
    if (slot.written && slot.input < 0) written_.Insert(slot.number);
    if (slot.written && slot.input >= 0) {
      writes_inputs_ = true;
      written_inputs_.Insert(static_cast<uint64_t>(slot.input));
    }
    slot.resend = a.data != nullptr && slot.input < 0;
    if (!slot.resend) a.data = nullptr;
  }
  AddVariables(ctx, sink, recorded);
  for (const std::string& name : recorded.variables) {
    if (name.ends_with(kAnotherValue)) two_values_ = name;
  }
  copied_.clear();
  const auto copy = [&](ir::UOp size) { return ir::CopyTo(ctx, size, sizes_, copied_); };
  for (const SizeCondition& c : conditions)
    recorded.conditions.push_back({copy(c.start), copy(c.size), copy(c.whole)});
}

absl::Status Recording::CheckState(const char* when, const NumberSet* maybe_used) const {
  for (const Known& known : known_) {
    const auto t = known.state.lock();
    if (t == nullptr) continue;
    const bool of_others = t->writer != 0 && t->writer != id_;
    if (maybe_used != nullptr && of_others &&
        std::ranges::none_of(known.numbers, [&](uint64_t n) { return maybe_used->Contains(n); }))
      continue;
    if (!t->error.ok()) return t->error;
    if (!IsStored(t->uop) || t->replaces) {
      return Misused(Cat("a tensor (", Shown(*t), ") was assigned ", when,
                         " and is not realised: submit it, or return it"));
    }
    if (NumbersOf(t->uop) != known.numbers) {
      return Misused(Cat("a tensor (", Shown(*t), ") got other memory ", when,
                         ": another tensor needs its old contents. A replay would write the old "
                         "memory. Drop that tensor, or assign a value to this one in place"));
    }
  }
  return absl::OkStatus();
}

void Recording::Separate(TensorState& output) const {
  // A tensor that is older than the function stays what it is: it is computed apart, and no replay
  // writes it.
  if (Knows(output) || output.writer != id_) return;
  LeaveView(output);
  if (!IsStored(output.uop) || output.replaces) return;
  const uint64_t number = NumbersOf(output.uop)[0];
  for (const Recorded& recorded : calls_) {
    for (const Slot& slot : recorded.slots) {
      if (slot.number == number && slot.written && slot.input < 0) return;
    }
  }
  output.uop = graph_->Distinct(output.uop);
  output.answer = {};
  output.places.clear();
}

absl::Status Recording::End(std::span<const Tensor> outputs) {
  std::vector<std::shared_ptr<TensorState>> states;
  for (const Tensor& t : outputs) {
    UOPD_TRY(t.status());
    if (t.state()->graph != graph_) return Misused("an output belongs to another client");
    states.push_back(t.state());
    Separate(*t.state());
  }
  // State that the function assigned and does not return.
  for (const Known& known : known_) {
    const auto t = known.state.lock();
    if (t != nullptr && t->error.ok() && t->replaces && !graph_->IsOfOthers(*t))
      states.push_back(t);
  }
  UOPD_TRY(graph_->Submit(states));
  Leave();
  if (calls_.empty()) return Misused("the function computes nothing");
  UOPD_TRY(taken_);
  UOPD_TRY(spoiled_);
  if (!two_values_.empty()) {
    return Misused(Cat("variable ", two_values_.substr(0, two_values_.find(kAnotherValue)),
                       " has two values in the function, and a replay gives it one"));
  }
  NumberSet of_calls;
  for (Recorded& recorded : calls_) {
    for (size_t i = 0; i < recorded.slots.size(); ++i) {
      Slot& slot = recorded.slots[i];
      of_calls.Insert(slot.number);
      // Data that the calls overwrite must come again; other data stay on the daemon.
      slot.resend = slot.resend && (slot.counters != 0 || written_.Contains(slot.number));
      if (!slot.resend) recorded.call.arguments[i].data = nullptr;
    }
  }
  UOPD_TRY(CheckState("inside of the function", &of_calls));
  uint64_t position = 0;
  for (Input& input : inputs_) {
    for (size_t piece = 0; piece < input.pieces; ++piece)
      input.assigned |= written_inputs_.Contains(position++);
    if (input.assigned && input.whole_named) {
      return Misused(
          "the function assigns to an input that is a view of a tensor which it uses by another "
          "name too. What that tensor is then would be known after the function only: record it "
          "with a copy");
    }
  }
  outputs_.assign(outputs.begin(), outputs.end());
  for (const Tensor& t : outputs_) {
    const auto input =
        std::ranges::find_if(inputs_, [&](const Input& i) { return i.given.lock() == t.state(); });
    output_inputs_.push_back(input == inputs_.end() ? -1
                                                    : static_cast<int>(input - inputs_.begin()));
  }
  // From here on the recording holds its buffers, and watches the tensors that have them.
  NumberSet used;
  for (const Recorded& recorded : calls_) {
    for (const Slot& slot : recorded.slots) {
      if (slot.input >= 0 || used.Contains(slot.number)) continue;
      used.Insert(slot.number);
      if (slot.written) graph_->NoteWritten(slot.number, true);
      const ClientBuffer& b = graph_->buffers_.at(slot.number);
      const ir::UOp buffer =
          ir::Buffer(graph_->ctx(), static_cast<int64_t>(slot.number), b.dtype,
                     ir::ShapeArg(graph_->ctx(), graph_->buffers_.dims(slot.number)),
                     ir::AddrSpace::GLOBAL, b.device);
      held_.emplace_back(graph_->NewTensor(buffer, b.device));
      held_.back().state()->pinned = true;
    }
  }
  for (const Recorded& recorded : calls_) {
    for (const Slot& slot : recorded.slots) {
      if (slot.input < 0 && !slot.made) reads_.push_back(slot.number);
    }
  }
  for (const Tensor& t : outputs) {
    const TensorState& state = *t.state();
    if (!ir::IsFloat(state.dtype) || Knows(state) || !IsStored(state.uop)) continue;
    if (written_.Contains(NumbersOf(state.uop)[0])) results_.push_back(t.state());
  }
  absl::flat_hash_set<const TensorState*> ours, assigned;
  for (const Known& known : known_) {
    if (written_.Contains(known.numbers[0])) assigned.insert(known.state.lock().get());
  }
  known_.clear();
  known_at_.clear();
  for (const Tensor& t : held_) ours.insert(t.state().get());
  for (TensorState* t = graph_->oldest(); t != nullptr; t = t->newer) {
    if (!t->uop || !IsStored(t->uop) || ours.contains(t)) continue;
    if (!used.Contains(NumbersOf(t->uop)[0])) continue;
    AddKnown(*t);
    known_.back().assigned = assigned.contains(t);
  }
  std::vector<uint64_t> of_inputs(input_of_.size());
  for (const auto& [number, at] : input_of_) of_inputs[static_cast<size_t>(at)] = number;
  FindReads(of_inputs);
  all_reads_ = before_;  // what a call wrote has no history any more
  EndHistories();
  last_changes_ = UINT64_MAX;
  for (const auto& [view, input] : views_) {
    const auto t = view.lock();
    if (t != nullptr && inputs_[input].assigned) UOPD_TRY(graph_->Assign(*t, t->uop));
  }
  return absl::OkStatus();
}

std::vector<RecordedGraph> Recording::Graphs() const {
  std::vector<RecordedGraph> out;
  for (const Recorded& recorded : calls_) {
    const bool known = std::ranges::any_of(out, [&](const RecordedGraph& g) {
      return *g.graph == *recorded.call.graph && g.options == recorded.call.options;
    });
    if (!known) out.push_back({recorded.call.graph, recorded.call.options});
  }
  return out;
}

}  // namespace uopd::client
