// SPDX-License-Identifier: MIT
#include "tests/support/repeated_graphs.h"

#include "core/ir/build.h"
#include "tests/support/model_graphs.h"

namespace uopd::test {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

UOp Unary(UOpContext& ctx, Op op, UOp x) { return ctx.Make(op, x.dtype(), {x}); }

// Applies x = f(x, i) n times to a value of shape `dims`, and stores the result.
template <class F>
UOp Chain(UOpContext& ctx, int n, const Dims& dims, F f) {
  GraphBuilder g(ctx);
  UOp x = g.Input(dims);
  for (int i = 0; i < n; ++i) x = f(g, x, i);
  g.Output(x);
  return g.Finish();
}

// n STOREs of f(state) into one slot.
template <class F>
UOp Stores(UOpContext& ctx, int n, const Dims& dims, F f) {
  GraphBuilder g(ctx);
  UOp x = g.Input(dims);
  std::vector<UOp> stores;
  for (int i = 0; i < n; ++i) {
    const UOp store = ir::Store(ctx, x, f(g, x, i));
    stores.push_back(store);
    x = ir::After(ctx, x, {store});
  }
  return ir::Sink(ctx, stores);
}

// As `Stores`, but every STORE has the PARAM as its target and stands below the AFTER of the STORE
// before.
template <class F>
UOp StoresOfParam(UOpContext& ctx, int n, const Dims& dims, F f) {
  GraphBuilder g(ctx);
  const UOp param = g.Input(dims);
  UOp x = param;
  std::vector<UOp> stores;
  for (int i = 0; i < n; ++i) {
    stores.push_back(ir::Store(ctx, param, f(g, x, i)));
    x = ir::After(ctx, param, {stores.back()});
  }
  return ir::Sink(ctx, stores);
}

UOp Rotated(GraphBuilder& g, UOp x) {
  const int64_t n = g.DimsOf(x)[0];
  UOp head = g.Shrink(x, {0}, {1}), tail = g.Shrink(x, {1}, {n - 1});
  return ir::Add(g.ctx(), g.Pad(tail, {0}, {n}), g.Pad(head, {n - 1}, {n}));
}

const std::vector<Repeated>& Table() {
  static const auto& table = *new std::vector<Repeated>{
      // Chains of STOREs
      {"stores", [](UOpContext& ctx, int n) {
         return Stores(ctx, n, {16}, [](GraphBuilder& g, UOp x, int) {
           return ir::Add(g.ctx(), x, g.Const(x, 1));
         });
       }},
      {"stores_of_a_param", [](UOpContext& ctx, int n) {
         return StoresOfParam(ctx, n, {16}, [](GraphBuilder& g, UOp x, int) {
           return ir::Add(g.ctx(), x, g.Const(x, 1));
         });
       }},
      {"stores_of_the_last_only", [](UOpContext& ctx, int n) {  // the SINK has only the last one
         const UOp all = Stores(ctx, n, {16}, [](GraphBuilder& g, UOp x, int) {
           return ir::Add(g.ctx(), x, g.Const(x, 1));
         });
         const UOp last = all.src(all.n_src() - 1);
         return ir::Sink(ctx, std::span(&last, 1));
       }},
      {"stores_in_reverse", [](UOpContext& ctx, int n) {  // every one needs a copy
         return Stores(ctx, n, {16}, [](GraphBuilder& g, UOp x, int) {
           const int64_t axis = 0;
           return ir::Flip(g.ctx(), x, std::span(&axis, 1));
         });
       }},
      {"stores_of_sums", [](UOpContext& ctx, int n) {
         return Stores(ctx, n, {16, 16}, [](GraphBuilder& g, UOp x, int) {
           return ir::Sub(g.ctx(), x, g.Sum(x, {1}));
         });
       }},
      {"stores_into_slices", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         const UOp param = g.Input({int64_t{4} * n});
         UOp x = param;
         std::vector<UOp> stores;
         for (int i = 0; i < n; ++i) {
           const UOp slice = g.Shrink(x, {int64_t{4} * i}, {4});
           stores.push_back(ir::Store(ctx, slice, ir::Add(ctx, slice, g.Const(x, i))));
           x = ir::After(ctx, x, {stores.back()});
         }
         return ir::Sink(ctx, stores);
       }},
      {"stores_into_slices_at_once", [](UOpContext& ctx, int n) {  // one AFTER of all
         GraphBuilder g(ctx);
         const UOp param = g.Input({int64_t{4} * n});
         std::vector<UOp> stores;
         for (int i = 0; i < n; ++i) {
           const UOp slice = g.Shrink(param, {int64_t{4} * i}, {4});
           stores.push_back(ir::Store(ctx, slice, ir::Add(ctx, slice, g.Const(param, i))));
         }
         g.Output(g.Sum(ir::After(ctx, param, stores), {0}));
         const UOp sum = g.Finish();
         stores.push_back(sum.src(0));
         return ir::Sink(ctx, stores);
       }},
      {"stores_into_neighbours", [](UOpContext& ctx, int n) {  // reads the slice before
         GraphBuilder g(ctx);
         UOp x = g.Input({int64_t{4} * n + 4});
         std::vector<UOp> stores;
         for (int i = 0; i < n; ++i) {
           const UOp from = g.Shrink(x, {int64_t{4} * i}, {4});
           stores.push_back(ir::Store(ctx, g.Shrink(x, {int64_t{4} * i + 4}, {4}),
                                      ir::Add(ctx, from, g.Const(x, 1))));
           x = ir::After(ctx, x, {stores.back()});
         }
         return ir::Sink(ctx, stores);
       }},
      {"stores_and_reads", [](UOpContext& ctx, int n) {  // every state is read into its own slot
         GraphBuilder g(ctx);
         UOp x = g.Input({16});
         std::vector<UOp> stores;
         for (int i = 0; i < n; ++i) {
           stores.push_back(ir::Store(ctx, x, ir::Mul(ctx, x, g.Const(x, 2))));
           x = ir::After(ctx, x, {stores.back()});
           stores.push_back(ir::Store(ctx, g.Input({1}), g.Sum(x, {0})));
         }
         return ir::Sink(ctx, stores);
       }},
      {"stores_swap", [](UOpContext& ctx, int n) {  // two slots change places n times
         GraphBuilder g(ctx);
         UOp x = g.Input({16}), y = g.Input({16});
         std::vector<UOp> stores;
         for (int i = 0; i < n; ++i) {
           const UOp a = ir::Store(ctx, x, y), b = ir::Store(ctx, y, x);
           stores.push_back(a);
           stores.push_back(b);
           x = ir::After(ctx, x, {a, b});
           y = ir::After(ctx, y, {b, a});
         }
         return ir::Sink(ctx, stores);
       }},
      {"swaps", [](UOpContext& ctx, int n) {  // pairs of slots, each swapped once
         GraphBuilder g(ctx);
         std::vector<UOp> stores;
         for (int i = 0; i < n; ++i) {
           const UOp x = g.Input({16}), y = g.Input({16});
           stores.push_back(ir::Store(ctx, x, y));
           stores.push_back(ir::Store(ctx, y, x));
         }
         return ir::Sink(ctx, stores);
       }},
      {"rotated_slots", [](UOpContext& ctx, int n) {  // one cycle of n
         GraphBuilder g(ctx);
         std::vector<UOp> slots, stores;
         for (int i = 0; i < n; ++i) slots.push_back(g.Input({16}));
         for (int i = 0; i < n; ++i) {
           stores.push_back(ir::Store(ctx, slots[static_cast<size_t>(i)],
                                      slots[static_cast<size_t>((i + 1) % n)]));
         }
         return ir::Sink(ctx, stores);
       }},
      {"optimizer", [](UOpContext& ctx, int n) { return AdamGraph(ctx, n, 8, 8); }},
      // Reductions
      {"reductions", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16, 16}, [](GraphBuilder& g, UOp x, int) {
           return ir::Sub(g.ctx(), x, g.Sum(x, {1}));
         });
       }},
      {"reductions_of_large", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {64, 1024}, [](GraphBuilder& g, UOp x, int) {
           return ir::Sub(g.ctx(), x, g.Sum(x, {1}));
         });
       }},
      {"reductions_of_one", [](UOpContext& ctx, int n) {  // x, n different sums of it
         GraphBuilder g(ctx);
         const UOp x = g.Input({16, 16});
         UOp sum = g.Const(x, 0);
         for (int i = 0; i < n; ++i)
           sum = ir::Add(ctx, sum, g.Sum(ir::Mul(ctx, x, g.Const(x, i + 1)), {i % 2}));
         g.Output(g.Sum(sum, {0, 1}));
         return g.Finish();
       }},
      {"softmaxes", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16, 64}, [](GraphBuilder& g, UOp x, int) { return g.Softmax(x); });
       }},
      {"prefix_sums", [](UOpContext& ctx, int n) {  // sums of windows of a running value
         return Chain(ctx, n, {64}, [](GraphBuilder& g, UOp x, int i) {
           const UOp sum = g.Reshape(g.Sum(g.Reshape(x, {8, 8}), {i % 2}), {8});
           return ir::Add(g.ctx(), x,
                          g.Reshape(ir::Expand(g.ctx(), g.Reshape(sum, {8, 1}), Dims{8, 8}), {64}));
         });
       }},
      // Views
      {"views", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {6, 10, 14}, [](GraphBuilder& g, UOp x, int i) {
           const Dims shapes[] = {{6, 10, 14}, {10, 14, 6}, {14, 6, 10}, {15, 7, 8}, {4, 21, 10}};
           const int64_t axis = i % 3;
           switch (i % 3) {
             case 0:
               return g.Reshape(x, shapes[i / 3 % 5]);
             case 1:
               return g.Permute(x, {1, 2, 0});
             default:
               return ir::Flip(g.ctx(), x, std::span(&axis, 1));
           }
         });
       }},
      {"views_without_flips", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {6, 10, 14}, [](GraphBuilder& g, UOp x, int i) {
           const Dims shapes[] = {{6, 10, 14}, {10, 14, 6}, {14, 6, 10}, {15, 7, 8}, {4, 21, 10}};
           return i % 2 == 0 ? g.Reshape(x, shapes[i / 2 % 5]) : g.Permute(x, {2, 0, 1});
         });
       }},
      {"permutes", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {6, 10, 14},
                      [](GraphBuilder& g, UOp x, int) { return g.Permute(x, {1, 2, 0}); });
       }},
      {"flips", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {6, 10, 14}, [](GraphBuilder& g, UOp x, int i) {
           const int64_t axis = i % 3;
           return ir::Flip(g.ctx(), x, std::span(&axis, 1));
         });
       }},
      {"windows", [](UOpContext& ctx, int n) {  // SHRINK by one, PAD by one
         return Chain(ctx, n, {16, 16}, [](GraphBuilder& g, UOp x, int i) {
           return g.Pad(g.Shrink(x, {i % 2, 0}, {15, 16}), {i / 2 % 2, 0}, {16, 16});
         });
       }},
      {"rotations", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {64}, [](GraphBuilder& g, UOp x, int) { return Rotated(g, x); });
       }},
      {"views_and_sums", [](UOpContext& ctx, int n) {  // x + flip(x): two demands a step
         return Chain(ctx, n, {6, 10}, [](GraphBuilder& g, UOp x, int i) {
           const int64_t axis = i % 2;
           return ir::Add(g.ctx(), x, ir::Flip(g.ctx(), x, std::span(&axis, 1)));
         });
       }},
      {"neighbours", [](UOpContext& ctx, int n) {  // x + x shifted: a demand more with every step
         return Chain(ctx, n, {256}, [](GraphBuilder& g, UOp x, int) {
           return ir::Add(g.ctx(), x, g.Pad(g.Shrink(x, {1}, {255}), {0}, {256}));
         });
       }},
      {"sorting_network", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {4, 2, 8}, [](GraphBuilder& g, UOp x, int i) {
           const UOp a = g.Shrink(x, {0, 0, 0}, {4, 1, 8}), b = g.Shrink(x, {0, 1, 0}, {4, 1, 8});
           const UOp high = ir::Alu(g.ctx(), Op::MAX, {a, b});
           const UOp low = ir::Sub(g.ctx(), ir::Add(g.ctx(), a, b), high);
           const UOp both = ir::Add(g.ctx(), g.Pad(low, {0, 0, 0}, {4, 2, 8}),
                                    g.Pad(high, {0, 1, 0}, {4, 2, 8}));
           return i % 2 == 0 ? g.Reshape(g.Permute(both, {1, 2, 0}), {4, 2, 8}) : both;
         });
       }},
      // Concatenations
      {"concatenation", [](UOpContext& ctx, int n) {  // of n parts at once, as a sum of PADs
         GraphBuilder g(ctx);
         UOp sum;
         for (int i = 0; i < n; ++i) {
           const UOp part = g.Pad(g.Input({4}), {int64_t{4} * i}, {int64_t{4} * n});
           sum = sum ? ir::Add(ctx, sum, part) : part;
         }
         g.Output(sum);
         return g.Finish();
       }},
      {"concatenation_of_one", [](UOpContext& ctx, int n) {  // the parts are views of one buffer
         GraphBuilder g(ctx);
         const UOp x = g.Input({int64_t{4} * n});
         UOp sum;
         for (int i = 0; i < n; ++i) {
           const UOp piece = g.Shrink(x, {int64_t{4} * (n - 1 - i)}, {4});
           const UOp part = g.Pad(piece, {int64_t{4} * i}, {int64_t{4} * n});
           sum = sum ? ir::Add(ctx, sum, part) : part;
         }
         g.Output(sum);
         return g.Finish();
       }},
      {"concatenations", [](UOpContext& ctx, int n) {  // one part after the other
         GraphBuilder g(ctx);
         UOp x = g.Input({4});
         for (int64_t i = 1; i <= n; ++i)
           x = ir::Add(ctx, g.Pad(x, {0}, {4 * i + 4}), g.Pad(g.Input({4}), {4 * i}, {4 * i + 4}));
         g.Output(x);
         return g.Finish();
       }},
      {"stack", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         std::vector<UOp> parts;
         for (int i = 0; i < n; ++i) parts.push_back(g.Input({4}));
         g.Output(ctx.Make(Op::STACK, Dtype::F32, parts));
         return g.Finish();
       }},
      {"stacks", [](UOpContext& ctx, int n) {  // split and put together again
         return Chain(ctx, n, {2, 8}, [](GraphBuilder& g, UOp x, int) {
           const UOp a = g.Reshape(g.Shrink(x, {0, 0}, {1, 8}), {8}),
                     b = g.Reshape(g.Shrink(x, {1, 0}, {1, 8}), {8});
           return g.ctx().Make(Op::STACK, x.dtype(), {ir::Sub(g.ctx(), a, b), a});
         });
       }},
      // Branches
      {"diamonds", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16}, [](GraphBuilder& g, UOp x, int) {
           return ir::Mul(g.ctx(), ir::Add(g.ctx(), x, g.Const(x, 1)),
                          ir::Sub(g.ctx(), x, g.Const(x, 2)));
         });
       }},
      {"tree", [](UOpContext& ctx, int n) {  // n branches of one value, joined in pairs
         GraphBuilder g(ctx);
         const UOp x = g.Input({16});
         std::vector<UOp> level;
         for (int i = 0; i < n; ++i)
           level.push_back(Unary(ctx, Op::SQRT, ir::Add(ctx, x, g.Const(x, i))));
         while (level.size() > 1) {
           std::vector<UOp> next;
           for (size_t i = 0; i + 1 < level.size(); i += 2)
             next.push_back(ir::Mul(ctx, level[i], level[i + 1]));
           if (level.size() % 2 == 1) next.push_back(level.back());
           level = std::move(next);
         }
         g.Output(level[0]);
         return g.Finish();
       }},
      {"sum_of_slots", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         UOp sum = g.Input({16});
         for (int i = 0; i < n; ++i) sum = ir::Add(ctx, sum, g.Input({16}));
         g.Output(sum);
         return g.Finish();
       }},
      {"products_of_all_pairs_of_sums", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         const UOp x = g.Input({32, 32});
         UOp sum = x;
         for (int i = 0; i < n; ++i) {
           const UOp rows = g.Sum(sum, {1}), columns = g.Sum(x, {0});
           sum = ir::Add(ctx, ir::Mul(ctx, rows, columns), sum);
         }
         g.Output(sum);
         return g.Finish();
       }},
      {"outputs", [](UOpContext& ctx, int n) {  // of one value, each in a slot of its own
         GraphBuilder g(ctx);
         const UOp x = g.Input({64, 64});
         for (int i = 0; i < n; ++i) g.Output(ir::Mul(ctx, x, g.Const(x, i + 2)));
         return g.Finish();
       }},
      {"outputs_of_a_chain", [](UOpContext& ctx, int n) {  // every step is also stored
         GraphBuilder g(ctx);
         UOp x = g.Input({64, 64});
         for (int i = 0; i < n; ++i) {
           x = ir::Mul(ctx, x, g.Const(x, i + 2));
           g.Output(x);
         }
         return g.Finish();
       }},
      {"graphs_side_by_side", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         for (int i = 0; i < n; ++i) g.Output(g.Softmax(g.Input({16, 16 + i % 7})));
         return g.Finish();
       }},
      {"residuals", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16, 32}, [](GraphBuilder& g, UOp x, int) {
           return ir::Add(g.ctx(), x, g.Relu(g.LayerNorm(x)));
         });
       }},
      // Products of matrices
      {"small_products", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {8, 8}, [](GraphBuilder& g, UOp x, int) {
           return g.MatMul(x, g.Input({8, 8}));
         });
       }},
      {"products_of_one", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         const UOp a = g.Input({8, 8});
         UOp x = a;
         for (int i = 0; i < n; ++i) x = g.MatMul(x, a);
         g.Output(x);
         return g.Finish();
       }},
      {"newton_schulz", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {8, 8}, [](GraphBuilder& g, UOp x, int) {
           const UOp y = g.MatMul(x, g.Transpose(x));
           const UOp z = ir::Add(g.ctx(), ir::Mul(g.ctx(), y, g.Const(x, -4.775)),
                                 ir::Mul(g.ctx(), g.MatMul(y, y), g.Const(x, 2.0315)));
           return ir::Add(g.ctx(), ir::Mul(g.ctx(), x, g.Const(x, 3.4445)), g.MatMul(z, x));
         });
       }},
      {"large_products", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {128, 128}, [](GraphBuilder& g, UOp x, int) {
           return g.MatMul(x, g.Input({128, 128}));
         });
       }},
      {"attention", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {64, 32},
                      [](GraphBuilder& g, UOp x, int) { return g.Attention(x, x, x); });
       }},
      {"transformers", [](UOpContext& ctx, int n) { return TransformerGraph(ctx, n, 16, 32, 2); }},
      // Elementwise
      {"additions", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16}, [](GraphBuilder& g, UOp x, int) {
           return ir::Add(g.ctx(), Unary(g.ctx(), Op::SQRT, x), g.Const(x, 1));
         });
       }},
      {"additions_of_x", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         const UOp a = g.Input({16}), b = g.Input({16});
         UOp x = a;
         for (int i = 0; i < n; ++i) x = ir::Add(ctx, x, i % 2 == 0 ? a : b);
         g.Output(x);
         return g.Finish();
       }},
      {"sines", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16},
                      [](GraphBuilder& g, UOp x, int) { return Unary(g.ctx(), Op::SIN, x); });
       }},
      {"sines_of_large", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {1 << 20},
                      [](GraphBuilder& g, UOp x, int) { return Unary(g.ctx(), Op::SIN, x); });
       }},
      {"choices", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16}, [](GraphBuilder& g, UOp x, int i) {
           return ir::Where(g.ctx(), ir::Lt(g.ctx(), x, g.Const(x, i)), Unary(g.ctx(), Op::NEG, x),
                            x);
         });
       }},
      {"integer_rounds", [](UOpContext& ctx, int n) {  // as a hash function has
         GraphBuilder g(ctx);
         UOp x = g.Input({5, 5}, Dtype::U64);
         for (int i = 0; i < n; ++i) {
           const UOp parity = g.Sum(x, {0});
           UOp y = ctx.Make(Op::XOR, x.dtype(),
                            {x, ir::Expand(ctx, parity, Dims{5, 5})});
           y = ctx.Make(Op::OR, x.dtype(),
                        {ctx.Make(Op::SHL, x.dtype(), {y, ctx.Int(x.dtype(), i % 63 + 1)}),
                         ctx.Make(Op::SHR, x.dtype(), {y, ctx.Int(x.dtype(), 63 - i % 63)})});
           x = ctx.Make(Op::XOR, x.dtype(), {g.Permute(y, {1, 0}), ctx.Int(x.dtype(), i)});
         }
         g.Output(x);
         return g.Finish();
       }},
      {"casts", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16}, [](GraphBuilder& g, UOp x, int i) {
           return i % 2 == 0 ? ir::Cast(g.ctx(), x, Dtype::I32) : ir::Cast(g.ctx(), x, Dtype::F32);
         });
       }},
      {"contiguous", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16}, [](GraphBuilder& g, UOp x, int) {
           return g.Contiguous(ir::Mul(g.ctx(), x, g.Const(x, 3)));
         });
       }},
      {"steps_and_back", [](UOpContext& ctx, int n) {  // as training: the last step is used first
         GraphBuilder g(ctx);
         UOp x = g.Input({16});
         std::vector<UOp> steps;
         for (int i = 0; i < n; ++i)
           steps.push_back(x = g.Contiguous(ir::Mul(ctx, x, g.Const(x, 3))));
         for (; !steps.empty(); steps.pop_back())
           x = g.Contiguous(ir::Mul(ctx, x, steps.back()));
         g.Output(x);
         return g.Finish();
       }},
      {"random_bits", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         UOp x = g.Input({16}, Dtype::U64);
         for (int i = 0; i < n; ++i)
           x = ctx.Make(Op::THREEFRY, Dtype::U64, {x, ctx.Int(Dtype::U64, i)});
         g.Output(x);
         return g.Finish();
       }},
      {"broadcasts", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16, 1}, [](GraphBuilder& g, UOp x, int) {
           const UOp wide = ir::Mul(g.ctx(), ir::Expand(g.ctx(), x, Dims{16, 16}),
                                    g.Permute(ir::Expand(g.ctx(), x, Dims{16, 16}), {1, 0}));
           return g.Shrink(wide, {0, 3}, {16, 1});
         });
       }},
      {"embeddings", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         UOp ids = g.Input({8}, Dtype::I32);
         UOp sum;
         for (int i = 0; i < n; ++i) {
           const Dims wide = {8, 32, 4};
           const UOp place = ir::Iota(ctx, Dtype::I32, ir::ShapeArg(ctx, wide), 1);
           const UOp hit = ctx.Make(
               Op::CMPEQ, Dtype::Bool,
               {place, ir::Expand(ctx, g.Reshape(ids, {8, 1, 1}), wide)});
           const UOp table = ir::Expand(ctx, g.Reshape(g.Input({32, 4}), {1, 32, 4}), wide);
           const UOp row = g.Sum(ir::Where(ctx, hit, table, ctx.Float(Dtype::F32, 0)), {1});
           sum = sum ? ir::Add(ctx, sum, row) : row;
         }
         g.Output(sum);
         return g.Finish();
       }},
      // Several devices
      {"copies", [](UOpContext& ctx, int n) {
         return Chain(ctx, n, {16}, [](GraphBuilder& g, UOp x, int i) {
           const UOp y = ir::Mul(g.ctx(), x, g.Const(x, 3));
           return g.ctx().Make(Op::COPY, x.dtype(), {y},
                               g.ctx().Data({}, i % 2 == 0 ? "CPU:1" : "CPU:0"));
         });
       }},
      {"pieces", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         const UOp a = g.Input({8, 16});
         const UOp b = ctx.Make(Op::COPY, a.dtype(), {g.Input({8, 16})}, ctx.Data({}, "CPU:1"));
         UOp x = ctx.Make(Op::MULTI, a.dtype(), {a, b}, ctx.Data({0}));
         for (int i = 0; i < n; ++i) x = ir::Sub(ctx, x, g.Sum(x, {i % 2}));
         g.Output(ctx.Make(Op::COPY, x.dtype(), {x}, ctx.Data({}, "CPU:0")));
         return g.Finish();
       }},
      // Symbolic sizes
      {"symbolic_views", [](UOpContext& ctx, int n) {
         GraphBuilder g(ctx);
         const UOp v = ir::Variable(ctx, "v", 1, 32);
         UOp x = g.Input({32, 6});
         x = ir::Shrink(ctx, x, ir::ShapeArg(ctx, Dims{0, 0}),
                        ctx.Make(Op::STACK, Dtype::Index, {v, ctx.Idx(6)}));
         for (int i = 0; i < n; ++i) {
           const int64_t axis = i % 2;
           x = i % 3 == 0 ? ir::Flip(ctx, x, std::span(&axis, 1))
                          : ir::Add(ctx, x, g.Const(x, i));
         }
         g.Output(g.Sum(x, {0}));
         return g.Finish();
       }},
  };
  return table;
}

}  // namespace

const std::vector<Repeated>& RepeatedGraphs() { return Table(); }

}  // namespace uopd::test
