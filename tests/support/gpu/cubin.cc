// SPDX-License-Identifier: MIT
#include "tests/support/gpu/cubin.h"

#include <algorithm>
#include <cstring>

namespace uopd::tests {
namespace {

// Attributes in the section .nv.info: a byte for the form, one for the kind, and the value.
constexpr uint8_t kSized = 4;         // 16 bits of size, then as many bytes
constexpr uint8_t kFrameSize = 0x11;  // the number of a function, and its bytes of local memory

template <class T>
T At(std::string_view bytes, size_t offset) {
  T out = 0;
  if (offset + sizeof(T) <= bytes.size()) std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return out;
}

}  // namespace

std::optional<int64_t> LocalBytes(std::string_view cubin) {
  if (!cubin.starts_with("\x7f"
                         "ELF"))
    return std::nullopt;
  const auto headers = At<uint64_t>(cubin, 0x28);
  const size_t size = At<uint16_t>(cubin, 0x3a), count = At<uint16_t>(cubin, 0x3c),
               names = At<uint16_t>(cubin, 0x3e);
  const auto section = [&](size_t i) {
    const size_t at = headers + i * size;
    return cubin.substr(std::min<size_t>(At<uint64_t>(cubin, at + 0x18), cubin.size()),
                        At<uint64_t>(cubin, at + 0x20));
  };
  std::optional<int64_t> out;
  for (size_t i = 0; i < count; ++i) {
    const size_t name = At<uint32_t>(cubin, headers + i * size);
    const std::string_view text = section(names);
    if (name >= text.size() || std::string_view(text.data() + name) != ".nv.info") continue;
    const std::string_view info = section(i);
    for (size_t at = 0; at + 4 <= info.size();) {
      const bool sized = At<uint8_t>(info, at) == kSized;
      if (sized && At<uint8_t>(info, at + 1) == kFrameSize)
        out = std::max<int64_t>(out.value_or(0), At<uint32_t>(info, at + 8));
      at += 4 + (sized ? At<uint16_t>(info, at + 2) : 0);
    }
  }
  return out;
}

}  // namespace uopd::tests
