// SPDX-License-Identifier: MIT
// What a lookup in each tier of the cache costs: in memory, in a file of a million rows, and in the
// server that daemons of a cluster share, which a lookup reaches after both miss. The peer of the
// last is the same bytes read from Redis without keys, signatures and checks; the peer of the
// others is nothing.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "cache/file/cache_file.h"
#include "cache/file/schema.h"
#include "cache/redis/redis_shared_server.h"
#include "cache/store.h"
#include "core/base/text.h"
#include "tests/perf/perf.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::perf::cache_perf {
namespace {

// Objects of kernels: from 1 to 16 KiB, as many between 1 and 2 as between 8 and 16. A million
// take 5.5 GiB.
constexpr size_t kLeastBytes = 1024, kDoublings = 4;
constexpr int kLookups = 5000;

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "uopd-cache-perf-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

cache::Key CacheKey(int64_t i) { return {"kernel", Cat("graph ", i), "environment"}; }

std::string CacheValue(int64_t i) {
  uint64_t state = 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(i + 1);
  const auto next = [&state] {
    return state = state * 6364136223846793005ull + 1442695040888963407ull;
  };
  const uint64_t least = kLeastBytes << ((next() >> 40) % kDoublings);
  std::string out = Cat(i, ":");
  const size_t begin = out.size();
  out.resize(least + (next() >> 32) % least);
  for (size_t at = begin; at < out.size(); at += sizeof(uint64_t)) {
    const uint64_t word = next();
    std::memcpy(out.data() + at, &word, std::min(sizeof word, out.size() - at));
  }
  return out;
}

// The times of lookups of random rows below `rows`, in microseconds. An error: a lookup that found
// something else.
absl::StatusOr<std::vector<double>> LookUp(cache::Store& store, int64_t rows,
                                           cache::Source source) {
  std::mt19937_64 random(1);
  std::vector<double> us;
  for (int n = 0; n < kLookups; ++n) {
    const auto i = static_cast<int64_t>(random() % static_cast<uint64_t>(rows));
    const cache::Key key = CacheKey(i);
    const double begin = NowSeconds();
    const cache::GetResult found = store.Get(key);
    // A row that was looked up before comes from a nearer tier.
    if (found.source == source) us.push_back(1e6 * (NowSeconds() - begin));
    if (!found.hit() || found.entry.bytes != CacheValue(i))
      return absl::InternalError("a wrong row");
  }
  return us;
}

absl::Status Fill(cache::Store& store, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    absl::Status put = store.Put(CacheKey(i), CacheValue(i), 1);
    if (absl::IsResourceExhausted(put)) {  // the queue is full
      UOPD_TRY(store.Flush());
      put = store.Put(CacheKey(i), CacheValue(i), 1);
    }
    UOPD_TRY(put);
  }
  return store.Flush();
}

// The same rows in the file of a folder, in seconds: the daemon's own writer with far larger
// transactions, and with the whole index in memory.
absl::Status FillFile(const std::string& path, int64_t rows) {
  constexpr int64_t kRowsAtOnce = 20'000;
  UOPD_ASSIGN(const auto file,
              cache::CacheFile::Open({.path = path, .page_cache_kib = int64_t{1} << 20}));
  for (int64_t i = 0; i < rows;) {
    std::vector<cache::WriteOp> batch;
    for (const int64_t end = std::min(rows, i + kRowsAtOnce); i < end; ++i) {
      const cache::Key key = CacheKey(i);
      cache::WriteOp op{.kind = cache::WriteOp::kPut, .address = key.address()};
      op.row = std::make_shared<const cache::Row>(
          cache::MakeRow(key, CacheValue(i), 1, cache::WallClockUs(), 0));
      batch.push_back(std::move(op));
    }
    UOPD_TRY(file->Write(batch, int64_t{64} << 30).status());
  }
  return absl::OkStatus();
}

// `limit`: what the median should stay below, where there is no peer.
void AddPercentiles(const std::string& name, const std::vector<double>& us, double limit,
                    std::vector<Measurement>& out, const std::vector<double>& peer = {}) {
  for (const double p : {0.5, 0.99}) {
    const bool median = p == 0.5;
    Measurement one{.name = Cat("cache.", name, median ? ".p50" : ".p99"),
                    .unit = "us",
                    .value = Percentile(us, p)};
    if (median) one.peer_name = "limit", one.peer = limit;
    if (!peer.empty()) one.peer_name = "plain GET", one.peer = Percentile(peer, p);
    out.push_back(std::move(one));
  }
}

absl::Status Local(int64_t rows, std::vector<Measurement>& out) {
  const Folder folder;
  cache::StoreOptions options{.folder = folder.path(), .max_bytes = int64_t{64} << 30};
  const double begin = NowSeconds();
  UOPD_TRY(FillFile(Cat(folder.path(), "/", cache::schema::kFileName), rows));
  out.push_back({.name = "cache.fill", .unit = "s", .value = NowSeconds() - begin});
  const auto store = cache::Store::Open(options);  // nothing is in memory now
  UOPD_ASSIGN(const auto disk, LookUp(*store, rows, cache::Source::kDisk));
  AddPercentiles("disk", disk, 200, out);
  cache::Store memory(int64_t{1} << 30);
  const int64_t few = std::min<int64_t>(rows, 10'000);
  UOPD_TRY(Fill(memory, few));
  UOPD_ASSIGN(const auto near, LookUp(memory, few, cache::Source::kMemory));
  AddPercentiles("memory", near, 30, out);
  return absl::OkStatus();
}

absl::Status Shared(std::vector<Measurement>& out) {
  UOPD_ASSIGN(const auto redis, test::RedisProcess::Start());
  const Folder folder;
  const std::string file = folder.path() + "/key";
  std::ofstream(file) << std::string(64, 'a');
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  UOPD_ASSIGN(const cache::SealKey key, cache::SealKey::Read(file));
  UOPD_ASSIGN(const cache::RedisUrl url,
              cache::ParseRedisUrl(Cat("redis://127.0.0.1:", redis->port())));
  const cache::RedisPoolOptions pool{.url = url};
  const auto open = [&](const std::string& name) {
    std::filesystem::create_directories(folder.path() + "/" + name);
    return cache::Store::Open(
        {.folder = folder.path() + "/" + name},
        std::make_unique<cache::Cluster>(
            std::make_unique<cache::RedisSharedServer>(cache::RedisSharedOptions{.pool = pool}),
            cache::ClusterOptions{
                .sign = key, .trusted = {key}, .budget = std::chrono::seconds(1)}));
  };
  UOPD_TRY(Fill(*open("a"), kLookups));
  const auto store = open("b");
  cache::RedisPool plain(pool);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  UOPD_ASSIGN(auto connection, plain.Take(deadline));
  std::vector<double> us, peer;
  for (int64_t i = 0; i < kLookups; ++i) {
    const cache::Key one = CacheKey(i);
    double begin = NowSeconds();
    const cache::GetResult found = store->Get(one);
    us.push_back(1e6 * (NowSeconds() - begin));
    if (found.source != cache::Source::kCluster || found.entry.bytes != CacheValue(i))
      return absl::InternalError("a wrong row from the shared tier");
    const std::string name = Cat("uopd:1:{", one.address().Hex(), "}:row");
    begin = NowSeconds();
    UOPD_ASSIGN(const cache::RespValue row, connection->Run({"HGET", name, "record"}, deadline));
    peer.push_back(1e6 * (NowSeconds() - begin));
    if (row.text.size() < 100) return absl::InternalError("the shared tier has no record");
  }
  AddPercentiles("cluster", us, 1000, out, peer);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> RunCacheBench(const Options& options) {
  std::vector<Measurement> out;
  UOPD_TRY(Local(std::max<int64_t>(static_cast<int64_t>(1e6 * options.scale), kLookups), out));
  UOPD_TRY(Shared(out));
  return out;
}

const Register kCacheBench(
    "cache", "lookups in memory, in a file of a million rows and in a server of Redis",
    RunCacheBench);

}  // namespace
}  // namespace uopd::perf::cache_perf
