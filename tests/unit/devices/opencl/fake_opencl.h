// SPDX-License-Identifier: MIT
// A driver of OpenCL for tests of errors: one device of one platform, whose commands are done when
// their call returns. Kernels do nothing. A test chooses the facts of the device and which calls
// fail.
//
// There is one such driver in the process; Reset makes it new. One test uses it at a time; the
// streams of that test may call it from their threads.
#pragma once
#include <map>
#include <set>
#include <string>

#include "core/base/mutex.h"
#include "devices/opencl/opencl_symbols.h"

namespace uopd::devices::opencl::tests {

// What a program, kernel, event and so on is: a number, so that a handle that is used after its
// release is found.
struct FakeDriver {
  Mutex mu;
  int platforms UOPD_GUARDED_BY(mu) = 1;
  std::map<ClUint, std::string> texts UOPD_GUARDED_BY(mu);
  std::map<ClUint, uint64_t> numbers UOPD_GUARDED_BY(mu);
  std::map<std::string, ClInt> failures UOPD_GUARDED_BY(mu);  // by call; "clSVMAlloc" gives null
  ClInt event_status UOPD_GUARDED_BY(mu) = kClComplete;
  int kernel_arguments UOPD_GUARDED_BY(mu) = 1;
  std::string build_options UOPD_GUARDED_BY(mu);
  std::multiset<std::string> live UOPD_GUARDED_BY(mu);  // objects that are not released

  void Reset() UOPD_EXCLUDES(mu);
  void SetText(ClUint fact, std::string text) UOPD_EXCLUDES(mu);
  void SetNumber(ClUint fact, uint64_t number) UOPD_EXCLUDES(mu);
  void Fail(const std::string& call, ClInt code) UOPD_EXCLUDES(mu);  // kClSuccess: no more
  void SetEventStatus(ClInt status) UOPD_EXCLUDES(mu);
  std::multiset<std::string> Live() UOPD_EXCLUDES(mu);
  std::string BuildOptions() UOPD_EXCLUDES(mu);
  void SetPlatforms(int count) UOPD_EXCLUDES(mu);
  void SetKernelArguments(int count) UOPD_EXCLUDES(mu);
};

FakeDriver& Fake();
// The table of its functions.
const OpenClApi& FakeApi();

}  // namespace uopd::devices::opencl::tests
