// SPDX-License-Identifier: MIT
#include "devices/dl/symbol_table.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace uopd::devices::dl {

absl::StatusOr<Library> Library::Open(const std::vector<std::string>& files) {
  std::string reasons;
  for (const std::string& file : files) {
    // RTLD_LOCAL, because two drivers may bring different versions of the same library.
    if (void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return Library(handle, file);
    const char* reason = dlerror();
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", file, ": ",
                    reason != nullptr ? reason : "no reason given");
  }
  return absl::UnavailableError(absl::StrCat("The driver library does not load (", reasons, ")"));
}

void* Library::Find(const char* symbol) const { return dlsym(handle_, symbol); }

absl::Status LoadSymbols(const Library& library, const std::vector<SymbolSlot>& slots) {
  for (const SymbolSlot& slot : slots) {
    void* symbol = library.Find(slot.name);
    if (symbol == nullptr && slot.required) {
      return absl::UnavailableError(absl::StrCat("The driver library ", library.file(),
                                                 " has no symbol ", slot.name,
                                                 "; it is too old or too new"));
    }
    std::memcpy(slot.pointer, &symbol,
                sizeof symbol);  // POSIX: every function pointer has the size of void*
  }
  return absl::OkStatus();
}

}  // namespace uopd::devices::dl
