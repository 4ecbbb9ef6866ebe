// SPDX-License-Identifier: MIT
// Many answers at once: each is what it would be alone, whatever joins, leaves or waits beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "system/toy.h"

namespace kvase {
namespace {

// Q8_0 is a type whose rows ignore the batch, so answers must be equal token for token.
const Model& toy_model() {
  static const ToyFile file(
      {.n_layers = 2, .n_heads = 6, .n_kv_heads = 2, .head_dim = 32, .weight_type = GGML_TYPE_Q8_0});
  static const Model model = file.load();
  return model;
}

EngineOptions options_for(uint32_t n_sequences, const std::string& policy = "vase-attnv") {
  EngineOptions options;
  options.cache.policy = policy;
  options.cache.budget = Budget{.unit = Budget::Unit::tokens, .amount = 40};
  options.cache.interval = 16;
  options.n_threads = 1;
  options.n_ubatch = 24;
  options.n_sequences = n_sequences;
  return options;
}

// Requests of different prompt lengths, seeds and samplers.
GenerateRequest request_number(uint32_t number) {
  return {.prompt = random_tokens(5 + 37 * number % 160, toy_model().info().n_vocab, 100 + number),
          .sampling = {.temperature = 0.4F * static_cast<float>(number % 4),
                       .top_k = number % 2 == 0 ? 40 : 0,
                       .seed = number,
                       .sample = number % 3},
          .n_predict = 30 + 11 * number % 50,
          .stop = {},
          .reasoning = std::nullopt};
}

GenerateResult alone(uint32_t number) {
  Engine engine(toy_model(), options_for(1));
  return generate(engine, request_number(number));
}

void expect_same(const GenerateResult& found, const GenerateResult& expected, uint32_t number) {
  EXPECT_EQ(found.tokens, expected.tokens) << "request " << number;
  EXPECT_EQ(found.text, expected.text) << "request " << number;
  EXPECT_EQ(found.finish_reason, expected.finish_reason) << "request " << number;
  EXPECT_EQ(found.cache.n_evictions, expected.cache.n_evictions) << "request " << number;
}

TEST(Batch, EightSequencesOneCancelledOneJoinsLate) {
  Engine engine(toy_model(), options_for(8));
  Batch batch(engine);
  std::map<uint32_t, GenerateResult> results;
  std::map<uint32_t, Batch::RequestId> ids;
  const auto submit = [&](uint32_t number) {
    ids[number] = batch.submit(request_number(number), {}, [&results, number](const GenerateResult& result) {
      results[number] = result;
    });
  };
  for (uint32_t number = 0; number < 8; ++number) submit(number);
  uint32_t n_steps = 0;
  while (batch.step()) {
    ++n_steps;
    if (n_steps == 12) batch.cancel(ids[3]);
    if (n_steps == 13) {
      EXPECT_LT(batch.n_running(), 8U) << "the cancelled one's place is free";
      submit(8);
    }
  }
  ASSERT_EQ(results.size(), 9U);
  EXPECT_EQ(results[3].finish_reason, FinishReason::cancelled);
  for (uint32_t number = 0; number < 9; ++number) {
    if (number != 3) expect_same(results[number], alone(number), number);
  }
}

// docs/decisions/0003: for every weight type on the list, an answer is the same alone and beside seven
// others.
TEST(Batch, ListedWeightTypesGiveTheSameTextBesideSevenOthers) {
  size_t n_tested = 0;
  for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0,
                               GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4, GGML_TYPE_TQ1_0, GGML_TYPE_TQ2_0}) {
    const ToyFile file(
        {.n_embd = 256, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ff = 256, .weight_type = type});
    const Model model = file.load();
    const std::vector<WeightKind> kinds = model.weight_kinds();
    if (!std::ranges::all_of(kinds, &WeightKind::ignores_batch)) continue;
    ++n_tested;
    EngineOptions options = options_for(8);
    Engine together(model, options);
    Batch batch(together);
    std::map<uint32_t, GenerateResult> results;
    for (uint32_t number = 0; number < 8; ++number) {
      batch.submit(request_number(number), {},
                   [&results, number](const GenerateResult& result) { results[number] = result; });
    }
    while (batch.step()) {
    }
    for (uint32_t number = 0; number < 8; ++number) {
      Engine alone_engine(model, options_for(1));
      expect_same(results[number], generate(alone_engine, request_number(number)), number);
    }
    if (HasFailure()) {
      ADD_FAILURE() << ggml_type_name(type);
      return;
    }
  }
  EXPECT_GE(n_tested, 5U) << "the list must not be empty";
}

TEST(Batch, MoreRequestsThanPlacesWaitTheirTurn) {
  Engine engine(toy_model(), options_for(3));
  Batch batch(engine);
  std::map<uint32_t, GenerateResult> results;
  for (uint32_t number = 0; number < 10; ++number) {
    batch.submit(request_number(number), {},
                 [&results, number](const GenerateResult& result) { results[number] = result; });
  }
  EXPECT_EQ(batch.n_waiting(), 10U);
  while (batch.step()) EXPECT_LE(batch.n_running(), 3U);
  ASSERT_EQ(results.size(), 10U);
  for (uint32_t number = 0; number < 10; ++number) expect_same(results[number], alone(number), number);
}

// ik_llama.cpp#1929: cancelling a waiting request stopped the running one.
TEST(Batch, CancellingAWaitingRequestStopsNoOther) {
  Engine engine(toy_model(), options_for(1));
  Batch batch(engine);
  std::map<uint32_t, GenerateResult> results;
  const auto keep = [&results](uint32_t number) {
    return [&results, number](const GenerateResult& result) { results[number] = result; };
  };
  batch.submit(request_number(1), {}, keep(1));
  const Batch::RequestId second = batch.submit(request_number(2), {}, keep(2));
  for (int index = 0; index < 5; ++index) batch.step();
  batch.cancel(second);
  EXPECT_EQ(results.at(2).finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(results.at(2).tokens.empty());
  while (batch.step()) {
  }
  expect_same(results.at(1), alone(1), 1);
  batch.cancel(second);
  batch.cancel(999);
}

// llama.cpp#23652: one answer that does not fit ended all that ran. Here it is refused before it is queued.
TEST(Batch, ARequestThatDoesNotFitDisturbsNoOther) {
  EngineOptions options = options_for(2, "full");
  options.cache.budget = std::nullopt;
  options.cache.interval = std::nullopt;
  options.cache.n_ctx = 120;
  Engine engine(toy_model(), options);
  Batch batch(engine);
  GenerateResult small;
  batch.submit({.prompt = random_tokens(30, 512, 1), .sampling = {.temperature = 0}, .n_predict = 20}, {},
               [&](const GenerateResult& result) { small = result; });
  batch.step();
  EXPECT_THROW(batch.submit({.prompt = random_tokens(121, 512, 1)}, {}, {}), Error);
  EXPECT_THROW(batch.submit({.prompt = {}}, {}, {}), Error);
  EXPECT_THROW(batch.submit({.prompt = {512}}, {}, {}), Error);
  EXPECT_THROW(batch.submit({.prompt = {1}, .sampling = {.temperature = -1}}, {}, {}), Error);
  EXPECT_THROW(batch.submit({.prompt = {1}, .sampling = {}, .n_predict = -2}, {}, {}), Error);
  while (batch.step()) {
  }
  EXPECT_EQ(small.tokens.size(), 20U);
}

TEST(Batch, HooksMaySubmitAndStop) {
  Engine engine(toy_model(), options_for(1));
  Batch batch(engine);
  int n_done = 0;
  const Batch::OnDone count = [&](const GenerateResult&) { ++n_done; };
  batch.submit(request_number(1), {}, [&](const GenerateResult& result) {
    count(result);
    batch.submit(request_number(2),
                 {.on_text = {}, .on_thinking = {}, .should_stop = [] { return true; }, .on_prefill = {}},
                 count);
  });
  while (batch.step()) {
  }
  EXPECT_EQ(n_done, 2);
}

TEST(StopStrings, EndTheAnswerBeforeThem) {
  Engine engine(toy_model(), options_for(1));
  GenerateRequest request = request_number(4);
  request.sampling.temperature = 0;
  request.n_predict = 60;
  const GenerateResult plain = generate(engine, request);
  ASSERT_GT(plain.text.size(), 12U);
  // Some bytes from the middle: they span tokens wherever the text has short ones.
  size_t first = plain.text.size() / 2;
  while ((static_cast<unsigned char>(plain.text[first]) & 0xC0) == 0x80) ++first;
  request.stop = {plain.text.substr(first, 6), "never in this text"};
  const size_t expected = plain.text.find(request.stop[0]);
  std::string streamed;
  const GenerateResult stopped = generate(engine, request,
                                          {.on_text = [&](std::string_view text) { streamed += text; },
                                           .on_thinking = {},
                                           .should_stop = {},
                                           .on_prefill = {}});
  EXPECT_EQ(stopped.text, plain.text.substr(0, expected));
  EXPECT_EQ(streamed, stopped.text) << "no part of a stop string is ever sent";
  EXPECT_EQ(stopped.finish_reason, FinishReason::stop);
  EXPECT_LT(stopped.tokens.size(), plain.tokens.size());
}

// Nearly uniform draws: the model's ending tokens come up sooner or later.
TEST(EndTokens, EndTheAnswerUnlessIgnored) {
  Engine engine(toy_model(), options_for(1));
  GenerateRequest request = request_number(1);
  request.sampling = {.temperature = 1e6F, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3};
  request.n_predict = 1500;
  const GenerateResult ended = generate(engine, request);
  EXPECT_EQ(ended.finish_reason, FinishReason::stop);
  EXPECT_LT(ended.tokens.size(), 1500U);
  request.ignore_end = true;
  const GenerateResult whole = generate(engine, request);
  EXPECT_EQ(whole.finish_reason, FinishReason::length);
  EXPECT_EQ(whole.tokens.size(), 1500U);
}

TEST(Thinking, BudgetEndsItGracefully) {
  Engine engine(toy_model(), options_for(1));
  GenerateRequest request = request_number(5);
  request.n_predict = 80;
  request.reasoning = ReasoningMarks{};
  request.starts_in_thinking = true;
  request.thinking_budget = 10;
  request.thinking_end = " enough.";
  std::string thinking;
  const GenerateResult result = generate(engine, request,
                                         {.on_text = {},
                                          .on_thinking = [&](std::string_view text) { thinking += text; },
                                          .should_stop = {},
                                          .on_prefill = {}});
  EXPECT_EQ(thinking, result.thinking);
  EXPECT_NE(result.thinking.find("enough."), std::string::npos) << result.thinking;
  EXPECT_EQ(result.thinking.find("</think>"), std::string::npos) << "marks are not shown";
  EXPECT_FALSE(result.text.empty()) << "the answer follows";
  request.thinking_budget = -1;
  EXPECT_EQ(generate(engine, request).text, "") << "a toy never closes its thinking by itself";
}

}  // namespace
}  // namespace kvase
