// SPDX-License-Identifier: MIT
// uopd --replay FILE: compiles the graph of a reproducer (reproducer.h) again, in this process and
// without the cache. uopctl replay runs it as a child, because a crash would end its process.
#pragma once
#include <string>

#include "core/base/config/config.h"

namespace uopd {

// Returns the exit code. 0: the graph compiles, or an error that blames the graph refuses it. 1:
// the answer is INTERNAL. 125: the result cannot be found out. Writes what happened to stderr.
int Replay(const std::string& file, const Config& config);

}  // namespace uopd
