// SPDX-License-Identifier: MIT
// Chooses slots three ways, then attends over each choice and over everything.
#include "value_map/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvase {
namespace {

constexpr uint32_t kKeptShare = 4;  // the budget is 1/4 of the context

using Slots = std::vector<uint32_t>;

// What stands for a value: one row per slot, or with stride 0 one row for all.
struct Rebuilt {
  const float* rows = nullptr;
  size_t stride = 0;
  const float* row(size_t slot) const { return rows + slot * stride; }
};

double squared_distance(const float* a, const float* b, uint32_t n) {
  double sum = 0;
  for (uint32_t channel = 0; channel < n; ++channel) {
    const double difference = double{a[channel]} - b[channel];
    sum += difference * difference;
  }
  return sum;
}

// Several sums at once, so that a compiler can use vectors.
float dot(const float* a, const float* b, uint32_t n) {
  constexpr uint32_t kSums = 16;
  std::array<float, kSums> sums = {};
  uint32_t channel = 0;
  for (; channel + kSums <= n; channel += kSums) {
    for (uint32_t lane = 0; lane < kSums; ++lane) sums[lane] += a[channel + lane] * b[channel + lane];
  }
  float sum = std::accumulate(sums.begin(), sums.end(), 0.0F);
  for (; channel < n; ++channel) sum += a[channel] * b[channel];
  return sum;
}

class Gate {
 public:
  explicit Gate(const GateHead& head)
      : head_(&head), n_context_(head.n - head.n_eval), n_candidates_(n_context_ - head.n_window) {
    budget_ = n_context_ / kKeptShare;
    const uint32_t n_protected = head.n_window + head.n_sink;
    KVASE_CHECK(budget_ >= n_protected, "budget {} of {} slots, {} protected", budget_, n_context_,
                n_protected);
    n_recruits_ = std::min(budget_ / 2, budget_ - n_protected);
  }

  GateErrors measure() {
    score();
    const Slots evict = best_candidates(budget_);
    const Slots pool = best_candidates(budget_ + n_recruits_);
    // Slots are chosen by the mean of what is there, and stand for the mean of what went.
    Slots all(n_context_);
    std::iota(all.begin(), all.end(), 0U);
    const std::vector<float> mean = mean_of(all);
    const Slots zero = cheapest(pool, {mean.data(), 0});
    const std::vector<float> mean_of_zero = mean_of(zero);
    const Rebuilt linear_values{head_->rebuilt, head_->head_dim};
    const Slots linear = cheapest(pool, linear_values);
    GateErrors errors;
    for (uint32_t query = 0; query < head_->n_eval; ++query) {
      for (uint32_t member = 0; member < head_->group; ++member) {
        weigh(query, member);
        const std::vector<float> full = attend_all(query);
        const auto error = [&](std::vector<float> out) {
          return squared_distance(out.data(), full.data(), head_->head_dim);
        };
        errors.evict += error(attend(query, evict, {}, {}));
        errors.zero += error(attend(query, pool, zero, {mean_of_zero.data(), 0}));
        errors.linear += error(attend(query, pool, linear, linear_values));
        for (const float x : full) errors.full += double{x} * x;
      }
    }
    return errors;
  }

 private:
  const float* row(const float* rows, size_t slot) const { return rows + slot * head_->head_dim; }

  // exp(q . k - largest) of slots 0 .. n - 1.
  void exponentials(const float* query, uint32_t n) {
    weights_.resize(n);
    for (uint32_t slot = 0; slot < n; ++slot)
      weights_[slot] = head_->scale * dot(query, row(head_->keys, slot), head_->head_dim);
    const float largest = *std::ranges::max_element(weights_);
    for (float& weight : weights_) weight = std::exp(weight - largest);
  }

  const float* query_row(uint32_t query, uint32_t member) const {
    return row(head_->queries, size_t{query} * head_->group + member);
  }

  // Mean over the window's queries of the softmax over candidates.
  void score() {
    mass_.assign(n_candidates_, 0.0);
    for (uint32_t query = 0; query < head_->n_window; ++query) {
      for (uint32_t member = 0; member < head_->group; ++member) {
        exponentials(query_row(query, member), n_candidates_);
        const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
        for (uint32_t slot = 0; slot < n_candidates_; ++slot) mass_[slot] += weights_[slot] / total;
      }
    }
  }

  // Sinks, and the candidates of most mass, so that with the window there are n; ascending.
  Slots best_candidates(uint32_t n) const {
    Slots order(n_candidates_);
    std::iota(order.begin(), order.end(), 0U);
    const auto before = [&](uint32_t a, uint32_t b) {
      const bool a_is_sink = a < head_->n_sink, b_is_sink = b < head_->n_sink;
      if (a_is_sink != b_is_sink) return a_is_sink;
      return mass_[a] != mass_[b] ? mass_[a] > mass_[b] : a < b;
    };
    std::ranges::sort(order, before);
    order.resize(n - head_->n_window);
    std::ranges::sort(order);
    return order;
  }

  // The 2 n_recruits_ members of the pool that lose least with another value; ascending.
  Slots cheapest(const Slots& pool, const Rebuilt& rebuilt) const {
    std::vector<std::pair<double, uint32_t>> costs;
    for (const uint32_t slot : pool) {
      if (slot < head_->n_sink) continue;
      const double distance = squared_distance(row(head_->values, slot), rebuilt.row(slot), head_->head_dim);
      costs.emplace_back(mass_[slot] * mass_[slot] * distance, slot);
    }
    std::ranges::sort(costs);
    Slots chosen;
    for (uint32_t index = 0; index < 2 * n_recruits_; ++index) chosen.push_back(costs[index].second);
    std::ranges::sort(chosen);
    return chosen;
  }

  std::vector<float> mean_of(const Slots& slots) const {
    std::vector<double> sum(head_->head_dim, 0.0);
    for (const uint32_t slot : slots) {
      for (uint32_t channel = 0; channel < head_->head_dim; ++channel)
        sum[channel] += row(head_->values, slot)[channel];
    }
    std::vector<float> mean;
    for (const double channel : sum)
      mean.push_back(static_cast<float>(channel / static_cast<double>(std::max<size_t>(slots.size(), 1))));
    return mean;
  }

  // Weights of all slots that an evaluating query sees.
  void weigh(uint32_t query, uint32_t member) {
    exponentials(query_row(head_->n_window + query, member), n_context_ + query + 1);
  }

  void add(uint32_t slot, const float* value, std::vector<float>& out, double& total) const {
    total += weights_[slot];
    for (uint32_t channel = 0; channel < head_->head_dim; ++channel)
      out[channel] += weights_[slot] * value[channel];
  }

  std::vector<float> divided(std::vector<float> out, double total) const {
    for (float& channel : out) channel = static_cast<float>(channel / total);
    return out;
  }

  std::vector<float> attend_all(uint32_t query) const {
    std::vector<float> out(head_->head_dim, 0.0F);
    double total = 0;
    for (uint32_t slot = 0; slot <= n_context_ + query; ++slot)
      add(slot, row(head_->values, slot), out, total);
    return divided(std::move(out), total);
  }

  // Over the kept candidates, of which those in `approximate` have a rebuilt value, and over all slots from
  // the window on.
  std::vector<float> attend(uint32_t query, const Slots& kept, const Slots& approximate,
                            const Rebuilt& rebuilt) const {
    std::vector<float> out(head_->head_dim, 0.0F);
    double total = 0;
    auto next = approximate.begin();
    for (const uint32_t slot : kept) {
      const bool is_approximate = next != approximate.end() && *next == slot;
      if (is_approximate) ++next;
      add(slot, is_approximate ? rebuilt.row(slot) : row(head_->values, slot), out, total);
    }
    for (uint32_t slot = n_candidates_; slot <= n_context_ + query; ++slot)
      add(slot, row(head_->values, slot), out, total);
    return divided(std::move(out), total);
  }

  const GateHead* head_;
  uint32_t n_context_;
  uint32_t n_candidates_;
  uint32_t budget_ = 0;
  uint32_t n_recruits_ = 0;
  std::vector<double> mass_;    // [n_candidates]
  std::vector<float> weights_;  // of the query at hand
};

}  // namespace

void GateErrors::add(const GateErrors& other) {
  evict += other.evict;
  zero += other.zero;
  linear += other.linear;
  full += other.full;
}

GateErrors measure_gate(const GateHead& head) { return Gate(head).measure(); }

}  // namespace kvase
