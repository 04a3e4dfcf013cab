// SPDX-License-Identifier: MIT
// Manual pages in the macros man(7): uopctl.1 from the tree of commands, uopd.8 from the table of
// settings.
#pragma once
#include <string>

#include "client/cli/self/command_tree.h"

namespace uopd::cli {

std::string UopctlPage(const CommandInfo& program);
std::string UopdPage();

}  // namespace uopd::cli
