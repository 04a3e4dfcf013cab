// SPDX-License-Identifier: MIT
// Which distributed trace a request belongs to: the `traceparent` of W3C Trace Context
// (https://www.w3.org/TR/trace-context/, section 3.2).
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace uopd {

struct TraceParent {
  std::string trace_id;   // 32 lower-case hexadecimal digits, not all 0; empty: no trace
  std::string parent_id;  // 16 of them: the caller's span
  bool sampled = false;   // the caller may have recorded it

  // "00-TRACE_ID-PARENT_ID-FLAGS"; a version above 00 may say more at the end. Nothing for any
  // other text: a request with a bad header has no trace, as the standard wants it.
  static std::optional<TraceParent> Parse(std::string_view text);
};

}  // namespace uopd
