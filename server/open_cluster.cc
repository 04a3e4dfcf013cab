// SPDX-License-Identifier: MIT
#include "server/open_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "cache/reapi/reapi_shared_server.h"
#include "cache/redis/redis_shared_server.h"
#include "core/base/input_file.h"
#include "core/base/secret_file.h"
#include "core/base/status.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"

namespace uopd {
namespace {

// The largest file of certificates or of a key that is read. A file with all certificates of a
// machine is smaller.
constexpr size_t kMaxPemBytes = 4 << 20;

absl::StatusOr<std::string> Password(const Config& config, const std::string& file,
                                     const char* setting) {
  if (file.empty()) return std::string();
  auto password = ReadSecretFile(file);
  if (!password.ok()) return config.About(setting, password.status());
  return password;
}

absl::StatusOr<cache::TlsContext> Tls(const Config& config) {
  // OpenSSL would wait for a pipe, and its errors do not say which setting named the file.
  for (const auto& [key, file] :
       {std::pair("cache.cluster_ca_file", config.cache_cluster_ca_file()),
        {"cache.cluster_cert_file", config.cache_cluster_cert_file()},
        {"cache.cluster_key_file", config.cache_cluster_key_file()}}) {
    if (!file.empty()) UOPD_TRY(config.About(key, ReadInputFile(file, kMaxPemBytes).status()));
  }
  auto tls =
      cache::TlsContext::Make(config.cache_cluster_ca_file(), config.cache_cluster_cert_file(),
                              config.cache_cluster_key_file());
  if (!tls.ok())
    return WithFrame(tls.status(),
                     "reading the settings cache.cluster_ca_file, _cert_file and _key_file");
  return tls;
}

absl::StatusOr<cache::RedisPoolOptions> PoolOptions(const Config& config) {
  cache::RedisPoolOptions pool;
  auto url = cache::ParseRedisUrl(config.cache_cluster());
  if (!url.ok()) return config.About("cache.cluster", url.status());
  pool.url = *std::move(url);
  UOPD_ASSIGN(pool.password, Password(config, config.cache_cluster_password_file(),
                                      "cache.cluster_password_file"));
  UOPD_ASSIGN(pool.sentinel_password,
              Password(config, config.cache_cluster_sentinel_password_file(),
                       "cache.cluster_sentinel_password_file"));
  if (pool.url.tls) {
    UOPD_ASSIGN(pool.tls, Tls(config));
  }
  return pool;
}

// The text of a file of certificates or of a key; empty: none.
absl::StatusOr<std::string> PemText(const std::string& file) {
  if (file.empty()) return std::string();
  return ReadInputFile(file, kMaxPemBytes);
}

absl::StatusOr<cache::ReapiOptions> MakeReapiOptions(const Config& config) {
  cache::ReapiOptions options;
  auto url = cache::ParseReapiUrl(config.cache_cluster());
  if (!url.ok()) return config.About("cache.cluster", url.status());
  options.url = *std::move(url);
  UOPD_ASSIGN(options.password, Password(config, config.cache_cluster_password_file(),
                                         "cache.cluster_password_file"));
  if (!std::ranges::all_of(options.password, [](char c) { return c >= ' ' && c < 127; }))
    return Invalid(
        "setting cache.cluster_password_file: the password of a server of the Remote "
        "Execution API is one line of printable ASCII characters");
  if (!options.url.tls) return options;
  UOPD_TRY(Tls(config).status());  // gRPC would say much later, and less, what is wrong with them
  UOPD_ASSIGN(options.ca, PemText(config.cache_cluster_ca_file()));
  UOPD_ASSIGN(options.cert, PemText(config.cache_cluster_cert_file()));
  UOPD_ASSIGN(options.key, PemText(config.cache_cluster_key_file()));
  return options;
}

absl::StatusOr<std::unique_ptr<cache::SharedServer>> OpenServer(const Config& config) {
  if (cache::IsReapiUrl(config.cache_cluster())) {
    UOPD_ASSIGN(const cache::ReapiOptions options, MakeReapiOptions(config));
    return std::make_unique<cache::ReapiSharedServer>(options);
  }
  UOPD_ASSIGN(cache::RedisPoolOptions pool, PoolOptions(config));
  return std::make_unique<cache::RedisSharedServer>(
      cache::RedisSharedOptions{.pool = std::move(pool)});
}

absl::Status CheckLevel(const Config& config) {
  if (config.cache_cluster().empty() || config.cache_level() > 0) return absl::OkStatus();
  return Invalid(
      Cat(config.Subject("cache.cluster"), " needs a cache on disk: cache.level must be 1 or 2"));
}

// Without opening a connection.
absl::Status CheckServer(const Config& config) {
  return cache::IsReapiUrl(config.cache_cluster()) ? MakeReapiOptions(config).status()
                                                   : PoolOptions(config).status();
}

absl::Status CheckKeys(const Config& config, const engine::BundleKeys& keys,
                       cache::ClusterOptions& options) {
  if (!config.cache_read_only()) options.sign = keys.sign;
  options.trusted = keys.trusted;
  if (!options.trusted.empty()) return absl::OkStatus();
  return Invalid(Cat(config.Subject("cache.cluster"),
                     " needs a key: without cache.cluster_sign_key or "
                     "cache.cluster_trusted_keys this daemon could "
                     "take nothing from the cluster"));
}

}  // namespace

absl::StatusOr<engine::BundleKeys> ReadSealKeys(const Config& config) {
  engine::BundleKeys out;
  if (!config.cache_cluster_sign_key().empty()) {
    auto key = cache::SealKey::Read(config.cache_cluster_sign_key());
    if (key.ok() && !key->can_sign()) key = Invalid("A public key cannot sign");
    if (!key.ok()) return config.About("cache.cluster_sign_key", key.status());
    out.sign = *key;
    out.trusted.push_back(*std::move(key));
  }
  for (const absl::string_view file :
       absl::StrSplit(config.cache_cluster_trusted_keys(), ',', absl::SkipWhitespace())) {
    auto key = cache::SealKey::Read(std::string(file));
    if (!key.ok()) return config.About("cache.cluster_trusted_keys", key.status());
    out.trusted.push_back(*std::move(key));
  }
  return out;
}

Config::Problems CheckCluster(const Config& config) {
  Config::Problems out;
  const auto add = [&](absl::Status status) {
    if (!status.ok()) out.push_back(std::move(status));
  };
  const absl::StatusOr<engine::BundleKeys> keys = ReadSealKeys(config);
  add(keys.status());
  if (config.cache_cluster().empty()) return out;
  cache::ClusterOptions unused;
  if (keys.ok()) add(CheckKeys(config, *keys, unused));
  add(CheckLevel(config));
  add(CheckServer(config));
  return out;
}

absl::StatusOr<std::unique_ptr<cache::Cluster>> OpenCluster(const Config& config) {
  if (config.cache_cluster().empty()) return nullptr;
  UOPD_TRY(CheckLevel(config));
  cache::ClusterOptions options;
  UOPD_ASSIGN(const engine::BundleKeys keys, ReadSealKeys(config));
  UOPD_TRY(CheckKeys(config, keys, options));
  options.budget = config.cache_cluster_budget_ms();
  options.on_change = [](const std::string& line) { UOPD_LOG(kWarn, "cluster", {"what", line}); };
  UOPD_ASSIGN(std::unique_ptr<cache::SharedServer> server, OpenServer(config));
  UOPD_LOG(kInfo, "cluster", {"server", config.cache_cluster()}, {"puts", options.sign.can_sign()},
           {"trusted_keys", options.trusted.size()});
  return std::make_unique<cache::Cluster>(std::move(server), std::move(options));
}

}  // namespace uopd
