// SPDX-License-Identifier: MIT
// Recording: the requests that a function submits, as they can be sent again with other inputs. See
// uopd/jit.h. Internal to the library.
//
// While it records, GraphState adds every call of the thread that began it, gives every buffer a
// handle, and frees nothing. Other threads go on outside of the recording, and may record too.
// After End the recording holds the buffers that its calls use, except for those of the inputs.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/cpp/graph/build.h"
#include "client/cpp/graph/graph_state.h"
#include "core/base/text.h"
#include "uopd/jit.h"

namespace uopd::client {

struct Caller;

inline absl::Status Misused(std::string message) {
  return absl::FailedPreconditionError(Cat("Jit: ", message));
}
inline std::string Shown(const TensorState& t) { return Cat(ir::Name(t.dtype), " ", Text(t.dims)); }

class Recording {
 public:
  // Begins to record what this thread submits. FAILED_PRECONDITION: another recording of the thread
  // has not ended.
  static absl::StatusOr<std::unique_ptr<Recording>> Begin(const Client& client,
                                                          std::span<const Tensor> inputs);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  absl::Status End(std::span<const Tensor> outputs);
  absl::StatusOr<std::vector<Tensor>> Replay(std::span<const Tensor> inputs,
                                             std::span<const VariableValue> variables);
  // Jit::Repeat (loop.cc).
  absl::StatusOr<LoopSteps> Repeat(std::span<const Tensor> inputs,
                                   std::span<const VariableValue> variables,
                                   const LoopTerms& terms);
  std::vector<RecordedGraph> Graphs() const;
  // Jit::Serialize and Deserialize (save.cc, load.cc).
  absl::StatusOr<std::string> Save(std::span<const Tensor> outside);
  static absl::StatusOr<std::unique_ptr<Recording>> Load(const Client& client,
                                                         std::string_view bytes,
                                                         std::span<const Tensor> outside);
  // Live tensors whose contents a replay reads, or updates. Those in one piece that are not
  // symbolic.
  std::vector<Tensor> State() const;
  // What replays return: the recording's own tensors. An empty tensor stands for an input.
  std::vector<Tensor> Outputs() const;

  // Called by GraphState before it sends the call. `numbers`: the buffers of the slots.
  void Add(const Call& call, std::span<const uint64_t> numbers, ir::UOpContext& ctx, ir::UOp sink,
           std::span<const SizeCondition> conditions = {});
  // The values that a call computes. Tensors that were made before, and that are no memory, are
  // computed by the call: replays will find what they are computed from, which must stay as it is.
  void NoteUsed(std::span<const ir::UOp> values);
  // Somebody writes the buffer, or gives the tensor another value.
  void NoteWritten(uint64_t number);
  void NoteAssigned(const TensorState& t);
  // The thread that records.
  const Caller* caller() const { return caller_.get(); }
  uint64_t id() const { return id_; }  // even
  // Whether replays find the tensor in its memory: it had memory when the recording began, or a
  // call gave it that.
  bool Knows(const TensorState& t) const;
  // Another thread has computed a tensor that the function made. So End fails.
  void NoteTaken(const TensorState& tensor);
  // The thread that records computes something from the tensor, or assigns to it.
  void NoteUse(const Tensor& tensor);
  // Whether the function computes with the tensor, which was made outside of it and has no memory.
  bool Touches(const TensorState& t) const;
  // The tensor gets memory that no replay computes. If the function computes with it, what it is
  // computed from has to stay as it is: the function may have made an equal value from that too,
  // which reads the same memory.
  void NoteApart(const TensorState& t);
  // The inputs as the function gets them. The recording can tell them from the same tensors that
  // the function uses by another name.
  std::vector<Tensor> Arguments(std::span<const Tensor> inputs) const;

 private:
  // What an argument of a replay is.
  struct Slot {
    uint64_t number = 0;    // of the buffer, unless it is an input's
    int input = -1;         // its position among the buffers of all inputs
    bool written = false;   // by the call
    bool made = false;      // its contents before the call do not matter
    bool resend = false;    // the data of the argument travel with each replay
    uint64_t counters = 0;  // the data are the position of so many random numbers
  };
  struct Recorded {
    Call call;
    std::vector<Slot> slots;
    std::vector<std::string> variables;
    std::vector<bool> floats;                         // which variables are floats
    std::vector<std::pair<int64_t, int64_t>> ranges;  // of those that are integers
    std::vector<SizeCondition> conditions;            // in sizes_
  };
  // A tensor that had memory when the recording began, or that the calls write.
  struct Known {
    std::weak_ptr<TensorState> state;
    std::vector<uint64_t> numbers;
    // It is older than the recording, and the function gives it another value.
    bool assigned = false;
  };
  struct Input {
    Dtype dtype;
    Dims dims;
    std::string device;
    std::vector<std::string> devices;  // of its pieces
    int64_t axis = -1;
    Dims sizes;
    std::string form;  // of symbolic sizes, without the values of variables
    // Not compared: how many buffers it has, and whether the function assigns to it.
    size_t pieces = 1;
    bool assigned = false;
    // The function uses the tensor that it was recorded with by another name too, such as a
    // variable outside of it.
    bool named = false;
    bool whole_named = false;  // the same for what that tensor is a view of
    // The function uses the input after it assigned to a tensor that is older than the recording.
    bool used_late = false;
    std::weak_ptr<TensorState> given;
  };

  class Saver;
  class Loader;

  explicit Recording(std::shared_ptr<GraphState> graph);
  void Leave();  // GraphState adds no call any more
  // Tensors that share memory with another one get their own. So an assignment to that one inside
  // of the function, and later replays of it, leave them as they are.
  static absl::Status SeparateAliases(GraphState& graph);
  void AddKnown(TensorState& t);
  // From now on NoteUse is called for the inputs, for what they are views of, and for tensors
  // without memory: replays will not see what the function takes from these by another name.
  void Watch(std::span<const Tensor> inputs);
  static Input Describe(const Tensor& t);
  std::string PlaceText(const Input& input) const;
  // A tensor that is older than the recording is state, and stays as it is. Any other output is no
  // view: the contents that replays give it are those of no other tensor. If no call computes it,
  // because it is an alias of an argument or of state, or a constant, it gets a copy, which replays
  // compute.
  void Separate(TensorState& output) const;
  // The buffers of the inputs, submitted.
  absl::StatusOr<std::vector<uint64_t>> NumbersOfInputs(std::span<const Tensor> inputs);
  absl::Status CheckInputs(std::span<const Tensor> inputs) const;
  // That the function does not change the input under another name, and does not use what it
  // changes in the input.
  absl::Status CheckApart(size_t input, const TensorState& given) const;
  // Gives memory of their own to those that share memory with each other or with what the
  // replay writes. Returns their buffers. May replace an input by a copy.
  absl::StatusOr<std::vector<uint64_t>> TakeInputs(std::vector<Tensor>& inputs);
  // What an input that the replay assigned is a view of gets its new values.
  absl::Status WriteThrough(std::span<const Tensor> inputs);
  // Finds what the results of a replay with these inputs will be computed from, before it writes
  // any of that.
  void FindReads(std::span<const uint64_t> inputs);
  // Gradients of the results by that are errors.
  void EndHistories();
  // Gives memory of its own to whatever needs the contents that a replay with these inputs writes
  // over, other than what it updates. `numbers`: the buffers of the inputs.
  absl::Status KeepValues(std::span<const Tensor> inputs, std::span<const uint64_t> numbers);
  // `maybe_used`: the buffers of the calls. If it is given, tensors that do not have them are not
  // looked at if another thread assigned to them.
  absl::Status CheckState(const char* when, const NumberSet* maybe_used) const;
  // Submits the values that were assigned to state outside and are not in its memory.
  // FAILED_PRECONDITION if replays would use other state than the function.
  absl::Status UpdateState();
  // The buffers whose contents a replay reads before it writes them, without those of inputs.
  NumberSet ReadFirst() const;
  // For each slot of a graph, whether the graph writes it. REQUIRES: slots below `slots`.
  static std::vector<bool> WrittenSlots(ir::UOpContext& ctx, ir::UOp sink, size_t slots);
  static void AddVariables(ir::UOpContext& ctx, ir::UOp sink, Recorded& recorded);
  // The values that variables have in a replay: those that are given, and those of the inputs'
  // sizes.
  absl::StatusOr<std::vector<VariableValue>> ValuesOf(std::span<const Tensor> inputs,
                                                      std::span<const VariableValue> given) const;
  // The integers that a call takes are within their variables, and every box within its tensor.
  static absl::Status CheckSizes(const Recorded& recorded, const Call& call);
  absl::Status SetVariables(std::span<const VariableValue> values, const Recorded& recorded,
                            Call& call) const;
  // By the numbers of buffers that hold positions of random numbers: those of one replay.
  using Positions = absl::flat_hash_map<uint64_t, std::shared_ptr<const std::string>>;
  absl::Status ReplayOne(const Recorded& recorded, std::span<const uint64_t> inputs,
                         std::span<const VariableValue> variables, Positions& positions, bool first,
                         const std::shared_ptr<const Loop>& maybe_loop);
  // Sends the calls, and if a loop is given the only call as that. Returns the end of the last one.
  // `maybe_told`: set when its error has been told to the caller, who then hears it nowhere else.
  absl::StatusOr<Future> Send(std::span<const Tensor> inputs,
                              std::span<const VariableValue> variables,
                              const std::shared_ptr<const Loop>& maybe_loop,
                              const std::shared_ptr<std::atomic<bool>>& maybe_told);
  // What a step of the loop adds to each variable of its call. INVALID_ARGUMENT: in some step a
  // variable, or a size that it gives, is out of bounds.
  absl::StatusOr<std::vector<int64_t>> StridesOf(std::span<const VariableValue> values,
                                                 const LoopTerms& terms) const;
  // For each output its position among the data of an answer. Sets return_data for all outputs.
  absl::StatusOr<std::vector<size_t>> ReturnOutputs();

  const std::shared_ptr<GraphState> graph_;
  const std::shared_ptr<Caller> caller_;
  const uint64_t id_;
  absl::Status taken_;
  absl::Status spoiled_;  // replays would compute something else than the function
  // NoteUsed: the tensors, and the buffers that they are computed from.
  std::vector<std::weak_ptr<TensorState>> used_;
  NumberSet fixed_;
  std::vector<std::weak_ptr<TensorState>> touched_;  // Touches
  bool assigns_state_ = false;                       // so far
  std::vector<std::weak_ptr<TensorState>> watched_;
  std::vector<std::pair<std::weak_ptr<TensorState>, size_t>>
      views_;  // inputs that are views: tensor and input
  std::vector<Input> inputs_;
  absl::flat_hash_map<uint64_t, int> input_of_;  // number of a buffer -> position
  std::vector<Known> known_;
  absl::flat_hash_map<const TensorState*, size_t> known_at_;  // places in known_
  std::vector<Recorded> calls_;
  ir::UOpContext sizes_;
  absl::flat_hash_map<uint32_t, ir::UOp> copied_;  // sizes of the client's context, during one Add
  std::vector<Tensor> outputs_, held_;
  std::vector<int> output_inputs_;  // for each output the input that it is, or -1
  NumberSet written_;               // buffers that replays write, without those of inputs
  bool writes_inputs_ = false;
  NumberSet written_inputs_;  // positions among the buffers of all inputs
  // GraphState::values_made_ when nothing was found to need the contents of what replays write,
  // apart from inputs.
  uint64_t checked_ = 0;
  std::vector<std::weak_ptr<TensorState>>
      results_;                  // floats that the calls compute anew: no state, and no inputs
  std::vector<uint64_t> reads_;  // the buffers that the calls read, without those of inputs
  // What the recorded calls read and write, and what that was computed from before each of them.
  Histories::Buffers before_;
  // FindReads: these and the inputs of the replay before, all that they may have been computed
  // from, these inputs, and Histories::changes then.
  Histories::Buffers own_reads_, all_reads_;
  std::vector<uint64_t> last_inputs_;
  uint64_t last_changes_ = UINT64_MAX;
  std::string two_values_;  // a variable that is bound to several values in one call
};

}  // namespace uopd::client
