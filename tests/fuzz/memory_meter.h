// SPDX-License-Identifier: MIT
// The most memory that this thread held through operator new since a meter was made.
//
// The program that links memory_meter.cc counts what its threads allocate and free; under
// sanitizers, which have allocators of their own, it counts nothing.
#pragma once

namespace uopd::test {

class MemoryMeter {
 public:
  MemoryMeter();
  double peak() const;  // bytes

 private:
  double before_;
};

}  // namespace uopd::test
