// SPDX-License-Identifier: MIT
// uopd --replay FILE: compiles the graph of a reproducer (reproducer.h) once more, in this
// process and without cache. Run as a child by uopctl replay, since it may take its process along.
#pragma once
#include <string>

#include "core/base/config.h"

namespace uopd {

// The exit code: 0 when it compiles or is refused by an error that blames the graph, 1 when the
// answer is INTERNAL, 125 when that cannot be found out. Says what happened on stderr.
int Replay(const std::string& file, const Config& config);

}  // namespace uopd
