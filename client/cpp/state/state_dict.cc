// SPDX-License-Identifier: MIT
#include "uopd/state_dict.h"

#include "absl/container/flat_hash_map.h"
#include "client/cpp/graph/build.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

constexpr size_t kMostNamed = 5;  // names in a message

absl::StatusOr<absl::flat_hash_map<std::string_view, const Tensor*>> ByName(
    const StateDict& state, std::string_view whose) {
  absl::flat_hash_map<std::string_view, const Tensor*> by_name;
  for (const auto& [name, tensor] : state) {
    if (!by_name.emplace(name, &tensor).second)
      return Invalid(Cat(whose, " has two tensors with the name `", name, "`"));
    if (!tensor.status().ok()) return WithFrame(tensor.status(), Cat("reading `", name, "`"));
  }
  return by_name;
}

std::string Listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i)
    Append(out, i == 0 ? "`" : ", `", names[i], "`");
  if (names.size() > kMostNamed) Append(out, " and ", names.size() - kMostNamed, " others");
  return out;
}

}  // namespace

void AddState(StateDict& state, std::string_view prefix, const StateDict& part) {
  for (const auto& [name, tensor] : part) {
    if (tensor.state() != nullptr) state.emplace_back(Cat(prefix, ".", name), tensor);
  }
}

absl::StatusOr<LoadedState> LoadStateDict(const StateDict& model, const StateDict& from,
                                          bool strict) {
  UOPD_ASSIGN(const auto own, ByName(model, "the model"));
  UOPD_ASSIGN(const auto given, ByName(from, "the state"));
  LoadedState report;
  std::vector<std::pair<Tensor, Tensor>> pairs;  // a tensor of the model, and its new value
  for (const auto& [name, tensor] : model) {
    const auto found = given.find(name);
    if (found == given.end()) {
      report.missing.push_back(name);
      continue;
    }
    const Tensor& value = *found->second;
    if (value.dims() != tensor.dims()) {
      return Invalid(Cat("`", name, "` has shape ", Text(tensor.dims()), " in the model and shape ",
                         Text(value.dims()), " in the state"));
    }
    pairs.emplace_back(tensor, value.Cast(tensor.dtype()).ToLayoutOf(tensor));
    UOPD_TRY(WithFrame(pairs.back().second.status(), Cat("loading `", name, "`")));
  }
  for (const auto& [name, tensor] : from) {
    if (!own.contains(name)) report.unexpected.push_back(name);
  }
  if (strict && !report.missing.empty())
    return Invalid(Cat("the state lacks ", Listed(report.missing)));
  if (strict && !report.unexpected.empty())
    return Invalid(Cat("the model has no ", Listed(report.unexpected)));
  std::vector<Tensor> changed;
  for (auto& [tensor, value] : pairs) {
    tensor.Assign(value);
    changed.push_back(tensor);
  }
  UOPD_TRY(Submit(changed));
  return report;
}

}  // namespace uopd::client
