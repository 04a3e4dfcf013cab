// SPDX-License-Identifier: MIT
#include "devices/api/host/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uopd::devices {
namespace {

// Beside a thread of usual priority, one of nice 10 gets about a tenth of the processor and one of
// nice 19 a seventieth. Beside a thread of nice 10, one of nice 19 gets an eighth.
int NiceOf(ThreadPriority priority) {
  switch (priority) {
    case ThreadPriority::kUsual:
      return 0;
    case ThreadPriority::kBackground:
      return 10;
    case ThreadPriority::kIdle:
      return 19;
  }
  return 0;
}

thread_local ThreadPriority of_thread = ThreadPriority::kUsual;

}  // namespace

void LowerPriority(ThreadPriority priority) {
  if (priority <= of_thread) return;
  of_thread = priority;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  // A sandbox may forbid one of these calls. The work is then done at the usual priority.
  if (setpriority(PRIO_PROCESS, thread, NiceOf(priority)) != 0) return;
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);  // 0: this thread
}

ThreadPriority PriorityOfThread() { return of_thread; }

}  // namespace uopd::devices
