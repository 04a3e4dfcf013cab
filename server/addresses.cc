// SPDX-License-Identifier: MIT
#include "server/addresses.h"

#include "core/base/text.h"
#include "server/http/http_server.h"

namespace uopd {
namespace {

absl::StatusOr<net::Address> Parsed(const Config& config, std::string_view key,
                                    const std::string& text) {
  auto address = net::ParseAddress(text);
  if (!address.ok()) return config.About(key, address.status());
  return address;
}

}  // namespace

absl::StatusOr<net::Address> ListenAddress(const Config& config) {
  UOPD_ASSIGN(net::Address address, Parsed(config, "server.listen", config.server_listen()));
  if (IsLocal(address) || config.server_allow_insecure_remote()) return address;
  return absl::InvalidArgumentError(
      Cat(config.Subject("server.listen"),
          " can be reached from other machines without authentication or encryption; "
          "server.allow_insecure_remote permits it"));
}

absl::StatusOr<std::optional<net::Address>> HttpAddress(const Config& config) {
  if (config.server_http_listen().empty()) return std::nullopt;
  constexpr std::string_view kKey = "server.http_listen";
  UOPD_ASSIGN(net::Address address, Parsed(config, kKey, config.server_http_listen()));
  UOPD_TRY(config.About(kKey, http::HttpServer::Check(address)));
  if (const auto rpc = net::ParseAddress(config.server_listen());
      rpc.ok() && address.port != 0 && ToText(*rpc) == ToText(address)) {
    return absl::InvalidArgumentError(
        Cat(config.Subject(kKey), " is the address of server.listen, too"));
  }
  if (IsLocal(address) || config.server_allow_remote_http() ||
      config.server_allow_insecure_remote()) {
    return address;
  }
  return absl::InvalidArgumentError(
      Cat(config.Subject(kKey),
          " can be reached from other machines; server.allow_remote_http permits it"));
}

absl::StatusOr<Listeners> BindAddresses(const Config& config) {
  UOPD_ASSIGN(const net::Address rpc, ListenAddress(config));
  UOPD_ASSIGN(const std::optional<net::Address> maybe_http, HttpAddress(config));
  Listeners out;
  UOPD_ASSIGN(out.rpc, net::Listener::Bind(
                           rpc, {config.server_socket_mode(), config.server_socket_group()}));
  if (maybe_http) {
    UOPD_ASSIGN(out.maybe_http, net::Listener::Bind(*maybe_http));
  }
  return out;
}

}  // namespace uopd
