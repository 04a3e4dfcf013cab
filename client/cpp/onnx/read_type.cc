// SPDX-License-Identifier: MIT
// Reads types, values and the small messages of ONNX.
#include "client/cpp/onnx/reader.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

using Kind = OnnxType::Kind;

absl::Status ReadOnnxDim(Fields in, OnnxDim& out) {
  bool has_param = false;
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    switch (field.number) {
      case 1: {
        UOPD_ASSIGN(const int64_t value, in.Int64(field));
        if (value < -1 || value >= ir::kMaxElements)
          return Invalid(Cat("the size at byte ", field.at, " is ", value));
        if (value >= 0) out.value = value;
        break;
      }
      case 2: {
        UOPD_ASSIGN(out.param, in.String(field));
        has_param = true;
        // An exporter writes this for every size that it does not know, and these are not equal.
        if (out.param == "?") out.param = "";
        break;
      }
      case 3: {
        UOPD_ASSIGN(out.denotation, in.String(field));
        break;
      }
      default:
        break;
    }
    if (out.value && has_param)
      return Invalid(Cat("the size before byte ", field.end, " is a number and a name"));
  }
  return absl::OkStatus();
}

absl::Status ReadOnnxShape(Fields in, OnnxType& out) {
  UOPD_TRY(in.Count());
  out.has_shape = true;
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    if (field.number != 1) continue;
    if (out.shape.size() == kMostOnnxAxes)
      return Invalid(
          Cat("the shape at byte ", field.at, " has more than ", kMostOnnxAxes, " axes"));
    UOPD_ASSIGN(const Fields dim, in.Add(field, out.shape));
    UOPD_TRY(ReadOnnxDim(dim, out.shape.back()));
  }
  return absl::OkStatus();
}

// 0 is UNDEFINED.
absl::Status ReadOnnxElement(Fields& in, const WireField& field, const OnnxElementType*& out) {
  UOPD_ASSIGN(const int64_t number, in.Int64(field));
  out = FindOnnxElementType(number);
  if (out != nullptr || number == 0) return absl::OkStatus();
  return Invalid(
      Cat("the type of elements at byte ", field.at, " is ", number, ", which is not known here"));
}

// The message of a kind of type; `depth`: the number of types that it lies in, with its own.
absl::Status ReadOnnxKind(Fields in, int depth, OnnxType& out) {
  const bool tensor = out.kind == Kind::kTensor || out.kind == Kind::kSparseTensor;
  const bool map = out.kind == Kind::kMap;
  const uint32_t element_field = tensor || map ? 1 : 0, inner_field = tensor ? 0 : map ? 2 : 1;
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    if (field.number == element_field) {
      UOPD_TRY(ReadOnnxElement(in, field, out.element));
    } else if (field.number == inner_field) {
      UOPD_ASSIGN(const Fields inner, in.Once(field));
      UOPD_TRY(in.reading().Charge(sizeof(OnnxType) + 16));
      out.inner = std::make_unique<OnnxType>();
      UOPD_TRY(ReadType(inner, depth, *out.inner));
    } else if (tensor && field.number == 2) {
      UOPD_ASSIGN(const Fields shape, in.Once(field));
      UOPD_TRY(ReadOnnxShape(shape, out));
    }
  }
  return absl::OkStatus();
}

Kind OnnxKindOf(uint32_t field) {
  switch (field) {
    case 1:
      return Kind::kTensor;
    case 4:
      return Kind::kSequence;
    case 5:
      return Kind::kMap;
    case 8:
      return Kind::kSparseTensor;
    case 9:
      return Kind::kOptional;
    default:
      return Kind::kUnknown;
  }
}

}  // namespace

absl::Status ReadType(Fields in, int depth, OnnxType& out) {
  if (depth >= kMostOnnxTypeDepth)
    return Invalid(Cat("the ONNX model has types in ", depth, " types"));
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    if (field.number == 6) {
      UOPD_ASSIGN(out.denotation, in.String(field));
      continue;
    }
    const Kind kind = OnnxKindOf(field.number);
    if (kind == Kind::kUnknown) continue;
    UOPD_ASSIGN(const Fields fields, in.Once(field));
    if (out.kind != Kind::kUnknown)
      return Invalid(Cat("the type at byte ", field.at, " has two kinds"));
    out.kind = kind;
    UOPD_TRY(ReadOnnxKind(fields, depth + 1, out));
  }
  return absl::OkStatus();
}

absl::Status ReadValue(Fields in, OnnxValue& out) {
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    switch (field.number) {
      case 1: {
        UOPD_ASSIGN(out.name, in.String(field));
        break;
      }
      case 2: {
        UOPD_ASSIGN(const Fields type, in.Once(field));
        const absl::Status status = ReadType(type, 0, out.type);
        if (!status.ok())
          return WithFrame(status, Cat("reading ", Shown("the type of", out.name, 0)));
        break;
      }
      case 3: {
        UOPD_ASSIGN(out.doc_string, in.String(field));
        break;
      }
      default:
        break;
    }
  }
  return absl::OkStatus();
}

absl::Status ReadEntry(Fields in, OnnxEntry& out) {
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    if (field.number == 1) {
      UOPD_ASSIGN(out.key, in.String(field));
    } else if (field.number == 2) {
      UOPD_ASSIGN(out.value, in.String(field));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadOpset(Fields in, OnnxOpset& out) {
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    if (field.number == 1) {
      UOPD_ASSIGN(const std::string_view domain, in.String(field));
      out.domain = DomainOf(domain);
    } else if (field.number == 2) {
      UOPD_ASSIGN(out.version, in.Int64(field));
    }
  }
  return absl::OkStatus();
}

}  // namespace uopd::client::onnx
