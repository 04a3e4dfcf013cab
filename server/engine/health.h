// SPDX-License-Identifier: MIT
// Health: how the daemon is, for probes, for metrics and for operators. Opens nothing, unless it is
// asked to.
//
// Thread-safe.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/base/config/config.h"
#include "server/engine/base/recent_failures.h"
#include "server/engine/base/task_pool.h"
#include "server/engine/base/work_gate.h"
#include "server/engine/compile/compile_service.h"
#include "server/engine/live_settings.h"
#include "server/engine/losses.h"
#include "server/engine/operate/daemon_status.h"
#include "server/engine/readiness.h"
#include "server/engine/run/run_control.h"
#include "server/engine/session/quota.h"
#include "server/engine/session/session_table.h"
#include "server/engine/tune/workers.h"

namespace uopd::engine {

class Health {
 public:
  // What these refer to outlives this object.
  struct Parts {
    const LiveSettings& settings;
    const WorkGate& gate;
    const Quota& client_bytes;
    cache::Store& store;
    DeviceSet& devices;
    RecentFailures& failures;
    const worker::ForkServer* maybe_forks;  // null: none
    Workers* maybe_workers;                 // null: none
    CompileService& compile;
    SessionTable& sessions;
    RunWatch& watch;
    Losses& losses;
    const ContentStore& contents;
    const TaskPool& task_pool;
    NamedPools pools;
  };
  explicit Health(Parts parts) : parts_(std::move(parts)) {}

  // With `reopen`, the default device is tried again, which may take seconds.
  Readiness GetReadiness(bool reopen);
  // The reasons why requests cannot be served properly; empty: they can.
  std::string Unready() { return Texts(GetReadiness(true).not_ready, "; "); }
  // Every configured device, and whether it is ready to run something; one that nobody has asked
  // for yet is, one of device.compile_only never is. With `reopen`, lost devices are tried again,
  // as soon as the registry allows it. That may take seconds.
  std::vector<std::pair<std::string, bool>> ReadyDevices(bool reopen);
  // For operators.
  DaemonStatus Status();

 private:
  const Parts parts_;
  const int64_t started_us_ = cache::WallClockUs();
};

}  // namespace uopd::engine
