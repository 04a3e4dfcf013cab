// SPDX-License-Identifier: MIT
// The header of GGUF files.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/state/gguf_cursor.h"
#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"
#include "core/ir/dtype.h"
#include "uopd/gguf.h"

namespace uopd::client {
namespace {

// The least that a value and a tensor take in a file.
constexpr uint64_t kLeastValueBytes = 13, kLeastTensorBytes = 24;

struct GgufCounts {
  uint64_t tensors = 0, values = 0;
};

// Reads what comes before the values.
absl::StatusOr<GgufCounts> ReadCounts(GgufCursor& cursor, GgufHeader& out) {
  UOPD_ASSIGN(const std::string_view magic, cursor.Take(4));
  UOPD_ASSIGN(out.version, cursor.Number<uint32_t>());
  if (magic != "GGUF")
    return Invalid(Cat("a GGUF file begins with GGUF, not with ", ShownName(magic)));
  if (out.version != 2 && out.version != 3) {
    const uint32_t swapped = out.version >> 24;
    return Invalid(Cat("the GGUF file has version ", out.version, "; 2 and 3 are known",
                       swapped == 2 || swapped == 3 ? ": its numbers are big-endian" : ""));
  }
  GgufCounts n;
  UOPD_ASSIGN(n.tensors, cursor.Number<uint64_t>());
  UOPD_ASSIGN(n.values, cursor.Number<uint64_t>());
  if (n.values > cursor.left() / kLeastValueBytes ||
      n.tensors > (cursor.left() - n.values * kLeastValueBytes) / kLeastTensorBytes) {
    return Invalid(Cat("the GGUF file says it has ", n.values, " values and ", n.tensors,
                       " tensors, and ends before them"));
  }
  UOPD_TRY(cursor.Need(n.values * kLeastValueBytes + n.tensors * kLeastTensorBytes));
  return n;
}

absl::Status ReadValue(GgufCursor& cursor, GgufEntry& out) {
  UOPD_ASSIGN(out.key, cursor.String());
  const auto read = [&]() -> absl::Status {
    UOPD_ASSIGN(out.type, cursor.Type());
    UOPD_ASSIGN(out.value, cursor.Value(out.type, 0));
    return absl::OkStatus();
  };
  absl::Status status = read();
  if (status.ok()) return status;
  return WithFrame(std::move(status), Cat("reading the value ", ShownName(out.key)));
}

// A tensor is named by this in messages.
std::string Where(const GgufTensor& t) { return Cat("tensor ", ShownName(t.name)); }

template <class T>
std::string SizesText(const T& sizes) {
  std::string out = "(";
  for (size_t i = 0; i < sizes.size(); ++i) Append(out, i == 0 ? "" : ", ", sizes[i]);
  return out + ")";
}

// Checks that the sizes other than 0 have a product below 2^48.
bool IsTooLarge(std::span<const uint64_t> sizes) {
  constexpr auto kMost = static_cast<uint64_t>(ir::kMaxElements);
  uint64_t product = 1;
  for (const uint64_t size : sizes) {
    if (size > (kMost - 1) / product) return true;
    product *= std::max<uint64_t>(size, 1);
  }
  return false;
}

// The types as a part of a message.
std::string KnownTypes() {
  std::string out;
  for (const GgmlType& t : GgmlTypes())
    Append(out, out.empty() ? "" : ", ", t.name, " (", t.number, ")");
  return out;
}

// Reads a tensor, whose `begin` is still the offset of the file and whose `end` is still 0.
absl::Status ReadTensor(GgufCursor& cursor, GgufTensor& out) {
  UOPD_ASSIGN(out.name, cursor.String());
  const auto read = [&]() -> absl::Status {
    UOPD_ASSIGN(const auto rank, cursor.Number<uint32_t>());
    if (rank > kMostGgufAxes) return Invalid(Cat(Where(out), " has ", rank, " axes"));
    uint64_t sizes[kMostGgufAxes] = {};
    for (uint32_t i = 0; i < rank; ++i) {
      UOPD_ASSIGN(sizes[i], cursor.Number<uint64_t>());
    }
    const std::span<const uint64_t> all(sizes, rank);
    if (IsTooLarge(all)) return Invalid(Cat(Where(out), " has the sizes ", SizesText(all)));
    out.dims.assign(all.rbegin(), all.rend());
    UOPD_ASSIGN(const auto type, cursor.Number<uint32_t>());
    out.type = FindGgmlType(type);
    if (out.type == nullptr) {
      return Invalid(Cat(Where(out), ": GGML type ", type, " is not known here: ", KnownTypes()));
    }
    UOPD_ASSIGN(out.begin, cursor.Number<uint64_t>());
    return absl::OkStatus();
  };
  absl::Status status = read();
  // Messages of the cursor do not say which tensor it is.
  if (status.ok() || StatusText(status).starts_with(Where(out))) return status;
  return WithFrame(std::move(status), Cat("reading ", Where(out)));
}

// A name that occurs twice, or nullopt.
std::optional<std::string_view> Repeated(std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  const auto found = std::adjacent_find(names.begin(), names.end());
  if (found == names.end()) return std::nullopt;
  return *found;
}

absl::Status CheckNames(const GgufHeader& header) {
  {
    std::vector<std::string_view> keys;
    keys.reserve(header.values.size());
    for (const GgufEntry& e : header.values) keys.push_back(e.key);
    if (const auto twice = Repeated(std::move(keys)))
      return Invalid(Cat("the GGUF file has ", ShownName(*twice), " twice"));
  }
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const GgufTensor& t : header.tensors) names.push_back(t.name);
  if (const auto twice = Repeated(std::move(names)))
    return Invalid(Cat("the GGUF file has the tensor ", ShownName(*twice), " twice"));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ReadAlignment(const GgufHeader& header) {
  constexpr std::string_view kKey = "general.alignment";
  const GgufValue* const value = header.Find(kKey);
  if (value == nullptr) return kDefaultGgufAlignment;
  ir::Int128 bytes = 0;
  if (const auto* const plain = std::get_if<uint64_t>(value))
    bytes = *plain;
  else if (const auto* const with_sign = std::get_if<int64_t>(value))
    bytes = *with_sign;
  else
    return Invalid(Cat(kKey, " is no integer"));
  if (bytes <= 0 || bytes > kMostGgufAlignment || (bytes & (bytes - 1)) != 0)
    return Invalid(Cat(kKey, " is ", bytes, ", no power of two up to ", kMostGgufAlignment));
  return static_cast<uint64_t>(bytes);
}

// Sets the end of a tensor.
absl::Status PlaceTensor(const GgufHeader& header, uint64_t file_bytes, GgufTensor& t) {
  const GgmlType& type = *t.type;
  if (const uint64_t off = t.begin % header.alignment; off != 0)
    return Invalid(Cat(Where(t), " begins ", off, " bytes beyond the alignment"));
  if (type.block_elements > 1 &&
      (t.dims.empty() || static_cast<uint64_t>(t.dims.back()) % type.block_elements != 0)) {
    return Invalid(Cat("the rows of ", Where(t), ", ", SizesText(t.dims),
                       ", are no whole blocks of ", type.name));
  }
  const auto elements = static_cast<uint64_t>(ir::Product(t.dims));
  const uint64_t bytes = elements / type.block_elements * type.block_bytes;
  const ir::Int128 end = ir::Int128{header.data_start} + t.begin + bytes;
  if (end > file_bytes)
    return Invalid(Cat(Where(t), " goes to byte ", end, " of a file of ", file_bytes));
  t.end = t.begin + bytes;
  return absl::OkStatus();
}

absl::Status CheckOverlaps(const GgufHeader& header) {
  std::vector<const GgufTensor*> in_order;
  in_order.reserve(header.tensors.size());
  for (const GgufTensor& t : header.tensors)
    if (t.begin < t.end) in_order.push_back(&t);
  std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  for (size_t i = 1; i < in_order.size(); ++i) {
    const GgufTensor& before = *in_order[i - 1];
    if (in_order[i]->begin < before.end) {
      return Invalid(Cat(Where(*in_order[i]), " begins at byte ", in_order[i]->begin,
                         " of the data, within ", Where(before)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const GgufValue* GgufHeader::Find(std::string_view key) const {
  const auto found = std::ranges::find(values, key, &GgufEntry::key);
  return found == values.end() ? nullptr : &found->value;
}

absl::StatusOr<GgufHeader> ParseGguf(std::string_view start, uint64_t file_bytes) {
  GgufHeader out;
  GgufCursor cursor(start, file_bytes);
  UOPD_ASSIGN(const GgufCounts counts, ReadCounts(cursor, out));
  // `start` has room for that many.
  out.values.resize(counts.values);
  for (GgufEntry& e : out.values) UOPD_TRY(ReadValue(cursor, e));
  out.tensors.resize(counts.tensors);
  for (GgufTensor& t : out.tensors) UOPD_TRY(ReadTensor(cursor, t));
  UOPD_TRY(CheckNames(out));
  UOPD_ASSIGN(out.alignment, ReadAlignment(out));
  out.data_start = (cursor.at() + out.alignment - 1) / out.alignment * out.alignment;
  for (GgufTensor& t : out.tensors) UOPD_TRY(PlaceTensor(out, file_bytes, t));
  UOPD_TRY(CheckOverlaps(out));
  return out;
}

}  // namespace uopd::client
