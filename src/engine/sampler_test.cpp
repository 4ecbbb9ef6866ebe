// SPDX-License-Identifier: MIT
// The draw: exact cases, the distribution against exact probabilities, and that it owns its memory.
#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <new>

namespace {
std::atomic<size_t> g_n_allocations{0};
}  // namespace

// libllama's allocations are counted too: its operator new is this one. Not inlined, or g++ pairs malloc with
// delete and warns.
[[gnu::noinline]] void* operator new(size_t size) {
  ++g_n_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace kvase {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

SamplingOptions plain(float temperature, uint64_t seed = 1) {
  SamplingOptions options;
  options.temperature = temperature;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  options.seed = seed;
  return options;
}

std::vector<float> wavy_logits(size_t n_vocab) {
  std::vector<float> logits(n_vocab);
  for (size_t token = 0; token < n_vocab; ++token)
    logits[token] = 3.0f * std::sin(static_cast<float>(token) * 1.7f);
  return logits;
}

std::vector<Token> draws(const SamplingOptions& options, const std::vector<float>& logits, uint32_t n_draws) {
  Sampler sampler(options, static_cast<uint32_t>(logits.size()));
  std::vector<Token> tokens;
  for (uint32_t pos = 0; pos < n_draws; ++pos) tokens.push_back(sampler.sample(logits, pos));
  return tokens;
}

// ggml-org/llama.cpp#684: temperature 0 divided by zero.
TEST(Sampler, TemperatureZeroTakesTheHighestLogitAndTheLowestIdOnTies) {
  EXPECT_THAT(draws(plain(0), {1, 5, 3, 5, 5}, 3), testing::Each(1));
  EXPECT_THAT(draws(plain(0), {-kInf, -7, -kInf}, 1), testing::Each(1));
}

TEST(Sampler, NanIsNeverChosen) {
  EXPECT_THAT(draws(plain(0), {kNaN, 1, kNaN, 2, kNaN}, 1), testing::Each(3));
  EXPECT_THAT(draws(plain(1), {kNaN, 1, kNaN, 2, kNaN}, 200), testing::Each(testing::AnyOf(1, 3)));
  SamplingOptions all_filters;
  EXPECT_THAT(draws(all_filters, {kNaN, 1, -kInf, 2, kNaN}, 200), testing::Each(testing::AnyOf(1, 3)));
}

TEST(Sampler, NothingToChooseIsAnErrorAndNotACrash) {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float value : {kNaN, -kInf}) {
      try {
        draws(plain(temperature), {value, value}, 1);
        ADD_FAILURE() << "no error for logits of " << value;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::device);
        EXPECT_THAT(error.what(), testing::HasSubstr("NaN"));
      }
    }
  }
}

TEST(Sampler, TopOneIsTheHighestLogitWithTheLowestIdOnTies) {
  SamplingOptions options = plain(2);
  options.top_k = 1;
  EXPECT_THAT(draws(options, {1, 5, 3, 5, 5}, 50), testing::Each(1));
}

// ggml-org/llama.cpp#7381 and #8593: a seed was ignored, and a printed seed did not give the same run.
TEST(Sampler, SameSeedSameTokensOtherSeedOrSampleOtherTokens) {
  const std::vector<float> logits = wavy_logits(500);
  SamplingOptions options = plain(1.5f, 0xFEDCBA9876543210);
  const std::vector<Token> tokens = draws(options, logits, 64);
  EXPECT_EQ(draws(options, logits, 64), tokens);

  SamplingOptions other_high_bits = options;
  other_high_bits.seed ^= uint64_t{1} << 63;
  EXPECT_NE(draws(other_high_bits, logits, 64), tokens);

  SamplingOptions other_sample = options;
  other_sample.sample = 1;
  EXPECT_NE(draws(other_sample, logits, 64), tokens);
}

// A draw depends on its position, not on the draws before it.
TEST(Sampler, HasNoState) {
  const std::vector<float> logits = wavy_logits(500);
  const std::vector<Token> tokens = draws(plain(1.5f), logits, 32);
  Sampler sampler(plain(1.5f), 500);
  for (uint32_t pos = 32; pos-- > 0;)
    EXPECT_EQ(sampler.sample(logits, pos), tokens[pos]) << "position " << pos;
}

// Pearson's chi-square of n draws against exact probabilities.
double chi_square(const std::vector<Token>& tokens, const std::vector<double>& probabilities) {
  std::map<Token, double> counts;
  for (const Token token : tokens) ++counts[token];
  double sum = 0;
  for (size_t token = 0; token < probabilities.size(); ++token) {
    const double expected = probabilities[token] * static_cast<double>(tokens.size());
    const double count = counts[static_cast<Token>(token)];
    if (probabilities[token] == 0) {
      EXPECT_EQ(count, 0) << "token " << token << " was filtered";
    } else {
      sum += (count - expected) * (count - expected) / expected;
    }
  }
  return sum;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature,
                            const std::vector<size_t>& kept) {
  std::vector<double> probabilities(logits.size());
  double total = 0;
  for (const size_t token : kept)
    total += probabilities[token] = std::exp(double{logits[token]} / temperature);
  for (double& probability : probabilities) probability /= total;
  return probabilities;
}

// Bounds: with 5 and 2 degrees of freedom, chi-square exceeds 25 and 19 with probability below 2e-4 and 1e-4.
// The draws are fixed by the seed, so the test cannot flicker.
TEST(Sampler, DrawsFromTheSoftmaxAtItsTemperature) {
  const std::vector<float> logits = {2, 1, 0.5f, 0, -0.5f, -1};
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    const std::vector<double> exact = softmax(logits, double{temperature}, {0, 1, 2, 3, 4, 5});
    EXPECT_LT(chi_square(draws(plain(temperature), logits, 20000), exact), 25)
        << "temperature " << temperature;
  }
}

TEST(Sampler, FiltersLeaveTheRightTokensWithTheRightWeights) {
  const std::vector<float> logits = {-1, 2,     0.5f,
                                     1,  -0.5f, 0};  // p at temperature 1: .03 .52 .12 .19 .04 .07
  const std::vector<size_t> best_three = {1, 3, 2};
  SamplingOptions top_k = plain(1.3f);
  top_k.top_k = 3;
  SamplingOptions top_p = plain(1.3f);
  top_p.top_p = 0.75f;  // .52 + .19 < .75 <= .52 + .19 + .12: filters read probabilities before temperature
  SamplingOptions min_p = plain(1.3f);
  min_p.min_p = 0.2f;  // of .52: above .104
  for (const SamplingOptions& options : {top_k, top_p, min_p}) {
    EXPECT_LT(chi_square(draws(options, logits, 20000), softmax(logits, 1.3, best_three)), 19)
        << "top_k " << options.top_k << " top_p " << options.top_p << " min_p " << options.min_p;
  }
}

TEST(Sampler, ExtremeLogitsAndTemperaturesStayInOrder) {
  EXPECT_THAT(draws(plain(1), {0, 1e30f, -1e30f}, 50), testing::Each(1));
  EXPECT_THAT(draws(plain(1), {0, kInf, 5}, 50), testing::Each(1));
  EXPECT_THAT(draws(plain(1e-38f), {10, 20, -5}, 50), testing::Each(1));
  EXPECT_THAT(draws(plain(1e-38f), {-10, -20, -30}, 50), testing::Each(0));
  EXPECT_THAT(draws(plain(1e38f), {-10, -20, -30}, 200), testing::IsSupersetOf({0, 1, 2}));
  EXPECT_THAT(draws(plain(1e38f), {-10, -kInf, -30}, 200), testing::Not(testing::Contains(1)));
  SamplingOptions wide;  // more than 128 of top_k takes libllama's bucket sort
  wide.top_k = 200;
  std::vector<float> logits(4000, 0.0f);
  logits[3000] = 3e38f;
  EXPECT_THAT(draws(wide, logits, 50), testing::Each(3000));
}

TEST(Sampler, DefaultOptionsAllocateNothingPerToken) {
  const std::vector<float> logits = wavy_logits(5000);
  Sampler sampler(SamplingOptions{}, 5000);
  sampler.sample(logits, 0);
  const size_t n_before = g_n_allocations;
  for (uint32_t pos = 1; pos < 100; ++pos) sampler.sample(logits, pos);
  EXPECT_EQ(g_n_allocations - n_before, 0u);
}

TEST(CheckSampling, SaysWhatAndWhatIsAllowed) {
  using Change = std::function<void(SamplingOptions&)>;
  const std::vector<std::pair<Change, std::string>> bad = {
      {[](SamplingOptions& o) { o.temperature = -1; }, "--temp -1, allowed: 0 or more"},
      {[](SamplingOptions& o) { o.temperature = kNaN; }, "--temp nan, allowed: 0 or more"},
      {[](SamplingOptions& o) { o.temperature = kInf; }, "--temp inf, allowed: 0 or more"},
      {[](SamplingOptions& o) { o.top_k = -1; }, "--top-k -1, allowed: 0 or more (0: off)"},
      {[](SamplingOptions& o) { o.top_p = 0; }, "--top-p 0, allowed: above 0, up to 1 (1: off)"},
      {[](SamplingOptions& o) { o.top_p = 1.5f; }, "--top-p 1.5, allowed: above 0, up to 1 (1: off)"},
      {[](SamplingOptions& o) { o.top_p = kNaN; }, "--top-p nan, allowed: above 0, up to 1 (1: off)"},
      {[](SamplingOptions& o) { o.min_p = -0.5f; }, "--min-p -0.5, allowed: 0 to 1 (0: off)"},
      {[](SamplingOptions& o) { o.min_p = 2; }, "--min-p 2, allowed: 0 to 1 (0: off)"},
      {[](SamplingOptions& o) { o.min_p = kNaN; }, "--min-p nan, allowed: 0 to 1 (0: off)"},
  };
  for (const auto& [change, message] : bad) {
    SamplingOptions options;
    change(options);
    try {
      check_sampling(options);
      ADD_FAILURE() << "accepted: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_STREQ(error.what(), message.c_str());
    }
  }
  check_sampling(SamplingOptions{});
  check_sampling(plain(0));
}

}  // namespace
}  // namespace kvase
