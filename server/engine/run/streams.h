// SPDX-License-Identifier: MIT
// The streams of one run: one for each device of its program.
//
// Used by one thread at a time. Work that is queued on the streams may outlive the object.
#pragma once
#include <functional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "server/engine/base/device_set.h"
#include "server/engine/compile/program/program.h"

namespace uopd::engine {

class Streams {
 public:
  using Done = std::function<void(const absl::Status&)>;

  static absl::StatusOr<Streams> Take(const Program& program);
  // REQUIRES: a device of the program.
  devices::Stream& Of(const DeviceState* device);
  // Tells when all work queued so far is done. True: it is done, and *status is OK or the first
  // error of a stream. False: `later` is called once with that status, on the thread that completes
  // the last of the work, perhaps before DoneOr returns. `later` must not wait and must not touch a
  // stream.
  bool DoneOr(absl::Status* status, Done later);
  // REQUIRES: all work is done and had no error.
  void GiveBack();

 private:
  absl::InlinedVector<std::pair<const DeviceState*, StreamLease>, 2> streams_;
};

// True if the thread that queues work of the program on such streams also does the work.
bool RunsInline(const Program& program);

}  // namespace uopd::engine
