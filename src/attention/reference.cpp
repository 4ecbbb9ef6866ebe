// SPDX-License-Identifier: MIT
// Slow on purpose: one loop per formula, all in double.
#include "attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvase {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

std::vector<double> logits_of(const ReferenceHead& head, std::span<const float> query, int32_t query_pos) {
  std::vector<double> logits(head.pos.size(), kMasked);
  for (size_t row = 0; row < logits.size(); ++row) {
    if (head.pos[row] > query_pos) continue;
    double dot = 0;
    for (size_t channel = 0; channel < head.head_dim; ++channel) {
      dot += double{head.keys[row * head.head_dim + channel]} * double{query[channel]};
    }
    logits[row] = dot * head.scale;
  }
  return logits;
}

std::vector<double> softmax(std::vector<double> x) {
  const double largest = *std::ranges::max_element(x);
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value - largest);
  for (double& value : x) value /= sum;
  return x;
}

// Softmax over the rows of the domain, then only the candidates' part.
std::vector<double> candidate_part(std::vector<double> logits, std::span<const uint8_t> is_candidate,
                                   MassSpec::Domain domain) {
  if (domain == MassSpec::Domain::candidates) {
    for (size_t row = 0; row < logits.size(); ++row) {
      if (!is_candidate[row]) logits[row] = kMasked;
    }
  }
  std::vector<double> probabilities = softmax(std::move(logits));
  for (size_t row = 0; row < probabilities.size(); ++row) {
    if (!is_candidate[row]) probabilities[row] = 0;
  }
  return probabilities;
}

}  // namespace

std::vector<double> reference_probabilities(const ReferenceHead& head, std::span<const float> query,
                                            int32_t query_pos) {
  return softmax(logits_of(head, query, query_pos));
}

std::vector<double> reference_attention(const ReferenceHead& head, std::span<const float> query,
                                        int32_t query_pos) {
  const std::vector<double> probabilities = reference_probabilities(head, query, query_pos);
  std::vector<double> out(head.head_dim, 0.0);
  for (size_t row = 0; row < probabilities.size(); ++row) {
    for (size_t channel = 0; channel < head.head_dim; ++channel) {
      out[channel] += probabilities[row] * double{head.values[row * head.head_dim + channel]};
    }
  }
  return out;
}

std::vector<double> reference_value(const ReferenceMap& map, std::span<const float> key, int32_t pos) {
  const size_t head_dim = key.size();
  std::vector<double> before(head_dim);
  for (size_t pair = 0; pair < head_dim / 2; ++pair) {
    const double angle =
        pos * std::pow(map.rope_base, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
    const double x = key[pair], y = key[pair + head_dim / 2];
    before[pair] = x * std::cos(angle) + y * std::sin(angle);
    before[pair + head_dim / 2] = y * std::cos(angle) - x * std::sin(angle);
  }
  std::vector<double> value(map.bias.begin(), map.bias.end());
  for (size_t out = 0; out < head_dim; ++out) {
    for (size_t in = 0; in < head_dim; ++in)
      value[out] += double{map.weight[out * head_dim + in]} * before[in];
  }
  return value;
}

std::vector<std::vector<double>> reference_mass(const ReferenceHead& head,
                                                std::span<const std::span<const float>> queries,
                                                int32_t query_pos, std::span<const uint8_t> is_candidate,
                                                const MassSpec& spec) {
  std::vector<std::vector<double>> per_head;
  for (const auto& query : queries) per_head.push_back(logits_of(head, query, query_pos));
  if (spec.group == MassSpec::Group::max_logit) {
    for (size_t query_head = 1; query_head < per_head.size(); ++query_head) {
      for (size_t row = 0; row < per_head[0].size(); ++row) {
        per_head[0][row] = std::max(per_head[0][row], per_head[query_head][row]);
      }
    }
    per_head.resize(1);
  }
  for (auto& row : per_head) row = candidate_part(std::move(row), is_candidate, spec.domain);
  if (spec.group == MassSpec::Group::mean) {
    const auto n_heads = static_cast<double>(per_head.size());
    for (size_t row = 0; row < per_head[0].size(); ++row) {
      double sum = 0;
      for (const auto& probabilities : per_head) sum += probabilities[row];
      per_head[0][row] = sum / n_heads;
    }
    per_head.resize(1);
  }
  return per_head;
}

}  // namespace kvase
