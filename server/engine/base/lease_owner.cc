// SPDX-License-Identifier: MIT
#include "server/engine/base/lease_owner.h"

#include <unistd.h>

#include <array>
#include <fstream>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

constexpr std::string_view kBoot = " boot ";

// Behind kBoot; empty: there is none.
std::string_view BootOf(std::string_view owner) {
  const size_t at = owner.rfind(kBoot);
  return at == std::string_view::npos ? std::string_view() : owner.substr(at + kBoot.size());
}

}  // namespace

std::string LeaseOwner() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string name = Cat(std::string_view(host.data()), " pid ", getpid());
  return boot.empty() ? name : Cat(name, kBoot, std::string_view(boot).substr(0, 8));
}

bool OnOneMachine(std::string_view owner, std::string_view other) {
  const std::string_view a = BootOf(owner), b = BootOf(other);
  return a.empty() || b.empty() || a == b;
}

}  // namespace uopd::engine
