// SPDX-License-Identifier: MIT
#include "devices/api/host/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uopd::devices {
namespace {

// With this nice value a thread gets about a tenth of the processor beside a thread of usual
// priority, and all of the processor if no such thread runs.
constexpr int kNice = 10;

thread_local bool in_background = false;

}  // namespace

void EnterBackground() {
  if (in_background) return;
  in_background = true;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  // A sandbox may forbid one of these calls. The work is then done at the usual priority.
  if (setpriority(PRIO_PROCESS, thread, kNice) != 0) return;
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);  // 0: this thread
}

bool InBackground() { return in_background; }

}  // namespace uopd::devices
