// SPDX-License-Identifier: MIT
#include "server/engine/compile/source/kernel_record.h"

#include "core/base/bytes.h"

namespace uopd::engine {

std::string KernelRecord::Encode() const {
  std::string out;
  PutString(out, name);
  PutString(out, object);
  KernelInfo::Encode(out);
  return out;
}

absl::StatusOr<KernelRecord> KernelRecord::Decode(std::string_view bytes) {
  ByteReader in(bytes);
  KernelRecord out;
  absl::Status facts;
  if (!in.String(out.name) || !in.String(out.object) ||
      absl::IsDataLoss(facts = KernelInfo::Decode(in, out)) || !in.done())
    return absl::DataLossError("kernel record is damaged");
  UOPD_TRY(facts);
  return out;
}

Digest KernelSource::digest() const {
  std::string all;
  PutString(all, record.Encode());
  PutString(all, text);
  return HashBytes(all);
}

}  // namespace uopd::engine
