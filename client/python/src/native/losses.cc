// SPDX-License-Identifier: MIT
// Losses: one line each.
#include "uopd/losses.h"
#include "native/binding.h"

namespace uopd::python {
namespace {

namespace fn = client::fn;
using H = const Handle&;
using A = const Arg&;
using M = const Maybe&;

fn::Reduction R(int r) { return static_cast<fn::Reduction>(r); }

}  // namespace

void BindLosses(Ops op) {
  op("binary_crossentropy", [](Site s, H x, H y, int r) {
    return fn::BinaryCrossEntropy(x.tensor(), y.tensor(), {}, R(r), s);
  });
  op("binary_crossentropy_logits", [](Site s, H x, H y, int r, M pos) {
    return fn::BinaryCrossEntropyWithLogits(x.tensor(), y.tensor(), {}, pos.get(), R(r), s);
  });
  op("cross_entropy", [](Site s, H x, H y, int r, double smoothing, std::optional<int64_t> ignore) {
    return fn::CrossEntropy(
        x.tensor(), y.tensor(),
        {.ignore_index = ignore, .reduction = R(r), .label_smoothing = smoothing}, s);
  });
  op("nll_loss", [](Site s, H x, H y, M w, std::optional<int64_t> ignore, int r) {
    return fn::NllLoss(x.tensor(), y.tensor(),
                       {.weight = w.get(), .ignore_index = ignore, .reduction = R(r)}, s);
  });
  op("mse_loss", [](Site s, A x, A y, int r) { return fn::MseLoss(x.At(s), y.At(s), R(r)); });
  op("l1_loss", [](Site s, A x, A y, int r) { return fn::L1Loss(x.At(s), y.At(s), R(r)); });
  op("smooth_l1_loss", [](Site s, A x, A y, double beta, int r) {
    return fn::SmoothL1Loss(x.At(s), y.At(s), beta, R(r));
  });
  op("huber_loss", [](Site s, A x, A y, double delta, int r) {
    return fn::HuberLoss(x.At(s), y.At(s), delta, R(r));
  });
  op("kl_div", [](Site s, A x, A y, int r, bool log_target) {
    return fn::KlDiv(x.At(s), y.At(s), R(r), log_target);
  });
  op("poisson_nll_loss", [](Site s, A x, A y, bool log_input, bool full, double e, int r) {
    return fn::PoissonNllLoss(x.At(s), y.At(s), log_input, full, e, R(r));
  });
  op("gaussian_nll_loss", [](Site s, H x, H y, H v, bool full, double e, int r) {
    return fn::GaussianNllLoss(x.tensor(), y.tensor(), v.tensor(), full, e, R(r), s);
  });
  op("margin_ranking_loss", [](Site s, H a, H b, H y, double margin, int r) {
    return fn::MarginRankingLoss(a.tensor(), b.tensor(), y.tensor(), margin, R(r), s);
  });
  op("triplet_margin_loss", [](Site s, H a, H b, H c, double margin, double p, double e, int r) {
    return fn::TripletMarginLoss(a.tensor(), b.tensor(), c.tensor(), margin, p, e, R(r), s);
  });
  op("hinge_embedding_loss", [](Site s, A x, A y, double margin, int r) {
    return fn::HingeEmbeddingLoss(x.At(s), y.At(s), margin, R(r));
  });
  op("cosine_similarity", [](Site s, A a, A b, int64_t axis, double e) {
    return fn::CosineSimilarity(a.At(s), b.At(s), axis, e);
  });
  op("cosine_embedding_loss", [](Site s, H a, H b, H y, double margin, int r) {
    return fn::CosineEmbeddingLoss(a.tensor(), b.tensor(), y.tensor(), margin, R(r), s);
  });
}

}  // namespace uopd::python
