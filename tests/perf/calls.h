// SPDX-License-Identifier: MIT
// What benchmarks that call a daemon share.
#pragma once
#include <grpcpp/grpcpp.h>

#include <span>
#include <string>

#include "absl/status/status.h"
#include "core/ir/build.h"
#include "core/ir/io/wire.h"

namespace uopd::perf {

// Slot 2 = slot 0 + slot 1, f32 of n elements: a program and a kernel of its own for each n.
inline std::string AddGraph(int64_t n) {
  ir::UOpContext ctx;
  const ir::UOp shape = ir::ShapeArg(ctx, std::span(&n, 1));
  const ir::UOp sum = ir::Add(ctx, ir::Param(ctx, 0, ir::Dtype::F32, shape),
                              ir::Param(ctx, 1, ir::Dtype::F32, shape));
  const ir::UOp store = ir::Store(ctx, ir::Param(ctx, 2, ir::Dtype::F32, shape), sum);
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

inline absl::Status Checked(const grpc::Status& s) {
  return s.ok() ? absl::OkStatus() : absl::InternalError(s.error_message());
}

}  // namespace uopd::perf
