// SPDX-License-Identifier: MIT
// What a chip does: rates of copies and of single operations, products beside cuBLAS, and what a
// small kernel of a replayed sequence costs. In this process, by the heuristics of the code
// generator, without a daemon and without tuning.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "devices/registry.h"
#include "tests/perf/gpu/cublas.h"
#include "tests/perf/gpu/gpu_works.h"
#include "tests/perf/perf.h"
#include "tests/perf/program.h"

namespace uopd::perf::gpu_perf {
namespace {

constexpr double kMostSeconds = 2;      // that one run of a work may take; longer ones are left out
constexpr double kSampleSeconds = 0.2;  // of runs that are queued together

class GpuBench {
 public:
  GpuBench(std::shared_ptr<devices::Device> device, const Options& options)
      : device_(std::move(device)), options_(options) {}

  absl::Status All() {
    const size_t colon = device_->info().name.rfind(':');
    auto cublas = Cublas::Open(device_, std::atoi(device_->info().name.c_str() + colon + 1));
    if (cublas.ok()) {
      cublas_ = *std::move(cublas);
    } else {
      LeftOut("cuBLAS", cublas.status().message());
    }
    UOPD_TRY(WithFrame(Copies(), "measuring copies"));
    for (const GpuWork& work : GpuWorks(options_.scale)) {
      UOPD_TRY(WithFrame(Operation(work), Cat("measuring ", work.name)));
    }
    UOPD_TRY(WithFrame(Overlap(), "measuring copies beside kernels"));
    return WithFrame(SmallKernels(), "measuring small kernels");
  }

 private:
  // What this machine does not measure, and why.
  static void LeftOut(absl::string_view what, absl::string_view why) {
    std::fprintf(stderr, "%s: left out: %s\n", std::string(what).c_str(), std::string(why).c_str());
  }
  static int Times(double seconds_each) {
    return std::clamp(static_cast<int>(kSampleSeconds / std::max(seconds_each, 1e-9)), 1, 1000);
  }
  // The seconds of one `run`, which takes how often it is to queue the work: the median of three
  // samples.
  static absl::StatusOr<double> SecondsOf(const std::function<absl::Status(int times)>& run) {
    UOPD_TRY(run(1));  // the first one makes what the later ones find
    double start = NowSeconds();
    UOPD_TRY(run(1));
    const int times = Times(NowSeconds() - start);
    std::vector<double> samples;
    for (int i = 0; i < 3; ++i) {
      start = NowSeconds();
      UOPD_TRY(run(times));
      samples.push_back((NowSeconds() - start) / times);
    }
    return Percentile(samples, 0.5);
  }

  absl::Status Copies() {
    size_t bytes = size_t{1} << 30;
    if (options_.scale < 1) bytes = size_t{16} << 20;
    // Half of what the device may still use has to hold two of them.
    const devices::MemoryStats memory = device_->memory();
    while (bytes > 1 << 20 && 4 * bytes > memory.limit_bytes - memory.used_bytes) bytes /= 2;
    UOPD_ASSIGN(const auto from, device_->Allocate(bytes, devices::MemoryKind::kDevice));
    UOPD_ASSIGN(const auto to, device_->Allocate(bytes, devices::MemoryKind::kDevice));
    UOPD_ASSIGN(const auto stream, device_->NewStream());
    UOPD_TRY(stream->Fill(*from, 0, bytes, std::byte{1}));
    const auto rate = [&](const char* name, double arrays,
                          const std::function<absl::Status()>& copy) -> absl::Status {
      UOPD_ASSIGN(const double seconds, SecondsOf([&](int times) -> absl::Status {
                    for (int i = 0; i < times; ++i) UOPD_TRY(copy());
                    return stream->Synchronize();
                  }));
      options_.report(
          {Cat("gpu.", name), "GB/s", arrays * static_cast<double>(bytes) / seconds / 1e9});
      return absl::OkStatus();
    };
    std::vector<std::byte> host(std::min(bytes, size_t{256} << 20));
    const double part = static_cast<double>(host.size()) / static_cast<double>(bytes);
    UOPD_TRY(rate("copy", 2, [&] { return stream->Copy(*from, 0, *to, 0, bytes); }));
    UOPD_TRY(rate("copy_in", part, [&] { return stream->CopyIn(host, *to, 0); }));
    return rate("copy_out", part, [&] { return stream->CopyOut(*from, 0, host); });
  }

  absl::StatusOr<std::unique_ptr<Program>> Make(
      const std::function<client::Tensor(client::Client&)>& build,
      const ProgramOptions& options = {}) {
    client::Client client(std::make_shared<client::OfflineExecutor>());
    const client::Tensor result = build(client);
    UOPD_TRY(result.status());
    UOPD_ASSIGN(const client::Exported graph, client::Export(std::span(&result, 1)));
    return Program::Make(device_, graph.graph, options);
  }

  absl::Status Operation(const GpuWork& work) {
    if (const auto last = seconds_each_.find(work.family);
        last != seconds_each_.end() && last->second * work.amount > kMostSeconds) {
      LeftOut(Cat("gpu.", work.name), Cat("it would take ", last->second * work.amount, " s"));
      return absl::OkStatus();
    }
    const auto program = Make(work.build, work.options);
    if (program.status().code() == absl::StatusCode::kUnimplemented ||
        program.status().code() == absl::StatusCode::kResourceExhausted) {
      LeftOut(Cat("gpu.", work.name), program.status().message());
      return absl::OkStatus();
    }
    UOPD_TRY(program.status());
    UOPD_ASSIGN(const double seconds, SecondsOf([&](int times) { return (*program)->Run(times); }));
    seconds_each_[work.family] = seconds / work.amount;
    Measurement m{Cat("gpu.", work.name), work.unit, work.amount / seconds};
    if (cublas_ != nullptr && work.product > 0) {
      UOPD_ASSIGN(const double peer,
                  cublas_->Product(work.product, ir::NumberOf(work.dtype), Times(seconds)));
      m.peer_name = "cuBLAS", m.peer = work.amount / peer;
    }
    options_.report(m);
    return absl::OkStatus();
  }

  // The rates of copies in and out while kernels of another stream run, beside those of the stream
  // alone.
  absl::Status Overlap() {
    if (device_->info().runs_inline) {
      LeftOut("gpu.overlap", "the device works inside of the calls");
      return absl::OkStatus();
    }
    const int64_t n = ScaledRows(2048, options_.scale);
    UOPD_ASSIGN(const auto program,
                Make([n](client::Client& c) { return c.Empty({n, n}).MatMul(c.Empty({n, n})); }));
    std::vector<std::byte> host(options_.scale < 1 ? size_t{4} << 20 : size_t{256} << 20);
    UOPD_ASSIGN(const auto buffer, device_->Allocate(host.size(), devices::MemoryKind::kDevice));
    UOPD_ASSIGN(const auto copying, device_->NewStream());
    UOPD_ASSIGN(const auto computing, device_->NewStream());
    UOPD_ASSIGN(const auto computed, device_->NewSemaphore());
    uint64_t last = 0;
    const auto compute = [&](int times) -> absl::Status {
      for (int i = 0; i < times; ++i) {
        for (const Program::Step& step : program->steps()) {
          UOPD_TRY(computing->Launch(*step.executable, step.kernel.launch.At({}), step.args, {}));
        }
      }
      return computing->Record(computed, ++last);
    };
    UOPD_ASSIGN(const double kernel_seconds, SecondsOf([&](int times) -> absl::Status {
                  UOPD_TRY(compute(times));
                  return computing->Synchronize();
                }));
    const auto measure = [&](const char* name,
                             const std::function<absl::Status()>& copy) -> absl::Status {
      const auto synchronous = [&](int times) -> absl::Status {
        for (int i = 0; i < times; ++i) UOPD_TRY(copy());
        return copying->Synchronize();
      };
      UOPD_ASSIGN(const double alone, SecondsOf(synchronous));
      // Kernels for longer than the copies may take. A sample in which they end first does not
      // count.
      std::vector<double> ratios;
      for (int attempt = 0; attempt < 8 && ratios.size() < 3; ++attempt) {
        const int copies = Times(alone);
        const double wanted = 4 * alone * copies * (1 << std::min(attempt, 3));
        UOPD_TRY(compute(std::clamp(static_cast<int>(wanted / kernel_seconds), 4, 20'000)));
        const double start = NowSeconds();
        UOPD_TRY(synchronous(copies));
        const double each = (NowSeconds() - start) / copies;
        if (computed->value() < last) ratios.push_back(alone / each);
        UOPD_TRY(computing->Synchronize());
      }
      if (ratios.empty()) {
        LeftOut(Cat("gpu.", name), "the kernels ended before the copies");
      } else {
        const double rate = static_cast<double>(host.size()) / alone / 1e9;
        options_.report({Cat("gpu.", name), "GB/s", rate * Percentile(ratios, 0.5), "alone", rate});
      }
      return absl::OkStatus();
    };
    UOPD_TRY(measure("overlap.copy_in", [&] { return copying->CopyIn(host, *buffer, 0); }));
    return measure("overlap.copy_out", [&] { return copying->CopyOut(*buffer, 0, host); });
  }

  // A sequence of kernels that do nearly nothing, replayed as one program.
  absl::Status SmallKernels() {
    constexpr int kKernels = 100;
    UOPD_ASSIGN(const auto program, Make([](client::Client& c) { return c.Empty({1024}) + 1.0; }));
    const Program::Step& step = program->steps().front();
    devices::RecordedLaunch launch{step.executable, step.kernel.launch.At({})};
    std::vector<devices::Buffer*> buffers;
    for (const devices::BufferArg& arg : step.args) {
      launch.buffers.push_back({static_cast<int>(buffers.size()), arg.offset});
      buffers.push_back(arg.buffer);
    }
    UOPD_ASSIGN(const auto recorded,
                device_->Record(static_cast<int>(buffers.size()),
                                std::vector<devices::RecordedLaunch>(kKernels, launch)));
    UOPD_ASSIGN(const auto stream, device_->NewStream());
    UOPD_ASSIGN(const double seconds, SecondsOf([&](int times) -> absl::Status {
                  for (int i = 0; i < times; ++i) UOPD_TRY(stream->Replay(*recorded, buffers));
                  return stream->Synchronize();
                }));
    options_.report({"gpu.small_kernel", "us", 1e6 * seconds / kKernels});
    return absl::OkStatus();
  }

  const std::shared_ptr<devices::Device> device_;
  const Options& options_;
  std::unique_ptr<Cublas> cublas_;              // null: there is none
  std::map<std::string, double> seconds_each_;  // by family: of 1e9 of the unit, in the last work
};

absl::StatusOr<std::vector<Measurement>> RunGpu(const Options& options) {
  devices::RegistryOptions registry_options;
  if (!options.device.empty()) registry_options.devices = options.device;
  registry_options.cuda_specific =
      std::getenv("UOPD_CUDA_SPECIFIC") != nullptr;  // device.cuda_specific
  UOPD_ASSIGN(const auto registry, devices::Registry::Create(registry_options));
  UOPD_ASSIGN(const auto device, registry->Get(""));
  UOPD_TRY(GpuBench(device, options).All());
  return std::vector<Measurement>{};
}

const Register kRegisterGpu("gpu", "rates of one device, without a daemon: --device NAME", RunGpu);

}  // namespace
}  // namespace uopd::perf::gpu_perf
