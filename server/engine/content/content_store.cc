// SPDX-License-Identifier: MIT
#include "server/engine/content/content_store.h"

#include <utility>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/content/device_bytes.h"

namespace uopd::engine {

absl::StatusOr<ContentStore::Bound> ContentStore::BoundTo(const Digest& sha256,
                                                          std::shared_ptr<const ContentUse> use,
                                                          Quota& of_session) const {
  Bound out;
  out.allocation.device = &use->device();
  out.allocation.buffer = use->buffer();
  UOPD_ASSIGN(
      out.allocation.charge,
      Charge::TakeHere(of_session, ChargedBytes(static_cast<int64_t>(use->buffer()->size())),
                       ByteClass::kContents));
  out.constant = {.sha256 = sha256, .maybe_shared = std::move(use)};
  return out;
}

absl::StatusOr<std::optional<ContentStore::Bound>> ContentStore::Open(
    const Digest& sha256, uint64_t bytes, const Digest& proof, std::string_view session_id,
    DeviceState& device, Quota& of_session, const WorkLimits& limits) {
  std::optional<Digest> tag = memory_.TagOf(sha256, bytes);
  if (!tag) tag = files_.TagOf(sha256, bytes);
  const bool proven =
      SameInConstantTime(ProofOfPossession(session_id, tag.value_or(Digest())), proof);
  if (tag && proven) {
    if (auto use = memory_.Find(sha256, device); use != nullptr) {
      UOPD_ASSIGN(Bound out, BoundTo(sha256, std::move(use), of_session));
      metrics::ContentOpens({"memory"}).Increment();
      return out;
    }
    UOPD_ASSIGN(auto loaded, Load(sha256, *tag, bytes, device, of_session, limits));
    if (loaded) {
      metrics::ContentOpens({"disk"}).Increment();
      return loaded;
    }
  }
  metrics::ContentOpens({"needed"}).Increment();
  return std::nullopt;
}

absl::StatusOr<std::optional<ContentStore::Bound>> ContentStore::Load(
    const Digest& sha256, const Digest& tag, uint64_t bytes, DeviceState& device, Quota& of_session,
    const WorkLimits& limits) {
  if (!files_.TagOf(sha256, bytes)) return std::nullopt;
  Bound out;
  UOPD_ASSIGN(out.allocation, Allocate(device, static_cast<int64_t>(bytes), of_session));
  UOPD_ASSIGN(PieceWriter writer, PieceWriter::Begin(device, out.allocation.buffer));
  const absl::Status read =
      files_.Read(sha256, [&](uint64_t offset, std::string_view piece) -> absl::Status {
        UOPD_TRY(limits.Check());
        return writer.Write(offset, piece);
      });
  if (absl::IsNotFound(read)) return std::nullopt;
  UOPD_TRY(read);
  UOPD_TRY(writer.Finish());
  out.constant.sha256 = sha256;
  auto use = memory_.Add({sha256, tag}, device, out.allocation.buffer);
  if (!use.ok()) return out;  // there is no room: it stays the session's own
  out.allocation = {};        // gives its charge back before the next one is taken
  UOPD_ASSIGN(out, BoundTo(sha256, *std::move(use), of_session));
  return out;
}

absl::StatusOr<ContentStore::Bound> ContentStore::Share(const Digest& sha256,
                                                        std::shared_ptr<devices::Buffer> buffer,
                                                        DeviceState& device, Quota& of_session,
                                                        const WorkLimits& limits) {
  ContentHasher hasher(key().view());
  UOPD_TRY(ReadPieces(device, *buffer, limits, [&](uint64_t, std::string_view piece) {
    hasher.Update(piece);
    return absl::OkStatus();
  }));
  const ContentHasher::Names names = hasher.Finish();
  if (names.sha256 != sha256) {
    return absl::InvalidArgumentError(
        Cat("the SHA-256 of the uploaded bytes is ", names.sha256.Hex(), ", not ", sha256.Hex()));
  }
  Bound out;
  out.constant.sha256 = sha256;
  auto use = memory_.Add(names, device, std::move(buffer));
  if (!use.ok()) return out;
  WriteBehind(names, *use);
  // The session has paid for its buffer until now. Without room for both charges, it keeps it.
  auto bound = BoundTo(sha256, *std::move(use), of_session);
  if (!bound.ok()) return out;
  metrics::ContentOpens({"added"}).Increment();
  return bound;
}

void ContentStore::WriteBehind(const ContentHasher::Names& names,
                               std::shared_ptr<const ContentUse> use) {
  writer_.Post([this, names, use = std::move(use)]() mutable {
    if (ending_.load()) return;
    const WorkLimits limits{.cancelled = [this] { return ending_.load(); }};
    const absl::Status written =
        files_.Write(names, use->buffer()->size(), [&](ContentFiles::Taker take) {
          return ReadPieces(use->device(), *use->buffer(), limits, take);
        });
    if (!written.ok() && !absl::IsCancelled(written)) {
      UOPD_LOG(kWarn, "a constant is not kept on disk", {"sha256", names.sha256.Hex()},
               {"why", written});
    }
    use = nullptr;
  });
}

void ContentStore::Publish() const {
  for (const char* outcome : {"memory", "disk", "needed", "added"})
    metrics::ContentOpens({outcome});  // 0 from the start
  for (const char* tier : {"memory", "disk"}) metrics::ContentEvictions({tier});
  const Usage now = usage();
  metrics::ContentBytes({"memory"}).Set(static_cast<double>(now.memory.bytes));
  metrics::ContentBytes({"used"}).Set(static_cast<double>(now.memory.used_bytes));
  metrics::ContentBytes({"disk"}).Set(static_cast<double>(now.files.bytes));
  metrics::Contents({"memory"}).Set(static_cast<double>(now.memory.contents));
  metrics::Contents({"disk"}).Set(static_cast<double>(now.files.contents));
}

}  // namespace uopd::engine
