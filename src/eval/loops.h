// SPDX-License-Identifier: MIT
// Finds where a text falls into repeating itself, and offers prompts that invite long answers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvase/model.h"

namespace kvase::eval {

// What counts as falling into repetition: one block of tokens, again and again without a gap.
struct LoopRule {
  size_t max_period = 256;  // tokens, of the longest block that is looked for
  size_t min_repeats = 4;   // copies of the block, the first included
  size_t min_tokens = 64;   // over all copies: three dots, or a short list, are no loop
};

struct Loop {
  size_t begin = 0;     // token at which the first copy starts
  size_t period = 0;    // tokens of the block
  size_t n_tokens = 0;  // from begin to where the repetition ends; the last copy may be cut
};

// The loop that starts first, and of several at one place the one with the shortest block. Text that varies
// (a counter that goes up) is none. Cost: tokens * max_period.
std::optional<Loop> find_loop(std::span<const Token> tokens, const LoopRule& rule = {});

struct LongPrompt {
  std::string id;
  std::string text;
};

// Tasks without an end of their own.
const std::vector<LongPrompt>& long_prompts();

}  // namespace kvase::eval
