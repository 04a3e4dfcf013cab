// SPDX-License-Identifier: MIT
#include "devices/api/host/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uopd::devices {
namespace {

// A tenth of the processor beside a thread of usual priority, and all of it beside none.
constexpr int kNice = 10;

thread_local bool in_background = false;

}  // namespace

void EnterBackground() {
  if (in_background) return;
  in_background = true;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  // Where a sandbox forbids one of them, the work is done all the same.
  if (setpriority(PRIO_PROCESS, thread, kNice) != 0) return;
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);  // 0: this thread
}

bool InBackground() { return in_background; }

}  // namespace uopd::devices
