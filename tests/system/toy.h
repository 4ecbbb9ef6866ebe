// SPDX-License-Identifier: MIT
// Toy models on disk for the length of a test program, and short ways to run them.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "kvase/kvase.h"
#include "toy_model/toy_model.h"

namespace kvase {

// A file that is removed with its object.
class ToyFile {
 public:
  explicit ToyFile(const ToyModelSpec& spec) : path_(unique_path()) { write_toy_model(path_, spec); }
  ~ToyFile() { std::filesystem::remove(path_); }
  ToyFile(const ToyFile&) = delete;
  ToyFile& operator=(const ToyFile&) = delete;
  const std::string& path() const { return path_; }
  Model load() const { return Model::load({.path = path_}); }

 private:
  static std::string unique_path() {
    static int counter = 0;
    return (std::filesystem::temp_directory_path() /
            ("kvase-toy-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".gguf"))
        .string();
  }
  std::string path_;
};

inline std::vector<Token> random_tokens(size_t n, uint32_t n_vocab, uint64_t seed) {
  std::vector<Token> tokens(n);
  for (uint32_t index = 0; index < n; ++index) {
    tokens[index] = static_cast<Token>(noise_uniform({.seed = seed}, NoiseStream::race, index) * n_vocab);
  }
  return tokens;
}

// Many different characters, so that hidden states span their space.
inline std::string random_text(uint32_t n) {
  std::string text;
  for (uint32_t index = 0; index < n; ++index)
    text +=
        static_cast<char>('!' + static_cast<int>(noise_uniform({.seed = 1}, NoiseStream::race, index) * 94));
  return text;
}

// Feeds tokens and returns the last one's logits.
inline std::vector<float> feed(Engine& engine, SequenceId sequence, std::span<const Token> tokens) {
  std::vector<float> last;
  const Feed one{.sequence = sequence, .tokens = tokens, .logits = WantLogits::last};
  const Advance status = engine.advance({&one, 1}, {.on_logits =
                                                        [&](size_t, size_t, std::span<const float> logits) {
                                                          last.assign(logits.begin(), logits.end());
                                                        },
                                                    .should_stop = {},
                                                    .on_progress = {}});
  EXPECT_EQ(status, Advance::done);
  return last;
}

inline Token best(const std::vector<float>& logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Greedy continuation of a prompt in a sequence of its own.
inline std::vector<Token> greedy(Engine& engine, const std::vector<Token>& prompt, size_t n,
                                 const SequenceOptions& options) {
  const SequenceId sequence = engine.open(options);
  std::vector<Token> tokens;
  std::vector<float> logits = feed(engine, sequence, prompt);
  for (size_t index = 0; index < n; ++index) {
    tokens.push_back(best(logits));
    logits = feed(engine, sequence, std::span(tokens).last(1));
  }
  engine.close(sequence);
  return tokens;
}

}  // namespace kvase
