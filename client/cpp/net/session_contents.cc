// SPDX-License-Identifier: MIT
// The call of a session that names constants by their contents.
#include "client/cpp/net/session.h"
#include "core/base/possession.h"

namespace uopd::client {

Session::Lease Session::lease() const {
  MutexLock lock(mutex_);
  return {session_id_, content_key_};
}

absl::StatusOr<v1::OpenContentsResponse> Session::OpenContents(v1::OpenContentsRequest& request) {
  request.set_session_id(id());
  v1::OpenContentsResponse response;
  const grpc::Status status =
      CallOnce(&v1::UopdService::Stub::OpenContents, request, &response, true);
  if (!status.ok()) return Explained(status);
  return response;
}

}  // namespace uopd::client
