// SPDX-License-Identifier: MIT
#include "core/render/ptx/bulk.h"

namespace uopd::render {

using ir::Op;
using ir::UOp;

namespace {

// An index of 32 or 64 bits as a word.
std::string PtxBulkWord(PtxText& text, UOp x) {
  const std::string value = text.Register(x);
  return IsLongInPtx(x.dtype()) ? text.New(kPtxWord, "cvt.u32.u64", value) : value;
}

}  // namespace

std::string PtxBulk(UOp u) {
  switch (u.op()) {
    case Op::BULK_INIT:
      return "mbarrier.init.shared::cta.b64";
    case Op::BULK_EXPECT:
      return "mbarrier.arrive.expect_tx.shared::cta.b64";
    case Op::BULK_ARRIVE:
      return "mbarrier.arrive.shared::cta.b64";
    case Op::BULK_WAIT:
      return "mbarrier.try_wait.parity.shared::cta.b64";
    default:
      return Cat("cp.async.bulk.tensor.", u.n_src() - 3,
                 "d.shared::cluster.global.mbarrier::complete_tx::bytes");
  }
}

void PtxBulkCopy(PtxText& text, UOp u, const std::string& gate, const std::string& to,
                 const std::string& map, const std::string& barrier) {
  std::string coordinates;
  for (UOp c : u.srcs().subspan(3))
    Append(coordinates, coordinates.empty() ? "{" : ", ", PtxBulkWord(text, c));
  text.PutIf(gate, PtxBulk(u), " ", to, ", [", map, ", ", coordinates, "}], ", barrier);
}

void PtxBulkInit(PtxText& text, UOp u, const std::string& gate,
                 const std::vector<std::string>& barriers) {
  for (const std::string& b : barriers) text.PutIf(gate, PtxBulk(u), " ", b, ", ", u.arg().AsInt());
  text.Put(kPtxBulkInitFence);
}

void PtxBulkExpect(PtxText& text, UOp u, const std::string& gate, const std::string& barrier) {
  text.PutIf(gate, PtxBulk(u), " _, ", barrier, ", ", u.ints()[0]);
}

void PtxBulkArrive(PtxText& text, UOp u, const std::string& gate, const std::string& barrier) {
  text.PutIf(gate, PtxBulk(u), " _, ", barrier);
}

std::string PtxSetRegisters(const ir::WarpRole& role, int64_t threads) {
  return Cat("setmaxnreg.", role.registers > ir::WarpRole::AtLaunch(threads) ? "inc" : "dec",
             ".sync.aligned.u32 ", role.registers);
}

void PtxBulkWait(PtxText& text, UOp u, const std::string& barrier) {
  const std::string parity = PtxBulkWord(text, u.src(1)), again = text.FreshLabel();
  text.Label(again);
  const std::string over = text.New(kPtxPredicate, PtxBulk(u), barrier, ", ", parity);
  text.PutIf("!" + over, "bra ", again);
}

}  // namespace uopd::render
