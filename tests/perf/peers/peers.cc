// SPDX-License-Identifier: MIT
#include "tests/perf/peers/peers.h"

#include <cmath>
#include <memory>
#include <unordered_map>

#ifdef UOPD_HAS_OPENBLAS
#include <cblas.h>
#endif
#ifdef UOPD_HAS_ONEDNN
#include <omp.h>
#include <sched.h>

#include <dnnl.hpp>
#endif

#include "tests/perf/peers/lines.h"

namespace uopd::perf {
namespace {

[[maybe_unused]] Array<float> RepeatedNumbers(int64_t n, int seed) {
  Array<float> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(((i + static_cast<size_t>(seed)) * 7919) % 2003) / 1000 - 1;
  return out;
}

#ifdef UOPD_HAS_OPENBLAS
void AddOpenBlas(const MatMulShape& s, int threads, std::vector<PeerRun>& out) {
  if (s.dtype != "f32") return;
  struct State {
    Array<float> a, b, c;
  };
  auto state = std::make_shared<State>(State{RepeatedNumbers(s.batch * s.m * s.k, 1),
                                             RepeatedNumbers(s.batch * s.k * s.n, 2),
                                             RepeatedNumbers(s.batch * s.m * s.n, 3)});
  out.push_back({"OpenBLAS", [s, threads, state] {
                   openblas_set_num_threads(threads);
                   const auto m = static_cast<blasint>(s.m), n = static_cast<blasint>(s.n),
                              k = static_cast<blasint>(s.k);
                   for (int64_t i = 0; i < s.batch; ++i) {
                     const float* a = state->a.data() + i * s.m * s.k;
                     const float* b = state->b.data() + i * s.k * s.n;
                     float* c = state->c.data() + i * s.m * s.n;
                     cblas_sgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans,
                                 s.transpose_b ? CblasTrans : CblasNoTrans, m, n, k, 1, a,
                                 s.transpose_a ? m : k, b, s.transpose_b ? k : n, 0, c, n);
                   }
                 }});
}
#endif

#ifdef UOPD_HAS_ONEDNN
using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

// A sequence of primitives with their memory.
struct Sequence {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<dnnl::primitive> primitives;
  std::vector<std::unordered_map<int, memory>> args;
  std::vector<Array<unsigned char>> arrays;

  memory Make(const memory::desc& desc) {
    arrays.emplace_back(desc.get_size());
    unsigned char* bytes = arrays.back().data();
    memory out(desc, engine, bytes);
    // Small numbers in every dtype that is used here.
    for (size_t i = 0; i < desc.get_size(); ++i)
      bytes[i] = static_cast<unsigned char>(
          desc.data_type() == Type::s8 || desc.data_type() == Type::u8 ? i % 7 : 0x3c);
    return out;
  }
  void Add(dnnl::primitive primitive, std::unordered_map<int, memory> with) {
    primitives.push_back(std::move(primitive));
    args.push_back(std::move(with));
  }
  // `from` in the layout `to`: itself or a reordered copy, made at every run.
  memory In(const memory& from, const memory::desc& to) {
    if (from.get_desc() == to) return from;
    memory out = Make(to);
    Add(dnnl::reorder(from, out), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, out}});
    return out;
  }
};

// Linux may leave two threads on one processor for milliseconds. Thread 0 is the caller.
void SpreadThreads(int threads) {
#pragma omp parallel num_threads(threads)
  if (const int i = omp_get_thread_num(); i > 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(i, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
  }
}

PeerRun OneDnn(std::shared_ptr<Sequence> sequence, int threads) {
  SpreadThreads(threads);
  return {"oneDNN", [sequence, threads] {
            omp_set_num_threads(threads);
            for (size_t i = 0; i < sequence->primitives.size(); ++i)
              sequence->primitives[i].execute(sequence->stream, sequence->args[i]);
            sequence->stream.wait();
          }};
}

void AddOneDnn(const MatMulShape& s, int threads, std::vector<PeerRun>& out) {
  omp_set_num_threads(threads);
  auto seq = std::make_shared<Sequence>();
  const Type from = s.dtype == "f32" ? Type::f32 : s.dtype == "bf16" ? Type::bf16 : Type::s8;
  const Type weights = from, to = s.dtype == "i8" ? Type::s32 : Type::f32;
  const Tag plain = s.batch > 1 ? Tag::abc : Tag::ab, swapped = s.batch > 1 ? Tag::acb : Tag::ba;
  const auto dims = [&](int64_t x, int64_t y) {
    return s.batch > 1 ? memory::dims{s.batch, x, y} : memory::dims{x, y};
  };
  const memory a = seq->Make({dims(s.m, s.k), from, s.transpose_a ? swapped : plain});
  const memory b = seq->Make({dims(s.k, s.n), weights, s.transpose_b ? swapped : plain});
  const memory c = seq->Make({dims(s.m, s.n), to, plain});
  const dnnl::matmul::desc desc(a.get_desc(), b.get_desc(), c.get_desc());
  seq->Add(dnnl::matmul(dnnl::matmul::primitive_desc(desc, seq->engine)),
           {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
  out.push_back(OneDnn(std::move(seq), threads));
}

void AddOneDnn(const ConvShape& s, int threads, std::vector<PeerRun>& out) {
  omp_set_num_threads(threads);
  auto seq = std::make_shared<Sequence>();
  const memory x = seq->Make({{s.batch, s.in, s.size, s.size}, Type::f32, Tag::nchw});
  const memory w =
      s.groups == 1 ? seq->Make({{s.out, s.in, s.kernel, s.kernel}, Type::f32, Tag::oihw})
                    : seq->Make({{s.groups, s.out / s.groups, s.in / s.groups, s.kernel, s.kernel},
                                 Type::f32,
                                 Tag::goihw});
  const memory y = seq->Make({{s.batch, s.out, s.out_size(), s.out_size()}, Type::f32, Tag::nchw});
  const auto any = [](const memory& m) {
    return memory::desc(m.get_desc().dims(), Type::f32, Tag::any);
  };
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, any(x), any(w),
      any(y), {s.stride, s.stride}, {s.padding, s.padding}, {s.padding, s.padding});
  const dnnl::convolution_forward::primitive_desc pd(desc, seq->engine);
  const memory in = seq->In(x, pd.src_desc()), weights = seq->In(w, pd.weights_desc());
  const bool same = pd.dst_desc() == y.get_desc();
  const memory result = same ? y : seq->Make(pd.dst_desc());
  seq->Add(dnnl::convolution_forward(pd),
           {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}});
  if (!same) seq->Add(dnnl::reorder(result, y), {{DNNL_ARG_FROM, result}, {DNNL_ARG_TO, y}});
  out.push_back(OneDnn(std::move(seq), threads));
}

void AddOneDnn(const AttentionWork& s, int threads, std::vector<PeerRun>& out) {
  omp_set_num_threads(threads);
  auto seq = std::make_shared<Sequence>();
  const memory q = seq->Make({{s.heads, s.queries, s.depth}, Type::f32, Tag::abc});
  const memory k = seq->Make({{s.heads, s.depth, s.keys}, Type::f32, Tag::acb});
  const memory v = seq->Make({{s.heads, s.keys, s.depth}, Type::f32, Tag::abc});
  const memory scores = seq->Make({{s.heads, s.queries, s.keys}, Type::f32, Tag::abc});
  const memory mask = seq->Make({{1, s.queries, s.keys}, Type::f32, Tag::abc});
  const memory result = seq->Make({{s.heads, s.queries, s.depth}, Type::f32, Tag::abc});
  dnnl::primitive_attr attributes;
  attributes.set_output_scales(0, {1 / std::sqrt(static_cast<float>(s.depth))});
  std::unordered_map<int, memory> args = {
      {DNNL_ARG_SRC, q}, {DNNL_ARG_WEIGHTS, k}, {DNNL_ARG_DST, scores}};
  if (s.causal) {
    auto* hidden = static_cast<float*>(mask.get_data_handle());
    for (int64_t i = 0; i < s.queries; ++i) {
      for (int64_t j = 0; j < s.keys; ++j)
        hidden[i * s.keys + j] = j > i + s.keys - s.queries ? -INFINITY : 0.0F;
    }
    dnnl::post_ops after;
    after.append_binary(dnnl::algorithm::binary_add, mask.get_desc());
    attributes.set_post_ops(after);
    args.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, mask);
  }
  const dnnl::matmul::desc first(q.get_desc(), k.get_desc(), scores.get_desc());
  seq->Add(dnnl::matmul({first, attributes, seq->engine}), std::move(args));
  const dnnl::softmax_forward::desc softmax(dnnl::prop_kind::forward_inference, scores.get_desc(),
                                            2);
  seq->Add(dnnl::softmax_forward({softmax, seq->engine}),
           {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, scores}});
  const dnnl::matmul::desc second(scores.get_desc(), v.get_desc(), result.get_desc());
  seq->Add(dnnl::matmul({second, seq->engine}),
           {{DNNL_ARG_SRC, scores}, {DNNL_ARG_WEIGHTS, v}, {DNNL_ARG_DST, result}});
  out.push_back(OneDnn(std::move(seq), threads));
}

// An operation from (rows, columns) to (rows, columns).
template <class Make>
std::vector<PeerRun> OverRows(int64_t rows, int64_t columns, int threads, Make make) {
  omp_set_num_threads(threads);
  auto seq = std::make_shared<Sequence>();
  const memory x = seq->Make({{rows, columns}, Type::f32, Tag::ab});
  const memory y = seq->Make({{rows, columns}, Type::f32, Tag::ab});
  seq->Add(make(x.get_desc(), seq->engine), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
  return {OneDnn(std::move(seq), threads)};
}
#endif

}  // namespace

std::vector<PeerRun> MatMulPeers([[maybe_unused]] const MatMulShape& shape,
                                 [[maybe_unused]] int threads) {
  std::vector<PeerRun> out;
#ifdef UOPD_HAS_OPENBLAS
  AddOpenBlas(shape, threads, out);
#endif
#ifdef UOPD_HAS_ONEDNN
  AddOneDnn(shape, threads, out);
#endif
  return out;
}

std::vector<PeerRun> ConvPeers([[maybe_unused]] const ConvShape& shape,
                               [[maybe_unused]] int threads) {
  std::vector<PeerRun> out;
#ifdef UOPD_HAS_ONEDNN
  AddOneDnn(shape, threads, out);
#endif
  return out;
}

std::vector<PeerRun> AttentionPeers([[maybe_unused]] const AttentionWork& work,
                                    [[maybe_unused]] int threads) {
  std::vector<PeerRun> out;
#ifdef UOPD_HAS_ONEDNN
  AddOneDnn(work, threads, out);
#endif
  return out;
}

std::vector<PeerRun> SoftmaxPeers([[maybe_unused]] int64_t rows, [[maybe_unused]] int64_t columns,
                                  [[maybe_unused]] int threads) {
#ifdef UOPD_HAS_ONEDNN
  return OverRows(rows, columns, threads, [](const memory::desc& x, const dnnl::engine& engine) {
    const dnnl::softmax_forward::desc desc(dnnl::prop_kind::forward_inference, x, 1);
    return dnnl::primitive(dnnl::softmax_forward({desc, engine}));
  });
#else
  return {};
#endif
}

std::vector<PeerRun> LayerNormPeers([[maybe_unused]] int64_t rows, [[maybe_unused]] int64_t columns,
                                    [[maybe_unused]] int threads) {
#ifdef UOPD_HAS_ONEDNN
  return OverRows(rows, columns, threads, [](const memory::desc& x, const dnnl::engine& engine) {
    const dnnl::layer_normalization_forward::desc desc(dnnl::prop_kind::forward_inference, x, 1e-5F,
                                                       dnnl::normalization_flags::none);
    return dnnl::primitive(dnnl::layer_normalization_forward({desc, engine}));
  });
#else
  return {};
#endif
}

}  // namespace uopd::perf
