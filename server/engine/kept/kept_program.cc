// SPDX-License-Identifier: MIT
#include "server/engine/kept/kept_program.h"

#include <utility>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/schedule/kept/kept.h"
#include "core/schedule/prepare/round_products.h"
#include "server/engine/compile/schedule/schedule_target.h"
#include "server/engine/kept/sum_forms.h"

namespace uopd::engine {
namespace {

// What a preparation in the background needs until its end.
struct Preparing {
  RequestContext request;
  ProgramKey key;
  std::shared_ptr<const Program> undivided;
  std::string prologue, main;  // graphs, as bytes
  std::shared_ptr<KeptProgram> out;

  // `outcome`: what is counted.
  void Refuse(const absl::Status& why, const char* outcome = "none") const {
    metrics::KeptRuns({outcome}).Increment();
    UOPD_LOG(kInfo, "program keeps nothing", {"program", key.digest.Hex()}, {"why", why});
    out->state.store(KeptProgram::kRefused);
  }
};

// Fills in what the divided graph says about its slots. Null: no division pays.
absl::StatusOr<bool> Divide(Preparing& p, Graph& graph, const std::vector<bool>& stable,
                            int64_t max_bytes, DeviceSet& devices) {
  UOPD_TRY(graph.NeedNodes(p.request));
  UOPD_ASSIGN(p.out->device, devices.Get(ir::DeviceOf(graph.sink())));
  Interrupt interrupt(p.request.limits());
  const InterruptScope scope(graph.ctx(), interrupt);
  // Rounding comes first, so that rounded operands are among the values to keep.
  UOPD_ASSIGN(const ScheduleTarget target,
              ScheduleTargetOf(graph.ctx(), graph.sink(), devices, p.key.options));
  const ir::UOp rounded =
      schedule::RoundProducts(graph.ctx(), ir::Toposort(graph.ctx(), graph.sink()), target.options);
  UOPD_ASSIGN(const auto split,
              schedule::SplitKept(graph.ctx(), rounded, stable, p.out->device->device().target(),
                                  {.max_bytes = max_bytes}));
  if (!split) return false;
  p.out->first_slot = static_cast<size_t>(split->first_slot);
  p.out->bytes = split->bytes;
  p.prologue = ir::Encode(graph.ctx(), split->prologue);
  p.main = ir::Encode(graph.ctx(), split->main);
  return true;
}

absl::Status Complete(const Preparing& p) {
  KeptProgram& out = *p.out;
  const auto program = out.prologue->Get();
  for (size_t i = out.first_slot; i < program->slots.size(); ++i) {
    const ProgramSlot& slot = program->slots[i];
    if (slot.device != out.device || !slot.info.written)
      return absl::InternalError("a kept value has no slot");
    out.slot_bytes.push_back(slot.info.bytes);
  }
  const auto main = out.main->Get();
  const Program* const parts[] = {program.get(), main.get()};
  if (const std::string why = DifferentSums(*p.undivided, parts); !why.empty()) {
    p.Refuse(absl::FailedPreconditionError(Cat("another order of sums: ", why)), "refused");
    return absl::OkStatus();
  }
  UOPD_LOG(kInfo, "program keeps values", {"program", p.key.digest.Hex()},
           {"values", out.slot_bytes.size()}, {"bytes", out.bytes},
           {"steps", out.main->Get()->steps.size()});
  out.state.store(KeptProgram::kReady);
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<KeptProgram> KeptPrograms::Get(const Caller& caller, const ProgramKey& key,
                                               std::shared_ptr<const Program> undivided,
                                               const std::vector<bool>& stable, int64_t max_bytes) {
  auto preparing = std::make_shared<Preparing>();
  {
    MutexLock lock(mu_);
    std::weak_ptr<KeptProgram>& known = known_[{key, stable, max_bytes}];
    if (auto found = known.lock(); found != nullptr && !found->IsLost()) return found;
    preparing->out = std::make_shared<KeptProgram>();
    known = preparing->out;
    absl::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  }
  preparing->key = key;
  preparing->undivided = std::move(undivided);
  preparing->request.caller = caller;
  // Drafts would be slower than the undivided program.
  preparing->request.background = true;
  CompileService* const compile = &compile_;
  // The callbacks own `preparing`, and through it everything that they refer to.
  compile->WithGraph(
      caller, key.digest,
      [preparing, compile, stable, max_bytes,
       &devices = devices_](absl::StatusOr<std::unique_ptr<Graph>> graph) {
        if (!graph.ok()) return preparing->Refuse(graph.status());
        const auto divided = Divide(*preparing, **graph, stable, max_bytes, devices);
        if (!divided.ok()) return preparing->Refuse(divided.status());
        if (!*divided) {
          return preparing->Refuse(absl::FailedPreconditionError("no value is worth its memory"));
        }
        CompileOptions once = preparing->key.options;
        once.beam = 0;  // it runs too rarely to be worth tuning
        compile->Begin(
            preparing->request, {.graph = {.bytes = preparing->prologue}, .options = once},
            [preparing, compile](Preparation::Answer prologue) {
              if (!prologue.ok()) return preparing->Refuse(prologue.status());
              preparing->out->prologue = *std::move(prologue);
              compile->Begin(
                  preparing->request,
                  {.graph = {.bytes = preparing->main}, .options = preparing->key.options},
                  [preparing](Preparation::Answer main) {
                    if (!main.ok()) return preparing->Refuse(main.status());
                    preparing->out->main = *std::move(main);
                    absl::Status status = Complete(*preparing);
                    if (!status.ok()) preparing->Refuse(status);
                  });
            });
      });
  return preparing->out;
}

}  // namespace uopd::engine
