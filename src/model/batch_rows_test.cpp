// SPDX-License-Identifier: MIT
// Measures rows of ggml's matmul alone and among others, for every weight type and layout, against the list.
#include "model/batch_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "model/weights.h"
#include "tensor/compute.h"

namespace kvase {
namespace {

constexpr int64_t kOutputs = 64;
constexpr int64_t kMaxRows = 40;

std::vector<float> noise(int64_t n, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t index = 0; index < values.size(); ++index) {
    values[index] = static_cast<float>(
        noise_uniform({.seed = seed}, NoiseStream::race, static_cast<uint32_t>(index)) * 4 - 2);
  }
  return values;
}

// One weight matrix [n_in, kOutputs] in a layout of its own, and products with some rows of one set of
// activations.
class Matmul {
 public:
  Matmul(ggml_type type, ggml_backend_buffer_type_t layout, int64_t n_in)
      : n_in_(n_in),
        context_(
            ggml_init({.mem_size = 4 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true})),
        weight_(ggml_new_tensor_2d(context_.get(), type, n_in, kOutputs)),
        buffer_(ggml_backend_buft_alloc_buffer(layout, ggml_backend_buft_get_alloc_size(layout, weight_))),
        activations_(noise(n_in * kMaxRows, 2)) {
    ggml_backend_tensor_alloc(buffer_.get(), weight_, ggml_backend_buffer_get_base(buffer_.get()));
    const std::vector<float> exact = noise(n_in * kOutputs, 1);
    const std::vector<float> importance(static_cast<size_t>(n_in), 1.0F);
    std::vector<std::byte> stored(ggml_nbytes(weight_));
    ggml_quantize_chunk(type, exact.data(), stored.data(), 0, kOutputs, n_in, importance.data());
    ggml_backend_tensor_set(weight_, stored.data(), 0, stored.size());
  }

  std::vector<float> rows(Compute& compute, int64_t first, int64_t n) {
    const size_t bytes = static_cast<size_t>((n_in_ + kOutputs) * n) * sizeof(float) + (size_t{1} << 20);
    const GgmlContext context(ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = false}));
    ggml_tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, n_in_, n);
    std::memcpy(x->data, &activations_[static_cast<size_t>(first * n_in_)], ggml_nbytes(x));
    ggml_tensor* y = ggml_mul_mat(context.get(), weight_, x);
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, y);
    compute.run(graph);
    const auto* values = static_cast<const float*>(y->data);
    return {values, values + ggml_nelements(y)};
  }

 private:
  int64_t n_in_;
  GgmlContext context_;
  ggml_tensor* weight_;
  GgmlBuffer buffer_;
  std::vector<float> activations_;
};

bool measure(Compute& compute, ggml_type type, ggml_backend_buffer_type_t layout) {
  for (const int64_t n_in : {256, 512}) {
    Matmul matmul(type, layout, n_in);
    std::vector<float> alone;
    for (int64_t row = 0; row < kMaxRows; ++row) {
      const std::vector<float> one = matmul.rows(compute, row, 1);
      alone.insert(alone.end(), one.begin(), one.end());
    }
    for (const int64_t n : {2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33, 40}) {
      const std::vector<float> together = matmul.rows(compute, 0, n);
      if (std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)) != 0) return false;
    }
  }
  return true;
}

TEST(BatchRows, ListedTypesReallyIgnoreTheBatch) {
  Compute compute(1);
  size_t n_listed = 0;
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                               GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_Q2_K, GGML_TYPE_Q3_K,
                               GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL,
                               GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4, GGML_TYPE_TQ1_0, GGML_TYPE_TQ2_0}) {
    if (rows_ignore_batch(type, false)) {
      EXPECT_TRUE(measure(compute, type, ggml_backend_cpu_buffer_type())) << ggml_type_name(type);
      ++n_listed;
    }
    ggml_backend_buffer_type_t layout = repack_layout(type, 256, kOutputs);
    if (layout != nullptr && rows_ignore_batch(type, true)) {
      EXPECT_TRUE(measure(compute, type, layout)) << ggml_type_name(type) << " repacked";
      ++n_listed;
    }
  }
  EXPECT_GE(n_listed, 8U);
}

// The demo model's types are on the list.
TEST(BatchRows, DemoModelIsListed) {
  EXPECT_TRUE(rows_ignore_batch(GGML_TYPE_Q4_1, false));
  EXPECT_TRUE(rows_ignore_batch(GGML_TYPE_Q8_0, false));
}

}  // namespace
}  // namespace kvase
