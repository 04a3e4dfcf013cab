// SPDX-License-Identifier: MIT
// Records of a shared tier: nothing that somebody without a trusted key could have written is
// taken.
#include "cache/cluster/record.h"

#include <map>
#include <random>

#include "tests/support/environment.h"
#include "tests/unit/cache/cluster/key_files.h"

namespace uopd::cache {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

class RecordTest : public KeyFiles {
 protected:
  static Key KeyOf(int i) { return Key("kernel", "graph " + std::to_string(i), "env"); }
  static Row RowOf(int i, size_t size = 200) {
    std::string value = std::to_string(i);
    while (value.size() < size) value += value;
    return MakeRow(KeyOf(i), value, 1000 + i, 5, 7);
  }
  RecordFault Read(std::string_view bytes, int wanted = 1, size_t max_bytes = kMaxBytes) {
    return ReadRecord(bytes, KeyOf(wanted).address(), {hmac_, public_ed25519_}, max_bytes).fault;
  }
};

TEST_F(RecordTest, ComesBackAsItWas) {
  for (const SealKey& key : {hmac_, ed25519_}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}}) {
      const Row row = RowOf(1, size);
      const std::string record = WriteRecord(row, key);
      const RecordResult read =
          ReadRecord(record, KeyOf(1).address(), {hmac_, public_ed25519_}, kMaxBytes);
      ASSERT_EQ(read.fault, RecordFault::kNone);
      EXPECT_EQ(read.row->value, row.value);
      EXPECT_EQ(read.row->cost_us, row.cost_us);
      EXPECT_EQ(read.row->created_us, row.created_us);
      EXPECT_EQ(read.row->fence, row.fence);
      EXPECT_EQ(read.row->checksum, row.checksum);
      EXPECT_TRUE(KeyMatches(*read.row, KeyOf(1)));
    }
    EXPECT_LT(WriteRecord(RowOf(1, 100'000), key).size(), 2000U) << "records are compressed";
  }
}

TEST_F(RecordTest, FaultsAreNamed) {
  const std::string record = WriteRecord(RowOf(1), hmac_);
  EXPECT_EQ(Read(""), RecordFault::kForeign);
  EXPECT_EQ(Read("+OK"), RecordFault::kForeign);
  EXPECT_EQ(Read(record.substr(0, 20)), RecordFault::kForeign);
  EXPECT_EQ(Read(record, 2), RecordFault::kOtherKey);
  EXPECT_EQ(Read(record, 1, 100), RecordFault::kTooLarge);
  EXPECT_EQ(Read(WriteRecord(RowOf(1), other_hmac_)), RecordFault::kUnknownKey);
  EXPECT_EQ(Read(WriteRecord(RowOf(1), other_ed25519_)), RecordFault::kUnknownKey);
  EXPECT_EQ(Read(record + "x"), RecordFault::kSignature);
  std::string newer = record;
  newer[4] = 2;
  EXPECT_EQ(Read(newer), RecordFault::kVersion);
  Row damaged = RowOf(1);
  damaged.value += '!';
  EXPECT_EQ(Read(WriteRecord(damaged, hmac_)), RecordFault::kChecksum);
}

// What a daemon that has the key, but another idea of a row, may have signed.
TEST_F(RecordTest, SignedBytesThatAreNoRowAreRefused) {
  const std::string head = WriteRecord(RowOf(1), hmac_).substr(0, 14);
  for (const std::string_view body :
       {std::string_view(), std::string_view("no frame"),
        std::string_view("\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00x", 10)}) {
    std::string record = head + std::string(body);
    record += hmac_.Sign(record);
    EXPECT_EQ(Read(record), RecordFault::kContent);
  }
}

TEST_F(RecordTest, HostileRecordsAreNeverTaken) {
  std::mt19937_64 random(static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 3)));
  const int64_t cases = test::CasesFromEnvironment("UOPD_FUZZ_RECORDS", 20'000);
  const std::vector<SealKey> signers = {hmac_, ed25519_, other_hmac_, other_ed25519_};
  std::vector<std::string> records;
  for (const SealKey& key : signers) {
    for (int i = 1; i <= 3; ++i) records.push_back(WriteRecord(RowOf(i), key));
  }
  std::map<RecordFault, int> faults;
  for (int64_t i = 0; i < cases; ++i) {
    std::string bytes = records[random() % records.size()];
    switch (random() % 6) {
      case 0:  // bits flip
        for (uint64_t n = 1 + random() % 3; n > 0; --n)
          bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:  // cut off
        bytes.resize(random() % bytes.size());
        break;
      case 2:  // random bytes behind a right head
        for (size_t at = 14; at < bytes.size(); ++at) bytes[at] = static_cast<char>(random());
        break;
      case 3: {  // the front of one record, the back of another
        const std::string& other = records[random() % records.size()];
        const size_t at = random() % std::min(bytes.size(), other.size());
        bytes = bytes.substr(0, at) + other.substr(at);
        break;
      }
      case 4:  // replayed at the place of another key
        break;
      default: {  // the head names a trusted key, another key signed
        std::string sealed = bytes.substr(0, bytes.size() - 32);
        for (size_t at = 5; at < 14; ++at) sealed[at] = records[0][at];
        bytes = sealed + other_hmac_.Sign(sealed);
      }
    }
    // Equal records happen: a cut at the seam of two equal ones, two flips of one bit.
    bool original = false;
    for (const std::string& record : records) original |= record == bytes;
    const RecordFault fault = Read(bytes, original ? 9 : 1);
    ASSERT_NE(fault, RecordFault::kNone) << "case " << i;
    ++faults[fault];
  }
  EXPECT_GT(faults[RecordFault::kSignature], cases / 10);
  EXPECT_GT(faults[RecordFault::kOtherKey], cases / 50);
  EXPECT_GT(faults[RecordFault::kUnknownKey], cases / 50);
}

}  // namespace
}  // namespace uopd::cache
