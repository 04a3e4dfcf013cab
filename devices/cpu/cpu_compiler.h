// SPDX-License-Identifier: MIT
// LLVM IR text -> ELF object bytes, optimised at O2. It needs no JIT: the bytes go to the cache and
// to CpuJit.
//
// Thread-safe; calls run in parallel. Each call has its own LLVMContext and borrows a TargetMachine
// for itself. Floating point is IEEE: nothing is contracted or reassociated unless flags in the
// text allow it. If LLVM cannot select an instruction, LLVM aborts the process. So text from
// outside is never compiled here.
#pragma once
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "devices/api/compiler.h"
#include "devices/cpu/cpu_target.h"

namespace llvm {
class TargetMachine;
}

namespace uopd::devices::cpu {

class CpuCompiler final : public Compiler {
 public:
  static absl::StatusOr<std::unique_ptr<CpuCompiler>> Create(CpuTarget target);
  ~CpuCompiler() override;

  const CpuTarget& target() const { return target_; }
  absl::StatusOr<std::string> Compile(std::string_view source) const override UOPD_EXCLUDES(mu_);
  // With few passes over the IR, and the code generator of Compile.
  absl::StatusOr<std::string> CompileDraft(std::string_view source) const override
      UOPD_EXCLUDES(mu_);
  bool makes_drafts() const override { return true; }

 private:
  using Machine = std::unique_ptr<llvm::TargetMachine>;
  explicit CpuCompiler(CpuTarget target);
  absl::StatusOr<std::string> Compile(std::string_view source, bool draft) const UOPD_EXCLUDES(mu_);
  absl::StatusOr<Machine> Borrow() const
      // A free list, because making a TargetMachine takes 0.3 ms.
      UOPD_EXCLUDES(mu_);

  const CpuTarget target_;
  mutable Mutex mu_;
  mutable std::vector<Machine> free_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices::cpu
