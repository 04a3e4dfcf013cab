// SPDX-License-Identifier: MIT
#include "server/engine/run/steps.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "server/engine/run/give_way.h"

namespace uopd::engine {
namespace {

// Bytes that a copy or a clear writes; the offsets are not included.
size_t WrittenBytes(const Program& program, const Step& step) {
  const schedule::BufferRef& ref = step.buffers[0];
  const auto i = static_cast<size_t>(ref.index);
  return static_cast<size_t>(ref.kind == schedule::BufferRef::kArgument
                                 ? program.slots[i].info.bytes
                                 : program.temporaries[i].bytes);
}

absl::Status QueueCopy(const Program& program, const Step& step, const Binding& binding,
                       Streams& streams) {
  const devices::BufferArg to = binding.Resolve(step.buffers[0]);
  devices::BufferArg from = binding.Resolve(step.buffers[1]);
  from.offset += static_cast<size_t>(step.from);
  const size_t bytes = WrittenBytes(program, step);
  if (bytes == 0) return absl::OkStatus();
  const auto state_of = [&](const devices::Buffer& buffer) {
    return *std::ranges::find_if(program.devices, [&](const DeviceState* state) {
      return &state->device() == &buffer.device();
    });
  };
  devices::Stream& source = streams.Of(state_of(*from.buffer));
  devices::Stream& target = streams.Of(state_of(*to.buffer));
  return target.CopyFrom(source, *from.buffer, from.offset, *to.buffer, to.offset, bytes);
}

absl::Status QueueClear(const Program& program, const Step& step, const Binding& binding,
                        Streams& streams) {
  const devices::BufferArg to = binding.Resolve(step.buffers[0]);
  const size_t bytes = WrittenBytes(program, step);
  if (bytes == 0) return absl::OkStatus();
  return streams.Of(step.device).Fill(*to.buffer, to.offset, bytes, std::byte{0});
}

absl::Status QueueKernel(const Step& step, const Binding& binding, std::span<const int64_t> values,
                         devices::Stream& stream, int64_t* duration_ns,
                         const std::shared_ptr<devices::StopFlag>& stop) {
  absl::InlinedVector<devices::BufferArg, 8> buffers;
  for (const schedule::BufferRef& ref : step.buffers) buffers.push_back(binding.Resolve(ref));
  absl::InlinedVector<int64_t, 4> vars;
  for (int index : step.variables) vars.push_back(values[static_cast<size_t>(index)]);
  const LaunchShape shape = step.kernel->launch.At(vars);
  if (shape.empty()) return absl::OkStatus();
  return stream.Launch(*step.kernel->executable, shape, buffers, vars, duration_ns, stop);
}

bool HasOneSequence(const Program& program) {
  return program.devices.size() == 1 && program.variables.empty() &&
         std::ranges::all_of(program.steps, [](const Step& step) {
           return step.kernel != nullptr && !step.kernel->launch.At({}).empty();
         });
}

absl::StatusOr<std::shared_ptr<const RecordedSteps>> RecordSteps(const Program& program) {
  auto out = std::make_shared<RecordedSteps>();
  // The key is the reference's kind, and the number of the slot or of the arena.
  absl::flat_hash_map<std::pair<int, int>, int> index_of;
  std::vector<devices::RecordedLaunch> launches;
  for (const Step& step : program.steps) {
    devices::RecordedLaunch& launch = launches.emplace_back();
    launch.executable = step.kernel->executable;
    launch.shape = step.kernel->launch.At({});
    for (const schedule::BufferRef& ref : step.buffers) {
      const bool argument = ref.kind == schedule::BufferRef::kArgument;
      const auto& temporary = program.temporaries;
      const auto i = static_cast<size_t>(ref.index);
      const int memory = argument ? static_cast<int>(ref.index) : temporary[i].arena;
      const auto [it, added] = index_of.try_emplace({static_cast<int>(ref.kind), memory},
                                                    static_cast<int>(out->buffers.size()));
      if (added) out->buffers.push_back(ref);
      launch.buffers.push_back(
          {it->second, argument ? 0 : static_cast<size_t>(temporary[i].offset)});
    }
  }
  UOPD_ASSIGN(out->program, program.devices[0]->device().Record(
                                static_cast<int>(out->buffers.size()), std::move(launches)));
  return out;
}

absl::Status ReplaySteps(const Program& program, const Binding& binding, Streams& streams,
                         RunControl& control, std::span<int64_t> durations_ns, bool measured) {
  constexpr uint32_t kMeasuredEvery = 64;
  auto steps = program.recording.Get();
  if (steps == nullptr) {
    UOPD_ASSIGN(steps, RecordSteps(program));
    program.recording.Set(steps);
  }
  absl::InlinedVector<devices::Buffer*, 16> buffers;
  for (const schedule::BufferRef& ref : steps->buffers) {
    buffers.push_back(binding.Resolve(ref).buffer);
  }
  const uint32_t replay = steps->replays.fetch_add(1, std::memory_order_relaxed);
  if (steps->program->times_cost_more() && !measured && replay % kMeasuredEvery != 0) {
    std::ranges::fill(durations_ns, kNotMeasured);
    durations_ns = {};
  }
  return streams.Of(program.devices[0])
      .Replay(*steps->program, buffers, durations_ns, control.stop());
}

}  // namespace

absl::Status QueueSteps(const Program& program, const Binding& binding,
                        std::span<const int64_t> values, Streams& streams, RunControl& control,
                        std::span<int64_t> durations_ns, bool measured, bool background,
                        size_t* begun) {
  const bool runs_inline = RunsInline(program);
  if (!runs_inline && HasOneSequence(program)) {
    if (program.may_be_long) UOPD_TRY(control.Check());
    control.Launching();
    *begun = program.steps.size();
    return ReplaySteps(program, binding, streams, control, durations_ns, measured);
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    // The caller has called Check just before the first step.
    if (i > 0 || program.may_be_long) UOPD_TRY(control.Check());
    if (i == 0) control.Launching();
    *begun = i + 1;
    const int64_t start_ns = background ? NowNs() : 0;
    if (step.kernel == nullptr) {
      UOPD_TRY(step.buffers.size() == 1 ? QueueClear(program, step, binding, streams)
                                        : QueueCopy(program, step, binding, streams));
    } else {
      UOPD_TRY(QueueKernel(step, binding, values, streams.Of(step.device), &durations_ns[i],
                           control.stop()));
    }
    if (background && runs_inline)
      GiveWay(*step.device, std::chrono::nanoseconds(NowNs() - start_ns), control);
  }
  return absl::OkStatus();
}

}  // namespace uopd::engine
