// SPDX-License-Identifier: MIT
// Writer of a linear kernel in a language of the C family. This class knows the lines of a kernel
// (docs/ir_linear.md) and C's expressions; a class for each language (c.cc, cuda_c.cc, ...) knows
// the form of the function, its memory, and what the language spells in its own way.
//
// A value of a kernel is a variable v<number>. A vector is one variable for each lane,
// v<number>_<lane>, or an array with a loop over the lanes (lane_loops).
//
// One object renders one kernel.
#pragma once
#include <functional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/base/text.h"
#include "core/render/lines.h"
#include "core/render/renderer.h"
#include "core/render/spelling.h"

namespace uopd::render {

class CLikeWriter {
 public:
  // The request outlives the writer.
  explicit CLikeWriter(const Request& request)
      : request_(request), ctx_(request.ctx), variables_(request.variables) {}
  virtual ~CLikeWriter() = default;
  absl::StatusOr<std::string> Run();

 protected:
  // The text of lane `lane` of a value: a number, or "i" in a loop over the lanes.
  using LaneText = std::function<std::string(const std::string& lane)>;

  // What differs from language to language.
  virtual std::string_view language() const = 0;     // for messages
  virtual bool lane_loops() const { return false; }  // vectors are arrays
  // f16 is its bits, a uint16_t: the language cannot be relied on to have the type.
  virtual bool half_is_bits() const { return false; }
  // x, an f32, rounded to tf32. Empty: the language has no instruction for it, and its targets no
  // tf32.
  virtual std::string Tf32(const std::string&) const { return {}; }
  // x, an f32, as the bits of a bf16; empty: the language has no such conversion.
  virtual std::string Bf16(const std::string&) const { return {}; }
  // The form (spelling.h) of an op that only some languages have; empty: it has none.
  virtual std::string_view OwnForm(ir::UOp /*u*/) const { return {}; }
  virtual std::string_view long_suffix() const { return "ll"; }
  // A function of the math library of f32 or f64: "sqrt".
  virtual std::string Math(std::string_view function, ir::Dtype dtype) const = 0;
  virtual std::string Bitcast(ir::Dtype to, ir::Dtype from, const std::string& x) const = 0;
  virtual std::string NotFinite(double value, ir::Dtype dtype) const = 0;  // an infinity, or NaN
  // The whole text, from the body of the function.
  virtual std::string Module(const std::string& body) = 0;
  // Returns from the kernel if the stop word is set.
  virtual void Poll() = 0;
  // Lines that only some languages have: SPECIAL, PARAM, BUFFER, INDEX, LOAD, STORE, BARRIER, WMMA,
  // ...
  virtual absl::Status OwnLine(ir::UOp u) = 0;
  virtual void Begin() {}  // called before the first line

  absl::Status NoRendering(ir::UOp u) const {
    return absl::UnimplementedError(Cat("the renderer of ", language(), " does not support ",
                                        Name(u.op()), " of ", Name(u.dtype())));
  }
  std::string_view Type(ir::Dtype d) const {
    return half_is_bits() && d == ir::Dtype::F16 ? "uint16_t" : SpellingOf(d)->c;
  }
  template <class... T>
  void Put(const T&... parts) {
    body_.append(static_cast<size_t>(indent_) * 2, ' ');
    Append(body_, parts...);
    body_ += '\n';
  }
  void Open(const std::string& head) {
    Put(head, " {");
    ++indent_;
  }
  void Close() {
    --indent_;
    Put("}");
  }

  std::string Constant(ir::UOp u) const;
  // A scalar, or the lane of a vector.
  std::string Value(ir::UOp u, const std::string& lane = "i") const;
  std::string Fresh(ir::UOp u) { return names_[u.id()] = Cat("v", names_.size()); }
  const std::string& NameOf(ir::UOp u) const { return names_.at(u.id()); }
  void SetName(ir::UOp u, std::string name) { names_[u.id()] = std::move(name); }
  // Names the variable of a value, declares it, and assigns the text of each lane to it.
  void Define(ir::UOp u, const LaneText& text);
  // Calls line(lane) for each lane of n; 0 is a scalar. In a loop if lane_loops().
  void ForLanes(int64_t n, const std::function<void(const std::string& lane)>& line);

  const Request& request_;
  ir::UOpContext& ctx_;
  std::span<const std::string> variables_;
  int indent_ = 1;
  std::string body_;

 private:
  absl::Status Line(ir::UOp u);
  absl::Status Variable(ir::UOp u);
  absl::Status Range(ir::UOp u);
  absl::Status Stack(ir::UOp u);
  absl::Status Cast(ir::UOp u);
  absl::Status Alu(ir::UOp u);
  std::string Saturated(ir::Dtype from, ir::Dtype to, const std::string& x) const;

  absl::flat_hash_map<uint32_t, std::string> names_;
};

// A number of f32 or f64 as C writes it.
std::string FloatText(double value, ir::Dtype dtype);

}  // namespace uopd::render
