// SPDX-License-Identifier: MIT
// Caller: one of the threads that use the library, as far as something belongs to a thread: the
// switches of its Contexts (uopd/context.h), and the function that it records (jit/recording.h).
//
// A thread that works for another one, which waits for it, calls in its name (CallerScope). Not
// thread-safe: whatever guards the Client guards its callers.
#pragma once
#include <memory>
#include <vector>

namespace uopd::client {

class Context;

struct Caller {
  std::vector<const Context*> contexts;  // that have begun and not ended, in this order

  // That of the calling thread.
  static const std::shared_ptr<Caller>& Current();
};

class CallerScope {
 public:
  explicit CallerScope(std::shared_ptr<Caller> caller);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  std::shared_ptr<Caller> before_;
};

}  // namespace uopd::client
