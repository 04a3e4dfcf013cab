// SPDX-License-Identifier: MIT
// ClientHandle: what Python holds of a client and its connection.
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

}  // namespace uopd::python
