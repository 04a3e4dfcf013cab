// SPDX-License-Identifier: MIT
// ONNX models that can be run, for tests: initialisers, nodes and graphs by name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/onnx/wire_tree.h"

namespace uopd::test {

// Initialisers: INT64 with one axis, and without axes; BOOL; FLOAT.
inline WireTree IntsNamed(std::string_view name, const std::vector<int64_t>& values) {
  return OnnxInitializer(name, {static_cast<int64_t>(values.size())}, 7, {PackedInts(7, values)});
}
inline WireTree IntNamed(std::string_view name, int64_t value) {
  return OnnxInitializer(name, {}, 7, {PackedInts(7, {value})});
}
inline WireTree TrueNamed(std::string_view name, const std::vector<int64_t>& dims) {
  return OnnxInitializer(name, dims, 9, {PackedInts(5, {1})});
}
inline WireTree FloatsNamed(std::string_view name, const std::vector<int64_t>& dims) {
  size_t elements = 1;
  for (const int64_t d : dims) elements *= static_cast<size_t>(d);
  return OnnxInitializer(name, dims, 1, {PackedNumbers(4, std::vector<float>(elements, 1.5f))});
}
inline WireTree NodeOf(std::string_view op, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, std::vector<WireTree> more = {}) {
  for (const std::string& name : inputs) more.push_back(Text(1, name));
  for (const std::string& name : outputs) more.push_back(Text(2, name));
  return OnnxNodeOf(op, std::move(more));
}
inline WireTree IntAttribute(std::string_view name, int64_t value) {
  return Message(5, {Text(1, name), Int(3, value), Int(20, 2)});
}
inline WireTree GraphAttribute(std::string_view name, std::vector<WireTree> graph) {
  return Message(5, {Text(1, name), Message(6, std::move(graph)), Int(20, 5)});
}
inline WireTree OutputNamed(std::string_view name) { return Message(12, {Text(1, name)}); }
inline WireTree InputNamed(std::string_view name) { return Message(11, {Text(1, name)}); }
inline std::string ProgramOf(std::vector<WireTree> graph,
                             std::vector<std::vector<WireTree>> functions = {}) {
  std::vector<WireTree> out = {Int(1, 10), Message(8, {Text(1, ""), Int(2, 27)}),
                               Message(8, {Text(1, "d"), Int(2, 1)}), Message(7, std::move(graph))};
  for (auto& f : functions) out.push_back(Message(25, std::move(f)));
  return Written(out);
}

}  // namespace uopd::test
