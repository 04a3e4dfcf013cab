// SPDX-License-Identifier: MIT
// What a run of a simulation found, as text: a row of a table in Markdown, a line of CSV, or all of
// it.
#pragma once
#include <string>

#include "tests/simulation/world.h"

namespace uopd::sim {

std::string TableHead();
std::string TableRow(const World& world);
// The same and more, as comma-separated values. Times in microseconds, shares of time from 0 to 1.
std::string CsvHead();
std::string CsvRow(const World& world, double took_s, double peak_gib);
// Everything that was counted, for one run.
std::string Details(const World& world);

}  // namespace uopd::sim
