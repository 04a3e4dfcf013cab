// SPDX-License-Identifier: MIT
// Completions for shells: commands, flags, and the values of options that have a list of them.
// Other values are names of files.
#pragma once
#include <string>

#include "client/cli/self/command_tree.h"

namespace uopd::cli {

// Scripts for /usr/share/bash-completion/completions/uopctl and
// /usr/share/zsh/site-functions/_uopctl.
std::string BashCompletion(const CommandInfo& program);
std::string ZshCompletion(const CommandInfo& program);

}  // namespace uopd::cli
