// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_jit.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/TaskDispatch.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "devices/cpu/cpu_symbols.h"

namespace uopd::devices::cpu {

namespace orc = llvm::orc;

namespace {

absl::Status LoadError(const std::string& entry, const std::string& what) {
  return absl::InternalError(
      absl::StrCat("The object of kernel ", entry, " does not load: ", what));
}

}  // namespace

class CpuJit::Impl {
 public:
  explicit Impl(std::unique_ptr<orc::ExecutorProcessControl> process)
      : session_(std::move(process)),
        layer_(session_),
        symbols_(session_.createBareJITDylib("symbols")) {
    session_.setErrorReporter([this](llvm::Error error)
                                  UOPD_REQUIRES(mu_) { AddError(std::move(error)); });
  }

  ~Impl() { llvm::consumeError(session_.endSession()); }

  absl::Status DefineSymbols() UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    orc::SymbolMap map;
    for (const CpuSymbol& symbol : CpuSymbols()) {
      known_.insert(symbol.name);
      map[session_.intern(symbol.name)] = {
          orc::ExecutorAddr::fromPtr(symbol.address),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    }
    if (llvm::Error error = symbols_.define(orc::absoluteSymbols(std::move(map)))) {
      return absl::InternalError("ORC takes no symbols: " + llvm::toString(std::move(error)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Code>> Load(const std::string& object, const std::string& entry)
      UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    UOPD_ASSIGN(const size_t bytes, CheckObject(object, entry));
    errors_.clear();
    orc::JITDylib& library = session_.createBareJITDylib(absl::StrCat("kernel", loads_++));
    library.addToLinkOrder(symbols_);
    llvm::Error error = layer_.add(
        library,
        llvm::MemoryBuffer::getMemBuffer(object, "kernel", /*RequiresNullTerminator=*/false));
    if (!error) {
      // Links at once: the session's dispatcher runs everything on this thread.
      auto symbol = session_.lookup({&library}, session_.intern(entry));
      if (symbol) {
        return std::make_unique<Code>(*this, &library, symbol->getAddress().toPtr<KernelEntry>(),
                                      bytes);
      }
      error = symbol.takeError();
    }
    AddError(std::move(error));
    Remove(library);
    return LoadError(entry, errors_);
  }

  void Unload(void* library) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    Remove(*static_cast<orc::JITDylib*>(library));
  }

 private:
  void AddError(llvm::Error error) UOPD_REQUIRES(mu_) {
    absl::StrAppend(&errors_, errors_.empty() ? "" : "; ", llvm::toString(std::move(error)));
  }

  void Remove(orc::JITDylib& library) UOPD_REQUIRES(mu_) {
    if (llvm::Error error = session_.removeJITDylib(library)) AddError(std::move(error));
    session_.getSymbolStringPool()->clearDeadEntries();  // else all names stay for ever
  }

  // Checks an object before ORC links it, because ORC's own errors do not name the missing symbol
  // where one looks for it. Returns the size of the entry's code.
  absl::StatusOr<size_t> CheckObject(const std::string& object, const std::string& entry) const
      UOPD_REQUIRES(mu_) {
    auto file =
        llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernel"));
    if (!file) return LoadError(entry, llvm::toString(file.takeError()));
    if (!(*file)->isRelocatableObject() ||
        (*file)->getArch() != llvm::Triple(llvm::sys::getProcessTriple()).getArch()) {
      return LoadError(entry, "it is no relocatable object of this machine");
    }
    bool has_entry = false;
    size_t bytes = 0;
    std::string missing;
    for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
      auto flags = symbol.getFlags();
      auto name = symbol.getName();
      if (!flags) return LoadError(entry, llvm::toString(flags.takeError()));
      if (!name) return LoadError(entry, llvm::toString(name.takeError()));
      if (*flags & llvm::object::SymbolRef::SF_FormatSpecific) continue;
      if (!(*flags & llvm::object::SymbolRef::SF_Undefined)) {
        if (*name != entry) continue;
        has_entry = true;
        bytes = llvm::object::ELFSymbolRef(symbol).getSize();
      } else if (!known_.contains(name->str()) &&
                 *name != "_GLOBAL_OFFSET_TABLE_") {  // the linker makes this symbol
        absl::StrAppend(&missing, missing.empty() ? "" : ", ", name->str());
      }
    }
    if (!missing.empty())
      return LoadError(entry, absl::StrCat("it needs symbols that kernels may not use: ", missing));
    if (!has_entry) return LoadError(entry, "it does not define that symbol");
    return bytes;
  }

  Mutex mu_;
  absl::flat_hash_set<std::string> known_ UOPD_GUARDED_BY(mu_);
  std::string errors_ UOPD_GUARDED_BY(mu_);  // of the load in progress
  int64_t loads_ UOPD_GUARDED_BY(mu_) = 0;
  orc::ExecutionSession session_;
  orc::ObjectLinkingLayer layer_;
  orc::JITDylib& symbols_;
};

CpuJit::Code::~Code() { jit_.Unload(library_); }

CpuJit::CpuJit(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CpuJit::~CpuJit() = default;

absl::StatusOr<std::unique_ptr<CpuJit>> CpuJit::Create() {
  auto process = orc::SelfExecutorProcessControl::Create(
      nullptr, std::make_unique<orc::InPlaceTaskDispatcher>());
  if (!process)
    return absl::InternalError("ORC does not start: " + llvm::toString(process.takeError()));
  auto impl = std::make_unique<Impl>(std::move(*process));
  UOPD_TRY(impl->DefineSymbols());
  return std::unique_ptr<CpuJit>(new CpuJit(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<CpuJit::Code>> CpuJit::Load(const std::string& object,
                                                           const std::string& entry) {
  return impl_->Load(object, entry);
}

}  // namespace uopd::devices::cpu
