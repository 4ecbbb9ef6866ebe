// SPDX-License-Identifier: MIT
// Text in, text out: one answer to one prompt on an engine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kvase/engine.h"

namespace kvase {

struct GenerateRequest {
  std::vector<Token> prompt;  // not empty
  SamplingOptions sampling;
  int64_t n_predict =
      -1;  // most tokens to generate; -1: until the model ends or its trained context is reached
};

enum class FinishReason : uint8_t { stop, length, cancelled };
const char* finish_reason_name(FinishReason reason) noexcept;

struct GenerateResult {
  std::string text;           // valid UTF-8
  std::vector<Token> tokens;  // generated, the ending token not included
  FinishReason finish_reason = FinishReason::stop;
  size_t n_prompt = 0;
  uint64_t seed = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;  // of the tokens after the first
  CacheState cache;
};

struct GenerateHooks {
  std::function<void(std::string_view)> on_text = {};  // whole UTF-8 characters only
  std::function<bool()> should_stop = {};              // asked between tokens and between prompt steps
  std::function<void(size_t done, size_t total)> on_prefill = {};
};

// Opens a sequence, answers, closes it. Throws Error as Engine::advance(), and invalid_argument for an empty
// prompt, a sampling option out of range, or a prompt that does not fit (`full`, Prefill::whole).
GenerateResult generate(Engine& engine, const GenerateRequest& request, const GenerateHooks& hooks = {});

// Throws Error(invalid_argument) naming the field, the value and the range.
void check_sampling(const SamplingOptions& sampling);

}  // namespace kvase
