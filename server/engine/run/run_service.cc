// SPDX-License-Identifier: MIT
#include "server/engine/run/run_service.h"

#include <algorithm>
#include <string>

#include "core/base/log.h"
#include "core/base/text.h"
#include "server/engine/run/binding.h"
#include "server/worker/launch_shape.h"

namespace uopd::engine {
namespace {

// Bytes that a copy moves, without the offsets.
size_t CopyBytes(const Program& program, const Step& step) {
  const schedule::BufferRef& ref = step.buffers[0];
  const auto i = static_cast<size_t>(ref.index);
  return static_cast<size_t>(ref.kind == schedule::BufferRef::kArgument
                                 ? program.slots[i].info.bytes
                                 : program.temporaries[i].bytes);
}

absl::Status RunCopy(const Program& program, const Step& step, const Binding& binding,
                     Streams& streams, const std::vector<DeviceState*>& devices) {
  const devices::BufferArg to = binding.Resolve(step.buffers[0]);
  devices::BufferArg from = binding.Resolve(step.buffers[1]);
  from.offset += static_cast<size_t>(step.from);
  const size_t bytes = CopyBytes(program, step);
  if (bytes == 0) return absl::OkStatus();
  const auto state_of = [&](const devices::Buffer& buffer) {
    return *std::find_if(devices.begin(), devices.end(), [&](const DeviceState* state) {
      return &state->device() == &buffer.device();
    });
  };
  devices::Stream& source = streams.Of(state_of(*from.buffer));
  devices::Stream& target = streams.Of(state_of(*to.buffer));
  return target.CopyFrom(source, *from.buffer, from.offset, *to.buffer, to.offset, bytes);
}

absl::Status LaunchKernel(const Step& step, const Binding& binding, std::span<const int64_t> values,
                          devices::Stream& stream, int64_t* duration_ns,
                          const std::shared_ptr<devices::StopFlag>& stop) {
  absl::InlinedVector<devices::BufferArg, 8> buffers;
  for (const schedule::BufferRef& ref : step.buffers) buffers.push_back(binding.Resolve(ref));
  absl::InlinedVector<int64_t, 4> vars;
  for (int index : step.variables) vars.push_back(values[static_cast<size_t>(index)]);
  const devices::LaunchShape shape = worker::ShapeOf(step.kernel->launch, vars);
  if (worker::IsEmpty(shape)) return absl::OkStatus();
  return stream.Launch(*step.kernel->executable, shape, buffers, vars, duration_ns, stop);
}

void Report(const Program& program, std::span<const int64_t> durations_ns, int debug) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.kernel == nullptr) continue;
    const auto ns = static_cast<double>(std::max<int64_t>(durations_ns[i], 1));
    step.device->kernel_duration().Observe(ns * 1e-9);
    if (debug < 2) continue;
    UOPD_LOG(kInfo, "kernel", {"step", i}, {"name", step.kernel->name}, {"us", ns * 1e-3},
             {"gflops", step.kernel->flops / ns}, {"gbytes", step.kernel->bytes / ns});
  }
}

absl::Status CheckTime(const Program& program, std::chrono::milliseconds limit) {
  if (limit.count() == 0 || program.least_ns * 1e-6 <= static_cast<double>(limit.count())) {
    return absl::OkStatus();
  }
  const Step& longest = *std::max_element(
      program.steps.begin(), program.steps.end(), [](const Step& a, const Step& b) {
        return (a.kernel ? a.kernel->flops : 0) < (b.kernel ? b.kernel->flops : 0);
      });
  return absl::ResourceExhaustedError(
      Cat("run needs at least ", program.least_ns * 1e-9, " s, most of it in kernel ",
          longest.kernel->name, " (", longest.kernel->flops,
          " operations), and limits.run_ms allows ", limit.count(), " ms"));
}

// `begun`: the steps that may have written something.
absl::Status RunSteps(RunControl& control, const Program& program, const Binding& binding,
                      std::span<const int64_t> values, Streams& streams, int debug, size_t* begun) {
  absl::InlinedVector<int64_t, 16> durations_ns(program.steps.size(), 0);
  absl::Status status;
  for (size_t i = 0; i < program.steps.size() && status.ok(); ++i) {
    const Step& step = program.steps[i];
    // The caller was asked just before the first step.
    if (i > 0 || program.may_be_long) status = control.Check();
    if (!status.ok()) break;
    if (i == 0) control.Launching();
    *begun = i + 1;
    status = step.kernel == nullptr ? RunCopy(program, step, binding, streams, program.devices)
                                    : LaunchKernel(step, binding, values, streams.Of(step.device),
                                                   &durations_ns[i], control.stop());
  }
  // Also after an error: what was launched still uses the buffers and writes the durations.
  for (DeviceState* device : program.devices) status.Update(streams.Of(device).Synchronize());
  if (!status.ok() && *begun > 0) {
    // A stopped kernel says only that; why is what the caller wants to know.
    const Step& last = program.steps[*begun - 1];
    if (absl::Status why = control.Why(); !why.ok()) status = std::move(why);
    status = WithFrame(status, last.kernel == nullptr ? Cat("copying in step ", *begun - 1)
                                                      : Cat("running kernel ", last.kernel->name));
  }
  if (status.ok()) Report(program, durations_ns, debug);
  return status;
}

absl::StatusOr<ExecuteResult> ReturnData(const Program& program, const Binding& binding,
                                         std::span<const Argument> arguments, Streams& streams) {
  ExecuteResult out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].return_data) continue;
    out.data.emplace_back(binding.buffer(i)->size(), '\0');
  }
  // All strings are there now: what is queued may be copied later, and they stay where they are.
  auto data = out.data.begin();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].return_data) continue;
    std::string& to = *data++;
    if (to.empty()) continue;
    UOPD_TRY(streams.Of(program.slots[i].device)
                 .CopyOut(*binding.buffer(i), 0, std::as_writable_bytes(std::span(to))));
  }
  return out;
}

}  // namespace

absl::StatusOr<ExecuteResult> RunProgram(RequestContext& request, const Program& program,
                                         BufferStore& buffers, const RunCall& call,
                                         const RunLimits& limits, RunWatch& watch) {
  UOPD_TRY(request.Check());
  UOPD_TRY(CheckTime(program, limits.terms.limit));
  UOPD_ASSIGN(Binding binding, Binding::Bind(program, buffers, call, limits));
  UOPD_ASSIGN(Streams streams, Streams::Take(program));
  {
    ScopedPhase phase(Phase::kCopy, &request.timings);
    if (absl::Status status = binding.Fill(streams); !status.ok()) {
      streams.Finish().IgnoreError();  // what was queued reads the request's data
      return status;
    }
  }
  {
    ScopedPhase phase(Phase::kRun, &request.timings);
    RunControl control(watch, request, limits.terms, program.may_be_long);
    const int64_t start_ns = NowNs();
    size_t begun = 0;
    absl::Status status =
        RunSteps(control, program, binding, call.variables, streams, limits.debug, &begun);
    if (!status.ok()) return binding.Lose(begun, std::move(status));
    program.run_time.Add(NowNs() - start_ns);
  }
  absl::StatusOr<ExecuteResult> result;
  {
    ScopedPhase phase(Phase::kCopy, &request.timings);
    result = ReturnData(program, binding, call.arguments, streams);
    UOPD_TRY(streams.Finish());
    UOPD_TRY(result.status());
  }
  UOPD_TRY(binding.Commit());
  buffers.Free(call.free_buffers);
  return result;
}

}  // namespace uopd::engine
