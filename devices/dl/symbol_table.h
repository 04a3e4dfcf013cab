// SPDX-License-Identifier: MIT
// A driver's functions as a struct of typed pointers, made from one list. To add a driver call, add
// one line to the list.
//
//   // devices/foo/foo_symbols.def
//   UOPD_SYM(fooInit, int, unsigned)           // must be there
//   UOPD_SYM_OPT(fooFancy, int, void*, size_t) // null in older drivers
//
//   struct FooApi {
//   #define UOPD_SYM UOPD_DL_POINTER
//   #define UOPD_SYM_OPT UOPD_DL_POINTER
//   #include "devices/foo/foo_symbols.def"
//   #undef UOPD_SYM
//   #undef UOPD_SYM_OPT
//   };
//
//   absl::StatusOr<FooApi> LoadFoo() {
//     UOPD_ASSIGN(dl::Library library, dl::Library::Open({"libfoo.so.2", "libfoo.so.1"}));
//     FooApi api;
//   #define UOPD_SYM UOPD_DL_REQUIRED
//   #define UOPD_SYM_OPT UOPD_DL_OPTIONAL
//     const std::vector<dl::SymbolSlot> slots = {
//   #include "devices/foo/foo_symbols.def"
//     };
//   #undef UOPD_SYM
//   #undef UOPD_SYM_OPT
//     UOPD_TRY(dl::LoadSymbols(library, slots));
//     return api;
//   }
//
// Drivers take `const FooApi&`, so that a test can hand them a table of its own functions.
#pragma once
#include <vector>

#include "core/base/status.h"
#include "devices/dl/library.h"

namespace uopd::devices::dl {

struct SymbolSlot {
  const char* name;
  void* pointer;  // address of the function pointer to fill
  bool required;
};

// Fills every slot. UNAVAILABLE names the library and the missing symbol.
absl::Status LoadSymbols(const Library& library, const std::vector<SymbolSlot>& slots);

}  // namespace uopd::devices::dl

#define UOPD_DL_POINTER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
#define UOPD_DL_REQUIRED(name, ...) ::uopd::devices::dl::SymbolSlot{#name, &api.name, true},
#define UOPD_DL_OPTIONAL(name, ...) ::uopd::devices::dl::SymbolSlot{#name, &api.name, false},
