// SPDX-License-Identifier: MIT
// The lock, the epoch, places in Python code, and waiting.
#include <atomic>
#include <unordered_map>

#include "native/binding.h"
#include "native/registry.h"

namespace uopd::python {
namespace {

std::atomic<uint64_t> epoch{1};

// Files by the object of their name, which is kept alive: Site::file lives as long as the process. "" marks files
// of this package. Used with the GIL.
const char* FileOf(PyCodeObject* code) {
  static auto* const files = new std::unordered_map<PyObject*, const char*>;
  PyObject* name = code->co_filename;
  auto [it, added] = files->try_emplace(name, nullptr);
  if (added) {
    Py_INCREF(name);
    const char* text = PyUnicode_AsUTF8(name);
    if (text == nullptr) PyErr_Clear();
    const std::string path = text == nullptr ? "" : text;
    it->second =
        PackageFolder().empty() || path.starts_with(PackageFolder()) || text == nullptr ? "" : text;
  }
  return it->second;
}

}  // namespace

std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}
uint64_t Epoch() { return epoch.load(std::memory_order_relaxed); }
void NewEpoch() { epoch.fetch_add(1); }

std::string& PackageFolder() {
  static auto* const folder = new std::string;
  return *folder;
}

Handle::~Handle() {
  if (tensor_.state() == nullptr) return;
  if (epoch_ != Epoch()) {
    Abandon(tensor_);
    return;
  }
  Locked([&] { tensor_ = Tensor(); });
}

Site CallerSite() {
  Site site{"", 0};
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = FileOf(code);
    Py_DECREF(code);
    if (*file != '\0') {
      site = {file, static_cast<uint32_t>(PyFrame_GetLineNumber(frame))};
      break;
    }
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return site;
}

void Wait(const client::Future& future) {
  constexpr auto kSlice = absl::Milliseconds(50);
  for (;;) {
    bool done = false;
    {
      nb::gil_scoped_release no_gil;
      done = future.WaitFor(kSlice);
    }
    if (done) break;
    if (PyErr_CheckSignals() != 0) {
      {
        nb::gil_scoped_release no_gil;
        CancelAll();
        (void)future.Wait();  // what it writes into belongs to the caller
      }
      throw nb::python_error();
    }
  }
  Check(future.Wait());
}

}  // namespace uopd::python
