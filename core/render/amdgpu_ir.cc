// SPDX-License-Identifier: MIT
#include "core/render/formats.h"

#include <algorithm>

#include "core/base/telemetry/log.h"
#include "core/render/amdgpu_memory.h"
#include "core/render/amdgpu_warp.h"
#include "core/render/block_kernel.h"
#include "core/render/llvm_loops.h"
#include "core/render/llvm_values.h"

namespace uopd::render {
namespace {

using ir::Op;
using ir::UOp;

// Everything that the threads of a block stored before is seen by all of them after it.
void PutBarrier(LlvmText& text) {
  text.Put("fence syncscope(\"workgroup\") release");
  text.Put(text.Call("@llvm.amdgcn.s.barrier", "void", {}));
  text.Put("fence syncscope(\"workgroup\") acquire");
}

// Loops whose polls all threads of a warp, or of a block, do together: LLVM then knows that they
// stay together.
class AmdgpuLoops final : public LlvmLoops {
 public:
  using LlvmLoops::LlvmLoops;

  // The threads of a block wait for each other. Before everything else.
  void WaitForBlock() { block_ = true; }
  void PollAtBegin() { Poll("begin"); }
  bool uses_block_word() const { return block_ && polls(); }  // @stop_seen

 private:
  void PutPoll(const std::string& k) override {
    std::string word = Cat("%word", k);
    if (block_) {
      // One thread reads the word, and tells the others: the word may change between two reads.
      text_.Put("%thread", k, " = ", text_.Call("@llvm.amdgcn.workitem.id.x", "i32", {}));
      text_.Put("%first", k, " = icmp eq i32 %thread", k, ", 0");
      text_.Put("br i1 %first", k, ", label %read", k, ", label %tell", k);
      text_.Label(Cat("read", k));
    }
    text_.Put(word, " = load atomic i32, ptr addrspace(1) %stop monotonic, align 4");
    if (block_) {
      text_.Put("store i32 ", word, ", ptr addrspace(3) @stop_seen, align 4");
      text_.Put("br label %tell", k);
      text_.Label(Cat("tell", k));
      PutBarrier(text_);
      word = Cat("%seen", k);
      text_.Put(word, " = load i32, ptr addrspace(3) @stop_seen, align 4");
    }
    text_.Put("%same", k, " = ",
              text_.Call("@llvm.amdgcn.readfirstlane.i32", "i32", {{"i32", word}}));
    text_.Put("%halt", k, " = icmp ne i32 %same", k, ", 0");
    text_.Put("br i1 %halt", k, ", label %stopped, label %go", k);
    text_.Label(Cat("go", k));
    if (block_) PutBarrier(text_);  // before the word is written again
  }

  bool block_ = false;
};

class AmdgpuWriter {
 public:
  explicit AmdgpuWriter(const Request& request) : request_(request), ctx_(request.ctx) {}

  absl::StatusOr<std::string> Run() {
    memory_.FindArrays(request_.linear);
    values_.FindLanes(request_.linear);
    if (kernel_.together) loops_.WaitForBlock();
    if (request_.linear.tag() != 0) loops_.PollAtBegin();
    for (UOp u : request_.linear.srcs()) {
      if (ctx_.Interrupted(8)) return ctx_.CheckInterrupt();
      if (absl::Status s = Line(u); !s.ok())
        return WithFrame(std::move(s), Cat("rendering ", Name(u.op()), " as LLVM IR for AMDGPU"));
    }
    return Module();
  }

 private:
  std::string Module() const {
    std::string params;
    for (size_t slot = 0; slot < kernel_.slots.size(); ++slot)
      Append(params, "ptr addrspace(1) noalias ",
             kernel_.stored.contains(static_cast<int64_t>(slot)) ? "" : "readonly ", "%b", slot,
             ", ");
    for (size_t i = 0; i < request_.variables.size(); ++i) Append(params, "i64 %var", i, ", ");
    std::string out = "target triple = \"amdgcn-amd-amdhsa\"\n\n";
    if (memory_.zero_bytes() > 0)
      Append(out, "@zeros = internal unnamed_addr addrspace(1) constant [", memory_.zero_bytes(),
             " x i8] zeroinitializer, align 16\n");
    if (memory_.shared_bytes() > 0)
      Append(out, "@shared = internal unnamed_addr addrspace(3) global [", memory_.shared_bytes(),
             " x i8] undef, align ", ir::SharedLayout::kAlignment, "\n");
    if (loops_.uses_block_word())
      out += "@stop_seen = internal unnamed_addr addrspace(3) global i32 undef, align 4\n";
    Append(out, "\ndefine protected amdgpu_kernel void @", request_.name, "(", params,
           "ptr addrspace(1) %stop) #0 {\nentry:\n", text_.registers, text_.body, "  ret void\n",
           loops_.polls() ? "stopped:\n  ret void\n" : "", "}\n\n");
    for (const std::string& d : text_.declared()) Append(out, "declare ", d, "\n");
    Append(out, "\nattributes #0 = { nounwind \"amdgpu-no-implicitarg-ptr\" ",
           "\"uniform-work-group-size\"=\"true\"",
           kernel_.threads > 0 ? Cat(" \"amdgpu-flat-work-group-size\"=\"", kernel_.threads, ",",
                                     kernel_.threads, "\"")
                               : std::string(),
           " }\n");
    return out;
  }

  absl::Status Line(UOp u) {
    auto& names = text_.names;
    switch (u.op()) {
      case Op::PARAM:
        if (LlvmScalar(u.dtype()).empty()) return NoLlvmRendering(u);
        names[u.id()] = Cat("%b", u.slot());
        return absl::OkStatus();
      case Op::BUFFER:
        return memory_.Buffer(u);
      case Op::DEFINE_VAR: {
        const auto& variables = request_.variables;
        const auto it = std::find(variables.begin(), variables.end(), u.text());
        if (it == variables.end())
          return UOPD_BUG(Cat("variable ", u.text(), " is not in the kernel's list"));
        names[u.id()] = Cat("%var", it - variables.begin());
        return absl::OkStatus();
      }
      case Op::SPECIAL:
        return Special(u);
      case Op::AFTER:
        names[u.id()] = std::string(names.at(u.src(0).id()));  // a copy: the table may grow
        return absl::OkStatus();
      case Op::GROUP:
        return absl::OkStatus();
      case Op::RANGE:
        loops_.Open(u);
        return absl::OkStatus();
      case Op::END:
        for (size_t i = 1; i < u.n_src(); ++i) loops_.Close(u.src(i));
        return absl::OkStatus();
      case Op::INDEX:
        memory_.Index(u);
        return absl::OkStatus();
      case Op::LOAD:
        memory_.Load(u);
        return absl::OkStatus();
      case Op::STORE:
        memory_.Store(u);
        return absl::OkStatus();
      case Op::BARRIER:
        PutBarrier(text_);
        return absl::OkStatus();
      case Op::SHUFFLE:
        warp_.Shuffle(u);
        return absl::OkStatus();
      case Op::MMA:
        return warp_.Matrix(u);
      case Op::MULACC:
        MultiplyAdd(u);
        return absl::OkStatus();
      case Op::WMMA:
      case Op::WMMA_BLOCK:
      case Op::EXP2:
      case Op::EXP:
        return NoLlvmRendering(u);
      default:
        return values_.Line(u);
    }
  }

  absl::Status Special(UOp u) {
    const auto axis = static_cast<ir::AxisType>(u.ints()[0]);
    if (axis != ir::AxisType::GLOBAL && axis != ir::AxisType::LOCAL) return NoLlvmRendering(u);
    const std::string call =
        text_.Call(Cat("@llvm.amdgcn.", axis == ir::AxisType::GLOBAL ? "workgroup" : "workitem",
                       ".id.", "xyz"[u.ints()[1]]),
                   "i32", {});
    if (ir::ByteSize(u.dtype()) == 4) {
      text_.Put(text_.Fresh(u), " = ", call);
      return absl::OkStatus();
    }
    const std::string narrow = text_.Temporary();
    text_.Put(narrow, " = ", call);
    text_.Put(text_.Fresh(u), " = zext i32 ", narrow, " to ", LlvmScalar(u.dtype()));
    return absl::OkStatus();
  }

  // Rounded once, unlike what @llvm.fmuladd may do.
  void MultiplyAdd(UOp u) {
    const int64_t n = Lanes(ctx_, u);
    const std::string type = text_.TypeOf(u), a = text_.Operand(u.src(0), n),
                      b = text_.Operand(u.src(1), n), c = text_.Operand(u.src(2), n);
    const std::string call = text_.Call(Cat("@llvm.fma.", LlvmMangled(u.dtype(), n)), type,
                                        {{type, a}, {type, b}, {type, c}});
    text_.Put(text_.Fresh(u), " = ", call);
  }

  const Request& request_;
  ir::UOpContext& ctx_;
  const BlockKernel kernel_ = BlockKernel::Of(request_.linear, request_.buffers);
  LlvmText text_{ctx_};
  AmdgpuLoops loops_{text_};
  AmdgpuMemory memory_{ctx_, text_};
  LlvmValues values_{ctx_, text_};
  AmdgpuWarp warp_{ctx_, text_, request_.target};
};

}  // namespace

absl::StatusOr<std::string> RenderAmdgpuIr(const Request& request) {
  return AmdgpuWriter(request).Run();
}

}  // namespace uopd::render
