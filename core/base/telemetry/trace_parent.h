// SPDX-License-Identifier: MIT
// The distributed trace that a request belongs to: the header `traceparent` of W3C Trace Context
// (https://www.w3.org/TR/trace-context/, section 3.2).
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace uopd {

struct TraceParent {
  std::string trace_id;   // 32 lower-case hexadecimal digits, not all 0; empty: no trace
  std::string parent_id;  // 16 lower-case hexadecimal digits: the caller's span
  bool sampled = false;   // the caller may have recorded it

  // Parses "00-TRACE_ID-PARENT_ID-FLAGS"; in versions above 00 more may follow. Returns nullopt for
  // any other text: as the standard demands, a request with a bad header has no trace.
  static std::optional<TraceParent> Parse(std::string_view text);
};

}  // namespace uopd
