// SPDX-License-Identifier: MIT
#include "core/render/formats.h"

#include <algorithm>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/render/llvm_loops.h"
#include "core/render/llvm_memory.h"
#include "core/render/llvm_text.h"
#include "core/render/llvm_tiles.h"
#include "core/render/llvm_values.h"

namespace uopd::render {
namespace {

using ir::Op;
using ir::UOp;

class LlvmWriter {
 public:
  LlvmWriter(ir::UOpContext& ctx, std::span<const std::string> variables)
      : ctx_(ctx), variables_(variables) {}

  absl::StatusOr<std::string> Run(UOp linear, std::string_view name) {
    for (UOp u : linear.srcs()) {
      if (u.Is(Op::PARAM)) slots_.push_back(u);
    }
    std::sort(slots_.begin(), slots_.end(), [](UOp a, UOp b) { return a.slot() < b.slot(); });
    memory_.FindArrays(linear);
    values_.FindLanes(linear);
    for (UOp u : linear.srcs()) {
      if (ctx_.Interrupted(8)) return ctx_.CheckInterrupt();
      if (absl::Status s = Line(u); !s.ok())
        return WithFrame(std::move(s), Cat("rendering ", Name(u.op()), " as LLVM IR"));
    }
    return Module(name);
  }

 private:
  // The external function unpacks its arrays and calls an internal function, whose noalias
  // parameters tell LLVM that buffers do not overlap.
  std::string Module(std::string_view name) {
    std::string params, unpack, args;
    for (UOp p : slots_) {
      const int64_t k = p.slot();
      Append(params, "ptr noalias %b", k, ", ");
      Append(unpack, "  %p", k, " = getelementptr ptr, ptr %buffers, i64 ", k, "\n  %b", k,
             " = load ptr, ptr %p", k, "\n");
      Append(args, "ptr %b", k, ", ");
    }
    for (size_t i = 0; i < variables_.size(); ++i) {
      Append(params, "i64 %var", i, ", ");
      Append(unpack, "  %q", i, " = getelementptr i64, ptr %vars, i64 ", i, "\n  %var", i,
             " = load i64, ptr %q", i, "\n");
      Append(args, "i64 %var", i, ", ");
    }
    const bool stops = loops_.polls() || memory_.waits();
    if (memory_.waits()) {
      params += "ptr %shared, ";
      unpack += "  %pw = getelementptr ptr, ptr %buffers, i64 -2\n  %shared = load ptr, ptr %pw\n";
      args += "ptr %shared, ";
    }
    if (stops) {
      params += "ptr %stop, ";
      unpack += "  %ps = getelementptr ptr, ptr %buffers, i64 -1\n  %stop = load ptr, ptr %ps\n";
      args += "ptr %stop, ";
    }
    // What was stored around the caches is seen by other threads after a fence only.
    const std::string end = Cat(tiles_.End(), memory_.streams() ? "  fence seq_cst\n" : "");
    const std::string_view begin = tiles_.Begin();
    std::string out = Cat("@zeros = internal unnamed_addr constant [", memory_.zero_bytes(),
                          " x i8] zeroinitializer, align 8\n", tiles_.Constants(), "\n");
    Append(out, "define internal void @", name, ".body(", params, "i64 %thread) #0 {\nentry:\n",
           text_.registers, begin, text_.body, end, "  ret void\n",
           stops ? Cat("stopped:\n", end, "  ret void\n") : "", "}\n\n");
    Append(out, "define void @", name, "(ptr %buffers, ptr %vars, i64 %thread) #0 {\n", unpack,
           "  call void @", name, ".body(", args, "i64 %thread)\n  ret void\n}\n\n");
    for (const std::string& d : text_.declared()) Append(out, "declare ", d, "\n");
    Append(out, "\nattributes #0 = { nounwind \"prefer-vector-width\"=\"",
           text_.widest_bytes() >= 64 ? 512 : 256, "\"",
           text_.widest_bytes() > 0 ? " \"uopd-in-vectors\"" : "", " }\n");
    if (memory_.streams()) out += "!0 = !{i32 1}\n";
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
        const auto it = std::find(variables_.begin(), variables_.end(), u.text());
        if (it == variables_.end())
          return UOPD_BUG(Cat("variable ", u.text(), " is not in the kernel's list"));
        names[u.id()] = Cat("%var", it - variables_.begin());
        return absl::OkStatus();
      }
      case Op::SPECIAL:
        names[u.id()] = "%thread";
        return absl::OkStatus();
      case Op::AFTER:
        names[u.id()] = std::string(names.at(u.src(0).id()));  // a copy: the table may grow
        return absl::OkStatus();
      case Op::GROUP:
        return absl::OkStatus();
      case Op::INDEX:
        return memory_.Index(u);
      case Op::RANGE:
        memory_.OpenLoop(u);
        loops_.Open(u);
        return absl::OkStatus();
      case Op::END:
        for (size_t i = 1; i < u.n_src(); ++i) {
          memory_.CloseLoop();
          loops_.Close(u.src(i));
        }
        return absl::OkStatus();
      case Op::LOAD:
        return memory_.Load(u);
      case Op::STORE:
        return memory_.Store(u);
      case Op::WMMA_BLOCK:
        return tiles_.Block(u);
      default:
        return values_.Line(u);
    }
  }

  ir::UOpContext& ctx_;
  std::span<const std::string> variables_;
  std::vector<UOp> slots_;
  LlvmText text_{ctx_};
  LlvmLoops loops_{text_};
  LlvmMemory memory_{ctx_, text_};
  LlvmValues values_{ctx_, text_};
  LlvmTiles tiles_{text_};
};

}  // namespace

absl::StatusOr<std::string> RenderLlvmIr(ir::UOpContext& ctx, UOp linear, std::string_view name,
                                         std::span<const std::string> variables) {
  return LlvmWriter(ctx, variables).Run(linear, name);
}

}  // namespace uopd::render
