// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>

#include "client/cli/checks.h"
#include "client/cli/command.h"

namespace uopd::cli {

void AddExecution(CLI::App& command, Globals& globals) {
  command
      .add_option_function<uint32_t>(
          "--beam", [&globals](uint32_t width) { globals.execution.beam = width; },
          "tune the kernels after the run, with a search of this width (BEAM)")
      ->check(NumberIn(0, 64));
  command.add_flag_callback(
      "--ignore-beam-cache", [&globals] { globals.execution.ignore_beam_cache = true; },
      "tune kernels again that were tuned before (IGNORE_BEAM_CACHE)");
  command
      .add_option_function<uint32_t>(
          "--cache-level", [&globals](uint32_t level) { globals.execution.cache_level = level; },
          "use the daemon's cache on disk for 0: nothing, 1: tuning, 2: everything (CACHELEVEL)")
      ->check(OneOf({"0", "1", "2"}));
  command.add_flag_callback(
      "--allow-bf16", [&globals] { globals.execution.allow_bf16 = true; },
      "operands of f32 products may be rounded to bf16 (ALLOW_BF16)");
  command.add_flag_callback(
      "--allow-f16", [&globals] { globals.execution.allow_f16 = true; },
      "operands of f32 products may be rounded to f16 (ALLOW_F16)");
  command.add_flag_callback(
      "--allow-tf32", [&globals] { globals.execution.allow_tf32 = true; },
      "operands of f32 products may be rounded to tf32 (ALLOW_TF32)");
  command.add_flag_callback(
      "--reproducible", [&globals] { globals.execution.reproducible = true; },
      "results have the same bits whatever was tuned or kept before (REPRODUCIBLE)");
  command.add_flag_callback(
      "--noopt", [&globals] { globals.execution.noopt = true; },
      "compile kernels without opts (NOOPT)");
}

}  // namespace uopd::cli
