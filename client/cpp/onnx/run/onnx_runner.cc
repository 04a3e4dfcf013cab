// SPDX-License-Identifier: MIT
// OnnxRunner: tensors of the file, inputs and outputs.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "client/cpp/onnx/run/registry.h"
#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

constexpr int64_t kKnownElements = 1 << 12;  // of tensors of the file that are kept on the client

// Elements of 4 and 2 bits, the first one in the lowest bits, as one number each.
std::string Unpacked(const OnnxElementType& type, std::string_view packed, uint64_t elements) {
  std::string out(elements, '\0');
  const auto bits = static_cast<uint64_t>(type.bits);
  for (uint64_t i = 0; i < elements; ++i) {
    const int word = static_cast<uint8_t>(packed[i * bits / 8]) >> (i * bits % 8);
    int value = word & ((1 << bits) - 1);
    if (type.name.starts_with("INT") && (value >> (bits - 1)) != 0) value -= 1 << bits;
    out[i] = static_cast<char>(value);
  }
  return out;
}

// A float of 8 bits and fewer by the fields of its bits.
double SmallFloat(const OnnxElementType& type, int bits) {
  if (type.name == "FLOAT8E8M0") return bits == 255 ? NAN : std::ldexp(1.0, bits - 127);
  const int mantissa = type.name == "FLOAT8E4M3FNUZ" ? 3 : type.name == "FLOAT8E5M2FNUZ" ? 2 : 1;
  const int width = type.bits - 1;
  const int bias = type.name == "FLOAT8E4M3FNUZ" ? 8 : type.name == "FLOAT8E5M2FNUZ" ? 16 : 1;
  const bool negative = (bits >> width) != 0;
  if (type.bits == 8 && bits == 128) return NAN;
  const int exponent = (bits & ((1 << width) - 1)) >> mantissa;
  const int fraction = bits & ((1 << mantissa) - 1);
  const double v = exponent == 0
                       ? std::ldexp(fraction, 1 - bias - mantissa)
                       : std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
  return negative ? -v : v;
}

// The contents in the dtype that the elements have here.
std::string StoredContents(const OnnxElementType& type, std::string bytes, uint64_t elements) {
  if (type.dtype) return bytes;
  if (type.bits < 8) bytes = Unpacked(type, bytes, elements);
  const Dtype dtype = *OnnxStorageDtype(type);
  if (!ir::IsFloat(dtype)) return bytes;
  const auto width = static_cast<size_t>(ir::ByteSize(dtype));
  std::string out(elements * width, '\0');
  for (uint64_t i = 0; i < elements; ++i) {
    const uint64_t bits = ir::EncodeFloat(dtype, SmallFloat(type, static_cast<uint8_t>(bytes[i])));
    std::memcpy(out.data() + i * width, &bits, width);
  }
  return out;
}

std::string ShownShape(const Dims& dims) {
  std::string out = "(";
  for (size_t i = 0; i < dims.size(); ++i) Append(out, i > 0 ? ", " : "", dims[i]);
  return out + ")";
}

// Sizes that have names, so far.
using InputSizes = std::map<std::string_view, int64_t>;

absl::Status CheckInputShape(const OnnxType& type, const Dims& dims, InputSizes& sizes) {
  if (!type.has_shape) return absl::OkStatus();
  bool fits = dims.size() == type.shape.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) {
    const OnnxDim& d = type.shape[i];
    int64_t wanted = d.value.value_or(dims[i]);
    if (!d.param.empty()) wanted = sizes.try_emplace(d.param, dims[i]).first->second;
    fits = wanted == dims[i];
  }
  if (fits) return absl::OkStatus();
  std::string declared;
  for (const OnnxDim& d : type.shape) {
    Append(declared, declared.empty() ? "" : ", ");
    if (d.value)
      Append(declared, *d.value);
    else
      Append(declared, d.param.empty() ? "?" : ShownName(d.param));
  }
  return Invalid(Cat("its shape is ", ShownShape(dims), "; the model declares (", declared,
                     "), in which equal names are equal sizes"));
}

absl::StatusOr<onnx::Value> InputStrings(const OnnxType& type, const OnnxStrings& given,
                                         InputSizes& sizes) {
  if (type.element != onnx::ElementType("STRING")) return Invalid("the model declares no strings");
  if (ir::Product(given.dims) != static_cast<int64_t>(given.elements.size()))
    return Invalid("its shape does not fit the number of its strings");
  UOPD_TRY(CheckInputShape(type, given.dims, sizes));
  return onnx::StringValue(given.dims, given.elements);
}

absl::StatusOr<onnx::Value> InputNumber(const OnnxType& type, const OnnxNumber& given,
                                        InputSizes& sizes) {
  const OnnxElementType* element = type.element;
  const bool whole = element != nullptr && element->dtype && !ir::IsFloat(*element->dtype);
  if (!whole) return Invalid("it is a whole number; the model declares another element type");
  const bool fits = ir::WrapTo(*element->dtype, given.value) == given.value &&
                    (given.value >= 0 || !ir::IsUnsigned(*element->dtype));
  if (!fits)
    return Invalid(Cat("its value is ", given.value, ", which ", element->name, " does not have"));
  UOPD_TRY(CheckInputShape(type, {}, sizes));
  return onnx::KnownInts(element, {}, {&given.value, 1});
}

}  // namespace

struct OnnxRunner::State {
  Client& client;
  OnnxFile file;
  OnnxLimits limits;
  std::unordered_map<const OnnxTensor*, onnx::Value> loaded;

  absl::StatusOr<onnx::Value> Load(const OnnxTensor& tensor);
  // The value of an input; `sizes` has those of symbolic dimensions so far.
  absl::StatusOr<onnx::Value> Input(const OnnxType& type, const OnnxData& data,
                                    InputSizes& sizes) const;
  absl::StatusOr<onnx::Value> InputTensor(const OnnxType& type, const Tensor& t,
                                          InputSizes& sizes) const;
};

OnnxRunner::OnnxRunner(std::unique_ptr<State> state) : state_(std::move(state)) {}
OnnxRunner::OnnxRunner(OnnxRunner&&) noexcept = default;
OnnxRunner& OnnxRunner::operator=(OnnxRunner&&) noexcept = default;
OnnxRunner::~OnnxRunner() = default;

absl::StatusOr<OnnxRunner> OnnxRunner::Open(Client& client, const std::string& path,
                                            const OnnxLimits& limits) {
  UOPD_ASSIGN(OnnxFile file, OnnxFile::Open(path));
  return OnnxRunner(std::unique_ptr<State>(
      new State{.client = client, .file = std::move(file), .limits = limits, .loaded = {}}));
}

const OnnxModel& OnnxRunner::model() const { return state_->file.model(); }

absl::StatusOr<onnx::Value> OnnxRunner::State::Load(const OnnxTensor& tensor) {
  if (const auto found = loaded.find(&tensor); found != loaded.end()) return found->second;
  if (tensor.type == onnx::ElementType("STRING")) {
    return loaded[&tensor] = onnx::StringValue(
               tensor.dims, std::vector<std::string>(tensor.strings.begin(), tensor.strings.end()));
  }
  const std::optional<Dtype> dtype = OnnxStorageDtype(*tensor.type);
  if (!dtype) {
    return absl::UnimplementedError(
        Cat("tensor ", ShownName(tensor.name), " has the element type ", tensor.type->name));
  }
  UOPD_ASSIGN(std::string bytes, file.Read(tensor));
  const auto contents = std::make_shared<const std::string>(
      StoredContents(*tensor.type, std::move(bytes), tensor.elements()));
  onnx::Value v{.kind = onnx::Value::Kind::kTensor, .type = tensor.type, .dims = tensor.dims};
  if (tensor.elements() <= kKnownElements) v.bytes = contents;
  v.tensor = client.FromBytes(*dtype, tensor.dims, *contents);
  UOPD_TRY(v.tensor.status());
  return loaded[&tensor] = std::move(v);
}

absl::StatusOr<onnx::Value> OnnxRunner::State::InputTensor(const OnnxType& type, const Tensor& t,
                                                           InputSizes& sizes) const {
  UOPD_TRY(t.status());
  if (t.is_symbolic())
    return absl::UnimplementedError("it has a symbolic size, which models do not take yet");
  const OnnxElementType* element = type.element;
  if (element == nullptr) return Invalid("the model does not declare its element type");
  const std::optional<Dtype> dtype = OnnxStorageDtype(*element);
  if (!dtype) return absl::UnimplementedError(Cat("its element type is ", element->name));
  if (t.dtype() != *dtype) {
    return Invalid(Cat("its dtype is ", ir::Name(t.dtype()), "; the model declares ", element->name,
                       ", which is ", ir::Name(*dtype)));
  }
  UOPD_TRY(CheckInputShape(type, t.dims(), sizes));
  return onnx::ValueOf(t, element);
}

absl::StatusOr<onnx::Value> OnnxRunner::State::Input(const OnnxType& type, const OnnxData& data,
                                                     InputSizes& sizes) const {
  using Kind = OnnxType::Kind;
  if (type.kind == Kind::kOptional && type.inner != nullptr) {
    if (std::holds_alternative<std::monostate>(data)) return onnx::Value{};
    return Input(*type.inner, data, sizes);
  }
  if (type.kind == Kind::kTensor) {
    if (const auto* s = std::get_if<OnnxStrings>(&data)) return InputStrings(type, *s, sizes);
    if (const auto* n = std::get_if<OnnxNumber>(&data)) return InputNumber(type, *n, sizes);
    if (const auto* t = std::get_if<Tensor>(&data)) return InputTensor(type, *t, sizes);
    return Invalid("the model declares a tensor");
  }
  if (type.kind == Kind::kSequence && type.inner != nullptr && type.inner->kind == Kind::kTensor) {
    const auto* all = std::get_if<std::vector<Tensor>>(&data);
    if (all == nullptr) return Invalid("the model declares a sequence of tensors");
    std::vector<onnx::SharedValue> items;
    for (const Tensor& t : *all) {
      InputSizes own;  // items may have different sizes
      UOPD_ASSIGN(onnx::Value item, InputTensor(*type.inner, t, own));
      items.push_back(onnx::Shared(std::move(item)));
    }
    return onnx::SequenceOf(std::move(items));
  }
  return absl::UnimplementedError("its type is neither a tensor nor a sequence of tensors");
}

namespace {

// A result is another tensor than inputs and weights, also if a node gives its input as it is: an
// assignment to it must not change them.
absl::StatusOr<OnnxData> OutputData(const onnx::Walk& walk, onnx::Value& v) {
  if (v.kind == onnx::Value::Kind::kNothing) return OnnxData();
  if (v.strings != nullptr) return OnnxData(OnnxStrings{v.dims, *v.strings});
  if (v.kind == onnx::Value::Kind::kTensor) return OnnxData(walk.TensorOf(v).Snapshot());
  std::vector<Tensor> all;
  for (const onnx::SharedValue& shared : *v.items) {
    onnx::Value item = *shared;
    if (item.kind != onnx::Value::Kind::kTensor || item.strings != nullptr)
      return absl::UnimplementedError("a result is a sequence of what are no tensors of numbers");
    all.push_back(walk.TensorOf(item).Snapshot());
  }
  return OnnxData(std::move(all));
}

}  // namespace

absl::StatusOr<OnnxDataMap> OnnxRunner::Run(const OnnxDataMap& inputs) const {
  State& state = *state_;
  const OnnxModel& model = this->model();
  onnx::Walk walk(state.client, model, state.limits,
                  [&](const OnnxTensor& t) { return state.Load(t); });
  onnx::Frame frame{.opsets = &model.opsets};
  InputSizes sizes;
  size_t used = 0;
  for (const std::string_view name : model.graph.InputNames()) {
    if (!inputs.contains(std::string(name)))
      return Invalid(Cat("the input ", ShownName(name), " is missing"));
  }
  for (const OnnxValue& in : model.graph.inputs) {
    const auto given = inputs.find(std::string(in.name));
    if (given == inputs.end()) continue;  // an initialiser has it
    ++used;
    absl::StatusOr<onnx::Value> v = state.Input(in.type, given->second, sizes);
    if (!v.ok()) return WithFrame(v.status(), Cat("taking the input ", ShownName(in.name)));
    frame.values[in.name] = *std::move(v);
  }
  if (used < inputs.size()) {
    for (const auto& [name, data] : inputs)
      if (std::ranges::find(model.graph.inputs, name, &OnnxValue::name) == model.graph.inputs.end())
        return Invalid(Cat("the model has no input ", ShownName(name)));
  }
  UOPD_TRY(walk.LoadInitializers(model.graph, frame));
  UOPD_TRY(walk.RunNodes(model.graph.nodes, frame));
  OnnxDataMap out;
  for (const OnnxValue& o : model.graph.outputs) {
    onnx::Value* v = frame.Find(o.name);
    if (v == nullptr) return Invalid(Cat("no node makes the output ", ShownName(o.name)));
    UOPD_ASSIGN(out[std::string(o.name)], OutputData(walk, *v));
  }
  return out;
}

}  // namespace uopd::client
