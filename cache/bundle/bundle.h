// SPDX-License-Identifier: MIT
// Bundles: entries of a cache in one file, signed, to carry them to another daemon.
//
//   "UOPB"  version u8  kind of the key u8  id of the key 8 bytes     14 bytes
//   size of the list u32
//   list       time of the export, environments, and of each record its address and the checksum of
//              its row
//   signature  of all bytes before: 32 bytes (HMAC-SHA256) or 64 (Ed25519)
//   records    in the order of the list, each behind its size u32, sealed as those of a cluster
//              (cluster/record.h)
//
// The signed list comes first, so a reader knows from then on which row belongs to which place:
// records that were left out, moved, repeated or taken from another bundle are noticed at their
// place, and a file that was cut at its end. Numbers of a fixed size have their low byte first.
// Nothing of a file is used before a signature of a trusted key was checked.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "cache/base/row/row.h"
#include "cache/cluster/record.h"
#include "cache/cluster/seal_key.h"

namespace uopd::cache {

inline constexpr size_t kMaxBundleRecords = 100'000;
// The largest row, as SizeOf counts it, whose record surely keeps to a limit of `record_bytes`,
// even if it does not compress. REQUIRES: record_bytes is at least some KiB.
constexpr int64_t MaxBundleRowBytes(size_t record_bytes) {
  return static_cast<int64_t>(record_bytes / 257 * 256) - 1024;
}

struct BundleList {
  static constexpr size_t kChecksumBytes = 16;
  struct Item {
    Digest address;
    std::string checksum;  // of the row; kChecksumBytes
  };
  int64_t created_us = 0;
  std::vector<std::string> environments;  // of the records, each once, without the opts of kernels
  std::vector<Item> items;                // at most kMaxBundleRecords
};

// The parts of a bundle as they are written, one after the other. REQUIRES: key.can_sign(), and
// checksums of kChecksumBytes: those of a damaged row may be of any size.
std::string WriteBundleHead(const BundleList& list, const SealKey& key);
std::string WriteBundleRecord(const Row& row, const SealKey& key);

// Reads a bundle in pieces of any size. Needs memory for the list and for one record. One thread at
// a time.
class BundleReader {
 public:
  struct Limits {
    size_t list_bytes = size_t{16} << 20;
    size_t record_bytes = size_t{64} << 20;  // as stored, and again as read
  };
  // One record, in the order of the file. `number` counts from 1. The row is set if there is no
  // fault; otherwise its key must not be believed. kOtherKey: a record, or a row, that the list has
  // not at this place.
  struct Record {
    size_t number = 0;
    Digest address;  // from the list
    RecordResult result;
  };

  BundleReader(std::vector<SealKey> trusted, Limits limits)
      : trusted_(std::move(trusted)), limits_(limits) {}

  // Takes the next bytes of the file and calls `take` for each record that is whole now. The first
  // error is final. INVALID_ARGUMENT: no bundle, or one of another version. PERMISSION_DENIED: not
  // signed by a trusted key, or changed. RESOURCE_EXHAUSTED: above the limits. DATA_LOSS: bytes
  // behind the last record.
  absl::Status Feed(std::string_view bytes, absl::FunctionRef<void(Record)> take);
  // The file ends here. DATA_LOSS: it was cut.
  absl::Status End() const;

  bool has_list() const { return stage_ == Stage::kSize || stage_ == Stage::kRecord; }
  const BundleList& list() const { return list_; }  // REQUIRES: has_list()
  size_t records_read() const { return next_; }

 private:
  enum class Stage : uint8_t { kHead, kList, kSize, kRecord };
  absl::Status Advance(absl::FunctionRef<void(Record)> take);
  absl::Status ReadHead();
  absl::Status ReadList();
  void ReadOne(absl::FunctionRef<void(Record)> take);

  const std::vector<SealKey> trusted_;
  const Limits limits_;
  Stage stage_ = Stage::kHead;
  std::string head_;    // what the signature covers, as far as it was read
  std::string part_;    // the part that is being read, as far as it was read
  size_t wanted_ = 18;  // bytes of that part
  const SealKey* key_ = nullptr;
  size_t signature_bytes_ = 0;
  BundleList list_;
  size_t next_ = 0;  // records that were read
  absl::Status failed_;
};

}  // namespace uopd::cache
