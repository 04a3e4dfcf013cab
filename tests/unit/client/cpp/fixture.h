// SPDX-License-Identifier: MIT
// A Client over the in-process executor, and values in and out as doubles.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/client/cpp/interpreter_executor.h"
#include "uopd/client.h"

namespace uopd::client {

class ClientTest : public ::testing::Test {
 protected:
  Tensor In(Dims dims, std::vector<double> values, Dtype dtype = Dtype::F32) {
    return client_.FromBytes(dtype, dims, test::HostArray::Of(dtype, dims, values).ToBytes());
  }
  // 0, 1, 2, ... scaled and moved.
  Tensor Ramp(Dims dims, double step = 1, double from = 0, Dtype dtype = Dtype::F32) {
    std::vector<double> v(static_cast<size_t>(ir::Product(dims)));
    for (size_t i = 0; i < v.size(); ++i) v[i] = from + step * static_cast<double>(i);
    return In(std::move(dims), v, dtype);
  }
  static std::vector<double> Out(const Tensor& t) {
    auto bytes = t.ToBytes();
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? test::HostArray::FromBytes(t.dtype(), t.sizes(), *bytes).ToDoubles()
                      : std::vector<double>();
  }

  std::shared_ptr<InterpreterExecutor> daemon_ = std::make_shared<InterpreterExecutor>();
  Client client_{daemon_, ClientOptions{.seed = 7}};
};

}  // namespace uopd::client
