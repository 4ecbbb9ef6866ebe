// SPDX-License-Identifier: MIT
// Sketches against double-precision loops, for every row type.
#include "stats/sketch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stats/test_rows.h"

namespace kvase {
namespace {

TEST(Sketch, MatchesDoubleLoops) {
  constexpr uint32_t kRows = 5;
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    for (const uint32_t head_dim : {16U, 80U, 128U}) {
      for (const uint32_t rank : {1U, 20U, 33U}) {
        const EventContext event{.seed = 11, .sequence = 2, .layer = 3, .event = 4};
        const TestRows rows = random_rows(type, head_dim, kRows);
        std::vector<float> norms(kRows);
        sketch_rows(make_sketch_matrix({.rank = rank}, event, head_dim), rows.view(),
                    std::vector<uint32_t>{0, 1, 2, 3, 4}, norms);
        const auto g = gaussian_matrix({.seed = 11, .sequence = 2, .layer = 3, .event = 4}, head_dim, rank);
        for (uint32_t slot = 0; slot < kRows; ++slot) {
          double expected = 0;
          for (uint32_t column = 0; column < rank; ++column) {
            double y = 0;
            for (uint32_t channel = 0; channel < head_dim; ++channel) {
              y += double{rows.exact[slot * head_dim + channel]} * g[channel * rank + column];
            }
            expected += y * y;
          }
          EXPECT_NEAR(norms[slot] / expected, 1, 3e-6)
              << ggml_type_name(type) << " " << head_dim << " rank " << rank;
        }
      }
    }
  }
}

TEST(Sketch, FixedMatrixIgnoresTheEvent) {
  const SketchSpec fixed{.rank = 20, .redraw = false};
  const SketchSpec redrawn{.rank = 20, .redraw = true};
  EXPECT_EQ(make_sketch_matrix(fixed, {.event = 9}, 8).g, make_sketch_matrix(fixed, {.event = 0}, 8).g);
  EXPECT_NE(make_sketch_matrix(redrawn, {.event = 9}, 8).g, make_sketch_matrix(redrawn, {.event = 0}, 8).g);
  EXPECT_NE(make_sketch_matrix(fixed, {.sequence = 1}, 8).g, make_sketch_matrix(fixed, {.sequence = 0}, 8).g);
}

}  // namespace
}  // namespace kvase
