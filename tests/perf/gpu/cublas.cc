// SPDX-License-Identifier: MIT
#include "tests/perf/gpu/cublas.h"

#include "core/base/text.h"
#include "devices/dl/symbol_table.h"
#include "devices/gpu/gpu_context.h"
#include "devices/gpu/gpu_memory.h"
#include "tests/perf/perf.h"

namespace uopd::perf {
namespace {

// Values of the library's enumerations.
constexpr int kNoTranspose = 0, kTypeF32 = 0, kTypeBf16 = 14, kSumsF32 = 68, kDefaultAlgorithm = -1;

absl::StatusOr<CublasApi> LoadCublas() {
  UOPD_ASSIGN(const devices::dl::Library library,
              devices::dl::Library::Open(
                  {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}));
  CublasApi api;
#define UOPD_SYM UOPD_DL_REQUIRED
#define UOPD_SYM_OPT UOPD_DL_OPTIONAL
  const std::vector<devices::dl::SymbolSlot> slots = {
#include "tests/perf/gpu/cublas_symbols.def"
  };
#undef UOPD_SYM
#undef UOPD_SYM_OPT
  UOPD_TRY(devices::dl::LoadSymbols(library, slots));
  return api;
}

absl::Status CublasResult(int result, const char* call) {
  if (result == 0) return absl::OkStatus();
  return absl::InternalError(Cat(call, " fails with ", result));
}

void* AddressOf(devices::Buffer& buffer) {
  return reinterpret_cast<void*>(static_cast<devices::gpu::GpuBuffer&>(buffer).address());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cublas>> Cublas::Open(std::shared_ptr<devices::Device> device,
                                                     int index) {
  if (!device->info().name.starts_with("CUDA:"))
    return absl::UnimplementedError("cuBLAS is for CUDA devices");
  UOPD_ASSIGN(const CublasApi api, LoadCublas());
  UOPD_ASSIGN(devices::cuda::CudaDriver* const driver, devices::cuda::CudaDriver::Process());
  UOPD_ASSIGN(auto context, driver->OpenContext(index));
  std::unique_ptr<Cublas> out(new Cublas(api, *driver, std::move(context), std::move(device)));
  if (!out->context_->Enter()) return out->context_->status();
  UOPD_TRY(CublasResult(api.cublasCreate_v2(&out->handle_), "cublasCreate"));
  return out;
}

Cublas::Cublas(const CublasApi& api, devices::cuda::CudaDriver& driver,
               std::shared_ptr<devices::gpu::GpuContext> context,
               std::shared_ptr<devices::Device> device)
    : api_(api), driver_(driver), context_(std::move(context)), device_(std::move(device)) {}

Cublas::~Cublas() {
  if (handle_ != nullptr && context_->Enter()) (void)api_.cublasDestroy_v2(handle_);
}

absl::Status Cublas::Queue(int64_t n, DtypeNumber dtype, devices::Buffer& a, devices::Buffer& b,
                           devices::Buffer& c) {
  const int type = dtype == DtypeNumber::F32 ? kTypeF32 : kTypeBf16, size = static_cast<int>(n);
  const float one = 1, zero = 0;
  return CublasResult(api_.cublasGemmEx(handle_, kNoTranspose, kNoTranspose, size, size, size, &one,
                                        AddressOf(a), type, size, AddressOf(b), type, size, &zero,
                                        AddressOf(c), type, size, kSumsF32, kDefaultAlgorithm),
                      "cublasGemmEx");
}

absl::Status Cublas::Wait() {
  return driver_.Check(driver_.cuda().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

absl::StatusOr<double> Cublas::Product(int64_t n, DtypeNumber dtype, int times) {
  const auto bytes = static_cast<size_t>(n * n * (dtype == DtypeNumber::F32 ? 4 : 2));
  std::shared_ptr<devices::Buffer> buffers[3];
  UOPD_ASSIGN(const auto stream, device_->NewStream());
  for (auto& buffer : buffers) {
    UOPD_ASSIGN(buffer, device_->Allocate(bytes, devices::MemoryKind::kDevice));
    UOPD_TRY(stream->Fill(*buffer, 0, bytes, std::byte{0x3c}));  // small numbers of both types
  }
  UOPD_TRY(stream->Synchronize());
  if (!context_->Enter()) return context_->status();
  UOPD_TRY(Queue(n, dtype, *buffers[0], *buffers[1], *buffers[2]));
  UOPD_TRY(Wait());
  const double start = NowSeconds();
  for (int i = 0; i < times; ++i) {
    UOPD_TRY(Queue(n, dtype, *buffers[0], *buffers[1], *buffers[2]));
  }
  UOPD_TRY(Wait());
  return (NowSeconds() - start) / times;
}

}  // namespace uopd::perf
