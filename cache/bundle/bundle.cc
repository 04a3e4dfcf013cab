// SPDX-License-Identifier: MIT
#include "cache/bundle/bundle.h"

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

constexpr std::string_view kMagic = "UOPB";
constexpr char kBundleVersion = 1;
constexpr size_t kSizeBytes = 4;
constexpr size_t kHeadBytes = kMagic.size() + 2 + SealKey::kIdBytes + kSizeBytes;
constexpr size_t kAddressBytes = 32, kChecksumBytes = BundleList::kChecksumBytes;

void PutSize(std::string& out, size_t size) {
  for (size_t i = 0; i < kSizeBytes; ++i) out += static_cast<char>(size >> (8 * i));
}

size_t GetSize(std::string_view bytes) {
  size_t out = 0;
  for (size_t i = 0; i < kSizeBytes; ++i) {
    out |= static_cast<size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return out;
}

std::string ListBytes(const BundleList& list) {
  std::string out;
  PutSigned(out, list.created_us);
  PutVarint(out, list.environments.size());
  for (const std::string& environment : list.environments) PutString(out, environment);
  PutVarint(out, list.items.size());
  for (const BundleList::Item& item : list.items) {
    out += item.address.view();
    out += item.checksum;
  }
  return out;
}

bool ParseList(std::string_view bytes, BundleList& out) {
  ByteReader in(bytes);
  uint64_t environments, items;
  if (!in.Signed(out.created_us) || !in.Varint(environments)) return false;
  // Each environment and each item takes bytes of its own, so the numbers cannot ask for more
  // memory than the list has.
  if (environments > in.left()) return false;
  for (uint64_t i = 0; i < environments; ++i) {
    std::string one;
    if (!in.String(one)) return false;
    out.environments.push_back(std::move(one));
  }
  if (!in.Varint(items) || items > kMaxBundleRecords) return false;
  if (in.left() != items * (kAddressBytes + kChecksumBytes)) return false;
  std::string_view rest = bytes.substr(bytes.size() - in.left());
  out.items.reserve(items);
  for (uint64_t i = 0; i < items; ++i) {
    BundleList::Item item;
    if (!item.address.FromBytes(rest.substr(0, kAddressBytes))) return false;
    item.checksum = rest.substr(kAddressBytes, kChecksumBytes);
    rest.remove_prefix(kAddressBytes + kChecksumBytes);
    out.items.push_back(std::move(item));
  }
  return true;
}

}  // namespace

std::string WriteBundleHead(const BundleList& list, const SealKey& key) {
  for (const BundleList::Item& item : list.items) {
    UOPD_CHECK(item.checksum.size() == kChecksumBytes);
  }
  const std::string bytes = ListBytes(list);
  std::string out(kMagic);
  out += kBundleVersion;
  out += static_cast<char>(key.kind());
  out += key.id();
  PutSize(out, bytes.size());
  out += bytes;
  out += key.Sign(out);
  return out;
}

std::string WriteBundleRecord(const Row& row, const SealKey& key) {
  const std::string record = WriteRecord(row, key);
  std::string out;
  PutSize(out, record.size());
  return out + record;
}

absl::Status BundleReader::Feed(std::string_view bytes, absl::FunctionRef<void(Record)> take) {
  while (failed_.ok() && !bytes.empty()) {
    if (stage_ == Stage::kSize && next_ == list_.items.size()) {
      failed_ = absl::DataLossError("the bundle has bytes behind its last record");
      break;
    }
    const size_t taken = std::min(bytes.size(), wanted_ - part_.size());
    part_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (part_.size() == wanted_) failed_ = Advance(take);
  }
  return failed_;
}

absl::Status BundleReader::Advance(absl::FunctionRef<void(Record)> take) {
  switch (stage_) {
    case Stage::kHead:
      return ReadHead();
    case Stage::kList:
      return ReadList();
    case Stage::kSize:
      wanted_ = GetSize(part_);
      if (wanted_ > limits_.record_bytes) {
        return absl::ResourceExhaustedError(Cat("record ", next_ + 1, " of the bundle has ",
                                                wanted_, " bytes, more than ",
                                                limits_.record_bytes));
      }
      part_.clear();
      stage_ = Stage::kRecord;
      if (wanted_ == 0) ReadOne(take);
      return absl::OkStatus();
    case Stage::kRecord:
      ReadOne(take);
      return absl::OkStatus();
  }
  UOPD_CHECK(false);
}

absl::Status BundleReader::ReadHead() {
  static_assert(kHeadBytes == 18);
  if (!part_.starts_with(kMagic)) return Invalid("the file is not a bundle of a cache");
  if (part_[kMagic.size()] != kBundleVersion) {
    return Invalid(Cat("the bundle has version ", static_cast<int>(part_[kMagic.size()]),
                       ", and this daemon reads version ", static_cast<int>(kBundleVersion)));
  }
  const auto kind = static_cast<SealKind>(part_[kMagic.size() + 1]);
  key_ =
      FindKey(trusted_, kind, std::string_view(part_).substr(kMagic.size() + 2, SealKey::kIdBytes));
  if (key_ == nullptr) {
    return absl::PermissionDeniedError(
        "the bundle is signed by a key that this daemon does not trust");
  }
  signature_bytes_ = SignatureBytes(kind);
  const size_t size = GetSize(std::string_view(part_).substr(kHeadBytes - kSizeBytes));
  if (size > limits_.list_bytes) {
    return absl::ResourceExhaustedError(
        Cat("the list of the bundle has ", size, " bytes, more than ", limits_.list_bytes));
  }
  head_ = std::exchange(part_, {});
  wanted_ = size + signature_bytes_;
  stage_ = Stage::kList;
  return absl::OkStatus();
}

absl::Status BundleReader::ReadList() {
  const std::string_view list = std::string_view(part_).substr(0, part_.size() - signature_bytes_);
  head_ += list;
  if (!key_->Verify(head_, std::string_view(part_).substr(list.size()))) {
    return absl::PermissionDeniedError(
        "the signature of the bundle is wrong: its list was changed");
  }
  if (!ParseList(list, list_)) return Invalid("the list of the bundle cannot be read");
  head_ = {};
  part_.clear();
  wanted_ = kSizeBytes;
  stage_ = Stage::kSize;
  return absl::OkStatus();
}

void BundleReader::ReadOne(absl::FunctionRef<void(Record)> take) {
  const BundleList::Item& item = list_.items[next_];
  Record out{++next_, item.address,
             ReadRecord(part_, item.address, trusted_, limits_.record_bytes)};
  if (out.result.row && out.result.row->checksum != item.checksum) {
    out.result = {RecordFault::kOtherKey, {}};
  }
  part_.clear();
  wanted_ = kSizeBytes;
  stage_ = Stage::kSize;
  take(std::move(out));
}

absl::Status BundleReader::End() const {
  if (!failed_.ok()) return failed_;
  if (!has_list()) return absl::DataLossError("the bundle was cut before the end of its list");
  if (next_ < list_.items.size() || !part_.empty()) {
    return absl::DataLossError(
        Cat("the bundle was cut: it has ", next_, " of ", list_.items.size(), " records"));
  }
  return absl::OkStatus();
}

}  // namespace uopd::cache
