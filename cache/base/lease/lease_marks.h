// SPDX-License-Identifier: MIT
// LeaseMarks: shows the processes that share a folder whether the owner of a lease is dead, where
// another authority than the folder's own leases grants it (the server of a cluster).
//
// A mark is a hint that may be missing: then the lease ends when it is not renewed. Thread-safe.
#pragma once
#include <cstdint>
#include <optional>

#include "core/base/digest.h"

namespace uopd::cache {

class LeaseMarks {
 public:
  virtual ~LeaseMarks() = default;

  // This process was granted the lease.
  virtual void Took(const Digest& address, int64_t token) = 0;
  // The lease with this token is over.
  virtual void Forget(const Digest& address, int64_t token) = 0;
  // The token of the process of this folder that took the lease last, if this process is gone for
  // certain. Somebody of another folder may have the lease by now, with a greater token.
  virtual std::optional<int64_t> TokenOfDead(const Digest& address) = 0;
};

}  // namespace uopd::cache
