// SPDX-License-Identifier: MIT
// Products of tensors summed over named axes. Errors and promotion are as in tensor.h; the result
// has the promoted dtype of the operands. All have gradients.
#pragma once
#include <span>
#include <string_view>

#include "uopd/tensor.h"

namespace uopd::client::fn {

// Einstein's sum convention, as numpy.einsum: "ij,jk->ik", with any number of operands, repeated
// letters (diagonals and sums), an ellipsis for axes that broadcast, and spaces. Without "->" the
// result has the letters that occur once, in alphabetical order, after the axes of the ellipsis.
// Axes of size 1 broadcast. Two operands at a time are multiplied: always the pair with the fewest
// products, the first one of equals.
Tensor Einsum(std::string_view formula, std::span<const Tensor> operands,
              Site site = Site::current());

// The sum over pairs of axes of a and b; the other axes of a, then those of b, remain.
Tensor TensorDot(const Tensor& a, const Tensor& b, const Dims& axes_of_a, const Dims& axes_of_b,
                 Site site = Site::current());
// Over the last `axes` axes of a and the first ones of b.
Tensor TensorDotLast(const Tensor& a, const Tensor& b, int64_t axes = 2,
                     Site site = Site::current());
// All products of an element of a and an element of b, as a matrix.
Tensor Outer(const Tensor& a, const Tensor& b, Site site = Site::current());

}  // namespace uopd::client::fn
