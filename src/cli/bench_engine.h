// SPDX-License-Identifier: MIT
// What `kvase bench` measures: something that takes tokens, many at once or one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "kvase/options.h"

namespace kvase::cli {

struct BenchSetup {
  bool peer = false;  // libllama instead of kvase; of `engine` it reads all but the cache's policy and shape
  ModelOptions model;
  EngineOptions engine;  // cache.n_ctx: positions of one sequence, all that will ever be appended
  uint32_t n_fill = 0;   // tokens of a context that are read; the rest is pretended
};

nlohmann::json json_of_setup(const BenchSetup& setup);
BenchSetup setup_of_json(const nlohmann::json& json);

struct BenchMemory {
  uint64_t kv_bytes = 0;
  std::optional<uint64_t> side_bytes = {};  // nothing: no such thing in this engine
  std::optional<uint64_t> map_bytes = {};
};

// Sums since the engine was made.
struct BenchTimes {
  double events_ms = 0;
  double statistics_ms = 0;  // mass included
  double attention_ms = 0;
  double attention_bytes = 0;  // that steps of one token had to read
};

// Every sequence has the same length at any time. The tokens depend on place and sequence alone, so all
// engines get the same. Logits are computed for the last token of a sequence and nobody reads them.
class BenchEngine {
 public:
  virtual ~BenchEngine() = default;
  virtual void clear() = 0;           // empties all sequences
  virtual void fill(uint32_t n) = 0;  // appends n tokens to every sequence, as a prompt
  virtual void step() = 0;            // appends one token to every sequence, all together
  // Tokens to read of a context of n before pretend(n) may make up the rest.
  virtual uint32_t n_to_read(uint32_t n) const = 0;
  virtual void pretend(uint32_t n) = 0;  // makes every sequence as long as after n tokens
  virtual BenchMemory memory() const = 0;
  virtual std::optional<BenchTimes> times() const { return std::nullopt; }  // nothing: cannot be told
  virtual std::optional<std::string> note() const { return std::nullopt; }  // how it computes, for the reader
};

std::unique_ptr<BenchEngine> make_kvase_engine(const BenchSetup& setup);

// The token of one sequence at one place: spread over the vocabulary, the same in every run.
int32_t bench_token(uint32_t sequence, uint32_t pos, uint32_t n_vocab);

}  // namespace kvase::cli
