// SPDX-License-Identifier: MIT
// OnnxRunner: runs the model of an ONNX file (onnx.h reads such files). Running builds the graph of
// the results out of the functions of tensors; as with other tensors, the daemon computes them when
// they are read.
//
// The operator sets 6 to 27 of the domain "ai.onnx" are known, and some ops of other domains. An
// op, an attribute or an element type that is not known is UNIMPLEMENTED; the message names the
// node. Meanings of the ops: https://onnx.ai/onnx/operators.
//
// Some ops need numbers while the graph is built: the shape of Reshape, the condition of If, the
// trip count of Loop. If these are computed from nothing but constants and shapes, the client
// computes them. Otherwise Run sends what computes them, and waits. The same holds for ops whose
// results have sizes that depend on elements (NonZero, Unique, Compress, NonMaxSuppression).
// Functions of the model are expanded, and loops are unrolled.
//
// Element types without a dtype of uopd have one that represents all their values: INT4, INT2 and
// UINT4, UINT2: i8 and u8; FLOAT8E4M3FNUZ, FLOAT8E5M2FNUZ: f16; FLOAT4E2M1, FLOAT8E8M0: f32.
// Strings are known to a few ops (StringNormalizer, StringConcat, StringSplit, Equal, and those
// that change shapes), which the client computes. Complex numbers are refused.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "uopd/client.h"
#include "uopd/onnx.h"
#include "uopd/tensor.h"

namespace uopd::client {

// A tensor of strings, row-major. They stay on the client: the daemon has no strings.
struct OnnxStrings {
  Dims dims;
  std::vector<std::string> elements;
};

// A whole number, or a bool as 0 or 1, for an input without axes. The client knows it: the branch
// of an If that it decides is taken without asking the daemon, and a Jit records that branch.
struct OnnxNumber {
  int64_t value = 0;
};

// What a model takes and gives: a tensor; a sequence of tensors; strings; or nothing, which is an
// optional value that is not there. A number is an input only.
using OnnxData = std::variant<std::monostate, Tensor, std::vector<Tensor>, OnnxStrings, OnnxNumber>;
using OnnxDataMap = std::map<std::string, OnnxData>;

// The dtype that elements of this type have here; nullopt: they are refused.
std::optional<Dtype> OnnxStorageDtype(const OnnxElementType& type);

// The bounds of one Run. A model that exceeds them is refused before anything of it is computed.
struct OnnxLimits {
  // Nodes that run in one Run, those of all expanded functions and of all rounds of loops together.
  // What the client itself works on counts too: a KiB as a node, and so does each input or output
  // of a node beyond 16. So a small file costs some seconds and some hundred MB at most.
  int64_t nodes = 1 << 18;
  int64_t known_bytes = 16 << 20;  // of one tensor that is read back
};

// A model of one Client. It is used by the thread that uses the Client.
class OnnxRunner {
 public:
  // Reads the file. Its tensors are sent with the first Run that needs them, once, and stay on the
  // daemon as long as this object. The client must outlive it.
  static absl::StatusOr<OnnxRunner> Open(Client& client, const std::string& path,
                                         const OnnxLimits& limits = {});
  OnnxRunner(OnnxRunner&&) noexcept;
  OnnxRunner& operator=(OnnxRunner&&) noexcept;
  ~OnnxRunner();

  // With the declared inputs and outputs (OnnxGraph::InputNames), their types and shapes.
  const OnnxModel& model() const;

  // The results by the names of the model's outputs. INVALID_ARGUMENT for an input that is missing,
  // unknown, or has another dtype or shape than the model declares; sizes with one name have to be
  // equal. An input that an initialiser has may be given, too. UNIMPLEMENTED: see above.
  // RESOURCE_EXHAUSTED: a limit.
  // Nodes have to stand in their order, and no name may be made twice in a graph: INVALID_ARGUMENT.
  absl::StatusOr<OnnxDataMap> Run(const OnnxDataMap& inputs) const;

 private:
  struct State;
  explicit OnnxRunner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The ops that OnnxRunner runs, for lists of them.
struct OnnxSupportedOp {
  std::string_view domain, name;
  int since = 0;  // the first operator set whose rules are known
};
std::vector<OnnxSupportedOp> OnnxSupportedOps();

}  // namespace uopd::client
