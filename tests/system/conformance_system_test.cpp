// SPDX-License-Identifier: MIT
// Every method of the table in the real engine on toy models: nothing is lost while the text fits, every
// invariant holds when it does not, and state belongs to its sequence. Faults of other engines are tests
// named after what they guard.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "policy/shape.h"
#include "system/invariants.h"
#include "system/policies.h"
#include "system/toy.h"

namespace kvase {
namespace {

uint32_t n_vocab() { return toy_model().info().n_vocab; }

class EveryPolicy : public testing::TestWithParam<std::string> {};

bool keeps_sinks(const std::string& policy) {
  return policy != "vase-attnv:reserve=none" && policy != "vase-attnv:n_large=0";
}

TEST_P(EveryPolicy, BudgetOfTheWholeTextGivesTheFullCachesText) {
  const std::vector<Token> prompt = random_tokens(50, n_vocab(), 1);
  Engine full(toy_model(), full_cache(256));
  Engine engine(toy_model(), options_for(GetParam(), {256, 64}));
  const std::vector<Token> expected = greedy(full, prompt, 60, {});
  EXPECT_EQ(greedy(engine, prompt, 60, {.seed = 3}), expected);
}

// Interval that does not divide the budget, prompt of three budgets, many events in a row.
TEST_P(EveryPolicy, InvariantsHoldThroughManyEvents) {
  for (const Prefill prefill : {Prefill::bounded, Prefill::whole}) {
    EngineOptions options = options_for(GetParam(), {50, 16});
    options.cache.prefill = prefill;
    options.cache.n_ctx = 150;
    if (!keeps_sinks(GetParam())) options.cache.n_sink = 0;
    Engine engine(toy_model(), options);
    const size_t kv_bytes = engine.plan().kv_bytes;
    const std::vector<Token> text = random_tokens(400, n_vocab(), 2);
    const SequenceId sequence = engine.open({.seed = 9, .sample = 1, .n_prompt = 150});
    feed(engine, sequence, std::span(text).first(150));
    expect_invariants(engine, sequence, 150, "after the prompt");
    for (size_t index = 150; index < text.size(); ++index) {
      feed(engine, sequence, std::span(text).subspan(index, 1));
      expect_invariants(engine, sequence, static_cast<int64_t>(index) + 1, "token " + std::to_string(index));
      if (HasFailure()) return;
    }
    EXPECT_GE(engine.state(sequence).n_evictions, 15U);
    EXPECT_EQ(engine.plan().kv_bytes, kv_bytes);
  }
}

TEST_P(EveryPolicy, SmallestBudgetWorksAndOneLessIsRefused) {
  const ParsedPolicy parsed = parse_policy(GetParam());
  if (parsed.pyramid) return;  // its smallest layer decides: see Pyramid below
  const uint32_t interval = 8;
  uint32_t smallest = 1;
  const auto fits = [&](uint32_t budget) {
    try {
      check_shape(
          parsed,
          {.budget = budget, .interval = interval, .window = interval, .n_sink = parsed.info.default_sinks});
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return false;
    }
  };
  while (!fits(smallest)) ++smallest;
  Engine engine(toy_model(), options_for(GetParam(), {smallest, interval}));
  const std::vector<Token> tokens = greedy(engine, random_tokens(100, n_vocab(), 4), 40, {});
  EXPECT_EQ(tokens.size(), 40U);
  EXPECT_THROW(Engine(toy_model(), options_for(GetParam(), {smallest - 1, interval})), Error);
}

// R-KV#25: the count of dropped tokens survived from one request into the next.
TEST_P(EveryPolicy, StateOfARequestEndsWithIt) {
  const std::vector<Token> prompt = random_tokens(70, n_vocab(), 7);
  Engine engine(toy_model(), options_for(GetParam(), {40, 16}));
  const std::vector<Token> first = greedy(engine, prompt, 30, {.seed = 5});
  greedy(engine, random_tokens(133, n_vocab(), 8), 21, {.seed = 6});
  EXPECT_EQ(greedy(engine, prompt, 30, {.seed = 5}), first);
}

// R-KV#4: a batch of two prompts of unequal length, budget below both, equals the two runs done alone.
TEST_P(EveryPolicy, TwoSequencesTogetherKeepWhatTheyKeepAlone) {
  const std::vector<std::vector<Token>> texts = {random_tokens(150, n_vocab(), 9),
                                                 random_tokens(97, n_vocab(), 10)};
  Engine together(toy_model(), options_for(GetParam(), {40, 16}, 2));
  const SequenceId a = together.open({.seed = 1, .sample = 0});
  const SequenceId b = together.open({.seed = 1, .sample = 1});
  const std::vector<Feed> feeds = {{.sequence = a, .tokens = texts[0], .logits = WantLogits::last},
                                   {.sequence = b, .tokens = texts[1], .logits = WantLogits::last}};
  ASSERT_EQ(together.advance(feeds, {}), Advance::done);
  for (uint32_t index = 0; index < 2; ++index) {
    Engine alone(toy_model(), options_for(GetParam(), {40, 16}));
    const SequenceId sequence = alone.open({.seed = 1, .sample = index});
    feed(alone, sequence, texts[index]);
    for (uint32_t layer = 0; layer < 2; ++layer) {
      for (uint32_t kv_head = 0; kv_head < 2; ++kv_head) {
        EXPECT_EQ(together.kept_positions(index == 0 ? a : b, layer, kv_head),
                  alone.kept_positions(sequence, layer, kv_head))
            << "sequence " << index << " layer " << layer << " head " << kv_head;
      }
    }
  }
}

// Share of positions that two sequences both keep, over all layers and heads.
double kept_in_common(const Engine& a, SequenceId sequence_a, const Engine& b, SequenceId sequence_b) {
  size_t n_kept = 0;
  size_t n_common = 0;
  for (uint32_t layer = 0; layer < a.model().info().n_layers; ++layer) {
    for (uint32_t kv_head = 0; kv_head < a.model().info().n_kv_heads; ++kv_head) {
      const std::vector<int32_t> kept_a = a.kept_positions(sequence_a, layer, kv_head);
      const std::vector<int32_t> kept_b = b.kept_positions(sequence_b, layer, kv_head);
      std::vector<int32_t> common;
      std::ranges::set_intersection(kept_a, kept_b, std::back_inserter(common));
      n_kept += kept_a.size();
      n_common += common.size();
    }
  }
  return static_cast<double>(n_common) / static_cast<double>(n_kept);
}

// One prompt step or many: the same choices, since a step never crosses an event. Not to the last bit:
// kernels sum in another order for one query than for many, which may turn a near tie.
TEST_P(EveryPolicy, SmallerPromptStepsChooseTheSame) {
  const std::vector<Token> prompt = random_tokens(130, n_vocab(), 11);
  EngineOptions options = options_for(GetParam(), {40, 16});
  for (const Prefill prefill : {Prefill::bounded, Prefill::whole}) {
    options.cache.prefill = prefill;
    options.cache.n_ctx = 130;
    options.n_ubatch = 512;
    Engine one_step(exact_model(), options);
    const SequenceId expected = one_step.open({.seed = 5, .sample = 0, .n_prompt = 130});
    feed(one_step, expected, prompt);
    for (const uint32_t n_ubatch : {7U, 1U}) {
      options.n_ubatch = n_ubatch;
      Engine small_steps(exact_model(), options);
      const SequenceId sequence = small_steps.open({.seed = 5, .sample = 0, .n_prompt = 130});
      feed(small_steps, sequence, prompt);
      EXPECT_GE(kept_in_common(one_step, expected, small_steps, sequence), 0.97) << "-ub " << n_ubatch;
    }
  }
}

TEST_P(EveryPolicy, HeadGroupsAndHeadSizesAtTheEdge) {
  struct Heads {
    uint32_t n_heads, n_kv_heads, head_dim;
  };
  // VaSE's code refuses group 1; TheTom/llama-cpp-turboquant#78: 14 query heads on 2, head size 64;
  // quant.cpp#61: 9 on 3.
  for (const Heads heads : {Heads{4, 4, 32}, Heads{14, 2, 64}, Heads{9, 3, 64}, Heads{8, 1, 80}}) {
    const ToyFile file({.n_layers = 1,
                        .n_heads = heads.n_heads,
                        .n_kv_heads = heads.n_kv_heads,
                        .head_dim = heads.head_dim});
    Engine engine(file.load(), options_for(GetParam(), {30, 8}));
    const SequenceId sequence = engine.open({});
    feed(engine, sequence, random_tokens(101, engine.model().info().n_vocab, 12));
    for (uint32_t kv_head = 0; kv_head < heads.n_kv_heads; ++kv_head) {
      EXPECT_EQ(engine.kept_positions(sequence, 0, kv_head).size(), engine.state(sequence).n_kept);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryPolicy, testing::ValuesIn(evicting_policies()), test_name);

// eviction.md 8.4: a prompt p < budget C and T generated tokens give floor((p + T - C) / interval) events,
// and never more than max(p, C) + interval slots.
TEST(Events, ComeWhenTheyShould) {
  struct Text {
    uint32_t n_prompt, n_generated;
  };
  for (const Prefill prefill : {Prefill::bounded, Prefill::whole}) {
    for (const Text text : {Text{1, 39}, Text{10, 40}, Text{39, 100}, Text{40, 100}, Text{41, 60},
                            Text{57, 60}, Text{120, 50}}) {
      EngineOptions options = options_for("snapkv", {40, 16});
      options.cache.prefill = prefill;
      options.cache.n_ctx = 120;
      Engine engine(toy_model(), options);
      const std::vector<Token> tokens = random_tokens(text.n_prompt + text.n_generated, n_vocab(), 13);
      const SequenceId sequence = engine.open({.seed = 0, .sample = 0, .n_prompt = text.n_prompt});
      feed(engine, sequence, std::span(tokens).first(text.n_prompt));
      for (uint32_t index = 0; index < text.n_generated; ++index) {
        feed(engine, sequence, std::span(tokens).subspan(text.n_prompt + index, 1));
        const uint32_t held = prefill == Prefill::whole ? std::max(text.n_prompt, 40U) : 40U;
        EXPECT_LE(engine.state(sequence).n_kept, held + 16);
      }
      const uint32_t beyond =
          text.n_prompt + text.n_generated - std::min(text.n_prompt + text.n_generated, 40U);
      const uint32_t skipped =
          prefill == Prefill::whole && text.n_prompt > 40 ? (text.n_prompt - 40) / 16 : 0;
      EXPECT_EQ(engine.state(sequence).n_evictions, beyond / 16 - skipped)
          << text.n_prompt << " + " << text.n_generated;
    }
  }
}

// VeloxQuant-MLX#389: feed 300 tokens at budget 128, one by one; the position is 300.
TEST(Positions, CountTokensSeenNotRowsKept) {
  Engine engine(toy_model(), options_for("streaming-llm", {128, 16}));
  const SequenceId sequence = engine.open({});
  for (const Token token : random_tokens(300, n_vocab(), 14)) feed(engine, sequence, {&token, 1});
  EXPECT_EQ(engine.state(sequence).n_seen, 300);
  EXPECT_EQ(engine.kept_positions(sequence, 0, 0).back(), 299);
}

// keys_values#140: with one layer, attention over a kept suffix equals attention over that suffix alone,
// since only relative position matters. Prompts slightly longer than the cache and much longer; steps that do
// not divide the cache.
TEST(Positions, KeptSuffixAnswersLikeThatSuffixAlone) {
  const ToyFile file({.n_layers = 1, .n_heads = 6, .n_kv_heads = 2, .head_dim = 32});
  const Model model = file.load();
  for (const uint32_t n_text : {57U, 60U, 111U, 300U}) {
    for (const uint32_t n_ubatch : {512U, 5U}) {
      EngineOptions options = options_for("window", {40, 16});
      options.n_ubatch = n_ubatch;
      options.cache.type_k = options.cache.type_v = RowType::f32;
      Engine engine(model, options);
      const std::vector<Token> text = random_tokens(n_text, model.info().n_vocab, 15);
      const SequenceId sequence = engine.open({});
      // The last token is fed alone, so that what the step attended to is what is kept now plus nothing
      // evicted after it.
      feed(engine, sequence, std::span(text).first(n_text - 1));
      const std::vector<float> logits = feed(engine, sequence, std::span(text).last(1));
      const std::vector<int32_t> kept = engine.kept_positions(sequence, 0, 0);
      if (kept.size() == 40) continue;  // an event came with the last token: it attended to more than is left
      EngineOptions suffix_options = full_cache(256);
      suffix_options.cache.type_k = suffix_options.cache.type_v = RowType::f32;
      Engine suffix(model, suffix_options);
      const std::vector<float> expected = feed(suffix, suffix.open({}), std::span(text).last(kept.size()));
      for (size_t token = 0; token < logits.size(); ++token) {
        ASSERT_NEAR(logits[token], expected[token], 2e-3) << n_text << " tokens, token " << token;
      }
    }
  }
}

// kvpress#186: hidden states behind an event must come from the reduced cache, not from the full one.
TEST(Prefill, LaterStepsSeeTheReducedCache) {
  const std::vector<Token> text = random_tokens(100, n_vocab(), 16);
  Engine full(toy_model(), full_cache(256));
  EngineOptions options = options_for("window", {40, 16});
  Engine bounded(toy_model(), options);
  options.cache.prefill = Prefill::whole;
  options.cache.n_ctx = 100;
  Engine whole(toy_model(), options);
  const std::vector<float> exact = feed(full, full.open({}), text);
  EXPECT_EQ(feed(whole, whole.open({.seed = 0, .sample = 0, .n_prompt = 100}), text), exact)
      << "a whole prompt is exact";
  EXPECT_NE(feed(bounded, bounded.open({}), text), exact);
}

// The same bytes in all, really smaller where the budget is, and refused where the smallest layer would not
// do.
TEST(Pyramid, LayersHoldTheirOwnBudgets) {
  Engine plain(toy_model(), options_for("snapkv", {50, 16}));
  Engine engine(toy_model(), options_for("snapkv+pyramid:beta=2", {50, 16}));
  EXPECT_EQ(engine.plan().kv_bytes, plain.plan().kv_bytes);
  const SequenceId sequence = engine.open({});
  const std::vector<Token> text = random_tokens(400, n_vocab(), 26);
  for (const Token token : text) {
    feed(engine, sequence, {&token, 1});
    const size_t lower = engine.kept_positions(sequence, 0, 0).size();
    const size_t upper = engine.kept_positions(sequence, 1, 0).size();
    EXPECT_LE(lower, 67U + 16U);  // 16 + 3/4 of 2 * 34
    EXPECT_LE(upper, 33U + 16U);  // 16 + 1/2 of 34
  }
  EXPECT_GT(engine.kept_positions(sequence, 0, 0).size(), engine.kept_positions(sequence, 1, 0).size());
  EXPECT_THROW(Engine(toy_model(), options_for("vase-attnv+pyramid:beta=20", {50, 16})), Error);
}

// KVCache-Factory#49: rows are stored per KV head, never repeated for query heads.
TEST(Memory, RowsPerKvHead) {
  Engine engine(toy_model(), options_for("snapkv", {40, 16}));
  const ModelInfo& model = toy_model().info();
  EXPECT_EQ(engine.plan().kv_bytes,
            size_t{model.n_layers} * model.n_kv_heads * (40 + 16) * model.head_dim * 2 * 2);
}

TEST(Memory, PlanAndEngineAgreeAndBudgetInBytesFits) {
  for (const std::string& policy : evicting_policies()) {
    EngineOptions options = options_for(policy, {40, 16}, 3);
    options.cache.budget = Budget{.unit = Budget::Unit::bytes, .amount = uint64_t{1} << 20};
    const MemoryPlan plan = plan_memory(toy_model().info(), options.cache, 3);
    const Engine engine(toy_model(), options);
    EXPECT_EQ(engine.plan().kv_bytes, plan.kv_bytes) << policy;
    EXPECT_EQ(engine.plan().side_bytes, plan.side_bytes) << policy;
    EXPECT_LE(plan.kv_bytes, size_t{1} << 20);
    EXPECT_GT(plan.kv_bytes + 3 * plan.bytes_per_token, size_t{1} << 20) << "the largest budget that fits";
  }
}

TEST(Determinism, AnotherSeedOrSampleDrawsOtherTokens) {
  const std::vector<Token> prompt = random_tokens(120, n_vocab(), 17);
  Engine engine(toy_model(), options_for("vase-attnv", {40, 16}));
  const auto kept = [&](const SequenceOptions& options) {
    const SequenceId sequence = engine.open(options);
    feed(engine, sequence, prompt);
    const std::vector<int32_t> positions = engine.kept_positions(sequence, 1, 0);
    engine.close(sequence);
    return positions;
  };
  EXPECT_EQ(kept({.seed = 1}), kept({.seed = 1}));
  EXPECT_NE(kept({.seed = 1}), kept({.seed = 2}));
  EXPECT_NE(kept({.seed = 1, .sample = 0}), kept({.seed = 1, .sample = 1}));
}

// Teacher-forced text in blocks gives the numbers of token by token, through many events.
TEST(Advance, AllLogitsInBlocksEqualTokenByToken) {
  const std::vector<Token> text = random_tokens(130, n_vocab(), 18);
  EngineOptions options = options_for("streaming-llm", {40, 16});
  options.cache.type_k = options.cache.type_v = RowType::f32;
  Engine engine(exact_model(), options);
  const SequenceId blocks = engine.open({.seed = 1});
  std::vector<std::vector<float>> rows;
  const Feed all{.sequence = blocks, .tokens = text, .logits = WantLogits::all};
  engine.advance({&all, 1}, {.on_logits = [&](size_t, size_t token_index, std::span<const float> logits) {
                   EXPECT_EQ(token_index, rows.size());
                   rows.emplace_back(logits.begin(), logits.end());
                 }});
  ASSERT_EQ(rows.size(), text.size());
  engine.close(blocks);
  const SequenceId single = engine.open({.seed = 1});
  for (size_t index = 0; index < text.size(); ++index) {
    const std::vector<float> logits = feed(engine, single, std::span(text).subspan(index, 1));
    for (size_t token = 0; token < logits.size(); ++token)
      ASSERT_NEAR(rows[index][token], logits[token], 1e-3) << "token " << index;
  }
}

TEST(Advance, CancelsBetweenStepsAndKeepsWhatIsDone) {
  EngineOptions options = options_for("vase-attnv", {40, 16});
  Engine engine(toy_model(), options);
  const SequenceId sequence = engine.open({});
  const std::vector<Token> text = random_tokens(200, n_vocab(), 19);
  size_t done = 0;
  const Feed one{.sequence = sequence, .tokens = text, .logits = WantLogits::last};
  const Advance status = engine.advance({&one, 1}, {.on_logits = {},
                                                    .should_stop = [&] { return done >= 88; },
                                                    .on_progress = [&](size_t n, size_t) { done = n; }});
  EXPECT_EQ(status, Advance::cancelled);
  EXPECT_EQ(engine.state(sequence).n_seen, static_cast<int64_t>(done));
  EXPECT_LT(done, text.size());
  feed(engine, sequence, std::span(text).subspan(done));
  EXPECT_EQ(engine.state(sequence).n_seen, 200);
}

TEST(Advance, FullCacheSaysWhenItIsFullAndLosesNothing) {
  Engine engine(toy_model(), full_cache(20));
  const SequenceId sequence = engine.open({});
  feed(engine, sequence, random_tokens(20, n_vocab(), 20));
  const Token token = 1;
  const Feed one{.sequence = sequence, .tokens = {&token, 1}, .logits = WantLogits::last};
  EXPECT_EQ(engine.advance({&one, 1}, {}), Advance::context_full);
  EXPECT_EQ(engine.state(sequence).n_seen, 20);
}

TEST(Advance, RefusesWhatItCannotFeed) {
  Engine engine(toy_model(), options_for("vase-attnv", {40, 16}, 2));
  const SequenceId sequence = engine.open({});
  const std::vector<Token> bad = {0, static_cast<Token>(n_vocab())};
  const std::vector<Token> good = {0, 1};
  const auto refused = [&](std::vector<Feed> feeds, const char* reason) {
    try {
      engine.advance(feeds, {});
      ADD_FAILURE() << reason;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  };
  refused({{.sequence = sequence, .tokens = bad, .logits = WantLogits::last}}, "token 512");
  refused({{.sequence = sequence, .tokens = {}, .logits = WantLogits::last}}, "no tokens");
  refused({{.sequence = 1, .tokens = good, .logits = WantLogits::last}}, "sequence 1");
  refused({{.sequence = sequence, .tokens = good, .logits = WantLogits::last},
           {.sequence = sequence, .tokens = good, .logits = WantLogits::last}},
          "two feeds");
  engine.open({});
  EXPECT_THROW(engine.open({}), Error) << "no place is free";
}

// llama.cpp#25026, #3969: the token limit holds for every policy, however long the text; without one, the
// trained context does.
TEST(Generate, TheLimitHolds) {
  for (const std::string& policy : evicting_policies()) {
    Engine engine(toy_model(), options_for(policy, {40, 16}));
    GenerateRequest request{
        .prompt = random_tokens(70, n_vocab(), 21), .sampling = {.temperature = 0}, .n_predict = 90};
    const GenerateResult result = generate(engine, request);
    EXPECT_LE(result.tokens.size(), 90U);
    if (result.finish_reason == FinishReason::length) {
      EXPECT_EQ(result.tokens.size(), 90U);
    }
  }
  const ToyFile file({.n_ctx_train = 128, .vocab = ToyVocab::byte_pair_no_special});
  Engine engine(file.load(), options_for("vase-attnv", {40, 16}));
  const GenerateResult result = generate(
      engine, {.prompt = random_tokens(28, 512, 22), .sampling = {.temperature = 0}, .n_predict = -1});
  EXPECT_EQ(result.tokens.size(), 100U)
      << "llama.cpp#18321: no start or end token, so only the trained context ends it";
  EXPECT_EQ(result.finish_reason, FinishReason::length);
}

// llama.cpp#8593: the seed that was printed gives the same run when typed in.
TEST(Generate, SameSeedSameText) {
  Engine engine(toy_model(), options_for("vase-attnv", {40, 16}));
  GenerateRequest request{.prompt = random_tokens(70, n_vocab(), 23),
                          .sampling = {.temperature = 1.5F, .seed = 77},
                          .n_predict = 60};
  const GenerateResult first = generate(engine, request);
  const GenerateResult again = generate(engine, request);
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.text, first.text);
  EXPECT_EQ(first.seed, 77U);
  request.sampling.seed = 78;
  EXPECT_NE(generate(engine, request).tokens, first.tokens);
}

TEST(Generate, StreamsTheSameTextInWholeCharacters) {
  Engine engine(toy_model(), options_for("vase-attnv", {40, 16}));
  std::string streamed;
  const GenerateResult result = generate(engine,
                                         {.prompt = random_tokens(9, n_vocab(), 24),
                                          .sampling = {.temperature = 3, .seed = 1},
                                          .n_predict = 200},
                                         {.on_text =
                                              [&](std::string_view text) {
                                                EXPECT_FALSE(find_invalid_utf8(text).has_value());
                                                streamed += text;
                                              },
                                          .should_stop = {},
                                          .on_prefill = {}});
  EXPECT_EQ(streamed, result.text);
}

TEST(Generate, CancelledAnswersSaySo) {
  Engine engine(toy_model(), options_for("vase-attnv", {40, 16}));
  int asked = 0;
  const GenerateResult result = generate(
      engine, {.prompt = random_tokens(9, n_vocab(), 25), .sampling = {.temperature = 0}, .n_predict = 50},
      {.on_text = {}, .should_stop = [&] { return ++asked > 10; }, .on_prefill = {}});
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(result.tokens.size(), 10U);
  EXPECT_NO_THROW(engine.open({})) << "its place is free again";
}

}  // namespace
}  // namespace kvase
