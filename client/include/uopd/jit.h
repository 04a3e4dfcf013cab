// SPDX-License-Identifier: MIT
// Jit: a function of tensors, recorded once and then replayed without building its graph again.
//
//   Jit step(client, [&](std::span<const Tensor> in) { ...; return std::vector{loss}; });
//   UOPD_ASSIGN(auto out, step({images, labels}));   // call after call
//
// The first call runs the function. The second one runs it and records the requests that it
// submits. Later calls send those requests again with new inputs: one message each, and the
// function is not called. The graph, the shapes and everything else that the function decides are
// those of the second call.
//
// What a replay takes from its caller: the inputs, which must have the shapes, dtypes and devices
// of the recorded ones, and values of variables (Client::Variable, FloatVariable) by name. Random
// numbers go on. All other tensors that the function uses are used with the contents that they have
// then, and tensors that it assigns are assigned.
//
// What a replay returns: the tensors that the second call returned, with new contents, and in place
// of one that was an input the input of the replay. A replay assigns to these, to the state that
// the function assigns, and to the inputs that it assigns; all other tensors keep their values,
// whatever they were computed from or share memory with. An input may be a tensor that a replay
// returned.
//
// Used by the thread of the Client. Errors are FAILED_PRECONDITION if the function cannot be
// recorded or replayed: it reads a tensor while it is recorded; it computes nothing; it assigns to
// a tensor that was made outside and not realised, or it computes with one, and what that one is
// computed from has been assigned since; a tensor that it uses was assigned by another function
// that is being recorded. They are INVALID_ARGUMENT for wrong inputs.
#pragma once
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "uopd/client.h"

namespace uopd::client {

class Recording;

// The value of a variable.
class VariableValue {
 public:
  VariableValue(std::string name, int64_t value) : name_(std::move(name)), bits_(value) {}
  VariableValue(std::string name, int value) : VariableValue(std::move(name), int64_t{value}) {}
  VariableValue(std::string name, double value)
      : name_(std::move(name)), bits_(std::bit_cast<int64_t>(value)), is_float_(true) {}

  const std::string& name() const { return name_; }
  int64_t bits() const { return bits_; }  // of a double, if it is a float
  bool is_float() const { return is_float_; }

 private:
  std::string name_;
  int64_t bits_;
  bool is_float_ = false;
};

// How a recorded function is replayed again and again on the daemon.
struct LoopTerms {
  uint32_t steps = 1;                                      // at most: 1 to 1024
  std::vector<std::pair<std::string, int64_t>> advance{};  // variables: what a step adds to them
  // An output, no float: the step in which it is not zero is the last one.
  std::optional<size_t> until{};
  // No step is run if that output is not zero already, since an earlier loop ended by it. So a loop
  // can be sent before it is known how the one before ends.
  bool unless_over = false;
};

// The outputs of each step of a loop. The steps come as the daemon computes them, whether or not
// somebody waits. Used by one thread at a time.
class LoopSteps {
 public:
  // Ends, always well, when the next step has come or the loop is over.
  Future Coming() const;
  // Waits for the next step: the bytes of each output. nullopt: there are no more steps. An error
  // of the loop comes behind the steps before it.
  absl::StatusOr<std::optional<std::vector<std::string>>> Next();

 private:
  friend class Recording;
  struct State;
  std::shared_ptr<State> state_;
  size_t taken_ = 0;
};

// A graph that replays send, with the switches that they send it with.
struct RecordedGraph {
  std::shared_ptr<const std::string> graph;  // as Exported::graph (tensor.h)
  ExecutionOptions options;
};

class Jit {
 public:
  using Function = std::function<absl::StatusOr<std::vector<Tensor>>(std::span<const Tensor>)>;

  Jit(Client& client, Function function);
  ~Jit();
  Jit(Jit&&) noexcept;
  Jit& operator=(Jit&&) noexcept;

  absl::StatusOr<std::vector<Tensor>> operator()(std::span<const Tensor> inputs,
                                                 std::span<const VariableValue> variables = {});
  absl::StatusOr<std::vector<Tensor>> operator()(
      std::initializer_list<Tensor> inputs, std::initializer_list<VariableValue> variables = {}) {
    return (*this)(std::span(inputs.begin(), inputs.size()),
                   std::span(variables.begin(), variables.size()));
  }

  // The three steps for callers whose function is not a Function. Call Begin, then the function
  // with the tensors that Begin returns, then End with its results, or Abandon if it failed. Then
  // Replay as often as wanted. The returned tensors are the inputs. If the function also uses an
  // input by another name, such as a variable outside of it, replays must be given the same tensor
  // there.
  absl::StatusOr<std::vector<Tensor>> Begin(std::span<const Tensor> inputs);
  absl::Status End(std::span<const Tensor> outputs);
  void Abandon();
  absl::StatusOr<std::vector<Tensor>> Replay(std::span<const Tensor> inputs,
                                             std::span<const VariableValue> variables = {});

  // Replays as long as `loop` says, without the client between two steps: the daemon gets one
  // message. A step finds the state, and the inputs that the function assigns, as the step before
  // left them. Later calls see what the last step left, as after so many replays.
  //
  // FAILED_PRECONDITION beside the errors of a replay: the function computes in several requests;
  // it draws random numbers of the client's generator; or an output is an input, has a symbolic
  // size, lies on several devices, or has more bytes than an answer may have (64 KiB together).
  absl::StatusOr<LoopSteps> Repeat(std::span<const Tensor> inputs,
                                   std::span<const VariableValue> variables, const LoopTerms& loop);

  bool recorded() const;
  // The graphs of a replay, each once, in the order in which they are sent first. Empty: nothing
  // was recorded.
  std::vector<RecordedGraph> Graphs() const;
  // The tensors that replays return. An empty tensor stands for an input.
  std::vector<Tensor> Outputs() const;

  // Live tensors that replays read or update beside their inputs: those in one piece whose sizes
  // are numbers.
  std::vector<Tensor> State() const;

  // The recording as bytes, with the contents that the state it uses has now. Waits for these.
  // FAILED_PRECONDITION if nothing is recorded, or if the function uses an input by another name
  // too. `outside`: tensors of State() whose contents are left out, since they are saved elsewhere.
  absl::StatusOr<std::string> Serialize(std::span<const Tensor> outside = {});
  // A recorded function of such bytes, also of another process or another daemon. Its state are the
  // tensors `outside`, in the order in which Serialize got theirs, and memory of its own, which
  // begins with the saved contents. Waits until the daemon has these. The bytes may come from
  // anybody: INVALID_ARGUMENT if they are no valid recording, or if it takes other tensors;
  // FAILED_PRECONDITION if a version of this library with another format wrote them. An error of
  // the daemon if it lacks a device: now if state is there, else of the first replay. Calls after
  // Reset run `function`; without it they are errors.
  static absl::StatusOr<Jit> Deserialize(Client& client, std::string_view bytes,
                                         Function function = nullptr,
                                         std::span<const Tensor> outside = {});
  // Forgets the recording: the next call runs the function, as the first one did.
  void Reset();

 private:
  Client client_;  // shares the state of the caller's one
  Function function_;
  bool warm_ = false;  // the function ran
  std::unique_ptr<Recording> recording_;
};

}  // namespace uopd::client
