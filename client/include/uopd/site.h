// SPDX-License-Identifier: MIT
// Site: a place in the caller's code, which the messages of errors name.
#pragma once
#include <cstdint>

namespace uopd::client {

// Site::current() as a default argument is the place of the call. `file` lives as long as the
// process: a literal, or a name that a binding keeps for ever.
struct Site {
  const char* file = "";
  uint32_t line = 0;

  static constexpr Site current(const char* file = __builtin_FILE(),
                                uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

// While it lives, errors of operations that this thread builds name its place, also where a
// function of the library calls other ones. For bindings of other languages.
class SiteScope {
 public:
  explicit SiteScope(Site site) : site_(site), before_(innermost) { innermost = this; }
  ~SiteScope() { innermost = before_; }
  SiteScope(const SiteScope&) = delete;
  SiteScope& operator=(const SiteScope&) = delete;
  // The place of the innermost scope; `other` if there is none.
  static Site Or(Site other) { return innermost == nullptr ? other : innermost->site_; }

 private:
  static inline thread_local const SiteScope* innermost = nullptr;
  const Site site_;
  const SiteScope* const before_;
};

}  // namespace uopd::client
