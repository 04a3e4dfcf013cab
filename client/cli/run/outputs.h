// SPDX-License-Identifier: MIT
// What `uopctl run` does with a result: a .npy file, or text.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "client/cli/command.h"
#include "client/data/npy.h"

namespace uopd::cli {

// Writes the result to a file, if `path` is not empty. Prints it, or with --json adds it to
// `outputs`.
absl::Status GiveOutput(const Globals& globals, const std::string& name,
                        const client::NpyArray& result, const std::string& path,
                        nlohmann::json& outputs);

}  // namespace uopd::cli
