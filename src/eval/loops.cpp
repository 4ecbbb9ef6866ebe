// SPDX-License-Identifier: MIT
// A run of tokens that equal those one period before is a repetition of that period.
#include "eval/loops.h"

#include <algorithm>

namespace kvase::eval {

std::optional<Loop> find_loop(std::span<const Token> tokens, const LoopRule& rule) {
  std::optional<Loop> first;
  for (size_t period = 1; period <= rule.max_period && period < tokens.size(); ++period) {
    const size_t needed = std::max(rule.min_repeats * period, rule.min_tokens);
    size_t n_equal = 0;
    for (size_t at = period; at <= tokens.size(); ++at) {
      if (at < tokens.size() && tokens[at] == tokens[at - period]) {
        ++n_equal;
        continue;
      }
      const size_t n_tokens = n_equal + period;
      const size_t begin = at - n_tokens;
      if (n_equal > 0 && n_tokens >= needed && (!first || begin < first->begin))
        first = Loop{.begin = begin, .period = period, .n_tokens = n_tokens};
      n_equal = 0;
    }
  }
  return first;
}

const std::vector<LongPrompt>& long_prompts() {
  static const std::vector<LongPrompt> prompts = {
      {"lighthouse",
       "Write a long story, chapter by chapter, about a keeper who finds a letter in an old lighthouse."},
      {"bridge",
       "Explain in great detail how a stone bridge is planned, built and kept in repair over the centuries."},
      {"garden", "Keep a gardener's diary for a whole year, one entry for each week."},
      {"primes", "Tell everything that you know about prime numbers, with many worked examples."},
      {"voyage", "Describe a voyage around the world by sailing ship, port after port."},
      {"bread", "Write a complete handbook of baking bread, from the grain to the table."},
      {"city", "Invent a city and describe its history, its streets, its people and its quarrels."},
      {"debate", "Write a long debate between two friends on whether machines can think."},
  };
  return prompts;
}

}  // namespace kvase::eval
