// SPDX-License-Identifier: MIT
#include "core/base/machine/process_limits.h"

#include <sched.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace uopd {

std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return absl::StrFormat("%.*g %s", value >= 1000 ? 4 : 3, value, kUnits[unit]);
}

int AffinityProcessors() {
  // The kernel refuses sets that are smaller than its own.
  for (int processors = CPU_SETSIZE; processors <= (1 << 20); processors *= 4) {
    const size_t bytes = CPU_ALLOC_SIZE(processors);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(processors),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    if (set == nullptr) break;
    if (sched_getaffinity(0, bytes, set.get()) == 0)
      return std::max(1, CPU_COUNT_S(bytes, set.get()));
  }
  return 1;
}

ProcessLimits ProcessLimits::Read(const ControlGroups& groups) {
  ProcessLimits out;
  struct sysinfo machine{};
  if (sysinfo(&machine) == 0)
    out.machine_bytes = static_cast<int64_t>(machine.totalram * machine.mem_unit);
  out.memory = groups.MemoryLimit();
  if (out.memory && out.machine_bytes > 0 && out.memory->bytes >= out.machine_bytes)
    out.memory = std::nullopt;
  out.affinity = AffinityProcessors();
  out.quota = groups.ProcessorQuota();
  if (out.quota && out.quota->count >= out.affinity) out.quota = std::nullopt;
  return out;
}

const ProcessLimits& ProcessLimits::AtStart() {
  static const ProcessLimits limits = Read(ControlGroups::Find());
  return limits;
}

int ProcessLimits::processors() const {
  if (!quota) return std::max(1, affinity);
  return std::clamp(static_cast<int>(std::ceil(quota->count)), 1, std::max(1, affinity));
}

std::string ProcessLimits::MemoryText() const {
  return Cat(BytesText(memory_bytes()), " (",
             memory ? Cat("cgroup ", memory->group) : std::string("RAM"), ")");
}

std::string ProcessLimits::ProcessorsText() const {
  return Cat(processors(), " (",
             quota ? Cat("quota of cgroup ", quota->group) : std::string("affinity"), ")");
}

int UsableProcessors() { return ProcessLimits::AtStart().processors(); }

}  // namespace uopd
