// SPDX-License-Identifier: MIT
// The lock, the epoch, places in Python code, and waiting.
#include <atomic>
#include <future>
#include <unordered_map>

#include "client/cpp/graph/caller.h"
#include "native/binding.h"
#include "native/registry.h"

namespace uopd::python {
namespace {

std::atomic<uint64_t> epoch{1};

// Files by the object of their name, which is kept alive: Site::file lives as long as the process.
// "" marks files of this package. Used with the GIL.
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

nb::object& ProgressHook() {
  static auto* const hook = new nb::object(nb::none());
  return *hook;
}

namespace {

constexpr auto kSlice = absl::Milliseconds(50);
constexpr auto kShowAfter = absl::Milliseconds(500);

// A thread that waits. It tells the hook how long, again and again, and once that the wait is over.
class Waiting {
 public:
  Waiting() = default;
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    if (!told_) return;
    try {
      Tell(nb::none());
    } catch (nb::python_error&) {
      PyErr_SetInterrupt();  // a destructor cannot raise: Ctrl-C comes again
    }
  }
  // After a slice of the wait, also the last one. An exception of a signal's handler is raised,
  // others are not.
  void Tick() {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    const absl::Duration waited = absl::Now() - begin_;
    if (waited < kShowAfter || ProgressHook().is_none()) return;
    told_ = true;
    Tell(nb::float_(absl::ToDoubleSeconds(waited)));
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

 private:
  static void Tell(const nb::object& seconds) {
    try {
      const nb::object hook = ProgressHook();
      hook(seconds);
    } catch (nb::python_error& e) {
      if (e.matches(PyExc_KeyboardInterrupt)) throw;
      e.discard_as_unraisable("the display of progress");
    }
  }
  const absl::Time begin_ = absl::Now();
  bool told_ = false;
};

}  // namespace

void Wait(const client::Future& future) {
  const auto wait = [&](absl::Duration time) {
    nb::gil_scoped_release no_gil;
    return future.WaitFor(time);
  };
  Waiting waiting;
  try {
    for (bool done = false; !done; waiting.Tick()) done = wait(kSlice);
  } catch (nb::python_error&) {
    {
      // What the future writes into belongs to the caller. Parts of it may still be queued.
      nb::gil_scoped_release no_gil;
      do CancelAll();
      while (!future.WaitFor(kSlice));
    }
    ForgetCancelled();
    throw;
  }
  Check(future.Wait());
}

void WaitFor(const std::function<absl::Status()>& f) {
  client::Promise promise;
  auto done = std::async(std::launch::async, [&, caller = client::Caller::Current()] {
    const client::CallerScope scope(caller);
    std::scoped_lock lock(Mutex());
    promise.Set(f());
  });
  struct Join {
    std::future<void>& f;
    ~Join() {
      nb::gil_scoped_release no_gil;
      f.wait();
    }
  } join{done};
  Wait(promise.future());
}

void WaitForRoom() {
  if (AllHaveRoom(absl::ZeroDuration())) return;
  const auto wait = [] {
    nb::gil_scoped_release no_gil;
    return AllHaveRoom(kSlice);
  };
  Waiting waiting;
  try {
    for (bool room = false; !room; waiting.Tick()) room = wait();
  } catch (nb::python_error&) {
    {
      nb::gil_scoped_release no_gil;
      CancelAll();
    }
    ForgetCancelled();
    throw;
  }
}

}  // namespace uopd::python
