// SPDX-License-Identifier: MIT
#include "core/render/llvm_loops.h"

namespace uopd::render {

using ir::Op;
using ir::UOp;

void LlvmLoops::Open(UOp u) {
  const int64_t k = u.axis_id();
  const std::string type(LlvmScalar(u.dtype())), size = text_.Operand(u.src(0), 0);
  std::string from = "0", to = size;
  text_.names[u.id()] = Cat("%r", k);
  if (u.tag() > 1) {
    text_.Put("br label %chunk", k);
    StartBlock(Cat("chunk", k), Cat("%from", k, " = phi ", type, " [ 0, %", text_.block,
                                    " ], [ %to", k, ", %exit", k, " ]"));
    text_.Put("%any", k, " = icmp slt ", type, " %from", k, ", ", size);
    text_.Put("br i1 %any", k, ", label %poll", k, ", label %done", k);
    text_.Label(Cat("poll", k));
    Poll(Cat(k));
    from = Cat("%from", k);
    to = Cat("%to", k);
    if (u.src(0).Is(Op::CONST) && u.src(0).const_int() % u.tag() == 0) {
      text_.Put("%to", k, " = add nuw nsw ", type, " %from", k, ", ", u.tag());
    } else {
      text_.Put("%left", k, " = sub nsw ", type, " ", size, ", %from", k);
      text_.Put("%whole", k, " = icmp sgt ", type, " %left", k, ", ", u.tag());
      text_.Put("%count", k, " = select i1 %whole", k, ", ", type, " ", u.tag(), ", ", type,
                " %left", k);
      text_.Put("%to", k, " = add nuw nsw ", type, " %from", k, ", %count", k);
    }
  }
  text_.Put("br label %head", k);
  StartBlock(Cat("head", k), Cat("%r", k, " = phi ", type, " [ ", from, ", %", text_.block,
                                 " ], [ %next", k, ", %latch", k, " ]"));
  text_.Put("%more", k, " = icmp slt ", type, " %r", k, ", ", to);
  text_.Put("br i1 %more", k, ", label %loop", k, ", label %exit", k);
  text_.Label(Cat("loop", k));
  if (u.tag() == 1) Poll(Cat(k));
}

// Starts a block. `phi` is written first: it refers to the block before.
void LlvmLoops::StartBlock(const std::string& name, const std::string& phi) {
  Append(text_.body, name, ":\n");
  text_.Put(phi);
  text_.block = name;
}

void LlvmLoops::PutPoll(const std::string& k) {
  text_.Put("%word", k, " = load atomic i32, ptr %stop monotonic, align 4");
  text_.Put("%halt", k, " = icmp ne i32 %word", k, ", 0");
  text_.Put("br i1 %halt", k, ", label %stopped, label %go", k);
  text_.Label(Cat("go", k));
}

void LlvmLoops::Close(UOp range) {
  const int64_t k = range.axis_id();
  text_.Put("br label %latch", k);
  text_.Label(Cat("latch", k));
  text_.Put("%next", k, " = add nuw nsw ", LlvmScalar(range.dtype()), " %r", k, ", 1");
  text_.Put("br label %head", k);
  text_.Label(Cat("exit", k));
  if (range.tag() <= 1) return;
  text_.Put("br label %chunk", k);
  text_.Label(Cat("done", k));
}

}  // namespace uopd::render
