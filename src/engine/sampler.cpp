// SPDX-License-Identifier: MIT
// Filters by libllama, the draw by inverse CDF in f64 over the survivors, in the order in which the chain
// left them.
#include "engine/sampler.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/errors.h"
#include "base/random.h"

namespace kvase {
namespace {

// libllama sorts logits into buckets by converting them to int, which is undefined for larger ones; a logit
// this far from the highest has probability 0 at any temperature that leaves the distribution useful.
constexpr float kLogitLimit = 1e8f;

llama_sampler* make_chain(const SamplingOptions& options) {
  llama_sampler_chain_params params = llama_sampler_chain_default_params();
  params.no_perf = true;
  llama_sampler* chain = llama_sampler_chain_init(params);
  constexpr size_t kMinKeep = 1;
  if (options.top_k > 0) llama_sampler_chain_add(chain, llama_sampler_init_top_k(options.top_k));
  if (options.top_p < 1.0f) llama_sampler_chain_add(chain, llama_sampler_init_top_p(options.top_p, kMinKeep));
  if (options.min_p > 0.0f) llama_sampler_chain_add(chain, llama_sampler_init_min_p(options.min_p, kMinKeep));
  llama_sampler_chain_add(chain, llama_sampler_init_temp(options.temperature));
  return chain;
}

// The id of the highest logit that is neither NaN nor -inf, the lowest id on ties.
size_t highest(std::span<const float> logits) {
  size_t best = logits.size();
  float best_logit = -std::numeric_limits<float>::infinity();
  for (size_t token = 0; token < logits.size(); ++token) {
    if (logits[token] > best_logit) {
      best_logit = logits[token];
      best = token;
    }
  }
  if (best == logits.size()) {
    fail(ErrorCode::device,
         "logits of {} tokens are all NaN or -inf: the model's weights or the backend are broken",
         logits.size());
  }
  return best;
}

Token draw(std::span<const llama_token_data> candidates, double uniform) {
  float max_logit = candidates.front().logit;
  for (const llama_token_data& candidate : candidates) max_logit = std::max(max_logit, candidate.logit);
  const auto weight = [max_logit](const llama_token_data& candidate) {
    return std::exp(double{candidate.logit} - double{max_logit});
  };
  double total = 0;
  for (const llama_token_data& candidate : candidates) total += weight(candidate);
  const double target = uniform * total;
  double below = 0;
  Token token = candidates.front().id;
  for (const llama_token_data& candidate : candidates) {
    const double own = weight(candidate);
    if (own > 0)
      token = candidate.id;  // rounding may leave `target` above the sum: then the last possible one
    below += own;
    if (target < below) break;
  }
  return token;
}

}  // namespace

void check_sampling(const SamplingOptions& sampling) {
  if (!(sampling.temperature >= 0) || std::isinf(sampling.temperature)) {
    invalid("--temp {}, allowed: 0 or more", sampling.temperature);
  }
  if (sampling.top_k < 0) invalid("--top-k {}, allowed: 0 or more (0: off)", sampling.top_k);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    invalid("--top-p {}, allowed: above 0, up to 1 (1: off)", sampling.top_p);
  }
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1))
    invalid("--min-p {}, allowed: 0 to 1 (0: off)", sampling.min_p);
}

void Sampler::FreeChain::operator()(llama_sampler* chain) const { llama_sampler_free(chain); }

Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

Sampler::Sampler(const SamplingOptions& options, uint32_t n_vocab) : options_(options) {
  check_sampling(options);
  if (options.temperature == 0) return;
  chain_.reset(make_chain(options));
  candidates_.resize(n_vocab);
}

// Fills candidates_ with what may be chosen, in order of id, logits relative to the highest: softmax does not
// change, and dividing by a tiny temperature cannot overflow. Returns their number.
size_t Sampler::gather(std::span<const float> logits, float max_logit) {
  const float reference = std::min(max_logit, kLogitLimit);
  size_t n = 0;
  for (size_t token = 0; token < logits.size(); ++token) {
    const float logit = logits[token];
    if (std::isnan(logit) || logit == -std::numeric_limits<float>::infinity()) continue;
    const float relative = std::max(std::min(logit, kLogitLimit) - reference, -kLogitLimit);
    candidates_[n++] = {static_cast<llama_token>(token), relative, 0.0f};
  }
  return n;
}

Token Sampler::sample(std::span<const float> logits, uint32_t pos) {
  const size_t best = highest(logits);
  if (chain_ == nullptr) return static_cast<Token>(best);

  KVASE_CHECK(logits.size() == candidates_.size(), "{} logits, vocabulary of {}", logits.size(),
              candidates_.size());
  llama_token_data_array array = {candidates_.data(), gather(logits, logits[best]), -1, false};
  llama_sampler_apply(chain_.get(), &array);

  NoiseKey key;
  key.seed = options_.seed;
  key.sequence = options_.sample;
  return draw({array.data, array.size}, noise_uniform(key, NoiseStream::token, pos));
}

}  // namespace kvase
