// SPDX-License-Identifier: MIT
// The functions of OpenCL as a struct of typed pointers. The ICD loader, libOpenCL.so.1, offers
// the devices of every OpenCL driver of the machine.
//
// The library is opened once and is never unloaded. Thread-safe.
#pragma once
#include "core/base/status.h"
#include "devices/opencl/opencl_types.h"

namespace uopd::devices::opencl {

struct OpenClApi {
#define UOPD_SYM(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
#include "devices/opencl/opencl_symbols.def"
#undef UOPD_SYM
};

// The table of this process. UNAVAILABLE: the library does not load, or lacks a symbol. A later
// call tries again.
absl::StatusOr<const OpenClApi*> SharedOpenCl();

}  // namespace uopd::devices::opencl
