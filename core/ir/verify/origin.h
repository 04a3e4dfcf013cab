// SPDX-License-Identifier: MIT
// Which rule or pass makes nodes on this thread. A failed check of a new node (SPEC=2) reports it.
//
// Scopes nest. Entering one costs two stores; they are set only where checks or traces need
// them.
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

  // All scopes of this thread, innermost first: "rule index.sum, in pass codegen". Empty if there
  // is none.
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
