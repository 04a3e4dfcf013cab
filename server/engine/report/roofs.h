// SPDX-License-Identifier: MIT
// Measures how fast a device can be, once per daemon: the roof that the times of kernels are
// compared with.
//
// The measured kernels are compiled by the daemon itself, so every device with a renderer has
// roofs. Each is the best of several launches.
//   operations  the better of two kernels: one puts every element of an array that fits in the
//               second-level caches through 64 dependent multiply-adds, eight vectors at a time;
//               the other one is a product of two 512 x 512 matrices. Products of bf16 and f16 have
//               sums in f32, and are at least as fast as those of f32.
//   memory      the better of a sum and of an elementwise kernel that loads and stores: over four
//               times the largest cache, and over half of the second-level caches
// A device that reports no times of kernels has no roofs. Other work on the machine at the time of
// the measurement lowers a roof; it then stays too low until the daemon is restarted.
//
// Thread-safe.
#pragma once
#include <map>
#include <set>
#include <span>

#include "core/base/mutex.h"
#include "server/engine/base/run_report.h"
#include "server/engine/compile/compile_service.h"

namespace uopd::engine {

class Roofs {
 public:
  // All references outlive this object.
  Roofs(const GraphCompiler& graph_compiler, CompileService& compile)
      : graph_compiler_(graph_compiler), compile_(compile) {}

  // The roof of the device for these dtypes. What is not known yet is measured: up to a second, on
  // this thread, one measurement at a time. What cannot be measured is 0. A request that ends in
  // the middle gets what is known by then.
  Roof Get(const RequestContext& request, DeviceState& device, std::span<const DtypeNumber> dtypes)
      UOPD_EXCLUDES(mu_);

 private:
  struct Known {
    Roof roof;
    bool memory = false;           // the rates of memory are measured
    std::set<DtypeNumber> dtypes;  // the same for operations
  };
  struct Speed {
    double ops_per_s = 0, bytes_per_s = 0;
  };

  void MeasureMemory(const RequestContext& request, DeviceState& device, Roof& roof) const;
  double MeasureOps(const RequestContext& request, DeviceState& device, DtypeNumber dtype) const;
  // The speed of the only kernel of a graph. Its slot 0 is written, the others are read.
  absl::StatusOr<Speed> Measure(const RequestContext& request, DeviceState& device,
                                ir::UOpContext& ctx, ir::UOp store,
                                const std::vector<codegen::Opt>* opts) const;

  const GraphCompiler& graph_compiler_;
  CompileService& compile_;
  Mutex mu_;  // held while measuring
  std::map<const DeviceState*, Known> known_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
