// SPDX-License-Identifier: MIT
// The peer of products on CUDA devices: cuBLAS of the machine, opened at run time.
//
// Works in the device's primary context on memory of the device. One thread. Errors: UNAVAILABLE
// without the library, UNIMPLEMENTED for a device that is none of CUDA, INTERNAL with the name of
// the call that fails.
#pragma once
#include <memory>

#include "core/base/target/dtype_number.h"
#include "devices/api/device.h"
#include "devices/cuda/cuda_driver.h"
#include "devices/dl/symbol_table.h"

namespace uopd::perf {

using CublasHandle = struct CublasObject*;

struct CublasApi {
#define UOPD_SYM UOPD_DL_POINTER
#define UOPD_SYM_OPT UOPD_DL_POINTER
#include "tests/perf/gpu/cublas_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT
};

class Cublas {
 public:
  static absl::StatusOr<std::unique_ptr<Cublas>> Open(std::shared_ptr<devices::Device> device,
                                                      int index);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // The seconds of one product of two matrices of n rows and columns with sums in f32: the mean of
  // `times` products that are queued together. `dtype`: F32 or BF16.
  absl::StatusOr<double> Product(int64_t n, DtypeNumber dtype, int times);

 private:
  Cublas(const CublasApi& api, devices::cuda::CudaDriver& driver,
         std::shared_ptr<devices::gpu::GpuContext> context,
         std::shared_ptr<devices::Device> device);
  absl::Status Queue(int64_t n, DtypeNumber dtype, devices::Buffer& a, devices::Buffer& b,
                     devices::Buffer& c);
  absl::Status Wait();

  const CublasApi api_;
  devices::cuda::CudaDriver& driver_;
  const std::shared_ptr<devices::gpu::GpuContext> context_;
  const std::shared_ptr<devices::Device> device_;
  CublasHandle handle_ = nullptr;
};

}  // namespace uopd::perf
