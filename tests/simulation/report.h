// SPDX-License-Identifier: MIT
// What a run of a simulation found, as text: a row of a table in Markdown, a line of CSV, or all of it.
#pragma once
#include <string>

#include "tests/simulation/world.h"

namespace uopd::sim {

std::string TableHead();
std::string TableRow(const World& world);
// Everything that was counted, for one run.
std::string Details(const World& world);

}  // namespace uopd::sim
