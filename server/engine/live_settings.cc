// SPDX-License-Identifier: MIT
#include "server/engine/live_settings.h"

namespace uopd::engine {
namespace {

// The part of a message that is reserved for what surrounds the returned data.
constexpr int64_t kMessageReserve = 16 << 10;

}  // namespace

LiveSettings::LiveSettings(const Config& config)
    : max_return_bytes_(config.limits_max_message_bytes() - kMessageReserve),
      cache_level_(static_cast<int>(config.cache_level())),
      cache_writes_(cache_level_ > 0 && !config.cache_read_only()),
      views_(ViewsOf(config)) {
  Reload(config);
}

void LiveSettings::Reload(const Config& config) {
  session_bytes_ = config.limits_session_bytes();
  kept_bytes_ = config.limits_session_kept_bytes();
  run_ms_ = config.limits_run_ms().count();
  debug_ = static_cast<int>(config.debug_level());
  beam_ = static_cast<int>(config.tune_beam());
  stream_idle_ms_ = config.limits_stream_idle_ms().count();
  slow_ns_ = std::chrono::nanoseconds(config.log_slow_ms()).count();
  drain_timeout_ms_ = config.server_drain_timeout_ms().count();
  const MutexLock lock(mu_);
  TakeReloadable(config, views_);
}

std::vector<SettingView> LiveSettings::InEffect() const {
  const MutexLock lock(mu_);
  return views_;
}

}  // namespace uopd::engine
