// SPDX-License-Identifier: MIT
// The order in which the kernels of a program add up, so that two programs can be compared.
//
// The *form* of a reduction of floats says in which order it adds up
// (core/codegen/passes/sum_forms.h).
//
// Two programs of one tensor graph have the same reductions in different kernels. What both
// programs know of a reduction is its *kind*: op, dtype, number of terms, and whether it adds up
// products, squares or other values. If every kind has one form in both programs, the same one,
// then both add up in the same order, by the same instructions. A kind with several forms is told
// apart by the number of results. The check refuses some programs that do so. A form does not say
// in which order the kernel has the axes of a sum: schedules number them as the graph does
// (core/schedule/lowering), and the probes would find a difference (probe.h).
#pragma once
#include <span>
#include <string>

#include "server/engine/compile/program/program.h"

namespace uopd::engine {

// Empty if every kind of reduction has one form in `one` and the same one in `parts` together.
// Otherwise names the kinds that have not. Takes as long as codegen takes to apply the opts of all
// kernels.
std::string DifferentSums(const Program& one, std::span<const Program* const> parts);

}  // namespace uopd::engine
