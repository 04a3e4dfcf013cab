// SPDX-License-Identifier: MIT
#include "client/cpp/onnx/run/walk.h"

#include "client/cpp/onnx/run/fold.h"
#include "client/cpp/onnx/run/registry.h"
#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"
#include "uopd/indexing.h"

namespace uopd::client::onnx {
namespace {

constexpr int kMostFunctionDepth = 32;
constexpr size_t kNamesOfNode = 16;  // inputs and outputs that cost nothing besides
constexpr int64_t kFirstOpset = 1, kLastOpset = 27;

std::string ShownNode(const OnnxNode& node, int64_t opset) {
  std::string out = "running node ";
  if (!node.name.empty()) Append(out, ShownName(node.name), " ");
  Append(out, "of the op ", ShownName(node.op_type));
  if (!node.domain.empty()) Append(out, " of the domain ", ShownName(node.domain));
  Append(out, ", operator set ", opset, ", at byte ", node.offset, " of the file");
  return out;
}

absl::Status CheckOnnxInputs(const OpRow& row, const OnnxNode& node, Call& call) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].empty() && !call.Has(i))
      return Invalid(Cat("no node before it makes its input ", ShownName(node.inputs[i])));
  }
  if (call.inputs() < row.least_inputs || call.inputs() > row.most_inputs)
    return Invalid(Cat("it has ", call.inputs(), " inputs"));
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!call.Has(i)) {
      const bool all = row.most_inputs == kManyInputs && (row.flags & kGaps) == 0;
      if ((all && i < call.inputs()) || i < row.least_inputs)
        return Invalid(Cat("its input ", i, " is missing"));
      continue;
    }
    const Value& v = call.In(i);
    if ((row.flags & kAnyKind) != 0) continue;
    if (v.kind != Value::Kind::kTensor) return Invalid(Cat("its input ", i, " is no tensor"));
    const bool is_known = (row.flags & kAnyType) != 0 ? OnnxStorageDtype(*v.type).has_value()
                                                      : v.type->dtype.has_value();
    if (!is_known && !(v.strings != nullptr && (row.flags & kStrings) != 0))
      return absl::UnimplementedError(Cat("its input ", i, " has the element type ", v.type->name));
  }
  return absl::OkStatus();
}

}  // namespace

Value* Frame::Find(std::string_view name) {
  for (Frame* f = this; f != nullptr; f = f->outer)
    if (const auto found = f->values.find(name); found != f->values.end()) return &found->second;
  return nullptr;
}

absl::Status Frame::Define(std::string_view name, Value value) {
  if (values.try_emplace(name, std::move(value)).second) return absl::OkStatus();
  return Invalid(Cat("its output ", ShownName(name), " has the name of another value"));
}

int64_t Frame::Opset(std::string_view domain) const {
  for (const OnnxOpset& o : *opsets)
    if (o.domain == domain) return o.version;
  return 0;
}

Walk::Walk(Client& client, const OnnxModel& model, const OnnxLimits& limits, Load load)
    : client_(client), limits_(limits), load_(std::move(load)) {
  functions_.reserve(model.functions.size());
  for (const OnnxFunction& f : model.functions)
    functions_.emplace(FunctionName(f.domain, f.name, f.overload), &f);
}

absl::Status Walk::ChargeBytes(uint64_t bytes) {
  return Charge(static_cast<int64_t>(bytes / kBytesOfNode));
}

absl::Status Walk::Charge(int64_t nodes) {
  // A count may be any number that a file has: the sum need not fit.
  if (nodes >= 0 && nodes <= limits_.nodes - nodes_) {
    nodes_ += nodes;
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      Cat("the model runs more than ", limits_.nodes, " nodes, with all rounds of its loops"));
}

absl::StatusOr<Value> Walk::LoadSparse(const OnnxSparseTensor& sparse) {
  if (!OnnxStorageDtype(*sparse.values.type)) {
    return absl::UnimplementedError(Cat("the sparse tensor ", ShownName(sparse.values.name),
                                        " has the element type ", sparse.values.type->name));
  }
  UOPD_ASSIGN(Value values, LoadTensor(sparse.values));
  UOPD_ASSIGN(Value indices, LoadTensor(sparse.indices));
  UOPD_ASSIGN(const std::string_view bytes, Contents(indices));
  const std::vector<int64_t> all = IntsIn(Dtype::I64, bytes);
  const int64_t count = ir::Product(values.dims), size = ir::Product(sparse.dims);
  const size_t rank = sparse.dims.size();
  const bool rows = indices.dims.size() == 2;
  UOPD_TRY(ChargeEach<int64_t>(2 * all.size()));
  std::vector<int64_t> flat;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = rows ? 0 : all[static_cast<size_t>(i)];
    bool inside = rows || (at >= 0 && at < size);
    for (size_t axis = 0; rows && axis < rank; ++axis) {
      const int64_t k = all[static_cast<size_t>(i) * rank + axis];
      inside = inside && k >= 0 && k < sparse.dims[axis];
      at = inside ? at * sparse.dims[axis] + k : 0;
    }
    if (!inside) return Invalid(Cat("index ", i, " of a sparse tensor is out of range"));
    flat.push_back(at);
  }
  const Tensor elements = TensorOf(values);
  const Tensor zeros = client_.Zeros({size}, elements.dtype());
  if (count == 0) return ValueOf(zeros.Reshape(sparse.dims), values.type);
  return ValueOf(
      fn::Scatter(zeros, 0, client_.FromHost(flat, {count}), elements).Reshape(sparse.dims),
      values.type);
}

absl::Status Walk::LoadInitializers(const OnnxGraph& graph, Frame& frame) {
  for (const OnnxTensor& t : graph.initializers) {
    if (frame.values.contains(t.name)) continue;
    UOPD_ASSIGN(frame.values[t.name], LoadTensor(t));
  }
  for (const OnnxSparseTensor& t : graph.sparse_initializers) {
    if (frame.values.contains(t.values.name)) continue;
    UOPD_ASSIGN(frame.values[t.values.name], LoadSparse(t));
  }
  return absl::OkStatus();
}

absl::Status Walk::RunNodes(std::span<const OnnxNode> nodes, Frame& frame) {
  for (const OnnxNode& node : nodes) {
    if (absl::Status s = RunNode(node, frame); !s.ok())
      return WithFrame(s, ShownNode(node, frame.Opset(node.domain)));
  }
  return absl::OkStatus();
}

absl::Status Walk::RunNode(const OnnxNode& node, Frame& frame) {
  // An op of many inputs is as much work as many ops.
  const size_t names = node.inputs.size() + node.outputs.size();
  UOPD_TRY(Charge(1 + static_cast<int64_t>(names > kNamesOfNode ? names - kNamesOfNode : 0)));
  const auto function = functions_.find(FunctionName(node.domain, node.op_type, node.overload));
  if (function != functions_.end()) return RunFunction(*function->second, node, frame);
  const int64_t opset = frame.Opset(node.domain);
  if (opset == 0) return Invalid("the model does not import an operator set of its domain");
  if (node.domain.empty() && (opset < kFirstOpset || opset > kLastOpset)) {
    return absl::UnimplementedError(
        Cat("operator sets ", kFirstOpset, " to ", kLastOpset, " are supported"));
  }
  const OpRow* row = FindOp(node.domain, node.op_type, opset);
  if (row == nullptr) {
    return absl::UnimplementedError(OpIsKnown(node.domain, node.op_type)
                                        ? "the op is not supported in this operator set"
                                        : "the op is not supported");
  }
  Call call(*this, frame, node, opset);
  UOPD_TRY(CheckOnnxInputs(*row, node, call));
  if (std::optional<Value> known = Folded(call)) {
    UOPD_TRY(call.Out(*std::move(known)));
  } else {
    UOPD_TRY(row->run(call));
  }
  return call.Finish();
}

absl::Status Walk::RunFunction(const OnnxFunction& function, const OnnxNode& node, Frame& frame) {
  if (depth_ >= kMostFunctionDepth)
    return absl::ResourceExhaustedError(
        Cat("functions call each other more than ", kMostFunctionDepth, " times"));
  if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
    return Invalid("it has more inputs or outputs than its function");
  UOPD_TRY(ChargeEach<Value>(node.inputs.size() + node.outputs.size() + node.attributes.size() +
                             function.default_attributes.size()));
  std::unordered_map<std::string_view, const OnnxAttribute*> bound;
  for (const OnnxAttribute& a : function.default_attributes) bound[a.name] = &a;
  for (const OnnxAttribute& a : node.attributes) {
    const OnnxAttribute* given = &a;
    if (!a.ref_attr_name.empty()) {
      if (frame.bound == nullptr) return Invalid("an attribute refers to one of a function");
      const auto found = frame.bound->find(a.ref_attr_name);
      if (found == frame.bound->end()) continue;
      given = found->second;
    }
    bound[a.name] = given;
  }
  Frame inner{.opsets = &function.opsets, .bound = &bound};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty()) continue;
    const Value* v = frame.Find(node.inputs[i]);
    if (v == nullptr)
      return Invalid(Cat("no node before it makes its input ", ShownName(node.inputs[i])));
    inner.values[function.inputs[i]] = *v;
  }
  ++depth_;
  const absl::Status status = RunNodes(function.nodes, inner);
  --depth_;
  UOPD_TRY(status);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const Value* v = inner.Find(function.outputs[i]);
    if (v == nullptr)
      return Invalid(Cat("its function does not make the output ", ShownName(function.outputs[i])));
    UOPD_TRY(frame.Define(node.outputs[i], *v));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Value>> Walk::RunGraph(const OnnxGraph& graph, Frame& outer,
                                                  std::span<const Value> inputs) {
  if (inputs.size() > graph.inputs.size()) {
    return Invalid(Cat("graph ", ShownName(graph.name), " has ", graph.inputs.size(),
                       " inputs; given are ", inputs.size()));
  }
  UOPD_TRY(ChargeEach<Value>(inputs.size() + graph.outputs.size() + graph.initializers.size() +
                             graph.sparse_initializers.size()));
  Frame frame{.outer = &outer, .opsets = outer.opsets, .bound = outer.bound};
  for (size_t i = 0; i < inputs.size(); ++i) frame.values[graph.inputs[i].name] = inputs[i];
  UOPD_TRY(LoadInitializers(graph, frame));
  UOPD_TRY(RunNodes(graph.nodes, frame));
  std::vector<Value> out;
  for (const OnnxValue& o : graph.outputs) {
    const Value* v = frame.Find(o.name);
    if (v == nullptr) return Invalid(Cat("no node makes the output ", ShownName(o.name)));
    out.push_back(*v);
  }
  return out;
}

absl::StatusOr<std::string_view> Walk::Contents(Value& value) {
  if (value.bytes == nullptr) {
    UOPD_TRY(value.tensor.status());
    const int64_t bytes = value.tensor.size() * ir::ByteSize(value.tensor.dtype());
    if (bytes > limits_.known_bytes) {
      return absl::ResourceExhaustedError(Cat("a tensor of ", bytes, " bytes would be read back; ",
                                              limits_.known_bytes, " are allowed"));
    }
    UOPD_TRY(ChargeBytes(static_cast<uint64_t>(bytes)));
    UOPD_ASSIGN(std::string read, value.tensor.ToBytes());
    value.bytes = std::make_shared<const std::string>(std::move(read));
  }
  UOPD_TRY(ChargeBytes(value.bytes->size() / 4));  // the caller goes over them
  return std::string_view(*value.bytes);
}

Tensor Walk::TensorOf(Value& value) const {
  if (value.tensor.state() == nullptr && value.bytes != nullptr)
    value.tensor = client_.FromBytes(*OnnxStorageDtype(*value.type), value.dims, *value.bytes);
  return value.tensor;
}

}  // namespace uopd::client::onnx
