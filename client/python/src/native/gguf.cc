// SPDX-License-Identifier: MIT
// Headers of GGUF files.
#include "uopd/gguf.h"

#include "native/client.h"

namespace uopd::python {
namespace {

using client::GgufArray;
using client::GgufElements;
using client::GgufTensor;
using client::GgufValue;

// A new reference to what the functions of Python make, or their error.
nb::object Made(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

// Bytes that are no UTF-8 become what os.fsdecode() makes of them.
nb::object GgufText(std::string_view text) {
  return Made(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

nb::object GgufObject(const GgufValue& value);

// One list for each array: the elements become objects one by one. The depth is bounded by the
// parser.
nb::object GgufList(const GgufArray& array) {
  nb::object out = Made(PyList_New(static_cast<Py_ssize_t>(array.count)));
  GgufElements elements(array);
  for (Py_ssize_t i = 0; elements.left() > 0; ++i)
    PyList_SET_ITEM(out.ptr(), i, GgufObject(elements.Next()).release().ptr());
  return out;
}

nb::object GgufObject(const GgufValue& value) {
  return std::visit(
      [](auto v) -> nb::object {
        using T = decltype(v);
        if constexpr (std::is_same_v<T, uint64_t>)
          return Made(PyLong_FromUnsignedLongLong(v));
        else if constexpr (std::is_same_v<T, int64_t>)
          return Made(PyLong_FromLongLong(v));
        else if constexpr (std::is_same_v<T, double>)
          return Made(PyFloat_FromDouble(v));
        else if constexpr (std::is_same_v<T, bool>)
          return nb::bool_(v);
        else if constexpr (std::is_same_v<T, std::string_view>)
          return GgufText(v);
        else
          return GgufList(v);
      },
      value);
}

// The values by key, and (name, shape, number of the GGML type, first byte, last byte + 1) of each
// tensor. None: the header goes on behind `start`.
std::optional<std::pair<nb::dict, nb::list>> ParseHeader(nb::handle start, uint64_t file_bytes) {
  const Buffer buffer(start, false);
  const auto header = [&] {
    nb::gil_scoped_release no_gil;
    return client::ParseGguf({buffer.bytes().data(), buffer.bytes().size()}, file_bytes);
  }();
  if (absl::IsOutOfRange(header.status())) return std::nullopt;
  Check(header.status());
  std::pair<nb::dict, nb::list> out;
  for (const auto& entry : header->values) out.first[GgufText(entry.key)] = GgufObject(entry.value);
  const uint64_t data = header->data_start;
  for (const GgufTensor& t : header->tensors) {
    out.second.append(nb::make_tuple(
        GgufText(t.name), nb::tuple(nb::cast(std::vector<int64_t>(t.dims.begin(), t.dims.end()))),
        t.type->number, data + t.begin, data + t.end));
  }
  return out;
}

}  // namespace

void BindGguf(nb::module_& m) {
  m.def("gguf_parse", &ParseHeader);
  // (number, name, elements of a block, bytes of a block, dtype or None) of each type of elements.
  m.def("ggml_types", [] {
    nb::list out;
    for (const client::GgmlType& t : client::GgmlTypes()) {
      const nb::object dtype =
          t.dtype ? nb::cast(static_cast<int>(*t.dtype)) : nb::object(nb::none());
      out.append(
          nb::make_tuple(t.number, std::string(t.name), t.block_elements, t.block_bytes, dtype));
    }
    return out;
  });
}

}  // namespace uopd::python
