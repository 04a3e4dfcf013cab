// SPDX-License-Identifier: MIT
#include "server/engine/compile/kernel/kernel_loader.h"

#include <algorithm>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/base/lookups.h"
#include "server/engine/tune/tuning_record.h"

namespace uopd::engine {
namespace {

bool NobodyWaits(Tier tier) { return tier == Tier::kUpgrade || tier == Tier::kOwn; }

constexpr char kKernelStore[] = "kernel", kDraftStore[] = "draft";

}  // namespace

absl::StatusOr<LoadedKernel> KernelLoader::Get(const RequestContext& request,
                                               const KernelRequest& wanted, PhaseTimings* timings) {
  std::string environment =
      graph_compiler_.KernelEnvironment(wanted.device->device(), wanted.options);
  if (wanted.opts != nullptr) Append(environment, " opts=", Text(*wanted.opts));
  const cache::Key key(kKernelStore, std::string(wanted.graph), environment);
  if (auto kernel = Find({key.address(), wanted.device}))
    return LoadedKernel{kernel, CacheResult::kMemory};
  if (wanted.tier != Tier::kDraft) return Obtain(request, wanted, key, false, timings);

  const cache::Key draft_key(kDraftStore, std::string(wanted.graph), std::move(environment));
  if (auto kernel = Find({draft_key.address(), wanted.device}))
    return LoadedKernel{kernel, CacheResult::kMemory};
  if (auto stored = MaybeStored(wanted, key, timings)) return *std::move(stored);
  auto draft = Obtain(request, wanted, draft_key, true, timings);
  if (draft.ok() || !absl::IsInternal(draft.status())) return draft;
  // What the draft does not compile, the optimising compiler may.
  UOPD_LOG(kWarn, "a kernel has no draft", {"status", draft.status()});
  return Obtain(request, wanted, key, false, timings);
}

std::optional<LoadedKernel> KernelLoader::MaybeStored(const KernelRequest& wanted,
                                                      const cache::Key& key,
                                                      PhaseTimings* timings) {
  if (!wanted.options.caches_compiles()) return std::nullopt;
  const cache::GetResult found = store_.Get(key);
  CountLookup(kKernelStore, found.outcome);
  if (!found.hit()) return std::nullopt;
  auto kernel = Load(found.entry.bytes, wanted, false, timings);
  if (!kernel.ok()) return std::nullopt;  // the upgrade counts it, and replaces it
  Remember({key.address(), wanted.device}, *kernel);
  return LoadedKernel{*kernel, found.source == cache::Source::kCluster ? CacheResult::kCluster
                                                                       : CacheResult::kDisk};
}

absl::StatusOr<LoadedKernel> KernelLoader::Obtain(const RequestContext& request,
                                                  const KernelRequest& wanted,
                                                  const cache::Key& key, bool draft,
                                                  PhaseTimings* timings) {
  const char* const store = draft ? kDraftStore : kKernelStore;
  cache::LoadOptions load{
      .limits = request.wait_limits(),
      .lease_ttl_us = lease_.ttl_us,
      .owner = lease_.owner,
      .patience = lease_.patience,
      .patient = NobodyWaits(wanted.tier),
      .use = wanted.options.caches_compiles() ? cache::Use::kReadAndKeep : cache::Use::kNone};
  for (;;) {
    UOPD_ASSIGN(const cache::Loaded loaded,
                flights_.LoadOrCompute(store_, key, load, [&](const cache::WaitLimits& limits) {
                  return BuildUnlessFailed(limits, wanted, key, draft, timings);
                }));
    const bool reads = load.use == cache::Use::kReadAndKeep;
    // The request that got the draft has counted its lookup.
    if (reads && wanted.tier != Tier::kUpgrade) CountLookup(store, loaded.lookup);
    const bool built = !reads || loaded.outcome == cache::LoadOutcome::kComputed;
    auto kernel = Load(*loaded.bytes, wanted, draft, timings);
    if (kernel.ok()) {
      Remember({key.address(), wanted.device}, *kernel);
      return LoadedKernel{*kernel, built ? CacheResult::kMiss : ResultOf(loaded.outcome)};
    }
    if (built || absl::IsResourceExhausted(kernel.status())) return kernel.status();
    // The store has checked that the bytes are what was stored, but they are no usable kernel.
    // Replace them.
    CountCorrupt(store);
    UOPD_LOG(kWarn, "cached kernel is unusable, building it again", {"status", kernel.status()});
    load.use = cache::Use::kReplace;
  }
}

absl::StatusOr<std::string> KernelLoader::BuildUnlessFailed(const cache::WaitLimits& limits,
                                                            const KernelRequest& wanted,
                                                            const cache::Key& key, bool draft,
                                                            PhaseTimings* timings) const {
  const bool remembers = failures_ != nullptr && wanted.options.caches_compiles();
  if (remembers) {
    for (const FailureKind kind : {FailureKind::kUnsupported, FailureKind::kCompiler}) {
      if (auto failed = failures_->Find(kind, key.address())) return *std::move(failed);
    }
  }
  auto built = Build(limits, wanted, draft, timings);
  const auto kind = KindOfCompileFailure(built.status());
  if (remembers && kind) failures_->Add(*kind, key.address(), built.status());
  return built;
}

absl::StatusOr<std::string> KernelLoader::Build(const cache::WaitLimits& limits,
                                                const KernelRequest& wanted, bool draft,
                                                PhaseTimings* timings) const {
  Interrupt interrupt(limits.deadline, limits.cancelled);
  UOPD_TRY(interrupt.Check());
  const devices::Device& device = wanted.device->device();
  auto lowered = graph_compiler_.LowerKernel(wanted.graph, device, wanted.options, wanted.opts,
                                             draft, timings, &interrupt);
  if (absl::IsUnimplemented(lowered.status()))
    return WithFrame(lowered.status(), Cat("compiling for ", device.info().name));
  UOPD_ASSIGN(KernelSource source, std::move(lowered));
  ScopedPhase phase(Phase::kCompile, timings);
  KernelCompiler& compiler = NobodyWaits(wanted.tier) ? upgrade_compiler_ : compiler_;
  UOPD_ASSIGN(source.record.object,
              compiler.Compile(device, source.record.name, source.text, limits, draft));
  if (wanted.tier != Tier::kUpgrade) metrics::KernelsCompiled().Increment();
  return source.record.Encode();
}

absl::StatusOr<std::shared_ptr<const Kernel>> KernelLoader::Load(std::string_view bytes,
                                                                 const KernelRequest& wanted,
                                                                 bool draft,
                                                                 PhaseTimings* timings) {
  ScopedPhase phase(Phase::kLoad, timings);
  UOPD_ASSIGN(KernelRecord record, KernelRecord::Decode(bytes));
  const std::vector<int64_t>& capacities = wanted.capacities;
  bool fits = record.buffers.size() == capacities.size();
  for (size_t i = 0; fits && i < capacities.size(); ++i) {
    const int64_t size = std::max<int64_t>(ir::ByteSize(record.buffers[i].dtype), 1);
    fits = record.buffers[i].elements <= capacities[i] / size;
  }
  if (!fits) {
    return absl::InternalError(Cat("kernel ", record.name, " does not fit the schedule's buffers"));
  }
  devices::KernelCode kernel_code;
  kernel_code.format = CodeFormat::kObject;
  kernel_code.entry = record.name;
  kernel_code.bytes = std::move(record.object);
  kernel_code.args = {static_cast<int>(record.buffers.size()),
                      static_cast<int>(record.variables.size())};
  auto kernel = std::make_shared<Kernel>();
  UOPD_ASSIGN(kernel->executable, wanted.device->device().Load(kernel_code));
  kernel->device = wanted.device;
  kernel->tuned = wanted.opts != nullptr;
  kernel->draft = draft;
  kernel->name = std::move(record.name);
  kernel->use = wanted.device->UseOf(kernel->name);
  kernel->buffers = std::move(record.buffers);
  kernel->variables = std::move(record.variables);
  kernel->launch = std::move(record.launch);
  kernel->graph = wanted.graph;
  kernel->options = wanted.options;
  kernel->opts = std::move(record.opts);
  kernel->flops = record.flops;
  kernel->bytes = record.bytes;
  kernel->estimate_ns = record.estimate_ns;
  kernel->dtype = record.dtype;
  kernel->polls = record.polls;
  return std::shared_ptr<const Kernel>(std::move(kernel));
}

std::shared_ptr<const Kernel> KernelLoader::Find(const Place& place) {
  MutexLock lock(mu_);
  auto it = loaded_.find(place);
  return it == loaded_.end() ? nullptr : it->second.lock();
}

void KernelLoader::Remember(const Place& place, const std::shared_ptr<const Kernel>& kernel) {
  MutexLock lock(mu_);
  loaded_[place] = kernel;
  if (loaded_.size() < sweep_at_) return;
  absl::erase_if(loaded_, [](const auto& entry) { return entry.second.expired(); });
  sweep_at_ = std::max<size_t>(1024, 2 * loaded_.size());
}

}  // namespace uopd::engine
