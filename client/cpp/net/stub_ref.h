// SPDX-License-Identifier: MIT
// StubRef: the stub of a session, which another one may replace while calls go on. A call goes on with the stub that it began
// with; its context keeps the channel. Thread-safe.
#pragma once
#include <memory>
#include <utility>

#include "core/base/mutex.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::client {

class StubRef {
 public:
  using Stub = v1::UopdService::Stub;

  // Null after Set(nullptr).
  std::shared_ptr<Stub> get() const UOPD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return stub_;
  }
  std::shared_ptr<Stub> operator->() const { return get(); }
  void Set(std::shared_ptr<Stub> stub) UOPD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::swap(stub_, stub);  // the old one ends behind the lock, with `stub`
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<Stub> stub_ UOPD_GUARDED_BY(mutex_);
};

}  // namespace uopd::client
