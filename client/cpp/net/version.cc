// SPDX-License-Identifier: MIT
#include "uopd/version.h"

namespace uopd::client {
namespace {

#define UOPD_TEXT_(x) #x
#define UOPD_TEXT(x) UOPD_TEXT_(x)
constexpr char kVersion[] = UOPD_TEXT(UOPD_VERSION_MAJOR) "." UOPD_TEXT(
    UOPD_VERSION_MINOR) "." UOPD_TEXT(UOPD_VERSION_PATCH);

}  // namespace

const char* LibraryVersion() { return kVersion; }

}  // namespace uopd::client
