// SPDX-License-Identifier: MIT
// Errors: absl::Status with a readable message. "While ..." frames are part of the message; the
// offending node is a payload too.
//
// The code says who is to blame (docs/errors.md). A wrong graph is INVALID_ARGUMENT and names the
// node. A request for too much is RESOURCE_EXHAUSTED, a missing driver UNAVAILABLE, a bug of uopd
// INTERNAL. Our code throws no exceptions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uopd {

// The node that an error is about, as it travels to the client
// (google.rpc.BadRequest.FieldViolation on the wire).
struct NodeRef {
  int64_t index = -1;  // position in the topological order that the client sent
  std::string text;    // its printed line, e.g. "%3 = ADD<f32> %1, %2"
};

// INVALID_ARGUMENT with this message.
absl::Status Invalid(std::string_view message);

// Adds a frame "(while <what>)" to the message of a failed status. Inner frames come first. An OK
// status is returned unchanged.
absl::Status WithFrame(absl::Status status, std::string what);
// Names the node to blame, unless the status already names one. Appends " (node %i: text)" to the
// message.
absl::Status WithNode(absl::Status status, const NodeRef& node);
std::optional<NodeRef> GetNode(const absl::Status& status);
// Replaces the number and the text of the node that the status names. REQUIRES: the status names a
// node.
absl::Status WithNodeRenamed(const absl::Status& status, const NodeRef& node);

// The message as std::string, because absl::string_view is not std::string_view on this
// distribution.
std::string StatusText(const absl::Status& status);

// Aborts with a message. For broken invariants that would otherwise be memory errors; never for
// user input.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression);

}  // namespace uopd

#define UOPD_CHECK(cond) \
  (static_cast<bool>(cond) ? (void)0 : ::uopd::CheckFailed(__FILE__, __LINE__, #cond))

#ifdef NDEBUG
#define UOPD_ASSERT(cond) ((void)sizeof(static_cast<bool>(cond)))
#else
#define UOPD_ASSERT(cond) UOPD_CHECK(cond)
#endif

#define UOPD_CONCAT_(a, b) a##b
#define UOPD_CONCAT(a, b) UOPD_CONCAT_(a, b)

// Returns the error of an expression of type absl::Status.
#define UOPD_TRY(expr)                                                               \
  do {                                                                               \
    if (absl::Status uopd_status_ = (expr); !uopd_status_.ok()) return uopd_status_; \
  } while (0)

// UOPD_ASSIGN(auto x, Compute()) declares x from an absl::StatusOr or returns its error.
#define UOPD_ASSIGN(lhs, expr) UOPD_ASSIGN_(UOPD_CONCAT(uopd_or_, __LINE__), lhs, expr)
#define UOPD_ASSIGN_(tmp, lhs, expr)  \
  auto tmp = (expr);                  \
  if (!tmp.ok()) return tmp.status(); \
  lhs = *std::move(tmp)
