// SPDX-License-Identifier: MIT
#include "tests/unit/devices/opencl/fake_opencl.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace uopd::devices::opencl::tests {
namespace {

ClInt CodeOf(const char* call) {
  MutexLock lock(Fake().mu);
  const auto found = Fake().failures.find(call);
  return found == Fake().failures.end() ? kClSuccess : found->second;
}

// A handle of a new object, or null and an error.
template <class Handle>
Handle* New(const char* call, const char* kind, ClInt* code) {
  const ClInt result = CodeOf(call);
  if (code != nullptr) *code = result;
  if (result != kClSuccess) return nullptr;
  MutexLock lock(Fake().mu);
  Fake().live.insert(kind);
  return reinterpret_cast<Handle*>(new char);
}

template <class Handle>
ClInt Delete(const char* kind, Handle* handle) {
  MutexLock lock(Fake().mu);
  const auto found = Fake().live.find(kind);
  if (found == Fake().live.end()) return -34;
  Fake().live.erase(found);
  delete reinterpret_cast<char*>(handle);
  return kClSuccess;
}

ClInt Give(const void* data, size_t have, size_t bytes, void* out, size_t* needed) {
  if (needed != nullptr) *needed = have;
  if (out != nullptr) std::memcpy(out, data, std::min(have, bytes));
  return kClSuccess;
}

template <class T>
ClInt GiveValue(const T& value, size_t bytes, void* out, size_t* needed) {
  return Give(&value, sizeof value, bytes, out, needed);
}

ClInt GiveFact(ClUint fact, size_t bytes, void* out, size_t* needed) {
  MutexLock lock(Fake().mu);
  if (const auto text = Fake().texts.find(fact); text != Fake().texts.end()) {
    return Give(text->second.c_str(), text->second.size() + 1, bytes, out, needed);
  }
  const auto number = Fake().numbers.find(fact);
  if (number == Fake().numbers.end()) return -30;
  if (fact == kClDeviceMaxWorkItemSizes) {
    const size_t sizes[] = {number->second, number->second, number->second};
    return Give(sizes, sizeof sizes, bytes, out, needed);
  }
  return GiveValue(number->second, bytes, out, needed);
}

ClInt Done(const char* call, ClEvent** event) {
  const ClInt code = CodeOf(call);
  if (code == kClSuccess && event != nullptr) *event = New<ClEvent>("", "event", nullptr);
  return code;
}

void FillPlaces(OpenClApi& api) {
  api.clGetPlatformIDs = [](ClUint, ClPlatform** out, ClUint* count) {
    int platforms;
    {
      MutexLock lock(Fake().mu);
      platforms = Fake().platforms;
    }
    if (count != nullptr) *count = static_cast<ClUint>(platforms);
    if (platforms == 0) return kClPlatformNotFound;
    if (out != nullptr) *out = reinterpret_cast<ClPlatform*>(&Fake());
    return CodeOf("clGetPlatformIDs");
  };
  api.clGetPlatformInfo = [](ClPlatform*, ClUint fact, size_t bytes, void* out, size_t* needed) {
    return GiveFact(fact, bytes, out, needed);
  };
  api.clGetDeviceIDs = [](ClPlatform*, ClBits, ClUint, ClDevice** out, ClUint* count) {
    if (count != nullptr) *count = 1;
    if (out != nullptr) *out = reinterpret_cast<ClDevice*>(&Fake());
    return CodeOf("clGetDeviceIDs");
  };
  api.clGetDeviceInfo = [](ClDevice*, ClUint fact, size_t bytes, void* out, size_t* needed) {
    return GiveFact(fact, bytes, out, needed);
  };
  api.clCreateContext = [](const intptr_t*, ClUint, ClDevice* const*, void*, void*, ClInt* code) {
    return New<ClContext>("clCreateContext", "context", code);
  };
  api.clReleaseContext = [](ClContext* context) { return Delete("context", context); };
  api.clCreateCommandQueue = [](ClContext*, ClDevice*, ClBits, ClInt* code) {
    return New<ClQueue>("clCreateCommandQueue", "queue", code);
  };
  api.clReleaseCommandQueue = [](ClQueue* queue) { return Delete("queue", queue); };
  api.clFlush = [](ClQueue*) { return CodeOf("clFlush"); };
  api.clFinish = [](ClQueue*) { return CodeOf("clFinish"); };
}

void FillPrograms(OpenClApi& api) {
  api.clCreateProgramWithSource = [](ClContext*, ClUint, const char**, const size_t*, ClInt* code) {
    return New<ClProgram>("clCreateProgramWithSource", "program", code);
  };
  api.clCreateProgramWithBinary = [](ClContext*, ClUint, ClDevice* const*, const size_t*,
                                     const unsigned char**, ClInt* of_binary, ClInt* code) {
    *of_binary = CodeOf("the binary");
    return New<ClProgram>("clCreateProgramWithBinary", "program", code);
  };
  api.clBuildProgram = [](ClProgram*, ClUint, ClDevice* const*, const char* options, void*, void*) {
    {
      MutexLock lock(Fake().mu);
      Fake().build_options = options;
    }
    return CodeOf("clBuildProgram");
  };
  api.clGetProgramInfo = [](ClProgram*, ClUint fact, size_t, void* out, size_t*) {
    if (fact == kClProgramBinarySizes) {
      const size_t size = 6;
      std::memcpy(out, &size, sizeof size);
    } else {
      char* to;
      std::memcpy(&to, out, sizeof to);
      std::memcpy(to, "binary", 6);
    }
    return CodeOf("clGetProgramInfo");
  };
  api.clGetProgramBuildInfo = [](ClProgram*, ClDevice*, ClUint, size_t bytes, void* out,
                                 size_t* needed) {
    const char log[] = "line 1: unknown word\n";
    return Give(log, sizeof log, bytes, out, needed);
  };
  api.clReleaseProgram = [](ClProgram* program) { return Delete("program", program); };
  api.clCreateKernel = [](ClProgram*, const char*, ClInt* code) {
    return New<ClKernel>("clCreateKernel", "kernel", code);
  };
  api.clGetKernelInfo = [](ClKernel*, ClUint, size_t bytes, void* out, size_t* needed) {
    MutexLock lock(Fake().mu);
    return GiveValue(static_cast<ClUint>(Fake().kernel_arguments), bytes, out, needed);
  };
  api.clReleaseKernel = [](ClKernel* kernel) { return Delete("kernel", kernel); };
  api.clSetKernelArg = [](ClKernel*, ClUint, size_t, const void*) {
    return CodeOf("clSetKernelArg");
  };
  api.clSetKernelArgSVMPointer = [](ClKernel*, ClUint, const void*) {
    return CodeOf("clSetKernelArgSVMPointer");
  };
}

void FillCommands(OpenClApi& api) {
  api.clEnqueueNDRangeKernel = [](ClQueue*, ClKernel*, ClUint, const size_t*, const size_t*,
                                  const size_t*, ClUint, ClEvent* const*, ClEvent** event) {
    return Done("clEnqueueNDRangeKernel", event);
  };
  api.clEnqueueSVMMemcpy = [](ClQueue*, ClBool, void* to, const void* from, size_t bytes, ClUint,
                              ClEvent* const*, ClEvent** event) {
    std::memcpy(to, from, bytes);
    return Done("clEnqueueSVMMemcpy", event);
  };
  api.clEnqueueSVMMemFill = [](ClQueue*, void* to, const void* pattern, size_t size, size_t bytes,
                               ClUint, ClEvent* const*, ClEvent** event) {
    for (size_t at = 0; at < bytes; at += size) {
      std::memcpy(static_cast<char*>(to) + at, pattern, size);
    }
    return Done("clEnqueueSVMMemFill", event);
  };
  api.clGetEventInfo = [](ClEvent*, ClUint, size_t bytes, void* out, size_t* needed) {
    MutexLock lock(Fake().mu);
    return GiveValue(Fake().event_status, bytes, out, needed);
  };
  api.clGetEventProfilingInfo = [](ClEvent*, ClUint fact, size_t bytes, void* out, size_t* needed) {
    GiveValue<ClUlong>(fact == kClProfilingStart ? 1000 : 1234, bytes, out, needed);
    return CodeOf("clGetEventProfilingInfo");
  };
  api.clSetEventCallback = [](ClEvent*, ClInt, ClEventCallback, void*) { return ClInt{-59}; };
  api.clReleaseEvent = [](ClEvent* event) { return Delete("event", event); };
  api.clSVMAlloc = [](ClContext*, ClBits, size_t bytes, ClUint) -> void* {
    if (CodeOf("clSVMAlloc") != kClSuccess) return nullptr;
    MutexLock lock(Fake().mu);
    Fake().live.insert("memory");
    return std::aligned_alloc(128, (bytes + 127) / 128 * 128);
  };
  api.clSVMFree = [](ClContext*, void* data) {
    MutexLock lock(Fake().mu);
    Fake().live.erase(Fake().live.find("memory"));
    std::free(data);
  };
}

}  // namespace

FakeDriver& Fake() {
  static FakeDriver driver;
  return driver;
}

const OpenClApi& FakeApi() {
  static const OpenClApi kApi = [] {
    OpenClApi api;
    FillPlaces(api);
    FillPrograms(api);
    FillCommands(api);
    return api;
  }();
  return kApi;
}

void FakeDriver::Reset() {
  MutexLock lock(mu);
  platforms = 1;
  texts = {{kClPlatformName, "Fake"},      {kClPlatformVersion, "OpenCL 3.0"},
           {kClDeviceName, "chip"},        {kClDriverVersion, "7"},
           {kClDeviceVersion, "OpenCL 3"}, {kClDeviceProfile, "FULL_PROFILE"},
           {kClDeviceExtensions, ""}};
  numbers = {{kClDeviceType, 4},
             {kClDeviceMaxComputeUnits, 20},
             {kClDeviceMaxWorkGroupSize, 256},
             {kClDeviceMaxWorkItemSizes, 256},
             {kClDeviceMaxMemAllocSize, 1 << 20},
             {kClDeviceMaxParameterSize, 4096},
             {kClDeviceSingleFpConfig, 6},
             {kClDeviceGlobalMemCacheSize, 1 << 20},
             {kClDeviceGlobalMemSize, 8 << 20},
             {kClDeviceLocalMemSize, 32 << 10},
             {kClDeviceAvailable, 1},
             {kClDeviceHostUnifiedMemory, 1},
             {kClDeviceSvmCapabilities, kClSvmCoarseGrainBuffer | kClSvmFineGrainBuffer}};
  failures.clear();
  event_status = kClComplete;
  kernel_arguments = 1;
  build_options.clear();
}

void FakeDriver::SetText(ClUint fact, std::string text) {
  MutexLock lock(mu);
  texts[fact] = std::move(text);
}

void FakeDriver::SetNumber(ClUint fact, uint64_t number) {
  MutexLock lock(mu);
  numbers[fact] = number;
}

void FakeDriver::Fail(const std::string& call, ClInt code) {
  MutexLock lock(mu);
  failures[call] = code;
}

void FakeDriver::SetEventStatus(ClInt status) {
  MutexLock lock(mu);
  event_status = status;
}

std::multiset<std::string> FakeDriver::Live() {
  MutexLock lock(mu);
  return live;
}

std::string FakeDriver::BuildOptions() {
  MutexLock lock(mu);
  return build_options;
}

void FakeDriver::SetPlatforms(int count) {
  MutexLock lock(mu);
  platforms = count;
}

void FakeDriver::SetKernelArguments(int count) {
  MutexLock lock(mu);
  kernel_arguments = count;
}

}  // namespace uopd::devices::opencl::tests
