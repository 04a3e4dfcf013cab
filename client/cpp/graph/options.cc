// SPDX-License-Identifier: MIT
#include "uopd/options.h"

#include <charconv>
#include <cstdlib>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

// The value of UOPD_NAME or NAME; null if neither is set to anything.
const char* Variable(const std::string& name) {
  for (const std::string& spelled : {"UOPD_" + name, name}) {
    const char* value = std::getenv(spelled.c_str());
    if (value != nullptr && *value != '\0') return value;
  }
  return nullptr;
}

// The number in the variable, or `absent`.
absl::StatusOr<uint32_t> Number(const std::string& name, uint32_t max, uint32_t absent = 0) {
  const char* text = Variable(name);
  if (text == nullptr) return absent;
  const std::string_view digits(text);
  uint32_t out = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), out);
  if (error != std::errc() || end != digits.end() || out > max) {
    return absl::InvalidArgumentError(
        Cat("environment variable ", name, " (", digits, ") is no number from 0 to ", max));
  }
  return out;
}

}  // namespace

absl::StatusOr<ExecutionOptions> OptionsFromEnvironment() {
  ExecutionOptions out;
  UOPD_ASSIGN(const uint32_t beam, Number("BEAM", 64));
  UOPD_ASSIGN(const uint32_t anew, Number("IGNORE_BEAM_CACHE", 1));
  UOPD_ASSIGN(const uint32_t noopt, Number("NOOPT", 1));
  UOPD_ASSIGN(const uint32_t allow_bf16, Number("ALLOW_BF16", 1));
  UOPD_ASSIGN(const uint32_t allow_f16, Number("ALLOW_F16", 1));
  UOPD_ASSIGN(const uint32_t allow_tf32, Number("ALLOW_TF32", 1));
  UOPD_ASSIGN(const uint32_t reproducible, Number("REPRODUCIBLE", 1));
  UOPD_ASSIGN(const uint32_t debug, Number("DEBUG", 7));
  constexpr uint32_t kAbsent = UINT32_MAX;
  UOPD_ASSIGN(const uint32_t cache_level, Number("CACHELEVEL", 2, kAbsent));
  if (cache_level != kAbsent) out.cache_level = cache_level;
  out.beam = beam;
  out.ignore_beam_cache = anew != 0;
  out.noopt = noopt != 0;
  out.allow_bf16 = allow_bf16 != 0;
  out.allow_f16 = allow_f16 != 0;
  out.allow_tf32 = allow_tf32 != 0;
  out.reproducible = reproducible != 0;
  out.debug = debug;
  return out;
}

}  // namespace uopd::client
