// SPDX-License-Identifier: MIT
#include "core/ir/io/wire.h"

#include <algorithm>
#include <bit>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/tables/node_index.h"

namespace uopd::ir {
namespace {

// Field numbers of graph.proto.
enum GraphField { kVersion = 1, kNodes = 2 };
enum NodeField { kOp = 1, kDtype = 2, kSrc = 3, kInt = 4, kFloatValue = 5, kInts = 6, kText = 7 };
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void PutTag(std::string& out, int field, WireType type) {
  PutVarint(out, static_cast<uint64_t>(field) << 3 | type);
}

void PutBytes(std::string& out, int field, std::string_view bytes) {
  PutTag(out, field, kBytes);
  PutVarint(out, bytes.size());
  out += bytes;
}

static_assert(std::endian::native == std::endian::little, "fixed64 is read in place");

// The cost of reading and verifying one node, in steps of Interrupt::Poll.
constexpr int32_t kStepsOfANode = 8;

class Decoder {
 public:
  Decoder(UOpContext& ctx, Level level, const WireLimits& limits)
      : ctx_(ctx), level_(level), limits_(limits) {}

  absl::StatusOr<UOp> Run(std::string_view bytes) {
    ByteReader r(bytes);
    uint64_t version = 0;
    while (!r.done()) {
      uint64_t key;
      if (!r.Varint(key)) return Invalid("graph message is cut off");
      if (key == (kVersion << 3 | kVarint)) {
        if (!r.Varint(version)) return Invalid("graph message is cut off");
      } else if (key == (kNodes << 3 | kBytes)) {
        std::string_view node;
        if (!r.String(node)) return Invalid(Cat("node ", nodes_.size(), " is cut off"));
        if (ctx_.Interrupted(kStepsOfANode)) return ctx_.CheckInterrupt();
        UOPD_TRY(Checked(node));
      } else {
        return Invalid(Cat("graph message has an unknown field (", key >> 3, ")"));
      }
    }
    if (version != kIrVersion) {
      return absl::FailedPreconditionError(
          Cat("IR version (", version, ") is not the one spoken here (", kIrVersion, ")"));
    }
    if (nodes_.empty()) return Invalid("graph has no nodes");
    UOp culprit = nodes_.back();
    if (absl::Status s = VerifyRoot(ctx_, nodes_.back(), level_, &culprit); !s.ok()) {
      const auto at = std::find(nodes_.begin(), nodes_.end(), culprit);
      return Blame(s, static_cast<size_t>(at - nodes_.begin()));
    }
    return nodes_.back();
  }

 private:
  // Names node `i`, printed with the client's numbering as far as it was read.
  absl::Status Blame(absl::Status s, size_t i) {
    if (s.ok()) return s;
    return WithNode(s, {static_cast<int64_t>(i),
                        i < nodes_.size() ? PrintLine(nodes_[i], nodes_) : std::string(line_)});
  }

  // The node being read, which is the next in order.
  std::string Line(UOp u) {
    nodes_.push_back(u);
    std::string line = PrintLine(u, nodes_);
    nodes_.pop_back();
    return line;
  }

  absl::Status Checked(std::string_view bytes) {
    const size_t i = nodes_.size();
    line_ = "unreadable";
    if (i >= limits_.max_nodes) {
      line_ = "one too many";
      return Blame(
          absl::ResourceExhaustedError(Cat("graph has more than ", limits_.max_nodes, " nodes")),
          i);
    }
    auto u = Read(bytes);
    if (!u.ok()) return Blame(u.status(), i);
    if (absl::Status s = VerifyNode(ctx_, *u, level_); !s.ok()) {
      made_line_ = Line(*u);
      line_ = made_line_;
      return Blame(s, i);
    }
    nodes_.push_back(*u);
    return absl::OkStatus();
  }

  absl::StatusOr<UOp> Read(std::string_view bytes) {
    ByteReader r(bytes);
    uint64_t op_wire = 0, dtype_wire = 0, bits = 0;
    bool has_int = false, has_float = false, has_data = false;
    std::string_view text;
    srcs_.clear();
    ints_.clear();
    while (!r.done()) {
      uint64_t key, v;
      if (!r.Varint(key)) return Invalid("node is cut off");
      const auto field = static_cast<int>(key >> 3);
      const auto type = static_cast<int>(key & 7);
      bool ok = false;
      std::string_view packed;
      if (field == kOp && type == kVarint)
        ok = r.Varint(op_wire);
      else if (field == kDtype && type == kVarint)
        ok = r.Varint(dtype_wire);
      else if (field == kInt && type == kVarint) {
        ok = has_int = r.Varint(v);
        bits = static_cast<uint64_t>(UnZigZag(v));
      } else if (field == kFloatValue && type == kFixed64)
        ok = has_float = r.Fixed64(bits);
      else if (field == kText && type == kBytes)
        ok = has_data = r.String(text);
      else if ((field == kSrc || field == kInts) && type == kBytes && r.String(packed)) {
        ok = field == kSrc ? Sources(packed) : Ints(packed);
        has_data |= field == kInts;
      }
      // A reader of protobuf takes lists that are not packed, too.
      else if (field == kSrc && type == kVarint)
        ok = r.Varint(v) && Source(v);
      else if (field == kInts && type == kVarint) {
        ok = has_data = r.Varint(v);
        ints_.push_back(UnZigZag(v));
      } else
        return Invalid(Cat("node has an unknown field (", field, ")"));
      if (!ok) return source_error_.ok() ? Invalid("node is cut off") : source_error_;
    }
    const auto op = OpByWire(op_wire);
    if (!op) {
      line_ = made_line_ = Cat("op ", op_wire);
      return Invalid(Cat("unknown op (", op_wire, ")"));
    }
    line_ = Name(*op);
    const auto dtype = DtypeByWire(dtype_wire);
    if (!dtype) return Invalid(Cat("unknown dtype (", dtype_wire, ") of ", Name(*op)));
    const ArgSchema schema = Info(*op).arg;
    const bool scalar = schema == ArgSchema::Const || schema == ArgSchema::Int;
    const bool is_float = schema == ArgSchema::Const && IsFloat(*dtype);
    if ((has_int && (!scalar || is_float)) || (has_float && !is_float) ||
        (has_data && (scalar || schema == ArgSchema::None)))
      return Invalid(Cat("arg of ", Name(*op), " has the wrong kind"));
    // A list without elements takes no bytes: no protobuf library writes it.
    has_data |= schema == ArgSchema::Ints;
    // VerifyNode refuses a float that is not rounded to its dtype, and a NaN that is not canonical.
    Arg arg = scalar ? Arg{bits} : has_data ? ctx_.Data(ints_, text) : Arg{};
    return ctx_.Make(*op, *dtype, srcs_, arg);
  }

  bool Sources(std::string_view packed) {
    ByteReader r(packed);
    while (!r.done()) {
      uint64_t back;
      if (!r.Varint(back) || !Source(back)) return false;
    }
    return true;
  }

  bool Source(uint64_t back) {
    if (back == 0 || back > nodes_.size()) {
      source_error_ =
          Invalid(Cat("source ", srcs_.size(),
                      " does not come before the node (a cycle or a forward reference)"));
      return false;
    }
    if (++total_sources_ > limits_.max_sources) {
      source_error_ = absl::ResourceExhaustedError(
          Cat("graph has more than ", limits_.max_sources, " sources"));
      return false;
    }
    srcs_.push_back(nodes_[nodes_.size() - back]);
    return true;
  }

  bool Ints(std::string_view packed) {
    ByteReader r(packed);
    while (!r.done()) {
      uint64_t v;
      if (!r.Varint(v)) return false;
      ints_.push_back(UnZigZag(v));
    }
    return true;
  }

  UOpContext& ctx_;
  const Level level_;
  const WireLimits limits_;
  std::vector<UOp> nodes_;
  std::vector<UOp> srcs_;
  std::vector<int64_t> ints_;
  size_t total_sources_ = 0;
  // The line of the node being read, for errors.
  std::string_view line_;
  std::string made_line_;  // what line_ points to, unless that is a constant
  absl::Status source_error_;
};

}  // namespace

std::string Encode(const UOpContext& ctx, UOp root) {
  const auto order = Toposort(ctx, root);
  NodeIndex position(ctx.size());
  std::string out, node, packed;
  out.reserve(order.size() * 16);
  PutTag(out, kVersion, kVarint);
  PutVarint(out, kIrVersion);
  for (uint32_t i = 0; i < order.size(); ++i) {
    const UOp u = order[i];
    position.Set(u, i);
    node.clear();
    PutTag(node, kOp, kVarint);
    PutVarint(node, Info(u.op()).wire);
    PutTag(node, kDtype, kVarint);
    PutVarint(node, Info(u.dtype()).wire);
    if (u.n_src() > 0) {
      packed.clear();
      for (UOp s : u.srcs()) PutVarint(packed, i - position[s]);
      PutBytes(node, kSrc, packed);
    }
    const ArgSchema schema = Info(u.op()).arg;
    if (schema == ArgSchema::Const && IsFloat(u.dtype())) {
      PutTag(node, kFloatValue, kFixed64);
      const uint64_t bits = u.arg().bits;
      node.append(reinterpret_cast<const char*>(&bits), 8);
    } else if (schema == ArgSchema::Const || schema == ArgSchema::Int) {
      PutTag(node, kInt, kVarint);
      PutVarint(node, ZigZag(u.arg().AsInt()));
    } else if (schema != ArgSchema::None && u.arg().bits != 0) {
      packed.clear();
      for (int64_t v : u.ints()) PutVarint(packed, ZigZag(v));
      PutBytes(node, kInts, packed);
      if (!u.text().empty()) PutBytes(node, kText, u.text());
    }
    PutBytes(out, kNodes, node);
  }
  return out;
}

absl::StatusOr<UOp> Decode(UOpContext& ctx, std::string_view bytes, Level level,
                           const WireLimits& limits) {
  const UncheckedNodes unchecked(ctx);
  return Decoder(ctx, level, limits).Run(bytes);
}

}  // namespace uopd::ir
