// SPDX-License-Identifier: MIT
#include "core/render/ptx/matrix.h"

#include "core/ir/mma.h"

namespace uopd::render {

using ir::UOp;

std::string PtxMatrixLoad(UOp u) {
  return Cat("ldmatrix.sync.aligned.m8n8.x", u.ints()[0], u.ints()[1] != 0 ? ".trans" : "",
             ".shared.b16");
}

std::string PtxAsync(UOp u) {
  if (u.Is(ir::Op::ASYNC_COPY)) return "cp.async.cg.shared.global";
  if (u.Is(ir::Op::ASYNC_COMMIT)) return "cp.async.commit_group";
  return Cat("cp.async.wait_group ", u.arg().AsInt());
}

absl::StatusOr<PtxGroupInstruction> PtxGroupMma(const Target& target, UOp u) {
  const ir::GroupMma mma = ir::GroupMma::Of(u);
  for (const MatrixInstruction& i : target.matrix_instructions) {
    if (!i.in_shared() || i.m != mma.m || i.n != mma.n || i.k != mma.k ||
        static_cast<int64_t>(i.a) != mma.a || static_cast<int64_t>(i.b) != mma.b)
      continue;
    // The accumulator stays, and the factors keep their signs. Only elements of 16 bits may lie
    // across the sum.
    const bool is_float = i.sum == DtypeNumber::F32;
    const bool halves = i.a == DtypeNumber::BF16 || i.a == DtypeNumber::F16;
    std::string after = is_float ? ", 1, 1, 1" : ", 1";
    if (halves)
      Append(after, mma.a_matrix.along_sum ? ", 0" : ", 1", mma.b_matrix.along_sum ? ", 0" : ", 1");
    return PtxGroupInstruction{
        Cat("wgmma.mma_async.sync.aligned.m", mma.m, "n", mma.n, "k", mma.k, ".",
            PtxMatrixType(i.sum), ".", PtxMatrixType(i.a), ".", PtxMatrixType(i.b)),
        std::move(after)};
  }
  return absl::UnimplementedError("the target has no such matrix instruction");
}

uint64_t PtxDescriptor(const ir::SharedMatrix& matrix) {
  constexpr int kLead = 16, kStride = 32, kSwizzle = 62;  // lowest bits of the fields
  const auto pieces = [](int64_t bytes) { return static_cast<uint64_t>(bytes / 16); };
  const uint64_t swizzle = matrix.span == 128 ? 1 : matrix.span == 64 ? 2 : 3;
  // Along the sum there is one span, and the field must be 1.
  const uint64_t lead = matrix.along_sum ? 1 : pieces(matrix.lead);
  return lead << kLead | pieces(matrix.stride) << kStride | swizzle << kSwizzle;
}

std::string PtxGroupOrder(UOp u) {
  switch (u.op()) {
    case ir::Op::MMA_BEGIN:
      return "wgmma.fence.sync.aligned";
    case ir::Op::MMA_COMMIT:
      return "wgmma.commit_group.sync.aligned";
    case ir::Op::MMA_WAIT:
      return Cat("wgmma.wait_group.sync.aligned ", u.arg().AsInt());
    default:
      return "fence.proxy.async.shared::cta";
  }
}

absl::Status PtxMatrixProduct(PtxText& text, const Target& target, UOp u) {
  const ir::Mma mma = ir::Mma::Of(u);
  const MatrixInstruction* found = nullptr;
  for (const MatrixInstruction& i : target.matrix_instructions) {
    if (i.of_warp() && i.m == mma.m && i.n == mma.n && i.k == mma.k &&
        static_cast<int64_t>(i.a) == mma.a && static_cast<int64_t>(i.b) == mma.b)
      found = &i;
  }
  if (found == nullptr)
    return absl::UnimplementedError("the target has no such matrix instruction");
  std::vector<std::string> results;
  for (int64_t e = 0; e < mma.results(); ++e) results.push_back(text.Fresh(u.dtype()));
  const auto list = [](int64_t n, const auto& element) {
    std::string out = "{";
    for (int64_t e = 0; e < n; ++e) Append(out, e == 0 ? "" : ", ", element(e));
    return out + "}";
  };
  const auto lanes = [&](UOp x, int64_t n) {
    return list(n, [&](int64_t e) { return text.Register(x, e); });
  };
  const std::string a = lanes(u.src(0), mma.a_words), b = lanes(u.src(1), mma.b_words);
  std::string sum;
  if (u.n_src() == 3) {
    sum = lanes(u.src(2), mma.results());
  } else {
    const std::string zero = text.New(kPtxWord, "mov.b32", "0");
    sum = list(mma.results(), [&](int64_t) -> const std::string& { return zero; });
  }
  const std::string_view type = PtxMatrixType(found->sum);
  text.Put("mma.sync.aligned.m", mma.m, "n", mma.n, "k", mma.k, ".row.col.", type, ".",
           PtxMatrixType(found->a), ".", PtxMatrixType(found->b), ".", type, " ",
           list(mma.results(), [&](int64_t e) { return results[static_cast<size_t>(e)]; }), ", ", a,
           ", ", b, ", ", sum);
  text.Set(u, std::move(results));
  return absl::OkStatus();
}

}  // namespace uopd::render
