// SPDX-License-Identifier: MIT
#include "devices/registry.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "devices/cpu/cpu_baseline.h"
#include "devices/cpu/cpu_device.h"
#include "devices/cuda/cuda_device.h"
#include "devices/hip/hip_device.h"
#include "devices/interp/interp_device.h"
#include "devices/null/null_device.h"
#include "devices/opencl/opencl_device.h"

namespace uopd::devices {
namespace {

CommandQueue::Delay BackgroundOf(const RegistryOptions& options) {
  if (options.force_async_us < 0) return std::nullopt;
  return std::chrono::microseconds(options.force_async_us);
}

absl::StatusOr<std::shared_ptr<Device>> OpenCpu(int index, const RegistryOptions& options) {
  cpu::CpuOptions cpu;
  cpu.index = index;
  cpu.threads = options.cpu_threads;
  cpu.spin = std::chrono::microseconds(options.cpu_spin_us);
  if (!options.cpu_features.empty()) {
    UOPD_ASSIGN(cpu.features, cpu::ReadBaseline(options.cpu_features, cpu::ReadMachineFeatures()));
    cpu.baseline = options.cpu_features;
  }
  cpu.memory.limit_bytes = options.memory_limit_bytes;
  cpu.memory.pattern = options.memory_pattern;
  cpu.background = BackgroundOf(options);
  return cpu::CpuDevice::Open(cpu);
}

absl::StatusOr<std::shared_ptr<Device>> OpenNull(int index, const RegistryOptions& options) {
  null::NullOptions null;
  null.index = index;
  null.memory.limit_bytes = options.memory_limit_bytes;
  null.memory.pattern = options.memory_pattern;
  null.background = BackgroundOf(options);
  return null::NullDevice::Open(null);
}

// Odd numbers are a GPU with warps of 64 lanes, even ones a GPU with warps of 32. 2, 6, ... have
// matrix instructions of groups of warps.
absl::StatusOr<std::shared_ptr<Device>> OpenInterp(int index, const RegistryOptions& options) {
  interp::InterpOptions interp;
  interp.index = index;
  interp.shape = index % 2 != 0   ? interp::AmdShape()
                 : index % 4 == 0 ? interp::NvidiaShape()
                                  : interp::HopperShape();
  interp.memory.limit_bytes = options.memory_limit_bytes;
  interp.memory.pattern = options.memory_pattern;
  interp.background = BackgroundOf(options);
  return interp::InterpDevice::Open(interp);
}

absl::StatusOr<std::shared_ptr<Device>> OpenOpenCl(int index, const RegistryOptions& options) {
  opencl::OpenClOptions cl;
  cl.index = index;
  cl.memory.limit_bytes = options.memory_limit_bytes;
  cl.memory.pattern = options.memory_pattern;
  cl.delay = std::chrono::microseconds(std::max(0, options.force_async_us));
  return opencl::OpenClDevice::Open(cl);
}

cuda::CudaOptions CudaOptionsOf(int index, const RegistryOptions& options) {
  cuda::CudaOptions cuda;
  cuda.index = index;
  cuda.memory_limit_bytes = options.memory_limit_bytes;
  cuda.pattern = options.memory_pattern;
  cuda.ptx = options.cuda_ptx;
  cuda.specific = options.cuda_specific;
  cuda.graphs = options.cuda_graphs;
  return cuda;
}

absl::StatusOr<std::shared_ptr<Device>> OpenCuda(int index, const RegistryOptions& options) {
  return cuda::CudaDevice::Open(CudaOptionsOf(index, options));
}

absl::StatusOr<std::shared_ptr<Device>> AbsentCuda(int index, const std::string& chip,
                                                   const RegistryOptions& options) {
  return cuda::OpenCompileOnly(CudaOptionsOf(index, options), chip);
}

hip::HipOptions HipOptionsOf(int index, const RegistryOptions& options) {
  hip::HipOptions hip;
  hip.index = index;
  hip.memory_limit_bytes = options.memory_limit_bytes;
  hip.pattern = options.memory_pattern;
  hip.graphs = options.hip_graphs;
  hip.hiprtc = options.hip_rtc;
  return hip;
}

absl::StatusOr<std::shared_ptr<Device>> OpenHip(int index, const RegistryOptions& options) {
  return hip::HipDevice::Open(HipOptionsOf(index, options));
}

absl::StatusOr<std::shared_ptr<Device>> AbsentHip(int index, const std::string& chip,
                                                  const RegistryOptions& options) {
  return hip::OpenCompileOnly(HipOptionsOf(index, options), chip);
}

// The drivers: one line for each. `count` says how many devices "all" stands for; null: none.
struct Driver {
  const char* name;
  absl::StatusOr<std::shared_ptr<Device>> (*open)(int index, const RegistryOptions& options);
  int (*count)() = nullptr;
  // Makes the compiler of a toolchain without a device. Null, or UNIMPLEMENTED: only the device has
  // it.
  absl::StatusOr<std::shared_ptr<const Compiler>> (*compiler)(std::string_view toolchain) = nullptr;
  // Opens a chip that is not here (devices/gpu/compile_only_device.h). Null: the driver knows none.
  absl::StatusOr<std::shared_ptr<Device>> (*absent)(int index, const std::string& chip,
                                                    const RegistryOptions& options) = nullptr;
};
constexpr Driver kDrivers[] = {
    {"CPU", OpenCpu, [] { return 1; }},
    {"NULL", OpenNull},
    {"INTERP", OpenInterp},
    {"CL", OpenOpenCl, opencl::CountDevices},
    {"CUDA", OpenCuda, cuda::CountCudaDevices, cuda::CudaCompilerFor, AbsentCuda},
    {"AMD", OpenHip, hip::CountHipDevices, hip::HipCompilerFor, AbsentHip},
};

const Driver* FindDriver(const std::string& name) {
  for (const Driver& driver : kDrivers) {
    if (name == driver.name) return &driver;
  }
  return nullptr;
}

std::string DriverNames() {
  return absl::StrJoin(kDrivers, ", ",
                       [](std::string* out, const Driver& driver) { out->append(driver.name); });
}

}  // namespace

absl::StatusOr<DeviceName> DeviceName::Parse(std::string_view text) {
  const std::string upper = absl::AsciiStrToUpper(std::string(text));
  const std::vector<std::string> parts = absl::StrSplit(upper, ':');
  DeviceName name{parts[0], 0};
  constexpr int kMaxIndex = 255;
  const bool digits =
      parts.size() == 1 || std::all_of(parts[1].begin(), parts[1].end(), absl::ascii_isdigit);
  if (parts.size() > 2 || !digits ||
      (parts.size() == 2 && (!absl::SimpleAtoi(parts[1], &name.index) || name.index > kMaxIndex))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", std::string(text), "\" is no device name; names look like CPU or CPU:1"));
  }
  if (FindDriver(name.driver) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("There is no driver \"", name.driver, "\"; the drivers are ", DriverNames()));
  }
  return name;
}

std::string DeviceName::Text() const { return absl::StrCat(driver, ":", index); }

absl::StatusOr<std::vector<DeviceName>> ParseDeviceList(const std::string& list) {
  std::vector<DeviceName> out;
  std::optional<size_t> all;  // where the devices that "all" stands for go
  const auto contains = [&](const DeviceName& name) {
    return std::ranges::any_of(
        out, [&](const DeviceName& other) { return other.Text() == name.Text(); });
  };
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(list, ','))) {
    const std::string text(absl::StripAsciiWhitespace(part));
    if (text.empty()) continue;
    const bool is_all = absl::EqualsIgnoreCase(text, "all");
    if (is_all && !all) {
      all = out.size();
      continue;
    }
    if (is_all) return absl::InvalidArgumentError("The list of devices has \"all\" twice");
    UOPD_ASSIGN(DeviceName name, DeviceName::Parse(text));
    if (contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("Device ", name.Text(), " is configured twice"));
    }
    out.push_back(std::move(name));
  }
  if (all) {
    std::vector<DeviceName> found;
    for (const Driver& driver : kDrivers) {
      const int count = driver.count == nullptr ? 0 : driver.count();
      for (int index = 0; index < count; ++index) {
        if (DeviceName name{driver.name, index}; !contains(name)) found.push_back(std::move(name));
      }
    }
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(*all), found.begin(), found.end());
  }
  if (out.empty()) return absl::InvalidArgumentError("No device is configured");
  return out;
}

namespace {

// RegistryOptions::compile_only as chips by device.
absl::StatusOr<std::map<std::string, std::string>> ParseAbsent(
    const std::string& text, const std::vector<DeviceName>& names) {
  std::map<std::string, std::string> out;
  for (const std::string& part :
       std::vector<std::string>(absl::StrSplit(text, ',', absl::SkipWhitespace()))) {
    const std::vector<std::string> sides = absl::StrSplit(part, '=');
    if (sides.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", part, "\" is no device with its chip, such as CUDA:0=sm_90"));
    }
    UOPD_ASSIGN(const DeviceName name, DeviceName::Parse(sides[0]));
    const bool listed = std::ranges::any_of(
        names, [&](const DeviceName& other) { return other.Text() == name.Text(); });
    if (!listed || FindDriver(name.driver)->absent == nullptr ||
        !out.emplace(name.Text(), sides[1]).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(name.Text(),
                       " cannot be compiled for alone: it must be a CUDA or AMD device of the "
                       "list, and be named once"));
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Registry>> Registry::Create(RegistryOptions options) {
  std::unique_ptr<Registry> registry(new Registry(std::move(options)));
  UOPD_ASSIGN(registry->names_, ParseDeviceList(registry->options_.devices));
  if (const std::string& features = registry->options_.cpu_features; !features.empty()) {
    UOPD_TRY(WithFrame(cpu::ReadBaseline(features, cpu::ReadMachineFeatures()).status(),
                       "reading device.cpu_features"));
  }
  UOPD_ASSIGN(registry->absent_, ParseAbsent(registry->options_.compile_only, registry->names_));
  for (size_t i = 0; i < registry->names_.size(); ++i) {
    registry->slots_.push_back(std::make_unique<Slot>());
  }
  return registry;
}

absl::StatusOr<std::unique_ptr<Registry>> Registry::Of(
    std::span<const std::shared_ptr<Device>> devices) {
  RegistryOptions options;
  options.devices = absl::StrJoin(
      devices, ",", [](std::string* out, const auto& device) { out->append(device->info().name); });
  UOPD_ASSIGN(auto registry, Create(std::move(options)));
  MutexLock lock(registry->mu_);
  for (size_t i = 0; i < devices.size(); ++i) {
    registry->slots_[i]->device = devices[i];
    registry->slots_[i]->fixed = true;
  }
  return registry;
}

absl::StatusOr<std::pair<Registry::Slot*, DeviceName>> Registry::Find(std::string_view text) const {
  DeviceName name = names_.front();
  if (!text.empty()) {
    UOPD_ASSIGN(name, DeviceName::Parse(text));
  }
  const std::string key = name.Text();
  const auto found = std::find_if(names_.begin(), names_.end(),
                                  [&](const DeviceName& other) { return other.Text() == key; });
  if (found == names_.end()) {
    return absl::NotFoundError(absl::StrCat(
        "Device ", key, " is not configured; the devices are ",
        absl::StrJoin(names_, ", ",
                      [](std::string* out, const DeviceName& n) { out->append(n.Text()); })));
  }
  return std::pair(slots_[static_cast<size_t>(found - names_.begin())].get(), std::move(name));
}

absl::StatusOr<std::shared_ptr<Device>> Registry::Get(std::string_view text) {
  UOPD_ASSIGN(const auto found, Find(text));
  const auto& [named, name] = found;
  Slot& slot = *named;
  if (auto known = Known(slot)) return *std::move(known);
  MutexLock opening(slot.opening);
  if (auto known = Known(slot)) return *std::move(known);  // another thread was first
  const Driver& driver = *FindDriver(name.driver);
  const auto absent = absent_.find(name.Text());
  auto opened = absent != absent_.end() ? driver.absent(name.index, absent->second, options_)
                : options_.open         ? options_.open(name)
                                        : driver.open(name.index, options_);
  MutexLock lock(mu_);
  if (!opened.ok()) {
    slot.failure = WithFrame(opened.status(), "opening device " + name.Text());
    slot.retry_at = Clock::now() + options_.retry;
    if (slot.device != nullptr) return slot.device;  // lost, and says why itself
    return slot.failure;
  }
  slot.device = *std::move(opened);
  slot.lost = false;
  return slot.device;
}

std::optional<absl::StatusOr<std::shared_ptr<Device>>> Registry::Known(Slot& slot) const {
  MutexLock lock(mu_);
  if (slot.device != nullptr && (slot.fixed || slot.device->status().ok())) {
    slot.lost = false;
    return slot.device;
  }
  if (slot.device != nullptr && !slot.lost) {
    slot.lost = true;
    slot.retry_at = Clock::now() + options_.retry;
  }
  if (Clock::now() >= slot.retry_at) return std::nullopt;
  if (slot.device != nullptr) return slot.device;
  if (!slot.failure.ok()) return slot.failure;
  return std::nullopt;
}

absl::StatusOr<std::shared_ptr<const Compiler>> Registry::CompilerFor(std::string_view text,
                                                                      std::string_view toolchain) {
  UOPD_ASSIGN(const auto found, Find(text));
  const Driver& driver = *FindDriver(found.second.driver);
  if (driver.compiler != nullptr && !toolchain.empty()) {
    {
      MutexLock lock(mu_);
      if (const auto made = compilers_.find(toolchain); made != compilers_.end())
        return made->second;
    }
    auto compiler = driver.compiler(toolchain);
    if (compiler.ok()) {
      MutexLock lock(mu_);
      return compilers_.emplace(toolchain, *std::move(compiler)).first->second;
    }
    if (!absl::IsUnimplemented(compiler.status())) return compiler;
  }
  UOPD_ASSIGN(const auto device, Get(text));
  if (!toolchain.empty() && toolchain != device->target().toolchain) {
    return absl::FailedPreconditionError(
        absl::StrCat("the toolchain here (", device->target().toolchain,
                     ") is not the one asked for (", std::string(toolchain), ")"));
  }
  return std::shared_ptr<const Compiler>(device, &device->compiler());
}

std::vector<DeviceEntry> Registry::KnownEntries() const {
  std::vector<DeviceEntry> out;
  MutexLock lock(mu_);
  for (size_t i = 0; i < names_.size(); ++i) {
    const Slot& slot = *slots_[i];
    if (slot.device != nullptr) {
      out.push_back({names_[i].Text(), slot.device->status(), slot.device});
    } else if (!slot.failure.ok()) {
      out.push_back({names_[i].Text(), slot.failure, nullptr});
    }
  }
  return out;
}

std::string Registry::FullName(std::string_view name) const { return Find(name)->second.Text(); }

bool Registry::Settled() const {
  return std::ranges::all_of(slots_, [this](const auto& slot) { return Known(*slot).has_value(); });
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> out;
  for (const DeviceName& name : names_) out.push_back(name.Text());
  return out;
}

std::vector<DeviceEntry> Registry::List() {
  std::vector<DeviceEntry> out;
  for (const DeviceName& name : names_) {
    auto device = Get(name.Text());
    if (device.ok()) {
      out.push_back({name.Text(), (*device)->status(), *device});
    } else {
      out.push_back({name.Text(), device.status(), nullptr});
    }
  }
  return out;
}

}  // namespace uopd::devices
