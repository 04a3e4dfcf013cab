// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/passes/transpose_loads.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/terms.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

constexpr size_t kFewestLanes = 4;

// What vectors have in common that may be columns of one square: buffer, terms of the index of lane
// 0 (value, factor), and the distance of each lane from lane 0.
using Square =
    std::tuple<uint32_t, std::vector<std::pair<uint32_t, int64_t>>, std::vector<int64_t>>;

struct Column {
  UOp stack;
  rules::Sum first;  // index of lane 0
};

class Transposer {
 public:
  explicit Transposer(ir::UOpContext& ctx) : ctx_(ctx) {}

  UOp Run(UOp root) {
    for (UOp u : ir::Toposort(ctx_, root)) Note(u);
    ir::Substitution map;
    for (const auto& [square, columns] : squares_) {
      const size_t n = std::get<2>(square).size();
      // Columns are in the order of their addresses.
      for (auto it = columns.begin(); it != columns.end();) {
        std::vector<Column> run;
        for (auto at = it; at != columns.end() && run.size() < n; ++at) {
          if (at->first != it->first + static_cast<int64_t>(run.size())) break;
          run.push_back(at->second);
        }
        if (run.size() == n) Replace(run, std::get<2>(square), map);
        std::advance(it, run.size() == n ? n : 1);
      }
    }
    return map.empty() ? root : ir::Substitute(ctx_, root, map);
  }

 private:
  void Note(UOp u) {
    if (!u.Is(Op::STACK) || u.n_src() < kFewestLanes || !std::has_single_bit(u.n_src())) return;
    const auto is_single_load = [](UOp s) {
      return s.Is(Op::LOAD) && s.src(0).n_src() == 2 && s.src(0).arg().AsInt() <= 1;
    };
    if (!std::all_of(u.srcs().begin(), u.srcs().end(), is_single_load)) return;
    const UOp buffer = u.src(0).src(0).src(0);
    Square square{buffer.id(), {}, {}};
    Column column{u, {}};
    for (size_t lane = 0; lane < u.n_src(); ++lane) {
      const UOp index = u.src(lane).src(0);
      const auto sum = index.src(0) == buffer ? rules::ToSum(ctx_, index.src(1)) : std::nullopt;
      if (!sum) return;
      if (lane == 0) column.first = *sum;
      const auto same = [](const rules::Term& a, const rules::Term& b) {
        return a.value == b.value && a.factor == b.factor;
      };
      if (!std::equal(sum->terms.begin(), sum->terms.end(), column.first.terms.begin(),
                      column.first.terms.end(), same))
        return;
      std::get<2>(square).push_back(sum->constant - column.first.constant);
    }
    if (std::get<2>(square)[1] == 0) return;  // all lanes are one element
    for (const rules::Term& t : column.first.terms)
      std::get<1>(square).emplace_back(t.value.id(), t.factor);
    squares_[square].emplace(column.first.constant, column);
  }

  void Replace(std::span<const Column> columns, std::span<const int64_t> lanes,
               ir::Substitution& map) {
    const size_t n = columns.size();
    const UOp buffer = columns[0].stack.src(0).src(0).src(0);
    std::vector<UOp> rows;
    for (int64_t distance : lanes) {
      rules::Sum at = columns[0].first;
      at.constant += distance;
      const UOp index = rules::FromSum(ctx_, at);
      if (!index) return;
      rows.push_back(
          ir::Load(ctx_, ir::Index(ctx_, buffer, index, UOp(), static_cast<int64_t>(n))));
    }
    // Each step exchanges the off-diagonal quarters of all squares of 2 h rows and lanes.
    for (size_t h = n / 2; h > 0; h /= 2) {
      for (size_t i = 0; i < n; ++i) {
        if ((i & h) != 0) continue;
        std::vector<UOp> upper, lower;
        for (size_t k = 0; k < n; ++k) {
          upper.push_back((k & h) == 0 ? Lane(rows[i], k) : Lane(rows[i + h], k - h));
          lower.push_back((k & h) == 0 ? Lane(rows[i], k + h) : Lane(rows[i + h], k));
        }
        rows[i] = ctx_.Make(Op::STACK, upper[0].dtype(), upper);
        rows[i + h] = ctx_.Make(Op::STACK, lower[0].dtype(), lower);
      }
    }
    for (size_t i = 0; i < n; ++i) map[columns[i].stack.id()] = rows[i];
  }

  UOp Lane(UOp u, size_t k) {
    return ctx_.Make(Op::GEP, u.dtype(), {u}, ir::Arg::Int(static_cast<int64_t>(k)));
  }

  ir::UOpContext& ctx_;
  std::map<Square, std::map<int64_t, Column>> squares_;
};

}  // namespace

UOp TransposeLoads(ir::UOpContext& ctx, UOp sink) { return Transposer(ctx).Run(sink); }

}  // namespace uopd::codegen
