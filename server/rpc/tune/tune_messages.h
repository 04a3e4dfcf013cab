// SPDX-License-Identifier: MIT
// Tuning operations as messages.
#pragma once
#include "server/engine/operate/tune_operation.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::rpc {

void Fill(const engine::TuneChanges& summary, v1::Tune* out);
v1::WatchTuneResponse ToMessage(const engine::TuneChanges& changes);

}  // namespace uopd::rpc
