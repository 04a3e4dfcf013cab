// SPDX-License-Identifier: MIT
// Links object bytes into this process (LLVM ORC), one library per kernel, and unlinks them again.
//
// Thread-safe. One object is linked at a time (about 0.1 ms each). Objects see the functions of
// CpuSymbols() and nothing else of the process.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/status.h"

namespace uopd::devices::cpu {

// void ENTRY(ptr %buffers, ptr %vars, i64 %thread): the ABI of every kernel (cpu_device.h).
using KernelEntry = void (*)(void* const* buffers, const int64_t* vars, int64_t thread);

class CpuJit {
 public:
  class Impl;
  // Linked code. The destructor unlinks and frees it. REQUIRES: the CpuJit outlives the Code, and
  // nobody runs the code any more.
  class Code {
   public:
    Code(Impl& jit, void* library, KernelEntry entry, size_t bytes)
        : jit_(jit), library_(library), entry_(entry), bytes_(bytes) {}
    ~Code();
    Code(const Code&) = delete;
    Code& operator=(const Code&) = delete;
    KernelEntry entry() const { return entry_; }
    // The instructions of the entry.
    std::span<const uint8_t> bytes() const {
      return {reinterpret_cast<const uint8_t*>(entry_), bytes_};
    }

   private:
    Impl& jit_;
    void* const library_;
    const KernelEntry entry_;
    const size_t bytes_;
  };

  static absl::StatusOr<std::unique_ptr<CpuJit>> Create();
  ~CpuJit();

  // INTERNAL: the bytes are no object for this machine, do not define `entry`, or need a symbol
  // that is not in CpuSymbols().
  absl::StatusOr<std::unique_ptr<Code>> Load(const std::string& object, const std::string& entry);

 private:
  explicit CpuJit(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace uopd::devices::cpu
