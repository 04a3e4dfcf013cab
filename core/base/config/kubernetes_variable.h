// SPDX-License-Identifier: MIT
// Variables that Kubernetes puts into every container for each service of its namespace.
//
// For a service named "uopd-server" they are UOPD_SERVER_SERVICE_HOST, UOPD_SERVER_SERVICE_PORT,
// UOPD_SERVER_SERVICE_PORT_GRPC (by the name of a port), UOPD_SERVER_PORT,
// UOPD_SERVER_PORT_50510_TCP and this with _PROTO, _PORT and _ADDR. Nobody wrote them, so they are
// no misspelt settings although they begin with UOPD_ and an area.
#pragma once
#include <string_view>

namespace uopd::config {

// True if both the name and the value are of that form. UOPD_SERVER_PORT=50510 is a misspelt
// setting: there Kubernetes writes a URL.
bool IsKubernetesVariable(std::string_view name, std::string_view value);

}  // namespace uopd::config
