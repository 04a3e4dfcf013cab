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
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "client/cpp/graph/buffer_table.h"
#include "client/cpp/graph/history.h"
#include "client/cpp/graph/normalize.h"
#include "client/cpp/graph/view.h"
#include "core/ir/analysis/layout.h"
#include "core/ir/context.h"
#include "core/ir/shape.h"
#include "uopd/executor.h"
#include "uopd/options.h"

namespace uopd::client {

class GraphState;
class Recording;
class Tensor;
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
  // When it got its value: a number that grows with each new tensor and each assignment.
  uint64_t since = 0;
  absl::Status error;  // the first error
  ir::UOp uop;         // null if error
  ir::Dims dims;       // the largest values of symbolic dimensions
  bool symbolic = false;
  ir::Dtype dtype = ir::Dtype::F32;
  std::string device;  // empty: the daemon's default, or the value is in pieces
  // The stored value that Assign should overwrite; null if there is none. After assignments to
  // views the uop is AFTER(replaces, STORE(view of replaces, value)), or an AFTER of such a one.
  // Normalize decides whether that happens in place.
  ir::UOp replaces;
  View view;
  // The call whose answer has the contents, and where: one number for each piece. Empty: no answer
  // has them.
  Answer answer;
  std::vector<size_t> places;
  uint64_t version = 0;  // of the first buffer, when the answer was its contents
  std::optional<bool> requires_grad;
  bool pinned = false;  // keeps its buffer, and need not keep the old contents of it
  // What the thread recorded that made it or assigned to it last (Recording::id). The number behind
  // that of the latest recording: nothing, but others did. 0: nobody did.
  uint64_t writer = 0;
  std::shared_ptr<TensorState> grad;
  uint32_t watchers = 0;  // recordings that want to know whether the function uses it

  TensorState* newer = nullptr;  // list of live tensors, oldest first
  TensorState* older = nullptr;
};

// The sizes of a tensor with the values that its variables are bound to. REQUIRES: no error.
ir::Dims SizesNow(ir::UOpContext& ctx, const TensorState& tensor);

class GraphState : public std::enable_shared_from_this<GraphState> {
 public:
  GraphState(std::shared_ptr<Executor> executor, ClientOptions options);

  ir::UOpContext& ctx() { return *ctx_; }
  const ClientOptions& options() const { return options_; }
  ExecutionOptions execution() const;  // of the requests of this thread to come
  const ClientStats& stats() const { return stats_; }
  const Executor& executor() const { return *executor_; }

  // The state of a new tensor of value u. It carries an error if u or a node below it does not
  // verify.
  std::shared_ptr<TensorState> NewTensor(ir::UOp u, std::string device);
  // Another tensor of the same value. With `view` it is a view of that one.
  std::shared_ptr<TensorState> NewAlias(const std::shared_ptr<TensorState>& t, bool view);
  // Gives the value to the tensor and to every tensor that the tensor is a view of. `written`,
  // bools of the value's shape: the tensors that it is a view of change only where `written` is
  // true. Null: everywhere.
  absl::Status Assign(TensorState& t, ir::UOp value, ir::UOp written = {});
  // A tensor with a buffer of its own. The buffer will be filled with `bytes`.
  std::shared_ptr<TensorState> NewInput(ir::Dtype dtype, ir::Dims dims, std::string device,
                                        std::string bytes);
  // The same for large contents, which are sent to the daemon at once: they are copied once, and
  // not kept here. REQUIRES: SendsAtOnce.
  bool SendsAtOnce(size_t bytes) const;
  bool SendsConstants() const;
  std::shared_ptr<TensorState> NewUpload(ir::Dtype dtype, ir::Dims dims, std::string device,
                                         std::string_view bytes);
  // Tensors whose buffers no call may write, which the daemon keeps by their contents. Waits until
  // the daemon has them. They cannot be assigned in place: an assignment gives them other memory.
  struct Constant {
    ir::Dtype dtype;
    ir::Dims dims;
    std::string_view bytes;  // not empty
  };
  absl::StatusOr<std::vector<std::shared_ptr<TensorState>>> NewConstants(
      std::span<const Constant> constants, const std::string& device);
  // Verifies the nodes that were made since the last call. Returns the error of u, if it has one.
  absl::Status Verified(ir::UOp u);
  // The devices and pieces of u, as far as the client knows them: a device without a name is the
  // daemon's default. REQUIRES: u is verified.
  const ir::Layout& LayoutOf(ir::UOp u);
  // The error if values of several devices meet in u, or below it.
  absl::Status CheckPlaces(ir::UOp u) {
    return placed_anywhere_ ? PlaceOf(u).error : absl::OkStatus();
  }
  // The device of u. `device`: what it is if u needs none, such as a constant.
  std::string DeviceOf(ir::UOp u, std::string device);
  // INVALID_ARGUMENT if a tensor of value `to` cannot be assigned `from`, which is on another
  // device.
  absl::Status CheckSamePlace(ir::UOp to, ir::UOp from);
  bool InPieces(ir::UOp u) { return multi_ && LayoutOf(u).pieces; }
  // The value on the devices and in the pieces of `like`, if that is in pieces.
  ir::UOp InPiecesOf(ir::UOp like, ir::UOp value);
  // The value of u as a new node that is equal to no other node. It is computed and stored; with
  // CONTIGUOUS_BACKWARD only gradients see it.
  ir::UOp Distinct(ir::UOp u, ir::Op op = ir::Op::CONTIGUOUS);
  // A tensor without memory becomes a leaf by declaration: a value that is equal to no other one.
  // What was computed from it before is computed from the leaf, unless another tensor has an equal
  // value: then nobody knows from which of them it was. If the new value is not valid, the tensor
  // has the error.
  void MakeLeaf(TensorState& t);
  ir::UOp NewBuffer(ir::Dtype dtype, const ir::Dims& dims, std::string_view device, uint64_t bytes);
  // A tensor of zeros with a buffer of its own.
  std::shared_ptr<TensorState> NewZeros(ir::Dtype dtype, const ir::Dims& dims, std::string device,
                                        uint64_t bytes);

  // The request that would compute the tensors, see Export in tensor.h.
  absl::StatusOr<Exported> Export(std::span<const std::shared_ptr<TensorState>> tensors);
  // Sends the request that computes the tensors, and does not wait. An error is that of an earlier
  // request, of which nobody was told yet, or of this one; then nothing was sent.
  absl::Status Submit(std::span<const std::shared_ptr<TensorState>> tensors);
  // Computes the tensors in one request and waits. On failure they stay as they were.
  absl::Status Realize(std::span<const std::shared_ptr<TensorState>> tensors);
  // Reads the contents of one tensor into `out`, which has their size and stays until the future
  // has ended. Submits the tensor first if necessary.
  // The sizes of a symbolic tensor are those that its variables are bound to.
  Future Read(const std::shared_ptr<TensorState>& tensor, std::span<char> out);
  // True if Read would take the contents from what this process has, without sending or waiting.
  bool AtHand(const TensorState& tensor) const;
  // The bytes of the buffers that the daemon has, by device. What no tensor needs is freed first.
  std::map<std::string, uint64_t> BufferBytes();
  // Sends the contents of the buffers of a stored tensor that the daemon does not have yet.
  Future Upload(const std::shared_ptr<TensorState>& tensor);
  // Looks at the answers that have come. Notes the first error that nobody is told of.
  void Poll();
  // Waits until all that was submitted is done. The first error of which nobody was told yet.
  absl::Status Sync();
  void Cancel() { executor_->Cancel(); }
  Progress progress(bool ask_daemon) { return executor_->progress(ask_daemon); }
  bool WaitForRoom(absl::Duration time) { return executor_->WaitForRoom(time); }

  // True if the calling thread records a function, and the tensor was made before that.
  bool IsOutside(const TensorState& tensor) const;
  // Somebody is about to give the tensor another value.
  void NoteWriter(TensorState& tensor) const;
  // Somebody is about to compute something from the tensor.
  void NoteUse(const Tensor& tensor) const;

  TensorState* oldest() const { return oldest_; }
  const Histories& histories() const { return histories_; }
  bool HasHistories() const { return !histories_.empty() || buffers_.has_copies(); }
  const BufferTable& buffers() const { return buffers_; }
  // The random stream of this seed, from its beginning.
  void SetSeed(uint64_t seed) {
    options_.seed = seed;
    next_counter_ = 0;
  }
  // Takes `n` numbers of the random stream. Returns their position as the contents of a u64 tensor:
  // the first counter, and the seed.
  std::string TakePosition(uint64_t n);
  // The buffer holds the position of `n` random numbers.
  void NoteCounters(ir::UOp buffer, uint64_t n) {
    buffers_.at(static_cast<uint64_t>(buffer.slot())).counters = n;
  }

 private:
  friend struct TensorState;
  friend class Recording;
  struct Pending {  // one tensor being computed
    std::shared_ptr<TensorState> state;
    ir::UOp target;
    bool replaces = false;
    // What its buffers were computed by, and the buffers which that reads; null if nobody can ask
    // for it.
    ir::UOp history{};
    std::vector<uint64_t> reads{};
    bool ended = false;  // it would read its own old contents, or those of others that are written
    Histories::Buffers
        below{};  // if it has ended: the buffers that the value may have been computed from

    // Gradients take it for a copy of what is stored for another tensor of the same value.
    void CopyOf(const Pending& other) {
      history = other.target;
      reads = NumbersOf(other.target);
    }
  };

  struct Plan {  // what one request computes
    std::vector<Pending> pending;
    NumberSet kept;     // buffers whose contents other live tensors read
    NumberSet lazy;     // those of them that are read by tensors without memory
    NumberSet pinned;   // buffers that must stay
    NumberSet written;  // buffers of the targets
    NumberSet made;     // those of them whose tensors had no memory before
    NumberSet history;  // buffers that histories read; they may be written
    NormalForm form;

    bool Keeps(uint64_t number) const {
      return kept.Contains(number) || written.Contains(number) || pinned.Contains(number) ||
             history.Contains(number);
    }
  };

  static constexpr uint64_t kLeastContents = 16 << 20;
  struct Room {  // bytes of tensors that a request and its answer may still have
    uint64_t sent = 0, returned = 0;
  };

  // Makes the targets' buffers; Discard takes them back.
  // What the calling thread records. Null: nothing. Whatever another thread submits is no part of
  // it.
  Recording* Recorder() const;
  // What records the request that is being sent.
  Recording* RecorderOfCalls() const { return apart_ ? nullptr : Recorder(); }
  // True if the tensor was made or assigned by a thread that records that, or by another thread
  // since this one records. So one of them would lack it, or have too much, if this thread computed
  // it.
  bool IsOfOthers(const TensorState& tensor) const;
  // This thread computes it nevertheless.
  void NoteTaken(const TensorState& tensor) const;
  absl::StatusOr<Plan> MakePlan(std::span<const std::shared_ptr<TensorState>> tensors);
  void Discard(std::span<const Pending> pending);
  // A request that was submitted, until its answer was looked at.
  struct Sent {
    Answer answer;
    // Buffers whose contents were sent, and those that the request makes: number and handle.
    std::vector<std::pair<uint64_t, uint64_t>> inputs, made;
    // Buffers that a replay computes again. If it fails, they have no contents.
    std::vector<std::pair<uint64_t, uint64_t>> again;
    // Handles that it frees, for buffers that the table has, and for others.
    std::vector<uint64_t> frees, orphans;
    bool counted = false;  // it is one of ClientStats::executes
    bool settled = false;  // the tensors have their new values, whether or not it succeeds
    bool told = false;     // somebody waits for it and is told of its error
    // Set once a read that was sent after this request has given the error of this request. Null:
    // no such read waits.
    std::shared_ptr<std::atomic<bool>> told_later;
  };
  // A normalised graph as it travels.
  struct Form {
    std::string digest;
    std::shared_ptr<const std::string> graph;
  };

  // The wire form of a normalised sink, verified.
  absl::StatusOr<std::string> Wire(ir::UOp sink);
  // Whether UseStored lets others read the value from where it will be stored.
  bool WillBeStored(ir::UOp value);
  // Whether graphs that were made after the tensor, a constant, read it from its memory from now
  // on: somebody may ask for a gradient by the tensor, and reading the tensor must not change that
  // gradient. False if an equal constant is alive: the graphs may be made of that one.
  bool StandsForItsValue(const TensorState& tensor) const;
  // Whether gradients of the tensor flow to another live tensor.
  bool ContainsConstant(const TensorState& tensor) const;
  absl::flat_hash_set<uint32_t> StoredBy(std::span<const Pending> pending);  // ids of these values
  // Finds the buffers whose contents live tensors other than the pending ones need, also after
  // these are stored: they must be neither freed nor written (Plan::kept). Those that must stay
  // whoever needs them are Plan::pinned.
  void FindReaders(Plan& plan);
  // The live tensors that need the contents of one of the buffers: all but the pending and the
  // pinned ones.
  std::vector<TensorState*> Readers(const NumberSet& numbers, std::span<const Pending> pending);
  // Prepares a tensor for a request that gives it memory of its own. False: no request can do that.
  bool MakeComputable(TensorState& t);
  // Gives these tensors memory of their own, as far as that can be done, by a request that no
  // recording has. They are values that were made outside of what is recorded, so replays must not
  // compute them again.
  absl::Status SubmitApart(std::span<TensorState* const> tensors);
  // The buffer has new contents. `assigned`: those of another value than its tensor had before.
  void NoteWritten(uint64_t number, bool assigned);
  // Whether the tensor lies in memory that no call may write.
  bool InConstant(const TensorState& t) const;
  // Whether replays find the tensor in its memory. An alias that is assigned gets memory of its
  // own, and leaves it to that tensor.
  bool IsState(const TensorState& t) const;
  void StateFirst(std::vector<Pending>& pending) const;
  // Memory that replays use is written in place whatever it costs: those who need the old contents
  // are computed before. What a function that is recorded made itself is computed again by each
  // replay.
  absl::Status FreeInPlace(Plan& plan);
  // Adds the lazy tensors to the plan without which more would be written in place, if that is
  // worth it.
  void AddReaders(Plan& plan);
  void AddOperandsOfMaxima(Plan& plan);
  // The first one of the same value, if that is another one.
  static const Pending* Twin(std::span<const Pending> pending, const Pending& p);
  // Decides which histories the plan's tensors get, and keeps what histories read.
  void PlanHistories(Plan& plan);
  // The buffers below a value. With `gradients`, only those that gradients flow to.
  const std::vector<uint64_t>& ReadsOf(ir::UOp value, bool gradients = false);
  // Live tensors and histories whose graphs contain the value of a pending tensor read that value
  // from its buffer from now on.
  void UseStored(std::span<const Pending> pending);
  // Normalize, from memory if the outputs are those of an earlier request.
  absl::StatusOr<NormalForm> Normalized(std::span<const Output> outputs);
  // New memory for a tensor, in the pieces that its value comes in.
  ir::UOp NewTarget(const TensorState& t);
  // The buffer is freed with the next request.
  void Remove(uint64_t number) {
    histories_.Removed(number);
    buffers_.Remove(number);
  }
  // The contents with the largest sizes.
  Future ReadWhole(const std::shared_ptr<TensorState>& tensor, std::span<char> out);
  // The contents of a tensor, whatever became of earlier requests. REQUIRES: the tensor was
  // submitted.
  Future ReadStored(const TensorState& tensor, std::span<char> out);
  // A future that ends as `read` does, but fails, and tells of it, if a request that was not done
  // as the read began fails: the read may see memory that it was to write. `own`: of the read.
  Future AfterEarlier(const Future& read, const Answer& own);
  // The contents of a buffer.
  Future ReadBuffer(uint64_t number, std::span<char> out);
  // Fills in graph, digest and options.
  absl::Status Complete(Call& call, ir::UOp sink);
  // Creates, by a graph on the daemon, those of the buffers that read as zeros and do not exist
  // there yet.
  absl::Status MakeZeros(std::span<const uint64_t> numbers);
  // Sends the request of the plan. `returned` receives the numbers of the buffers whose contents
  // the answer has, in the order of the answer.
  absl::Status Send(const Plan& plan, std::vector<uint64_t>& returned);
  absl::Status Compute(std::span<const std::shared_ptr<TensorState>> tensors, bool wait);
  // Binds an argument to a buffer. Data travel in the call, or are uploaded before it if they are
  // large. If the buffer is not kept, it may be memory of this call only.
  absl::Status Bind(uint64_t number, bool kept, Room& room, Argument& argument, Sent& sent);
  Room NewRoom() const;
  // Sends the contents of a buffer by themselves. REQUIRES: it must be sent.
  absl::Status UploadBuffer(uint64_t number);
  // The argument for the next slot.
  absl::Status AddArgument(const Plan& plan, uint64_t number, Room& room, Call& call, Sent& sent,
                           std::vector<uint64_t>& returned);
  void Launch(Call call, Sent sent);
  // The tensor has the contents that the answer returns for its buffers, if it returns them all.
  void TakeContents(TensorState& t, const Answer& answer, std::span<const uint64_t> returned);
  // Removes the buffers that the plan does not keep. Returns the handles of those on the daemon.
  std::vector<uint64_t> RemoveUnneeded(Plan plan);
  // After the request was sent: the tensor's value is its buffer.
  void Settle(Pending& pending, Histories::Moment now, const Answer& answer,
              std::span<const uint64_t> returned);
  // What an answer changes.
  void Take(const Sent& sent);
  // Contents of so many bytes are about to be kept. Frees those of dropped tensors first if they
  // may have become many: a program may make tensors and drop them without ever computing anything.
  void NoteContents(uint64_t bytes);
  void FreeDropped();
  // The error that Poll has noted. It is returned once.
  absl::Status TakeError();
  // OK unless what should have made one of the buffers has failed, or the daemon has lost one.
  absl::Status CheckMade(std::span<const uint64_t> numbers) const;
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
  uint64_t now_ = 0;  // TensorState::since
  TensorState* newest_ = nullptr;
  BufferTable buffers_;
  uint64_t next_counter_ = 0;
  int64_t next_tag_ = 1;
  bool multi_ = false;  // a MULTI was made; until then every layout is one device
  absl::flat_hash_map<uint32_t, ir::Layout> layouts_;
  bool placed_anywhere_ = false;  // a node names a device; until then everything is on one
  struct Place {
    ir::Layout layout;   // as in layouts_, with the name of the default device
    absl::Status error;  // INVALID_ARGUMENT if values of several devices meet there or below
  };
  const Place& PlaceOf(ir::UOp u);
  absl::node_hash_map<uint32_t, Place> places_;
  absl::flat_hash_map<uint32_t, Form> wire_;  // by id of a normalised sink
  std::vector<Recording*> recordings_;        // that have begun and not ended
  std::vector<Recording*> all_recordings_;    // these and those that are replayed
  uint64_t latest_recording_ = 0;             // id; ids are even
  bool apart_ = false;                        // SubmitApart
  // Counts the tensors that got a value which other tensors' memory may be needed for.
  uint64_t values_made_ = 0;
  bool dropped_ = false;  // a tensor with a buffer is gone
  // Bytes of contents that were kept since dropped ones were last freed, and how many may be.
  uint64_t contents_ = 0, most_contents_ = kLeastContents;
  std::deque<Sent> sent_;          // in order
  std::vector<uint64_t> orphans_;  // handles to free that no buffer of the table has
  absl::Status error_;             // of a request that nobody waited for
  // By the ids of the values and targets of a request.
  absl::flat_hash_map<std::vector<uint32_t>, NormalForm> forms_;
  Histories histories_;
  absl::node_hash_map<uint32_t, std::vector<uint64_t>> reads_[2];  // ReadsOf, by id of a value
};

}  // namespace uopd::client
