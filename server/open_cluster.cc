// SPDX-License-Identifier: MIT
#include "server/open_cluster.h"

#include <utility>

#include "absl/strings/str_split.h"
#include "cache/cluster/secret_file.h"
#include "cache/redis/redis_shared_server.h"
#include "core/base/status.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"

namespace uopd {
namespace {

absl::StatusOr<std::string> Password(const std::string& file, const char* setting) {
  if (file.empty()) return std::string();
  auto password = cache::ReadSecretFile(file);
  if (!password.ok()) return WithFrame(password.status(), Cat("reading setting ", setting));
  return password;
}

absl::StatusOr<cache::RedisPoolOptions> PoolOptions(const Config& config) {
  cache::RedisPoolOptions pool;
  auto url = cache::ParseRedisUrl(config.cache_cluster());
  if (!url.ok()) return WithFrame(url.status(), "reading setting cache.cluster");
  pool.url = *std::move(url);
  UOPD_ASSIGN(pool.password,
              Password(config.cache_cluster_password_file(), "cache.cluster_password_file"));
  UOPD_ASSIGN(pool.sentinel_password, Password(config.cache_cluster_sentinel_password_file(),
                                               "cache.cluster_sentinel_password_file"));
  if (pool.url.tls) {
    auto tls =
        cache::TlsContext::Make(config.cache_cluster_ca_file(), config.cache_cluster_cert_file(),
                                config.cache_cluster_key_file());
    if (!tls.ok())
      return WithFrame(tls.status(),
                       "reading the settings cache.cluster_ca_file, _cert_file and _key_file");
    pool.tls = *std::move(tls);
  }
  return pool;
}

absl::Status CheckKeys(const Config& config, const engine::BundleKeys& keys,
                       cache::ClusterOptions& options) {
  if (!config.cache_read_only()) options.sign = keys.sign;
  options.trusted = keys.trusted;
  if (!options.trusted.empty()) return absl::OkStatus();
  return Invalid(
      "setting cache.cluster needs a key: without cache.cluster_sign_key or "
      "cache.cluster_trusted_keys this daemon could "
      "take nothing from the cluster");
}

}  // namespace

absl::StatusOr<engine::BundleKeys> ReadSealKeys(const Config& config) {
  engine::BundleKeys out;
  if (!config.cache_cluster_sign_key().empty()) {
    auto key = cache::SealKey::Read(config.cache_cluster_sign_key());
    if (key.ok() && !key->can_sign()) key = Invalid("A public key cannot sign.");
    if (!key.ok()) return WithFrame(key.status(), "reading setting cache.cluster_sign_key");
    out.sign = *key;
    out.trusted.push_back(*std::move(key));
  }
  for (const absl::string_view file :
       absl::StrSplit(config.cache_cluster_trusted_keys(), ',', absl::SkipWhitespace())) {
    auto key = cache::SealKey::Read(std::string(file));
    if (!key.ok()) return WithFrame(key.status(), "reading setting cache.cluster_trusted_keys");
    out.trusted.push_back(*std::move(key));
  }
  return out;
}

absl::StatusOr<std::unique_ptr<cache::Cluster>> OpenCluster(const Config& config) {
  if (config.cache_cluster().empty()) return nullptr;
  cache::ClusterOptions options;
  UOPD_ASSIGN(const engine::BundleKeys keys, ReadSealKeys(config));
  UOPD_TRY(CheckKeys(config, keys, options));
  options.budget = config.cache_cluster_budget_ms();
  options.on_change = [](const std::string& line) { UOPD_LOG(kWarn, "cluster", {"what", line}); };
  UOPD_ASSIGN(cache::RedisPoolOptions pool, PoolOptions(config));
  auto server = std::make_unique<cache::RedisSharedServer>(
      cache::RedisSharedOptions{.pool = std::move(pool)});
  UOPD_LOG(kInfo, "cluster", {"server", config.cache_cluster()}, {"puts", options.sign.can_sign()},
           {"trusted_keys", options.trusted.size()});
  return std::make_unique<cache::Cluster>(std::move(server), std::move(options));
}

}  // namespace uopd
