// SPDX-License-Identifier: MIT
// The status of every device in gRPC's health service, under the name "device/CUDA:0": NOT_SERVING
// while the device is lost or does not open, otherwise SERVING. A device that nobody has used yet
// counts as SERVING. One of device.compile_only is NOT_SERVING: a balancer must send no runs there.
//
// A thread asks the engine every second, which also opens lost devices again: a balancer that
// avoids a lost device would otherwise keep it from coming back. The engine and the service outlive
// it.
#pragma once
#include <grpcpp/health_check_service_interface.h>

#include <condition_variable>
#include <thread>

#include "core/base/mutex.h"
#include "server/engine/engine.h"

namespace uopd::rpc {

class DeviceHealth {
 public:
  // The statuses are set when this returns.
  DeviceHealth(engine::Engine& engine, grpc::HealthCheckServiceInterface& service);
  ~DeviceHealth();
  DeviceHealth(const DeviceHealth&) = delete;
  DeviceHealth& operator=(const DeviceHealth&) = delete;

 private:
  void Watch() UOPD_EXCLUDES(mu_);

  engine::Engine& engine_;
  grpc::HealthCheckServiceInterface& service_;
  Mutex mu_;
  std::condition_variable changed_;
  bool ending_ UOPD_GUARDED_BY(mu_) = false;
  std::thread thread_;  // declared last: it uses the other members
};

}  // namespace uopd::rpc
