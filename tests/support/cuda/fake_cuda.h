// SPDX-License-Identifier: MIT
// A CUDA driver over host memory: the functions of libcuda, for tests on machines without a GPU.
//
// It is as strict as the real one. Streams work late, on threads of their own. Calls without a
// current context fail. Addresses of devices are no addresses of the host: every copy and kernel
// finds the memory by its address, and an address outside of it breaks the context, which then
// answers every call with the same code until it is reset. Copies of memory that is not registered
// take it at once, or wait. Launches check the size of the arguments and of the shared memory. As
// on a chip, maps have no place in a block of arguments that a program could know: a kernel with
// maps takes its arguments one by one.
//
// A test makes any call fail with any code. Objects that were not freed are counted. One fake
// exists at a time, since the driver's functions have no argument that names it. Thread-safe.
//
// Text of kernels ("PTX"): lines `ENTRY BEHAVIOUR N`, with N arguments of 8 bytes:
//   nothing   writes nothing
//   slow      writes nothing, and takes a millisecond
//   adder     adds int b[0] += a[0] + variable; arguments a, b, variable, stop word
//   spin      waits until the stop word (the last argument) is not 0
//   hang      waits until ReleaseHanging, whatever the stop word says
//   stray     reads where no memory is
//   trap      ends the context with LAUNCH_FAILED
//   boxes     takes one map of a tensor too, and stores the first int of the tensor to the first
//             argument
//   host:ID   calls the function of the test (SetHostKernels)
//   shared    stores the bytes of dynamic shared memory as an int to the first argument
// A text with the word `error` does not compile. A cubin is the text behind the mark of an ELF
// file.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "devices/cuda/cuda_symbols.h"

namespace uopd::tests {

using devices::cuda::CuPointer;
using devices::cuda::CuResult;

class FakeCuda {
 public:
  struct Options {
    int devices = 2;
    size_t total_bytes = size_t{1} << 30;  // of each device
    int capability = 90;
    int compute_mode = 0;
    int unified_addressing = 1;
    bool peers = true;  // devices may read each other's memory
  };
  FakeCuda() : FakeCuda(Options{}) {}
  explicit FakeCuda(const Options& options);
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  // Marks of addresses as kernels use them: memory of the device, and registered memory of the
  // host.
  static constexpr CuPointer kDeviceMark = CuPointer{1} << 62, kHostMark = CuPointer{1} << 61;

  static devices::cuda::CudaApi Api();

  // After `skip` more calls of `call`, the next `times` calls fail with `result`.
  void Fail(const std::string& call, CuResult result, int skip = 0, int times = 1);
  int Calls(const std::string& call);
  // Work that was given to the driver and is not done yet may access [address, address + bytes). Of
  // kernels: the memory that their arguments point at.
  bool InUse(CuPointer address, size_t bytes);
  void ReleaseHanging();
  // A launch of a kernel `host:ID`.
  struct HostLaunch {
    std::string id;
    std::vector<uint64_t> arguments;
    std::vector<std::span<std::byte>>
        memory;  // by argument: from its address to the end of the allocation; or empty
    int64_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  };
  // False: the kernel breaks the context. Called by the threads of streams. Set before there are
  // any.
  void SetHostKernels(std::function<bool(const HostLaunch&)> run) {
    host_kernels_ = std::move(run);
  }
  // While it is set, kernels that would spin or hang end at once.
  void LetPass(bool pass);
  // Objects that exist: "memory", "registered", "event", "stream", "module", "link", "graph",
  // "exec", "context".
  std::map<std::string, int> Live();
  static std::string Cubin(const std::string& text);

  // What the driver's functions share.
  struct Failure {
    CuResult result;
    int skip, times;
  };
  struct Event {
    int device = 0;
    bool timed = false;
    uint64_t recorded = 0, reached = 0;
    double milliseconds = 0;
  };
  struct Range {
    CuPointer address = 0;
    size_t bytes = 0;
  };
  struct Queued {
    std::function<void()> work;  // runs with mu_ free
    std::vector<Range> uses;     // memory of the device
  };
  struct Stream {
    int device = 0;
    std::deque<Queued> queue;
    std::vector<Range> busy_uses;
    bool busy = false, ending = false;
    std::thread thread;
  };
  struct Kernel {
    std::string behaviour;
    size_t arguments = 0;
    int shared_allowed = 48 << 10;
  };
  struct Module {
    int device = 0;
    std::map<std::string, std::unique_ptr<Kernel>> kernels;
  };
  // What the fake driver writes into a map.
  struct Map {
    static constexpr uint64_t kMark = 0x70616d726f736e65;
    uint64_t mark = kMark;
    CuPointer address = 0;
    size_t bytes = 0;  // from the first element to the end of the last one
  };
  struct Launch {
    Kernel* kernel = nullptr;
    std::string behaviour;
    unsigned shared_bytes = 0;
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
    std::vector<uint64_t> arguments;
    std::vector<Map> maps;
  };
  struct Graph {
    int device = 0;
    std::vector<std::unique_ptr<Launch>> nodes;
  };
  struct Exec {
    int device = 0;
    std::map<const void*, size_t> index;
    std::vector<Launch> launches;
  };
  struct Link {
    std::string text, cubin;
    char* log = nullptr;
    size_t log_bytes = 0;
  };
  struct Device {
    CuResult sticky = devices::cuda::kSuccess;
    int retained = 0;
    size_t used_bytes = 0;
    uint64_t resets = 0;
    std::set<int> peers;  // devices whose memory it may read
  };

  // Counts the call, and returns the code with which it must fail, or success. With `context`: also
  // what the current context says.
  CuResult Enter(const char* call, bool context = true) UOPD_REQUIRES(mu);
  // The host's address of [address, address + bytes). Null: no such memory on the device.
  std::byte* Resolve(int device, CuPointer address, size_t bytes) UOPD_REQUIRES(mu);
  // From the address to the end of what was allocated there. Empty: the address is none.
  std::span<std::byte> Memory(int device, CuPointer address) UOPD_REQUIRES(mu);
  bool IsRegistered(const void* data, size_t bytes) UOPD_REQUIRES(mu);
  void Push(Stream& stream, std::function<void()> work, std::vector<Range> uses = {})
      UOPD_REQUIRES(mu);
  void Break(int device, CuResult result) UOPD_REQUIRES(mu);
  void Execute(int device, const Launch& launch) UOPD_EXCLUDES(mu);
  CuResult MakeLaunch(Kernel* kernel, const unsigned* grid, const unsigned* block, unsigned shared,
                      void** list, void** extra, Launch& out) UOPD_REQUIRES(mu);
  void RunStream(Stream& stream) UOPD_EXCLUDES(mu);
  // Ends the thread of a stream, and removes it, unless another thread does. Work that is queued
  // still runs.
  void EndStream(Stream* stream) UOPD_EXCLUDES(mu);
  void Reset(int device) UOPD_EXCLUDES(mu);

  const Options options;
  Mutex mu;
  std::condition_variable changed;
  std::vector<Device> devices UOPD_GUARDED_BY(mu);
  std::map<std::string, int> calls UOPD_GUARDED_BY(mu);
  std::map<std::string, std::vector<Failure>> failures UOPD_GUARDED_BY(mu);
  struct Allocated {
    int device;
    size_t bytes;
  };
  std::map<std::byte*, Allocated> memory UOPD_GUARDED_BY(mu);
  std::map<std::byte*, Allocated> registered UOPD_GUARDED_BY(mu);
  std::map<void*, std::shared_ptr<Event>> events UOPD_GUARDED_BY(mu);
  std::map<void*, std::unique_ptr<Stream>> streams UOPD_GUARDED_BY(mu);
  std::map<void*, std::unique_ptr<Module>> modules UOPD_GUARDED_BY(mu);
  std::map<void*, std::unique_ptr<Graph>> graphs UOPD_GUARDED_BY(mu);
  std::map<void*, std::unique_ptr<Exec>> execs UOPD_GUARDED_BY(mu);
  std::map<void*, std::unique_ptr<Link>> links UOPD_GUARDED_BY(mu);
  bool release_hanging UOPD_GUARDED_BY(mu) = false;
  bool let_pass UOPD_GUARDED_BY(mu) = false;

 private:
  std::function<bool(const HostLaunch&)> host_kernels_;
};

// The fake that exists. The functions of the driver use it.
FakeCuda& TheFakeCuda();
// The device of the calling thread's context; -1: none.
int& CurrentFakeDevice();

}  // namespace uopd::tests
