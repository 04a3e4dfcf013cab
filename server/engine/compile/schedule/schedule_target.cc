// SPDX-License-Identifier: MIT
#include "server/engine/compile/schedule/schedule_target.h"

#include <map>
#include <span>

#include "core/base/text.h"
#include "core/ir/graph.h"

namespace uopd::engine {

namespace {

std::string Names(std::span<const DtypeNumber> dtypes) {
  std::string out;
  for (const DtypeNumber dtype : dtypes) Append(out, out.empty() ? "" : ",", Name(dtype));
  return out;
}

}  // namespace

std::string ScheduleTarget::Text() const {
  const schedule::KernelLimits& limits = options.limits;
  std::string out = Cat("default=", options.default_device, " threads=", limits.threads,
                        " kernel_buffers=", limits.max_buffers, " cache_bytes=", limits.cache_bytes,
                        " kernel_instructions=", limits.max_instructions,
                        " kernel_loops=", limits.max_loops, " factors=", limits.factors.bits(),
                        " stage_bytes=", limits.stage_bytes, " units=", limits.units);
  if (limits.warp_products) out += " warp_products=1";
  if (limits.speeds != (limits.units > 0 ? Speeds::OfGpu() : Speeds()))
    Append(out, " speeds=", limits.speeds.Text());
  for (const auto& [name, other] : others) {
    if (other.threads != limits.threads) Append(out, " ", name, ".threads=", other.threads);
    if (other.units != limits.units) Append(out, " ", name, ".units=", other.units);
    if (other.max_buffers != limits.max_buffers)
      Append(out, " ", name, ".kernel_buffers=", other.max_buffers);
    if (other.cache_bytes != limits.cache_bytes)
      Append(out, " ", name, ".cache_bytes=", other.cache_bytes);
    if (other.max_instructions != limits.max_instructions)
      Append(out, " ", name, ".kernel_instructions=", other.max_instructions);
    if (other.max_loops != limits.max_loops)
      Append(out, " ", name, ".kernel_loops=", other.max_loops);
    if (other.stage_bytes != limits.stage_bytes)
      Append(out, " ", name, ".stage_bytes=", other.stage_bytes);
    if (other.warp_products != limits.warp_products)
      Append(out, " ", name, ".warp_products=", other.warp_products ? 1 : 0);
    if (other.speeds != limits.speeds) Append(out, " ", name, ".speeds=", other.speeds.Text());
    if (other.factors != limits.factors) Append(out, " ", name, ".factors=", other.factors.bits());
  }
  if (options.allowed_products == DtypeNumberSet()) return out;
  std::vector<DtypeNumber> allowed;
  for (const DtypeNumber dtype : {DtypeNumber::BF16, DtypeNumber::F16, DtypeNumber::TF32}) {
    if (options.allowed_products.Has(dtype)) allowed.push_back(dtype);
  }
  Append(out, " allow=", Names(allowed), " products=", Names(limits.product_dtypes));
  for (const auto& [name, other] : others) {
    if (other.product_dtypes != limits.product_dtypes)
      Append(out, " ", name, ".products=", Names(other.product_dtypes));
  }
  return out;
}

absl::StatusOr<ScheduleTarget> OnlyScheduleTarget(DeviceSet& devices,
                                                  const CompileOptions& options) {
  ScheduleTarget out;
  out.options.default_device = devices.names().front();
  out.options.allowed_products = options.allowed_products();
  // A graph may name other devices only. One that needs the default device fails when its kernels
  // are made, with the reason why the device does not open.
  const auto device = devices.Get("");
  if (device.ok()) out.options.limits = schedule::KernelLimits::Of((*device)->device().target());
  return out;
}

absl::StatusOr<ScheduleTarget> ScheduleTargetOf(const ir::UOpContext& ctx, ir::UOp sink,
                                                DeviceSet& devices, const CompileOptions& options) {
  UOPD_ASSIGN(ScheduleTarget out, OnlyScheduleTarget(devices, options));
  std::map<std::string, schedule::KernelLimits> others;
  std::string_view last;  // most graphs name one device, many times
  for (ir::UOp u : ir::Toposort(ctx, sink)) {
    if (!u.Is({ir::Op::PARAM, ir::Op::COPY}) || u.text().empty() || u.text() == last) continue;
    last = u.text();
    const auto device = devices.Get(last);
    if (!device.ok()) continue;
    const schedule::KernelLimits limits = schedule::KernelLimits::Of((*device)->device().target());
    if (limits == out.options.limits) continue;
    out.options.limits_of.emplace(last, limits);
    others.emplace((*device)->name(), limits);
  }
  out.others.assign(others.begin(), others.end());
  return out;
}

}  // namespace uopd::engine
