// SPDX-License-Identifier: MIT
#include "server/rpc/device_health.h"

#include <chrono>

namespace uopd::rpc {
namespace {

constexpr std::chrono::seconds kBetweenLooks{1};

}  // namespace

DeviceHealth::DeviceHealth(engine::Engine& engine, grpc::HealthCheckServiceInterface& service)
    : engine_(engine), service_(service) {
  for (const auto& [name, ready] : engine_.health().ReadyDevices(false)) {
    service_.SetServingStatus("device/" + name, ready);
  }
  thread_ = std::thread([this] { Watch(); });
}

DeviceHealth::~DeviceHealth() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void DeviceHealth::Watch() {
  for (;;) {
    {
      MutexLock lock(mu_);
      if (lock.WaitUntil(changed_, std::chrono::steady_clock::now() + kBetweenLooks,
                         [&]() UOPD_REQUIRES(mu_) { return ending_; })) {
        return;
      }
    }
    for (const auto& [name, ready] : engine_.health().ReadyDevices(true)) {
      service_.SetServingStatus("device/" + name, ready);
    }
  }
}

}  // namespace uopd::rpc
