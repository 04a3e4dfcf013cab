// SPDX-License-Identifier: MIT
// What every file of the binding uses: the handle of a tensor, the lock, and Ops, which defines
// functions.
//
// A Client and its tensors are used by one thread at a time. So every call into the client library
// holds the one lock of this process (Locked). A thread that holds the lock never waits for the
// GIL: Locked gives the GIL up before it waits for the lock, and what runs under the lock does not
// touch Python.
//
// After fork() the child must not touch the parent's connections. Each handle knows the epoch, a
// number that fork() changes in the child, in which it was made. A handle of another epoch is
// refused, and its tensor is never destroyed.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/detail/nb_list.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/status.h"
#include "uopd/client.h"
#include "uopd/devices.h"
#include "uopd/future.h"
#include "uopd/tensor.h"

namespace uopd::python {

namespace nb = nanobind;
using client::Dims;
using client::Dtype;
using client::Operand;
using client::Site;
using client::Tensor;

std::mutex& Mutex();
uint64_t Epoch();

// Moves a value to where it is never destroyed: in the child of a fork() its client is the
// parent's.
template <class T>
void Abandon(T& value) {
  static_cast<void>(new (std::nothrow) T(std::move(value)));
}

// f() under the lock. Called with the GIL.
template <class F>
auto Locked(F&& f) {
  if (std::unique_lock lock(Mutex(), std::try_to_lock); lock.owns_lock()) return f();
  nb::gil_scoped_release no_gil;
  std::scoped_lock lock(Mutex());
  return f();
}
// The same for work that may take long: the GIL is free meanwhile.
template <class F>
auto LockedWithoutGil(F&& f) {
  nb::gil_scoped_release no_gil;
  std::scoped_lock lock(Mutex());
  return f();
}

// An error on its way to Python, where it becomes the exception of its code (uopd/errors.py).
struct StatusError {
  absl::Status status;
};
inline void Check(const absl::Status& status) {
  if (!status.ok()) throw StatusError{status};
}

// What Python holds of a tensor.
class Handle {
 public:
  Handle() = default;
  explicit Handle(Tensor tensor) : tensor_(std::move(tensor)), epoch_(Epoch()) {}
  Handle(const Handle& other)
      : tensor_(Locked([&] { return other.tensor_; })), epoch_(other.epoch_) {}
  Handle(Handle&& other) noexcept : tensor_(std::move(other.tensor_)), epoch_(other.epoch_) {}
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  const Tensor& tensor() const { return tensor_; }
  Tensor& tensor() { return tensor_; }
  void CheckEpoch() const {
    if (epoch_ == Epoch()) return;
    throw StatusError{
        absl::FailedPreconditionError("the tensor belongs to the session of the parent process: "
                                      "after fork() read it there, or pass it by value")};
  }

 private:
  Tensor tensor_;
  uint64_t epoch_ = 0;
};

// A handle or a Python number.
struct Arg {
  std::variant<double, int64_t, bool, const Handle*> value = 0.0;
  Operand At(Site site) const {
    return std::visit(
        [&](auto v) {
          if constexpr (std::is_same_v<decltype(v), const Handle*>)
            return Operand(v->tensor(), site);
          else
            return Operand(v, site);
        },
        value);
  }
};
// A number, or a scalar tensor that is made of variables.
inline client::Size SizeOf(const Arg& a) {
  if (auto* h = std::get_if<const Handle*>(&a.value)) return (*h)->tensor();
  if (auto* n = std::get_if<int64_t>(&a.value)) return *n;
  return static_cast<int64_t>(a.At({}).number());
}
// A handle or None, which stands for an empty tensor.
struct Maybe {
  const Handle* handle = nullptr;
  const Tensor& get() const {
    static const Tensor empty;
    return handle == nullptr ? empty : handle->tensor();
  }
};

// The line of Python code outside of this package that is running.
Site CallerSite();
// Waits with the GIL released. Ctrl-C cancels what every client of the process waits for, and
// raises.
void Wait(const client::Future& future);
// The same for work that may wait inside of the client library: f() runs under the lock on a thread
// of its own.
void WaitFor(const std::function<absl::Status()>& f);
// Waits until every client has room for another call, so that the call does not wait under the
// lock, where Ctrl-C cannot reach it.
void WaitForRoom();
void CancelAll();

inline std::vector<Tensor> Tensors(const std::vector<const Handle*>& handles) {
  std::vector<Tensor> out;
  for (const Handle* h : handles) out.push_back(h->tensor());
  return out;
}

namespace internal {

inline absl::Status StatusOf(const Tensor& t) {
  UOPD_TRY(t.status());
  return client::CheckDevices(t);
}
inline absl::Status StatusOf(const absl::Status& s) { return s; }
inline absl::Status StatusOf(const std::vector<Tensor>& all) {
  for (const Tensor& t : all) UOPD_TRY(StatusOf(t));
  return absl::OkStatus();
}
template <class... T>
absl::Status StatusOf(const std::tuple<T...>& all) {
  return StatusOf(std::apply([](const auto&... t) { return std::vector<Tensor>{t...}; }, all));
}
inline absl::Status StatusOf(const std::pair<Tensor, Tensor>& p) {
  UOPD_TRY(StatusOf(p.first));
  return StatusOf(p.second);
}

inline Handle ToPython(Tensor t) { return Handle(std::move(t)); }
inline void ToPython(const absl::Status&) {}
inline std::vector<Handle> ToPython(std::vector<Tensor> all) {
  std::vector<Handle> out;
  out.reserve(all.size());
  for (Tensor& t : all) out.emplace_back(std::move(t));
  return out;
}
inline std::pair<Handle, Handle> ToPython(std::pair<Tensor, Tensor> p) {
  return {Handle(std::move(p.first)), Handle(std::move(p.second))};
}
template <class... T>
auto ToPython(std::tuple<T...> all) {
  return std::apply([](auto&... t) { return std::tuple{Handle(std::move(t))...}; }, all);
}

// An operation that has nothing to do returns its operand. Python gets another tensor: an
// assignment to one must not change the other. Views of the whole (x[:]) are other tensors already.
template <class T>
void Part(Tensor& result, const T& argument) {
  if constexpr (std::is_same_v<T, Handle>) {
    if (result.state() == argument.tensor().state()) result = result.Snapshot();
  } else if constexpr (std::is_same_v<T, Arg>) {
    if (auto* h = std::get_if<const Handle*>(&argument.value)) Part(result, **h);
  } else if constexpr (std::is_same_v<T, std::vector<const Handle*>>) {
    for (const Handle* h : argument) Part(result, *h);
  }
}
template <class T>
void Part(std::vector<Tensor>& results, const T& argument) {
  for (Tensor& t : results) Part(t, argument);
}
template <class T>
void Part(std::pair<Tensor, Tensor>& results, const T& argument) {
  Part(results.first, argument);
  Part(results.second, argument);
}
template <class... R, class T>
void Part(std::tuple<R...>& results, const T& argument) {
  std::apply([&](auto&... t) { (Part(t, argument), ...); }, results);
}
template <class T>
void Part(absl::Status&, const T&) {}

template <class T>
void CheckOwn(const T& argument) {
  if constexpr (std::is_same_v<T, Handle>)
    argument.CheckEpoch();
  else if constexpr (std::is_same_v<T, Maybe>) {
    if (argument.handle != nullptr) argument.handle->CheckEpoch();
  } else if constexpr (std::is_same_v<T, Arg>) {
    if (auto* h = std::get_if<const Handle*>(&argument.value)) (*h)->CheckEpoch();
  } else if constexpr (std::is_same_v<T, std::vector<const Handle*>>) {
    for (const Handle* h : argument) h->CheckEpoch();
  } else if constexpr (std::is_same_v<T, std::vector<Arg>>) {
    for (const Arg& a : argument) CheckOwn(a);
  }
}

}  // namespace internal

// Defines functions of the module. f takes the Site of the caller first, then arguments from
// Python, and gives tensors. It runs under the lock; an error of its result is raised.
class Ops {
 public:
  explicit Ops(nb::module_& module) : module_(module) {}
  nb::module_& module() { return module_; }
  template <class F>
  Ops& operator()(const char* name, F f) {
    return Define(name, f, &F::operator());
  }

 private:
  template <class F, class R, class... A>
  Ops& Define(const char* name, F f, R (F::*)(Site, A...) const) {
    module_.def(name, [f](A... a) {
      (internal::CheckOwn(a), ...);
      const Site site = CallerSite();
      absl::Status status;
      std::optional<R> result = Locked([&]() -> std::optional<R> {
        const client::SiteScope scope(site);
        R r = f(site, a...);
        status = internal::StatusOf(r);
        if (!status.ok()) return std::nullopt;  // destroyed under the lock
        (internal::Part(r, a), ...);
        return r;
      });
      Check(status);
      return internal::ToPython(std::move(*result));
    });
    return *this;
  }

  nb::module_& module_;
};

void BindErrors(nb::module_& m);
void BindClient(nb::module_& m);
void BindTensor(nb::module_& m);
void BindElementwise(Ops op);
void BindMovement(Ops op);
void BindReductions(Ops op);
void BindNetwork(Ops op);
void BindLosses(Ops op);
void BindLinalg(Ops op);
void BindNn(Ops op);
void BindIndexing(Ops op);
void BindCreation(Ops op);
void BindOptimizers(nb::module_& m);
void BindFiles(nb::module_& m);
void BindGguf(nb::module_& m);
void BindOnnx(nb::module_& m);
void BindTuning(nb::module_& m);
void BindJit(nb::module_& m);

}  // namespace uopd::python

namespace nanobind::detail {

template <>
struct type_caster<uopd::ir::Dims> : list_caster<uopd::ir::Dims, int64_t> {};

template <>
struct type_caster<uopd::python::Arg> {
  NB_TYPE_CASTER(uopd::python::Arg, const_name("Handle | bool | int | float"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    PyObject* o = source.ptr();
    if (PyBool_Check(o)) {
      value.value = o == Py_True;
    } else if (PyLong_Check(o)) {
      const int64_t v = PyLong_AsLongLong(o);
      if (v == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        return false;
      }
      value.value = v;
    } else if (PyFloat_Check(o)) {
      value.value = PyFloat_AsDouble(o);
    } else if (inst_check(source) && type_check(source.type())) {
      uopd::python::Handle* h = nullptr;
      if (!nb_try_cast(source, &h)) return false;
      value.value = h;
    } else {
      return false;
    }
    return true;
  }
  static bool nb_try_cast(handle source, uopd::python::Handle** h) {
    return try_cast(source, *h) && *h != nullptr;
  }
  static handle from_cpp(const uopd::python::Arg&, rv_policy, cleanup_list*) noexcept { return {}; }
};

// Without it nanobind refuses None before it asks the caster.
template <>
struct has_arg_defaults<uopd::python::Maybe> : std::true_type {};

template <>
struct type_caster<uopd::python::Maybe> {
  NB_TYPE_CASTER(uopd::python::Maybe, const_name("Handle | None"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    value.handle = nullptr;
    if (source.is_none()) return true;
    uopd::python::Handle* h = nullptr;
    if (!try_cast(source, h) || h == nullptr) return false;
    value.handle = h;
    return true;
  }
  static handle from_cpp(const uopd::python::Maybe&, rv_policy, cleanup_list*) noexcept {
    return {};
  }
};

}  // namespace nanobind::detail
