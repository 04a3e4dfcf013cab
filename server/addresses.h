// SPDX-License-Identifier: MIT
// The addresses of the settings: checked, and taken before anything else is opened. So a daemon
// that cannot serve has touched no cache and started no process.
#pragma once
#include <memory>
#include <optional>

#include "core/base/config/config.h"
#include "server/net/address.h"
#include "server/net/listener.h"

namespace uopd {

// INVALID_ARGUMENT: no address, or one that other machines can reach without a setting that permits
// it.
absl::StatusOr<net::Address> ListenAddress(const Config& config);
// The address of server.http_listen, with the same errors; nullopt: the setting is empty, so there
// is no HTTP server.
absl::StatusOr<std::optional<net::Address>> HttpAddress(const Config& config);

// Bound, so that no other daemon gets them, and not open: nobody can connect yet.
struct Listeners {
  std::unique_ptr<net::Listener> rpc;
  std::unique_ptr<net::Listener> maybe_http;  // null: none
};
// Errors as above; UNAVAILABLE: an address cannot be bound.
absl::StatusOr<Listeners> BindAddresses(const Config& config);

}  // namespace uopd
