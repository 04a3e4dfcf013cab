// SPDX-License-Identifier: MIT
#include "core/render/ptx/matrix.h"

#include "core/ir/mma.h"

namespace uopd::render {

using ir::UOp;

std::string PtxMatrixLoad(UOp u) {
  return Cat("ldmatrix.sync.aligned.m8n8.x", u.ints()[0], u.ints()[1] != 0 ? ".trans" : "",
             ".shared.b16");
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
