// SPDX-License-Identifier: MIT
// The call of a session that watches a tuning operation.
#include "client/cpp/net/session.h"

namespace uopd::client {

absl::Status Session::WatchTune(
    grpc::ClientContext& context, const v1::WatchTuneRequest& request,
    absl::FunctionRef<absl::Status(const v1::WatchTuneResponse&)> take) {
  AddCredentials(context);  // no deadline: an operation takes as long as it takes
  auto reader = stub_->WatchTune(&context, request);
  absl::Status taken;
  for (v1::WatchTuneResponse part; taken.ok() && reader->Read(&part);) {
    taken = take(part);
    if (!taken.ok()) context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  if (!taken.ok()) return taken;
  return status.ok() ? absl::OkStatus() : Explained(status);
}

}  // namespace uopd::client
