// SPDX-License-Identifier: MIT
#include "cache/cluster/record.h"

#include <zstd.h>

#include <memory>
#include <utility>

#include "cache/base/lease/tokens.h"
#include "core/base/bytes.h"
#include "core/base/status.h"

namespace uopd::cache {
namespace {

constexpr std::string_view kMagic = "UOPR";
constexpr char kRecordVersion = 1;
constexpr size_t kHeadBytes = kMagic.size() + 2 + SealKey::kIdBytes;
constexpr int kZstdLevel = 3;

// One for each thread. A new one asks the processor what it can do, and a virtual machine's takes
// 30 us to answer.
ZSTD_CCtx* Compressor() {
  static thread_local const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(
      ZSTD_createCCtx(), ZSTD_freeCCtx);
  UOPD_CHECK(context != nullptr);
  return context.get();
}
ZSTD_DCtx* Decompressor() {
  static thread_local const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(
      ZSTD_createDCtx(), ZSTD_freeDCtx);
  UOPD_CHECK(context != nullptr);
  return context.get();
}

std::string Fields(const Row& row) {
  std::string out;
  PutString(out, row.store);
  PutString(out, row.semantic);
  PutString(out, row.environment);
  PutString(out, row.value);
  PutString(out, row.checksum);
  PutSigned(out, row.cost_us);
  PutSigned(out, row.created_us);
  PutSigned(out, row.fence);
  return out;
}

bool ReadFields(std::string_view fields, Row& row) {
  ByteReader in(fields);
  return in.String(row.store) && in.String(row.semantic) && in.String(row.environment) &&
         in.String(row.value) && in.String(row.checksum) && in.Signed(row.cost_us) &&
         in.Signed(row.created_us) && in.Signed(row.fence) && in.done();
}

}  // namespace

const char* Name(RecordFault fault) {
  switch (fault) {
    case RecordFault::kNone:
      return "none";
    case RecordFault::kForeign:
      return "foreign";
    case RecordFault::kVersion:
      return "version";
    case RecordFault::kUnknownKey:
      return "unknown_key";
    case RecordFault::kSignature:
      return "signature";
    case RecordFault::kTooLarge:
      return "too_large";
    case RecordFault::kContent:
      return "content";
    case RecordFault::kChecksum:
      return "checksum";
    case RecordFault::kFence:
      return "fence";
    case RecordFault::kOtherKey:
      return "other_key";
  }
  return "";
}

std::string WriteRecord(const Row& row, const SealKey& key) {
  const std::string fields = Fields(row);
  std::string out(kMagic);
  out += kRecordVersion;
  out += static_cast<char>(key.kind());
  out += key.id();
  const size_t head = out.size();
  out.resize(head + ZSTD_compressBound(fields.size()));
  const size_t size = ZSTD_compressCCtx(Compressor(), out.data() + head, out.size() - head,
                                        fields.data(), fields.size(), kZstdLevel);
  UOPD_CHECK(ZSTD_isError(size) == 0);
  out.resize(head + size);
  out += key.Sign(out);
  return out;
}

RecordResult ReadRecord(std::string_view bytes, const Digest& address,
                        const std::vector<SealKey>& trusted, size_t max_bytes, int64_t now_us) {
  if (bytes.size() < kHeadBytes || !bytes.starts_with(kMagic)) return {RecordFault::kForeign, {}};
  if (bytes[kMagic.size()] != kRecordVersion) return {RecordFault::kVersion, {}};
  const auto kind = static_cast<SealKind>(bytes[kMagic.size() + 1]);
  const SealKey* key = FindKey(trusted, kind, bytes.substr(kMagic.size() + 2, SealKey::kIdBytes));
  if (key == nullptr) return {RecordFault::kUnknownKey, {}};
  const size_t signature = SignatureBytes(kind);
  if (bytes.size() < kHeadBytes + signature) return {RecordFault::kForeign, {}};
  const std::string_view sealed = bytes.substr(0, bytes.size() - signature);
  if (!key->Verify(sealed, bytes.substr(sealed.size()))) return {RecordFault::kSignature, {}};

  const std::string_view body = sealed.substr(kHeadBytes);
  const auto size = ZSTD_getFrameContentSize(body.data(), body.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
    return {RecordFault::kContent, {}};
  if (size > max_bytes) return {RecordFault::kTooLarge, {}};
  std::string fields(size, '\0');
  if (ZSTD_decompressDCtx(Decompressor(), fields.data(), fields.size(), body.data(), body.size()) !=
      size)
    return {RecordFault::kContent, {}};
  Row row;
  if (!ReadFields(fields, row)) return {RecordFault::kContent, {}};
  if (row.checksum != Checksum(row)) return {RecordFault::kChecksum, {}};
  if (!IsPlausibleFence(row.fence, now_us)) return {RecordFault::kFence, {}};
  if (KeyOf(row).address() != address) return {RecordFault::kOtherKey, {}};
  return {RecordFault::kNone, std::move(row)};
}

}  // namespace uopd::cache
