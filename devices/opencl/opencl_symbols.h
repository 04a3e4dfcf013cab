// SPDX-License-Identifier: MIT
// The functions of OpenCL as a struct of typed pointers. The ICD loader, libOpenCL.so.1, offers
// the devices of every OpenCL driver of the machine.
//
// The library is opened once and is never unloaded. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "core/base/status.h"
#include "devices/opencl/opencl_types.h"

namespace uopd::devices::opencl {

struct OpenClApi {
#define UOPD_SYM(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
#include "devices/opencl/opencl_symbols.def"
#undef UOPD_SYM
};

// The table of the first of `files` that loads. UNAVAILABLE: none loads, or it lacks a symbol.
absl::StatusOr<OpenClApi> LoadOpenCl(const std::vector<std::string>& files);

// The table of this process. UNAVAILABLE as above; a later call tries again.
absl::StatusOr<const OpenClApi*> SharedOpenCl();

}  // namespace uopd::devices::opencl
