// SPDX-License-Identifier: MIT
#include "client/cli/rewrite_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/text.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxNode = 500'000'000;

int64_t Int(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : -1;
}
std::string Text(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

absl::StatusOr<RewriteLog> RewriteLog::Read(std::istream& in) {
  RewriteLog log;
  log.nodes_.resize(1);  // numbers of nodes begin at 1
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    absl::Status s = log.Line(line);
    if (!s.ok() && in.peek() == std::istream::traits_type::eof()) break;
    UOPD_TRY(WithFrame(s, Cat("reading line ", number)));
  }
  // Inner passes are recorded before the outer ones, because they end first. Their numbers give the
  // order in which they began.
  std::vector<size_t> order(log.passes_.size()), place(order.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return log.passes_[a].id < log.passes_[b].id; });
  std::vector<Pass> passes;
  for (size_t i : order) {
    place[i] = passes.size();
    passes.push_back(std::move(log.passes_[i]));
  }
  log.passes_ = std::move(passes);
  std::vector<Step> steps;
  for (Pass& p : log.passes_) {
    for (size_t& s : p.steps) {
      steps.push_back(std::move(log.steps_[s]));
      steps.back().pass = place[steps.back().pass];
      s = steps.size() - 1;
    }
  }
  log.steps_ = std::move(steps);
  return log;
}

absl::Status RewriteLog::Line(const std::string& text) {
  const json o = json::parse(text, nullptr, false);
  const auto bad = [] { return absl::InvalidArgumentError("line is no record of rewrites"); };
  if (!o.is_object()) return bad();
  auto known = [&](int64_t node) {
    return node > 0 && node < static_cast<int64_t>(nodes_.size()) &&
           !nodes_[static_cast<size_t>(node)].op.empty();
  };
  if (o.contains("node")) {
    const int64_t number = Int(o, "node");
    Node node = {cli::Text(o, "op"), cli::Text(o, "arg"), {}};
    if (number <= 0 || number > kMaxNode || node.op.empty()) return bad();
    for (const json& s : o.value("src", json::array())) {
      if (!s.is_number_integer() || !known(s.get<int64_t>())) return bad();
      node.src.push_back(s.get<uint32_t>());
    }
    const auto at = static_cast<size_t>(number);
    if (at >= nodes_.size()) nodes_.resize(at + 1);
    interned_.try_emplace(node, static_cast<uint32_t>(at));
    nodes_[at] = std::move(node);
    return absl::OkStatus();
  }
  if (o.contains("step")) {
    const auto pass = pass_by_id_.find(Int(o, "pass"));
    const int64_t before = Int(o, "before"), after = Int(o, "after"), rule = Int(o, "rule");
    if (pass == pass_by_id_.end() || !known(before) || !known(after) ||
        !rules_.contains(static_cast<uint32_t>(rule)))
      return bad();
    passes_[pass->second].steps.push_back(steps_.size());
    steps_.push_back({pass->second, static_cast<uint32_t>(before), static_cast<uint32_t>(after),
                      static_cast<uint32_t>(rule), cli::Text(o, "from"), cli::Text(o, "to")});
    return absl::OkStatus();
  }
  if (o.contains("pass")) {
    const int64_t root = Int(o, "root");
    if (!known(root)) return bad();
    pass_by_id_[Int(o, "pass")] = passes_.size();
    passes_.push_back({Int(o, "pass"),
                       Int(o, "parent"),
                       cli::Text(o, "name"),
                       static_cast<uint32_t>(root),
                       static_cast<uint32_t>(root),
                       {}});
    return absl::OkStatus();
  }
  if (o.contains("end")) {
    const auto pass = pass_by_id_.find(Int(o, "end"));
    const int64_t result = Int(o, "result");
    if (pass == pass_by_id_.end() || !known(result)) return bad();
    passes_[pass->second].result = static_cast<uint32_t>(result);
    return absl::OkStatus();
  }
  if (o.contains("rule")) {
    rules_[static_cast<uint32_t>(Int(o, "rule"))] = {
        Cat(cli::Text(o, "set"), ".", cli::Text(o, "name")), cli::Text(o, "file"),
        static_cast<int>(Int(o, "line"))};
    return absl::OkStatus();
  }
  if (o.contains("note")) {
    notes_.push_back({cli::Text(o, "name"), cli::Text(o, "note"), passes_.size()});
    return absl::OkStatus();
  }
  if (o.contains("truncated")) {
    truncated_ = true;
    return absl::OkStatus();
  }
  return bad();
}

uint32_t RewriteLog::Intern(Node node) {
  const auto [it, fresh] = interned_.try_emplace(node, static_cast<uint32_t>(nodes_.size()));
  if (fresh) nodes_.push_back(std::move(node));
  return it->second;
}

// Returns root with every node of `map` replaced, also within replacements. Visits sources first,
// without recursion.
uint32_t RewriteLog::Resolve(uint32_t root, const std::map<uint32_t, uint32_t>& map) {
  std::map<uint32_t, uint32_t> done;
  std::set<uint32_t> open;
  struct Frame {
    uint32_t node;
    uint32_t adopt = 0;  // not 0: the result of `node` is the result of `adopt`
  };
  std::vector<Frame> stack = {{root}};
  while (!stack.empty()) {
    const Frame top = stack.back();
    if (done.contains(top.node)) {
      stack.pop_back();
      continue;
    }
    if (top.adopt != 0) {
      const auto it = done.find(top.adopt);
      done[top.node] =
          it == done.end() ? top.adopt : it->second;  // end(): a cycle, which ends here
      stack.pop_back();
      continue;
    }
    auto adopt = [&](uint32_t other) {
      stack.back().adopt = other;
      if (open.insert(other).second) stack.push_back({other});
    };
    open.insert(top.node);
    if (const auto it = map.find(top.node); it != map.end()) {
      adopt(it->second);
      continue;
    }
    bool ready = true;
    for (uint32_t s : nodes_[top.node].src) {
      if (!done.contains(s)) {
        stack.push_back({s});
        ready = false;
      }
    }
    if (!ready) continue;
    // A node with unchanged sources keeps its number, although an equal node may have been recorded
    // under another one.
    Node rebuilt = nodes_[top.node];
    for (uint32_t& s : rebuilt.src) s = done.at(s);
    const uint32_t id = rebuilt.src == nodes_[top.node].src ? top.node : Intern(std::move(rebuilt));
    if (id == top.node || !map.contains(id)) {
      done[top.node] = id;
      stack.pop_back();
    } else {
      adopt(id);
    }
  }
  return done.at(root);
}

std::vector<uint32_t> RewriteLog::Order(uint32_t root) const {
  std::vector<uint32_t> out;
  std::set<uint32_t> seen = {root};
  std::vector<std::pair<uint32_t, size_t>> stack = {{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == nodes_[node].src.size()) {
      out.push_back(node);
      stack.pop_back();
      continue;
    }
    const uint32_t s = nodes_[node].src[next++];
    if (seen.insert(s).second) stack.emplace_back(s, 0);
  }
  return out;
}

size_t RewriteLog::NodesUnder(uint32_t node) const { return Order(node).size(); }

std::vector<RewriteLog::RuleSummary> RewriteLog::Summary() const {
  std::map<uint32_t, RuleSummary> by_rule;
  for (const Step& s : steps_) {
    RuleSummary& r = by_rule[s.rule];
    r.rule = s.rule;
    ++r.rewrites;
    r.nodes +=
        static_cast<int64_t>(NodesUnder(s.after)) - static_cast<int64_t>(NodesUnder(s.before));
  }
  std::vector<RuleSummary> out;
  for (const auto& [number, r] : by_rule) out.push_back(r);
  std::sort(out.begin(), out.end(), [](const RuleSummary& a, const RuleSummary& b) {
    return a.rewrites != b.rewrites ? a.rewrites > b.rewrites : a.rule < b.rule;
  });
  return out;
}

std::string RewriteLog::Text(uint32_t node) const {
  std::string out = Cat("%", node, " = ", nodes_[node].op);
  for (size_t i = 0; i < nodes_[node].src.size(); ++i)
    Append(out, i > 0 ? ", %" : " %", nodes_[node].src[i]);
  if (!nodes_[node].arg.empty()) Append(out, " ", nodes_[node].arg);
  return out;
}

std::string RewriteLog::Diff(size_t index, bool whole) {
  const Pass& pass = passes_[steps_[index].pass];
  std::map<uint32_t, uint32_t> map;
  for (size_t s : pass.steps) {
    if (s == index) break;
    map[steps_[s].before] = steps_[s].after;
  }
  uint32_t before = Resolve(pass.root, map);
  map[steps_[index].before] = steps_[index].after;
  uint32_t after = Resolve(pass.root, map);
  // The node may be no part of the graph yet: another rule made it, whose result is adopted later.
  if (before == after) {
    before = steps_[index].before;
    after = steps_[index].after;
  }
  const std::vector<uint32_t> a = Order(before), b = Order(after);
  const std::set<uint32_t> in_a(a.begin(), a.end()), in_b(b.begin(), b.end());
  std::set<uint32_t> shown;
  for (uint32_t n : a) {
    if (whole || !in_b.contains(n)) shown.insert(nodes_[n].src.begin(), nodes_[n].src.end());
  }
  for (uint32_t n : b) {
    if (whole || !in_a.contains(n)) shown.insert(nodes_[n].src.begin(), nodes_[n].src.end());
  }
  std::string out;
  for (uint32_t n : a) {
    if (!in_b.contains(n))
      Append(out, "- ", Text(n), "\n");
    else if (whole || shown.contains(n))
      Append(out, "  ", Text(n), "\n");
  }
  for (uint32_t n : b) {
    if (!in_a.contains(n)) Append(out, "+ ", Text(n), "\n");
  }
  return out;
}

}  // namespace uopd::cli
