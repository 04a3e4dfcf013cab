// SPDX-License-Identifier: MIT
#include "core/ir/io/render_expr.h"

#include <vector>

#include "core/base/text.h"
#include "core/ir/io/print.h"

namespace uopd::ir {
namespace {

// One item of the output still to be written: a node, or a text with static lifetime.
struct Piece {
  UOp node;
  std::string_view text;
  bool nested = true;  // put an operator's text into parentheses
};

std::string_view Infix(Op op) {
  switch (op) {
    case Op::ADD:
      return "+";
    case Op::SUB:
      return "-";
    case Op::MUL:
      return "*";
    case Op::FDIV:
    case Op::FLOORDIV:
      return "/";
    case Op::FLOORMOD:
      return "%";
    case Op::CMPLT:
      return "<";
    case Op::CMPNE:
      return "!=";
    case Op::CMPEQ:
      return "==";
    case Op::XOR:
      return "^";
    case Op::OR:
      return "|";
    case Op::AND:
      return "&";
    case Op::SHL:
      return "<<";
    case Op::SHR:
      return ">>";
    default:
      return {};
  }
}

constexpr char kAxisLetters[] = "rtglRuUv";
static_assert(sizeof(kAxisLetters) == kAxisTypeCount + 1);

class Renderer {
 public:
  std::string Run(UOp root, size_t max_chars) {
    todo_.push_back({root, {}, false});
    while (!todo_.empty()) {
      if (out_.size() > max_chars) return out_ + "...";
      const Piece piece = todo_.back();
      todo_.pop_back();
      if (piece.node)
        Node(piece.node, piece.nested);
      else
        out_ += piece.text;
    }
    return out_;
  }

 private:
  // Pieces are pushed last first.
  void Push(std::string_view text) { todo_.push_back({UOp(), text}); }
  void Push(UOp u, bool nested = true) { todo_.push_back({u, {}, nested}); }
  void PushList(std::span<const UOp> srcs) {
    for (size_t i = srcs.size(); i-- > 0;) {
      Push(srcs[i], false);
      if (i > 0) Push(", ");
    }
  }

  void Node(UOp u, bool nested) {
    switch (u.op()) {
      case Op::CONST:
        return AppendConst(out_, u);
      case Op::DEFINE_VAR:
        out_ += u.text();
        return;
      case Op::BIND:
        return Node(u.src(0), nested);
      case Op::RANGE:
        out_ += kAxisLetters[static_cast<int>(u.axis_type())];
        return Append(out_, u.axis_id());
      case Op::SPECIAL:
        out_ += kAxisLetters[u.ints()[0]];
        return Append(out_, "idx", u.ints()[1]);
      case Op::PARAM:
        return Append(out_, "p", u.slot());
      case Op::BUFFER:
        return Append(out_, "b", u.slot());
      case Op::LOAD:
        return Push(u.src(0), nested);
      case Op::INDEX:
        Push("]");
        if (u.n_src() == 3) {
          Push(u.src(2), false);
          Push(" if ");
        }
        Push(u.src(1), false);
        Push("[");
        Push(u.src(0));
        return;
      case Op::STACK:
        Push("}");
        PushList(u.srcs());
        Push("{");
        return;
      case Op::GEP:
        Append(out_, "lane", u.arg().AsInt(), "(");
        Push(")");
        Push(u.src(0), false);
        return;
      case Op::CAST:
      case Op::BITCAST:
        Append(out_, u.Is(Op::BITCAST) ? "bitcast_" : "", Name(u.dtype()), "(");
        Push(")");
        Push(u.src(0), false);
        return;
      default:
        return Operation(u, nested);
    }
  }

  // What is written with an operator, if there is one.
  void Operation(UOp u, bool nested) {
    if (u.n_src() == 2 && u.Is(Op::CMPNE) && u.src(1).dtype() == Dtype::Bool &&
        u.src(1).IsConstInt(1)) {
      out_ += "!";
      return Push(u.src(0));
    }
    if (u.n_src() == 1 && u.Is(Op::NEG)) {
      out_ += "-";
      return Push(u.src(0));
    }
    const bool infix = u.n_src() == 2 && !Infix(u.op()).empty();
    const bool where = u.n_src() == 3 && u.Is(Op::WHERE);
    const bool store = u.n_src() == 2 && u.Is(Op::STORE);
    if (infix || where || store) {
      if (nested) {
        out_ += "(";
        Push(")");
      }
      if (where) {
        Push(u.src(2));
        Push(" : ");
        Push(u.src(1));
        Push(" ? ");
        Push(u.src(0));
      } else {
        Push(u.src(1), !store);
        Push(store ? " = " : Infix(u.op()));
        Push(u.src(0));
      }
      return;
    }
    Call(u);
  }

  // name(sources; arg): REDUCE is named after its op.
  void Call(UOp u) {
    if (u.Is(Op::REDUCE)) Append(out_, Lower(Name(u.reduce_op())), "_");
    Append(out_, Lower(Name(u.op())), "(");
    Push(")");
    PushList(u.srcs());
  }
  static std::string Lower(std::string_view name) {
    std::string out(name);
    for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return out;
  }

  std::string out_;
  std::vector<Piece> todo_;
};

}  // namespace

std::string RenderExpr(UOp root, size_t max_chars) { return Renderer().Run(root, max_chars); }

}  // namespace uopd::ir
