// SPDX-License-Identifier: MIT
// The graph that docs/worked_example.md begins with is the graph that the line of the page sends.
#include <gtest/gtest.h>

#include <memory>
#include <span>

#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "tests/support/generated_section.h"
#include "uopd/client.h"
#include "uopd/executor.h"

namespace uopd::client {
namespace {

TEST(WorkedExampleTest, TheLineSendsTheGraphOfThePage) {
  Client client(std::make_shared<OfflineExecutor>());
  const Tensor a = client.Empty({64, 64}, Dtype::F16);
  const Tensor b = client.Empty({64, 64}, Dtype::F16);
  const Tensor c = a.MatMul(b);
  const auto sent = Export(std::span(&c, 1));
  ASSERT_TRUE(sent.ok()) << StatusText(sent.status());

  ir::UOpContext ctx, ctx_of_page;
  const auto graph = ir::Decode(ctx, sent->graph, ir::Level::kTensor);
  ASSERT_TRUE(graph.ok()) << StatusText(graph.status());
  const auto page = ir::Parse(ctx_of_page, test::ReadDoc("examples/product.uop"));
  ASSERT_TRUE(page.ok()) << StatusText(page.status());
  EXPECT_EQ(ir::Print(ctx_of_page, *page), ir::Print(ctx, *graph));
}

}  // namespace
}  // namespace uopd::client
