// SPDX-License-Identifier: MIT
// Bundles: what a reader takes is what an exporter with a trusted key wrote, at its place, and
// nothing else.
#include "cache/bundle/bundle.h"

#include <limits>
#include <map>
#include <random>

#include "cache/base/lease/tokens.h"
#include "tests/support/environment.h"
#include "tests/unit/cache/cluster/key_files.h"

namespace uopd::cache {
namespace {

class BundleTest : public KeyFiles {
 protected:
  static Row RowOf(int i, size_t size = 60) {
    std::string value;
    for (size_t n = 0; n < size; ++n)
      value += static_cast<char>('a' + (n * 7 + static_cast<size_t>(i)) % 23);
    return MakeRow(Key("kernel", "graph " + std::to_string(i), "env"), value, 1000 + i, 5, 7);
  }
  static std::string BundleOf(const std::vector<Row>& rows, const SealKey& key) {
    BundleList list{.created_us = 42, .environments = {"env"}};
    for (const Row& row : rows) list.items.push_back({KeyOf(row).address(), row.checksum});
    std::string out = WriteBundleHead(list, key);
    for (const Row& row : rows) out += WriteBundleRecord(row, key);
    return out;
  }
  struct Result {
    absl::Status status;
    std::vector<Row> rows;
    std::vector<size_t> numbers;  // of those rows
    BundleList list;
    std::map<RecordFault, int> faults;
    size_t records = 0;
  };
  Result Read(std::string_view bytes, size_t piece = SIZE_MAX, BundleReader::Limits limits = {}) {
    BundleReader reader({hmac_, public_ed25519_}, limits);
    Result out;
    const auto take = [&](BundleReader::Record record) {
      EXPECT_EQ(record.number, ++out.records);
      ++out.faults[record.result.fault];
      if (!record.result.row) return;
      out.rows.push_back(*std::move(record.result.row));
      out.numbers.push_back(record.number);
    };
    while (!bytes.empty() && out.status.ok()) {
      out.status = reader.Feed(bytes.substr(0, piece), take);
      bytes.remove_prefix(std::min(piece, bytes.size()));
    }
    if (out.status.ok()) out.status = reader.End();
    if (reader.has_list()) out.list = reader.list();
    return out;
  }
  // The place of each record in a bundle: where its size stands.
  static std::vector<size_t> Places(const std::string& bundle, size_t records) {
    std::vector<size_t> out(records + 1, bundle.size());
    const auto size_at = [&](size_t at) {
      size_t n = 0;
      for (size_t i = 0; i < 4; ++i)
        n |= size_t{static_cast<unsigned char>(bundle[at + i])} << 8 * i;
      return n;
    };
    size_t at = 18 + size_at(14) + (bundle[5] == 1 ? 32 : 64);
    for (size_t i = 0; i < records; ++i) {
      out[i] = at;
      at += 4 + size_at(at);
    }
    return out;
  }
};

TEST_F(BundleTest, ComesBackInAnyPieces) {
  const std::vector<Row> rows = {RowOf(1), RowOf(2, 0), RowOf(3, 5000)};
  for (const SealKey* key : {&hmac_, &ed25519_}) {
    const std::string bundle = BundleOf(rows, *key);
    for (const size_t piece : {size_t{1}, size_t{13}, bundle.size() / 2, SIZE_MAX}) {
      const Result read = Read(bundle, piece);
      ASSERT_TRUE(read.status.ok()) << read.status;
      ASSERT_EQ(read.rows.size(), rows.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(read.rows[i].value, rows[i].value);
        EXPECT_EQ(read.rows[i].checksum, rows[i].checksum);
        EXPECT_EQ(read.rows[i].fence, rows[i].fence);
      }
    }
  }
  const Result empty = Read(BundleOf({}, hmac_));
  EXPECT_TRUE(empty.status.ok()) << empty.status;
  EXPECT_EQ(empty.records, 0u);
}

TEST_F(BundleTest, NoticesWhatIsNotASealedBundle) {
  const std::string bundle = BundleOf({RowOf(1), RowOf(2)}, hmac_);
  EXPECT_TRUE(absl::IsPermissionDenied(Read(BundleOf({RowOf(1)}, other_hmac_)).status));
  EXPECT_TRUE(absl::IsPermissionDenied(Read(BundleOf({RowOf(1)}, other_ed25519_)).status));
  EXPECT_TRUE(absl::IsInvalidArgument(Read("no bundle, but a text that is long enough").status));
  std::string version = bundle;
  version[4] = 9;
  EXPECT_TRUE(absl::IsInvalidArgument(Read(version).status));
  std::string list = bundle;
  list[30] ^= 1;
  EXPECT_TRUE(absl::IsPermissionDenied(Read(list).status));
  for (size_t cut = 0; cut < bundle.size(); ++cut) {
    const Result read = Read(bundle.substr(0, cut));
    EXPECT_TRUE(absl::IsDataLoss(read.status)) << cut << read.status;
  }
  EXPECT_TRUE(absl::IsDataLoss(Read(bundle + "x").status));
  EXPECT_TRUE(absl::IsDataLoss(Read("").status));
}

TEST_F(BundleTest, NoticesRecordsThatAreNotAtTheirPlace) {
  const std::vector<Row> rows = {RowOf(1), RowOf(2), RowOf(3)};
  const std::string bundle = BundleOf(rows, hmac_);
  const std::vector<size_t> at = Places(bundle, 3);
  const auto record = [&](size_t i) { return bundle.substr(at[i], at[i + 1] - at[i]); };
  const std::string head = bundle.substr(0, at[0]);
  // Two change their places.
  Result read = Read(head + record(1) + record(0) + record(2));
  EXPECT_TRUE(read.status.ok());
  EXPECT_EQ(read.faults[RecordFault::kOtherKey], 2);
  EXPECT_EQ(read.rows.size(), 1u);
  // One is repeated in the place of another.
  read = Read(head + record(0) + record(0) + record(2));
  EXPECT_EQ(read.faults[RecordFault::kOtherKey], 1);
  // One is left out.
  read = Read(head + record(0) + record(2));
  EXPECT_EQ(read.faults[RecordFault::kOtherKey], 1);
  EXPECT_TRUE(absl::IsDataLoss(read.status));
  // One is missing in its place.
  read = Read(head + record(0) + std::string(4, '\0') + record(2));
  EXPECT_EQ(read.faults[RecordFault::kForeign], 1);
  EXPECT_EQ(read.rows.size(), 2u);
  // The same key, sealed by the same key, with an older value: of another bundle.
  Row old = MakeRow(KeyOf(rows[1]), "old", 1, 1, 1);
  read = Read(head + record(0) + WriteBundleRecord(old, hmac_) + record(2));
  EXPECT_EQ(read.faults[RecordFault::kOtherKey], 1);
  EXPECT_EQ(read.rows.size(), 2u);
  // Sealed by a key that is not trusted.
  read = Read(head + record(0) + WriteBundleRecord(rows[1], other_hmac_) + record(2));
  EXPECT_EQ(read.faults[RecordFault::kUnknownKey], 1);
}

TEST_F(BundleTest, HostileSizesTakeNoMemory) {
  std::string head(18, '\0');
  const std::string good = WriteBundleHead({}, hmac_);
  head = good.substr(0, 14) + std::string(4, '\xff');
  EXPECT_TRUE(absl::IsResourceExhausted(Read(head + std::string(1000, 'x')).status));
  std::string bundle = BundleOf({RowOf(1)}, hmac_);
  const size_t at = Places(bundle, 1)[0];
  for (size_t i = 0; i < 4; ++i) bundle[at + i] = '\xff';
  EXPECT_TRUE(absl::IsResourceExhausted(Read(bundle).status));
  // A record whose value would be larger than allowed.
  const Result small =
      Read(BundleOf({RowOf(1, 100'000)}, hmac_), SIZE_MAX, {.record_bytes = 50'000});
  EXPECT_EQ(small.faults.count(RecordFault::kTooLarge), 1u);
}

// Every row that a changed bundle gives is a row of the list, at its place: the row that an
// exporter wrote.
TEST_F(BundleTest, FuzzTakesNothingThatNobodySigned) {
  std::mt19937_64 random(11);  // NOLINT: a fixed seed
  const int64_t cases = test::CasesFromEnvironment("UOPD_FUZZ_BUNDLES", 20'000);
  const std::vector<Row> rows = {RowOf(1), RowOf(2), RowOf(3)};
  const std::vector<Row> others = {RowOf(4), RowOf(2, 61), RowOf(6)};
  std::vector<std::string> bundles;
  for (const SealKey* key : {&hmac_, &ed25519_, &other_hmac_}) {
    bundles.push_back(BundleOf(rows, *key));
    bundles.push_back(BundleOf(others, *key));
  }
  int64_t whole = 0, rows_taken = 0;
  std::map<absl::StatusCode, int64_t> codes;
  for (int64_t i = 0; i < cases; ++i) {
    const size_t chosen = random() % bundles.size();
    std::string bytes = bundles[chosen];
    switch (random() % 6) {
      case 0:  // bits flip
        for (uint64_t n = 1 + random() % 4; n > 0; --n)
          bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:  // cut
        bytes.resize(random() % bytes.size());
        break;
      case 2: {  // the front of one bundle, the back of another
        const std::string& other = bundles[random() % bundles.size()];
        bytes = bytes.substr(0, random() % bytes.size()) + other.substr(random() % other.size());
        break;
      }
      case 3: {  // a part is removed
        const size_t from = random() % bytes.size();
        bytes.erase(from, 1 + random() % (bytes.size() - from));
        break;
      }
      case 4: {  // a record is replaced by one of any bundle
        const std::string& other = bundles[random() % bundles.size()];
        const auto at = Places(bytes, 3), from = Places(other, 3);
        const size_t to = random() % 3, what = random() % 3;
        bytes = bytes.substr(0, at[to]) + other.substr(from[what], from[what + 1] - from[what]) +
                bytes.substr(at[to + 1]);
        break;
      }
      default:  // random bytes from somewhere on
        for (size_t at = random() % bytes.size(); at < bytes.size(); ++at)
          bytes[at] = static_cast<char>(random());
    }
    const Result read = Read(bytes, 1 + random() % 400, {.list_bytes = 4096, .record_bytes = 4096});
    ++codes[read.status.code()];
    whole += read.status.ok() && read.rows.size() == 3 && bytes != bundles[chosen] ? 1 : 0;
    if (read.records > 0) {  // then somebody signed this list
      const bool first = read.list.items[0].checksum == rows[0].checksum;
      const std::vector<Row>& exported = first ? rows : others;
      ASSERT_EQ(read.list.items.size(), 3u);
      for (size_t n = 0; n < 3; ++n) {
        ASSERT_EQ(read.list.items[n].checksum, exported[n].checksum) << "case " << i;
        ASSERT_EQ(read.list.items[n].address, KeyOf(exported[n]).address()) << "case " << i;
      }
      for (size_t n = 0; n < read.rows.size(); ++n) {
        const Row& right = exported[read.numbers[n] - 1];
        ASSERT_EQ(read.rows[n].value, right.value) << "case " << i;
        ASSERT_EQ(read.rows[n].semantic, right.semantic) << "case " << i;
        ASSERT_EQ(read.rows[n].fence, right.fence) << "case " << i;
        ++rows_taken;
      }
    }
  }
  // A whole bundle comes out of a change only if the change put an equal record in its place, or is
  // a whole other bundle.
  EXPECT_LT(whole, cases / 20);
  EXPECT_GT(rows_taken, cases / 20);
  EXPECT_GT(codes[absl::StatusCode::kPermissionDenied], cases / 10);
  EXPECT_GT(codes[absl::StatusCode::kDataLoss], cases / 10);
}

TEST_F(BundleTest, TheLargestRowOfALimitIsReadEvenIfItDoesNotCompress) {
  std::mt19937_64 random(5);  // NOLINT: a fixed seed
  for (const size_t limit : {size_t{4} << 10, size_t{130} << 10, size_t{1} << 20}) {
    const Key key("kernel", "graph", "env");
    const int64_t others = SizeOf(MakeRow(key, "", 1, 1, 1));
    std::string value(static_cast<size_t>(MaxBundleRowBytes(limit) - others), ' ');
    for (char& c : value) c = static_cast<char>(random());
    const Row row = MakeRow(key, value, std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::max(), WallClockUs() + kFarthestTokenUs);
    ASSERT_EQ(SizeOf(row), MaxBundleRowBytes(limit));
    for (const SealKey* key_used : {&hmac_, &ed25519_}) {
      const Result got = Read(BundleOf({row}, *key_used), SIZE_MAX, {.record_bytes = limit});
      EXPECT_TRUE(got.status.ok()) << limit << got.status;
      ASSERT_EQ(got.rows.size(), 1u) << limit;
      EXPECT_EQ(got.rows[0].value, value);
    }
  }
}

}  // namespace
}  // namespace uopd::cache
