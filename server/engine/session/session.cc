// SPDX-License-Identifier: MIT
#include "server/engine/session/session.h"

#include "core/base/text.h"
#include "server/engine/base/not_found.h"

namespace uopd::engine {

absl::StatusOr<std::shared_ptr<SharedArea>> Session::Area(uint64_t number) const {
  MutexLock lock(mu_);
  if (area_ != nullptr && area_->number() == number) return area_;
  return NotFound(kArea, Cat("session has no shared area ", number));
}

absl::StatusOr<std::shared_ptr<SharedArea>> Session::NewArea() {
  std::shared_ptr<SharedArea> before;  // destroyed without the lock
  uint64_t number = 0;
  {
    MutexLock lock(mu_);
    before.swap(area_);
    number = ++areas_;
  }
  before = nullptr;  // gives back what the new area is charged
  UOPD_ASSIGN(std::shared_ptr<SharedArea> made, SharedArea::Create(number, quota_));
  MutexLock lock(mu_);
  if (number == areas_) area_ = made;  // otherwise another one was made meanwhile
  return made;
}

}  // namespace uopd::engine
