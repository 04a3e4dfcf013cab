// SPDX-License-Identifier: MIT
// The kernels of a program as text for people: what DEBUG=3..7 adds to the report of a run.
//
//   3  opts, launch and buffers
//   4  the source that the device's compiler got
//   5  the lines of the linear kernel
//   6  the instructions that the device runs
//   7  the kernel graph that codegen started from
//
// Stateless. Text is made again from the graph and the opts of the kernel, which give the same text
// as when the kernel was compiled.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "core/base/interrupt.h"
#include "server/engine/compile/program/program.h"
#include "server/engine/compile/source/graph_compiler.h"

namespace uopd::engine {

// Passes the text of every kernel of the program to `use`, each kernel once, in the order of the
// steps. Ends when `use` returns false, or `interrupt` ends it. A text of one form of a kernel that
// is longer than `max_bytes` is cut. A text that cannot be made is replaced by the reason.
void ExplainKernels(const GraphCompiler& graph_compiler, const Program& program, int debug,
                    size_t max_bytes, Interrupt& interrupt,
                    const std::function<bool(std::string_view kernel, std::string text)>& use);

}  // namespace uopd::engine
