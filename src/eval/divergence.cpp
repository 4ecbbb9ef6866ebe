// SPDX-License-Identifier: MIT
// Logits to log-sum-exp to KL.
#include "eval/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvase/error.h"

namespace kvase::eval {
namespace {

// Below this a negative sum is no rounding any more: probabilities sum to 1 within n_vocab * 1e-16.
constexpr double kRounding = 1e-9;

struct Peak {
  size_t top = 0;  // lowest id of the largest logit
  double logit = 0;
};

Peak find_peak(std::span<const float> logits, size_t n_vocab) {
  if (logits.size() != n_vocab)
    throw Error(ErrorCode::internal, fmt::format("{} logits, allowed: {}", logits.size(), n_vocab));
  const auto bad = std::ranges::find_if(logits, [](float logit) { return !std::isfinite(logit); });
  if (bad != logits.end()) {
    throw Error(ErrorCode::device,
                fmt::format("found logit {} of token {}, allowed: finite ones", *bad, bad - logits.begin()));
  }
  const auto top = std::ranges::max_element(logits);
  return {.top = static_cast<size_t>(top - logits.begin()), .logit = *top};
}

}  // namespace

double ReferenceRows::add(std::span<const float> logits, Token next) {
  const Peak peak = find_peak(logits, n_vocab_);
  Row row{.logits = {logits.begin(), logits.end()},
          .probabilities = std::vector<double>(n_vocab_),
          .top = peak.top};
  double sum = 0;
  for (size_t token = 0; token < n_vocab_; ++token)
    sum += row.probabilities[token] = std::exp(double{logits[token]} - peak.logit);
  for (double& probability : row.probabilities) probability /= sum;
  row.log_sum = peak.logit + std::log(sum);
  rows_.push_back(std::move(row));
  return rows_.back().log_sum - double{logits[static_cast<size_t>(next)]};
}

// sum p (log p - log q) = sum p (logit_p - logit_q) - (log_sum_p - log_sum_q), since p sums to 1.
Comparison ReferenceRows::compare(size_t row, std::span<const float> logits, Token next) const {
  const Row& reference = rows_.at(row);
  const Peak peak = find_peak(logits, n_vocab_);
  double sum = 0;
  double mean_difference = 0;
  for (size_t token = 0; token < n_vocab_; ++token) {
    sum += std::exp(double{logits[token]} - peak.logit);
    mean_difference +=
        reference.probabilities[token] * (double{reference.logits[token]} - double{logits[token]});
  }
  const double log_sum = peak.logit + std::log(sum);
  const double kl = mean_difference - (reference.log_sum - log_sum);
  if (kl < -kRounding) throw Error(ErrorCode::internal, fmt::format("KL {}, allowed: 0 or more", kl));
  return {.kl = std::max(kl, 0.0),
          .nll = log_sum - double{logits[static_cast<size_t>(next)]},
          .same_top = peak.top == reference.top};
}

}  // namespace kvase::eval
