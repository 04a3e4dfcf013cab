// SPDX-License-Identifier: MIT
// ClientHandle: what Python holds of a client and its connection. Buffer: memory of Python's
// objects.
#pragma once
#include <memory>

#include "native/binding.h"
#include "uopd/connection.h"

namespace uopd::python {

// Other threads find it through the list of all boxes (client.cc).
struct Box {
  std::shared_ptr<client::Connection> connection;
  client::Client client;
  uint64_t epoch = Epoch();
};

struct ClientHandle {
  std::shared_ptr<Box> box;

  // Raises if it is closed, or belongs to the parent of a fork().
  client::Client& get() const {
    if (box == nullptr)
      throw StatusError{absl::FailedPreconditionError("the connection is closed")};
    if (box->epoch != Epoch()) {
      throw StatusError{
          absl::FailedPreconditionError("the connection belongs to the parent process")};
    }
    return box->client;
  }
  void Close();
  ~ClientHandle() { Close(); }
};

// The memory of a Python object that has the buffer protocol, row-major.
class Buffer {
 public:
  Buffer(nb::handle object, bool writable) {
    if (PyObject_GetBuffer(object.ptr(), &view_,
                           PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)) != 0) {
      throw nb::python_error();
    }
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::span<char> bytes() const {
    return {static_cast<char*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

}  // namespace uopd::python
