// SPDX-License-Identifier: MIT
// Reads attributes of ONNX nodes.
#include "client/cpp/onnx/reader.h"
#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

using Type = OnnxAttribute::Type;

// The type whose value a field of AttributeProto has.
Type OnnxTypeOfField(uint32_t field) {
  switch (field) {
    case 2:
      return Type::kFloat;
    case 3:
      return Type::kInt;
    case 4:
      return Type::kString;
    case 5:
      return Type::kTensor;
    case 6:
      return Type::kGraph;
    case 7:
      return Type::kFloats;
    case 8:
      return Type::kInts;
    case 9:
      return Type::kStrings;
    case 10:
      return Type::kTensors;
    case 11:
      return Type::kGraphs;
    case 14:
      return Type::kType;
    case 15:
      return Type::kTypes;
    case 22:
      return Type::kSparseTensor;
    case 23:
      return Type::kSparseTensors;
    default:
      return Type::kUndefined;
  }
}

bool IsOnnxList(Type type) {
  return type == Type::kFloats || type == Type::kInts || type == Type::kStrings ||
         type == Type::kTensors || type == Type::kGraphs || type == Type::kSparseTensors ||
         type == Type::kTypes;
}

// The value that a type has before any field of it was read.
OnnxAttribute::Value EmptyOnnxValue(Type type) {
  switch (type) {
    case Type::kUndefined:
      return std::monostate();
    case Type::kFloat:
      return 0.0f;
    case Type::kInt:
      return int64_t{0};
    case Type::kString:
      return std::string_view();
    case Type::kFloats:
      return std::vector<float>();
    case Type::kInts:
      return std::vector<int64_t>();
    case Type::kStrings:
      return std::vector<std::string_view>();
    case Type::kTensor:
    case Type::kTensors:
      return std::vector<OnnxTensor>();
    case Type::kGraph:
    case Type::kGraphs:
      return std::vector<OnnxGraph>();
    case Type::kSparseTensor:
    case Type::kSparseTensors:
      return std::vector<OnnxSparseTensor>();
    case Type::kType:
    case Type::kTypes:
      return std::vector<OnnxType>();
  }
  return std::monostate();
}

// Reads one message into a new element of the attribute's list.
template <class T, class Read>
absl::Status AddOnnxElement(Fields& in, const WireField& field, OnnxAttribute& out,
                            const Read& read) {
  auto& list = std::get<std::vector<T>>(out.value);
  UOPD_ASSIGN(const Fields fields, in.Add(field, list));
  return read(fields, list.back());
}

// REQUIRES: out.value is a value of `type`, which is the field's.
absl::Status ReadOnnxAttributeValue(Fields& in, const WireField& field, int depth, Type type,
                                    OnnxAttribute& out) {
  if (type != Type::kFloat && type != Type::kInt && type != Type::kString && !IsOnnxList(type))
    UOPD_TRY(in.Once(field).status());
  switch (type) {
    case Type::kUndefined:
      return absl::OkStatus();
    case Type::kFloat: {
      UOPD_ASSIGN(out.value, in.Float(field));
      return absl::OkStatus();
    }
    case Type::kInt: {
      UOPD_ASSIGN(out.value, in.Int64(field));
      return absl::OkStatus();
    }
    case Type::kString: {
      UOPD_ASSIGN(out.value, in.String(field));
      return absl::OkStatus();
    }
    case Type::kFloats:
      return in.Add(field, std::get<std::vector<float>>(out.value));
    case Type::kInts:
      return in.Add(field, std::get<std::vector<int64_t>>(out.value));
    case Type::kStrings:
      return in.Add(field, std::get<std::vector<std::string_view>>(out.value));
    case Type::kTensor:
    case Type::kTensors:
      return AddOnnxElement<OnnxTensor>(in, field, out, ReadTensor);
    case Type::kSparseTensor:
    case Type::kSparseTensors:
      return AddOnnxElement<OnnxSparseTensor>(in, field, out, ReadSparseTensor);
    case Type::kGraph:
    case Type::kGraphs:
      return AddOnnxElement<OnnxGraph>(
          in, field, out, [&](Fields f, OnnxGraph& g) { return ReadGraph(f, depth, g); });
    case Type::kType:
    case Type::kTypes:
      return AddOnnxElement<OnnxType>(in, field, out,
                                      [](Fields f, OnnxType& t) { return ReadType(f, 0, t); });
  }
  return absl::OkStatus();
}

// Compares the type that the attribute has by its field `type` with that of the value that was
// found.
absl::Status SettleOnnxType(Type found, OnnxAttribute& out) {
  if (!out.ref_attr_name.empty()) {
    if (found == Type::kUndefined) return absl::OkStatus();
    return Invalid(Cat("the attribute has a value and takes that of the attribute ",
                       ShownName(out.ref_attr_name)));
  }
  if (out.type == Type::kUndefined) out.type = found;  // files of IR version 1 say no type
  if (out.type == Type::kUndefined) return Invalid("the attribute has neither a type nor a value");
  if (found == Type::kUndefined) {
    // Some writers leave out what is 0 or empty.
    out.value = EmptyOnnxValue(out.type);
    const bool message = out.type == Type::kTensor || out.type == Type::kGraph ||
                         out.type == Type::kSparseTensor || out.type == Type::kType;
    if (!message) return absl::OkStatus();
  } else if (found == out.type) {
    return absl::OkStatus();
  }
  return Invalid(Cat("the attribute is of the type ", static_cast<int>(out.type),
                     " and has a value of the type ", static_cast<int>(found)));
}

absl::Status ReadOnnxAttributeFields(Fields& in, int depth, OnnxAttribute& out) {
  UOPD_TRY(in.Count());
  Type found = Type::kUndefined;
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    switch (field.number) {
      case 1: {
        UOPD_ASSIGN(out.name, in.String(field));
        continue;
      }
      case 13: {
        UOPD_ASSIGN(out.doc_string, in.String(field));
        continue;
      }
      case 20: {
        UOPD_ASSIGN(const int64_t type, in.Int64(field));
        if (type < 0 || type > static_cast<int64_t>(Type::kTypes))
          return Invalid(Cat("the type of the attribute at byte ", field.at, " is ", type));
        out.type = static_cast<Type>(type);
        continue;
      }
      case 21: {
        UOPD_ASSIGN(out.ref_attr_name, in.String(field));
        continue;
      }
      default:
        break;
    }
    const Type type = OnnxTypeOfField(field.number);
    if (type == Type::kUndefined) continue;
    if (found == Type::kUndefined) {
      found = type;
      out.value = EmptyOnnxValue(type);
    } else if (found != type) {
      return Invalid(
          Cat("the attribute has a second value, in field ", field.number, " at byte ", field.at));
    }
    UOPD_TRY(ReadOnnxAttributeValue(in, field, depth, type, out));
  }
  if (out.name.empty()) return Invalid("the attribute has no name");
  return SettleOnnxType(found, out);
}

template <class T>
std::optional<T> OnnxValueOf(const OnnxAttribute& a) {
  const T* const value = std::get_if<T>(&a.value);
  return value == nullptr ? std::nullopt : std::optional<T>(*value);
}

}  // namespace

absl::Status ReadAttribute(Fields in, int depth, OnnxAttribute& out) {
  const uint64_t begin = in.at();
  return InFrame(ReadOnnxAttributeFields(in, depth, out),
                 [&] { return Cat(Shown("attribute", out.name, 0), " at byte ", begin); });
}

}  // namespace uopd::client::onnx

namespace uopd::client {

std::optional<float> OnnxAttribute::Float() const { return onnx::OnnxValueOf<float>(*this); }
std::optional<int64_t> OnnxAttribute::Int() const { return onnx::OnnxValueOf<int64_t>(*this); }
std::optional<std::string_view> OnnxAttribute::String() const {
  return onnx::OnnxValueOf<std::string_view>(*this);
}
const std::vector<float>* OnnxAttribute::Floats() const {
  return std::get_if<std::vector<float>>(&value);
}
const std::vector<int64_t>* OnnxAttribute::Ints() const {
  return std::get_if<std::vector<int64_t>>(&value);
}
const std::vector<std::string_view>* OnnxAttribute::Strings() const {
  return std::get_if<std::vector<std::string_view>>(&value);
}
const OnnxTensor* OnnxAttribute::Tensor() const {
  return type == Type::kTensor && value.index() > 0
             ? std::get<std::vector<OnnxTensor>>(value).data()
             : nullptr;
}
const OnnxGraph* OnnxAttribute::Graph() const {
  return type == Type::kGraph && value.index() > 0 ? std::get<std::vector<OnnxGraph>>(value).data()
                                                   : nullptr;
}

}  // namespace uopd::client
