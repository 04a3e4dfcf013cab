// SPDX-License-Identifier: MIT
// Client: makes tensors and owns the connection to one daemon.
//
// There is no global state: a process may have any number of Clients. A Client and its tensors are
// used by one thread at a time. The memory of its graph does not grow however long it trains: after
// a Realize, nodes that no live tensor needs are dropped.
#pragma once
#include <map>
#include <memory>
#include <span>

#include "uopd/executor.h"
#include "uopd/options.h"
#include "uopd/tensor.h"

namespace uopd::client {

class GraphState;

class Client {
 public:
  // Connection::Connect (connection.h) makes an executor that calls a daemon.
  explicit Client(std::shared_ptr<Executor> executor, ClientOptions options = {});

  // A tensor with elements from host memory, row-major. INVALID_ARGUMENT if the number of elements
  // is wrong.
  template <class T>
  Tensor FromHost(std::span<const T> values, Dims dims, Site site = Site::current()) {
    return FromBytes(DtypeOf<T>(), std::move(dims),
                     {reinterpret_cast<const char*>(values.data()), values.size_bytes()}, site);
  }
  template <class T>
  Tensor FromHost(const std::vector<T>& values, Dims dims, Site site = Site::current()) {
    return FromHost(std::span<const T>(values), std::move(dims), site);
  }
  Tensor FromBytes(Dtype dtype, Dims dims, std::string_view bytes, Site site = Site::current());

  // Contents of a constant, row-major. The bytes stay where they are during the call.
  struct HostBytes {
    Dtype dtype = Dtype::F32;
    Dims dims;
    std::string_view bytes;
  };
  // Tensors that are read and not assigned, such as the weights of a model that is not trained. The
  // daemon keeps their contents by name, also for other clients who can prove that they have them.
  // What it has is not sent (docs/protocol.md, "Constants by content"). Waits until the daemon has
  // all of them; many at once cost fewer round trips. An assignment gives a constant other memory;
  // functions that are recorded cannot assign it. `device`: empty: that of new tensors.
  // INVALID_ARGUMENT: a number of elements is wrong.
  absl::StatusOr<std::vector<Tensor>> Constants(std::span<const HostBytes> contents,
                                                std::string_view device = {},
                                                Site site = Site::current());

  // Memory on the daemon to which nothing was written yet. It reads as zeros. It costs nothing
  // until a request uses it.
  Tensor Empty(Dims dims, Dtype dtype = Dtype::F32, Site site = Site::current());
  Tensor Full(Dims dims, Operand value, Dtype dtype = Dtype::F32, Site site = Site::current());
  // Empty and Full, of sizes that may be made of variables. The value may be a scalar tensor.
  Tensor EmptyOf(std::span<const Size> sizes, Dtype dtype = Dtype::F32,
                 Site site = Site::current());
  Tensor FullOf(std::span<const Size> sizes, Operand value, Dtype dtype = Dtype::F32,
                Site site = Site::current());
  Tensor Zeros(Dims dims, Dtype dtype = Dtype::F32, Site site = Site::current()) {
    return Full(std::move(dims), 0, dtype, site);
  }
  Tensor Ones(Dims dims, Dtype dtype = Dtype::F32, Site site = Site::current()) {
    return Full(std::move(dims), 1, dtype, site);
  }
  Tensor Arange(int64_t begin, int64_t end, int64_t step = 1, Dtype dtype = Dtype::I32,
                Site site = Site::current());
  // Arange, of sizes. The sign of the step must not depend on the values of its variables.
  Tensor ArangeOf(Size begin, Size end, Size step = 1, Dtype dtype = Dtype::I32,
                  Site site = Site::current());
  Tensor Eye(int64_t n, Dtype dtype = Dtype::F32, Site site = Site::current());
  // A scalar i64 whose value is not part of the graph. So steps that differ only in this value
  // share everything that the daemon prepared. Beside other tensors it is like a C++ integer: it
  // takes their dtype. Cast makes an ordinary tensor of it.
  Tensor Variable(const std::string& name, int64_t min, int64_t max, int64_t value,
                  Site site = Site::current());
  // A variable without a value. Shapes may be made of it; what is computed from it needs a value,
  // and is an error.
  Tensor UnboundVariable(const std::string& name, int64_t min, int64_t max,
                         Site site = Site::current());
  // A scalar float whose value is not part of the graph, for instance a learning rate.
  Tensor FloatVariable(const std::string& name, double value, Dtype dtype = Dtype::F32,
                       Site site = Site::current());

  // Begins the random stream of this seed. Tensors that were made before keep their numbers.
  void SetSeed(uint64_t seed);
  // Random numbers come from Threefry on the daemon. The key is the client's seed; the counters
  // follow the order of calls. The position in the stream is data and no part of the graph. All
  // random tensors are f32.
  Tensor Rand(Dims dims, Site site = Site::current());  // [0, 1)
  Tensor Uniform(Dims dims, double low, double high, Site site = Site::current());
  Tensor Randn(Dims dims, Site site = Site::current());
  // Weights of shape (out, in, ...).
  Tensor GlorotUniform(Dims dims, Site site = Site::current());
  Tensor KaimingUniform(Dims dims, double a = 0, Site site = Site::current());

  // Waits until everything that was submitted is done. Returns the first error that no other call
  // has returned.
  absl::Status Sync();
  // Ends everything of the connection that is not done yet with CANCELLED. May be called from any
  // thread.
  void Cancel();

  // What the client waits for, and whether the next call would have to wait for room; see Executor.
  // Both may be called from any thread.
  Progress progress(bool ask_daemon = true) const;
  bool WaitForRoom(absl::Duration time) const;

  // The switches of the requests of this thread to come; a Context (context.h) changes them.
  ExecutionOptions execution() const;
  const ClientStats& stats() const;
  Traffic traffic() const;
  size_t graph_nodes() const;  // nodes in the client's memory; for tests and diagnosis
  size_t graph_bytes() const;
  // The bytes of the buffers that the daemon has, by device; an empty name is its default one.
  // Buffers that no tensor needs any more are freed first.
  std::map<std::string, uint64_t> BufferBytes();

 private:
  friend class Context;
  friend class Recording;
  std::shared_ptr<GraphState> graph_;
};

}  // namespace uopd::client
