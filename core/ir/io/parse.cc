// SPDX-License-Identifier: MIT
// The reader of the textual form described in print.h. Never recurses; every error carries its
// line.
#include <charconv>
#include <limits>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/ir/io/print.h"

namespace uopd::ir {
namespace {

// A cursor over one line.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) { Skip(); }

  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  bool Eat(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    Skip();
    return true;
  }
  std::string_view Word() {
    size_t n = 0;
    while (n < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_'))
      ++n;
    std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    Skip();
    return out;
  }
  // A signed integer or float literal up to a delimiter.
  std::string_view Token() {
    size_t n = 0;
    while (n < rest_.size() && rest_[n] != ',' && rest_[n] != '}' && rest_[n] != ' ') ++n;
    std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    Skip();
    return out;
  }
  // The inside of a quoted text, unescaped; false if it does not end.
  bool Quoted(std::string& out) {
    size_t i = 1;
    for (; i < rest_.size() && rest_[i] != '"'; ++i) {
      if (rest_[i] != '\\') {
        out += rest_[i];
        continue;
      }
      if (++i >= rest_.size()) return false;
      if (rest_[i] != 'x') {
        out += rest_[i];
        continue;
      }
      unsigned byte = 0;
      if (i + 2 >= rest_.size() ||
          std::from_chars(&rest_[i + 1], &rest_[i + 3], byte, 16).ptr != &rest_[i + 3])
        return false;
      out += static_cast<char>(byte);
      i += 2;
    }
    if (i >= rest_.size()) return false;
    rest_.remove_prefix(i + 1);
    Skip();
    return true;
  }

 private:
  void Skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r'))
      rest_.remove_prefix(1);
    if (!rest_.empty() && rest_[0] == ';') rest_ = {};
  }
  std::string_view rest_;
};

template <class T>
bool Number(std::string_view text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

class Parser {
 public:
  Parser(UOpContext& ctx, const ParseLimits& limits, std::vector<UOp>& by_id)
      : ctx_(ctx), limits_(limits), by_id_(by_id) {}

  absl::StatusOr<UOp> Run(std::string_view text) {
    UOp last;
    for (int64_t number = 1; !text.empty(); ++number) {
      const size_t end = std::min(text.find('\n'), text.size());
      Line line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.done()) continue;
      auto node = Node(line);
      if (!node.ok()) return WithFrame(node.status(), Cat("parsing line ", number));
      last = *node;
    }
    if (!last) return absl::InvalidArgumentError("text holds no node");
    return last;
  }

 private:
  absl::StatusOr<UOp> Node(Line& line) {
    uint64_t id;
    if (!line.Eat('%') || !Number(line.Word(), id) || !line.Eat('='))
      return Invalid("line does not start with `%id =`");
    if (id != by_id_.size())
      return Invalid(Cat("id %", id, " is out of order: the next one is %", by_id_.size()));
    if (by_id_.size() >= limits_.max_nodes) {
      return absl::ResourceExhaustedError(
          Cat("graph has more than ", limits_.max_nodes, " nodes: %", id, " is one too many"));
    }
    const std::string_view name = line.Word();
    const auto op = OpByName(name);
    if (!op) return Invalid(Cat("unknown op (", name, ") in %", id));
    Dtype dtype = Dtype::Void;
    if (line.Eat('<')) {
      const std::string_view text = line.Word();
      auto d = DtypeByName(text);
      if (!d || !line.Eat('>')) return Invalid(Cat("unknown dtype (", text, ") in %", id));
      dtype = *d;
    }
    srcs_.clear();
    while (line.Eat('%')) {
      uint64_t src;
      if (!Number(line.Word(), src)) return Invalid(Cat("source of %", id, " is no number"));
      if (src >= id)
        return Invalid(Cat("%", id, " uses %", src,
                           ", which does not come before it (a cycle or a forward reference)"));
      srcs_.push_back(by_id_[src]);
      if (!line.Eat(',')) break;
    }
    UOPD_ASSIGN(Arg arg, ParseArg(line, *op, dtype));
    int64_t tag = 0;
    if (line.Eat('#') && !Number(line.Token(), tag)) return Invalid("tag is no number");
    if (!line.done()) return Invalid(Cat("unexpected `", line.rest(), "`"));
    by_id_.push_back(ctx_.Make(*op, dtype, srcs_, arg, tag));
    return by_id_.back();
  }

  absl::StatusOr<Arg> ParseArg(Line& line, Op op, Dtype dtype) {
    const ArgSchema schema = Info(op).arg;
    if (!line.Eat('{')) {
      if (schema == ArgSchema::Const) return Invalid("CONST without a value");
      return schema == ArgSchema::Ints ? ctx_.Data({}) : Arg{};
    }
    if (schema == ArgSchema::None) return Invalid(Cat(Name(op), " takes no arg"));
    if (schema == ArgSchema::Const) return ConstArg(line, dtype);
    if (schema == ArgSchema::Int) {
      int64_t v;
      if (!Number(line.Token(), v) || !line.Eat('}')) return Invalid("arg is no integer");
      return Arg::Int(v);
    }
    ints_.clear();
    std::string text;
    if (schema == ArgSchema::Kernel) ints_.push_back(1);
    if (!line.Eat('}')) {
      do {
        if (!line.rest().empty() && line.rest()[0] == '"') {
          if (!line.Quoted(text)) return Invalid("text does not end");
          break;
        }
        const std::string_view token = line.Token();
        int64_t v;
        const bool known = Number(token, v) || NamedInt(schema, token, v);
        if (!known) return Invalid(Cat("cannot read `", token, "` in the arg of ", Name(op)));
        ints_.push_back(v);
      } while (line.Eat(','));
      if (!line.Eat('}')) return Invalid("arg does not end with }");
    }
    return ctx_.Data(ints_, text);
  }

  static bool NamedInt(ArgSchema schema, std::string_view token, int64_t& out) {
    if (schema == ArgSchema::Reduce) {
      if (auto op = OpByName(token)) {
        out = Info(*op).wire;
        return true;
      }
    } else if (schema == ArgSchema::Range) {
      if (auto type = AxisTypeByName(token)) {
        out = static_cast<int64_t>(*type);
        return true;
      }
    } else if (schema == ArgSchema::Param) {
      if (auto space = AddrSpaceByName(token)) {
        out = static_cast<int64_t>(*space);
        return true;
      }
    }
    return false;
  }

  absl::StatusOr<Arg> ConstArg(Line& line, Dtype dtype) {
    const std::string_view token = line.Token();
    if (!line.Eat('}')) return Invalid("constant does not end with }");
    if (dtype == Dtype::Bool) {
      if (token != "true" && token != "false") return Invalid(Cat("`", token, "` is no bool"));
      return Arg::Int(token == "true");
    }
    if (IsFloat(dtype)) {
      double v;
      if (!Number(token, v)) return Invalid(Cat("`", token, "` is no float"));
      return Arg::Float(RoundTo(dtype, v));
    }
    if (dtype == Dtype::U64) {
      uint64_t v;
      if (!Number(token, v)) return Invalid(Cat("`", token, "` is no u64"));
      return Arg::Int(static_cast<int64_t>(v));
    }
    int64_t v;
    if (!Number(token, v) || WrapTo(dtype, v) != v)
      return Invalid(Cat("`", token, "` is no ", Name(dtype)));
    return Arg::Int(v);
  }

  UOpContext& ctx_;
  const ParseLimits limits_;
  std::vector<UOp>& by_id_;
  std::vector<UOp> srcs_;
  std::vector<int64_t> ints_;
};

}  // namespace

absl::StatusOr<UOp> Parse(UOpContext& ctx, std::string_view text, const ParseLimits& limits) {
  std::vector<UOp> lines;
  return Parse(ctx, text, lines, limits);
}

absl::StatusOr<UOp> Parse(UOpContext& ctx, std::string_view text, std::vector<UOp>& lines,
                          const ParseLimits& limits) {
  const UncheckedNodes unchecked(ctx);
  lines.clear();
  return Parser(ctx, limits, lines).Run(text);
}

}  // namespace uopd::ir
