// SPDX-License-Identifier: MIT
// uopd_compile_fuzz: mutated graphs through decode, verify, schedule, codegen, render and the
// assembly of programs in this process, for null devices. No crash, no INTERNAL, no graph that
// takes without limit, and memory back to where it was.
//
//   uopd_compile_fuzz [--graphs N] [--first I] [--seconds S] [--seed N] [--slow-ms N] [--hang-s N]
//
// Graph I of a seed is the same in every run: `--only I` makes that one alone, and prints it.
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "core/base/text.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "devices/null/null_device.h"
#include "server/engine/compile/kernel/kernels.h"
#include "server/engine/compile/program/program.h"
#include "server/engine/compile/source/core_compiler.h"
#include "tests/fuzz/graph_corpus.h"
#include "tests/fuzz/graph_mutator.h"

#if defined(__SANITIZE_ADDRESS__)
#define UOPD_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UOPD_ASAN
#endif
#endif
#ifdef UOPD_ASAN
#include <sanitizer/allocator_interface.h>
#endif

namespace uopd::fuzz {
namespace {

struct Settings {
  int64_t graphs = 1'000'000'000'000;
  double seconds = 1e9;
  uint64_t seed = 1;
  double slow_ms = 5000;
  int64_t first = 0;
  unsigned hang_s = 120;
  std::optional<int64_t> only;
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What this process holds. The resident size, which shows what arenas keep too; but under
// AddressSanitizer, whose quarantine and records of stacks grow for as long as a program runs, what
// is allocated.
double HeldMiB() {
#ifdef UOPD_ASAN
  return static_cast<double>(__sanitizer_get_current_allocated_bytes()) / (1 << 20);
#else
  std::ifstream statm("/proc/self/statm");
  long total = 0, resident = 0;
  statm >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
#endif
}

// The graph in work, for the handler of signals.
struct {
  uint64_t seed = 0;
  int64_t index = 0;
} g_current;

void OnSignal(int signal) {
  char text[128];
  const int n = std::snprintf(text, sizeof text, "%s (signal %d): --seed %llu --only %lld\n",
                              signal == SIGALRM ? "HANG" : "CRASH", signal,
                              static_cast<unsigned long long>(g_current.seed),
                              static_cast<long long>(g_current.index));
  [[maybe_unused]] const ssize_t written = write(2, text, static_cast<size_t>(n));
  _exit(3);
}

class Fuzzer {
 public:
  explicit Fuzzer(const Settings& settings)
      : settings_(settings), corpus_(Corpus({})), devices_(NullRegistry()) {}

  // The exit status.
  int Run() {
    const double begin = Seconds();
    const int64_t first = settings_.only.value_or(settings_.first);
    const int64_t end = settings_.only ? first + 1 : settings_.graphs;
    double base = 0, reported = begin;
    int64_t i = first;
    for (; i < end && Seconds() - begin < settings_.seconds; ++i) {
      One(i);
      // What tables and arenas keep for the next graph is there after some thousands.
      if (i - first == kWarm) malloc_trim(0), base = HeldMiB();
      if (Seconds() - reported > 60) {
        reported = Seconds();
        std::printf("%lld graphs, %.1f MiB\n", static_cast<long long>(i - first), HeldMiB());
        std::fflush(stdout);
      }
    }
    malloc_trim(0);
    const double grown = base == 0 ? 0 : HeldMiB() - base;
    if (grown > kGrowthMiB) {
      std::printf("MEMORY: %.1f MiB more than after %lld graphs\n", grown,
                  static_cast<long long>(kWarm));
      ++failures_;
    }
    std::string codes;
    for (const auto& [code, n] : codes_)
      Append(codes, codes.empty() ? "" : ", ", "\"", code, "\": ", n);
    std::printf(
        "{\"graphs\": %lld, \"seed\": %llu, \"seconds\": %.1f, \"codes\": {%s}, \"kernels\": %lld, "
        "\"slowest_ms\": %.1f, \"slowest\": %lld, \"grown_mib\": %.1f, \"failures\": %d}\n",
        static_cast<long long>(i - first), static_cast<unsigned long long>(settings_.seed),
        Seconds() - begin, codes.c_str(), static_cast<long long>(kernels_), slowest_ms_,
        static_cast<long long>(slowest_), grown, failures_);
    return failures_ == 0 ? 0 : 1;
  }

 private:
  // Null devices by the names that graphs have.
  static std::unique_ptr<devices::Registry> NullRegistry() {
    devices::RegistryOptions options;
    options.devices = "CPU:0,CPU:1,NULL:0";
    options.open = [](const devices::DeviceName& name) {
      return devices::null::NullDevice::Open({.index = name.index});
    };
    return *devices::Registry::Create(std::move(options));
  }

  static constexpr int64_t kWarm = 5000;
  static constexpr double kGrowthMiB = 64;

  void One(int64_t index) {
    GraphMutator mutator(settings_.seed * 1'000'003 + static_cast<uint64_t>(index));
    const v1::Graph& graph = corpus_[mutator.Below(corpus_.size())];
    const std::string bytes = mutator.Mutate(graph, corpus_[mutator.Below(corpus_.size())]);
    g_current.seed = settings_.seed, g_current.index = index;
    alarm(settings_.hang_s);
    const double start = Seconds();
    const absl::Status status = Check(bytes);
    const double ms = (Seconds() - start) * 1e3;
    ++codes_[status.ok() ? "OK" : absl::StatusCodeToString(status.code())];
    if (ms > slowest_ms_) slowest_ms_ = ms, slowest_ = index;
    if (settings_.only) {
      ir::UOpContext ctx;
      const auto root = ir::Decode(ctx, bytes, ir::Level::kTensor, {.max_nodes = kMaxNodes});
      std::printf("%s\n%s\n", root.ok() ? ir::Print(ctx, *root).c_str() : "",
                  StatusText(status).c_str());
    }
    if (absl::IsInternal(status)) Fail("INTERNAL", index, StatusText(status));
    if (ms > settings_.slow_ms) Fail("SLOW", index, Cat(ms, " ms"));
  }

  absl::Status Check(const std::string& bytes) {
    ir::UOpContext ctx;
    UOPD_ASSIGN(const ir::UOp sink,
                ir::Decode(ctx, bytes, ir::Level::kTensor, {.max_nodes = kMaxNodes}));
    // What got in has one canonical form.
    const std::string canonical = ir::Encode(ctx, sink);
    {
      ir::UOpContext again;
      const auto same = ir::Decode(again, canonical, ir::Level::kTensor);
      if (!same.ok())
        return absl::InternalError(Cat("canonical form: ", StatusText(same.status())));
      if (ir::Encode(again, *same) != canonical)
        return absl::InternalError("canonical form changes");
    }
    UOPD_ASSIGN(schedule::Schedule made, graph_compiler_.MakeSchedule(ctx, sink, {}));
    const auto back = schedule::Schedule::Decode(made.Encode());
    if (!back.ok())
      return absl::InternalError(Cat("schedule's bytes: ", StatusText(back.status())));
    UOPD_ASSIGN(const auto kernels, engine::KernelSet::Of(std::move(made), {}, devices_));
    for (engine::ScheduledKernel& scheduled : kernels->kernels) {
      PhaseTimings timings;
      UOPD_ASSIGN(const engine::KernelSource source,
                  graph_compiler_.LowerKernel(scheduled.graph, scheduled.device->device(), {},
                                              nullptr, false, &timings, nullptr));
      if (source.text.empty()) return absl::InternalError("empty source");
      auto kernel = std::make_shared<engine::Kernel>();
      kernel->device = scheduled.device;
      kernel->name = source.record.name;
      kernel->buffers = source.record.buffers;
      kernel->variables = source.record.variables;
      scheduled.kernel = std::move(kernel);
      ++kernels_;
    }
    return engine::AssembleProgram({}, *kernels, devices_).status();
  }

  void Fail(const char* kind, int64_t index, const std::string& what) {
    ++failures_;
    std::printf("%s: --seed %llu --only %lld: %s\n", kind,
                static_cast<unsigned long long>(settings_.seed), static_cast<long long>(index),
                what.c_str());
    std::fflush(stdout);
  }

  static constexpr size_t kMaxNodes = 20'000;

  const Settings settings_;
  const std::vector<v1::Graph> corpus_;
  engine::DeviceSet devices_;
  const engine::CoreCompiler graph_compiler_;
  std::map<std::string, int64_t> codes_;
  int64_t kernels_ = 0;
  double slowest_ms_ = 0;
  int64_t slowest_ = 0;
  int failures_ = 0;
};

}  // namespace
}  // namespace uopd::fuzz

int main(int argc, char** argv) {
  uopd::fuzz::Settings settings;
  if (argc % 2 == 0) {
    std::fprintf(stderr, "uopd_compile_fuzz: every flag has a value; the source names them\n");
    return 2;
  }
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--graphs") {
      settings.graphs = std::atoll(value);
    } else if (name == "--seconds") {
      settings.seconds = std::atof(value);
    } else if (name == "--seed") {
      settings.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--slow-ms") {
      settings.slow_ms = std::atof(value);
    } else if (name == "--first") {
      settings.first = std::atoll(value);
    } else if (name == "--hang-s") {
      settings.hang_s = static_cast<unsigned>(std::atoi(value));
    } else if (name == "--only") {
      settings.only = std::atoll(value);
    } else {
      std::fprintf(stderr, "uopd_compile_fuzz: unknown flag %s\n", argv[i]);
      return 2;
    }
  }
  for (const int signal : {SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGABRT, SIGALRM}) {
    std::signal(signal, uopd::fuzz::OnSignal);
  }
  return uopd::fuzz::Fuzzer(settings).Run();
}
