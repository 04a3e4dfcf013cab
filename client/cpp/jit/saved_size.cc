// SPDX-License-Identifier: MIT
#include "client/cpp/jit/saved_size.h"

#include "client/cpp/jit/saved_file.h"
#include "core/base/text.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/verify/spec.h"

namespace uopd::client {
namespace {

using ir::Op;
using ir::UOp;

constexpr size_t kMostBytes = 64 << 10;
// Of the expression when nodes that are used twice are counted twice: evaluation visits that many.
constexpr uint64_t kMostSteps = 4096;
constexpr ir::OpSet kOps{Op::CONST, Op::DEFINE_VAR, Op::BIND,     Op::ADD,   Op::SUB, Op::MUL,
                         Op::MAX,   Op::FLOORDIV,   Op::FLOORMOD, Op::CMPLT, Op::NEG, Op::WHERE};

}  // namespace

std::string SavedSize(const ir::UOpContext& ctx, UOp size) { return ir::Print(ctx, size); }

absl::StatusOr<UOp> LoadedSize(ir::UOpContext& ctx, std::string_view text) {
  if (text.size() > kMostBytes) return Broken("a size is too long");
  ir::UOpContext own;
  const ir::UncheckedNodes unchecked(own);
  const auto size = ir::Parse(own, text, {.max_nodes = kMostSteps});
  if (!size.ok()) return Broken(Cat("a size is no size: ", StatusText(size.status())));
  absl::flat_hash_map<uint32_t, uint64_t> steps;
  for (UOp u : ir::Toposort(own, *size)) {
    uint64_t& n = steps[u.id()];
    n = 1;
    for (UOp s : u.srcs()) n += steps.at(s.id());
    if (n > kMostSteps) return Broken("a size is too large an expression");
    const bool index = u.dtype() == ir::Dtype::Index;
    const bool truth = u.Is(Op::CMPLT) && u.dtype() == ir::Dtype::Bool;
    const bool tagged = u.tag() != 0 && !(u.Is(Op::BIND) && u.tag() == ir::kBound);
    if (!u.Is(kOps) || (!index && !truth) || tagged)
      return Broken(Cat("a size has the node ", ir::Name(u.op())));
    if (absl::Status wrong = ir::VerifyNode(own, u, ir::Level::kClient); !wrong.ok())
      return Broken(Cat("a size is wrong: ", StatusText(wrong)));
  }
  if (size->dtype() != ir::Dtype::Index) return Broken("a size is no integer");
  absl::flat_hash_map<uint32_t, UOp> map;
  return ir::CopyTo(own, *size, ctx, map);
}

}  // namespace uopd::client
