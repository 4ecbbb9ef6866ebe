// SPDX-License-Identifier: MIT
// Sentences in, sentences out; a needle never cuts one.
#include "eval/needle.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

#include "eval/math_text.h"
#include "kvase/error.h"

namespace kvase::eval {
namespace {

constexpr std::array<std::string_view, 24> kPlaces = {
    "Lisbon", "Oslo",   "Cairo",  "Lima",   "Kyoto", "Quito",  "Tunis",   "Riga",
    "Bergen", "Havana", "Dakar",  "Prague", "Seoul", "Tirana", "Nairobi", "Geneva",
    "Manila", "Dublin", "Ankara", "Bogota", "Hanoi", "Zagreb", "Perth",   "Accra"};

constexpr std::array<std::string_view, 12> kWho = {
    "The baker",     "An old sailor", "My neighbour",          "The young painter",
    "A tired clerk", "The gardener",  "A travelling musician", "The librarian",
    "Our teacher",   "The shepherd",  "A quiet stranger",      "The watchmaker"};
constexpr std::array<std::string_view, 12> kDid = {
    "looked for a lost key",    "told a long story",          "carried a basket of apples",
    "mended a broken chair",    "read a letter twice",        "listened to the rain",
    "argued about the weather", "drew a map of the valley",   "waited for the evening train",
    "sang an old song",         "counted the passing clouds", "wrote to a distant friend"};
constexpr std::array<std::string_view, 12> kWhere = {
    "near the mill",         "behind the church",        "on the narrow bridge",   "in the empty square",
    "beside the slow river", "under the chestnut trees", "at the end of the road", "by the harbour wall",
    "in a small kitchen",    "on the windy hill",        "outside the station",    "in the shade of a barn"};
constexpr std::array<std::string_view, 8> kWhen = {
    "before breakfast",         "late in the afternoon",
    "on a grey morning",        "after the market had closed",
    "while the bells rang",     "during the long winter",
    "when nobody was watching", "just as the light was fading"};

// splitmix64: only to vary text, never for what a policy draws.
uint64_t mixed(uint64_t state) {
  state += 0x9e3779b97f4a7c15;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return state ^ (state >> 31);
}

bool is_digit(char character) { return std::isdigit(static_cast<unsigned char>(character)) != 0; }

}  // namespace

std::string Needle::sentence() const {
  return fmt::format("Remember this: the secret number of {} is {}. ", place, number);
}

std::string Needle::question() const { return fmt::format("What is the secret number of {}?", place); }

std::string Needle::answer_begins() const { return fmt::format("The secret number of {} is", place); }

Needle make_needle(uint32_t number) {
  return {.place = std::string(kPlaces[number % kPlaces.size()]),
          .number = std::to_string(10000 + mixed(number) % 90000)};
}

std::string made_up_text(uint32_t n_sentences, uint64_t seed) {
  std::string text;
  for (uint32_t sentence = 0; sentence < n_sentences; ++sentence) {
    const uint64_t draw = mixed(mixed(seed) + sentence);
    text += fmt::format("{} {} {} {}. ", kWho[draw % kWho.size()], kDid[(draw >> 8) % kDid.size()],
                        kWhere[(draw >> 16) % kWhere.size()], kWhen[(draw >> 24) % kWhen.size()]);
  }
  return text;
}

std::vector<std::string> split_sentences(std::string_view text) {
  std::vector<std::string> sentences;
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool ends = text[at] == '.' || text[at] == '!' || text[at] == '?';
    const bool space_follows = at + 1 < text.size() && (text[at + 1] == ' ' || text[at + 1] == '\n');
    if (!ends || !space_follows) continue;
    size_t next = at + 1;
    while (next < text.size() && (text[next] == ' ' || text[next] == '\n')) ++next;
    sentences.emplace_back(text.substr(begin, next - begin));
    begin = next;
    at = next - 1;
  }
  if (begin < text.size()) sentences.emplace_back(text.substr(begin));
  return sentences;
}

Haystack::Haystack(std::string_view text, const CountTokens& count_tokens)
    : sentences_(split_sentences(text)) {
  if (trimmed(text).empty()) {
    throw Error(ErrorCode::invalid_argument,
                "the text to hide needles in: found nothing, allowed: sentences");
  }
  for (std::string& sentence : sentences_) {
    if (sentence.back() != ' ' && sentence.back() != '\n') sentence += ' ';
    n_tokens_.push_back(count_tokens(sentence));
  }
}

std::string Haystack::with_needle(const Needle& needle, size_t n_tokens, double depth, size_t start) const {
  std::string text;
  const auto hidden_at = static_cast<size_t>(depth * static_cast<double>(n_tokens));
  size_t n_taken = 0;
  bool hidden = false;
  for (size_t taken = 0; n_taken < n_tokens; ++taken) {
    if (!hidden && n_taken >= hidden_at) {
      text += needle.sentence();
      hidden = true;
    }
    const size_t number = (start + taken) % sentences_.size();
    text += sentences_[number];
    n_taken += std::max<size_t>(n_tokens_[number], 1);
  }
  if (!hidden) text += needle.sentence();
  return text;
}

bool has_needle(std::string_view answer, const Needle& needle) {
  std::string digits;
  for (size_t at = 0; at <= answer.size(); ++at) {
    const char character = at < answer.size() ? answer[at] : ' ';
    if (is_digit(character)) {
      digits += character;
      continue;
    }
    const bool inside = character == ',' && at + 1 < answer.size() && is_digit(answer[at + 1]);
    if (inside) continue;
    if (digits == needle.number) return true;
    digits.clear();
  }
  return false;
}

}  // namespace kvase::eval
