// SPDX-License-Identifier: MIT
// The ops: one row for each op and each change of its rules that needs another function. Internal
// to the library.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "client/cpp/onnx/run/call.h"

namespace uopd::client::onnx {

enum OpFlags : uint8_t {
  kTensors = 0,  // all inputs are tensors with dtypes of uopd
  kAnyType = 1,  // also element types without a dtype of their own (OnnxStorageDtype)
  kAnyKind = 2,  // also sequences and nothing
  kStrings = 4,  // also strings
  // An op with kManyInputs: any of its inputs from least_inputs on may be missing.
  kGaps = 8,
};

struct OpRow {
  std::string_view name;
  int since = 0;  // operator set
  size_t least_inputs = 0, most_inputs = 0;
  std::function<absl::Status(Call&)> run;
  uint8_t flags = kTensors;
  std::string_view domain = "";
};

inline constexpr size_t kManyInputs = 1 << 20;

// The families, in client/cpp/onnx/ops.
using OpRows = std::vector<OpRow>;
OpRows UnaryOps();
OpRows BinaryOps();
OpRows CastOps();
OpRows ActivationOps();
OpRows ReductionOps();
OpRows ShapeOps();
OpRows MovementOps();
OpRows PadOps();
OpRows MakeOps();
OpRows MatMulOps();
OpRows ConvOps();
OpRows PoolOps();
OpRows NormalisationOps();
OpRows IndexOps();
OpRows ControlOps();
OpRows SequenceOps();
OpRows QuantisationOps();
OpRows LossOps();
OpRows AttentionOps();
OpRows ResizeOps();
OpRows GridOps();
OpRows RecurrentOps();
OpRows SelectionOps();
OpRows SignalOps();
OpRows TrainingOps();
OpRows TextOps();

// nullptr: no row of the op holds for this operator set.
const OpRow* FindOp(std::string_view domain, std::string_view name, int64_t opset);
// False: no operator set has the op, as far as it is known here.
bool OpIsKnown(std::string_view domain, std::string_view name);

}  // namespace uopd::client::onnx
