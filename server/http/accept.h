// SPDX-License-Identifier: MIT
// The choice between the two texts of /metrics, by the Accept header of a request (RFC 9110, 12.5.1).
#pragma once
#include <string_view>

namespace uopd::http {

// True if the head of a request accepts OpenMetrics of a version up to 1.0.0, and prefers no other
// text to it. False in doubt: without such a header, or for one that makes no sense. Takes time
// linear in the head.
bool PrefersOpenMetrics(std::string_view head);

}  // namespace uopd::http
