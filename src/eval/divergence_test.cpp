// SPDX-License-Identifier: MIT
// KL against plain long-double loops, at its edges, and refused where there is none.
#include "eval/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kvase/error.h"

namespace kvase::eval {
namespace {

std::vector<float> logits_of(size_t n, float scale, int phase) {
  std::vector<float> logits(n);
  for (size_t token = 0; token < n; ++token)
    logits[token] = scale * std::sin(static_cast<float>(token * 7 + static_cast<size_t>(phase)) * 1.37f);
  return logits;
}

long double log_sum(const std::vector<float>& logits) {
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  return std::log(sum);
}

long double plain_kl(const std::vector<float>& p, const std::vector<float>& q) {
  long double kl = 0;
  for (size_t token = 0; token < p.size(); ++token) {
    const long double log_p = p[token] - log_sum(p), log_q = q[token] - log_sum(q);
    kl += std::exp(log_p) * (log_p - log_q);
  }
  return kl;
}

TEST(Divergence, EqualsPlainLoops) {
  const std::vector<float> p = logits_of(300, 6, 0), q = logits_of(300, 5, 3);
  ReferenceRows reference(300);
  EXPECT_NEAR(reference.add(p, 17), static_cast<double>(log_sum(p) - p[17]), 1e-12);
  const Comparison comparison = reference.compare(0, q, 17);
  EXPECT_NEAR(comparison.kl, static_cast<double>(plain_kl(p, q)), 1e-12);
  EXPECT_NEAR(comparison.nll, static_cast<double>(log_sum(q) - q[17]), 1e-12);
  EXPECT_FALSE(comparison.same_top);
}

TEST(Divergence, OfEqualLogitsIsExactlyZero) {
  const std::vector<float> p = logits_of(1000, 30, 0);
  ReferenceRows reference(1000);
  reference.add(p, 0);
  EXPECT_EQ(reference.compare(0, p, 0).kl, 0);
  EXPECT_TRUE(reference.compare(0, p, 0).same_top);
}

TEST(Divergence, IgnoresAConstantAndLargeLogits) {
  std::vector<float> p = logits_of(50, 3, 0), q = p;
  for (float& logit : q) logit += 1024;  // exact in f32 for these sizes only roughly: see the bound
  ReferenceRows reference(50);
  reference.add(p, 0);
  EXPECT_NEAR(reference.compare(0, q, 0).kl, 0, 1e-7);
  reference.clear();
  EXPECT_EQ(reference.size(), 0U);
  EXPECT_THROW(reference.add(std::vector<float>(49), 0), Error);
}

TEST(Divergence, RefusesWhatIsNotFinite) {
  const std::vector<float> p = logits_of(20, 1, 0);
  ReferenceRows reference(20);
  reference.add(p, 0);
  for (const float bad :
       {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> q = p;
    q[7] = bad;
    EXPECT_THROW(reference.compare(0, q, 0), Error) << bad;
    EXPECT_THROW(reference.add(q, 0), Error) << bad;
  }
}

TEST(Divergence, OfEqualTopsTheLowestCounts) {
  ReferenceRows reference(3);
  reference.add(std::vector<float>{1, 1, 0}, 0);
  EXPECT_TRUE(reference.compare(0, std::vector<float>{2, 1, 2}, 0).same_top);
  EXPECT_FALSE(reference.compare(0, std::vector<float>{1, 2, 2}, 0).same_top);
}

}  // namespace
}  // namespace kvase::eval
