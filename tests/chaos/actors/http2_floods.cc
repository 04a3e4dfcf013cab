// SPDX-License-Identifier: MIT
// Floods of HTTP/2 frames that no library sends, one after the other, from ten connections each.
// Each kind has a source address of its own, as the daemon remembers who sent too much.
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/sockets.h"
#include "tests/support/http2/floods.h"

namespace uopd::chaos {
namespace {

constexpr int kConnections = 10;
constexpr double kSeconds = 1;
constexpr int kFirstAddress = 10;

void Act(World& world, int) {
  const auto& floods = test::http2::Floods();
  for (size_t i = world.seed() % floods.size(); !world.Over(); i = (i + 1) % floods.size()) {
    const auto place = world.Where();
    if (!place) return;
    const test::http2::Flood& flood = floods[i];
    const double begin = Now();
    const auto sent =
        test::http2::Send(flood, place->grpc, SourceAddress(kFirstAddress + static_cast<int>(i)),
                          kConnections, [&] { return world.Over() || Now() - begin > kSeconds; });
    world.report().Count(Cat("http2_floods.", flood.name));
    world.report().Sample("http2_floods.connections", static_cast<double>(sent.connections));
  }
}

const Register kRegister({.name = "http2_floods",
                          .doc = "ten connections that send floods of HTTP/2 frames",
                          .copies = 1,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos
