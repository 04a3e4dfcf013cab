// SPDX-License-Identifier: MIT
#include "core/render/formats.h"

#include "core/base/telemetry/log.h"
#include "core/ir/mma.h"
#include "core/render/ptx/bulk.h"
#include "core/render/ptx/control.h"
#include "core/render/ptx/matrix.h"
#include "core/render/ptx/memory.h"
#include "core/render/ptx/values.h"

namespace uopd::render {
namespace {

using ir::Op;
using ir::UOp;

// One kernel. The parts of the text share `text_`; this class knows which line is whose, and the
// text around.
class PtxKernel {
 public:
  explicit PtxKernel(const Request& request)
      : request_(request),
        kernel_(BlockKernel::Of(request.linear, request.buffers)),
        text_(request.ctx),
        values_(text_),
        memory_(text_, kernel_),
        control_(text_, kernel_) {}

  absl::StatusOr<std::string> Run() {
    memory_.FindArrays(request_.linear);
    // A launch of many blocks, each of them too short to poll in its loops.
    if (request_.linear.tag() != 0) control_.Poll();
    for (UOp u : request_.linear.srcs()) {
      if (request_.ctx.Interrupted(8)) return request_.ctx.CheckInterrupt();
      if (absl::Status s = Line(u); !s.ok())
        return WithFrame(std::move(s), Cat("rendering ", Name(u.op()), " as PTX"));
    }
    return Module();
  }

 private:
  absl::Status Line(UOp u) {
    switch (u.op()) {
      case Op::PARAM:
        return memory_.Param(u, Parameter(Cat("b", u.slot())));
      case Op::DEFINE_VAR:
        return Variable(u);
      case Op::BUFFER:
        return memory_.Array(u);
      case Op::SPECIAL:
        return control_.Special(u);
      case Op::AFTER:  // INDEX looks through it
      case Op::GROUP:
        return absl::OkStatus();
      case Op::RANGE:
        control_.Begin(u);
        memory_.OpenScope();
        return absl::OkStatus();
      case Op::END:
        for (size_t i = 1; i < u.n_src(); ++i) {
          memory_.CloseScope();
          control_.End();
        }
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
        control_.Barrier();
        return absl::OkStatus();
      case Op::ROLE:
        control_.BeginRole(u);
        memory_.OpenScope();
        return absl::OkStatus();
      case Op::ROLE_END:
        memory_.CloseScope();
        control_.EndRole();
        return absl::OkStatus();
      case Op::SHUFFLE:
        return control_.Shuffle(u);
      case Op::ASYNC_COPY:
        memory_.AsyncCopy(u);
        return absl::OkStatus();
      case Op::ASYNC_COMMIT:
      case Op::ASYNC_WAIT:
        text_.Put(PtxAsync(u));
        return absl::OkStatus();
      case Op::BULK_INIT:
      case Op::BULK_EXPECT:
      case Op::BULK_WAIT:
      case Op::BULK_ARRIVE:
        memory_.Bulk(u, "");
        return absl::OkStatus();
      case Op::BULK_COPY:
        memory_.Bulk(u, MapRegister(kernel_.MapNumber(u)));
        return absl::OkStatus();
      case Op::MMA_BEGIN:
      case Op::MMA_COMMIT:
      case Op::MMA_WAIT:
      case Op::SHARED_FENCE:
        text_.Put(PtxGroupOrder(u));
        return absl::OkStatus();
      case Op::GROUP_MMA:
        return memory_.GroupMma(request_.target, u);
      case Op::MATRIX_LOAD:
        memory_.MatrixLoad(u);
        return absl::OkStatus();
      case Op::MMA:
        return PtxMatrixProduct(text_, request_.target, u);
      case Op::WMMA:
      case Op::WMMA_BLOCK:
        return NoPtx(u);
      default:
        return values_.Line(u);
    }
  }

  absl::Status Variable(UOp u) {
    for (size_t i = 0; i < request_.variables.size(); ++i) {
      if (request_.variables[i] != u.text()) continue;
      text_.Set(u, {text_.New(kPtxLong, "ld.param.u64", Cat("[", Parameter(Cat("var", i)), "]"))});
      return absl::OkStatus();
    }
    return UOPD_BUG(Cat("variable ", u.text(), " is not in the kernel's list"));
  }

  static std::string MapRegister(size_t map) { return Cat("%map", map); }
  std::string Parameter(std::string_view name) const { return Cat(request_.name, "_", name); }

  std::string Module() const {
    std::string parameters;
    const auto parameter = [&](std::string_view name) {
      Append(parameters, parameters.empty() ? "" : ",\n", "  .param .u64 ", Parameter(name));
    };
    for (size_t i = 0; i < kernel_.slots.size(); ++i) parameter(Cat("b", i));
    for (size_t i = 0; i < request_.variables.size(); ++i) parameter(Cat("var", i));
    parameter("stop");
    std::string maps;  // what sets the registers with their addresses
    for (size_t i = 0; i < kernel_.maps.size(); ++i) {
      const std::string name = Parameter(Cat("map", i));
      Append(parameters, ",\n  .param .align ", kTensorMapAlignment, " .b8 ", name, "[",
             kTensorMapBytes, "]");
      Append(maps, "  .reg .b64 ", MapRegister(i), ";\n  mov.b64 ", MapRegister(i), ", ", name,
             ";\n  cvta.param.u64 ", MapRegister(i), ", ", MapRegister(i), ";\n");
    }
    std::string out = Cat(".version ", PtxVersion(request_.target.arch, UsesFp8()), "\n.target ",
                          request_.target.arch, "\n.address_size 64\n\n");
    if (memory_.shared_bytes() > 0)
      Append(out, ".extern .shared .align ", kernel_.shared_alignment, " .b8 shared[];\n\n");
    Append(out, ".visible .entry ", request_.name, "(\n", parameters, "\n)\n");
    if (kernel_.threads > 0) Append(out, ".maxntid ", kernel_.threads, ", 1, 1\n");
    if (kernel_.SetsRegisters()) out += ".minnctapersm 1\n";
    Append(out, "{\n", text_.Declarations(), maps);
    if (control_.polls()) {
      Append(out, "  .reg .b64 ", PtxControl::kStop, ";\n  ld.param.u64 ", PtxControl::kStop, ", [",
             Parameter("stop"), "];\n  cvta.to.global.u64 ", PtxControl::kStop, ", ",
             PtxControl::kStop, ";\n");
    }
    Append(out, text_.body(), "  ret;\n}\n");
    return out;
  }

  bool UsesFp8() const {
    for (UOp u : request_.linear.srcs()) {
      if (!u.Is({Op::MMA, Op::GROUP_MMA})) continue;
      const auto a =
          static_cast<DtypeNumber>(u.Is(Op::MMA) ? ir::Mma::Of(u).a : ir::GroupMma::Of(u).a);
      if (a == DtypeNumber::F8E4M3 || a == DtypeNumber::F8E5M2) return true;
    }
    return false;
  }

  const Request& request_;
  const BlockKernel kernel_;
  PtxText text_;
  PtxValues values_;
  PtxMemory memory_;
  PtxControl control_;
};

}  // namespace

absl::StatusOr<std::string> RenderPtx(const Request& request) { return PtxKernel(request).Run(); }

}  // namespace uopd::render
