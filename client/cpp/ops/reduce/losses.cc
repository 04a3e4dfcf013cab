// SPDX-License-Identifier: MIT
#include "uopd/losses.h"

#include <cmath>
#include <numbers>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/activations.h"
#include "uopd/linalg.h"
#include "uopd/math.h"

namespace uopd::client::fn {
namespace {

Tensor Combined(const Tensor& loss, Reduction reduction, Site site) {
  if (!loss.status().ok()) return loss;
  switch (reduction) {
    case Reduction::kNone:
      return loss;
    case Reduction::kMean:
      return loss.Mean({}, false, site);
    case Reduction::kSum:
      return loss.Sum({}, false, site);
    case Reduction::kBatchMean:
      if (loss.rank() == 0) return loss;
      return loss.Sum({}, false, site) / SizeAs(loss, ShapeOf(loss)[0]);
  }
  return loss;
}

// f of two operands in f32 or wider, combined, in their dtype.
template <class F>
Tensor Loss(std::string_view what, Operand x, Operand target, Reduction reduction, F f) {
  return OfPair(what, x, target, [&](const Tensor& a, const Tensor& b) {
    return Combined(f(a, b), reduction, x.site());
  });
}

// The gradient at 0 is 1, as that of a clamp.
Tensor PositivePart(const Tensor& x) { return x.AtLeast(0.0); }

// |d| with the quadratic part scaled: d^2 / (2 beta) below beta.
Tensor Bowl(const Tensor& d, double beta) {
  const Tensor size = d.Abs(), near = size < beta;
  const Tensor small = Guarded(near, d, 0);
  return Where(near, small * small * (beta == 0 ? 0 : 0.5 / beta), size - 0.5 * beta);
}

// log(p), but at least -100; the slope is that of a constant there.
Tensor ClampedLog(const Tensor& p, const Tensor& log) {
  return Where(((p > 0.0) & (log > -100.0)) | p.IsNan(), log, Like(log, -100));
}

// Scores and labels of a loss over classes.
struct Classes {
  std::optional<Tensor> error;
  int64_t axis = 0;
  Tensor scores;  // f32 or wider
  Tensor weight;  // f32 or wider, broadcasts along the axis; or empty
};
Classes Prepare(std::string_view what, const Tensor& x, const Tensor& target,
                const ClassLoss& options, Site site) {
  Classes out;
  if ((out.error = FirstError(what, {&x, &target}, site))) return out;
  if (Has(options.weight) && (out.error = FirstError(what, {&x, &options.weight}, site)))
    return out;
  out.axis = x.rank() > 1 ? 1 : 0;
  if (x.rank() == 0) {
    out.error = Wrong(x, what, site, "scores are a scalar");
    return out;
  }
  if (Has(options.weight) && !ShapeOf(x)[static_cast<size_t>(out.axis)].Is(ir::Op::CONST)) {
    out.error =
        Wrong(x, what, site, Cat("weights of a symbolic number of classes: ", ShapeText(x)));
    return out;
  }
  const int64_t classes = x.dims()[static_cast<size_t>(out.axis)];
  if (Has(options.weight)) {
    if (options.weight.dims() != Dims{classes}) {
      out.error =
          Wrong(x, what, site,
                Cat("weight of shape ", Text(options.weight.dims()), " for ", classes, " classes"));
      return out;
    }
    Dims column(x.dims().size(), 1);
    column[static_cast<size_t>(out.axis)] = classes;
    out.weight = Wide(options.weight, site).Reshape(column, site);
  }
  out.scores = Wide(x, site);
  return out;
}

// `log` holds log probabilities.
Tensor OfLabels(std::string_view what, const Classes& c, const Tensor& log, const Tensor& target,
                const ClassLoss& options, Site site) {
  if (!log.status().ok()) return log;
  ir::SymbolicDims rows = SizesOf(log);
  rows.erase(rows.begin() + c.axis);
  if (ir::IsFloat(target.dtype()) || !ir::SameShape(ShapeOf(target), rows)) {
    return Wrong(log, what, site,
                 Cat("labels of ", ir::Name(target.dtype()), " ", Text(target.dims()),
                     " for scores of shape ", Text(log.dims())));
  }
  const Tensor labels = target.Cast(Dtype::I64, site).Unsqueeze(c.axis, site);
  Tensor hot = labels == IotaAlong(log, c.axis, Dtype::I64);
  Tensor counted =
      (labels >= 0) & (labels < SizeTensor(log, ShapeOf(log)[static_cast<size_t>(c.axis)]));
  if (options.ignore_index) {
    const Tensor other = labels != *options.ignore_index;
    hot = hot & other;
    counted = counted & other;
  }
  // Chosen by WHERE, so that the -inf of impossible classes does not count.
  const Tensor zero = Like(log, 0), weight = Has(c.weight) ? c.weight : Like(log, 1);
  const Tensor weights = Where(hot, weight, zero).Sum({c.axis}, false, site);
  Tensor loss = Where(hot, log * weight, zero).Sum({c.axis}, false, site).Neg();
  if (options.label_smoothing != 0) {
    const Tensor n = SizeAs(log, ShapeOf(log)[static_cast<size_t>(c.axis)]);
    const Tensor all = Where(counted, log * weight, zero).Sum({c.axis}, false, site).Neg();
    loss = loss * (1 - options.label_smoothing) + all * (options.label_smoothing / n);
  }
  if (options.reduction != Reduction::kMean) return Combined(loss, options.reduction, site);
  return loss.Sum({}, false, site) / weights.Sum({}, false, site);
}

}  // namespace

Tensor MseLoss(Operand x, Operand target, Reduction reduction) {
  return Loss("MseLoss", x, target, reduction,
              [](const Tensor& a, const Tensor& b) { return (a - b).Square(); });
}
Tensor L1Loss(Operand x, Operand target, Reduction reduction) {
  return Loss("L1Loss", x, target, reduction,
              [](const Tensor& a, const Tensor& b) { return (a - b).Abs(); });
}
Tensor SmoothL1Loss(Operand x, Operand target, double beta, Reduction reduction) {
  return Loss("SmoothL1Loss", x, target, reduction,
              [&](const Tensor& a, const Tensor& b) { return Bowl(a - b, beta); });
}
Tensor HuberLoss(Operand x, Operand target, double delta, Reduction reduction) {
  return Loss("HuberLoss", x, target, reduction,
              [&](const Tensor& a, const Tensor& b) { return Bowl(a - b, delta) * delta; });
}

Tensor BinaryCrossEntropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                          Reduction reduction, Site site) {
  return Loss("BinaryCrossEntropy", {x, site}, {target, site}, reduction,
              [&](const Tensor& p, const Tensor& t) {
                const Tensor inside = p > 0.0, below = p < 1.0;
                const Tensor yes = ClampedLog(p, Where(inside | p.IsNan(), p, Like(p, 1)).Log());
                const Tensor rest = 1.0 - p;
                const Tensor no =
                    ClampedLog(rest, Log1p(Where(below | p.IsNan(), p.Neg(), Like(p, 0)), site));
                const Tensor loss = (t * yes + (1.0 - t) * no).Neg();
                return Has(weight) ? loss * Operand(weight, site) : loss;
              });
}

Tensor BinaryCrossEntropyWithLogits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                    const Tensor& pos_weight, Reduction reduction, Site site) {
  return Loss("BinaryCrossEntropyWithLogits", {x, site}, {target, site}, reduction,
              [&](const Tensor& v, const Tensor& t) {
                // -log sigmoid(x) = softplus(-x), and -log(1 - sigmoid(x)) = x + softplus(-x).
                const Tensor soft = Softplus(v.Neg(), 1, site);
                const Tensor negative = (1.0 - t) * v;
                const Tensor loss =
                    Has(pos_weight)
                        ? negative + ((Operand(pos_weight, site) - 1.0) * t + 1.0) * soft
                        : negative + soft;
                return Has(weight) ? loss * Operand(weight, site) : loss;
              });
}

Tensor NllLoss(const Tensor& x, const Tensor& target, const ClassLoss& options, Site site) {
  const Classes c = Prepare("NllLoss", x, target, options, site);
  if (c.error) return *c.error;
  ClassLoss plain = options;
  plain.label_smoothing = 0;
  return OfLabels("NllLoss", c, c.scores, target, plain, site).Cast(FloatOf(x.dtype()), site);
}

Tensor CrossEntropy(const Tensor& x, const Tensor& target, const ClassLoss& options, Site site) {
  const Classes c = Prepare("CrossEntropy", x, target, options, site);
  if (c.error) return *c.error;
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    return Wrong(x, "CrossEntropy", site, Cat("label smoothing of ", options.label_smoothing));
  const Tensor log = c.scores.LogSoftmax(c.axis, site);
  if (!ir::IsFloat(target.dtype()) || !ir::SameShape(ShapeOf(target), ShapeOf(x)))
    return OfLabels("CrossEntropy", c, log, target, options, site).Cast(FloatOf(x.dtype()), site);
  const Tensor n = SizeAs(log, ShapeOf(x)[static_cast<size_t>(c.axis)]);
  Tensor p = target.Cast(log.dtype(), site);
  if (options.label_smoothing != 0)
    p = p * (1 - options.label_smoothing) + options.label_smoothing / n;
  // A class of probability 0 does not count, also if its score is -inf.
  const Tensor zero = Like(log, 0);
  Tensor terms = Where(p == 0.0, zero, p * log);
  if (Has(c.weight)) terms = terms * c.weight;
  const Tensor loss = terms.Sum({c.axis}, false, site).Neg();
  return Combined(loss, options.reduction, site).Cast(FloatOf(x.dtype()), site);
}

Tensor KlDiv(Operand x, Operand target, Reduction reduction, bool log_target) {
  return Loss("KlDiv", x, target, reduction, [&](const Tensor& a, const Tensor& t) {
    if (log_target) return t.Exp() * (t - a);
    const Tensor some = t != 0.0;
    return t * Guarded(some, t, 1).Log() - t * a;
  });
}

Tensor HingeEmbeddingLoss(Operand x, Operand target, double margin, Reduction reduction) {
  return Loss("HingeEmbeddingLoss", x, target, reduction, [&](const Tensor& a, const Tensor& t) {
    return Where(t == 1.0, a, Where(t == -1.0, PositivePart(margin - a), Like(a, 0)));
  });
}
Tensor HingeLoss(Operand x, Operand target, Reduction reduction) {
  return Loss("HingeLoss", x, target, reduction,
              [](const Tensor& a, const Tensor& t) { return PositivePart(1.0 - a * t); });
}

Tensor CosineSimilarity(Operand a, Operand b, int64_t axis, double epsilon) {
  return OfPair("CosineSimilarity", a, b, [&](const Tensor& x, const Tensor& y) {
    const Site site = a.site();
    const double least = epsilon * epsilon;
    auto squares = [&](const Tensor& v) {
      const Tensor sum = v.Square().Sum({axis}, false, site);
      return Where(sum < least, Like(sum, least), sum);
    };
    const Tensor dot = (x * y).Sum({axis}, false, site);
    return dot * squares(x).Rsqrt() * squares(y).Rsqrt();
  });
}

Tensor CosineEmbeddingLoss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                           Reduction reduction, Site site) {
  const int64_t axis = a.rank() > 1 ? 1 : 0;
  const Tensor similarity = CosineSimilarity({a, site}, {b, site}, axis);
  return Loss("CosineEmbeddingLoss", {similarity, site}, {target, site}, reduction,
              [&](const Tensor& c, const Tensor& t) {
                return Where(t == 1.0, 1.0 - c,
                             Where(t == -1.0, PositivePart(c - margin), Like(c, 0)));
              });
}

Tensor TripletMarginLoss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                         double margin, double p, double epsilon, Reduction reduction, Site site) {
  if (auto error = FirstError("TripletMarginLoss", {&anchor, &positive, &negative}, site))
    return *error;
  if (anchor.rank() == 0) return Wrong(anchor, "TripletMarginLoss", site, "the anchor is a scalar");
  auto distance = [&](const Tensor& other) {
    return Norm(Wide(anchor, site) - Wide(other, site) + epsilon, p, {-1}, false, site);
  };
  return Loss("TripletMarginLoss", {distance(positive), site}, {distance(negative), site},
              reduction,
              [&](const Tensor& near, const Tensor& far) {
                return PositivePart(near - far + margin);
              })
      .Cast(FloatOf(ir::Promote(anchor.dtype(), positive.dtype())), site);
}

Tensor MarginRankingLoss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                         Reduction reduction, Site site) {
  if (auto error = FirstError("MarginRankingLoss", {&a, &b, &target}, site)) return *error;
  return Loss(
      "MarginRankingLoss", Operand(a, site) - b, {target, site}, reduction,
      [&](const Tensor& d, const Tensor& t) { return PositivePart((t * d).Neg() + margin); });
}

Tensor PoissonNllLoss(Operand x, Operand target, bool log_input, bool full, double epsilon,
                      Reduction reduction) {
  return Loss("PoissonNllLoss", x, target, reduction, [&](const Tensor& a, const Tensor& t) {
    Tensor loss = log_input ? a.Exp() - t * a : a - t * (a + epsilon).Log();
    if (!full || !loss.status().ok()) return loss;
    const Tensor many = t > 1.0, safe = Guarded(many, t, 1);
    const Tensor stirling = safe * safe.Log() - safe + (safe * (2 * std::numbers::pi)).Log() * 0.5;
    return loss + Guarded(many, stirling, 0);
  });
}

Tensor GaussianNllLoss(const Tensor& x, const Tensor& target, const Tensor& variance, bool full,
                       double epsilon, Reduction reduction, Site site) {
  if (auto error = FirstError("GaussianNllLoss", {&x, &target, &variance}, site)) return *error;
  const Tensor wide = Wide(variance, site);
  const Tensor enough = wide > epsilon;
  const Tensor v = wide + Where(enough, Like(wide, 0), Like(wide, epsilon) - wide).Detach(site);
  return Loss("GaussianNllLoss", {x, site}, {target, site}, Reduction::kNone,
              [&](const Tensor& a, const Tensor& t) {
                const Tensor loss = (v.Log(site) + (a - t).Square(site) / v) * 0.5;
                const double constant = full ? 0.5 * std::log(2 * std::numbers::pi) : 0;
                return Combined(loss + constant, reduction, site);
              });
}

}  // namespace uopd::client::fn
