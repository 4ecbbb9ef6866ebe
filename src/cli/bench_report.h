// SPDX-License-Identifier: MIT
// What `kvase bench` measured, as rows of JSON and as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_engine.h"
#include "cli/json.h"
#include "kvase/model.h"

namespace kvase::cli {

// What holds for every row of a run.
struct BenchConditions {
  std::string model = {};  // path
  uint32_t n_threads = 0;
  uint32_t n_ubatch = 0;
  uint32_t n_sequences = 0;
  uint32_t n_prompt = 0;  // tokens of one sequence in the measurement of a prompt from empty
  uint32_t n_gen = 0;     // steps in one round
  double read_speed = 0;  // bytes of memory per second that the threads can read
};

// One engine at one context. Speeds and times count the tokens of all sequences; vectors have a number per
// round.
struct BenchRow {
  bool peer = false;
  std::string policy = {};
  uint32_t n_ctx = 0;        // tokens in each sequence when timing starts
  uint32_t n_positions = 0;  // n_ctx and all steps of all rounds
  BenchMemory memory = {};
  std::optional<std::string> note = {};
  std::vector<double> decode_tps = {};
  std::vector<double> prompt_tps = {};
  std::vector<double> decode_cpu_ms = {};  // processor time of all threads per token
  std::vector<double> prompt_cpu_ms = {};
  std::optional<double> prefill_cpu_ms = {};
  uint32_t n_read = 0;                     // tokens of the context that were read; the rest is pretended
  std::optional<double> prefill_tps = {};  // of the fill up to n_read, timed once
  std::vector<double> step_ms = {};        // of every step of all rounds
  std::optional<double> evict_share = {};  // of the time of all rounds
  std::optional<double> stats_share = {};  // likewise: statistics and the adding up of mass
  std::optional<double> attn_read_fraction = {};  // K and V read per second in attention / read_speed
  std::optional<uint64_t> peak_rss_bytes = {};
};

// REQUIRES: not empty.
double median(std::vector<double> numbers);

// The median over rounds of a / b; nothing without numbers. Rounds are neighbours in time, so noise hits both
// alike.
std::optional<double> median_ratio(const std::vector<double>& a, const std::vector<double>& b);

// The libllama row with the same context, or nullptr.
const BenchRow* find_peer(const std::vector<BenchRow>& rows, const BenchRow& row);

Json json_of_bench_row(const BenchConditions& conditions, const BenchRow& row, const BenchRow* peer);

// Tokens per second against tokens in the text, a line for each engine and policy, as SVG.
std::string bench_chart(const BenchConditions& conditions, const ModelInfo& model,
                        const std::vector<BenchRow>& rows);

// Columns "VS PEER" only if there is a peer.
std::string bench_table(const BenchConditions& conditions, const std::vector<BenchRow>& rows);

}  // namespace kvase::cli
