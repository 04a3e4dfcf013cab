// SPDX-License-Identifier: MIT
// Switches for debugging, made from debug_flags.def and read from the environment once.
//
// They are not settings of config.h, because core reads them wherever it runs: in the daemon, in
// its workers, in clients and in tools. A value that cannot be parsed is reported in the log and
// ignored. Reading is thread-safe.
#pragma once
#include <cstdint>
#include <string>

namespace uopd {

namespace debug_flag {
using Number = int64_t;
using Text = std::string;
}  // namespace debug_flag

struct DebugFlags {
#define UOPD_DEBUG_FLAG(name, member, type, default_value, help) \
  debug_flag::type member = default_value;
#include "core/base/config/debug_flags.def"

  // Reads the flags from environment variables. `get` returns the value of a variable, or null.
  static DebugFlags Read(const char* (*get)(const char* name));
};

// The flags of this process.
const DebugFlags& Debug();
// For tools and tests. REQUIRES: no other thread runs. Objects that were built from a flag before
// the change keep its old value.
DebugFlags& MutableDebug();

std::string DebugFlagsDocs();  // as a Markdown table, for docs/debugging.md

}  // namespace uopd
