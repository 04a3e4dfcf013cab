// SPDX-License-Identifier: MIT
#include "client/cpp/onnx/run/call.h"

#include <algorithm>

#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"

namespace uopd::client::onnx {

Call::Call(Walk& walk, Frame& frame, const OnnxNode& node, int64_t opset)
    : walk_(walk), frame_(frame), node_(node), opset_(opset) {
  for (const std::string_view name : node.inputs)
    inputs_.push_back(name.empty() ? nullptr : frame.Find(name));
  while (!inputs_.empty() && inputs_.back() == nullptr) inputs_.pop_back();
}

bool Call::IsNumbers(size_t i) const {
  return inputs_[i]->kind == Value::Kind::kTensor &&
         OnnxStorageDtype(*inputs_[i]->type).has_value();
}

absl::StatusOr<Dims> Call::Ints(size_t i) {
  if (!IsNumbers(i)) return Wrong(Cat("input ", i, " is no tensor of numbers"));
  UOPD_ASSIGN(const std::string_view bytes, walk_.Contents(In(i)));
  const std::vector<int64_t> all = IntsIn(DtypeOf(i), bytes);
  return Dims(all.begin(), all.end());
}

absl::StatusOr<std::vector<double>> Call::Floats(size_t i) {
  if (!IsNumbers(i)) return Wrong(Cat("input ", i, " is no tensor of numbers"));
  UOPD_ASSIGN(const std::string_view bytes, walk_.Contents(In(i)));
  return FloatsIn(DtypeOf(i), bytes);
}

absl::StatusOr<int64_t> Call::OneInt(size_t i) {
  if (!IsNumbers(i) || ir::Product(Shape(i)) != 1)
    return Wrong(Cat("input ", i, " has not one element"));
  UOPD_ASSIGN(const Dims all, Ints(i));
  return all[0];
}

absl::StatusOr<double> Call::OneFloat(size_t i) {
  if (!IsNumbers(i) || ir::Product(Shape(i)) != 1)
    return Wrong(Cat("input ", i, " has not one element"));
  UOPD_ASSIGN(const std::vector<double> all, Floats(i));
  return all[0];
}

const OnnxAttribute* Call::Find(std::string_view name) {
  asked_.push_back(name);
  const OnnxAttribute* a = node_.Find(name);
  if (a == nullptr || a->ref_attr_name.empty()) return a;
  if (frame_.bound == nullptr) {
    if (status_.ok())
      status_ = Wrong(Cat("attribute ", ShownName(name), " refers to one of a function"));
    return nullptr;
  }
  const auto found = frame_.bound->find(a->ref_attr_name);
  return found == frame_.bound->end() ? nullptr : found->second;
}

template <class T>
void Call::WrongType(const OnnxAttribute& a, const T& wanted) {
  if (status_.ok()) status_ = Wrong(Cat("attribute ", ShownName(a.name), " is not ", wanted));
}

int64_t Call::Int(std::string_view name, int64_t otherwise) {
  const OnnxAttribute* a = Find(name);
  if (a == nullptr) return otherwise;
  if (!a->Int()) WrongType(*a, "an integer");
  return a->Int().value_or(otherwise);
}

double Call::Float(std::string_view name, double otherwise) {
  const OnnxAttribute* a = Find(name);
  if (a == nullptr) return otherwise;
  if (!a->Float()) WrongType(*a, "a float");
  return a->Float().value_or(static_cast<float>(otherwise));
}

std::string_view Call::String(std::string_view name, std::string_view otherwise) {
  const OnnxAttribute* a = Find(name);
  if (a == nullptr) return otherwise;
  if (!a->String()) WrongType(*a, "a string");
  return a->String().value_or(otherwise);
}

Dims Call::IntList(std::string_view name, const Dims& otherwise) {
  const OnnxAttribute* a = Find(name);
  if (a == nullptr) return otherwise;
  if (a->Ints() != nullptr) return {a->Ints()->begin(), a->Ints()->end()};
  WrongType(*a, "a list of integers");
  return otherwise;
}

std::vector<double> Call::FloatList(std::string_view name, std::vector<double> otherwise) {
  const OnnxAttribute* a = Find(name);
  if (a == nullptr) return otherwise;
  if (a->Floats() != nullptr) return {a->Floats()->begin(), a->Floats()->end()};
  WrongType(*a, "a list of floats");
  return otherwise;
}

const OnnxGraph* Call::Graph(std::string_view name) {
  const OnnxAttribute* a = Find(name);
  const OnnxGraph* graph = a == nullptr ? nullptr : a->Graph();
  if (graph == nullptr && status_.ok())
    status_ = Wrong(Cat("attribute ", ShownName(name), " is no graph, or not there"));
  return graph;
}

absl::StatusOr<int64_t> Call::Axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank)
    return Wrong(Cat("axis ", axis, " is out of range for ", rank, " axes"));
  return axis < 0 ? axis + rank : axis;
}

absl::StatusOr<Dims> Call::Axes(Dims axes, int64_t rank) const {
  for (int64_t& axis : axes) {
    UOPD_ASSIGN(axis, Axis(axis, rank));
    if (std::ranges::count(axes, axis) > 1 && std::ranges::find(axes, axis) != &axis)
      return Wrong(Cat("axis ", axis, " is there twice"));
  }
  return axes;
}

absl::StatusOr<Dims> Call::IntsOrInput(std::string_view name, size_t i, const Dims& otherwise) {
  if (Has(i)) return Ints(i);
  return IntList(name, otherwise);
}

absl::StatusOr<const OnnxElementType*> Call::TypeOf(std::string_view name,
                                                    const OnnxElementType* otherwise) {
  const int64_t number = Int(name, 0);
  if (number == 0) return otherwise;
  const OnnxElementType* type = FindOnnxElementType(number);
  if (type == nullptr) return Wrong(Cat("element type ", number, " is not known"));
  if (!OnnxStorageDtype(*type))
    return Refuse(Cat("there is no dtype for the element type ", type->name));
  return type;
}

absl::Status Call::Out(Tensor t, size_t i) {
  UOPD_TRY(t.status());
  if (ElementTypeOf(t.dtype()) == nullptr)
    return Refuse(Cat("no element type has the dtype ", ir::Name(t.dtype())));
  return Out(ValueOf(std::move(t)), i);
}

absl::Status Call::Out(Value v, size_t i) {
  if (!Wants(i)) return absl::OkStatus();
  // What another value has too was counted when it was made.
  if (v.bytes.use_count() == 1) UOPD_TRY(walk_.ChargeBytes(v.bytes->size()));
  if (v.items.use_count() == 1) UOPD_TRY(walk_.ChargeEach<SharedValue>(v.items->size()));
  if (v.strings.use_count() == 1) {
    UOPD_TRY(walk_.ChargeEach<std::string>(v.strings->size()));
    for (const std::string& s : *v.strings) UOPD_TRY(walk_.ChargeBytes(s.size()));
  }
  return frame_.Define(node_.outputs[i], std::move(v));
}

absl::Status Call::OutAs(size_t input, const Tensor& t, size_t i) {
  UOPD_TRY(t.status());
  return Out(t.dtype() == DtypeOf(input) ? t : t.Cast(DtypeOf(input)), i);
}

absl::Status Call::Refuse(std::string_view why) const {
  return absl::UnimplementedError(std::string(why));
}

absl::Status Call::Wrong(std::string_view why) const { return Invalid(why); }

absl::Status Call::Finish() {
  UOPD_TRY(status_);
  for (const OnnxAttribute& a : node_.attributes)
    if (std::ranges::find(asked_, a.name) == asked_.end())
      return Refuse(Cat("the attribute ", ShownName(a.name), " is not supported"));
  for (size_t i = 0; i < node_.outputs.size(); ++i) {
    if (Wants(i) && !frame_.values.contains(node_.outputs[i]))
      return Refuse(Cat("output ", i, " is not supported"));
  }
  return absl::OkStatus();
}

}  // namespace uopd::client::onnx
