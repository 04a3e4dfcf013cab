// SPDX-License-Identifier: MIT
#include "server/engine/losses.h"

#include <utility>
#include <vector>

#include "core/base/text.h"

namespace uopd::engine {

void Losses::Note() {
  const std::vector<DeviceState*> lost = devices_.TakeLosses();
  if (lost.empty()) return;
  for (const DeviceState* device : lost) compile_.DropProgramsOf(*device);
  sessions_.NoteLosses();
  contents_.NoteLosses();
}

absl::Status Losses::Take(Session& session) {
  absl::Status loss = session.buffers().TakeLoss();
  if (loss.ok()) return loss;
  Note();
  session.Reclaim();  // what is kept was computed from buffers of the same device
  return loss;
}

absl::Status Losses::Explain(Session& session, absl::Status error) {
  Note();
  const absl::Status loss = Take(session);
  if (loss.ok()) return error;
  return absl::Status(loss.code(),
                      Cat(StatusText(loss), " (the call that was told: ", StatusText(error), ")"));
}

}  // namespace uopd::engine
