// SPDX-License-Identifier: MIT
// Medians, ratios, and what was not measured: null in JSON, "-" in the table.
#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/format.h"
#include "cli/messages.h"
#include "report/chart.h"

namespace kvase::cli {
namespace {

template <typename Value>
Json json_of(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

std::optional<double> median_of(const std::vector<double>& numbers) {
  return numbers.empty() ? std::nullopt : std::optional(median(numbers));
}

std::optional<double> slowest(const std::vector<double>& step_ms) {
  return step_ms.empty() ? std::nullopt : std::optional(*std::ranges::max_element(step_ms));
}

std::optional<double> slowest_to_median(const std::vector<double>& step_ms) {
  return step_ms.empty() ? std::nullopt : std::optional(*slowest(step_ms) / median(step_ms));
}

std::vector<double> as_list(const std::optional<double>& number) {
  return number ? std::vector{*number} : std::vector<double>{};
}

struct Ratios {
  std::optional<double> decode, prefill, prompt;
};

Ratios ratios_to(const BenchRow* peer, const BenchRow& row) {
  if (peer == nullptr) return {};
  return {.decode = median_ratio(row.decode_tps, peer->decode_tps),
          .prefill = median_ratio(as_list(row.prefill_tps), as_list(peer->prefill_tps)),
          .prompt = median_ratio(row.prompt_tps, peer->prompt_tps)};
}

std::string cell(const std::optional<double>& number, int n_decimals) {
  return number ? fmt::format("{:.{}f}", *number, n_decimals) : "-";
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : "-";
}

std::string spread(const std::vector<double>& numbers) {
  const auto [low, high] = std::ranges::minmax(numbers);
  return fmt::format("{:.1f}..{:.1f}", low, high);
}

std::string name_of(const BenchRow& row) { return row.peer ? "libllama" : one_line(row.policy); }

}  // namespace

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

std::optional<double> median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t round = 0; round < std::min(a.size(), b.size()); ++round) ratios.push_back(a[round] / b[round]);
  return median_of(ratios);
}

const BenchRow* find_peer(const std::vector<BenchRow>& rows, const BenchRow& row) {
  const auto found = std::ranges::find_if(
      rows, [&](const BenchRow& other) { return other.peer && other.n_ctx == row.n_ctx; });
  return found == rows.end() ? nullptr : &*found;
}

Json json_of_bench_row(const BenchConditions& conditions, const BenchRow& row, const BenchRow* peer) {
  const Ratios ratios = ratios_to(peer, row);
  return {{"engine", row.peer ? "libllama" : "kvase"},
          {"policy", row.policy},
          {"n_ctx", row.n_ctx},
          {"n_seq", conditions.n_sequences},
          {"decode_tps", json_of(median_of(row.decode_tps))},
          {"decode_tps_rounds", row.decode_tps},
          {"decode_vs_libllama", json_of(ratios.decode)},
          {"decode_cpu_ms", json_of(median_of(row.decode_cpu_ms))},
          {"prefill_tps", json_of(row.prefill_tps)},
          {"prefill_vs_libllama", json_of(ratios.prefill)},
          {"prefill_cpu_ms", json_of(row.prefill_cpu_ms)},
          {"prompt_tps", json_of(median_of(row.prompt_tps))},
          {"prompt_tps_rounds", row.prompt_tps},
          {"prompt_vs_libllama", json_of(ratios.prompt)},
          {"prompt_cpu_ms", json_of(median_of(row.prompt_cpu_ms))},
          {"kv_bytes", row.memory.kv_bytes},
          {"side_bytes", json_of(row.memory.side_bytes)},
          {"map_bytes", json_of(row.memory.map_bytes)},
          {"peak_rss_bytes", json_of(row.peak_rss_bytes)},
          {"stats_share", json_of(row.stats_share)},
          {"evict_share", json_of(row.evict_share)},
          {"attn_read_fraction", json_of(row.attn_read_fraction)},
          {"median_step_ms", json_of(median_of(row.step_ms))},
          {"slowest_step_ms", json_of(slowest(row.step_ms))},
          {"n_read", row.n_read},
          {"read_gb_per_s", conditions.read_speed / 1e9},
          {"n_positions", row.n_positions},
          {"n_gen", conditions.n_gen},
          {"n_prompt", conditions.n_prompt},
          {"n_threads", conditions.n_threads},
          {"n_ubatch", conditions.n_ubatch},
          {"model", conditions.model},
          {"compiler", __VERSION__},
          {"note", json_of(row.note)}};
}

std::string bench_chart(const BenchConditions& conditions, const ModelInfo& model,
                        const std::vector<BenchRow>& rows) {
  report::Chart chart{
      .title = "Decoding speed as the text grows",
      .subtitle = fmt::format(
          "{}, {} threads, {}", one_line(model.name.empty() ? model.path : model.name), conditions.n_threads,
          conditions.n_sequences == 1 ? "one sequence"
                                      : fmt::format("{} sequences together", conditions.n_sequences)),
      .x = {.label = "tokens in the text", .scale = report::Scale::log},
      .y = {.label = "tokens per second", .scale = report::Scale::log},
      .spread = report::Spread::band};
  for (const BenchRow& row : rows) {
    auto series = std::ranges::find(chart.series, name_of(row), &report::Series::name);
    if (series == chart.series.end()) series = chart.series.insert(series, {name_of(row), {}});
    const auto [low, high] = std::ranges::minmax(row.decode_tps);
    series->points.push_back(
        {static_cast<double>(row.n_ctx), median(row.decode_tps), report::Interval{low, high}});
    chart.x.ticks.push_back({static_cast<double>(row.n_ctx), with_commas(row.n_ctx)});
  }
  return report::to_svg(chart);
}

std::string bench_table(const BenchConditions& conditions, const std::vector<BenchRow>& rows) {
  const bool with_peer = std::ranges::any_of(rows, &BenchRow::peer);
  std::vector<std::vector<std::string>> cells = {
      {"ENGINE", "CONTEXT", "DECODE", "ROUNDS", "VS PEER", "CPU MS", "FILL", "VS PEER",
       fmt::format("PROMPT {}", conditions.n_prompt), "VS PEER", "SLOWEST", "K AND V", "PEAK RSS", "EVENTS",
       "STATS", "OF READ"}};
  for (const BenchRow& row : rows) {
    const Ratios ratios = ratios_to(find_peer(rows, row), row);
    cells.push_back({name_of(row), with_commas(row.n_ctx), cell(median_of(row.decode_tps), 1),
                     spread(row.decode_tps), cell(ratios.decode, 2), cell(median_of(row.decode_cpu_ms), 1),
                     cell(row.prefill_tps, 1), cell(ratios.prefill, 2), cell(median_of(row.prompt_tps), 1),
                     cell(ratios.prompt, 2), cell(slowest_to_median(row.step_ms), 2),
                     human_bytes(row.memory.kv_bytes),
                     row.peak_rss_bytes ? human_bytes(*row.peak_rss_bytes) : "-", percent(row.evict_share),
                     percent(row.stats_share), percent(row.attn_read_fraction)});
  }
  std::vector<Align> columns(cells.front().size(), Align::right);
  columns.front() = Align::left;
  if (!with_peer) {
    for (const size_t column : {9, 7, 4}) {
      columns.pop_back();
      for (auto& row : cells) row.erase(row.begin() + static_cast<ptrdiff_t>(column));
    }
  }
  return table(columns, cells);
}

}  // namespace kvase::cli
