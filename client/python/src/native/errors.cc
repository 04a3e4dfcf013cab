// SPDX-License-Identifier: MIT
// Errors: a status becomes the exception that uopd/errors.py registers for its code.
#include <array>

#include "absl/strings/match.h"
#include "native/binding.h"

namespace uopd::python {
namespace {

constexpr size_t kCodes = 17;
// Borrowed for ever: the module of the classes is never unloaded.
std::array<PyObject*, kCodes> classes{};
PyObject* class_of_jit = nullptr;  // for what a Jit refuses, which its text says first

bool IsOfJit(const absl::Status& status) {
  return class_of_jit != nullptr && absl::StartsWith(status.message(), "Jit: ") &&
         (absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status));
}

void Raise(const absl::Status& status) {
  const auto code = static_cast<size_t>(status.raw_code());
  PyObject* type = code < kCodes && classes[code] != nullptr ? classes[code] : PyExc_RuntimeError;
  if (IsOfJit(status)) type = class_of_jit;
  const std::string text = StatusText(status);
  PyErr_SetString(type, text.c_str());
}

}  // namespace

void BindErrors(nb::module_& m) {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const StatusError& e) {
      Raise(e.status);
    }
  });
  m.def("set_error_class", [](size_t code, nb::handle type) {
    if (code < kCodes) classes[code] = type.inc_ref().ptr();
  });
  m.def("set_jit_error_class", [](nb::handle type) { class_of_jit = type.inc_ref().ptr(); });
}

}  // namespace uopd::python
