// SPDX-License-Identifier: MIT
// Links object bytes into this process (LLVM ORC), one library per kernel, and unlinks them again.
//
// Thread-safe; links one object at a time (about 0.1 ms each). Objects see CpuSymbols() and nothing
// else of the process.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/status.h"

namespace uopd::devices::cpu {

// void ENTRY(ptr %buffers, ptr %vars, i64 %thread): the ABI of every kernel, as cpu_device.h says.
using KernelEntry = void (*)(void* const* buffers, const int64_t* vars, int64_t thread);

class CpuJit {
 public:
  class Impl;
  // Linked code; unlinks and frees it when destroyed. REQUIRES: the CpuJit outlives it and nobody
  // runs the code.
  class Code {
   public:
    Code(Impl& jit, void* library, KernelEntry entry)
        : jit_(jit), library_(library), entry_(entry) {}
    ~Code();
    Code(const Code&) = delete;
    Code& operator=(const Code&) = delete;
    KernelEntry entry() const { return entry_; }

   private:
    Impl& jit_;
    void* const library_;
    const KernelEntry entry_;
  };

  static absl::StatusOr<std::unique_ptr<CpuJit>> Create();
  ~CpuJit();

  // INTERNAL when the bytes are no object of this machine, lack `entry`, or need a symbol that is
  // not in CpuSymbols().
  absl::StatusOr<std::unique_ptr<Code>> Load(const std::string& object, const std::string& entry);

 private:
  explicit CpuJit(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace uopd::devices::cpu
