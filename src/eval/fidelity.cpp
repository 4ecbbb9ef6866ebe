// SPDX-License-Identifier: MIT
// Block by block: the full cache reads, then each policy reads the same and is compared.
#include "eval/fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <numeric>

#include "eval/divergence.h"
#include "eval/statistics.h"
#include "kvase/error.h"
#include "kvase/plan.h"
#include "kvase/policy.h"

namespace kvase::eval {
namespace {

using Clock = std::chrono::steady_clock;

// Tokens that all engines read in turn. Bounds the reference's rows in memory (12 n_vocab bytes each); larger
// saves a few steps that end at a border instead of at an event.
constexpr size_t kBlockTokens = 64;
constexpr uint32_t kDefaultInterval = 64;
constexpr uint32_t kMostTokens = 1U << 24;

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// ---- the list of work

// "3/8" as its two numbers.
std::optional<std::pair<uint64_t, uint64_t>> parse_fraction(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  uint64_t over = 0, under = 0;
  const char* const begin = text.data();
  const auto above = std::from_chars(begin, begin + slash, over);
  const auto below = std::from_chars(begin + slash + 1, begin + text.size(), under);
  const bool good = above.ec == std::errc() && above.ptr == begin + slash && below.ec == std::errc() &&
                    below.ptr == begin + text.size();
  if (!good || over < 1 || under < 1 || over > under || under > 1'000'000)
    refuse("--kv-budget \"{}\", allowed: a fraction of the full cache as 1/4, tokens, or MiB", text);
  return std::pair(over, under);
}

// Every budget as bytes over capacity, whatever interval a policy brings along.
Budget budget_bytes(const FidelityPlan& plan, const MemoryPlan& full, const std::string& text) {
  if (const auto fraction = parse_fraction(text))
    return {.unit = Budget::Unit::bytes, .amount = full.kv_bytes / fraction->second * fraction->first};
  const Budget budget = parse_budget(text);
  if (budget.unit == Budget::Unit::bytes) return budget;
  const uint64_t n_slots = budget.amount + plan.engine.cache.interval.value_or(kDefaultInterval);
  if (n_slots > (uint64_t{1} << 31)) refuse("--kv-budget {}, allowed: fewer tokens", text);
  return {.unit = Budget::Unit::bytes, .amount = n_slots * full.bytes_per_token};
}

void check_policy(const ParsedPolicy& policy) {
  if (!policy.policy->evicts())
    refuse("--kv {}: found a policy that evicts nothing, allowed: others, which are all compared with full",
           policy.text);
  if (policy.budget)
    refuse("--kv {}: found a budget in the policy, allowed: in --kv-budget, for all alike", policy.text);
}

// The full cache of a text, with rows of the same types.
CacheOptions full_cache(const CacheOptions& like, size_t n_tokens) {
  CacheOptions cache;
  cache.policy = "full";
  cache.type_k = like.type_k;
  cache.type_v = like.type_v;
  cache.n_ctx = static_cast<uint32_t>(n_tokens);
  return cache;
}

// ---- what is learned of one text

// One number per token and kind, reduced at the end.
struct Trace {
  std::vector<double> nll, nll_full, kl, top1;
};

double mean_of(std::span<const double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

Json quality(const Trace& trace, size_t first, size_t end) {
  const auto part = [&](const std::vector<double>& numbers) {
    return std::span(numbers).subspan(first, end - first);
  };
  return {{"nll", mean_of(part(trace.nll))},
          {"nll_full", mean_of(part(trace.nll_full))},
          {"kl_mean", mean_of(part(trace.kl))},
          {"kl_p99", quantile(part(trace.kl), 0.99)},
          {"top1_agreement", mean_of(part(trace.top1))}};
}

Json block_means(const std::vector<double>& numbers) {
  Json means = Json::array();
  for (size_t block = 0; block < kBlocks; ++block) {
    const size_t first = block * numbers.size() / kBlocks, end = (block + 1) * numbers.size() / kBlocks;
    means.push_back(mean_of(std::span(numbers).subspan(first, end - first)));
  }
  return means;
}

EngineOptions with_cache(EngineOptions options, const CacheOptions& cache) {
  options.cache = cache;
  return options;
}

// An engine with one sequence that reads on, and the time that it took.
class Reader {
 public:
  Reader(const Model& model, const EngineOptions& options, uint64_t seed)
      : engine_(model, options), sequence_(engine_.open({.seed = seed})) {}

  // Calls on_row(number in the block, logits); its time is not counted. False: should_stop ended it.
  template <typename OnRow>
  bool read(std::span<const Token> tokens, const std::function<bool()>& should_stop, const OnRow& on_row) {
    double row_seconds = 0;
    const auto start = Clock::now();
    const Feed feed{.sequence = sequence_, .tokens = tokens, .logits = WantLogits::all};
    const Advance result =
        engine_.advance({&feed, 1}, {.on_logits =
                                         [&](size_t, size_t token, std::span<const float> logits) {
                                           const auto row_start = Clock::now();
                                           on_row(token, logits);
                                           row_seconds += seconds_since(row_start);
                                         },
                                     .should_stop = should_stop});
    seconds_ += seconds_since(start) - row_seconds;
    if (result == Advance::context_full)
      throw Error(ErrorCode::internal, "fidelity: a cache was full, allowed: room for the text");
    return result == Advance::done;
  }

  const Engine& engine() const { return engine_; }
  CacheState state() const { return engine_.state(sequence_); }
  double seconds() const { return seconds_; }

 private:
  Engine engine_;
  SequenceId sequence_;
  double seconds_ = 0;
};

// One item's engine and what was seen of it.
struct Contestant {
  Contestant(const Model& model, const EngineOptions& options, const FidelityItem& of)
      : item(&of), reader(model, with_cache(options, of.cache), of.seed.value_or(0)) {}
  const FidelityItem* item;
  Reader reader;
  Trace trace;
};

Json row_of(const FidelityText& text, const Contestant& contestant, const Reader& full) {
  const FidelityItem& item = *contestant.item;
  const Trace& trace = contestant.trace;
  const size_t n_tokens = trace.kl.size();
  const MemoryPlan& plan = contestant.reader.engine().plan();
  const CacheState state = contestant.reader.state();
  const double n = static_cast<double>(n_tokens);
  const double milliseconds = 1000 * contestant.reader.seconds();
  Json row = {{"policy", item.policy},
              {"budget", plan.shape.budget},
              {"budget_option", item.budget},
              {"text", text.name},
              {"seed", item.seed ? Json(*item.seed) : Json()},
              {"interval", plan.shape.interval},
              {"window", plan.shape.window},
              {"n_sink", plan.shape.n_sink},
              {"kv_bytes", plan.kv_bytes},
              {"kv_bytes_full", full.engine().plan().kv_bytes},
              {"side_bytes", plan.side_bytes},
              {"map_bytes", plan.map_bytes},
              {"n_tokens", n_tokens}};
  row.update(quality(trace, 0, n_tokens));
  row["last_quarter"] = quality(trace, n_tokens - n_tokens / 4, n_tokens);
  row.update({{"n_evictions", state.n_evictions},
              {"ms_per_token", milliseconds / n},
              {"ms_per_token_full", 1000 * full.seconds() / n},
              {"evict_ms", state.evict_ms},
              {"evict_share", state.evict_ms / milliseconds},
              {"n_threads", contestant.reader.engine().options().n_threads}});
  row["blocks"] = {
      {"nll", block_means(trace.nll)}, {"kl", block_means(trace.kl)}, {"top1", block_means(trace.top1)}};
  return row;
}

// All engines on one text.
class Pass {
 public:
  Pass(const Model& model, const EngineOptions& options, const FidelityText& text,
       const std::vector<FidelityItem>& items)
      : text_(&text),
        full_(model, with_cache(options, full_cache(options.cache, text.tokens.size() - 1)), 0),
        reference_(model.info().n_vocab) {
    for (const FidelityItem& item : items)
      contestants_.push_back(std::make_unique<Contestant>(model, options, item));
  }

  // Everybody reads the next n tokens. False: should_stop ended it.
  bool read(size_t n, const std::function<bool()>& should_stop) {
    const std::span<const Token> tokens(text_->tokens);
    const std::span<const Token> block = tokens.subspan(n_read_, n), next = tokens.subspan(n_read_ + 1, n);
    std::vector<double> nll_full;
    reference_.clear();
    bool going = full_.read(block, should_stop, [&](size_t row, std::span<const float> logits) {
      nll_full.push_back(reference_.add(logits, next[row]));
    });
    for (size_t number = 0; going && number < contestants_.size(); ++number) {
      Trace& trace = contestants_[number]->trace;
      trace.nll_full.insert(trace.nll_full.end(), nll_full.begin(), nll_full.end());
      going = contestants_[number]->reader.read(
          block, should_stop, [&](size_t row, std::span<const float> logits) {
            const Comparison comparison = reference_.compare(row, logits, next[row]);
            trace.kl.push_back(comparison.kl);
            trace.nll.push_back(comparison.nll);
            trace.top1.push_back(comparison.same_top ? 1 : 0);
          });
    }
    n_read_ += n;
    return going;
  }

  std::vector<Json> rows() const {
    std::vector<Json> rows;
    for (const auto& contestant : contestants_) rows.push_back(row_of(*text_, *contestant, full_));
    return rows;
  }

 private:
  const FidelityText* text_;
  Reader full_;
  ReferenceRows reference_;
  std::vector<std::unique_ptr<Contestant>> contestants_;
  size_t n_read_ = 0;
};

}  // namespace

FidelityText make_fidelity_text(const Model& model, const std::string& name, const std::string& text,
                                uint32_t n_tokens) {
  FidelityText result{.name = name, .tokens = model.tokenize(text, true, false)};
  if (result.tokens.size() < size_t{n_tokens} + 1) {
    refuse("{}: found {} tokens, allowed: at least {}, one more than -c; or a smaller -c", name,
           result.tokens.size(), n_tokens + 1);
  }
  result.tokens.resize(size_t{n_tokens} + 1);
  return result;
}

std::vector<FidelityItem> fidelity_items(const FidelityPlan& plan, const ModelInfo& info,
                                         const std::vector<std::string>& text_names) {
  if (plan.n_tokens < kBlocks || plan.n_tokens > kMostTokens)
    refuse("-c {}, allowed: {}..{} tokens", plan.n_tokens, kBlocks, kMostTokens);
  const MemoryPlan full = plan_memory(info, full_cache(plan.engine.cache, plan.n_tokens));
  std::vector<FidelityItem> items;
  for (const std::string& policy : plan.policies) {
    const ParsedPolicy parsed = parse_policy(policy);
    check_policy(parsed);
    for (const std::string& budget : plan.budgets) {
      CacheOptions cache = plan.engine.cache;
      cache.policy = policy;
      cache.budget = budget_bytes(plan, full, budget);
      plan_memory(info, cache);
      const auto seeds = parsed.info.deterministic ? std::vector<uint64_t>{0} : plan.seeds;
      for (const uint64_t seed : seeds) {
        for (size_t text = 0; text < text_names.size(); ++text) {
          FidelityItem item{.key = fmt::format("{} {} {}", text_names[text], budget, policy),
                            .text = text,
                            .policy = policy,
                            .budget = budget,
                            .seed = std::nullopt,
                            .cache = cache};
          if (!parsed.info.deterministic) {
            item.seed = seed;
            item.key += fmt::format(" seed {}", seed);
          }
          items.push_back(std::move(item));
        }
      }
    }
  }
  std::vector<std::string> keys;
  for (const FidelityItem& item : items) keys.push_back(item.key);
  check_keys(keys);
  return items;
}

Json fidelity_definition(const FidelityPlan& plan, const ModelInfo& info,
                         const std::vector<FidelityText>& texts) {
  Json text_list = Json::array();
  for (const FidelityText& text : texts) {
    const std::string_view bytes(reinterpret_cast<const char*>(text.tokens.data()),
                                 text.tokens.size() * sizeof(Token));
    text_list.push_back({{"name", text.name}, {"fingerprint", fingerprint(bytes)}});
  }
  const CacheOptions& cache = plan.engine.cache;
  const auto json_of = [](const std::optional<uint32_t>& number) { return number ? Json(*number) : Json(); };
  return {{"kind", "fidelity"},
          {"model", model_definition(info)},
          {"texts", std::move(text_list)},
          {"n_tokens", plan.n_tokens},
          {"interval", json_of(cache.interval)},
          {"window", json_of(cache.window)},
          {"n_sink", json_of(cache.n_sink)},
          {"type_k", row_type_name(cache.type_k)},
          {"type_v", row_type_name(cache.type_v)}};
}

std::vector<Json> measure_fidelity(const Model& model, const EngineOptions& options, const FidelityText& text,
                                   const std::vector<FidelityItem>& items, const FidelityHooks& hooks) {
  const size_t n_tokens = text.tokens.size() - 1;
  Pass pass(model, options, text, items);
  for (size_t n_read = 0; n_read < n_tokens;) {
    const size_t n = std::min(kBlockTokens, n_tokens - n_read);
    if (!pass.read(n, hooks.should_stop)) return {};
    n_read += n;
    if (hooks.on_progress) hooks.on_progress(n_read, n_tokens);
  }
  return pass.rows();
}

}  // namespace kvase::eval
