// SPDX-License-Identifier: MIT
// Vector loops against double-precision loops: lengths that are no multiple of a vector, every row type.
#include "attention/kernels.h"

#include <ggml-cpu.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace kvase {
namespace {

std::vector<float> noise(size_t n, float low, float high, uint64_t seed) {
  std::vector<float> values(n);
  for (uint32_t index = 0; index < n; ++index) {
    values[index] =
        low + (high - low) * static_cast<float>(noise_uniform({.seed = seed}, NoiseStream::race, index));
  }
  return values;
}

TEST(Kernels, ExponentialsOfAnyLength) {
  for (const size_t n : {1U, 2U, 7U, 8U, 15U, 16U, 17U, 63U, 64U, 65U, 1000U}) {
    const std::vector<float> x = noise(n, -30, 5, n);
    double sum = 0;
    float largest = x[0];
    for (const float value : x) {
      sum += std::exp(double{value} - 5);
      largest = std::max(largest, value);
    }
    EXPECT_EQ(max_value(x.data(), n), largest);
    EXPECT_NEAR(sum_exp(x.data(), n, 5) / sum, 1, 2e-6) << n;
    std::vector<float> added(n, 1.0F);
    add_exp(x.data(), n, 5, 2, added.data());
    std::vector<float> in_place = x;
    EXPECT_NEAR(exp_in_place(in_place.data(), n, 5) / sum, 1, 2e-6) << n;
    for (size_t index = 0; index < n; ++index) {
      const double e = std::exp(double{x[index]} - 5);
      EXPECT_NEAR(in_place[index], e, 2e-6 * e + 1e-37);
      EXPECT_NEAR(added[index], 1 + 2 * e, 1e-6);
    }
  }
}

TEST(Kernels, MaskedLogitsWeighNothing) {
  std::vector<float> x(19, -std::numeric_limits<float>::infinity());
  x[3] = 1000;
  EXPECT_EQ(exp_in_place(x.data(), x.size(), 1000), 1.0F);
  EXPECT_EQ(x[3], 1.0F);
  EXPECT_EQ(x[18], 0.0F);
}

TEST(Kernels, DotAndWeightedSumOfEveryTypeAndHeadSize) {
  constexpr size_t kRows = 37;
  constexpr size_t kStride = 41;
  constexpr size_t kHeads = 3;
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    for (const size_t head_dim : {8U, 20U, 64U, 80U, 96U, 128U, 256U}) {
      std::vector<float> exact = noise(head_dim * kRows, -1, 1, head_dim);
      std::vector<std::byte> rows(ggml_row_size(type, static_cast<int64_t>(head_dim)) * kRows);
      if (type == GGML_TYPE_F32) {
        std::copy(exact.begin(), exact.end(), reinterpret_cast<float*>(rows.data()));
      } else {
        ggml_get_type_traits_cpu(type)->from_float(exact.data(), rows.data(),
                                                   static_cast<int64_t>(exact.size()));
        ggml_get_type_traits(type)->to_float(rows.data(), exact.data(), static_cast<int64_t>(exact.size()));
      }
      const std::vector<float> q = noise(head_dim * kHeads, -1, 1, 77);
      std::vector<float> logits(kStride * kHeads, 0.0F);
      dot_rows(type, rows.data(), kRows, head_dim, q.data(), kHeads, 0.5F, logits.data(), kStride);
      const std::vector<float> weights = noise(kStride * kHeads, 0, 1, 78);
      std::vector<float> out(head_dim * kHeads, 9.0F);
      weighted_sum_rows(type, rows.data(), kRows, head_dim, weights.data(), kStride, kHeads, out.data());
      for (size_t head = 0; head < kHeads; ++head) {
        for (size_t row = 0; row < kRows; ++row) {
          double dot = 0;
          for (size_t channel = 0; channel < head_dim; ++channel) {
            dot += double{exact[row * head_dim + channel]} * q[head * head_dim + channel];
          }
          EXPECT_NEAR(logits[head * kStride + row], 0.5 * dot, 1e-5)
              << ggml_type_name(type) << " " << head_dim;
        }
        for (size_t channel = 0; channel < head_dim; ++channel) {
          double sum = 0;
          for (size_t row = 0; row < kRows; ++row)
            sum += double{weights[head * kStride + row]} * exact[row * head_dim + channel];
          EXPECT_NEAR(out[head * head_dim + channel], sum, 1e-5) << ggml_type_name(type) << " " << head_dim;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvase
