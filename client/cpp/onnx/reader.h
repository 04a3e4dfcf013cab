// SPDX-License-Identifier: MIT
// Reads the messages of ONNX one by one. Internal to the library.
//
// A function Read... reads one message into an object that is empty. Each message is gone over
// twice: once to count its fields, so that lists are allocated once and not before their memory was
// counted, and once to read them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/onnx/wire.h"
#include "uopd/onnx.h"

namespace uopd::client::onnx {

// What all messages of a file have in common.
struct Reading {
  WireSource* source = nullptr;
  uint64_t memory = 0;  // bytes that the model takes so far
  uint64_t nodes = 0;

  // INVALID_ARGUMENT: the model takes too much memory.
  absl::Status Charge(uint64_t bytes);
  absl::Status ChargeNode();
};

// The fields of one message.
class Fields {
 public:
  Fields(Reading& reading, uint64_t begin, uint64_t end)
      : reading_(&reading), message_(*reading.source, begin, end) {}

  // Before the first Next.
  absl::Status Count();
  bool more() const { return message_.more(); }
  uint64_t at() const { return message_.at(); }
  absl::StatusOr<WireField> Next() { return message_.Next(); }

  // The value of a field that may be there once.
  absl::StatusOr<std::string_view> String(const WireField& field);
  absl::StatusOr<int64_t> Int64(const WireField& field);
  absl::StatusOr<float> Float(const WireField& field);
  // The message that a field has, which may be there once.
  absl::StatusOr<Fields> Once(const WireField& field);

  // Appends a string to a list.
  absl::Status Add(const WireField& field, std::vector<std::string_view>& out);
  // Appends the numbers of a field, packed or not, to a list.
  absl::Status Add(const WireField& field, std::vector<int64_t>& out);
  absl::Status Add(const WireField& field, std::vector<float>& out);
  absl::Status Add(const WireField& field, Dims& out);
  // The message that a field has, and a new element of `out` for it.
  template <class T>
  absl::StatusOr<Fields> Add(const WireField& field, std::vector<T>& out) {
    UOPD_TRY(NeedType(field, WireType::kBytes));
    UOPD_TRY(Reserve(field.number, out));
    out.emplace_back();
    return Fields(*reading_, field.begin, field.end);
  }
  Reading& reading() const { return *reading_; }

 private:
  // Calls `take` with each number of a repeated field, which has one number of this type, or is
  // packed.
  template <class Take>
  absl::Status EachNumber(const WireField& field, WireType type, const Take& take) const;
  // Makes room for all elements that a list will have, and counts their memory. REQUIRES: Count().
  template <class T>
  absl::Status Reserve(uint32_t number, std::vector<T>& out) {
    if (out.capacity() > 0) return absl::OkStatus();
    const uint64_t n = counts_[number];
    // A block of memory has a head besides.
    UOPD_TRY(reading_->Charge(n * sizeof(T) + 16));
    out.reserve(n);
    return absl::OkStatus();
  }
  // INVALID_ARGUMENT: the field was there before.
  absl::Status MarkOnce(const WireField& field);
  absl::StatusOr<std::string_view> Kept(const WireField& field);

  Reading* reading_;
  WireMessage message_;
  WireCounts counts_{};
  uint32_t seen_ = 0;  // fields that may be there once, by their numbers
};

// "tensor `w`", or "tensor 3" where its name is empty.
std::string Shown(std::string_view what, std::string_view name, uint64_t number);
// `elements` of sizes that are known to be right, or nullopt: one is negative, or the product of
// those other than 0 is 2^48 or more.
std::optional<uint64_t> ElementsOf(const Dims& dims);
std::string SizesOf(const Dims& dims);
// "" for "ai.onnx".
std::string_view DomainOf(std::string_view domain);

// Adds "while reading ..." to an error; `what` makes the text.
template <class What>
absl::Status InFrame(const absl::Status& status, const What& what) {
  return status.ok() ? status : WithFrame(status, "reading " + what());
}

absl::Status ReadEntry(Fields in, OnnxEntry& out);
absl::Status ReadOpset(Fields in, OnnxOpset& out);
// `depth`: the number of types that it lies in.
absl::Status ReadType(Fields in, int depth, OnnxType& out);
absl::Status ReadValue(Fields in, OnnxValue& out);
absl::Status ReadTensor(Fields in, OnnxTensor& out);
absl::Status ReadSparseTensor(Fields in, OnnxSparseTensor& out);
// `depth`: the number of graphs that it lies in.
absl::Status ReadAttribute(Fields in, int depth, OnnxAttribute& out);
absl::Status ReadNode(Fields in, int depth, OnnxNode& out);
absl::Status ReadGraph(Fields in, int depth, OnnxGraph& out);
absl::Status ReadFunction(Fields in, OnnxFunction& out);
absl::Status ReadModel(Fields in, OnnxModel& out);

// INVALID_ARGUMENT: two of the names are equal, which are names of `what`.
absl::Status CheckNames(std::vector<std::string_view> names, std::string_view what);
absl::Status CheckOpsets(const std::vector<OnnxOpset>& opsets);

// Fills `external` from the field external_data.
absl::Status ReadExternal(const std::vector<OnnxEntry>& entries, uint64_t bytes, OnnxExternal& out);

// Checks that the parts have the elements that `tensor` has.
absl::Status CheckParts(WireSource& source, const OnnxTensor& tensor);
// Copies the elements in the parts of a tensor. REQUIRES: `out` has tensor.bytes() bytes.
absl::Status CopyParts(WireSource& source, const OnnxTensor& tensor, std::span<char> out);
// INVALID_ARGUMENT: the tensor has strings, or `out` has another size.
absl::Status CheckRead(const OnnxTensor& tensor, std::span<char> out);

}  // namespace uopd::client::onnx
