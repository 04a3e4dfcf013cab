// SPDX-License-Identifier: MIT
// Recording: is made of bytes (saved_file.h), which may come from anybody.
//
// Everything is checked before anything is made: every number, that the graphs are valid, that each
// slot of a graph has memory of its dtype and size, and that the contents are there. A daemon
// checks requests itself, so what is left to it are the names of devices, and what a graph costs.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "client/cpp/graph/build.h"
#include "client/cpp/jit/recording.h"
#include "client/cpp/jit/saved_file.h"
#include "client/cpp/jit/saved_size.h"
#include "core/base/digest.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::client {
namespace {

constexpr int kMostPieces = 1024;    // more than a graph may have
constexpr size_t kMostOfName = 256;  // as in a graph

ExecutionOptions FromWire(const v1::Options& o) {
  ExecutionOptions out{.beam = o.beam(),
                       .debug = o.debug(),
                       .noopt = o.noopt(),
                       .fast_math = o.fast_math(),
                       .ignore_beam_cache = o.ignore_beam_cache(),
                       .profile = o.profile(),
                       .allow_bf16 = o.allow_bf16(),
                       .allow_f16 = o.allow_f16(),
                       .allow_tf32 = o.allow_tf32(),
                       .reproducible = o.reproducible()};
  if (o.has_cache_level()) out.cache_level = o.cache_level();
  return out;
}

}  // namespace

class Recording::Loader {
  // A dtype, a shape and a device.
  struct Memory {
    Dtype dtype = Dtype::F32;
    Dims dims;
    std::string device;

    int64_t bytes() const { return ir::Product(dims) * ir::ByteSize(dtype); }
    // Graphs that clear memory take it without its shape.
    bool Holds(const Memory& other) const {
      return dtype == other.dtype && bytes() == other.bytes();
    }
  };

  // A graph, and what its slots are.
  struct Graph {
    std::shared_ptr<const std::string> wire;
    std::string digest;
    std::vector<std::optional<Memory>> slots;
  };

 public:
  Loader(const Client& client, const SavedFile& file, std::span<const Tensor> outside)
      : message_(file.message),
        contents_(file.contents),
        outside_(outside),
        out_(new Recording(client.graph_)) {}

  absl::StatusOr<std::unique_ptr<Recording>> Load() {
    UOPD_TRY(ForEach("buffer", message_.buffers(),
                     [&](const auto& m, size_t) { return CheckBuffer(m); }));
    if (n_outside_ != outside_.size()) {
      return absl::InvalidArgumentError(Cat("Jit: the saved recording takes ", n_outside_,
                                            " tensors, and ", outside_.size(), " are given"));
    }
    if (bytes_ != contents_.size())
      return Broken(Cat("its buffers have ", bytes_, " bytes, and the file ", contents_.size()));
    UOPD_TRY(
        ForEach("input", message_.inputs(), [&](const auto& m, size_t) { return AddInput(m); }));
    UOPD_TRY(
        ForEach("graph", message_.graphs(), [&](const auto& m, size_t) { return AddGraph(m); }));
    UOPD_TRY(ForEach("call", message_.calls(), [&](const auto& m, size_t) { return AddCall(m); }));
    if (out_->calls_.empty()) return Broken("it has no calls");
    UOPD_TRY(ForEach("output", message_.outputs(),
                     [&](const auto& m, size_t) { return CheckOutput(m); }));
    UOPD_TRY(MakeBuffers());
    UOPD_TRY(ForEach("output", message_.outputs(),
                     [&](const auto& m, size_t) { return MakeOutput(m); }));
    return std::move(out_);
  }

 private:
  static std::string Shown(const Memory& m) { return Cat(ir::Name(m.dtype), " ", Text(m.dims)); }

  static absl::StatusOr<Memory> MemoryOf(uint32_t dtype,
                                         const google::protobuf::RepeatedField<int64_t>& dims,
                                         std::string_view device) {
    const auto known = ir::DtypeByWire(dtype);
    if (!known || *known == Dtype::Void || *known == Dtype::Index)
      return Broken(Cat("it has the unknown dtype ", dtype));
    if (dims.size() > ir::kMaxRank) return Broken(Cat("it has ", dims.size(), " axes"));
    if (device.size() > kMostOfName) return Broken("the name of its device is too long");
    int64_t elements = 1;
    for (int64_t d : dims) {
      if (d < 0 || d > ir::kMaxElements || (d != 0 && elements > ir::kMaxElements / d))
        return Broken(Cat("it has a size of ", d));
      elements = std::max<int64_t>(1, elements * d);
    }
    return Memory{*known, Dims(dims.begin(), dims.end()), std::string(device)};
  }

  template <class Messages, class F>
  static absl::Status ForEach(std::string_view what, const Messages& messages, F f) {
    size_t i = 0;
    for (const auto& m : messages) {
      UOPD_TRY(WithFrame(f(m, i), Cat("loading ", what, " ", i, " of a recording")));
      ++i;
    }
    return absl::OkStatus();
  }

  absl::Status CheckBuffer(const recording::v1::Buffer& from) {
    UOPD_ASSIGN(Memory memory, MemoryOf(from.dtype(), from.dims(), from.device()));
    if (memory.bytes() == 0) return Broken("it has no elements");
    const auto bytes = static_cast<uint64_t>(memory.bytes());
    buffers_.push_back(std::move(memory));
    filled_.push_back(from.has_contents() || from.has_outside());
    if (from.has_outside()) {
      if (from.has_contents() || from.outside() != n_outside_)
        return Broken("it is another tensor of those that are given");
      return CheckOutside(outside_, n_outside_++);
    }
    if (!from.has_contents()) return absl::OkStatus();
    if (bytes > contents_.size() - bytes_) return Broken("the file ends within its contents");
    bytes_ += bytes;
    return absl::OkStatus();
  }

  // The tensor has such memory as the buffer that was added last.
  absl::Status CheckOutside(std::span<const Tensor> outside, size_t i) const {
    if (i >= outside.size()) return absl::OkStatus();  // Load says how many there are
    const auto wrong = [&](std::string_view what) {
      return absl::InvalidArgumentError(Cat("Jit: tensor ", i, " that is given ", what));
    };
    UOPD_TRY(outside[i].status());
    const TensorState& t = *outside[i].state();
    if (t.graph != out_->graph_) return wrong("belongs to another client");
    if (!t.uop.Is(ir::Op::BUFFER) || t.replaces) return wrong("is not realised in one piece");
    for (size_t k = 0; k < i; ++k) {
      if (outside[k].state()->uop == t.uop) return wrong("is given twice");
    }
    const auto number = static_cast<uint64_t>(t.uop.slot());
    const ClientBuffer& b = out_->graph_->buffers().at(number);
    const Memory has = {b.dtype, out_->graph_->buffers().dims(number), b.device};
    const Memory& wanted = buffers_.back();
    if (t.symbolic || has.dtype != wanted.dtype || has.dims != wanted.dims ||
        has.device != wanted.device)
      return wrong(Cat("is ", Shown(has), " on ", has.device, "; the recording takes ",
                       Shown(wanted), " on ", wanted.device));
    return absl::OkStatus();
  }

  absl::Status AddInput(const recording::v1::Input& from) {
    UOPD_ASSIGN(Memory memory, MemoryOf(from.dtype(), from.dims(), from.device()));
    if (memory.bytes() == 0) return Broken("it has no elements");
    if (from.devices().empty() || from.devices_size() > kMostPieces)
      return Broken(Cat("it has ", from.devices_size(), " pieces"));
    const bool sharded = from.axis() >= 0;
    if (from.axis() < -1 || from.axis() >= static_cast<int64_t>(memory.dims.size()) ||
        (sharded && from.sizes_size() != from.devices_size()))
      return Broken("its pieces are no part of its shape");
    for (int i = 0; i < from.devices_size(); ++i) {
      Memory& piece = positions_.emplace_back(memory);
      if (!sharded) continue;
      int64_t& size = piece.dims[static_cast<size_t>(from.axis())];
      if (from.sizes(i) < 1 || from.sizes(i) > size)
        return Broken(Cat("a piece has a size of ", from.sizes(i)));
      size = from.sizes(i);
    }
    Input& to = out_->inputs_.emplace_back();
    to.dtype = memory.dtype;
    to.dims = std::move(memory.dims);
    to.device = from.device();
    to.devices.assign(from.devices().begin(), from.devices().end());
    to.axis = from.axis();
    to.sizes.assign(from.sizes().begin(), from.sizes().end());
    to.form = from.form();
    to.used_late = from.used_late();
    to.pieces = to.devices.size();
    return absl::OkStatus();
  }

  absl::Status AddGraph(const std::string& wire) {
    Graph& graph = graphs_.emplace_back();
    Recorded& parts = of_graphs_.emplace_back();
    ir::UOpContext ctx;
    UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, wire, ir::Level::kTensor));
    for (ir::UOp u : ir::Toposort(ctx, sink)) {
      if (!u.Is(ir::Op::PARAM)) continue;
      const auto slot = static_cast<size_t>(u.slot());
      if (slot >= graph.slots.size()) graph.slots.resize(slot + 1);
      const auto dims = ir::StaticDims(*ctx.ShapeOf(u));
      if (!dims) return Broken(Cat("slot ", slot, " has a size that is no number"));
      graph.slots[slot] = Memory{u.dtype(), *dims, std::string(u.text())};
    }
    const std::vector<bool> written = WrittenSlots(ctx, sink, graph.slots.size());
    for (bool w : written) parts.slots.push_back({.written = w});
    AddVariables(ctx, sink, parts);
    graph.wire = std::make_shared<const std::string>(wire);
    graph.digest = HashBytes(wire).view();
    return absl::OkStatus();
  }

  absl::Status AddCall(const recording::v1::Call& from) {
    if (from.graph() >= graphs_.size()) return Broken(Cat("it has no graph ", from.graph()));
    const Graph& graph = graphs_[from.graph()];
    Recorded& to = out_->calls_.emplace_back(of_graphs_[from.graph()]);
    if (static_cast<size_t>(from.arguments_size()) != graph.slots.size())
      return Broken(Cat("it has ", from.arguments_size(), " arguments, and its graph takes ",
                        graph.slots.size()));
    if (static_cast<size_t>(from.variables_size()) != to.variables.size())
      return Broken(Cat("it has ", from.variables_size(), " values, and its graph has ",
                        to.variables.size(), " variables"));
    to.call.digest = graph.digest;
    to.call.graph = graph.wire;
    to.call.variables.assign(from.variables().begin(), from.variables().end());
    v1::Options options;
    if (!options.ParseFromString(from.options())) return Broken("its options cannot be read");
    to.call.options = FromWire(options);
    for (const recording::v1::Condition& c : from.conditions()) {
      SizeCondition& condition = to.conditions.emplace_back();
      UOPD_ASSIGN(condition.start, LoadedSize(out_->sizes_, c.start()));
      UOPD_ASSIGN(condition.size, LoadedSize(out_->sizes_, c.size()));
      UOPD_ASSIGN(condition.whole, LoadedSize(out_->sizes_, c.whole()));
    }
    UOPD_TRY(ForEach("argument", from.arguments(), [&](const auto& m, size_t i) {
      to.call.arguments.emplace_back();
      if (!graph.slots[i]) return Broken("its graph does not use it");
      return AddArgument(m, *graph.slots[i], to.slots[i], to.call.arguments[i]);
    }));
    for (const Slot& slot : to.slots) {
      if (slot.input < 0) filled_[slot.number] = true;
    }
    return absl::OkStatus();
  }

  // Slots have positions of buffers in place of numbers until MakeBuffers.
  absl::Status AddArgument(const recording::v1::Argument& from, const Memory& wanted, Slot& slot,
                           Argument& a) {
    using Kind = recording::v1::Argument::MemoryCase;
    a.return_data = from.return_data();
    if (from.memory_case() == Kind::MEMORY_NOT_SET) return Broken("it has no memory");
    const bool is_input = from.memory_case() == Kind::kInput;
    const auto& all = is_input ? positions_ : buffers_;
    const uint32_t at = is_input ? from.input() : from.buffer();
    if (at >= all.size()) return Broken(Cat("it is number ", at, " of ", all.size()));
    if (!all[at].Holds(wanted) || (!is_input && all[at].device != wanted.device))
      return Broken(Cat("it is ", Shown(all[at]), ", and its graph takes ", Shown(wanted)));
    if (is_input) {
      slot.input = static_cast<int>(at);
      if (slot.written) out_->writes_inputs_ = true;
      if (slot.written) out_->written_inputs_.Insert(at);
      return absl::OkStatus();
    }
    slot.number = at;
    slot.made = from.made();
    slot.counters = from.counters();
    slot.resend = from.has_data() || slot.counters != 0;
    if (slot.counters != 0 && (wanted.dtype != Dtype::U64 || wanted.bytes() != 16))
      return Broken("it takes no position of random numbers");
    if (from.has_data()) {
      if (from.data().size() != static_cast<uint64_t>(wanted.bytes()))
        return Broken(Cat("it has ", from.data().size(), " bytes of data"));
      a.data = std::make_shared<const std::string>(from.data());
    }
    if (!slot.made && !slot.resend && !filled_[at]) return Broken("nothing gives it contents");
    return absl::OkStatus();
  }

  absl::Status CheckOutput(const recording::v1::Output& from) {
    if (from.has_input()) {
      const bool known = from.input() < out_->inputs_.size();
      return known ? absl::OkStatus() : Broken(Cat("there is no input ", from.input()));
    }
    Memory memory;
    if (from.buffers().empty()) {
      UOPD_ASSIGN(memory, MemoryOf(from.dtype(), from.dims(), from.device()));
      if (memory.bytes() != 0) return Broken("it has no memory");
    }
    for (uint32_t at : from.buffers()) {
      if (at >= buffers_.size()) return Broken(Cat("there is no buffer ", at));
      if (!filled_[at]) return Broken(Cat("nothing gives buffer ", at, " contents"));
      memory = buffers_[at];
      if (memory.dtype != buffers_[from.buffers(0)].dtype ||
          memory.dims.size() != buffers_[from.buffers(0)].dims.size())
        return Broken("its pieces do not fit together");
    }
    if (!from.in_pieces() && from.buffers_size() > 1) return Broken("it has several buffers");
    if (from.has_axis() && (!from.in_pieces() || from.axis() >= memory.dims.size()))
      return Broken(Cat("it has no axis ", from.axis()));
    if (!from.sizes().empty() && static_cast<size_t>(from.sizes_size()) != memory.dims.size())
      return Broken(Cat("it has ", from.sizes_size(), " sizes"));
    return absl::OkStatus();
  }

  absl::Status MakeBuffers() {
    GraphState& graph = *out_->graph_;
    graph.Poll();
    UOPD_TRY(graph.TakeError());
    for (size_t i = 0; i < buffers_.size(); ++i)
      UOPD_TRY(WithFrame(MakeBuffer(i), Cat("loading buffer ", i, " of a recording")));
    UOPD_TRY(WaitForContents());
    for (Recorded& recorded : out_->calls_) {
      for (size_t i = 0; i < recorded.slots.size(); ++i) {
        Slot& slot = recorded.slots[i];
        if (slot.input >= 0) continue;
        slot.number = numbers_[slot.number];
        recorded.call.arguments[i].handle = graph.buffers_.at(slot.number).handle;
        if (slot.written) out_->written_.Insert(slot.number);
        if (!slot.made) out_->reads_.push_back(slot.number);
      }
    }
    // Until here these are the tensors that are given.
    for (Known& known : out_->known_) known.assigned = out_->written_.Contains(known.numbers[0]);
    size_t position = 0;
    for (Input& input : out_->inputs_) {
      for (size_t piece = 0; piece < input.pieces; ++piece)
        input.assigned |= out_->written_inputs_.Contains(position++);
    }
    return absl::OkStatus();
  }

  absl::Status WaitForContents() {
    GraphState& graph = *out_->graph_;
    absl::Status first;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const auto maker = graph.buffers_.at(numbers_[i]).maker;
      if (!maker) continue;
      const std::string& device = buffers_[i].device;
      first.Update(WithFrame(maker->Wait(), Cat("sending buffer ", i, " of a recording to ",
                                                device.empty() ? "the default device" : device)));
    }
    graph.Poll();
    if (!first.ok()) graph.TakeError().IgnoreError();  // nobody has to be told again
    return first;
  }

  absl::Status MakeBuffer(size_t i) {
    GraphState& graph = *out_->graph_;
    const Memory& memory = buffers_[i];
    const auto bytes = static_cast<size_t>(memory.bytes());
    const recording::v1::Buffer& from = message_.buffers(static_cast<int>(i));
    std::shared_ptr<TensorState> t;
    if (from.has_outside()) {
      TensorState& given = *outside_[from.outside()].state();
      UOPD_TRY(graph.MakeZeros(NumbersOf(given.uop)));
      t = graph.NewTensor(given.uop, memory.device);  // which holds the memory
      made_.emplace(given.uop.id(), outside_[from.outside()]);
      out_->AddKnown(given);
    } else if (!from.has_contents()) {
      t = graph.NewTensor(graph.NewBuffer(memory.dtype, memory.dims, memory.device, bytes),
                          memory.device);
    } else if (graph.SendsAtOnce(bytes)) {
      t = graph.NewUpload(memory.dtype, memory.dims, memory.device, contents_.substr(0, bytes));
      contents_.remove_prefix(bytes);
    } else {
      t = graph.NewInput(memory.dtype, memory.dims, memory.device,
                         std::string(contents_.substr(0, bytes)));
      contents_.remove_prefix(bytes);
    }
    UOPD_TRY(t->error);
    t->pinned = true;
    out_->held_.emplace_back(t);
    numbers_.push_back(NumbersOf(t->uop)[0]);
    return graph.buffers_.at(numbers_[i]).must_send() ? graph.UploadBuffer(numbers_[i])
                                                      : absl::OkStatus();
  }

  // The shape with these sizes where they are made of variables. INVALID_ARGUMENT if the largest
  // ones are not `dims`.
  absl::StatusOr<ir::UOp> ShapeWith(const Dims& dims, const recording::v1::Output& from) {
    ir::UOpContext& ctx = out_->graph_->ctx();
    ir::SymbolicDims sizes;
    for (size_t i = 0; i < dims.size(); ++i) {
      const std::string text = from.sizes().empty() ? "" : from.sizes(static_cast<int>(i));
      sizes.push_back(ctx.Idx(dims[i]));
      if (text.empty()) continue;
      UOPD_ASSIGN(sizes.back(), LoadedSize(ctx, text));
    }
    const ir::Dims largest = ir::MaxDims(ctx, ir::Shape(sizes));
    if (largest != dims)
      return Broken(
          Cat("its sizes are at most ", Text(largest), ", and those of its memory ", Text(dims)));
    return ir::ShapeArg(ctx, ir::Shape(sizes));
  }

  absl::Status MakeOutput(const recording::v1::Output& from) {
    out_->output_inputs_.push_back(from.has_input() ? static_cast<int>(from.input()) : -1);
    if (from.has_input()) {
      out_->outputs_.emplace_back();
      return absl::OkStatus();
    }
    GraphState& graph = *out_->graph_;
    if (from.buffers().empty()) {
      UOPD_ASSIGN(const Memory memory, MemoryOf(from.dtype(), from.dims(), from.device()));
      UOPD_ASSIGN(const ir::UOp shape, ShapeWith(memory.dims, from));
      const ir::UOp zero = graph.ctx().Const(memory.dtype, 0);
      out_->outputs_.emplace_back(
          graph.NewTensor(ir::Expand(graph.ctx(), zero, shape), memory.device));
      return out_->outputs_.back().status();
    }
    std::vector<ir::UOp> pieces;
    for (uint32_t at : from.buffers()) {
      const Memory& memory = buffers_[at];
      UOPD_ASSIGN(const ir::UOp shape, ShapeWith(memory.dims, from));
      pieces.push_back(ir::Buffer(graph.ctx(), static_cast<int64_t>(numbers_[at]), memory.dtype,
                                  shape, ir::AddrSpace::GLOBAL, memory.device));
    }
    ir::UOp value = pieces[0];
    if (from.in_pieces()) {
      const ir::Dims axis = from.has_axis() ? ir::Dims{from.axis()} : ir::Dims{};
      value = graph.ctx().Make(ir::Op::MULTI, value.dtype(), pieces, graph.ctx().Data(axis, ""));
    }
    // A tensor that is returned twice is one tensor.
    if (const auto known = made_.find(value.id()); known != made_.end()) {
      out_->outputs_.push_back(known->second);
      return absl::OkStatus();
    }
    const Tensor t(graph.NewTensor(value, buffers_[from.buffers(0)].device));
    UOPD_TRY(t.status());
    out_->outputs_.push_back(t);
    made_.emplace(value.id(), t);
    out_->AddKnown(*t.state());
    const bool written = out_->written_.Contains(NumbersOf(value)[0]);
    if (from.computed() && written && ir::IsFloat(t.dtype())) out_->results_.push_back(t.state());
    return absl::OkStatus();
  }

  const recording::v1::Recording& message_;
  std::string_view contents_;  // MakeBuffers takes them from the front
  std::span<const Tensor> outside_;
  size_t n_outside_ = 0;  // that the message wants
  std::unique_ptr<Recording> out_;
  std::vector<Memory> buffers_, positions_;  // positions: of the pieces of all inputs
  uint64_t bytes_ = 0;                       // of the contents of buffers_
  std::vector<Graph> graphs_;
  std::vector<Recorded> of_graphs_;  // what calls of the graph have in common
  std::vector<bool> filled_;         // the buffers that earlier calls use
  std::vector<uint64_t> numbers_;    // of buffers_
  absl::flat_hash_map<uint32_t, Tensor>
      made_;  // state from outside, and outputs, by the ids of their values
};

absl::StatusOr<std::unique_ptr<Recording>> Recording::Load(const Client& client,
                                                           std::string_view bytes,
                                                           std::span<const Tensor> outside) {
  if (client.graph_->Recorder() != nullptr)
    return Misused("a recording cannot be loaded while a function is recorded");
  UOPD_ASSIGN(const SavedFile file, OpenSavedFile(bytes));
  return Loader(client, file, outside).Load();
}

}  // namespace uopd::client
