// SPDX-License-Identifier: MIT
// What an op sees of its node. Internal to the library.
//
// An attribute that the op has not asked for is refused when the op has run. A wrong type of an
// attribute is an error that Finish returns; the op goes on with the default.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/onnx/run/walk.h"

namespace uopd::client::onnx {

class Call {
 public:
  Call(Walk& walk, Frame& frame, const OnnxNode& node, int64_t opset);

  Walk& walk() { return walk_; }
  Frame& frame() { return frame_; }
  Client& client() { return walk_.client(); }
  const OnnxNode& node() const { return node_; }
  int64_t opset() const { return opset_; }

  // Inputs. Those that an op's row (registry.h) says are there; others after Has.
  size_t inputs() const { return inputs_.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  Value& In(size_t i) { return *inputs_[i]; }
  // As a tensor; empty if the input is not there.
  Tensor X(size_t i) { return Has(i) ? walk_.TensorOf(*inputs_[i]) : Tensor(); }
  const Dims& Shape(size_t i) { return inputs_[i]->dims; }
  int64_t Rank(size_t i) { return static_cast<int64_t>(inputs_[i]->dims.size()); }
  Dtype DtypeOf(size_t i) { return *OnnxStorageDtype(*inputs_[i]->type); }
  bool IsNumbers(size_t i) const;  // a tensor, and not of strings
  // Elements of an input, which are read from the daemon if the client does not know them.
  absl::StatusOr<Dims> Ints(size_t i);
  absl::StatusOr<std::vector<double>> Floats(size_t i);
  // The value of an input that has one element.
  absl::StatusOr<int64_t> OneInt(size_t i);
  absl::StatusOr<double> OneFloat(size_t i);

  // Attributes.
  const OnnxAttribute* Find(std::string_view name);
  int64_t Int(std::string_view name, int64_t otherwise);
  double Float(std::string_view name, double otherwise);
  std::string_view String(std::string_view name, std::string_view otherwise);
  Dims IntList(std::string_view name, const Dims& otherwise = {});
  std::vector<double> FloatList(std::string_view name, std::vector<double> otherwise = {});
  // nullptr: it is not there, which Finish reports.
  const OnnxGraph* Graph(std::string_view name);
  // An axis that may count from the end, from 0 to rank - 1. Others are an error.
  absl::StatusOr<int64_t> Axis(int64_t axis, int64_t rank) const;
  absl::StatusOr<Dims> Axes(Dims axes, int64_t rank) const;
  // Attributes of older operator sets, inputs in newer ones: ints by name or by position.
  absl::StatusOr<Dims> IntsOrInput(std::string_view name, size_t i, const Dims& otherwise = {});
  // An element type that an attribute gives by its number.
  absl::StatusOr<const OnnxElementType*> TypeOf(std::string_view name,
                                                const OnnxElementType* otherwise);

  // Outputs.
  size_t outputs() const { return node_.outputs.size(); }
  bool Wants(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  absl::Status Out(Tensor t, size_t i = 0);
  absl::Status Out(Value v, size_t i = 0);
  // In the dtype of an input.
  absl::Status OutAs(size_t input, const Tensor& t, size_t i = 0);

  absl::Status Refuse(std::string_view why) const;  // UNIMPLEMENTED
  absl::Status Wrong(std::string_view why) const;   // INVALID_ARGUMENT
  absl::Status Finish();

 private:
  template <class T>
  void WrongType(const OnnxAttribute& a, const T& wanted);

  Walk& walk_;
  Frame& frame_;
  const OnnxNode& node_;
  int64_t opset_;
  std::vector<Value*> inputs_;
  std::vector<std::string_view> asked_;
  absl::Status status_;
};

}  // namespace uopd::client::onnx
