// SPDX-License-Identifier: MIT
// Checks of arguments, beyond what CLI11 has: it takes "nan" for a number and -1 for a large one.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace uopd::cli {

// A finite number in [min, max], without a fraction if `whole`.
CLI::Validator NumberIn(double min, double max, bool whole = true);
// At most `digits` hexadecimal digits, at least one.
CLI::Validator HexDigits(size_t digits = 64);
// One of these names. Completions of shells offer them.
CLI::Validator OneOf(std::vector<std::string> names);
// HOST:PORT, unix:PATH, or one of the other forms of gRPC.
CLI::Validator DaemonAddress();

// Adds the option --http, HOST:PORT of the daemon's HTTP server. `http` outlives the command.
void AddHttpOption(CLI::App& command, std::string& http);

// A number of seconds that can be waited for.
inline constexpr double kMostSeconds = 30 * 86400;

}  // namespace uopd::cli
