// SPDX-License-Identifier: MIT
// Runs the nodes of a model without a daemon, and shows what the client knows.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "client/cpp/onnx/run/walk.h"
#include "core/base/status.h"
#include "tests/support/onnx/program.h"

namespace uopd::client::onnx {

class OnnxWalk {
 public:
  explicit OnnxWalk(std::string file, const OnnxLimits& limits = {}) : file_(std::move(file)) {
    absl::StatusOr<OnnxModel> model = ParseOnnx(file_);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return;
    model_ = *std::move(model);
    frame_.opsets = &model_.opsets;
    Walk walk(client_, model_, limits, [this](const OnnxTensor& t) { return Load(t); });
    status_ = walk.LoadInitializers(model_.graph, frame_);
    if (status_.ok()) status_ = walk.RunNodes(model_.graph.nodes, frame_);
  }
  const absl::Status& status() const { return status_; }
  std::string says() const { return StatusText(status_); }
  Value* Find(std::string_view name) { return frame_.Find(name); }
  // "(2) 3 4": shape and elements of a value that the client knows; "unknown" otherwise.
  std::string Known(std::string_view name) {
    const Value* v = Find(name);
    if (v == nullptr || v->bytes == nullptr) return "unknown";
    std::string out = "(";
    for (size_t i = 0; i < v->dims.size(); ++i)
      out += (i > 0 ? ", " : "") + std::to_string(v->dims[i]);
    out += ")";
    for (const int64_t i : IntsIn(*OnnxStorageDtype(*v->type), *v->bytes))
      out += " " + std::to_string(i);
    return out;
  }

 private:
  absl::StatusOr<Value> Load(const OnnxTensor& tensor) const {
    if (tensor.type->bits == 0)
      return StringValue(tensor.dims, {tensor.strings.begin(), tensor.strings.end()});
    std::string bytes(tensor.bytes(), '\0');
    UOPD_TRY(ReadOnnx(file_, tensor, bytes));
    Value v{.kind = Value::Kind::kTensor, .type = tensor.type, .dims = tensor.dims};
    v.bytes = std::make_shared<const std::string>(std::move(bytes));
    return v;
  }

  Client client_{std::make_shared<OfflineExecutor>()};
  std::string file_;
  OnnxModel model_;
  Frame frame_;
  absl::Status status_;
};

}  // namespace uopd::client::onnx
