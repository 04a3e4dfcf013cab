// SPDX-License-Identifier: MIT
#include "devices/dl/symbol_table.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace uopd::devices::dl {

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
