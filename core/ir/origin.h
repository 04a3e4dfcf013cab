// SPDX-License-Identifier: MIT
// Who is making nodes on this thread: what a failed check of a new node (SPEC=2) reports.
//
// Scopes nest and cost two stores; they are set only where somebody watches.
#pragma once
#include <string>
#include <string_view>

namespace uopd::ir {

class OriginScope {
 public:
  // Both outlive the scope.
  OriginScope(std::string_view what, std::string_view name)
      : what_(what), name_(name), outer_(innermost) {
    innermost = this;
  }
  ~OriginScope() { innermost = outer_; }
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;

  // "rule index.sum, in pass codegen": innermost first; empty outside of all scopes.
  static std::string Describe() {
    std::string out;
    for (const OriginScope* s = innermost; s != nullptr; s = s->outer_) {
      if (!out.empty()) out += ", in ";
      out += s->what_;
      out += ' ';
      out += s->name_;
    }
    return out;
  }

 private:
  inline static thread_local const OriginScope* innermost = nullptr;
  std::string_view what_, name_;
  const OriginScope* outer_;
};

}  // namespace uopd::ir
