// SPDX-License-Identifier: MIT
#include "core/base/config/debug_flags.h"

#include <cstdlib>

#include "core/base/config/config_values.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"

namespace uopd {
namespace {

void Assign(const std::string& variable, const char* text, int64_t* out) {
  int64_t value = 0;
  if (config::ParseValue(text, &value)) {
    *out = value;
  } else {
    UOPD_LOG(kWarn, "debug flag is no whole number and ignored", {"variable", variable},
             {"value", text});
  }
}
void Assign(const std::string&, const char* text, std::string* out) { *out = text; }

const char* FromEnvironment(const char* name) { return std::getenv(name); }

}  // namespace

DebugFlags DebugFlags::Read(const char* (*get)(const char* name)) {
  DebugFlags out;
#define UOPD_DEBUG_FLAG(name, member, type, default_value, help) \
  if (const char* text = get("UOPD_" #name)) {                   \
    Assign("UOPD_" #name, text, &out.member);                    \
  } else if (const char* plain = get(#name)) {                   \
    Assign(#name, plain, &out.member);                           \
  }
#include "core/base/config/debug_flags.def"
  return out;
}

DebugFlags& MutableDebug() {
  static DebugFlags flags = DebugFlags::Read(FromEnvironment);
  return flags;
}
const DebugFlags& Debug() { return MutableDebug(); }

std::string DebugFlagsDocs() {
  std::string out = "| variable | default | meaning |\n|---|---|---|\n";
#define UOPD_DEBUG_FLAG(name, member, type, default_value, help) \
  Append(out, "| `", #name, "` | ",                              \
         std::string_view(#default_value) == "\"\"" ? "" : #default_value, " | ", help, " |\n");
#include "core/base/config/debug_flags.def"
  return out;
}

}  // namespace uopd
