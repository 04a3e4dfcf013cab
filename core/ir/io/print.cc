// SPDX-License-Identifier: MIT
#include "core/ir/io/print.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/graph.h"

namespace uopd::ir {
namespace {

void AppendQuoted(std::string& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void AppendArg(std::string& out, UOp u) {
  const ArgSchema schema = Info(u.op()).arg;
  if (schema == ArgSchema::None) return;
  if (schema == ArgSchema::Const || schema == ArgSchema::Int) {
    if (schema == ArgSchema::Int && u.Is(Op::INDEX) && u.arg().AsInt() == 0) return;
    out += " {";
    if (schema == ArgSchema::Const)
      AppendConst(out, u);
    else
      Append(out, u.arg().AsInt());
    out += '}';
    return;
  }
  if (u.arg().bits == 0) return;
  out += " {";
  std::string_view separator;
  const auto ints = u.ints();
  for (size_t i = 0; i < ints.size(); ++i) {
    out += separator;
    separator = ", ";
    if (schema == ArgSchema::Reduce && i == 0 && OpByWire(static_cast<uint64_t>(ints[0])))
      out += Name(u.reduce_op());
    else if (schema == ArgSchema::Param && i == 1 && ints[1] >= 0 && ints[1] <= 2)
      out += Name(u.addrspace());
    else if (schema == ArgSchema::Range && i == 1 && ints[1] >= 0 && ints[1] < kAxisTypeCount)
      out += Name(u.axis_type());
    else if (schema != ArgSchema::Kernel)
      Append(out, ints[i]);
    else
      separator = "";
  }
  if (!u.text().empty()) {
    out += separator;
    AppendQuoted(out, u.text());
  }
  out += '}';
}

// Sources beyond `most` are left out.
template <class Id>
void AppendLine(std::string& out, UOp u, Id id, size_t most = SIZE_MAX) {
  Append(out, "%", id(u), " = ", Name(u.op()));
  if (u.dtype() != Dtype::Void) Append(out, "<", Name(u.dtype()), ">");
  std::string_view separator = " ";
  for (UOp s : u.srcs().first(std::min(u.n_src(), most))) {
    Append(out, separator, "%", id(s));
    separator = ", ";
  }
  if (u.n_src() > most) out += ", ...";
  AppendArg(out, u);
  if (u.tag() != 0) Append(out, " #", u.tag());
}

}  // namespace

void AppendConst(std::string& out, UOp u) {
  if (IsFloat(u.dtype())) {
    Append(out, u.const_float());
  } else if (u.dtype() == Dtype::Bool) {
    out += u.const_int() != 0 ? "true" : "false";
  } else if (u.dtype() == Dtype::U64) {
    Append(out, static_cast<uint64_t>(u.const_int()));
  } else {
    Append(out, u.const_int());
  }
}

std::string Print(const UOpContext& ctx, UOp root) {
  const auto order = Toposort(ctx, root);
  std::vector<uint32_t> ids(ctx.size());
  for (uint32_t i = 0; i < order.size(); ++i) ids[order[i].id()] = i;
  std::string out;
  out.reserve(order.size() * 32);
  for (UOp u : order) {
    AppendLine(out, u, [&](UOp v) { return ids[v.id()]; });
    out += '\n';
  }
  return out;
}

std::string PrintLine(UOp u, std::span<const UOp> order) {
  // A node may have thousands of sources: print the first ones only.
  constexpr size_t kMost = 300, kSources = 64;
  std::string out;
  AppendLine(
      out, u,
      // A linear search for each printed source: there are few.
      [&](UOp v) { return std::find(order.begin(), order.end(), v) - order.begin(); }, kSources);
  if (out.size() > kMost) {
    out.resize(kMost);
    out += " ...";
  }
  return out;
}

absl::Status NumberedAs(const absl::Status& status, std::span<const UOp> order,
                        std::span<const UOp> lines) {
  const std::optional<NodeRef> node = GetNode(status);
  if (!node || node->index < 0 || node->index >= static_cast<int64_t>(order.size())) return status;
  const UOp u = order[static_cast<size_t>(node->index)];
  const auto at = std::find(lines.begin(), lines.end(), u);
  if (at == lines.end()) return status;
  return WithNodeRenamed(status, {at - lines.begin(), PrintLine(u, lines)});
}

std::string PrintHead(UOp u) {
  std::string out(Name(u.op()));
  if (u.dtype() != Dtype::Void) Append(out, "<", Name(u.dtype()), ">");
  return out;
}

std::string PrintArg(UOp u) {
  std::string out;
  AppendArg(out, u);
  if (u.tag() != 0) Append(out, " #", u.tag());
  if (!out.empty()) out.erase(0, 1);
  return out;
}

}  // namespace uopd::ir
