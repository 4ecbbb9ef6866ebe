// SPDX-License-Identifier: MIT
// Medians, paired ratios, nulls, columns.
#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvase::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

BenchRow row(bool peer, uint32_t n_ctx, std::vector<double> decode_tps) {
  BenchRow result;
  result.peer = peer;
  result.policy = "full";
  result.n_ctx = n_ctx;
  result.decode_tps = std::move(decode_tps);
  result.memory.kv_bytes = 4096;
  return result;
}

TEST(BenchReport, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
}

TEST(BenchReport, RatiosAreTakenRoundByRound) {
  // The ratio of the medians would be 0.75.
  EXPECT_EQ(median_ratio({15, 3, 6}, {10, 2, 8}), 1.5);
  EXPECT_EQ(median_ratio({}, {}), std::nullopt);
}

TEST(BenchReport, ThePeerIsTheOneWithTheSameContext) {
  const std::vector<BenchRow> rows = {row(false, 128, {1}), row(true, 128, {2}), row(false, 1024, {1}),
                                      row(true, 1024, {4})};
  EXPECT_EQ(find_peer(rows, rows[2]), &rows[3]);
  EXPECT_EQ(find_peer({rows[0]}, rows[0]), nullptr);
}

TEST(BenchReport, WhatWasNotMeasuredIsNull) {
  const Json json = json_of_bench_row({.n_sequences = 2}, row(false, 128, {10, 30, 20}), nullptr);
  EXPECT_EQ(json["engine"], "kvase");
  EXPECT_EQ(json["n_seq"], 2);
  EXPECT_EQ(json["decode_tps"], 20);
  EXPECT_EQ(json["kv_bytes"], 4096);
  for (const char* field :
       {"prefill_tps", "prompt_tps", "side_bytes", "map_bytes", "peak_rss_bytes", "stats_share",
        "evict_share", "attn_read_fraction", "decode_vs_libllama", "note"}) {
    ASSERT_TRUE(json.contains(field)) << field;
    EXPECT_TRUE(json[field].is_null()) << field;
  }
}

TEST(BenchReport, AMeasuredZeroStaysAZero) {
  BenchRow full = row(false, 128, {10});
  full.evict_share = 0;
  EXPECT_EQ(json_of_bench_row({}, full, nullptr)["evict_share"], 0);
}

TEST(BenchReport, TheTableComparesOnlyWithAPeer) {
  const std::vector<BenchRow> alone = {row(false, 128, {10, 30, 20})};
  EXPECT_THAT(bench_table({.n_prompt = 512}, alone), Not(HasSubstr("VS PEER")));
  EXPECT_THAT(bench_table({.n_prompt = 512}, alone), HasSubstr("10.0..30.0"));
  const std::vector<BenchRow> both = {row(false, 128, {10, 30, 20}), row(true, 128, {20, 60, 40})};
  EXPECT_THAT(bench_table({.n_prompt = 512}, both), HasSubstr("VS PEER"));
  EXPECT_THAT(bench_table({.n_prompt = 512}, both), HasSubstr("0.50"));
}

}  // namespace
}  // namespace kvase::cli
