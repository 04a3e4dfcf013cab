// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/program.h"

#include <algorithm>

#include "core/base/text.h"
#include "server/engine/compile/kernel/kernels.h"

namespace uopd::engine {
namespace {

// Measured: handing a call to another thread costs about 10 us. If a thread of the server is busy
// for 100 us, the other calls do not notice it.
constexpr double kQuickBytes = 256 << 10;
constexpr double kQuickFlops = 500'000;
constexpr size_t kQuickSteps = 16;

constexpr double kLongBytes = 64 << 20;  // for copies, which have no estimate

absl::Status Internal(const std::string& message) { return absl::InternalError(message); }

absl::StatusOr<int> VariableIndex(const schedule::Schedule& schedule, const std::string& name) {
  for (size_t i = 0; i < schedule.variables.size(); ++i) {
    if (schedule.variables[i].name == name) return static_cast<int>(i);
  }
  return Internal(Cat("kernel has a variable (", name, ") that its graph does not have"));
}

// Checks buffers against kernels. A kernel's indices were verified for certain sizes; this function
// verifies that the buffers are at least that large.
absl::Status CheckFit(const schedule::Schedule& schedule, const schedule::Item& item,
                      const Kernel& kernel) {
  if (kernel.buffers.size() != item.buffers.size()) {
    return Internal(Cat("kernel ", kernel.name, " has ", kernel.buffers.size(),
                        " buffers and is scheduled with ", item.buffers.size()));
  }
  for (size_t i = 0; i < item.buffers.size(); ++i) {
    const codegen::BufferUse& use = kernel.buffers[i];
    const int64_t bytes = BufferBytes(schedule, item.buffers[i]);
    const int64_t size = std::max<int64_t>(ir::ByteSize(use.dtype), 1);
    if (use.elements < 0 || use.elements > bytes / size) {
      return Internal(Cat("kernel ", kernel.name, " uses ", use.elements, " elements of buffer ", i,
                          ", which has ", bytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

// The least time that the device needs; 0 if the device does not give its speed.
double LeastNs(const Kernel& kernel) {
  const double peak = kernel.device->device().info().peak_ops;
  return peak > 0 ? kernel.flops / peak * 1e9 : 0;
}

void AddDevice(Program& program, DeviceState* device) {
  auto& all = program.devices;
  if (std::find(all.begin(), all.end(), device) == all.end()) all.push_back(device);
}

absl::Status AddMemory(Program& program, const schedule::Schedule& schedule, DeviceSet& devices) {
  for (const schedule::Slot& slot : schedule.slots) {
    UOPD_ASSIGN(DeviceState * device, devices.Get(slot.device));
    program.slots.push_back({slot, device});
    if (slot.used) AddDevice(program, device);
  }
  for (const auto& [name, bytes] : schedule.arenas) {
    UOPD_ASSIGN(DeviceState * device, devices.Get(name));
    program.arenas.push_back({device, bytes});
    program.temporary_bytes += bytes;
    AddDevice(program, device);
  }
  for (const schedule::Temporary& temporary : schedule.temporaries) {
    // Compare names: a graph that spells one device in two ways ("CPU", "CPU:0") has two arenas.
    const auto arena =
        std::find_if(schedule.arenas.begin(), schedule.arenas.end(),
                     [&](const auto& named) { return named.first == temporary.device; });
    if (arena == schedule.arenas.end() || temporary.offset < 0 || temporary.bytes < 0 ||
        temporary.offset > arena->second || temporary.bytes > arena->second - temporary.offset) {
      return Internal(
          Cat("temporary at ", temporary.offset, " lies outside its arena on ", temporary.device));
    }
    program.temporaries.push_back(
        {static_cast<int>(arena - schedule.arenas.begin()), temporary.offset, temporary.bytes});
  }
  return absl::OkStatus();
}

absl::Status AddClear(Program& program, const schedule::Schedule& schedule,
                      const schedule::Item& item) {
  if (item.buffers.size() != 1 || item.buffers[0].kind != schedule::BufferRef::kTemporary) {
    return Internal("what is cleared is not one temporary");
  }
  program.bytes += static_cast<double>(BufferBytes(schedule, item.buffers[0]));
  return absl::OkStatus();
}

absl::Status AddCopy(Program& program, const schedule::Schedule& schedule,
                     const schedule::Item& item) {
  if (item.buffers.size() != 2 || item.from < 0 ||
      BufferBytes(schedule, item.buffers[0]) > BufferBytes(schedule, item.buffers[1]) - item.from) {
    return Internal("copy is not between two buffers, or its source is too small");
  }
  program.bytes += 2.0 * static_cast<double>(BufferBytes(schedule, item.buffers[0]));
  return absl::OkStatus();
}

}  // namespace

void RunTime::Add(int64_t ns) const {
  constexpr int64_t kForget = 5 * kLongRunNs;
  int64_t quickest = Quickest();
  const auto replaced = [&] { return ns > kForget ? INT64_MAX : std::min(ns, quickest); };
  while (!quickest_ns_.compare_exchange_weak(quickest, replaced(), std::memory_order_relaxed)) {
  }
}

absl::StatusOr<std::shared_ptr<const Program>> AssembleProgram(const Digest& digest,
                                                               const KernelSet& kernels,
                                                               DeviceSet& devices) {
  const schedule::Schedule& schedule = kernels.schedule;
  std::vector<std::shared_ptr<const Kernel>> by_item(schedule.items.size());  // null: it is a copy
  for (const ScheduledKernel& scheduled : kernels.kernels) {
    for (size_t item : scheduled.items) by_item[item] = scheduled.kernel;
  }
  auto program = std::make_shared<Program>();
  program->digest = digest;
  program->variables = schedule.variables;
  UOPD_TRY(AddMemory(*program, schedule, devices));
  double estimate_ns = 0;
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    const schedule::Item& item = schedule.items[i];
    Step step;
    step.kernel = by_item[i];
    UOPD_ASSIGN(step.device, devices.Get(item.device));
    step.buffers.assign(item.buffers.begin(), item.buffers.end());
    if (item.kind == schedule::Item::kClear) {
      UOPD_TRY(AddClear(*program, schedule, item));
    } else if (step.kernel == nullptr) {
      step.from = item.from;
      UOPD_TRY(AddCopy(*program, schedule, item));
    } else {
      UOPD_TRY(CheckFit(schedule, item, *step.kernel));
      for (const std::string& name : step.kernel->variables) {
        UOPD_ASSIGN(int index, VariableIndex(schedule, name));
        step.variables.push_back(index);
      }
      program->flops += step.kernel->flops;
      program->bytes += step.kernel->bytes;
      estimate_ns += step.kernel->estimate_ns;
      program->may_be_long |= step.kernel->polls;
      // The estimate of a kernel with variables is for their largest values, so it is no lower
      // bound.
      if (step.kernel->variables.empty()) program->least_ns += LeastNs(*step.kernel);
      program->tuned_kernels += step.kernel->tuned ? 1 : 0;
      program->draft_kernels += step.kernel->draft ? 1 : 0;
    }
    AddDevice(*program, step.device);
    program->steps.push_back(std::move(step));
  }
  program->quick = program->steps.size() <= kQuickSteps && program->bytes <= kQuickBytes &&
                   program->flops <= kQuickFlops && estimate_ns <= kLongRunNs;
  program->may_be_long |= estimate_ns > kLongRunNs || program->bytes > kLongBytes;
  return std::shared_ptr<const Program>(std::move(program));
}

}  // namespace uopd::engine
