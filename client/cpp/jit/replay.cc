// SPDX-License-Identifier: MIT
// Recording: sends what was recorded again.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "client/cpp/graph/build.h"
#include "client/cpp/jit/recording.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::client {
namespace {

// The value with the sizes that these variables give it.
ir::UOp Rebound(ir::UOpContext& ctx, ir::UOp value, std::span<const VariableValue> variables) {
  ir::Substitution map;
  for (ir::UOp u : ir::Toposort(ctx, value)) {
    if (!u.Is(ir::Op::BIND) || u.n_src() != 2 || ir::IsFloat(u.dtype())) continue;
    for (const VariableValue& v : variables) {
      if (v.is_float() || v.name() != u.src(0).text() || v.bits() == u.src(1).const_int()) continue;
      map[u.id()] = ctx.Make(ir::Op::BIND, u.dtype(), {u.src(0), ctx.Idx(v.bits())}, {}, u.tag());
    }
  }
  return map.empty() ? value : ir::Substitute(ctx, value, map);
}

}  // namespace

absl::StatusOr<std::vector<VariableValue>> Recording::ValuesOf(
    std::span<const Tensor> inputs, std::span<const VariableValue> given) const {
  std::vector<VariableValue> out(given.begin(), given.end());
  for (const Tensor& t : inputs) {
    if (!t.is_symbolic()) continue;
    for (ir::UOp d : ShapeOf(t)) {
      for (const auto& [name, value] : ir::BoundVariables(d)) {
        const auto known =
            std::ranges::find(out, name, [](const VariableValue& v) { return v.name(); });
        if (known == out.end())
          out.emplace_back(name, value);
        else if (known->is_float() || known->bits() != value)
          return absl::InvalidArgumentError(Cat("Jit: variable ", name, " has two values, ",
                                                known->bits(), " and ", value, " of an input"));
      }
    }
  }
  return out;
}

absl::Status Recording::CheckSizes(const Recorded& recorded, const Call& call) {
  for (size_t i = 0; i < recorded.variables.size(); ++i) {
    const auto [min, max] = recorded.ranges[i];
    const int64_t value = call.variables[i];
    if (recorded.floats[i] || (value >= min && value <= max)) continue;
    return absl::InvalidArgumentError(Cat("Jit: variable ", recorded.variables[i], " (", value,
                                          ") is outside ", min, " to ", max));
  }
  const auto values = [&](ir::UOp variable) -> std::optional<int64_t> {
    const auto at = std::ranges::find(recorded.variables, variable.text());
    if (at == recorded.variables.end()) return std::nullopt;
    return call.variables[static_cast<size_t>(at - recorded.variables.begin())];
  };
  for (const SizeCondition& c : recorded.conditions) {
    const auto start = ir::BoundValue(c.start, values), size = ir::BoundValue(c.size, values),
               whole = ir::BoundValue(c.whole, values);
    if (start && size && whole && *start >= 0 && *size >= 0 && *size <= *whole &&
        *start <= *whole - *size)
      continue;
    std::string now;
    for (size_t i = 0; i < recorded.variables.size(); ++i) {
      if (!recorded.floats[i])
        Append(now, now.empty() ? "" : ", ", recorded.variables[i], " = ", call.variables[i]);
    }
    return absl::InvalidArgumentError(Cat("Jit: ", ir::SizeText(c.size), " elements from ",
                                          ir::SizeText(c.start), " on are not within ",
                                          ir::SizeText(c.whole), ", where ", now));
  }
  return absl::OkStatus();
}

absl::Status Recording::SetVariables(std::span<const VariableValue> values,
                                     const Recorded& recorded, Call& call) const {
  for (const VariableValue& value : values) {
    for (size_t i = 0; i < recorded.variables.size(); ++i) {
      if (recorded.variables[i] != value.name()) continue;
      if (recorded.floats[i] != value.is_float()) {
        return absl::InvalidArgumentError(Cat("Jit: variable ", value.name(), " takes ",
                                              recorded.floats[i] ? "a float" : "an integer"));
      }
      call.variables[i] = value.bits();
    }
  }
  return absl::OkStatus();
}

absl::Status Recording::ReplayOne(const Recorded& recorded, std::span<const uint64_t> inputs,
                                  std::span<const VariableValue> variables, Positions& positions,
                                  bool first, const std::shared_ptr<const Loop>& maybe_loop) {
  GraphState& graph = *graph_;
  Call call = recorded.call;
  call.loop = maybe_loop;
  UOPD_TRY(SetVariables(variables, recorded, call));
  GraphState::Sent sent;
  sent.counted = sent.settled = true;
  GraphState::Room room = graph.NewRoom();
  std::vector<uint64_t> returned;
  for (size_t i = 0; i < recorded.slots.size(); ++i) {
    const Slot& slot = recorded.slots[i];
    Argument& a = call.arguments[i];
    uint64_t number = slot.number;
    if (slot.input >= 0) {
      number = inputs[static_cast<size_t>(slot.input)];
      UOPD_TRY(graph.CheckMade(std::span(&number, 1)));
      UOPD_TRY(graph.Bind(number, true, room, a, sent));
    } else if (!slot.made && !slot.resend) {
      UOPD_TRY(graph.executor().Held(a.handle));
    } else if (slot.counters != 0) {
      // Calls that use the same random numbers get the same position.
      auto& position = positions[slot.number];
      if (position == nullptr)
        position = std::make_shared<const std::string>(graph.TakePosition(slot.counters));
      a.data = position;
    }
    if (slot.written) {
      ++graph.buffers_.at(number).version;
      graph.NoteWritten(number, true);
    }
    // A recording that was loaded has memory that only its first replay makes.
    const bool fresh = slot.input < 0 && !graph.buffers_.at(number).on_daemon;
    if (fresh && (slot.made || slot.resend))
      sent.made.emplace_back(number, a.handle);
    else if (slot.made && slot.input < 0)
      sent.again.emplace_back(number, a.handle);
    if (a.return_data) returned.push_back(number);
  }
  if (first && graph.dropped_ && graph.recordings_.empty()) {
    GraphState::Plan plan;
    graph.FindReaders(plan);
    call.free_buffers = graph.RemoveUnneeded(plan);
    graph.dropped_ = false;
  }
  sent.frees = call.free_buffers;
  sent.orphans.swap(graph.orphans_);
  call.free_buffers.insert(call.free_buffers.end(), sent.orphans.begin(), sent.orphans.end());
  // A loop of no steps has an answer without contents.
  if (maybe_loop != nullptr && maybe_loop->unless_stopped) returned.clear();
  graph.Launch(std::move(call), std::move(sent));
  const Answer& answer = graph.sent_.back().answer;
  for (const Known& known : known_) {
    const auto t = known.state.lock();
    if (t == nullptr || !written_.Contains(known.numbers[0])) continue;
    if (t->symbolic) t->uop = Rebound(graph.ctx(), t->uop, variables);
    graph.TakeContents(*t, answer, returned);
    t->since = ++graph.now_;
  }
  return absl::OkStatus();
}

absl::Status Recording::KeepValues(std::span<const Tensor> inputs,
                                   std::span<const uint64_t> numbers) {
  if (checked_ == graph_->values_made_ && !writes_inputs_) return absl::OkStatus();
  NumberSet written = written_;
  for (uint64_t position = 0; writes_inputs_ && position < numbers.size(); ++position) {
    if (written_inputs_.Contains(position)) written.Insert(numbers[position]);
  }
  std::vector<TensorState*> readers = graph_->Readers(written, {});
  absl::flat_hash_set<const TensorState*> updated;
  for (const Known& known : known_) updated.insert(known.state.lock().get());
  for (const Tensor& t : inputs) updated.insert(t.state().get());
  std::erase_if(readers, [&](const TensorState* t) { return updated.contains(t); });
  if (!readers.empty()) return graph_->SubmitApart(readers);
  checked_ = graph_->values_made_;
  return absl::OkStatus();
}

std::string Recording::PlaceText(const Input& input) const {
  const auto name = [this](const std::string& device) {
    return device.empty() ? graph_->executor().default_device() : std::string_view(device);
  };
  if (input.devices.size() < 2) return std::string(name(input.device));
  std::string out;
  for (const std::string& device : input.devices)
    Append(out, out.empty() ? "" : ", ", name(device));
  return input.axis < 0 ? out
                        : Cat(out, " in pieces ", Text(input.sizes), " along axis ", input.axis);
}

absl::Status Recording::CheckInputs(std::span<const Tensor> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    UOPD_TRY(WithFrame(inputs[i].status(), Cat("taking input ", i, " of a Jit")));
    const Input &want = inputs_[i], got = Describe(inputs[i]);
    if (got.dtype != want.dtype || got.dims != want.dims || got.device != want.device ||
        got.devices != want.devices || got.axis != want.axis || got.sizes != want.sizes ||
        got.form != want.form) {
      return absl::InvalidArgumentError(
          Cat("Jit: input ", i, " is ", Shown(*inputs[i].state()), " on ", PlaceText(got),
              "; the function was recorded with ", ir::Name(want.dtype), " ", Text(want.dims),
              " on ", PlaceText(want)));
    }
    if (want.named && inputs[i].state() != want.given.lock()) {
      return Misused(
          Cat("input ", i,
              " is another tensor than when the function was recorded, and the function uses the "
              "recorded tensor by another name too, such as a variable outside of the function. A "
              "replay would use the new tensor for both: record the function with a copy"));
    }
    UOPD_TRY(CheckApart(i, *inputs[i].state()));
    for (size_t k = 0; k < i; ++k) {
      if (inputs[k].state() == inputs[i].state() && (want.assigned || inputs_[k].assigned)) {
        return Misused(Cat("inputs ", k, " and ", i,
                           " are the same tensor, and the function assigns to one of them"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Recording::CheckApart(size_t input, const TensorState& given) const {
  if (inputs_[input].used_late && Knows(given) && known_[known_at_.at(&given)].assigned) {
    return Misused(Cat("input ", input,
                       " is a tensor that the function assigns to by another name, and the "
                       "function uses the input after that. A replay would use its old contents: "
                       "give it a copy"));
  }
  if (!inputs_[input].assigned) return absl::OkStatus();
  for (const TensorState* t = &given; t != nullptr; t = t->view.of) {
    if (!Knows(*t)) continue;
    return Misused(Cat("the function assigns to input ", input, ", which is ",
                       t == &given ? "" : "a view of ",
                       "a tensor that the function uses by another name or returns. A replay would "
                       "not see the new contents there: give it a copy"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> Recording::TakeInputs(std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorState* const t = inputs[i].state().get();
    if (!IsStored(t->uop) || t->replaces) continue;
    if (std::ranges::none_of(NumbersOf(t->uop), [&](uint64_t n) { return written_.Contains(n); }))
      continue;
    // A result of an earlier replay, or what shares memory with one.
    if (inputs_[i].assigned && !Knows(*t))
      UOPD_TRY(graph_->SubmitApart(std::span(&t, 1)));
    else
      inputs[i] = inputs[i].Contiguous();
  }
  UOPD_ASSIGN(std::vector<uint64_t> numbers, NumbersOfInputs(inputs));
  absl::flat_hash_map<uint64_t, size_t> first;  // number of a buffer -> the first input that has it
  bool moved = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (uint64_t number : NumbersOf(inputs[i].state()->uop)) {
      const auto [it, fresh] = first.emplace(number, i);
      if (fresh || it->second == i) continue;
      // The contents of memory that is given twice travel once.
      if (graph_->buffers_.at(number).must_send()) UOPD_TRY(graph_->UploadBuffer(number));
      if (!writes_inputs_ || (!inputs_[i].assigned && !inputs_[it->second].assigned)) continue;
      TensorState* t = inputs[i].state().get();
      if (Knows(*t)) t = inputs[it->second].state().get();
      UOPD_TRY(graph_->SubmitApart(std::span(&t, 1)));
      moved = true;
      break;
    }
  }
  if (!moved) return numbers;
  return NumbersOfInputs(inputs);
}

absl::Status Recording::WriteThrough(std::span<const Tensor> inputs) {
  for (size_t i = 0; writes_inputs_ && i < inputs.size(); ++i) {
    TensorState& t = *inputs[i].state();
    if (inputs_[i].assigned && t.view.of != nullptr) UOPD_TRY(graph_->Assign(t, t.uop));
  }
  return absl::OkStatus();
}

void Recording::FindReads(std::span<const uint64_t> inputs) {
  if (results_.empty()) return;
  const Histories& histories = graph_->histories_;
  if (own_reads_ == nullptr || !std::ranges::equal(last_inputs_, inputs)) {
    std::vector<uint64_t> own = reads_;
    own.insert(own.end(), inputs.begin(), inputs.end());
    std::ranges::sort(own);
    own_reads_ = std::make_shared<const std::vector<uint64_t>>(std::move(own));
    last_inputs_.assign(inputs.begin(), inputs.end());
    last_changes_ = UINT64_MAX;
  }
  if (last_changes_ == histories.changes()) return;
  const auto has = [&](uint64_t number) { return histories.Has(number); };
  all_reads_ = std::ranges::any_of(*own_reads_, has)
                   ? histories.AllBelow(*own_reads_, graph_->buffers_)
                   : own_reads_;
}

void Recording::EndHistories() {
  if (results_.empty()) return;
  Histories& histories = graph_->histories_;
  Histories::Moment now = histories.Now(graph_->executor_->NewHandle());
  for (const auto& result : results_) {
    const auto t = result.lock();
    if (t == nullptr || !IsStored(t->uop)) continue;
    now.since = t->since;
    histories.AddEnded(t->uop, all_reads_, now);
  }
  last_changes_ = histories.changes();
}

absl::Status Recording::UpdateState() {
  std::vector<std::shared_ptr<TensorState>> assigned;
  for (const Known& known : known_) {
    const auto t = known.state.lock();
    if (t != nullptr && t->error.ok() && (!IsStored(t->uop) || t->replaces)) assigned.push_back(t);
  }
  UOPD_TRY(graph_->Submit(assigned));
  UOPD_TRY(spoiled_);
  return CheckState("since it was recorded", nullptr);
}

absl::StatusOr<std::vector<Tensor>> Recording::Replay(std::span<const Tensor> inputs,
                                                      std::span<const VariableValue> variables) {
  UOPD_TRY(Send(inputs, variables, nullptr, nullptr).status());
  std::vector<Tensor> out = outputs_;
  for (size_t i = 0; i < out.size(); ++i) {
    if (output_inputs_[i] >= 0) out[i] = inputs[static_cast<size_t>(output_inputs_[i])];
  }
  return out;
}

absl::StatusOr<Future> Recording::Send(std::span<const Tensor> inputs,
                                       std::span<const VariableValue> variables,
                                       const std::shared_ptr<const Loop>& maybe_loop,
                                       const std::shared_ptr<std::atomic<bool>>& maybe_told) {
  if (graph_->Recorder() != nullptr)
    return Misused("a recorded function cannot be replayed while another one is recorded");
  graph_->Poll();
  UOPD_TRY(graph_->TakeError());
  UOPD_TRY(UpdateState());
  if (inputs.size() != inputs_.size()) {
    return absl::InvalidArgumentError(Cat("Jit: the function was recorded with ", inputs_.size(),
                                          " inputs, not ", inputs.size()));
  }
  std::vector<Tensor> own(inputs.begin(), inputs.end());
  UOPD_TRY(CheckInputs(own));
  UOPD_ASSIGN(const std::vector<VariableValue> values, ValuesOf(own, variables));
  for (const Recorded& recorded : calls_) {  // before anything is sent
    if (recorded.variables.empty()) continue;
    Call call;
    call.variables = recorded.call.variables;
    UOPD_TRY(SetVariables(values, recorded, call));
    UOPD_TRY(CheckSizes(recorded, call));
  }
  UOPD_ASSIGN(const std::vector<uint64_t> numbers, TakeInputs(own));
  UOPD_TRY(KeepValues(own, numbers));
  for (size_t i = 0; i < own.size(); ++i) {
    if (inputs_[i].assigned) own[i].state()->since = ++graph_->now_;
  }
  FindReads(numbers);
  Positions positions;
  bool first = true;
  for (const Recorded& recorded : calls_) {
    UOPD_TRY(ReplayOne(recorded, numbers, values, positions, first, maybe_loop));
    first = false;
  }
  Future over = graph_->sent_.back().answer.future;
  if (maybe_told != nullptr) graph_->sent_.back().told_later = maybe_told;
  for (const Tensor& t : outputs_) {     // one without elements has no memory, and sizes of now too
    if (t.state() == nullptr) continue;  // it stands for an input
    TensorState& state = *t.state();
    if (state.symbolic && state.uop && !IsStored(state.uop))
      state.uop = Rebound(graph_->ctx(), state.uop, values);
  }
  EndHistories();
  UOPD_TRY(WriteThrough(own));
  return over;
}

}  // namespace uopd::client
