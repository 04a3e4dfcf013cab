// SPDX-License-Identifier: MIT
#include "server/engine/compile/kernel/kernel_loader.h"

#include <algorithm>
#include <chrono>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/base/lookups.h"

namespace uopd::engine {
namespace {

bool NobodyWaits(Tier tier) { return tier == Tier::kUpgrade || tier == Tier::kOwn; }

int64_t MicrosecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               begin)
      .count();
}

}  // namespace

absl::StatusOr<LoadedKernel> KernelLoader::Get(const RequestContext& request,
                                               const KernelRequest& wanted, PhaseTimings* timings) {
  std::string environment =
      graph_compiler_.ChoiceEnvironment(wanted.device->device(), wanted.options);
  if (wanted.opts != nullptr) Append(environment, " opts=", codegen::StoredText(*wanted.opts));
  const Digest graph = HashBytes(wanted.graph);
  const Form optimised{kOptimisedStores, graph, ChoiceKey(kOptimisedStores, graph, environment)};
  if (auto kernel = Find({optimised.choice.address(), wanted.device}))
    return LoadedKernel{kernel, CacheResult::kMemory};
  if (wanted.tier != Tier::kDraft) return Obtain(request, wanted, optimised, timings);

  const Form draft{kDraftStores, graph, ChoiceKey(kDraftStores, graph, std::move(environment)),
                   true};
  if (auto kernel = Find({draft.choice.address(), wanted.device}))
    return LoadedKernel{kernel, CacheResult::kMemory};
  if (auto stored = MaybeStored(wanted, optimised, timings)) return *std::move(stored);
  auto made = Obtain(request, wanted, draft, timings);
  if (made.ok() || !absl::IsInternal(made.status())) return made;
  // What the draft does not compile, the optimising compiler may.
  UOPD_LOG(kWarn, "a kernel has no draft", {"status", made.status()});
  return Obtain(request, wanted, optimised, timings);
}

std::optional<cache::Loaded> KernelLoader::LookUp(const KernelRequest& wanted, const Form& form,
                                                  bool* knows_choice) {
  // The request that got the draft has counted its lookups.
  const auto get = [&](const cache::Key& key) {
    cache::GetResult found = store_.Get(key, NobodyWaits(wanted.tier));
    if (wanted.tier != Tier::kUpgrade) CountLookup(key.store(), found.outcome);
    return found;
  };
  const cache::GetResult choice = get(form.choice);
  if (!choice.hit()) return std::nullopt;
  const std::optional<Digest> source = DecodeChoice(choice.entry.bytes);
  if (!source) {
    CountCorrupt(form.stores.choice);
    return std::nullopt;
  }
  *knows_choice = true;
  cache::GetResult found =
      get(KernelKey(form.stores, form.graph, wanted.device->device().target(), *source));
  if (!found.hit()) return std::nullopt;
  const bool far = found.source == cache::Source::kCluster;
  return cache::Loaded{
      .bytes = std::make_shared<const std::string>(std::move(found.entry.bytes)),
      .outcome = far ? cache::LoadOutcome::kClusterHit : cache::LoadOutcome::kDiskHit,
      .lookup = found.outcome};
}

std::optional<LoadedKernel> KernelLoader::MaybeStored(const KernelRequest& wanted, const Form& form,
                                                      PhaseTimings* timings) {
  bool knows_choice = false;
  if (!wanted.options.caches_compiles()) return std::nullopt;
  const auto found = LookUp(wanted, form, &knows_choice);
  if (!found) return std::nullopt;
  auto kernel = Load(*found->bytes, wanted, form.draft, timings);
  if (!kernel.ok()) return std::nullopt;  // the upgrade counts it, and replaces it
  Remember({form.choice.address(), wanted.device}, *kernel);
  return LoadedKernel{*kernel, ResultOf(found->outcome)};
}

absl::StatusOr<LoadedKernel> KernelLoader::Obtain(const RequestContext& request,
                                                  const KernelRequest& wanted, const Form& form,
                                                  PhaseTimings* timings) {
  cache::Use use = wanted.options.caches_compiles() ? cache::Use::kReadAndKeep : cache::Use::kNone;
  for (;;) {
    const bool reads = use == cache::Use::kReadAndKeep;
    const int64_t begin_ns = NowNs();
    const auto made =
        (reads ? flights_ : anew_)
            .Do(form.choice.address(), request.limits(),
                [&](const WorkLimits& limits) { return Make(limits, wanted, form, use, timings); });
    if (made.waited) {
      metrics::FlightWait({form.stores.kernel})
          .Observe(static_cast<double>(NowNs() - begin_ns) * 1e-9);
    }
    UOPD_TRY(made.value.status());
    const cache::Loaded& loaded = **made.value;
    const bool computed = loaded.outcome == cache::LoadOutcome::kComputed;
    const bool built = !reads || (computed && !made.waited);
    auto kernel = Load(*loaded.bytes, wanted, form.draft, timings);
    if (kernel.ok()) {
      Remember({form.choice.address(), wanted.device}, *kernel);
      const CacheResult found = computed ? CacheResult::kShared : ResultOf(loaded.outcome);
      return LoadedKernel{*kernel, built ? CacheResult::kMiss : found};
    }
    if (built || absl::IsResourceExhausted(kernel.status())) return kernel.status();
    // The store has checked that the bytes are what was stored, but they are no usable kernel.
    // Replace them.
    Refuse(form.stores.kernel, KernelRecord::Decode(*loaded.bytes).status());
    UOPD_LOG(kWarn, "cached kernel is unusable, building it again", {"status", kernel.status()});
    use = cache::Use::kReplace;
  }
}

absl::StatusOr<cache::Loaded> KernelLoader::Make(const WorkLimits& limits,
                                                 const KernelRequest& wanted, const Form& form,
                                                 cache::Use use, PhaseTimings* timings) {
  bool knows_choice = false;
  if (use == cache::Use::kReadAndKeep) {
    if (auto found = LookUp(wanted, form, &knows_choice)) return *std::move(found);
  }
  const auto begin = std::chrono::steady_clock::now();
  UOPD_ASSIGN(const KernelSource source, Lower(limits, wanted, form, timings));
  const int64_t lowering_us = MicrosecondsSince(begin);
  const Digest digest = source.digest();
  const cache::Key key =
      KernelKey(form.stores, form.graph, wanted.device->device().target(), digest);
  const cache::LoadOptions load{.limits = limits,
                                .lease_ttl_us = lease_.ttl_us,
                                .owner = lease_.owner,
                                .patience = lease_.patience,
                                .patient = NobodyWaits(wanted.tier),
                                .use = use};
  UOPD_ASSIGN(cache::Loaded loaded,
              records_.LoadOrCompute(store_, key, load, [&](const WorkLimits& of_all) {
                return Compile(of_all, wanted, form, source, timings);
              }));
  if (use == cache::Use::kReadAndKeep && wanted.tier != Tier::kUpgrade && !knows_choice)
    CountLookup(form.stores.kernel, loaded.lookup);
  // Kept after the kernel, so that who finds a choice finds the kernel, too.
  if (use != cache::Use::kNone)
    store_.Put(form.choice, EncodeChoice(digest), lowering_us).IgnoreError();
  return loaded;
}

absl::Status KernelLoader::FailedBefore(const KernelRequest& wanted, const Form& form) const {
  if (!Remembers(wanted)) return absl::OkStatus();
  for (const FailureKind kind : {FailureKind::kUnsupported, FailureKind::kCompiler}) {
    if (auto failed = failures_->Find(kind, form.choice.address())) return *std::move(failed);
  }
  return absl::OkStatus();
}

void KernelLoader::RememberFailure(const KernelRequest& wanted, const Form& form,
                                   const absl::Status& status) const {
  const auto kind = KindOfCompileFailure(status);
  if (Remembers(wanted) && kind) failures_->Add(*kind, form.choice.address(), status);
}

absl::StatusOr<KernelSource> KernelLoader::Lower(const WorkLimits& limits,
                                                 const KernelRequest& wanted, const Form& form,
                                                 PhaseTimings* timings) const {
  UOPD_TRY(FailedBefore(wanted, form));
  Interrupt interrupt(limits);
  UOPD_TRY(interrupt.Check());
  const devices::Device& device = wanted.device->device();
  auto source = graph_compiler_.LowerKernel(wanted.graph, device, wanted.options, wanted.opts,
                                            form.draft, timings, &interrupt);
  if (source.ok()) return source;
  absl::Status failed = absl::IsUnimplemented(source.status())
                            ? WithFrame(source.status(), Cat("compiling for ", device.info().name))
                            : source.status();
  RememberFailure(wanted, form, failed);
  return failed;
}

absl::StatusOr<std::string> KernelLoader::Compile(const WorkLimits& limits,
                                                  const KernelRequest& wanted, const Form& form,
                                                  const KernelSource& source,
                                                  PhaseTimings* timings) const {
  ScopedPhase phase(Phase::kCompile, timings);
  KernelCompiler& compiler = NobodyWaits(wanted.tier) ? upgrade_compiler_ : compiler_;
  KernelRecord record = source.record;
  auto object =
      compiler.Compile(wanted.device->device(), record.name, source.text, limits, form.draft);
  if (!object.ok()) {
    RememberFailure(wanted, form, object.status());
    return object.status();
  }
  record.object = *std::move(object);
  if (wanted.tier != Tier::kUpgrade) metrics::KernelsCompiled().Increment();
  return record.Encode();
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
  kernel->gain = wanted.gain;
  kernel->draft = draft;
  static_cast<codegen::KernelInfo&>(*kernel) = std::move(record);
  kernel->use = wanted.device->UseOf(kernel->name);
  kernel->graph = wanted.graph;
  kernel->options = wanted.options;
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
