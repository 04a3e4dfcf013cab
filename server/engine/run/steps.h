// SPDX-License-Identifier: MIT
// Queues the steps of a program on the streams of a run.
//
// The steps are recorded once and replayed in one call if the devices work while this thread
// continues and every run has the same launches (one device, no variables, no copies). Otherwise
// the steps are queued one by one, with a Check before each. So on a device that runs inline, a run
// can be ended between two kernels.
#pragma once
#include <span>

#include "server/engine/run/binding.h"
#include "server/engine/run/run_control.h"

namespace uopd::engine {

// The duration of a step that was not measured.
inline constexpr int64_t kNotMeasured = -1;

// `durations_ns` has one entry for every step and stays valid until the work is done. If it is not
// `measured`, most replays of a device that is slower with times leave kNotMeasured there. `*begun`
// is set to the number of steps that may have written something. `background`: the run gives way to
// those of clients (give_way.h). Errors: the reason why the run ended early, or what the device
// refused.
absl::Status QueueSteps(const Program& program, const Binding& binding,
                        std::span<const int64_t> values, Streams& streams, RunControl& control,
                        std::span<int64_t> durations_ns, bool measured, bool background,
                        size_t* begun);

}  // namespace uopd::engine
