// SPDX-License-Identifier: MIT
#include "core/base/status.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "core/base/text.h"

namespace uopd {
namespace {

constexpr char kNodeIndexUrl[] = "uopd.v1/node_index";
constexpr char kNodeTextUrl[] = "uopd.v1/node_text";

std::string NodeMark(const NodeRef& node) {
  return Cat(" (node %", node.index, ": ", node.text, ")");
}

// The status with another message and the same code and payloads.
absl::Status Reworded(const absl::Status& status, const std::string& message) {
  absl::Status out(status.code(), message);
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& value) { out.SetPayload(url, value); });
  return out;
}

}  // namespace

absl::Status Invalid(std::string_view message) {
  return absl::InvalidArgumentError(absl::string_view(message.data(), message.size()));
}

absl::Status WithFrame(absl::Status status, std::string what) {
  if (status.ok()) return status;
  return Reworded(status, Cat(StatusText(status), " (while ", what, ")"));
}

absl::Status WithNode(absl::Status status, const NodeRef& node) {
  if (status.ok() || status.GetPayload(kNodeIndexUrl)) return status;
  absl::Status out = Reworded(status, Cat(StatusText(status), NodeMark(node)));
  out.SetPayload(kNodeIndexUrl, absl::Cord(absl::string_view(Cat(node.index))));
  out.SetPayload(kNodeTextUrl, absl::Cord(node.text));
  return out;
}

std::optional<NodeRef> GetNode(const absl::Status& status) {
  auto index = status.GetPayload(kNodeIndexUrl);
  if (!index) return std::nullopt;
  NodeRef node;
  if (!absl::SimpleAtoi(std::string(*index), &node.index)) return std::nullopt;
  if (auto text = status.GetPayload(kNodeTextUrl)) node.text = std::string(*text);
  return node;
}

absl::Status WithNodeRenamed(const absl::Status& status, const NodeRef& node) {
  const std::optional<NodeRef> before = GetNode(status);
  UOPD_CHECK(before.has_value());
  std::string message = StatusText(status);
  const std::string old = NodeMark(*before);
  if (const size_t at = message.find(old); at != std::string::npos)
    message.replace(at, old.size(), NodeMark(node));
  absl::Status out = Reworded(status, message);
  out.SetPayload(kNodeIndexUrl, absl::Cord(absl::string_view(Cat(node.index))));
  out.SetPayload(kNodeTextUrl, absl::Cord(node.text));
  return out;
}

std::string StatusText(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

void CheckFailed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace uopd
