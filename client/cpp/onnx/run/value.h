// SPDX-License-Identifier: MIT
// What the nodes of a model pass on. Internal to the library.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "uopd/onnx_model.h"

namespace uopd::client::onnx {

struct Value;
using SharedValue = std::shared_ptr<const Value>;

// A tensor (of which the client has a handle, or the contents, or both; of strings: the contents),
// a sequence, or an optional value that is not there. Cheap to copy.
struct Value {
  enum class Kind : uint8_t { kNothing, kTensor, kSequence };
  Kind kind = Kind::kNothing;
  const OnnxElementType* type = nullptr;  // of tensors
  Dims dims;                              // of tensors
  Tensor tensor;                          // empty until it is needed, if the contents are known
  // Known contents, row-major, in the dtype OnnxStorageDtype(*type); nullptr: not known.
  std::shared_ptr<const std::string> bytes;
  // The elements, if the type is STRING: the daemon has no strings.
  std::shared_ptr<const std::vector<std::string>> strings;
  // Of sequences: tensors, never sequences. Sequences that were made of others share their items.
  std::shared_ptr<const std::vector<SharedValue>> items;
};

// REQUIRES: an element type that the dtype belongs to is known (all but TF32 and index have one).
const OnnxElementType* ElementTypeOf(Dtype dtype);
const OnnxElementType* ElementType(std::string_view name);
Value ValueOf(Tensor tensor, const OnnxElementType* type = nullptr);
Value StringValue(const Dims& dims, std::vector<std::string> elements);
Value SequenceOf(std::vector<SharedValue> items);
SharedValue Shared(Value value);
// An integer or bool tensor with known contents; they wrap to the dtype.
Value KnownInts(const OnnxElementType* type, const Dims& dims, std::span<const int64_t> values);

// Elements of known contents, whatever their dtype is. Floats are cut to whole numbers by IntsIn.
std::vector<int64_t> IntsIn(Dtype dtype, std::string_view bytes);
std::vector<double> FloatsIn(Dtype dtype, std::string_view bytes);

}  // namespace uopd::client::onnx
