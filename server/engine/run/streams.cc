// SPDX-License-Identifier: MIT
#include "server/engine/run/streams.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace uopd::engine {
namespace {

// Waits for several points without a thread. `left` counts these points and the thread that
// registers them.
class Join {
 public:
  explicit Join(Streams::Done done) : done_(std::move(done)) {}

  void Add() UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++left_;
  }
  // Returns true for the last arrival.
  bool Arrive(const absl::Status& status) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    first_.Update(status);
    return --left_ == 0;
  }
  // The first error. Called after the last arrival.
  absl::Status first() UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return first_;
  }
  void Tell() { done_(first()); }

 private:
  const Streams::Done done_;
  Mutex mu_;
  int left_ UOPD_GUARDED_BY(mu_) = 1;
  absl::Status first_ UOPD_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<Streams> Streams::Take(const Program& program) {
  Streams out;
  for (DeviceState* device : program.devices) {
    UOPD_ASSIGN(StreamLease stream, StreamLease::Take(*device));
    out.streams_.emplace_back(device, std::move(stream));
  }
  return out;
}

devices::Stream& Streams::Of(const DeviceState* device) {
  for (auto& [owner, stream] : streams_) {
    if (owner == device) return *stream;
  }
  UOPD_CHECK(false && "a device that is not of the program");
}

bool Streams::DoneOr(absl::Status* status, Done later) {
  absl::Status here;
  std::shared_ptr<Join> join;  // null as long as every point is reached
  for (auto& [device, stream] : streams_) {
    absl::StatusOr<devices::TimePoint> point = stream.Mark();
    if (!point.ok()) {
      // The device accepts nothing any more, not even a Record. The only way left is to wait here.
      here.Update(stream->Synchronize());
      here.Update(point.status());
      continue;
    }
    if (point->semaphore->value() >= point->value) continue;
    if (join == nullptr) join = std::make_shared<Join>(std::exchange(later, nullptr));
    join->Add();
    const auto arrive = [join](const absl::Status& reached) {
      if (join->Arrive(reached)) join->Tell();
    };
    if (point->semaphore->ReachedOr(point->value, arrive)) {
      join->Arrive(absl::OkStatus());  // never the last one: this thread has not arrived yet
    }
  }
  if (join == nullptr) {
    *status = here;
    return true;
  }
  if (!join->Arrive(here)) return false;
  *status = join->first();
  return true;
}

void Streams::GiveBack() {
  for (auto& [device, stream] : streams_) stream.GiveBack();
  streams_.clear();
}

bool RunsInline(const Program& program) {
  return std::ranges::all_of(program.devices, [](const DeviceState* device) {
    return device->device().info().runs_inline;
  });
}

}  // namespace uopd::engine
