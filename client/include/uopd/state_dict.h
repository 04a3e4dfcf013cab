// SPDX-License-Identifier: MIT
// The state of a model: its tensors by name. Layers (nn.h, recurrent.h) give theirs by
// state_dict(), with the names that PyTorch and tinygrad use; a model adds those of its layers:
//
//   StateDict state;
//   AddState(state, "first", first.state_dict());   // first.weight, first.bias
//   AddState(state, "norm", norm.state_dict());
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "uopd/tensor.h"

namespace uopd::client {

// In the order in which they were added.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

// Adds the tensors of `part` to `state`, with `prefix` and a dot in front of their names. Empty
// tensors, such as the bias of a layer without one, are left out.
void AddState(StateDict& state, std::string_view prefix, const StateDict& part);

// Names that only one side has: the model, or what was loaded.
struct LoadedState {
  std::vector<std::string> missing, unexpected;
};

// Gives each tensor of `model` the value that has its name in `from`, in its dtype and in its
// pieces, and submits them together. On an error nothing changes. INVALID_ARGUMENT if a name is
// there twice, if shapes differ, and if `strict` also if one side has a name that the other lacks.
absl::StatusOr<LoadedState> LoadStateDict(const StateDict& model, const StateDict& from,
                                          bool strict = true);

}  // namespace uopd::client
