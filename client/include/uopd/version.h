// SPDX-License-Identifier: MIT
// The version of the client library: of the headers as macros, of the linked library as a function.
// deploy/client.cmake compares it with the version of the project.
#pragma once

#define UOPD_VERSION_MAJOR 0
#define UOPD_VERSION_MINOR 1
#define UOPD_VERSION_PATCH 0

namespace uopd::client {

// "MAJOR.MINOR.PATCH" of the headers that the library was built with.
const char* LibraryVersion();

}  // namespace uopd::client
