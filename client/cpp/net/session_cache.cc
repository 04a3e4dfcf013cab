// SPDX-License-Identifier: MIT
// The calls of a session that carry bundles of the cache.
#include "client/cpp/net/session.h"

namespace uopd::client {

absl::StatusOr<Session::Exported> Session::ExportCache(
    const v1::ExportCacheRequest& request, absl::FunctionRef<absl::Status(std::string_view)> take) {
  grpc::ClientContext context;
  Fill(context);
  auto reader = stub_->ExportCache(&context, request);
  Exported out;
  absl::Status taken;
  for (v1::ExportCacheResponse part; taken.ok() && reader->Read(&part);) {
    out = {part.entries(), part.left_out()};
    taken = take(part.data());
    if (!taken.ok()) context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  if (!taken.ok()) return taken;
  if (!status.ok()) return Explained(status);
  return out;
}

absl::Status Session::ImportCache(bool dry_run,
                                  absl::FunctionRef<absl::StatusOr<std::string>()> read,
                                  absl::FunctionRef<void(const v1::ImportCacheResponse&)> answer) {
  grpc::ClientContext context;
  Fill(context);
  auto stream = stub_->ImportCache(&context);
  v1::ImportCacheRequest request;
  request.set_dry_run(dry_run);
  v1::ImportCacheResponse response;
  absl::Status local;
  for (;;) {
    absl::StatusOr<std::string> bytes = read();
    local = bytes.status();
    if (!local.ok()) {
      context.TryCancel();
      break;
    }
    if (bytes->empty()) {
      stream->WritesDone();
    } else {
      request.set_data(*std::move(bytes));
      if (!stream->Write(request)) break;  // Finish says why
    }
    if (!stream->Read(&response)) break;
    answer(response);
    if (request.data().empty()) break;
    request.clear_data();
    request.clear_dry_run();
  }
  const grpc::Status status = stream->Finish();
  if (!local.ok()) return local;
  return status.ok() ? absl::OkStatus() : Explained(status);
}

}  // namespace uopd::client
