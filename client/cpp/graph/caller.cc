// SPDX-License-Identifier: MIT
#include "client/cpp/graph/caller.h"

#include <utility>

namespace uopd::client {
namespace {

std::shared_ptr<Caller>& Mine() {
  static thread_local auto caller = std::make_shared<Caller>();
  return caller;
}

}  // namespace

const std::shared_ptr<Caller>& Caller::Current() { return Mine(); }

CallerScope::CallerScope(std::shared_ptr<Caller> caller)
    : before_(std::exchange(Mine(), std::move(caller))) {}
CallerScope::~CallerScope() { Mine() = std::move(before_); }

}  // namespace uopd::client
