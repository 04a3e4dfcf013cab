// SPDX-License-Identifier: MIT
#include "core/rewrite/rule_set.h"

#include <cstdlib>

#include "core/base/status.h"

namespace uopd::rewrite {

Int128 FoldInts(Op op, Int128 a, Int128 b) {
  switch (op) {
    case Op::ADD:
      return a + b;
    case Op::SUB:
      return a - b;
    case Op::MUL: {
      Int128 out;
      constexpr Int128 kTooBig = Int128{1} << 120;  // fits no dtype: FittingConst refuses it
      return __builtin_mul_overflow(a, b, &out) ? kTooBig : out;
    }
    case Op::FLOORDIV:
      return b == 0 ? 0 : a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
    case Op::FLOORMOD:
      return b == 0 ? 0 : a % b + ((a % b != 0) && ((a < 0) != (b < 0)) ? b : 0);
    case Op::MAX:
      return a > b ? a : b;
    case Op::AND:
      return a & b;
    case Op::OR:
      return a | b;
    case Op::XOR:
      return a ^ b;
    case Op::CMPLT:
      return a < b;
    case Op::CMPNE:
      return a != b;
    case Op::CMPEQ:
      return a == b;
    default:
      UOPD_CHECK(false);
      return 0;
  }
}

UOp FittingConst(UOpContext& ctx, Dtype want, Int128 v) {
  const ir::IntRange range = ir::RangeOf(want);
  return ir::IsFloat(want) || v < range.min || v > range.max ? UOp() : ctx.Int(want, v);
}

PatternTree DescribeNode(ir::OpSet ops, std::vector<PatternTree> children) {
  PatternTree t;
  t.kind = PatternTree::kNode, t.ops = ops;
  for (PatternTree& c : children) {
    if (c.rest && c.variable < 0 && c.kind == PatternTree::kAny) {
      t.rest = true;
      continue;
    }
    if (c.each) t.each = true, c.each = false;
    t.children.push_back(std::move(c));
  }
  return t;
}

namespace {
// True if UOPD_DISABLE_RULES names "set.rule".
bool Disabled(const Rule& rule) {
  static const char* list = std::getenv("UOPD_DISABLE_RULES");
  if (list == nullptr) return false;
  const std::string wanted = std::string(rule.set) + "." + std::string(rule.name);
  std::string_view rest = list;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    if (rest.substr(0, end) == wanted) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}
}  // namespace

// masks[word][position][op]: bit i set if rule i of this root op can match a source with that op. A
// missing source counts as every op. One word holds 64 rules; most root ops have one word.
struct RuleSet::Bucket {
  struct Word {
    uint64_t masks[3][ir::kOpCount] = {};
    uint64_t all = 0;
    uint32_t first = 0;  // index into `rules` of bit 0
  };
  std::vector<Word> words;
  std::vector<std::pair<const Rule*, uint32_t>> rules;  // rule, index into rules_
};

RuleSet::RuleSet(std::string_view name) : name_(name) {}
RuleSet::~RuleSet() = default;
RuleSet::RuleSet(RuleSet&&) noexcept = default;

void RuleSet::Register(std::shared_ptr<const Rule> rule) { rules_.push_back(std::move(rule)); }

void RuleSet::Include(const RuleSet& other) {
  rules_.insert(rules_.end(), other.rules_.begin(), other.rules_.end());
}

void RuleSet::Freeze() {
  std::erase_if(rules_, [](const auto& rule) { return Disabled(*rule); });
  for (uint32_t index = 0; index < rules_.size(); ++index) {
    const Rule& rule = *rules_[index];
    for (int op = 0; op < ir::kOpCount; ++op) {
      if (!rule.roots.Has(static_cast<Op>(op))) continue;
      auto& bucket = buckets_[op];
      if (!bucket) bucket = std::make_unique<Bucket>();
      const size_t i = bucket->rules.size();
      bucket->rules.emplace_back(&rule, index);
      if (i % 64 == 0) bucket->words.emplace_back().first = static_cast<uint32_t>(i);
      Bucket::Word& word = bucket->words.back();
      const uint64_t bit = uint64_t{1} << (i % 64);
      word.all |= bit;
      for (int position = 0; position < 3; ++position) {
        for (int source = 0; source < ir::kOpCount; ++source) {
          if (rule.sources.at[position].Has(static_cast<Op>(source)))
            word.masks[position][source] |= bit;
        }
      }
    }
  }
}

RuleSet::Outcome RuleSet::Apply(UOp u, UOpContext& ctx, uint64_t* attempts) const {
  const Bucket* bucket = buckets_[static_cast<int>(u.op())].get();
  if (bucket == nullptr) return {};
  const size_t n = std::min<size_t>(u.n_src(), 3);
  for (const Bucket::Word& word : bucket->words) {
    uint64_t bits = word.all;
    for (size_t i = 0; i < n; ++i) bits &= word.masks[i][static_cast<int>(u.src(i).op())];
    for (; bits != 0; bits &= bits - 1) {
      const auto& [rule, index] =
          bucket->rules[word.first + static_cast<uint32_t>(std::countr_zero(bits))];
      ++attempts[index];
      if (const UOp out = rule->apply(*rule, u, ctx)) return {out, index};
    }
  }
  return {};
}

}  // namespace uopd::rewrite
