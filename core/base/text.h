// SPDX-License-Identifier: MIT
// Cat(...): joins strings and numbers. Takes std::string_view, which the distribution's
// absl::StrCat does not.
#pragma once
#include <concepts>
#include <string>
#include <string_view>

namespace uopd {

inline void AppendPart(std::string& out, std::string_view s) { out.append(s); }
inline void AppendPart(std::string& out, char c) { out.push_back(c); }
void AppendPart(std::string& out, double v);  // shortest text that reads back as the same double
void AppendPart(std::string& out, __int128 v);
template <std::signed_integral T>
  requires(!std::same_as<T, char> && sizeof(T) <= 8)
void AppendPart(std::string& out, T v) {
  AppendPart(out, static_cast<__int128>(v));
}
template <std::unsigned_integral T>
  requires(sizeof(T) <= 8)
void AppendPart(std::string& out, T v) {
  AppendPart(out, static_cast<__int128>(v));
}

template <class... T>
void Append(std::string& out, const T&... parts) {
  (AppendPart(out, parts), ...);
}

template <class... T>
std::string Cat(const T&... parts) {
  std::string out;
  Append(out, parts...);
  return out;
}

// The text with control characters written as \x1b, for terminals and logs of others; those of
// `kept` stay as they are.
std::string WithoutControls(std::string_view text, std::string_view kept = "");

}  // namespace uopd
