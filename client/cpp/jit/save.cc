// SPDX-License-Identifier: MIT
// Recording: writes itself as bytes (saved_file.h).
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "client/cpp/graph/build.h"
#include "client/cpp/jit/recording.h"
#include "client/cpp/jit/saved_file.h"
#include "client/cpp/jit/saved_size.h"
#include "client/cpp/net/wire_call.h"

namespace uopd::client {

class Recording::Saver {
 public:
  explicit Saver(const Recording& recording)
      : recording_(recording), graph_(*recording.graph_), message_() {}

  absl::StatusOr<std::string> Save(std::span<const Tensor> outside) {
    UOPD_TRY(AddOutside(outside));
    for (size_t i = 0; i < recording_.inputs_.size(); ++i) UOPD_TRY(AddInput(i));
    for (const Recorded& recorded : recording_.calls_) AddCall(recorded);
    for (size_t i = 0; i < recording_.outputs_.size(); ++i) AddOutput(i);
    uint64_t bytes = 0;
    for (uint64_t number : contents_) bytes += graph_.buffers().at(number).bytes;
    UOPD_ASSIGN(std::string file, NewSavedFile(message_, bytes));
    UOPD_TRY(ReadContents(std::span(file).last(bytes)));
    SealSavedFile(file);
    return file;
  }

 private:
  absl::Status AddOutside(std::span<const Tensor> outside) {
    const std::vector<Tensor> state = recording_.State();
    for (size_t i = 0; i < outside.size(); ++i) {
      const auto& t = outside[i].state();
      if (std::ranges::none_of(state, [&](const Tensor& s) { return s.state() == t; })) {
        return absl::InvalidArgumentError(
            Cat("Jit: tensor ", i, " is no state of the recording in one piece"));
      }
      const uint32_t at = PlaceOf(NumbersOf(t->uop)[0], false);
      message_.mutable_buffers(static_cast<int>(at))->set_outside(static_cast<uint32_t>(i));
    }
    return absl::OkStatus();
  }

  absl::Status AddInput(size_t i) {
    const Input& from = recording_.inputs_[i];
    if (from.named) {
      return Misused(Cat("the recording cannot be saved: the function uses input ", i,
                         " by another name too, such as a variable outside of the function. Give "
                         "it the input alone"));
    }
    if (from.devices.size() != from.pieces)
      return absl::InternalError(Cat("Jit: input ", i, " has ", from.pieces, " pieces"));
    recording::v1::Input& to = *message_.add_inputs();
    to.set_dtype(ir::Info(from.dtype).wire);
    to.mutable_dims()->Add(from.dims.begin(), from.dims.end());
    to.set_device(from.device);
    to.mutable_devices()->Add(from.devices.begin(), from.devices.end());
    to.set_axis(from.axis);
    to.mutable_sizes()->Add(from.sizes.begin(), from.sizes.end());
    to.set_form(from.form);
    to.set_used_late(from.used_late);
    return absl::OkStatus();
  }

  // The position of the buffer. `read`: a replay reads it before anything that was added earlier
  // writes it.
  uint32_t PlaceOf(uint64_t number, bool read) {
    const auto [at, fresh] =
        places_.emplace(number, static_cast<uint32_t>(message_.buffers_size()));
    if (!fresh) return at->second;
    const ClientBuffer& b = graph_.buffers().at(number);
    const ir::Dims& dims = graph_.buffers().dims(number);
    recording::v1::Buffer& to = *message_.add_buffers();
    to.set_dtype(ir::Info(b.dtype).wire);
    to.mutable_dims()->Add(dims.begin(), dims.end());
    to.set_device(b.device);
    to.set_has_contents(read);
    if (read) contents_.push_back(number);
    return at->second;
  }

  uint32_t PlaceOfGraph(const Call& call) {
    const auto [at, fresh] =
        graphs_.emplace(call.digest, static_cast<uint32_t>(message_.graphs_size()));
    if (fresh) message_.add_graphs(*call.graph);
    return at->second;
  }

  void AddCall(const Recorded& from) {
    recording::v1::Call& to = *message_.add_calls();
    to.set_graph(PlaceOfGraph(from.call));
    to.mutable_variables()->Add(from.call.variables.begin(), from.call.variables.end());
    to.set_options(ToWire(from.call.options).SerializeAsString());
    for (const SizeCondition& c : from.conditions) {
      recording::v1::Condition& condition = *to.add_conditions();
      condition.set_start(SavedSize(recording_.sizes_, c.start));
      condition.set_size(SavedSize(recording_.sizes_, c.size));
      condition.set_whole(SavedSize(recording_.sizes_, c.whole));
    }
    for (size_t i = 0; i < from.slots.size(); ++i) {
      const Slot& slot = from.slots[i];
      recording::v1::Argument& a = *to.add_arguments();
      a.set_return_data(from.call.arguments[i].return_data);
      if (slot.input >= 0) {
        a.set_input(static_cast<uint32_t>(slot.input));
        continue;
      }
      a.set_buffer(PlaceOf(slot.number, !slot.made && !slot.resend));
      a.set_made(slot.made);
      if (slot.resend && slot.counters != 0)
        a.set_counters(slot.counters);
      else if (slot.resend)
        a.set_data(*from.call.arguments[i].data);
    }
  }

  void AddOutput(size_t i) {
    recording::v1::Output& to = *message_.add_outputs();
    if (recording_.output_inputs_[i] >= 0) {
      to.set_input(static_cast<uint32_t>(recording_.output_inputs_[i]));
      return;
    }
    const TensorState& t = *recording_.outputs_[i].state();
    const ir::Shape shape = *graph_.ctx().ShapeOf(t.uop);
    for (ir::UOp d : shape) {
      if (t.symbolic) to.add_sizes(d.Is(ir::Op::CONST) ? "" : SavedSize(graph_.ctx(), d));
    }
    if (!IsStored(t.uop)) {
      to.set_dtype(ir::Info(t.dtype).wire);
      to.mutable_dims()->Add(t.dims.begin(), t.dims.end());
      to.set_device(t.device);
      return;
    }
    for (uint64_t number : NumbersOf(t.uop)) to.add_buffers(PlaceOf(number, true));
    to.set_in_pieces(t.uop.Is(ir::Op::MULTI));
    if (to.in_pieces() && !t.uop.ints().empty())
      to.set_axis(static_cast<uint32_t>(t.uop.ints()[0]));
    to.set_computed(std::ranges::any_of(
        recording_.results_, [&](const auto& result) { return result.lock().get() == &t; }));
  }

  absl::Status ReadContents(std::span<char> out) {
    std::vector<Future> all;
    for (uint64_t number : contents_) {
      const uint64_t bytes = graph_.buffers().at(number).bytes;
      all.push_back(graph_.ReadBuffer(number, out.first(bytes)));
      out = out.subspan(bytes);
    }
    absl::Status first;
    for (const Future& f : all) first.Update(f.Wait());  // all of them: they write into `out`
    return WithFrame(first, "reading what a recorded function uses");
  }

  const Recording& recording_;
  GraphState& graph_;
  recording::v1::Recording message_;
  absl::flat_hash_map<uint64_t, uint32_t> places_;     // numbers of buffers
  absl::flat_hash_map<std::string, uint32_t> graphs_;  // digests
  std::vector<uint64_t> contents_;                     // numbers of the buffers that have contents
};

absl::StatusOr<std::string> Recording::Save(std::span<const Tensor> outside) {
  if (graph_->Recorder() != nullptr)
    return Misused("a recorded function cannot be saved while another one is recorded");
  graph_->Poll();
  UOPD_TRY(graph_->TakeError());
  UOPD_TRY(UpdateState());
  // State that is returned, and that no call uses.
  std::vector<std::shared_ptr<TensorState>> returned;
  for (const Tensor& t : Outputs()) {
    if (t.state() == nullptr) continue;
    UOPD_TRY(t.status());
    returned.push_back(t.state());
  }
  UOPD_TRY(graph_->Submit(returned));
  return Saver(*this).Save(outside);
}

NumberSet Recording::ReadFirst() const {
  NumberSet seen, out;
  for (const Recorded& recorded : calls_) {
    for (const Slot& slot : recorded.slots) {
      if (slot.input >= 0 || seen.Contains(slot.number)) continue;
      seen.Insert(slot.number);
      if (!slot.made && !slot.resend) out.Insert(slot.number);
    }
  }
  return out;
}

std::vector<Tensor> Recording::State() const {
  const NumberSet read = ReadFirst();
  NumberSet found;  // of several tensors in one memory the oldest one is state
  std::vector<Tensor> out;
  for (const Known& known : known_) {
    const auto t = known.state.lock();
    if (t == nullptr || !t->error.ok() || t->symbolic || known.numbers.size() != 1 ||
        t->uop.Is(ir::Op::MULTI) || !read.Contains(known.numbers[0]))
      continue;
    // Other recordings hold their memory by tensors of their own.
    if (t->pinned || found.Contains(known.numbers[0])) continue;
    found.Insert(known.numbers[0]);
    out.emplace_back(t);
  }
  return out;
}

std::vector<Tensor> Recording::Outputs() const {
  std::vector<Tensor> out = outputs_;
  for (size_t i = 0; i < out.size(); ++i) {
    if (output_inputs_[i] >= 0) out[i] = Tensor();
  }
  return out;
}

}  // namespace uopd::client
