// SPDX-License-Identifier: MIT
#include "tests/fuzz/compile_check.h"

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/render/formats.h"
#include "core/schedule/schedule.h"

namespace uopd::test {
namespace {

absl::Status Broken(const absl::Status& status, std::string_view where) {
  return absl::InternalError(Cat(StatusText(status), " (while ", where, ")"));
}

absl::Status CheckKernel(std::string_view graph, bool noopt) {
  ir::UOpContext ctx;
  const auto sink = ir::Decode(ctx, graph, ir::Level::kKernel);
  if (!sink.ok()) return Broken(sink.status(), "decoding a kernel");
  codegen::Options options;
  options.noopt = noopt;
  const auto lowered = codegen::Lower(ctx, *sink, Target(), options);
  if (absl::IsUnimplemented(lowered.status())) return lowered.status();
  if (!lowered.ok()) return Broken(lowered.status(), "lowering a kernel");
  const auto c = render::RenderC(ctx, lowered->linear, lowered->name, lowered->variables);
  if (!c.ok()) return Broken(c.status(), "rendering C");
  const auto llvm = render::RenderLlvmIr(ctx, lowered->linear, lowered->name, lowered->variables);
  return llvm.ok() ? absl::OkStatus() : Broken(llvm.status(), "rendering LLVM IR");
}

}  // namespace

absl::Status CheckCompile(std::string_view graph, const ir::WireLimits& limits) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kTensor, limits));
  const std::string canonical = ir::Encode(ctx, sink);
  ir::UOpContext again;
  const auto same = ir::Decode(again, canonical, ir::Level::kTensor);
  if (!same.ok()) return Broken(same.status(), "decoding the canonical form");
  if (ir::Encode(again, *same) != canonical)
    return absl::InternalError("the canonical form does not read back as itself");
  const auto schedule = schedule::MakeSchedule(ctx, sink, {});
  if (!schedule.ok()) {
    const bool placed =
        StatusText(schedule.status()).find("mixes values on") != std::string::npos ||
        StatusText(schedule.status()).find("of a value on") != std::string::npos ||
        StatusText(schedule.status()).find("MULTI") != std::string::npos;
    if (absl::IsUnimplemented(schedule.status()) ||
        (placed && absl::IsInvalidArgument(schedule.status())))
      return schedule.status();
    return Broken(schedule.status(), "scheduling");
  }
  const auto back = schedule::Schedule::Decode(schedule->Encode());
  if (!back.ok() || back->Encode() != schedule->Encode())
    return absl::InternalError("the schedule does not read back as itself");
  for (const schedule::Item& item : schedule->items) {
    if (item.kind != schedule::Item::kKernel) continue;
    for (bool noopt : {false, true}) UOPD_TRY(CheckKernel(item.graph, noopt));
  }
  return absl::OkStatus();
}

}  // namespace uopd::test
