// SPDX-License-Identifier: MIT
// What the readers of all messages of ONNX use.
#include "client/cpp/onnx/reader.h"

#include <algorithm>
#include <bit>

#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"

namespace uopd::client::onnx {

// A list that grows has its old and its new memory for a moment: three times its elements.
constexpr uint64_t kGrowth = 3;

absl::Status Reading::Charge(uint64_t bytes) {
  if (bytes > kMostOnnxMemory - memory) {
    return Invalid(Cat("the ONNX model without the contents of tensors takes more than ",
                       kMostOnnxMemory, " bytes of memory"));
  }
  memory += bytes;
  return absl::OkStatus();
}

absl::Status Reading::ChargeNode() {
  if (++nodes <= kMostOnnxNodes) return absl::OkStatus();
  return Invalid(Cat("the ONNX model has more than ", kMostOnnxNodes, " nodes"));
}

absl::Status Fields::Count() {
  UOPD_ASSIGN(counts_, CountFields(message_));
  return absl::OkStatus();
}

absl::Status Fields::MarkOnce(const WireField& field) {
  const uint32_t bit = 1u << field.number;
  if ((seen_ & bit) != 0)
    return Invalid(Cat("field ", field.number, " is there once more at byte ", field.at));
  seen_ |= bit;
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> Fields::Kept(const WireField& field) {
  UOPD_TRY(NeedType(field, WireType::kBytes));
  // The arena takes more than the strings have: it rounds up.
  if (reading_->source->copies()) UOPD_TRY(reading_->Charge((field.end - field.begin) * 2 + 8));
  return reading_->source->Keep(field.begin, field.end);
}

absl::StatusOr<std::string_view> Fields::String(const WireField& field) {
  UOPD_TRY(MarkOnce(field));
  return Kept(field);
}

absl::StatusOr<int64_t> Fields::Int64(const WireField& field) {
  UOPD_TRY(MarkOnce(field));
  UOPD_TRY(NeedType(field, WireType::kVarint));
  return static_cast<int64_t>(field.value);
}

absl::StatusOr<float> Fields::Float(const WireField& field) {
  UOPD_TRY(MarkOnce(field));
  UOPD_TRY(NeedType(field, WireType::kFixed32));
  return std::bit_cast<float>(static_cast<uint32_t>(field.value));
}

absl::StatusOr<Fields> Fields::Once(const WireField& field) {
  UOPD_TRY(MarkOnce(field));
  UOPD_TRY(NeedType(field, WireType::kBytes));
  return Fields(*reading_, field.begin, field.end);
}

absl::Status Fields::Add(const WireField& field, std::vector<std::string_view>& out) {
  UOPD_ASSIGN(const std::string_view text, Kept(field));
  UOPD_TRY(Reserve(field.number, out));
  out.push_back(text);
  return absl::OkStatus();
}

template <class Take>
absl::Status Fields::EachNumber(const WireField& field, WireType type, const Take& take) const {
  if (field.type == type) return take(field.value);
  UOPD_TRY(NeedType(field, WireType::kBytes));
  WireMessage numbers(*reading_->source, field.begin, field.end);
  while (numbers.more()) {
    UOPD_ASSIGN(const uint64_t value,
                type == WireType::kVarint ? numbers.Varint() : numbers.Fixed(4));
    UOPD_TRY(take(value));
  }
  return absl::OkStatus();
}

absl::Status Fields::Add(const WireField& field, std::vector<int64_t>& out) {
  return EachNumber(field, WireType::kVarint, [&](uint64_t value) -> absl::Status {
    UOPD_TRY(reading_->Charge(kGrowth * sizeof(int64_t)));
    out.push_back(static_cast<int64_t>(value));
    return absl::OkStatus();
  });
}

absl::Status Fields::Add(const WireField& field, std::vector<float>& out) {
  return EachNumber(field, WireType::kFixed32, [&](uint64_t value) -> absl::Status {
    UOPD_TRY(reading_->Charge(kGrowth * sizeof(float)));
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(value)));
    return absl::OkStatus();
  });
}

absl::Status Fields::Add(const WireField& field, Dims& out) {
  return EachNumber(field, WireType::kVarint, [&](uint64_t value) -> absl::Status {
    if (out.size() == kMostOnnxAxes)
      return Invalid(
          Cat("the shape at byte ", field.at, " has more than ", kMostOnnxAxes, " axes"));
    out.push_back(static_cast<int64_t>(value));
    return absl::OkStatus();
  });
}

std::string Shown(std::string_view what, std::string_view name, uint64_t number) {
  return name.empty() ? Cat(what, " ", number) : Cat(what, " ", ShownName(name));
}

std::optional<uint64_t> ElementsOf(const Dims& dims) {
  constexpr auto kMost = static_cast<uint64_t>(ir::kMaxElements);
  uint64_t product = 1;
  bool none = false;
  for (const int64_t dim : dims) {
    if (dim < 0 || static_cast<uint64_t>(dim) > (kMost - 1) / product) return std::nullopt;
    product *= std::max<uint64_t>(static_cast<uint64_t>(dim), 1);
    none |= dim == 0;
  }
  return none ? 0 : product;
}

std::string SizesOf(const Dims& dims) {
  std::string out = "(";
  for (size_t i = 0; i < dims.size(); ++i) Append(out, i == 0 ? "" : ", ", dims[i]);
  return out + ")";
}

std::string_view DomainOf(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

absl::Status CheckNames(std::vector<std::string_view> names, std::string_view what) {
  std::ranges::sort(names);
  const auto found = std::ranges::adjacent_find(names);
  if (found == names.end()) return absl::OkStatus();
  return Invalid(Cat(what, " ", ShownName(*found), " is there twice"));
}

}  // namespace uopd::client::onnx
