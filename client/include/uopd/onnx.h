// SPDX-License-Identifier: MIT
// Models in files of the format ONNX: messages of protobuf, whose fields and their numbers are
// those of the format's schema (https://github.com/onnx/onnx/blob/main/onnx/onnx-ml.proto). This
// header reads a model. It neither knows the ops nor runs them.
//
// Files are not trusted. Errors are INVALID_ARGUMENT unless a comment says otherwise; they name the
// graph, the node, the attribute or the tensor and a byte of the file, and their text is valid
// UTF-8 without control characters. Checked are: lengths and types of all fields that are known
// here; that a field that is no list is there once (no writer repeats it); that an attribute has
// the value that its type says; that the contents of a tensor fit its shape and element type; that
// names of inputs, initialisers, attributes and functions are there once. Not checked: whether the
// value that a node reads is made by a node before it, whether an op exists, and the indices of
// sparse tensors. Unknown fields are skipped, and so are training_info, quantization_annotation and
// the configurations of devices.
//
// Memory. Contents of tensors are never kept, only their places in the file: a model may be larger
// than memory and than the 2 GiB of protobuf's own library. Reading copies them once, into memory
// of the caller. Everything else (the structure) takes at most kOnnxMemoryFactor times the bytes
// that were read, and at most kMostOnnxMemory. Lists are counted before they are allocated.
//
// Objects of this header may be read by several threads at once.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "uopd/tensor.h"

namespace uopd::client {

inline constexpr uint64_t kMostOnnxMemory = 256 << 20;  // bytes
inline constexpr uint64_t kOnnxMemoryFactor = 64;       // see above; small models take 8 KiB
inline constexpr uint64_t kMostOnnxNodes = 1 << 18;     // of all graphs and functions together
inline constexpr size_t kMostOnnxOpsets = 256;          // each node goes over them
inline constexpr int kMostOnnxGraphDepth = 16;  // graphs in graphs, the model's is the first
inline constexpr int kMostOnnxTypeDepth = 16;   // types in types
inline constexpr int kMostOnnxAxes = ir::kMaxRank;

// A type of elements: TensorProto.DataType.
struct OnnxElementType {
  int32_t number = 0;          // in files
  std::string_view name;       // that of the schema: "FLOAT", "INT4"
  int bits = 0;                // of one element; 0: strings
  uint32_t typed_field = 0;    // the field of TensorProto that has its values where raw_data do not
  std::optional<Dtype> dtype;  // nullopt: uopd has no such dtype
};
// The types that are known here, in the order of their numbers, without UNDEFINED. They are
// constants.
std::span<const OnnxElementType> OnnxElementTypes();
// Nullptr: the number is not known here.
const OnnxElementType* FindOnnxElementType(int64_t number);

struct OnnxEntry {  // StringStringEntryProto
  std::string_view key, value;
};

// OperatorSetIdProto. The domain "ai.onnx" of a file is "" here: both names mean the same.
struct OnnxOpset {
  std::string_view domain;
  int64_t version = 0;
};

// A part of the file that has elements of a tensor.
struct OnnxPart {
  uint64_t begin = 0, end = 0;  // bytes of the file
  uint32_t field = 0;           // of TensorProto
  bool packed = true;           // false: each element stands behind a tag
};

// Contents in another file.
struct OnnxExternal {
  // Below the folder of the model, with `/` between names. It has no name `..`, does not begin with
  // `/`, and is not empty.
  std::string_view location;
  uint64_t offset = 0;        // bytes
  std::string_view checksum;  // as the file has it; nobody compares it
};

// TensorProto. Its contents are row-major and little-endian; elements of 4 and 2 bits lie in bytes
// without gaps, the first one in the lowest bits.
struct OnnxTensor {
  std::string_view name, doc_string;
  Dims dims;                              // at most 2^48 - 1 elements
  const OnnxElementType* type = nullptr;  // of OnnxElementTypes(); never nullptr after parsing
  std::vector<OnnxPart> parts;            // empty: strings, external, or no elements
  std::vector<std::string_view> strings;  // the elements, if the type is STRING
  std::unique_ptr<OnnxExternal> external;

  uint64_t elements() const;
  // How many bytes ReadOnnx and OnnxFile::Read give; 0 of strings.
  uint64_t bytes() const;
};

// SparseTensorProto: `values` has one axis, and `indices` (INT64) one row for each value, or one
// number, which counts elements. That the indices are within `dims` is not checked.
struct OnnxSparseTensor {
  OnnxTensor values, indices;  // the name is that of `values`
  Dims dims;
};

// TensorShapeProto.Dimension: a size, a name of a size, or neither. Files may say -1 for neither.
struct OnnxDim {
  std::optional<int64_t> value;
  std::string_view param;
  std::string_view denotation;
};

// TypeProto.
struct OnnxType {
  enum class Kind : uint8_t { kUnknown, kTensor, kSparseTensor, kSequence, kOptional, kMap };
  Kind kind = Kind::kUnknown;
  bool has_shape = false;                    // false: even the number of axes is unknown
  const OnnxElementType* element = nullptr;  // of tensors, and keys of maps; nullptr: unknown
  std::vector<OnnxDim> shape;                // of tensors
  std::unique_ptr<OnnxType> inner;  // of sequences and optionals, and values of maps; or nullptr
  std::string_view denotation;
};

struct OnnxValue {  // ValueInfoProto
  std::string_view name, doc_string;
  OnnxType type;
};

struct OnnxGraph;

// AttributeProto, with the numbers of AttributeProto.AttributeType.
struct OnnxAttribute {
  enum class Type : uint8_t {
    kUndefined,
    kFloat,
    kInt,
    kString,
    kTensor,
    kGraph,
    kFloats,
    kInts,
    kStrings,
    kTensors,
    kGraphs,
    kSparseTensor,
    kSparseTensors,
    kType,
    kTypes
  };
  // A tensor, graph, sparse tensor or type that is no list is the only element of its vector.
  using Value =
      std::variant<std::monostate, float, int64_t, std::string_view, std::vector<float>,
                   std::vector<int64_t>, std::vector<std::string_view>, std::vector<OnnxTensor>,
                   std::vector<OnnxGraph>, std::vector<OnnxSparseTensor>, std::vector<OnnxType>>;

  std::string_view name, doc_string;
  // Within a function: the attribute of the caller's node that gives the value. `value` is then
  // std::monostate.
  std::string_view ref_attr_name;
  Type type = Type::kUndefined;  // kUndefined only beside a ref_attr_name
  Value value;

  // The value, or nullopt or nullptr if it is of another type. Strings are bytes of the file, which
  // need not be UTF-8.
  std::optional<float> Float() const;
  std::optional<int64_t> Int() const;
  std::optional<std::string_view> String() const;
  const std::vector<float>* Floats() const;
  const std::vector<int64_t>* Ints() const;
  const std::vector<std::string_view>* Strings() const;
  const OnnxTensor* Tensor() const;
  const OnnxGraph* Graph() const;
};

struct OnnxNode {                          // NodeProto
  std::string_view name, op_type, domain;  // op_type is not empty; the domain as in OnnxOpset
  std::string_view overload, doc_string;   // overload: which of functions of one name
  std::vector<std::string_view> inputs, outputs;  // "": an optional one that is not there
  std::vector<OnnxAttribute> attributes;
  std::vector<OnnxEntry> metadata;
  uint64_t offset = 0;  // bytes: where it begins in the file

  // The attribute of a name, or nullptr. It looks at one after the other.
  const OnnxAttribute* Find(std::string_view name) const;
};

struct OnnxGraph {  // GraphProto
  std::string_view name, doc_string;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxSparseTensor> sparse_initializers;
  std::vector<OnnxValue> inputs;  // of old files (IR version 3): also those that initialisers have
  std::vector<OnnxValue> outputs;
  std::vector<OnnxValue> value_infos;
  std::vector<OnnxEntry> metadata;

  // The initialiser of a name, or nullptr. They look at one after the other.
  const OnnxTensor* FindInitializer(std::string_view name) const;
  const OnnxSparseTensor* FindSparseInitializer(std::string_view name) const;
  // What a caller has to give: the names of inputs that no initialiser has.
  std::vector<std::string_view> InputNames() const;
  std::vector<std::string_view> OutputNames() const;
};

struct OnnxFunction {                                   // FunctionProto
  std::string_view name, domain, overload, doc_string;  // the domain as in OnnxOpset
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;       // those that have no default
  std::vector<OnnxAttribute> default_attributes;  // those that have one
  std::vector<OnnxNode> nodes;
  std::vector<OnnxOpset> opsets;
  std::vector<OnnxValue> value_infos;
  std::vector<OnnxEntry> metadata;

  std::optional<int64_t> Opset(std::string_view domain) const;
};

// ModelProto. Strings are views of the bytes that ParseOnnx was given, or of memory of the
// OnnxFile.
struct OnnxModel {
  int64_t ir_version = 0;  // 0: the file does not say
  int64_t model_version = 0;
  std::string_view producer_name, producer_version, domain, doc_string;
  std::vector<OnnxOpset> opsets;
  OnnxGraph graph;
  std::vector<OnnxFunction> functions;
  std::vector<OnnxEntry> metadata;

  // The version of a domain's ops that the model uses; nullopt: it imports none. "" and "ai.onnx"
  // are one domain.
  std::optional<int64_t> Opset(std::string_view domain) const;
  // The function that a node calls, or nullptr. It looks at one after the other.
  const OnnxFunction* FindFunction(const OnnxNode& node) const;
};

// The model in a whole file, which must stay as it is while the model is used.
absl::StatusOr<OnnxModel> ParseOnnx(std::string_view file);
// Copies the contents of a tensor of ParseOnnx(file). REQUIRES: `out` has tensor.bytes() bytes.
// INVALID_ARGUMENT if they are strings or in another file, DATA_LOSS if `file` has others.
absl::Status ReadOnnx(std::string_view file, const OnnxTensor& tensor, std::span<char> out);

// An open file with its model. Only regular files are opened.
//
// The file is not mapped: a file that somebody makes shorter while it is mapped ends the process
// with SIGBUS. Nor is it read as a whole, since it may be larger than memory. The parser goes over
// the file once through a window of some KiB, copies names, and steps over the contents of tensors
// without reading them. (Values of integers that the file has with variable lengths are counted,
// which reads them.)
class OnnxFile {
 public:
  static absl::StatusOr<OnnxFile> Open(const std::string& path);
  OnnxFile(OnnxFile&&) noexcept;
  OnnxFile& operator=(OnnxFile&&) noexcept;
  ~OnnxFile();

  // Valid as long as this object, also after it was moved.
  const OnnxModel& model() const;
  // Copies the contents of one of the model's tensors. REQUIRES: `out` has tensor.bytes() bytes.
  // DATA_LOSS if the file became shorter since Open, or numbers of variable length changed in it.
  //
  // Contents in another file lie below the folder of the path that Open was given, which may itself
  // be a link. A symbolic link there may lead to a file below that folder, and from a snapshot of
  // the Hugging Face Hub's cache to the cache's folder `blobs`; others are refused, and so is
  // everything but a regular file. Nothing is waited for. The part must lie within the file.
  absl::Status Read(const OnnxTensor& tensor, std::span<char> out) const;
  // Returns the contents of a tensor. The memory for them is taken after the file was found to have
  // them. Errors are those of the Read above.
  absl::StatusOr<std::string> Read(const OnnxTensor& tensor) const;

 private:
  struct File;
  explicit OnnxFile(std::unique_ptr<File> file);
  std::unique_ptr<File> file_;
};

}  // namespace uopd::client
