// SPDX-License-Identifier: MIT
#include "server/worker/job/compile_job.h"

#include "core/base/bytes.h"

namespace uopd::worker {

std::string CompileRequest::Encode() const {
  std::string out;
  PutString(out, device);
  PutString(out, toolchain);
  PutString(out, source);
  return out;
}

absl::StatusOr<CompileRequest> CompileRequest::Decode(std::string_view bytes) {
  CompileRequest out;
  ByteReader reader(bytes);
  if (!reader.String(out.device) || !reader.String(out.toolchain) || !reader.String(out.source) ||
      !reader.done()) {
    return absl::DataLossError("malformed compile request");
  }
  return out;
}

namespace {

absl::StatusOr<std::string> Run(WorkerState& state, const CompileRequest& request) {
  UOPD_ASSIGN(const auto compiler, state.CompilerFor(request.device, request.toolchain));
  return request.draft ? compiler->CompileDraft(request.source) : compiler->Compile(request.source);
}

}  // namespace

absl::StatusOr<std::string> RunCompileJob(WorkerState& state, std::string_view payload) {
  UOPD_ASSIGN(const CompileRequest request, CompileRequest::Decode(payload));
  return Run(state, request);
}

absl::StatusOr<std::string> RunDraftJob(WorkerState& state, std::string_view payload) {
  UOPD_ASSIGN(CompileRequest request, CompileRequest::Decode(payload));
  request.draft = true;
  return Run(state, request);
}

}  // namespace uopd::worker
