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
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::devices::dl {

// A driver's shared library, opened at run time. The daemon is never linked to it. It is never
// unloaded, because drivers do not survive unloading.
//
// Immutable and thread-safe after Open; copies are the same library.
class Library {
 public:
  // Opens the first of `files` that loads. A file is a path, or a name that is searched as the
  // dynamic linker does. UNAVAILABLE contains the linker's reason for each file.
  static absl::StatusOr<Library> Open(const std::vector<std::string>& files);

  // Null when the library has no such symbol.
  void* Find(const char* symbol) const;
  const std::string& file() const { return file_; }

 private:
  Library(void* handle, std::string file) : handle_(handle), file_(std::move(file)) {}
  void* handle_;  // the dynamic linker's handle; never closed
  std::string file_;
};

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
