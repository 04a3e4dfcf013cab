// SPDX-License-Identifier: MIT
#include "server/engine/content_calls.h"

#include <utility>

#include "core/base/text.h"

namespace uopd::engine {

absl::StatusOr<std::vector<uint32_t>> ContentCalls::Open(Session& session,
                                                         std::span<const NamedContent> contents,
                                                         const WorkLimits& limits) {
  if (contents.size() > kMostContents) {
    return absl::InvalidArgumentError(
        Cat("request has ", contents.size(), " contents, more than ", kMostContents));
  }
  std::vector<uint32_t> needed;
  for (size_t i = 0; i < contents.size(); ++i) {
    bool bound = false;
    absl::Status status = limits.Check();
    if (status.ok()) {
      status = buffers_.Do(session, [&]() -> absl::Status {
        UOPD_ASSIGN(bound, Bind(session, contents[i], limits));
        return absl::OkStatus();
      });
    }
    if (!status.ok()) {
      return WithFrame(std::move(status),
                       Cat("opening content ", i, " as buffer ", contents[i].handle));
    }
    if (!bound) needed.push_back(static_cast<uint32_t>(i));
  }
  return needed;
}

absl::StatusOr<bool> ContentCalls::Bind(Session& session, const NamedContent& content,
                                        const WorkLimits& limits) {
  if (session.closed()) return absl::CancelledError("session was closed during the call");
  Digest sha256, proof;
  if (!sha256.FromBytes(content.sha256)) {
    return absl::InvalidArgumentError(
        Cat("SHA-256 (", content.sha256.size(), " bytes) does not have 32 bytes"));
  }
  if (!content.proof.empty() && !proof.FromBytes(content.proof)) {
    return absl::InvalidArgumentError(
        Cat("proof (", content.proof.size(), " bytes) does not have 32 bytes"));
  }
  if (content.handle == 0) return absl::InvalidArgumentError("buffer handle (0) is not a handle");
  UOPD_ASSIGN(DeviceState * device, devices_.Get(content.device));
  BufferStore& buffers = session.buffers();
  if (buffers.Peek(content.handle) != nullptr) {
    UOPD_TRY(Seal(session, content, sha256, *device, limits));
    return true;
  }
  UOPD_TRY(buffers.CheckGone(content.handle));
  UOPD_ASSIGN(auto found, store_.Open(sha256, content.bytes, proof, session.id(), *device,
                                      session.quota(), limits));
  if (!found) return false;
  UOPD_TRY(buffers.InsertConstant(content.handle, std::move(found->allocation),
                                  std::move(found->constant)));
  return true;
}

absl::Status ContentCalls::Seal(Session& session, const NamedContent& content, const Digest& sha256,
                                DeviceState& device, const WorkLimits& limits) {
  BufferStore& buffers = session.buffers();
  auto buffer = buffers.Find(content.handle);  // an upload with gaps has zeroes there
  if (buffer == nullptr) return buffers.Missing(content.handle);
  if (buffer->size() != content.bytes) {
    return absl::InvalidArgumentError(
        Cat("buffer has ", buffer->size(), " bytes, not ", content.bytes));
  }
  if (&buffer->device() != &device.device()) {
    return absl::InvalidArgumentError(
        Cat("buffer is on ", buffer->device().info().name, ", not on ", device.name()));
  }
  if (const auto constant = buffers.ConstantOf(content.handle)) {
    if (*constant == sha256) return absl::OkStatus();
    return absl::InvalidArgumentError("buffer is a constant with other contents");
  }
  UOPD_TRY(buffers.CheckContents(content.handle));
  auto shared = store_.Share(sha256, std::move(buffer), device, session.quota(), limits);
  // So who names a wrong SHA-256 has to upload as many bytes again before others are hashed.
  if (absl::IsInvalidArgument(shared.status())) buffers.Free({&content.handle, 1});
  UOPD_TRY(shared.status());
  return buffers.MakeConstant(content.handle, std::move(shared->allocation),
                              std::move(shared->constant));
}

}  // namespace uopd::engine
