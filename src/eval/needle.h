// SPDX-License-Identifier: MIT
// Needles in haystacks: one sentence with a number somewhere in a long text, and a question for the number.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kvase::eval {

struct Needle {
  std::string place;
  std::string number;  // five digits
  std::string sentence() const;
  std::string question() const;
  std::string answer_begins() const;  // what comes before the number, for models that only go on
};

// The needle of a number; all of a run differ in place and number.
Needle make_needle(uint32_t number);

// Sentences to hide a needle in, at least n of them, the same for the same seed. They hold no numbers.
std::string made_up_text(uint32_t n_sentences, uint64_t seed);

// Sentences of a text: each with what follows it up to the next. Joined, they are the text.
std::vector<std::string> split_sentences(std::string_view text);

class Haystack {
 public:
  using CountTokens = std::function<size_t(std::string_view)>;

  // Throws Error(invalid_argument) if `text` has no sentence.
  Haystack(std::string_view text, const CountTokens& count_tokens);

  // About n_tokens of the text with the needle behind the given share of them, always between two sentences.
  // `start` chooses the sentence that it begins with; the text goes round if it ends.
  std::string with_needle(const Needle& needle, size_t n_tokens, double depth, size_t start) const;

  size_t n_sentences() const { return sentences_.size(); }

 private:
  std::vector<std::string> sentences_;
  std::vector<size_t> n_tokens_;  // of each sentence
};

// The answer holds the number, as digits of its own (thousands separators are read over).
bool has_needle(std::string_view answer, const Needle& needle);

}  // namespace kvase::eval
