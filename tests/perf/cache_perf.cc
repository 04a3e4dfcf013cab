// SPDX-License-Identifier: MIT
// What a lookup in each tier of the cache costs: in memory, in a file of a million rows, and in the server that daemons of
// a cluster share, which a lookup reaches after both miss. The peer of the last is the same bytes read from Redis without
// keys, signatures and checks; the peer of the others is nothing.
#include <filesystem>
#include <fstream>
#include <random>

#include "cache/redis/redis_shared_server.h"
#include "cache/store.h"
#include "core/base/text.h"
#include "tests/perf/perf.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::perf {
namespace {

constexpr size_t kValueBytes = 4000;  // about a small kernel
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
  std::string out = Cat(i, ":");
  std::mt19937_64 random(static_cast<uint64_t>(i));
  while (out.size() < kValueBytes) out += static_cast<char>('a' + random() % 26);
  return out;
}

// The times of lookups of random rows below `rows`, in microseconds. An error: a lookup that found something else.
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

void AddPercentiles(const std::string& name, const std::vector<double>& us,
                    std::vector<Measurement>& out, const std::vector<double>& peer = {}) {
  for (const double p : {0.5, 0.99}) {
    Measurement one{.name = Cat("cache.", name, p == 0.5 ? ".p50" : ".p99"),
                    .unit = "us",
                    .value = Percentile(us, p)};
    if (!peer.empty()) one.peer_name = "plain GET", one.peer = Percentile(peer, p);
    out.push_back(std::move(one));
  }
}

absl::Status Local(int64_t rows, std::vector<Measurement>& out) {
  const Folder folder;
  cache::StoreOptions options{.folder = folder.path(), .max_bytes = int64_t{64} << 30};
  {
    const auto store = cache::Store::Open(options);
    UOPD_TRY(Fill(*store, rows));
  }
  const auto store = cache::Store::Open(options);  // nothing is in memory now
  UOPD_ASSIGN(const auto disk, LookUp(*store, rows, cache::Source::kDisk));
  AddPercentiles("disk", disk, out);
  cache::Store memory(int64_t{1} << 30);
  const int64_t few = std::min<int64_t>(rows, 10'000);
  UOPD_TRY(Fill(memory, few));
  UOPD_ASSIGN(const auto near, LookUp(memory, few, cache::Source::kMemory));
  AddPercentiles("memory", near, out);
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
  AddPercentiles("cluster", us, out, peer);
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
}  // namespace uopd::perf
