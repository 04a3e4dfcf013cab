// SPDX-License-Identifier: MIT
// Parses the text of a setting. Used by config.cc; a file of its own, so that tests can check the
// syntax alone.
//
// Every function returns false if the whole text is not of its syntax or the value does not fit.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace uopd::config {

bool ParseValue(std::string_view text, bool* out);         // true/false, on/off, yes/no, 1/0
bool ParseValue(std::string_view text, int64_t* out);      // decimal
bool ParseValue(std::string_view text, double* out);       // finite
bool ParseValue(std::string_view text, std::string* out);  // anything without a NUL
bool ParseBytes(std::string_view text,
                int64_t* out);  // plain bytes, or with KiB, MiB, GiB, TiB, kB, MB, GB, TB
bool ParseDuration(std::string_view text,
                   std::chrono::milliseconds* out);        // plain ms, or ms, s, m, h
bool ParseFileMode(std::string_view text, unsigned* out);  // octal, up to 0777

}  // namespace uopd::config
