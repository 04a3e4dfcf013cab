// SPDX-License-Identifier: MIT
// <sys/pidfd.h> for C++: glibc 2.36 declares its functions without C linkage.
#pragma once
extern "C" {
#include <sys/pidfd.h>
}
