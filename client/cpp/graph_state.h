// SPDX-License-Identifier: MIT
// GraphState: what all tensors of one Client share, that is the UOpContext, the live tensors, the
// buffers, and the connection to the daemon. Internal to the library.
//
// Owned jointly by the Client and its tensors, so either may be destroyed first. Used by one thread
// at a time.
//
// Invariants
//   (1) Every node below a tensor's uop passed VerifyNode; a tensor with an error has no uop.
//   (2) A realised tensor's uop is stored: a BUFFER whose slot number is its number in buffers_, or
//       a MULTI of such; every buffer in buffers_ is reachable from a live tensor or will be freed
//       with the next Execute.
//   (3) UOps are held by live tensors only, so the context can be replaced by a copy of what they
//       reach (Compact).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/cpp/buffer_table.h"
#include "client/cpp/executor.h"
#include "client/cpp/normalize.h"
#include "client/cpp/options.h"
#include "core/base/digest.h"
#include "core/ir/analysis/layout.h"
#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::client {

class GraphState;
struct Exported;

// True if u is a BUFFER or a MULTI of BUFFERs. NumbersOf returns the slot numbers of these BUFFERs.
bool IsStored(ir::UOp u);
std::vector<uint64_t> NumbersOf(ir::UOp stored);

struct TensorState : std::enable_shared_from_this<TensorState> {
  explicit TensorState(std::shared_ptr<GraphState> g);
  ~TensorState();
  TensorState(const TensorState&) = delete;
  TensorState& operator=(const TensorState&) = delete;

  std::shared_ptr<GraphState> graph;  // null: an error that belongs to no client
  absl::Status error;                 // the first error
  ir::UOp uop;                        // null if error
  ir::Dims dims;                      // the largest values of symbolic dimensions
  bool symbolic = false;
  ir::Dtype dtype = ir::Dtype::F32;
  std::string device;  // empty: the daemon's default, or the value is in pieces
  // The stored value that Assign should overwrite; null if there is none. A partial assignment
  // (AssignNarrow) is AFTER(replaces, STORE(SHRINK(replaces), value)). Normalize decides whether it
  // happens in place.
  ir::UOp replaces;
  std::string host;  // the contents, if has_host
  bool has_host = false;
  bool requires_grad = false;
  std::shared_ptr<TensorState> grad;

  TensorState* newer = nullptr;  // list of live tensors, oldest first
  TensorState* older = nullptr;
};

class GraphState : public std::enable_shared_from_this<GraphState> {
 public:
  GraphState(std::shared_ptr<Executor> executor, ClientOptions options);

  ir::UOpContext& ctx() { return *ctx_; }
  const ClientOptions& options() const { return options_; }
  v1::Options& execution() { return options_.execution; }  // of the requests to come
  const ClientStats& stats() const { return stats_; }
  const Executor& executor() const { return *executor_; }

  // The state of a new tensor of value u. It carries an error if u or a node below it does not
  // verify.
  std::shared_ptr<TensorState> NewTensor(ir::UOp u, std::string device);
  // A tensor with a buffer of its own. The buffer will be filled with `bytes`.
  std::shared_ptr<TensorState> NewInput(ir::Dtype dtype, ir::Dims dims, std::string device,
                                        std::string bytes);
  // Verifies the nodes that were made since the last call. Returns the error of u, if it has one.
  absl::Status Verified(ir::UOp u);
  // The devices and pieces of u, as far as the client knows them: a device without a name is the
  // daemon's default. REQUIRES: u is verified.
  const ir::Layout& LayoutOf(ir::UOp u);
  bool InPieces(ir::UOp u) { return multi_ && LayoutOf(u).pieces; }
  // The value of u as a new node that is equal to no other node.
  ir::UOp Distinct(ir::UOp u);
  ir::UOp NewBuffer(ir::Dtype dtype, const ir::Dims& dims, std::string_view device, uint64_t bytes);
  // A tensor of zeros with a buffer of its own.
  std::shared_ptr<TensorState> NewZeros(ir::Dtype dtype, const ir::Dims& dims, std::string device,
                                        uint64_t bytes);

  // The request that would compute the tensors, see Export in tensor.h.
  absl::StatusOr<Exported> Export(std::span<const std::shared_ptr<TensorState>> tensors);
  // Computes the tensors in one request. On failure they stay as they were.
  absl::Status Realize(std::span<const std::shared_ptr<TensorState>> tensors);
  // The contents of one tensor. Realises the tensor first if necessary.
  absl::StatusOr<std::string> Read(const std::shared_ptr<TensorState>& tensor);

  TensorState* oldest() const { return oldest_; }
  // Takes `n` counters of the random stream and returns the first of them.
  uint64_t TakeCounters(uint64_t n);

 private:
  friend struct TensorState;
  struct Pending {  // one tensor being computed
    std::shared_ptr<TensorState> state;
    ir::UOp target;
    bool replaces = false;
  };

  struct Plan {  // what one request computes
    std::vector<Pending> pending;
    NumberSet kept;     // buffers that other live tensors read
    NumberSet written;  // buffers of the targets
    NumberSet made;     // those of them whose tensors had no memory before
    NormalForm form;

    bool Keeps(uint64_t number) const { return kept.Contains(number) || written.Contains(number); }
  };

  struct Room {  // bytes of tensors that a request and its answer may still have
    uint64_t sent = 0, returned = 0;
  };

  // Makes the targets' buffers; Discard takes them back.
  absl::StatusOr<Plan> MakePlan(std::span<const std::shared_ptr<TensorState>> tensors);
  void Discard(std::span<const Pending> pending);
  // The wire form of a normalised sink, verified.
  absl::StatusOr<std::string> Wire(ir::UOp sink);
  NumberSet ReadByOthers(std::span<const Pending> pending);
  // Normalize, from memory if the outputs are those of an earlier request.
  absl::StatusOr<NormalForm> Normalized(std::span<const Output> outputs);
  // New memory for a tensor, in the pieces that its value comes in.
  ir::UOp NewTarget(const TensorState& t);
  absl::StatusOr<std::string> ReadBuffer(uint64_t number);
  absl::StatusOr<v1::ExecuteResponse> Send(v1::ExecuteRequest& request, ir::UOp sink);
  // Creates, by a graph on the daemon, those of the buffers that read as zeros and do not exist
  // there yet.
  absl::Status MakeZeros(std::span<const uint64_t> numbers);
  // Sends the request of the plan. `returned` receives the numbers of the buffers whose contents
  // the answer has, in the order of the answer.
  absl::StatusOr<v1::ExecuteResponse> Run(const Plan& plan, std::vector<uint64_t>& returned);
  // The same with a request that takes the contents of the buffers that it sends.
  absl::StatusOr<v1::ExecuteResponse> Run(const Plan& plan, v1::ExecuteRequest& request,
                                          std::vector<uint64_t>& returned);
  // The argument for the next slot; large data is uploaded first.
  absl::Status AddArgument(const Plan& plan, uint64_t number, Room& room,
                           v1::ExecuteRequest& request, std::vector<uint64_t>& returned);
  absl::Status CheckResults(const v1::ExecuteResponse& response,
                            std::span<const uint64_t> returned) const;
  void Count(const v1::ExecuteResponse& response);
  // After the tensor was computed: replaces its value by its buffer, and keeps its contents if the
  // answer has them.
  void Settle(const Pending& pending, const v1::ExecuteResponse& response,
              std::span<const uint64_t> returned);
  void Compact();

  std::shared_ptr<Executor> executor_;
  ClientOptions options_;
  ClientStats stats_;
  std::unique_ptr<ir::UOpContext> ctx_;
  // The context need not check nodes: each node is verified when its tensor is made, and the tensor
  // carries the error (Verified).
  std::optional<ir::UncheckedNodes> unchecked_;
  size_t compact_at_;
  size_t verified_ = 0;                              // nodes below this id have been checked
  absl::flat_hash_map<uint32_t, absl::Status> bad_;  // ids of nodes that do not verify
  TensorState* oldest_ = nullptr;
  TensorState* newest_ = nullptr;
  BufferTable buffers_;
  uint64_t next_counter_ = 0;
  int64_t next_tag_ = 1;
  bool multi_ = false;  // a MULTI was made; until then every layout is one device
  absl::flat_hash_map<uint32_t, ir::Layout> layouts_;
  absl::flat_hash_map<uint32_t, Digest> digests_;  // by id of a normalised sink
  // By the ids of the values and targets of a request.
  absl::flat_hash_map<std::vector<uint32_t>, NormalForm> forms_;
};

}  // namespace uopd::client
