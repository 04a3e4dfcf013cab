// SPDX-License-Identifier: MIT
// One run of a model: goes over the nodes in their order. Internal to the library.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/cpp/onnx/run/value.h"

namespace uopd::client::onnx {

// The values by name of a graph or of a function.
struct Frame {
  Frame* outer = nullptr;  // of a graph within a node: what that node sees, too
  const std::vector<OnnxOpset>* opsets = nullptr;
  // Within a function: the attributes of the node that calls it, by name.
  const std::unordered_map<std::string_view, const OnnxAttribute*>* bound = nullptr;
  std::unordered_map<std::string_view, Value> values;

  // nullptr: no node before has made it.
  Value* Find(std::string_view name);
  // A value that a node makes. INVALID_ARGUMENT: the name has a value, which an op may be reading.
  absl::Status Define(std::string_view name, Value value);
  int64_t Opset(std::string_view domain) const;  // 0: not imported
};

// Work on bytes is counted in nodes: the client needs about as long to make this many bytes as to
// run one node.
inline constexpr uint64_t kBytesOfNode = 1024;

class Walk {
 public:
  // `load` gives the value of a tensor of the file, the same one each time.
  using Load = std::function<absl::StatusOr<Value>(const OnnxTensor&)>;
  Walk(Client& client, const OnnxModel& model, const OnnxLimits& limits, Load load);

  Client& client() const { return client_; }
  const OnnxLimits& limits() const { return limits_; }
  absl::StatusOr<Value> LoadTensor(const OnnxTensor& tensor) const { return load_(tensor); }
  absl::StatusOr<Value> LoadSparse(const OnnxSparseTensor& tensor);

  // Counts nodes and rounds of loops. RESOURCE_EXHAUSTED: too many.
  absl::Status Charge(int64_t nodes = 1);
  // Counts bytes that the client makes or goes over itself, before it does: kBytesOfNode as a node.
  absl::Status ChargeBytes(uint64_t bytes);
  template <class T>
  absl::Status ChargeEach(size_t count) {
    return ChargeBytes(count * sizeof(T));
  }
  // Puts the initialisers of a graph into its frame, but those that are there already.
  absl::Status LoadInitializers(const OnnxGraph& graph, Frame& frame);
  absl::Status RunNodes(std::span<const OnnxNode> nodes, Frame& frame);
  // A graph within a node: binds its inputs, runs it, and gives its outputs.
  absl::StatusOr<std::vector<Value>> RunGraph(const OnnxGraph& graph, Frame& outer,
                                              std::span<const Value> inputs);
  // The contents, which are read from the daemon if the client does not know them.
  absl::StatusOr<std::string_view> Contents(Value& value);
  Tensor TensorOf(Value& value) const;

 private:
  absl::Status RunNode(const OnnxNode& node, Frame& frame);
  absl::Status RunFunction(const OnnxFunction& function, const OnnxNode& node, Frame& frame);

  Client& client_;
  const OnnxLimits& limits_;
  Load load_;
  // The functions of the model by domain, name and overload.
  using FunctionName = std::tuple<std::string_view, std::string_view, std::string_view>;
  absl::flat_hash_map<FunctionName, const OnnxFunction*> functions_;
  int64_t nodes_ = 0;
  int depth_ = 0;  // of functions in functions
};

}  // namespace uopd::client::onnx
