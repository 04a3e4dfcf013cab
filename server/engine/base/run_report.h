// SPDX-License-Identifier: MIT
// What a request wants to know about its run, and what it is told: the times of its kernels beside
// the least times that the device allows, and text for people (docs/debugging.md). Plain data.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/target/dtype_number.h"

namespace uopd::engine {

// The fastest that a device was seen to work (server/engine/report/roofs.h). 0: unknown.
struct Roof {
  std::map<DtypeNumber, double> ops_per_s;  // multiply and add count as two operations
  double memory_bytes_per_s = 0;            // data that are in no cache; loads plus stores
  double cache_bytes_per_s = 0;             // data of at most cache_bytes
  double cache_bytes = 0;

  // The least time of work in which `dtype` has most of the operations. 0: unknown.
  double LeastNs(DtypeNumber dtype, double flops, double bytes) const;
};

// One launch of a kernel.
struct KernelReport {
  std::string kernel, device, opts;
  double ns = 0;                // measured in this run
  double flops = 0, bytes = 0;  // as in codegen::LoweredKernel
  double roof_ns = 0;           // Roof::LeastNs
  bool draft = false;           // not optimised yet
};

struct RunReport {
  static constexpr size_t kMaxKernels = 4096;
  static constexpr size_t kMaxTextBytes = 1 << 20;

  // What is wanted.
  int debug = 0;         // DEBUG=1..7
  bool profile = false;  // `kernels`

  // Set before the run, by device name, for the dtypes of the program.
  std::map<std::string, Roof> roofs;

  bool ran = false;  // the fields below are set; a repeated request is not run again
  // Set after the run. Copies between devices are not among the kernels.
  std::vector<KernelReport> kernels;
  uint64_t left_out = 0;   // number of kernels after the first kMaxKernels
  double left_out_ns = 0;  // their time
  double kernels_ns = 0;   // sum over all kernels
  std::string text;        // for debug > 0

  // Appends whole lines as long as the text has at most kMaxTextBytes, and then no more. False: the
  // text is full.
  bool AddText(std::string_view lines);
  // Shortens the report to about `bytes` bytes of message.
  void Shorten(size_t bytes);

 private:
  bool full_ = false;
};

}  // namespace uopd::engine
