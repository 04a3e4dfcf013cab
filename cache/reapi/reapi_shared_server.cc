// SPDX-License-Identifier: MIT
#include "cache/reapi/reapi_shared_server.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "cache/base/blobs.h"
#include "cache/base/lease/tokens.h"
#include "cache/reapi/reapi_channel.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

// Of the layout in the head of reapi_shared_server.h; daemons of another one do not see each
// other's records.
constexpr std::string_view kLayout = "uopd:1:";
// A record of this size costs no second question. Servers keep results as small files or in memory.
constexpr size_t kInlineBytes = size_t{256} << 10;

reapi::Digest ActionOf(const Digest& address) { return DigestOf(Cat(kLayout, address.Hex())); }

reapi::Digest BirthAction() { return DigestOf(Cat(kLayout, "born")); }

// 0: the text is no positive number.
int64_t ReadPositive(std::string_view text) {
  int64_t out = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  return error == std::errc{} && stop == end && out > 0 ? out : 0;
}

}  // namespace

absl::StatusOr<std::optional<reapi::ActionResult>> ReapiSharedServer::GetResult(
    const reapi::Digest& action, Deadline deadline) {
  // A server that was replaced is noticed here, before it is given anything.
  UOPD_TRY(channel_.Limits(deadline).status());
  reapi::GetActionResultRequest request;
  request.set_instance_name(channel_.instance());
  *request.mutable_action_digest() = action;
  request.set_inline_stdout(true);
  request.set_inline_stderr(true);
  reapi::ActionResult result;
  absl::Status status =
      channel_.Run("GetActionResult", deadline, [&](grpc::ClientContext& context) {
        return channel_.actions().GetActionResult(&context, request, &result);
      });
  if (absl::IsNotFound(status)) return std::nullopt;
  // Whoever may not ask has no shared tier.
  if (absl::IsResourceExhausted(status)) return absl::UnavailableError(status.message());
  UOPD_TRY(std::move(status));
  return result;
}

absl::Status ReapiSharedServer::PutResult(const reapi::Digest& action,
                                          const reapi::ActionResult& result, Deadline deadline) {
  reapi::UpdateActionResultRequest request;
  request.set_instance_name(channel_.instance());
  *request.mutable_action_digest() = action;
  *request.mutable_action_result() = result;
  reapi::ActionResult ignored;
  return channel_.Run("UpdateActionResult", deadline, [&](grpc::ClientContext& context) {
    return channel_.actions().UpdateActionResult(&context, request, &ignored);
  });
}

absl::StatusOr<std::optional<std::string>> ReapiSharedServer::Output(
    std::string raw, const reapi::Digest* maybe_blob, Deadline deadline) {
  // Servers may move an output into a blob, or out of one.
  if (!raw.empty() || maybe_blob == nullptr) return raw;
  absl::StatusOr<std::string> blob = ReadBlob(channel_, *maybe_blob, deadline);
  if (absl::IsNotFound(blob.status())) return std::nullopt;  // dropped before its result
  if (absl::IsResourceExhausted(blob.status()))
    return absl::UnavailableError(blob.status().message());
  UOPD_TRY(blob.status());
  return *std::move(blob);
}

absl::StatusOr<int64_t> ReapiSharedServer::Number(std::string raw, const reapi::Digest* maybe_blob,
                                                  Deadline deadline) {
  UOPD_ASSIGN(const std::optional<std::string> text, Output(std::move(raw), maybe_blob, deadline));
  return text ? ReadPositive(*text) : 0;
}

absl::StatusOr<std::optional<std::string>> ReapiSharedServer::Get(const Digest& address,
                                                                  Deadline deadline) {
  UOPD_ASSIGN(std::optional<reapi::ActionResult> result, GetResult(ActionOf(address), deadline));
  if (!result) return std::nullopt;
  return Output(std::move(*result->mutable_stdout_raw()),
                result->has_stdout_digest() ? &result->stdout_digest() : nullptr, deadline);
}

absl::StatusOr<bool> ReapiSharedServer::Has(const Digest& address, Deadline deadline) {
  UOPD_ASSIGN(const std::optional<reapi::ActionResult> result,
              GetResult(ActionOf(address), deadline));
  return result.has_value();
}

absl::StatusOr<bool> ReapiSharedServer::Put(const Announcement& what, std::string_view record,
                                            int64_t fence, std::optional<Stream> /*stream*/,
                                            Deadline deadline) {
  UOPD_ASSIGN(const ReapiLimits limits, channel_.Limits(deadline));
  if (!limits.may_update)
    return absl::ResourceExhaustedError("The shared tier lets this daemon read only");
  const reapi::Digest action = ActionOf(what.address);
  UOPD_ASSIGN(const std::optional<reapi::ActionResult> known, GetResult(action, deadline));
  if (known) {
    UOPD_ASSIGN(const int64_t newest,
                Number(known->stderr_raw(),
                       known->has_stderr_digest() ? &known->stderr_digest() : nullptr, deadline));
    if (KeepsOut(newest, fence, WallClockUs())) return false;
  }
  reapi::ActionResult result;
  result.set_stderr_raw(Cat(fence));
  if (record.size() <= kInlineBytes) {
    result.mutable_stdout_raw()->assign(record);
  } else {
    *result.mutable_stdout_digest() = DigestOf(record);
    UOPD_TRY(WriteBlob(channel_, result.stdout_digest(), record, deadline));
  }
  UOPD_TRY(PutResult(action, result, deadline));
  return true;
}

absl::StatusOr<KeysAge> ReapiSharedServer::AskKeysAge(Deadline deadline) {
  UOPD_ASSIGN(const ReapiLimits limits, channel_.Limits(deadline));
  UOPD_ASSIGN(const std::optional<reapi::ActionResult> known, GetResult(BirthAction(), deadline));
  const int64_t now = WallClockUs();
  int64_t born = 0;
  if (known) {
    UOPD_ASSIGN(born,
                Number(known->stdout_raw(),
                       known->has_stdout_digest() ? &known->stdout_digest() : nullptr, deadline));
  }
  if (born == 0 || born > now) {
    born = now;
    // A server that takes nothing from this daemon needs nothing from it, however old it is.
    if (!limits.may_update) return KeysAge{.born_us = 1, .age_us = now};
    reapi::ActionResult result;
    result.set_stdout_raw(Cat(born));
    UOPD_TRY(PutResult(BirthAction(), result, deadline));
  }
  return KeysAge{.born_us = born, .age_us = now - born};
}

}  // namespace uopd::cache
