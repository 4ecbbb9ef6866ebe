// SPDX-License-Identifier: MIT
// How far one distribution over the next token is from another, from their logits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kvase/model.h"

namespace kvase::eval {

struct Comparison {
  double kl = 0;         // KL(reference || other), nats, >= 0
  double nll = 0;        // -log p(next token), nats
  bool same_top = true;  // both find the same token likeliest; of equals the lowest id
};

// The reference's distributions for some tokens, worked out once for all that are compared with them.
// Everything is summed in double. Equal logits give a KL of exactly 0.
class ReferenceRows {
 public:
  explicit ReferenceRows(size_t n_vocab) : n_vocab_(n_vocab) {}

  void clear() { rows_.clear(); }
  size_t size() const { return rows_.size(); }
  // Appends one row. Returns the reference's own -log p(next), nats. Throws Error(device) if a logit is not
  // finite.
  double add(std::span<const float> logits, Token next);
  // Throws Error(device) if a logit is not finite.
  Comparison compare(size_t row, std::span<const float> logits, Token next) const;

 private:
  struct Row {
    std::vector<float> logits;
    std::vector<double> probabilities;
    double log_sum = 0;  // of exp(logit)
    size_t top = 0;
  };
  size_t n_vocab_;
  std::vector<Row> rows_;
};

}  // namespace kvase::eval
