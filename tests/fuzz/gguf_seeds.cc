// SPDX-License-Identifier: MIT
#include "tests/fuzz/gguf_seeds.h"

#include <algorithm>
#include <iterator>

#include "core/base/text.h"

namespace uopd::test {
namespace {

using client::GgufType;

constexpr int kTypes = 13;

std::string RandomText(std::mt19937_64& random) {
  constexpr std::string_view kLetters[] = {"a",    "b.",       "\n",
                                           "`",    "\xc3\xa9", "\xf0\x9f\x98\x80",
                                           "\xff", "\x7f",     std::string_view("\0", 1)};
  std::string out;
  for (uint64_t n = random() % 6; n > 0; --n) out += kLetters[random() % std::size(kLetters)];
  return out;
}

void PutElement(GgufBytes& out, GgufType type, int depth, std::mt19937_64& random) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      out.Element(static_cast<uint8_t>(random()));
      break;
    case GgufType::kUint16:
    case GgufType::kInt16:
      out.Element(static_cast<uint16_t>(random()));
      break;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      out.Element(static_cast<uint32_t>(random()));
      break;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      out.Element(static_cast<uint64_t>(random()));
      break;
    case GgufType::kString:
      out.Text(RandomText(random));
      break;
    case GgufType::kArray: {
      auto inner = static_cast<GgufType>(random() % kTypes);
      if (inner == GgufType::kArray && depth >= 3) inner = GgufType::kString;
      const uint64_t count = random() % 4;
      out.Array(inner, count);
      for (uint64_t i = 0; i < count; ++i) PutElement(out, inner, depth + 1, random);
    }
  }
}

}  // namespace

GgufSeed RandomGguf(std::mt19937_64& random) {
  GgufSeed out;
  const uint64_t values = random() % 6, tensors = random() % 5;
  const bool aligned = random() % 2 == 0;
  const uint64_t alignment = aligned ? uint64_t{1} << random() % 9 : client::kDefaultGgufAlignment;
  out.head.Start(tensors, values + (aligned ? 1 : 0), random() % 4 == 0 ? 2 : 3);
  if (aligned) out.head.Alignment(static_cast<uint32_t>(alignment));
  for (uint64_t i = 0; i < values; ++i) {
    const auto type = static_cast<GgufType>(random() % kTypes);
    out.head.Key(Cat(i, RandomText(random)), type);
    PutElement(out.head, type, 1, random);
  }
  uint64_t at = 0;
  for (uint64_t i = 0; i < tensors; ++i) {
    const client::GgmlType& type = client::GgmlTypes()[random() % client::GgmlTypes().size()];
    std::vector<uint64_t> dims(random() % (client::kMostGgufAxes + 1));
    if (type.block_elements > 1 && dims.empty()) dims.resize(1);
    uint64_t elements = 1;
    for (uint64_t& d : dims) elements *= d = 1 + random() % 2;
    if (random() % 8 == 0 && !dims.empty()) elements = dims.back() = 0;
    if (type.block_elements > 1) elements *= type.block_elements, dims[0] *= type.block_elements;
    out.head.Tensor(Cat(i, RandomText(random)), dims, type.number, at);
    at += elements / type.block_elements * type.block_bytes;
    out.data = at;
    at = (at + alignment - 1) / alignment * alignment;
  }
  const uint64_t head = out.head.bytes.size();
  out.data += (head + alignment - 1) / alignment * alignment - head;
  return out;
}

void MutateGguf(GgufSeed& file, std::mt19937_64& random) {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   8,
                                   9,
                                   12,
                                   13,
                                   31,
                                   32,
                                   99,
                                   255,
                                   256,
                                   uint64_t{1} << 20,
                                   uint64_t{1} << 31,
                                   (uint64_t{1} << 32) - 1,
                                   uint64_t{1} << 40,
                                   uint64_t{1} << 47,
                                   uint64_t{1} << 48,
                                   uint64_t{1} << 62,
                                   uint64_t{1} << 63,
                                   ~uint64_t{0},
                                   ~uint64_t{0} - 31};
  std::string& bytes = file.head.bytes;
  for (uint64_t n = 1 + random() % 3; n > 0 && !bytes.empty(); --n) {
    const size_t at = random() % bytes.size();
    const GgufBytes::Number& number = file.head.numbers[random() % file.head.numbers.size()];
    uint64_t value = 0;
    switch (random() % 9) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] ^= static_cast<char>(1 << random() % 8);
        break;
      case 2:
        bytes.erase(at, 1 + random() % 9);
        break;
      case 3:
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40));
        break;
      case 4:
        file.data = random() % 3 == 0 ? random() % 4096 : file.data + random() % 3 - 1;
        break;
      case 5:
        bytes.resize(at);
        break;
      default:  // a count, a length, a type, a size or an offset
        if (number.at + number.bytes > bytes.size()) break;
        std::memcpy(&value, bytes.data() + number.at, number.bytes);
        value =
            random() % 2 == 0 ? kNumbers[random() % std::size(kNumbers)] : value + random() % 5 - 2;
        std::memcpy(bytes.data() + number.at, &value, number.bytes);
    }
  }
  file.data = std::min<uint64_t>(file.data, 1 << 16);
}

}  // namespace uopd::test
