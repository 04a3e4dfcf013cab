// SPDX-License-Identifier: MIT
#include "tests/support/device/named_device.h"

#include <cstdlib>

#include "devices/registry.h"
#include "tests/support/environment.h"

namespace uopd::tests {

absl::StatusOr<std::shared_ptr<devices::Device>> OpenNamedDevice(const std::string& otherwise) {
  devices::RegistryOptions options;
  options.devices = test::NamedDevice(otherwise);
  options.memory_pattern = devices::PatternOf(std::byte{0xA5});
  options.cuda_specific = std::getenv("UOPD_CUDA_SPECIFIC") != nullptr;
  UOPD_ASSIGN(const auto registry, devices::Registry::Create(options));
  return registry->Get("");
}

bool MaySkip(const absl::Status& opened) {
  return !opened.ok() && std::getenv("UOPD_REQUIRE_OPENCL") == nullptr;
}

}  // namespace uopd::tests
