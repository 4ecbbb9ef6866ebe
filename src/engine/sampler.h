// SPDX-License-Identifier: MIT
// Logits to one token.
//
// Temperature 0 takes the highest logit, the lowest id on ties. Otherwise libllama's samplers filter and
// scale, in its own default order top_k, top_p, min_p, temperature, and the final draw is ours: one uniform
// from Philox, keyed by (seed, sample) and the position of the token, so that a draw depends on nothing else
// and no generator has a state to save.
//
// Not safe for concurrent use: the candidate array is reused. One sampler per sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvase/generate.h"

struct llama_sampler;
struct llama_token_data;

namespace kvase {

class Sampler {
 public:
  // Throws Error(invalid_argument) as check_sampling().
  Sampler(const SamplingOptions& options, uint32_t n_vocab);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  // The token at position `pos`, from the logits of position pos - 1.
  //   logits f32 [n_vocab]; NaN and -inf are never chosen
  // Throws Error(device) if nothing can be chosen.
  Token sample(std::span<const float> logits, uint32_t pos);

 private:
  struct FreeChain {
    void operator()(llama_sampler* chain) const;
  };

  size_t gather(std::span<const float> logits, float max_logit);

  SamplingOptions options_;
  std::unique_ptr<llama_sampler, FreeChain> chain_;  // null at temperature 0
  std::vector<llama_token_data> candidates_;         // [n_vocab], allocated once
};

}  // namespace kvase
