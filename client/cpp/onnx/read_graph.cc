// SPDX-License-Identifier: MIT
// Reads nodes and graphs of ONNX.
#include "client/cpp/onnx/reader.h"
#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

absl::Status ReadOnnxNodeField(Fields& in, const WireField& field, int depth, OnnxNode& out) {
  switch (field.number) {
    case 1:
      return in.Add(field, out.inputs);
    case 2:
      return in.Add(field, out.outputs);
    case 3: {
      UOPD_ASSIGN(out.name, in.String(field));
      return absl::OkStatus();
    }
    case 4: {
      UOPD_ASSIGN(out.op_type, in.String(field));
      return absl::OkStatus();
    }
    case 5: {
      UOPD_ASSIGN(const Fields attribute, in.Add(field, out.attributes));
      return ReadAttribute(attribute, depth, out.attributes.back());
    }
    case 6: {
      UOPD_ASSIGN(out.doc_string, in.String(field));
      return absl::OkStatus();
    }
    case 7: {
      UOPD_ASSIGN(const std::string_view domain, in.String(field));
      out.domain = DomainOf(domain);
      return absl::OkStatus();
    }
    case 8: {
      UOPD_ASSIGN(out.overload, in.String(field));
      return absl::OkStatus();
    }
    case 9: {
      UOPD_ASSIGN(const Fields entry, in.Add(field, out.metadata));
      return ReadEntry(entry, out.metadata.back());
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status ReadOnnxNodeFields(Fields& in, int depth, OnnxNode& out) {
  UOPD_TRY(in.reading().ChargeNode());
  UOPD_TRY(in.Count());
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    UOPD_TRY(ReadOnnxNodeField(in, field, depth, out));
  }
  if (out.op_type.empty()) return Invalid("the node has no op_type");
  if (out.attributes.size() < 2) return absl::OkStatus();
  std::vector<std::string_view> names;
  names.reserve(out.attributes.size());
  for (const OnnxAttribute& a : out.attributes) names.push_back(a.name);
  return CheckNames(std::move(names), "attribute");
}

absl::Status ReadOnnxGraphField(Fields& in, const WireField& field, int depth, OnnxGraph& out) {
  const auto value = [&](std::string_view what, std::vector<OnnxValue>& to) -> absl::Status {
    UOPD_ASSIGN(const Fields fields, in.Add(field, to));
    return InFrame(ReadValue(fields, to.back()),
                   [&] { return Shown(what, to.back().name, to.size() - 1); });
  };
  switch (field.number) {
    case 1: {
      UOPD_ASSIGN(const Fields node, in.Add(field, out.nodes));
      return InFrame(ReadNode(node, depth, out.nodes.back()),
                     [&] { return Cat("node ", out.nodes.size() - 1); });
    }
    case 2: {
      UOPD_ASSIGN(out.name, in.String(field));
      return absl::OkStatus();
    }
    case 5: {
      UOPD_ASSIGN(const Fields tensor, in.Add(field, out.initializers));
      return InFrame(ReadTensor(tensor, out.initializers.back()),
                     [&] { return Cat("initialiser ", out.initializers.size() - 1); });
    }
    case 10: {
      UOPD_ASSIGN(out.doc_string, in.String(field));
      return absl::OkStatus();
    }
    case 11:
      return value("input", out.inputs);
    case 12:
      return value("output", out.outputs);
    case 13:
      return value("value", out.value_infos);
    case 15: {
      UOPD_ASSIGN(const Fields tensor, in.Add(field, out.sparse_initializers));
      return InFrame(ReadSparseTensor(tensor, out.sparse_initializers.back()), [&] {
        return Cat("sparse initialiser ", out.sparse_initializers.size() - 1);
      });
    }
    case 16: {
      UOPD_ASSIGN(const Fields entry, in.Add(field, out.metadata));
      return ReadEntry(entry, out.metadata.back());
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckOnnxGraphNames(const OnnxGraph& graph) {
  std::vector<std::string_view> names;
  names.reserve(graph.initializers.size() + graph.sparse_initializers.size());
  for (const OnnxTensor& t : graph.initializers) names.push_back(t.name);
  for (const OnnxSparseTensor& t : graph.sparse_initializers) names.push_back(t.values.name);
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].empty()) return Invalid(Cat("initialiser ", i, " has no name"));
  UOPD_TRY(CheckNames(std::move(names), "initialiser"));
  names.clear();
  names.reserve(graph.inputs.size());
  for (const OnnxValue& v : graph.inputs) names.push_back(v.name);
  return CheckNames(std::move(names), "input");
}

absl::Status ReadOnnxGraphFields(Fields& in, int depth, OnnxGraph& out) {
  if (depth >= kMostOnnxGraphDepth)
    return Invalid(Cat("the ONNX model has graphs in ", depth, " graphs"));
  UOPD_TRY(in.Count());
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    UOPD_TRY(ReadOnnxGraphField(in, field, depth + 1, out));
  }
  return CheckOnnxGraphNames(out);
}

}  // namespace

absl::Status ReadNode(Fields in, int depth, OnnxNode& out) {
  out.offset = in.at();
  return InFrame(ReadOnnxNodeFields(in, depth, out), [&] {
    return Cat(Shown("node", out.name, 0), " of the op ", ShownName(out.op_type), " at byte ",
               out.offset);
  });
}

absl::Status ReadGraph(Fields in, int depth, OnnxGraph& out) {
  const uint64_t begin = in.at();
  return InFrame(ReadOnnxGraphFields(in, depth, out), [&] {
    return Cat(out.name.empty() ? "the graph" : Cat("graph ", ShownName(out.name)), " at byte ",
               begin);
  });
}

}  // namespace uopd::client::onnx
