// SPDX-License-Identifier: MIT
// The state of the fake driver, its streams and kernels. The driver's functions are in
// fake_calls.cc.
#include "tests/support/cuda/fake_cuda.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

namespace uopd::tests {

using namespace devices::cuda;

namespace {

FakeCuda* the_fake = nullptr;

using Memories = std::map<std::byte*, FakeCuda::Allocated>;

bool Within(const Memories& memories, int device, std::byte* at, size_t bytes) {
  auto it = memories.upper_bound(at);
  if (it == memories.begin()) return false;
  --it;
  return (device < 0 || it->second.device == device) && at + bytes <= it->first + it->second.bytes;
}

}  // namespace

FakeCuda& TheFakeCuda() {
  UOPD_CHECK(the_fake != nullptr);
  return *the_fake;
}

int& CurrentFakeDevice() {
  thread_local int device = -1;
  return device;
}

FakeCuda::FakeCuda(const Options& o) : options(o), devices(static_cast<size_t>(o.devices)) {
  UOPD_CHECK(the_fake == nullptr);
  the_fake = this;
}

FakeCuda::~FakeCuda() {
  ReleaseHanging();
  for (int d = 0; d < options.devices; ++d) Reset(d);
  the_fake = nullptr;
}

void FakeCuda::Fail(const std::string& call, CuResult result, int skip, int times) {
  MutexLock lock(mu);
  failures[call].push_back({result, skip, times});
}

int FakeCuda::Calls(const std::string& call) {
  MutexLock lock(mu);
  return calls[call];
}

bool FakeCuda::InUse(CuPointer address, size_t bytes) {
  MutexLock lock(mu);
  const auto overlaps = [&](const std::vector<Range>& uses) {
    return std::ranges::any_of(uses, [&](const Range& r) {
      return r.address < address + bytes && address < r.address + r.bytes;
    });
  };
  return std::ranges::any_of(streams, [&](const auto& entry) {
    const Stream& stream = *entry.second;
    return overlaps(stream.busy_uses) ||
           std::ranges::any_of(stream.queue, [&](const Queued& q) { return overlaps(q.uses); });
  });
}

void FakeCuda::ReleaseHanging() {
  MutexLock lock(mu);
  release_hanging = true;
  changed.notify_all();
}

void FakeCuda::LetPass(bool pass) {
  MutexLock lock(mu);
  let_pass = pass;
}

std::map<std::string, int> FakeCuda::Live() {
  MutexLock lock(mu);
  std::map<std::string, int> out;
  const auto add = [&](const char* what, size_t n) {
    if (n > 0) out[what] = static_cast<int>(n);
  };
  add("memory", memory.size());
  add("registered", registered.size());
  add("event", events.size());
  add("stream", streams.size());
  add("module", modules.size());
  add("link", links.size());
  add("graph", graphs.size());
  add("exec", execs.size());
  size_t contexts = 0;
  for (const Device& device : devices) contexts += static_cast<size_t>(device.retained);
  add("context", contexts);
  return out;
}

std::string FakeCuda::Cubin(const std::string& text) {
  return std::string(
             "\x7f"
             "ELF") +
         text;
}

CuResult FakeCuda::Enter(const char* call, bool context) {
  ++calls[call];
  for (Failure& failure : failures[call]) {
    if (failure.times == 0) continue;
    if (failure.skip > 0) {
      --failure.skip;
      continue;
    }
    --failure.times;
    return failure.result;
  }
  if (!context) return kSuccess;
  const int device = CurrentFakeDevice();
  if (device < 0 || devices[static_cast<size_t>(device)].retained == 0) return kInvalidContext;
  return devices[static_cast<size_t>(device)].sticky;
}

std::byte* FakeCuda::Resolve(int device, CuPointer address, size_t bytes) {
  auto* at = reinterpret_cast<std::byte*>(address & ~(kDeviceMark | kHostMark));
  if ((address & kDeviceMark) != 0) return Within(memory, device, at, bytes) ? at : nullptr;
  if ((address & kHostMark) != 0) return Within(registered, -1, at, bytes) ? at : nullptr;
  return nullptr;
}

std::span<std::byte> FakeCuda::Memory(int device, CuPointer address) {
  auto* at = reinterpret_cast<std::byte*>(address & ~(kDeviceMark | kHostMark));
  const bool on_device = (address & kDeviceMark) != 0;
  if (!on_device && (address & kHostMark) == 0) return {};
  const auto& memories = on_device ? memory : registered;
  if (!Within(memories, on_device ? device : -1, at, 1)) return {};
  const auto& [begin, allocated] = *std::prev(memories.upper_bound(at));
  return {at, begin + allocated.bytes};
}

bool FakeCuda::IsRegistered(const void* data, size_t bytes) {
  return Within(registered, -1, static_cast<std::byte*>(const_cast<void*>(data)), bytes);
}

void FakeCuda::Push(Stream& stream, std::function<void()> work, std::vector<Range> uses) {
  stream.queue.push_back({std::move(work), std::move(uses)});
  changed.notify_all();
}

void FakeCuda::Break(int device, CuResult result) {
  Device& state = devices[static_cast<size_t>(device)];
  if (state.sticky == kSuccess) state.sticky = result;
  for (auto& [handle, stream] : streams) {
    if (stream->device == device) stream->queue.clear();
  }
  changed.notify_all();
}

void FakeCuda::RunStream(Stream& stream) {
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(mu);
      lock.Wait(changed, [&] { return stream.ending || !stream.queue.empty(); });
      if (stream.queue.empty()) return;
      work = std::move(stream.queue.front().work);
      stream.busy_uses = std::move(stream.queue.front().uses);
      stream.queue.pop_front();
      stream.busy = true;
    }
    work();
    work = nullptr;
    MutexLock lock(mu);
    stream.busy = false;
    stream.busy_uses.clear();
    changed.notify_all();
  }
}

void FakeCuda::EndStream(Stream* stream) {
  std::unique_ptr<Stream> owner;
  {
    MutexLock lock(mu);
    const auto it = streams.find(stream);
    if (it == streams.end()) return;  // another thread ends it
    owner = std::move(it->second);
    owner->ending = true;
    streams.erase(it);
    changed.notify_all();
  }
  owner->thread.join();
}

void FakeCuda::Reset(int device) {
  std::vector<Stream*> ended;
  {
    MutexLock lock(mu);
    Device& state = devices[static_cast<size_t>(device)];
    ++state.resets;
    for (auto& [handle, stream] : streams) {
      if (stream->device != device) continue;
      stream->queue.clear();
      ended.push_back(stream.get());
    }
    changed.notify_all();
  }
  for (Stream* stream : ended) EndStream(stream);
  MutexLock lock(mu);
  const auto here = [&](const auto& entry) { return entry.second->device == device; };
  std::erase_if(events, here);
  std::erase_if(modules, here);
  std::erase_if(graphs, here);
  std::erase_if(execs, here);
  std::erase_if(registered, [&](const auto& entry) { return entry.second.device == device; });
  for (auto it = memory.begin(); it != memory.end();) {
    if (it->second.device != device) {
      ++it;
      continue;
    }
    std::free(it->first);
    it = memory.erase(it);
  }
  devices[static_cast<size_t>(device)].used_bytes = 0;
  devices[static_cast<size_t>(device)].peers.clear();
  devices[static_cast<size_t>(device)].sticky = kSuccess;
}

CuResult FakeCuda::MakeLaunch(Kernel* kernel, const unsigned* grid, const unsigned* block,
                              unsigned shared, void** list, void** extra, Launch& out) {
  if ((list == nullptr) == (extra == nullptr)) return kInvalidValue;
  const size_t maps = kernel->behaviour == "boxes" ? 1 : 0;
  if (list == nullptr) {
    if (extra[0] != kLaunchBuffer || extra[2] != kLaunchBufferBytes || extra[4] != kLaunchEnd)
      return kInvalidValue;
    const size_t bytes = *static_cast<size_t*>(extra[3]);
    if (maps > 0 || bytes != 8 * kernel->arguments) return kLaunchOutOfResources;
  }
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || block[0] * block[1] * block[2] > 1024 ||
      static_cast<int>(shared) > kernel->shared_allowed) {
    return kInvalidValue;
  }
  out.kernel = kernel;
  out.behaviour = kernel->behaviour;
  out.shared_bytes = shared;
  std::copy_n(grid, 3, out.grid);
  std::copy_n(block, 3, out.block);
  out.arguments.resize(kernel->arguments);
  for (size_t i = 0; i < kernel->arguments; ++i) {
    const void* from = list != nullptr ? list[i] : static_cast<const std::byte*>(extra[1]) + 8 * i;
    std::memcpy(&out.arguments[i], from, 8);
  }
  out.maps.resize(maps);
  for (size_t i = 0; i < maps; ++i) {
    std::memcpy(&out.maps[i], list[kernel->arguments + i], sizeof(Map));
    if (out.maps[i].mark != Map::kMark) return kInvalidValue;
  }
  return kSuccess;
}

void FakeCuda::Execute(int device, const Launch& launch) {
  const auto& args = launch.arguments;
  if (launch.behaviour == "nothing") return;
  if (launch.behaviour == "slow") return std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (launch.behaviour == "spin") {
    std::atomic<uint32_t>* word = nullptr;
    uint64_t resets = 0;
    {
      MutexLock lock(mu);
      word = reinterpret_cast<std::atomic<uint32_t>*>(Resolve(device, args.back(), 4));
      resets = devices[static_cast<size_t>(device)].resets;
      if (word == nullptr) return Break(device, kIllegalAddress);
      if (let_pass) return;
    }
    while (word->load() == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      MutexLock lock(mu);
      if (devices[static_cast<size_t>(device)].resets != resets || release_hanging) return;
    }
    return;
  }
  if (launch.behaviour.starts_with("host:")) {
    HostLaunch call{.id = launch.behaviour.substr(5), .arguments = args};
    std::copy_n(launch.grid, 3, call.grid);
    std::copy_n(launch.block, 3, call.block);
    {
      MutexLock lock(mu);
      for (const uint64_t argument : args) call.memory.push_back(Memory(device, argument));
    }
    if (host_kernels_(call)) return;
    MutexLock lock(mu);
    return Break(device, kLaunchFailed);
  }
  MutexLock lock(mu);
  if (launch.behaviour == "hang") {
    const uint64_t resets = devices[static_cast<size_t>(device)].resets;
    lock.Wait(changed, [&]() UOPD_REQUIRES(mu) {
      return release_hanging || let_pass || devices[static_cast<size_t>(device)].resets != resets;
    });
  } else if (launch.behaviour == "stray") {
    Break(device, kIllegalAddress);
  } else if (launch.behaviour == "trap") {
    Break(device, kLaunchFailed);
  } else if (launch.behaviour == "shared") {
    std::byte* to = Resolve(device, args[0], 4);
    if (to == nullptr) return Break(device, kIllegalAddress);
    const auto bytes = static_cast<int32_t>(launch.shared_bytes);
    std::memcpy(to, &bytes, 4);
  } else if (launch.behaviour == "boxes") {
    const Map& map = launch.maps.at(0);
    std::byte *from = Resolve(device, map.address, map.bytes), *to = Resolve(device, args[0], 4);
    if (from == nullptr || to == nullptr) return Break(device, kIllegalAddress);
    std::memcpy(to, from, 4);
  } else if (launch.behaviour == "adder") {
    std::byte *from = Resolve(device, args[0], 4), *to = Resolve(device, args[1], 4);
    if (from == nullptr || to == nullptr) return Break(device, kIllegalAddress);
    uint32_t x, y;
    std::memcpy(&x, from, 4);
    std::memcpy(&y, to, 4);
    y += x + static_cast<uint32_t>(args[2]);
    std::memcpy(to, &y, 4);
  }
}

}  // namespace uopd::tests
