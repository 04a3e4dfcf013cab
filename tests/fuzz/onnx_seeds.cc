// SPDX-License-Identifier: MIT
#include "tests/fuzz/onnx_seeds.h"

#include <algorithm>
#include <iterator>

#include "core/base/text.h"
#include "uopd/onnx.h"

namespace uopd::test {
namespace {

using Random = std::mt19937_64;

std::string RandomOnnxText(Random& random) {
  constexpr std::string_view kLetters[] = {"a",    "b.",       "\n",
                                           "`",    "\xc3\xa9", "\xf0\x9f\x98\x80",
                                           "\xff", "\x7f",     std::string_view("\0", 1)};
  std::string out;
  for (uint64_t n = random() % 6; n > 0; --n) out += kLetters[random() % std::size(kLetters)];
  return out;
}

// Numbers of a field of integers: packed, each behind its tag, or both.
void PutRandomInts(std::vector<WireTree>& out, uint32_t field, uint64_t count, int64_t most,
                   Random& random) {
  while (count > 0) {
    const uint64_t n = random() % 2 == 0 ? 1 : 1 + random() % count;
    std::vector<int64_t> values(n);
    for (int64_t& v : values)
      v = static_cast<int64_t>(random() % (static_cast<uint64_t>(most) + 1));
    if (n == 1 && random() % 2 == 0)
      out.push_back(Int(field, values[0]));
    else
      out.push_back(PackedInts(field, values));
    count -= n;
  }
}

// The fields of a tensor, in any order.
std::vector<WireTree> RandomOnnxTensor(std::string_view name, Random& random) {
  const auto& type = client::OnnxElementTypes()[random() % client::OnnxElementTypes().size()];
  std::vector<int64_t> dims(random() % 4);
  uint64_t elements = 1;
  for (int64_t& d : dims) elements *= static_cast<uint64_t>(d = static_cast<int64_t>(random() % 4));
  const uint64_t bytes = (elements * static_cast<uint64_t>(type.bits) + 7) / 8;
  std::vector<WireTree> out = OnnxTensorFields(name, dims, type.number);
  if (type.bits == 0) {
    for (uint64_t i = 0; i < elements; ++i) out.push_back(Text(6, RandomOnnxText(random)));
  } else if (random() % 4 == 0) {
    out = OnnxElsewhere(name, dims, type.number,
                        {{"location", "a/b"},
                         {"offset", std::to_string(random() % 99)},
                         {"length", std::to_string(bytes)}})
              .children;
  } else if (random() % 2 == 0 || elements == 0) {
    out.push_back(Text(9, std::string(bytes, static_cast<char>(random()))));
  } else if (type.typed_field == 4) {
    out.push_back(PackedNumbers<float>(4, std::vector<float>(bytes / 4, 1.5f)));
  } else if (type.typed_field == 10) {
    for (uint64_t i = 0; i < bytes / 8; ++i) out.push_back(Double(10, 2.5));
  } else {
    PutRandomInts(out, type.typed_field, type.bits < 8 ? bytes : elements,
                  type.number == 9 ? 1 : 127, random);
  }
  if (random() % 4 == 0) out.push_back(Text(12, RandomOnnxText(random)));
  if (random() % 4 == 0) std::shuffle(out.begin(), out.end(), random);
  // Shuffled axes and numbers are others, and as many; those of `dims` are one field.
  return out;
}

std::vector<WireTree> RandomOnnxType(int depth, Random& random) {
  const uint64_t kind = depth > 3 ? 0 : random() % 5;
  if (kind < 2) {
    std::vector<WireTree> shape;
    for (uint64_t n = random() % 4; n > 0; --n) {
      const uint64_t what = random() % 3;
      shape.push_back(Message(1, what == 0   ? std::vector<WireTree>{}
                                 : what == 1 ? std::vector<WireTree>{Text(2, "n")}
                                             : std::vector<WireTree>{Int(1, 5)}));
    }
    return {Message(kind == 0 ? 1 : 8,
                    {Int(1, static_cast<int64_t>(random() % 27)), Message(2, shape)})};
  }
  WireTree inner = Message(kind == 2 ? 2 : 1, RandomOnnxType(depth + 1, random));
  if (kind == 2) return {Message(5, {Int(1, 8), std::move(inner)})};
  return {Message(kind == 3 ? 4 : 9, {std::move(inner)})};
}

std::vector<WireTree> RandomOnnxSparse(std::string_view name) {
  return {Message(1, OnnxTensorFields(name, {2}, 2, {Text(9, "ab")})),
          Message(2, OnnxTensorFields("", {2}, 7, {PackedInts(7, {0, 3})})), PackedInts(3, {2, 3})};
}

std::vector<WireTree> RandomOnnxGraph(int depth, Random& random);

WireTree RandomOnnxAttribute(uint64_t number, int depth, Random& random) {
  std::vector<WireTree> out = {Text(1, Cat(number, RandomOnnxText(random)))};
  const auto lists = [&](uint32_t field, const auto& make) {
    for (uint64_t n = random() % 3; n > 0; --n) out.push_back(Message(field, make()));
  };
  const int64_t type = 1 + static_cast<int64_t>(random() % 15);
  const auto tensor = [&] { return RandomOnnxTensor(RandomOnnxText(random), random); };
  const auto graph = [&] {
    return depth > 2 ? std::vector<WireTree>{} : RandomOnnxGraph(depth + 1, random);
  };
  const auto sparse = [] { return RandomOnnxSparse("s"); };
  const auto of_type = [&] { return RandomOnnxType(0, random); };
  switch (type) {
    case 1:
      out.push_back(Float(2, 0.5f));
      break;
    case 2:
      out.push_back(Int(3, static_cast<int64_t>(random())));
      break;
    case 3:
      out.push_back(Text(4, RandomOnnxText(random)));
      break;
    case 4:
      out.push_back(Message(5, tensor()));
      break;
    case 5:
      out.push_back(Message(6, graph()));
      break;
    case 6:
      out.push_back(PackedNumbers<float>(7, {1, 2}));
      out.push_back(Float(7, 3));
      break;
    case 7:
      PutRandomInts(out, 8, random() % 5, INT64_MAX, random);
      break;
    case 8:
      out.push_back(Text(9, RandomOnnxText(random)));
      out.push_back(Text(9, ""));
      break;
    case 9:
      lists(10, tensor);
      break;
    case 10:
      lists(11, graph);
      break;
    case 11:
      out.push_back(Message(22, sparse()));
      break;
    case 12:
      lists(23, sparse);
      break;
    case 13:
      out.push_back(Message(14, of_type()));
      break;
    case 14:
      lists(15, of_type);
      break;
    default:
      out.push_back(Text(21, "outer"));
      break;
  }
  if (type < 15) out.push_back(Int(20, type));
  return Message(5, std::move(out));
}

WireTree RandomOnnxNode(uint32_t field, int depth, Random& random) {
  std::vector<WireTree> out = {Text(4, "Op" + RandomOnnxText(random))};
  for (uint64_t n = random() % 3; n > 0; --n) out.push_back(Text(1, RandomOnnxText(random)));
  for (uint64_t n = random() % 3; n > 0; --n) out.push_back(Text(2, RandomOnnxText(random)));
  for (uint64_t n = random() % 4; n > 0; --n) out.push_back(RandomOnnxAttribute(n, depth, random));
  for (const uint32_t text : {3u, 6u, 7u, 8u})
    if (random() % 3 == 0) out.push_back(Text(text, RandomOnnxText(random)));
  if (random() % 3 == 0) out.push_back(Message(9, {Text(1, "k"), Text(2, "v")}));
  return Message(field, std::move(out));
}

WireTree RandomOnnxValue(uint32_t field, uint64_t number, Random& random) {
  return Message(
      field, {Text(1, Cat(number, RandomOnnxText(random))), Message(2, RandomOnnxType(0, random))});
}

std::vector<WireTree> RandomOnnxGraph(int depth, Random& random) {
  std::vector<WireTree> out = {Text(2, RandomOnnxText(random))};
  for (uint64_t n = random() % 3; n > 0; --n) out.push_back(RandomOnnxNode(1, depth, random));
  for (uint64_t n = random() % 3; n > 0; --n)
    out.push_back(Message(5, RandomOnnxTensor(Cat(n, RandomOnnxText(random)), random)));
  if (random() % 4 == 0) out.push_back(Message(15, RandomOnnxSparse("sparse")));
  for (const uint32_t field : {11u, 12u, 13u})
    for (uint64_t n = random() % 2; n > 0; --n) out.push_back(RandomOnnxValue(field, n, random));
  if (random() % 4 == 0) out.push_back(Int(99, 5));
  return out;
}

// A field anywhere in the model, and the list that it lies in.
struct ChosenField {
  std::vector<WireTree>* list = nullptr;
  size_t at = 0;
};
ChosenField ChooseField(std::vector<WireTree>& model, Random& random) {
  ChosenField out{&model, random() % model.size()};
  for (;;) {
    auto& children = (*out.list)[out.at].children;
    if (children.empty() || random() % 6 == 0) return out;
    out = {&children, random() % children.size()};
  }
}

void MutateField(std::vector<WireTree>& model, Random& random) {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   7,
                                   8,
                                   9,
                                   15,
                                   16,
                                   17,
                                   26,
                                   27,
                                   31,
                                   127,
                                   128,
                                   255,
                                   256,
                                   1 << 20,
                                   1u << 31,
                                   (uint64_t{1} << 32) - 1,
                                   uint64_t{1} << 47,
                                   uint64_t{1} << 48,
                                   uint64_t{1} << 62,
                                   uint64_t{1} << 63,
                                   ~uint64_t{0}};
  constexpr uint32_t kTypes[] = {0, 1, 2, 5, 3, 4, 6, 7};
  if (model.empty()) return;
  auto [list, at] = ChooseField(model, random);
  WireTree& field = (*list)[at];
  switch (random() % 9) {
    case 0:
      field.number = static_cast<uint32_t>(random() % 27);
      break;
    case 1:
      field.type = kTypes[random() % (random() % 4 == 0 ? 8 : 4)];
      break;
    case 2:
      field.value = kNumbers[random() % std::size(kNumbers)];
      break;
    case 3:
      field.value += random() % 5 - 2;
      break;
    case 4:
      list->erase(list->begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 5: {
      const auto [from, which] = ChooseField(model, random);
      WireTree copy = (*from)[which];
      list->insert(list->begin() + static_cast<std::ptrdiff_t>(at), std::move(copy));
      break;
    }
    case 6:
      field.bytes = field.bytes.substr(0, random() % (field.bytes.size() + 1));
      break;
    case 7:
      PutVarint(field.bytes, kNumbers[random() % std::size(kNumbers)]);
      break;
    default:
      std::swap(field, (*list)[random() % list->size()]);
  }
}

}  // namespace

std::vector<WireTree> RandomOnnx(std::mt19937_64& random) {
  std::vector<WireTree> out = {Int(1, 8), Message(8, {Text(1, ""), Int(2, 18)}),
                               Message(7, RandomOnnxGraph(0, random))};
  for (uint64_t n = random() % 3; n > 0; --n) {
    std::vector<WireTree> function = {Text(1, Cat("f", n)), Text(10, "d"),
                                      Text(4, "x"),         Text(5, "y"),
                                      Text(6, "must"),      Message(9, {Text(1, ""), Int(2, 18)})};
    function.push_back(RandomOnnxNode(7, 1, random));
    function.push_back(RandomOnnxAttribute(1, 1, random));
    function.back().number = 11;
    out.push_back(Message(25, std::move(function)));
  }
  if (random() % 3 == 0) out.push_back(Message(14, {Text(1, "k"), Text(2, "v")}));
  return out;
}

std::string MutateOnnx(std::vector<WireTree> model, std::mt19937_64& random) {
  for (uint64_t n = random() % 4; n > 0; --n) MutateField(model, random);
  std::string bytes = Written(model);
  if (random() % 2 == 0) return bytes;
  for (uint64_t n = 1 + random() % 3; n > 0 && !bytes.empty(); --n) {
    const size_t at = random() % bytes.size();
    switch (random() % 5) {
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
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace uopd::test
