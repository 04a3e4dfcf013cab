// SPDX-License-Identifier: MIT
#include "tests/fuzz/gguf_check.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/base/status.h"
#include "core/base/text.h"
#include "tests/fuzz/clean_message.h"
#include "uopd/gguf.h"

namespace uopd::test {
namespace {

using client::GgufArray;
using client::GgufElements;
using client::GgufHeader;
using client::GgufTensor;
using client::GgufValue;

bool Within(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

// Reads a value to its last element. Returns false if it is not within `start`, or too deep.
bool ValueIsRight(const GgufValue& value, std::string_view start, int depth) {
  if (const auto* const text = std::get_if<std::string_view>(&value)) return Within(*text, start);
  const auto* const array = std::get_if<GgufArray>(&value);
  if (array == nullptr) return true;
  if (depth > client::kMostGgufDepth || !Within(array->bytes, start)) return false;
  if (array->count > array->bytes.size()) return false;
  GgufElements elements(*array);
  while (elements.left() > 0)
    if (!ValueIsRight(elements.Next(), array->bytes, depth + 1)) return false;
  return true;
}

std::string WrongTensor(const GgufHeader& header, const GgufTensor& t, uint64_t file_bytes) {
  if (t.type == nullptr) return "no type";
  if (t.dims.size() > client::kMostGgufAxes) return "too many axes";
  // The sizes are below 2^48, so no product of two overflows 128 bits.
  unsigned __int128 elements = 1;
  for (const int64_t d : t.dims) {
    if (d < 0 || d >= int64_t{1} << 48) return "a wrong size";
    elements *= static_cast<uint64_t>(d);
    if (elements >= uint64_t{1} << 48) return "too many elements";
  }
  if (t.type->block_elements > 1) {
    if (t.dims.empty() || t.dims.back() % t.type->block_elements != 0) return "no whole blocks";
  }
  if (t.end < t.begin || t.begin % header.alignment != 0) return "a wrong place";
  const unsigned __int128 bytes = elements * t.type->block_bytes / t.type->block_elements;
  if (t.end - t.begin != bytes) return "wrong bytes";
  if (t.end > file_bytes || header.data_start > file_bytes - t.end) return "beyond the file";
  return "";
}

std::string WrongHeader(const GgufHeader& header, std::string_view start, uint64_t file_bytes) {
  if (header.version != 2 && header.version != 3) return "the version";
  if (header.alignment == 0 || header.data_start % header.alignment != 0) return "the alignment";
  std::set<std::string_view> keys, names;
  for (const auto& e : header.values) {
    if (!keys.insert(e.key).second) return "a key is there twice";
    if (!Within(e.key, start) || !ValueIsRight(e.value, start, 1)) return "a value";
  }
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (const GgufTensor& t : header.tensors) {
    if (!names.insert(t.name).second) return "a tensor is there twice";
    if (!Within(t.name, start)) return "a name";
    const std::string wrong = WrongTensor(header, t, file_bytes);
    if (!wrong.empty()) return Cat("a tensor: ", wrong);
    if (t.begin < t.end) parts.emplace_back(t.begin, t.end);
  }
  std::sort(parts.begin(), parts.end());
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i].first < parts[i - 1].second) return "tensors overlap";
  return "";
}

}  // namespace

GgufVerdict CheckGguf(std::string_view start, uint64_t file_bytes) {
  GgufVerdict out;
  const auto header = client::ParseGguf(start, file_bytes);
  if (header.ok()) {
    out.accepted = true;
    out.wrong = WrongHeader(*header, start, file_bytes);
    return out;
  }
  const std::string message = StatusText(header.status());
  const bool more = absl::IsOutOfRange(header.status()) && start.size() < file_bytes &&
                    start.size() < client::kMostGgufHeaderBytes;
  if (!absl::IsInvalidArgument(header.status()) && !more) out.wrong = Cat("the code: ", message);
  if (!IsCleanMessage(message)) out.wrong = Cat("the message: ", message);
  return out;
}

}  // namespace uopd::test
