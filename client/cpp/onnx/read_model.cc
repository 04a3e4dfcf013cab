// SPDX-License-Identifier: MIT
// Reads functions and models of ONNX.
#include <algorithm>
#include <tuple>

#include "client/cpp/onnx/reader.h"
#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"

namespace uopd::client {
namespace onnx {
namespace {

absl::Status ReadOnnxFunctionField(Fields& in, const WireField& field, OnnxFunction& out) {
  switch (field.number) {
    case 1: {
      UOPD_ASSIGN(out.name, in.String(field));
      return absl::OkStatus();
    }
    case 4:
      return in.Add(field, out.inputs);
    case 5:
      return in.Add(field, out.outputs);
    case 6:
      return in.Add(field, out.attributes);
    case 7: {
      UOPD_ASSIGN(const Fields node, in.Add(field, out.nodes));
      return InFrame(ReadNode(node, 1, out.nodes.back()),
                     [&] { return Cat("node ", out.nodes.size() - 1); });
    }
    case 8: {
      UOPD_ASSIGN(out.doc_string, in.String(field));
      return absl::OkStatus();
    }
    case 9: {
      UOPD_ASSIGN(const Fields opset, in.Add(field, out.opsets));
      return ReadOpset(opset, out.opsets.back());
    }
    case 10: {
      UOPD_ASSIGN(const std::string_view domain, in.String(field));
      out.domain = DomainOf(domain);
      return absl::OkStatus();
    }
    case 11: {
      UOPD_ASSIGN(const Fields attribute, in.Add(field, out.default_attributes));
      return ReadAttribute(attribute, 1, out.default_attributes.back());
    }
    case 12: {
      UOPD_ASSIGN(const Fields value, in.Add(field, out.value_infos));
      return ReadValue(value, out.value_infos.back());
    }
    case 13: {
      UOPD_ASSIGN(out.overload, in.String(field));
      return absl::OkStatus();
    }
    case 14: {
      UOPD_ASSIGN(const Fields entry, in.Add(field, out.metadata));
      return ReadEntry(entry, out.metadata.back());
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status ReadOnnxFunctionFields(Fields& in, OnnxFunction& out) {
  UOPD_TRY(in.Count());
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    UOPD_TRY(ReadOnnxFunctionField(in, field, out));
  }
  if (out.name.empty()) return Invalid("the function has no name");
  UOPD_TRY(CheckOpsets(out.opsets));
  UOPD_TRY(CheckNames(out.inputs, "input"));
  std::vector<std::string_view> names = out.attributes;
  names.reserve(names.size() + out.default_attributes.size());
  for (const OnnxAttribute& a : out.default_attributes) names.push_back(a.name);
  return CheckNames(std::move(names), "attribute");
}

absl::Status ReadOnnxModelField(Fields& in, const WireField& field, OnnxModel& out) {
  switch (field.number) {
    case 1: {
      UOPD_ASSIGN(out.ir_version, in.Int64(field));
      return absl::OkStatus();
    }
    case 2: {
      UOPD_ASSIGN(out.producer_name, in.String(field));
      return absl::OkStatus();
    }
    case 3: {
      UOPD_ASSIGN(out.producer_version, in.String(field));
      return absl::OkStatus();
    }
    case 4: {
      UOPD_ASSIGN(out.domain, in.String(field));
      return absl::OkStatus();
    }
    case 5: {
      UOPD_ASSIGN(out.model_version, in.Int64(field));
      return absl::OkStatus();
    }
    case 6: {
      UOPD_ASSIGN(out.doc_string, in.String(field));
      return absl::OkStatus();
    }
    case 7: {
      UOPD_ASSIGN(const Fields graph, in.Once(field));
      return ReadGraph(graph, 0, out.graph);
    }
    case 8: {
      UOPD_ASSIGN(const Fields opset, in.Add(field, out.opsets));
      return ReadOpset(opset, out.opsets.back());
    }
    case 14: {
      UOPD_ASSIGN(const Fields entry, in.Add(field, out.metadata));
      return ReadEntry(entry, out.metadata.back());
    }
    case 25: {
      UOPD_ASSIGN(const Fields function, in.Add(field, out.functions));
      return ReadFunction(function, out.functions.back());
    }
    default:
      return absl::OkStatus();
  }
}

auto OnnxFunctionKey(const OnnxFunction& f) { return std::tie(f.domain, f.name, f.overload); }

absl::Status CheckOnnxFunctions(const std::vector<OnnxFunction>& functions) {
  std::vector<const OnnxFunction*> sorted;
  sorted.reserve(functions.size());
  for (const OnnxFunction& f : functions) sorted.push_back(&f);
  const auto key = [](const OnnxFunction* f) { return OnnxFunctionKey(*f); };
  std::ranges::sort(sorted, {}, key);
  const auto found = std::ranges::adjacent_find(sorted, {}, key);
  if (found == sorted.end()) return absl::OkStatus();
  return Invalid(Cat("function ", ShownName((*found)->name), " of the domain ",
                     ShownName((*found)->domain), " is there twice"));
}

std::optional<int64_t> FindOnnxOpset(const std::vector<OnnxOpset>& opsets,
                                     std::string_view domain) {
  const auto found = std::ranges::find(opsets, DomainOf(domain), &OnnxOpset::domain);
  return found == opsets.end() ? std::nullopt : std::optional(found->version);
}

}  // namespace

absl::Status CheckOpsets(const std::vector<OnnxOpset>& opsets) {
  if (opsets.size() > kMostOnnxOpsets)
    return Invalid(Cat(opsets.size(), " operator sets are imported; at most ", kMostOnnxOpsets));
  std::vector<std::string_view> domains;
  domains.reserve(opsets.size());
  for (const OnnxOpset& o : opsets) domains.push_back(o.domain);
  return CheckNames(std::move(domains), "an opset of the domain");
}

absl::Status ReadFunction(Fields in, OnnxFunction& out) {
  const uint64_t begin = in.at();
  return InFrame(ReadOnnxFunctionFields(in, out),
                 [&] { return Cat(Shown("function", out.name, 0), " at byte ", begin); });
}

absl::Status ReadModel(Fields in, OnnxModel& out) {
  UOPD_TRY(in.Count());
  bool has_graph = false;
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    UOPD_TRY(ReadOnnxModelField(in, field, out));
    has_graph |= field.number == 7;
  }
  if (!has_graph) return Invalid("the ONNX model has no graph");
  UOPD_TRY(CheckOpsets(out.opsets));
  return CheckOnnxFunctions(out.functions);
}

}  // namespace onnx

absl::StatusOr<OnnxModel> ParseOnnx(std::string_view file) {
  onnx::WireSource source(file);
  onnx::Reading reading{.source = &source};
  OnnxModel out;
  UOPD_TRY(onnx::ReadModel(onnx::Fields(reading, 0, file.size()), out));
  return out;
}

const OnnxAttribute* OnnxNode::Find(std::string_view wanted) const {
  const auto found = std::ranges::find(attributes, wanted, &OnnxAttribute::name);
  return found == attributes.end() ? nullptr : &*found;
}

const OnnxTensor* OnnxGraph::FindInitializer(std::string_view wanted) const {
  const auto found = std::ranges::find(initializers, wanted, &OnnxTensor::name);
  return found == initializers.end() ? nullptr : &*found;
}

const OnnxSparseTensor* OnnxGraph::FindSparseInitializer(std::string_view wanted) const {
  const auto found = std::ranges::find_if(
      sparse_initializers, [&](const OnnxSparseTensor& t) { return t.values.name == wanted; });
  return found == sparse_initializers.end() ? nullptr : &*found;
}

std::vector<std::string_view> OnnxGraph::InputNames() const {
  std::vector<std::string_view> given, out;
  given.reserve(initializers.size() + sparse_initializers.size());
  for (const OnnxTensor& t : initializers) given.push_back(t.name);
  for (const OnnxSparseTensor& t : sparse_initializers) given.push_back(t.values.name);
  std::ranges::sort(given);
  for (const OnnxValue& v : inputs)
    if (!std::ranges::binary_search(given, v.name)) out.push_back(v.name);
  return out;
}

std::vector<std::string_view> OnnxGraph::OutputNames() const {
  std::vector<std::string_view> out;
  out.reserve(outputs.size());
  for (const OnnxValue& v : outputs) out.push_back(v.name);
  return out;
}

std::optional<int64_t> OnnxFunction::Opset(std::string_view of) const {
  return onnx::FindOnnxOpset(opsets, of);
}

std::optional<int64_t> OnnxModel::Opset(std::string_view of) const {
  return onnx::FindOnnxOpset(opsets, of);
}

const OnnxFunction* OnnxModel::FindFunction(const OnnxNode& node) const {
  const auto found = std::ranges::find_if(functions, [&](const OnnxFunction& f) {
    return f.name == node.op_type && f.domain == node.domain && f.overload == node.overload;
  });
  return found == functions.end() ? nullptr : &*found;
}

}  // namespace uopd::client
