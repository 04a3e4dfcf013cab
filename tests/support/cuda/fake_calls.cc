// SPDX-License-Identifier: MIT
// The functions of the fake driver, each with the signature of the real one.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <type_traits>
#include <utility>

#include "tests/support/cuda/fake_cuda.h"

namespace uopd::tests {

using namespace devices::cuda;

namespace {

#define ENTER(...)                                                              \
  FakeCuda& fake = TheFakeCuda();                                               \
  MutexLock lock(fake.mu);                                                      \
  if (const CuResult entered = fake.Enter(__func__ __VA_OPT__(, ) __VA_ARGS__); \
      entered != kSuccess) {                                                    \
    return entered;                                                             \
  }

double Now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

FakeCuda::Stream& Of(CuStream stream) { return *reinterpret_cast<FakeCuda::Stream*>(stream); }

CuResult cuInit(unsigned) {
  ENTER(false)
  return kSuccess;
}
CuResult cuDriverGetVersion(int* version) {
  ENTER(false)
  *version = 12040;
  return kSuccess;
}
CuResult cuGetErrorName(CuResult result, const char** name) {
  switch (result) {
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return kSuccess;
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return kSuccess;
    case kIllegalAddress:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return kSuccess;
    case kLaunchFailed:
      *name = "CUDA_ERROR_LAUNCH_FAILED";
      return kSuccess;
    case kLaunchTimeout:
      *name = "CUDA_ERROR_LAUNCH_TIMEOUT";
      return kSuccess;
    case kLaunchOutOfResources:
      *name = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
      return kSuccess;
    case kInvalidPtx:
      *name = "CUDA_ERROR_INVALID_PTX";
      return kSuccess;
    case kNotFound:
      *name = "CUDA_ERROR_NOT_FOUND";
      return kSuccess;
    case kNoDevice:
      *name = "CUDA_ERROR_NO_DEVICE";
      return kSuccess;
    default:
      return kInvalidValue;
  }
}
CuResult cuDeviceGetCount(int* count) {
  ENTER(false)
  *count = fake.options.devices;
  return kSuccess;
}
CuResult cuDeviceGet(CuDevice* device, int index) {
  ENTER(false)
  if (index < 0 || index >= fake.options.devices) return kInvalidDevice;
  *device = index;
  return kSuccess;
}
CuResult cuDeviceGetName(char* name, int bytes, CuDevice) {
  ENTER(false)
  std::strncpy(name, "Fake H1", static_cast<size_t>(bytes));
  return kSuccess;
}
CuResult cuDeviceGetPCIBusId(char* id, int bytes, CuDevice device) {
  ENTER(false)
  std::strncpy(id, ("0000:0" + std::to_string(device) + ":00.0").c_str(),
               static_cast<size_t>(bytes));
  return kSuccess;
}
CuResult cuDeviceGetAttribute(int* value, CuDeviceAttribute attribute, CuDevice) {
  ENTER(false)
  switch (static_cast<int>(attribute)) {
    case kMaxThreadsPerBlock:
      *value = 1024;
      break;
    case kMaxBlockDimX:
    case kMaxBlockDimX + 1:
      *value = 1024;
      break;
    case kMaxBlockDimX + 2:
      *value = 64;
      break;
    case kMaxGridDimX:
      *value = 2147483647;
      break;
    case kMaxGridDimX + 1:
    case kMaxGridDimX + 2:
      *value = 65535;
      break;
    case kMaxSharedPerBlock:
      *value = 48 << 10;
      break;
    case kMaxSharedPerBlockOptin:
      *value = 227 << 10;
      break;
    case kMaxSharedPerMultiprocessor:
      *value = 228 << 10;
      break;
    case kWarpSize:
      *value = 32;
      break;
    case kClockRateKhz:
      *value = 1'980'000;
      break;
    case kMultiprocessorCount:
      *value = 132;
      break;
    case kComputeMode:
      *value = fake.options.compute_mode;
      break;
    case kL2CacheBytes:
      *value = 50 << 20;
      break;
    case kUnifiedAddressing:
      *value = fake.options.unified_addressing;
      break;
    case kCapabilityMajor:
      *value = fake.options.capability / 10;
      break;
    case kCapabilityMinor:
      *value = fake.options.capability % 10;
      break;
    default:
      return kInvalidValue;
  }
  return kSuccess;
}
CuResult cuDeviceTotalMem_v2(size_t* bytes, CuDevice) {
  ENTER(false)
  *bytes = fake.options.total_bytes;
  return kSuccess;
}

CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  ENTER(false)
  FakeCuda::Device& state = fake.devices[static_cast<size_t>(device)];
  if (state.sticky != kSuccess) return state.sticky;
  ++state.retained;
  *context = reinterpret_cast<CuContext>(static_cast<uintptr_t>(device + 1));
  return kSuccess;
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  ENTER(false)
  --fake.devices[static_cast<size_t>(device)].retained;
  return kSuccess;
}
CuResult cuDevicePrimaryCtxReset_v2(CuDevice device) {
  FakeCuda& fake = TheFakeCuda();
  {
    MutexLock lock(fake.mu);
    if (const CuResult failed = fake.Enter(__func__, false); failed != kSuccess) return failed;
  }
  fake.Reset(device);
  return kSuccess;
}
CuResult cuCtxSetCurrent(CuContext context) {
  ENTER(false)
  CurrentFakeDevice() = static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
  return kSuccess;
}

CuResult cuMemAlloc_v2(CuPointer* address, size_t bytes) {
  ENTER()
  FakeCuda::Device& device = fake.devices[static_cast<size_t>(CurrentFakeDevice())];
  if (bytes == 0) return kInvalidValue;
  if (bytes > fake.options.total_bytes - device.used_bytes) return kOutOfMemory;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  device.used_bytes += bytes;
  fake.memory[data] = {CurrentFakeDevice(), bytes};
  *address = reinterpret_cast<uintptr_t>(data) | FakeCuda::kDeviceMark;
  return kSuccess;
}
CuResult cuMemFree_v2(CuPointer address) {
  ENTER()
  auto* data = reinterpret_cast<std::byte*>(address & ~FakeCuda::kDeviceMark);
  const auto it = fake.memory.find(data);
  if (it == fake.memory.end() || it->second.device != CurrentFakeDevice()) return kInvalidValue;
  fake.devices[static_cast<size_t>(it->second.device)].used_bytes -= it->second.bytes;
  fake.memory.erase(it);
  std::free(data);
  return kSuccess;
}
CuResult cuMemHostRegister_v2(void* data, size_t bytes, unsigned flags) {
  ENTER()
  if (flags != (kRegisterPortable | kRegisterDeviceMap)) return kInvalidValue;
  fake.registered[static_cast<std::byte*>(data)] = {CurrentFakeDevice(), bytes};
  return kSuccess;
}
CuResult cuMemHostUnregister(void* data) {
  ENTER()
  return fake.registered.erase(static_cast<std::byte*>(data)) == 1 ? kSuccess : kInvalidValue;
}
CuResult cuMemHostGetDevicePointer_v2(CuPointer* address, void* data, unsigned flags) {
  ENTER()
  if (flags != 0 || !fake.IsRegistered(data, 1)) return kInvalidValue;
  *address = reinterpret_cast<uintptr_t>(data) | FakeCuda::kHostMark;
  return kSuccess;
}

// A copy or a fill that a stream does: `use` gets the addresses, which must be memory.
template <class Use>
void PushAccess(FakeCuda& fake, CuStream stream, CuPointer a, CuPointer b, size_t bytes, Use use)
    UOPD_REQUIRES(fake.mu) {
  const int device = Of(stream).device;
  fake.Push(Of(stream),
            [&fake, device, a, b, bytes, use] {
              MutexLock inner(fake.mu);
              std::byte* x = fake.Resolve(device, a, bytes);
              std::byte* y = b == 0 ? x : fake.Resolve(device, b, bytes);
              if (x == nullptr || y == nullptr) return fake.Break(device, kIllegalAddress);
              use(x, y);
            },
            {{a, bytes}, {b, b == 0 ? 0 : bytes}});
}
CuResult cuMemcpyHtoDAsync_v2(CuPointer to, const void* from, size_t bytes, CuStream stream) {
  ENTER()
  if (fake.IsRegistered(from, bytes)) {
    PushAccess(fake, stream, to, 0, bytes,
               [=](std::byte* x, std::byte*) { std::memcpy(x, from, bytes); });
  } else {
    const auto* data = static_cast<const std::byte*>(from);
    PushAccess(fake, stream, to, 0, bytes,
               [copy = std::vector<std::byte>(data, data + bytes)](std::byte* x, std::byte*) {
                 std::memcpy(x, copy.data(), copy.size());
               });
  }
  return kSuccess;
}
CuResult cuMemcpyDtoHAsync_v2(void* to, CuPointer from, size_t bytes, CuStream stream) {
  ENTER()
  PushAccess(fake, stream, from, 0, bytes,
             [=](std::byte* x, std::byte*) { std::memcpy(to, x, bytes); });
  if (fake.IsRegistered(to, bytes)) return kSuccess;
  FakeCuda::Stream& s = Of(stream);
  lock.Wait(fake.changed, [&] { return s.queue.empty() && !s.busy; });
  return fake.devices[static_cast<size_t>(s.device)].sticky;
}
CuResult cuMemcpyAsync(CuPointer to, CuPointer from, size_t bytes, CuStream stream) {
  ENTER()
  PushAccess(fake, stream, to, from, bytes,
             [=](std::byte* x, std::byte* y) { std::memcpy(x, y, bytes); });
  return kSuccess;
}
CuResult cuDeviceCanAccessPeer(int* can, CuDevice device, CuDevice peer) {
  ENTER(false)
  *can = fake.options.peers && device != peer ? 1 : 0;
  return kSuccess;
}
int DeviceOfContext(CuContext context) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
}
CuResult cuCtxEnablePeerAccess(CuContext context, unsigned flags) {
  ENTER()
  const int peer = DeviceOfContext(context);
  if (flags != 0 || !fake.options.peers || peer == CurrentFakeDevice()) return kInvalidValue;
  const bool added =
      fake.devices[static_cast<size_t>(CurrentFakeDevice())].peers.insert(peer).second;
  return added ? kSuccess : kPeerAlreadyEnabled;
}
// Stricter than the driver, which would go through the host: access must be enabled.
CuResult cuMemcpyPeerAsync(CuPointer to, CuContext to_context, CuPointer from,
                           CuContext from_context, size_t bytes, CuStream stream) {
  ENTER()
  const int target = DeviceOfContext(to_context), source = DeviceOfContext(from_context);
  if (Of(stream).device != target) return kInvalidValue;
  if (!fake.devices[static_cast<size_t>(target)].peers.contains(source)) return kInvalidValue;
  fake.Push(Of(stream),
            [&fake, target, source, to, from, bytes] {
              MutexLock inner(fake.mu);
              std::byte* x = fake.Resolve(target, to, bytes);
              const std::byte* y = fake.Resolve(source, from, bytes);
              if (x == nullptr || y == nullptr) return fake.Break(target, kIllegalAddress);
              std::memcpy(x, y, bytes);
            },
            {{to, bytes}, {from, bytes}});
  return kSuccess;
}
CuResult cuMemsetD8Async(CuPointer to, unsigned char value, size_t bytes, CuStream stream) {
  ENTER()
  PushAccess(fake, stream, to, 0, bytes,
             [=](std::byte* x, std::byte*) { std::memset(x, value, bytes); });
  return kSuccess;
}

CuResult cuStreamCreate(CuStream* stream, unsigned flags) {
  ENTER()
  if (flags != kStreamNonBlocking) return kInvalidValue;
  auto made = std::make_unique<FakeCuda::Stream>();
  FakeCuda::Stream* raw = made.get();
  raw->device = CurrentFakeDevice();
  fake.streams[raw] = std::move(made);
  raw->thread = std::thread([&fake, raw] { fake.RunStream(*raw); });
  *stream = reinterpret_cast<CuStream>(raw);
  return kSuccess;
}
CuResult cuStreamDestroy_v2(CuStream stream) {
  FakeCuda& fake = TheFakeCuda();
  {
    MutexLock lock(fake.mu);
    if (const CuResult failed = fake.Enter(__func__); failed != kSuccess) return failed;
  }
  fake.EndStream(&Of(stream));
  return kSuccess;
}
CuResult cuStreamQuery(CuStream stream) {
  ENTER(false)  // also of a broken context: it says whether something runs
  const FakeCuda::Stream& s = Of(stream);
  return s.busy ? kNotReady : fake.devices[static_cast<size_t>(s.device)].sticky;
}
CuResult cuStreamSynchronize(CuStream stream) {
  ENTER()
  FakeCuda::Stream& s = Of(stream);
  lock.Wait(fake.changed, [&] { return s.queue.empty() && !s.busy; });
  return fake.devices[static_cast<size_t>(s.device)].sticky;
}
CuResult cuStreamWaitEvent(CuStream stream, CuEvent event, unsigned flags) {
  ENTER()
  const auto shared = fake.events.at(event);
  const int device = Of(stream).device;
  fake.Push(Of(stream), [&fake, shared, device, until = shared->recorded] {
    MutexLock inner(fake.mu);
    const FakeCuda::Device& state = fake.devices[static_cast<size_t>(device)];
    const uint64_t resets = state.resets;
    inner.Wait(fake.changed, [&] {
      return shared->reached >= until || state.sticky != kSuccess || state.resets != resets;
    });
  });
  return flags == 0 ? kSuccess : kInvalidValue;
}
CuResult cuEventCreate(CuEvent* event, unsigned flags) {
  ENTER()
  auto made = std::make_shared<FakeCuda::Event>();
  made->device = CurrentFakeDevice();
  made->timed = flags == kEventDefault;
  *event = reinterpret_cast<CuEvent>(made.get());
  fake.events[made.get()] = std::move(made);
  return kSuccess;
}
CuResult cuEventDestroy_v2(CuEvent event) {
  ENTER()
  return fake.events.erase(event) == 1 ? kSuccess : kInvalidValue;
}
CuResult cuEventRecord(CuEvent event, CuStream stream) {
  ENTER()
  const auto shared = fake.events.at(event);
  fake.Push(Of(stream), [&fake, shared, until = ++shared->recorded] {
    MutexLock inner(fake.mu);
    shared->reached = until;
    shared->milliseconds = Now();
    fake.changed.notify_all();
  });
  return kSuccess;
}
CuResult cuEventQuery(CuEvent event) {
  ENTER()
  const auto it = fake.events.find(event);
  if (it == fake.events.end()) return kInvalidValue;
  return it->second->reached == it->second->recorded ? kSuccess : kNotReady;
}
CuResult cuEventElapsedTime(float* milliseconds, CuEvent begin, CuEvent end) {
  ENTER()
  const auto a = fake.events.at(begin), b = fake.events.at(end);
  if (!a->timed || !b->timed) return kInvalidValue;
  if (a->reached != a->recorded || b->reached != b->recorded) return kNotReady;
  *milliseconds = static_cast<float>(b->milliseconds - a->milliseconds);
  return kSuccess;
}

CuResult cuModuleLoadData(CuModule* module, const void* image) {
  ENTER()
  const std::string text = static_cast<const char*>(image);
  if (text.rfind(FakeCuda::Cubin(""), 0) != 0) return kInvalidImage;
  auto made = std::make_unique<FakeCuda::Module>();
  made->device = CurrentFakeDevice();
  std::istringstream lines(text.substr(4));
  std::string entry, behaviour;
  for (size_t n; lines >> entry >> behaviour >> n;) {
    made->kernels[entry] = std::make_unique<FakeCuda::Kernel>(FakeCuda::Kernel{behaviour, n});
  }
  *module = reinterpret_cast<CuModule>(made.get());
  fake.modules[made.get()] = std::move(made);
  return kSuccess;
}
CuResult cuModuleUnload(CuModule module) {
  ENTER()
  return fake.modules.erase(module) == 1 ? kSuccess : kInvalidValue;
}
CuResult cuModuleGetFunction(CuFunction* function, CuModule module, const char* entry) {
  ENTER()
  const auto& kernels = fake.modules.at(module)->kernels;
  const auto it = kernels.find(entry);
  if (it == kernels.end()) return kNotFound;
  *function = reinterpret_cast<CuFunction>(it->second.get());
  return kSuccess;
}
CuResult cuFuncGetAttribute(int* value, CuFunctionAttribute, CuFunction) {
  ENTER()
  *value = 0;
  return kSuccess;
}
CuResult cuFuncSetAttribute(CuFunction function, CuFunctionAttribute attribute, int value) {
  ENTER()
  if (attribute != kFunctionMaxDynamicShared || value > 227 << 10) return kInvalidValue;
  reinterpret_cast<FakeCuda::Kernel*>(function)->shared_allowed = value;
  return kSuccess;
}
void PushLaunch(FakeCuda& fake, CuStream stream, FakeCuda::Launch launch) UOPD_REQUIRES(fake.mu) {
  const int device = Of(stream).device;
  std::vector<FakeCuda::Range> uses;
  for (const uint64_t argument : launch.arguments) {
    if ((argument & FakeCuda::kDeviceMark) != 0) uses.push_back({argument, 4});
  }
  fake.Push(
      Of(stream), [&fake, device, launch = std::move(launch)] { fake.Execute(device, launch); },
      std::move(uses));
}
CuResult cuLaunchKernel(CuFunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CuStream stream,
                        void** arguments, void** extra) {
  ENTER()
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  FakeCuda::Launch launch;
  const CuResult made = fake.MakeLaunch(reinterpret_cast<FakeCuda::Kernel*>(function), grid, block,
                                        shared, arguments, extra, launch);
  if (made != kSuccess) return made;
  PushLaunch(fake, stream, std::move(launch));
  return kSuccess;
}

// The limits of the hardware, as NVIDIA documents them for tiles.
CuResult cuTensorMapEncodeTiled(CuTensorMap* map, int type, unsigned rank, void* address,
                                const unsigned long long* dims, const unsigned long long* strides,
                                const unsigned* box, const unsigned* steps, int interleave,
                                int swizzle, int promotion, int fill) {
  ENTER(false)
  const auto at = reinterpret_cast<CuPointer>(address);
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || at % 16 != 0 || type < 0 || type > 2 ||
      rank < 1 || rank > 5 || interleave != 0 || swizzle < 1 || swizzle > 3 || promotion < 0 ||
      promotion > 3 || fill != 0)
    return kInvalidValue;
  const size_t element = size_t{1} << type, span = size_t{16} << swizzle;
  size_t bytes = dims[0] * element;
  for (unsigned d = 0; d < rank; ++d) {
    if (dims[d] < 1 || dims[d] > 1ull << 32 || box[d] < 1 || box[d] > 256 || steps[d] != 1)
      return kInvalidValue;
    if (d == 0) continue;
    const size_t stride = strides[d - 1];
    if (stride % 16 != 0 || stride >= 1ull << 40) return kInvalidValue;
    bytes += (dims[d] - 1) * stride;
  }
  if (box[0] * element % 16 != 0 || box[0] * element > span) return kInvalidValue;
  const FakeCuda::Map made{FakeCuda::Map::kMark, at, bytes};
  std::memcpy(map, &made, sizeof made);
  return kSuccess;
}

CuResult cuLinkCreate_v2(unsigned n, int* options, void** values, CuLinkState* link) {
  ENTER()
  auto made = std::make_unique<FakeCuda::Link>();
  for (unsigned i = 0; i < n; ++i) {
    if (options[i] == kJitErrorLog) made->log = static_cast<char*>(values[i]);
    if (options[i] == kJitErrorLogBytes) made->log_bytes = reinterpret_cast<size_t>(values[i]);
  }
  *link = reinterpret_cast<CuLinkState>(made.get());
  fake.links[made.get()] = std::move(made);
  return kSuccess;
}
CuResult cuLinkAddData_v2(CuLinkState state, int kind, void* data, size_t bytes, const char*,
                          unsigned, int*, void**) {
  ENTER()
  FakeCuda::Link& link = *fake.links.at(state);
  const char* text = static_cast<const char*>(data);
  if (kind != kJitInputPtx || bytes == 0 || text[bytes - 1] != '\0') return kInvalidValue;
  link.text = text;
  if (link.text.find("error") == std::string::npos) return kSuccess;
  std::strncpy(link.log, "ptxas: line 1: what is this?", link.log_bytes);
  return kInvalidPtx;
}
CuResult cuLinkComplete(CuLinkState state, void** cubin, size_t* bytes) {
  ENTER()
  FakeCuda::Link& link = *fake.links.at(state);
  link.cubin = FakeCuda::Cubin(link.text);
  *cubin = link.cubin.data();
  *bytes = link.cubin.size();
  return kSuccess;
}
CuResult cuLinkDestroy(CuLinkState state) {
  ENTER()
  return fake.links.erase(state) == 1 ? kSuccess : kInvalidValue;
}

CuResult cuGraphCreate(CuGraph* graph, unsigned) {
  ENTER()
  auto made = std::make_unique<FakeCuda::Graph>();
  made->device = CurrentFakeDevice();
  *graph = reinterpret_cast<CuGraph>(made.get());
  fake.graphs[made.get()] = std::move(made);
  return kSuccess;
}
CuResult cuGraphDestroy(CuGraph graph) {
  ENTER()
  return fake.graphs.erase(graph) == 1 ? kSuccess : kInvalidValue;
}
CuResult LaunchOf(FakeCuda& fake, const CuKernelNode& node, FakeCuda::Launch& out)
    UOPD_REQUIRES(fake.mu) {
  return fake.MakeLaunch(reinterpret_cast<FakeCuda::Kernel*>(node.function), node.grid, node.block,
                         node.shared_bytes, node.arguments, node.extra, out);
}
CuResult cuGraphAddKernelNode_v2(CuGraphNode* node, CuGraph graph, const CuGraphNode* before,
                                 size_t n, const CuKernelNode* parameters) {
  ENTER()
  FakeCuda::Graph& g = *fake.graphs.at(graph);
  // The fake runs nodes in the order in which they were added, so it must be a chain.
  if (g.nodes.empty() ? n != 0
                      : n != 1 || static_cast<const void*>(*before) != g.nodes.back().get()) {
    return kInvalidValue;
  }
  auto made = std::make_unique<FakeCuda::Launch>();
  const CuResult result = LaunchOf(fake, *parameters, *made);
  if (result != kSuccess) return result;
  *node = reinterpret_cast<CuGraphNode>(made.get());
  g.nodes.push_back(std::move(made));
  return kSuccess;
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph graph, unsigned long long flags) {
  ENTER()
  if (flags != 0) return kInvalidValue;
  auto made = std::make_unique<FakeCuda::Exec>();
  made->device = CurrentFakeDevice();
  for (const auto& node : fake.graphs.at(graph)->nodes) {
    made->index[node.get()] = made->launches.size();
    made->launches.push_back(*node);
  }
  *exec = reinterpret_cast<CuGraphExec>(made.get());
  fake.execs[made.get()] = std::move(made);
  return kSuccess;
}
CuResult cuGraphExecKernelNodeSetParams_v2(CuGraphExec exec, CuGraphNode node,
                                           const CuKernelNode* parameters) {
  ENTER()
  FakeCuda::Exec& e = *fake.execs.at(exec);
  return LaunchOf(fake, *parameters, e.launches[e.index.at(node)]);
}
CuResult cuGraphLaunch(CuGraphExec exec, CuStream stream) {
  ENTER()
  for (const FakeCuda::Launch& launch : fake.execs.at(exec)->launches) {
    PushLaunch(fake, stream, launch);
  }
  return kSuccess;
}
CuResult cuGraphExecDestroy(CuGraphExec exec) {
  ENTER()
  return fake.execs.erase(exec) == 1 ? kSuccess : kInvalidValue;
}

}  // namespace

CudaApi FakeCuda::Api() {
  CudaApi api;
#define UOPD_SYM(name, ...) api.name = name;
#define UOPD_SYM_OPT(name, ...) api.name = name;
#include "devices/cuda/cuda_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT
  return api;
}

}  // namespace uopd::tests
