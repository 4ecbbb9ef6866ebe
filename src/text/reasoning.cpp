// SPDX-License-Identifier: MIT
// Tells thinking from answer in a stream of text.
#include "text/reasoning.h"

#include <utility>

#include "base/errors.h"
#include "base/printable.h"

namespace kvase {
namespace {

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

std::string checked(std::string mark, const char* name) {
  if (mark.empty() || is_space(mark.front())) {
    invalid("{} mark of thinking \"{}\", allowed: text that does not begin with whitespace", name,
            printable(mark));
  }
  return mark;
}

void show(bool thinking, std::string_view text, std::vector<TextPart>& parts) {
  if (text.empty()) return;
  if (parts.empty() || parts.back().thinking != thinking) parts.push_back({thinking, {}});
  parts.back().text += text;
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(ReasoningMarks marks, bool starts_inside)
    : open_(checked(std::move(marks.open), "opening")),
      close_(checked(std::move(marks.close), "closing")),
      state_(starts_inside ? State::thinking : State::start) {}

std::vector<TextPart> ReasoningSplitter::push(std::string_view text) {
  std::vector<TextPart> parts;
  for (size_t offset = 0; offset < text.size(); ++offset) {
    if (state_ == State::answer) {
      show(false, text.substr(offset), parts);
      break;
    }
    take(text[offset], parts);
  }
  return parts;
}

std::vector<TextPart> ReasoningSplitter::flush() {
  std::vector<TextPart> parts;
  const bool thinking = state_ == State::thinking;
  show(thinking, thinking && !thought_ ? mark_ : spaces_ + mark_, parts);
  spaces_.clear();
  mark_.clear();
  return parts;
}

void ReasoningSplitter::take(char byte, std::vector<TextPart>& parts) {
  switch (state_) {
    case State::start:
      take_at_start(byte, parts);
      break;
    case State::thinking:
      take_thinking(byte, parts);
      break;
    case State::after_close:
      if (is_space(byte)) break;
      state_ = State::answer;
      [[fallthrough]];
    case State::answer:
      show(false, {&byte, 1}, parts);
      break;
  }
}

void ReasoningSplitter::take_at_start(char byte, std::vector<TextPart>& parts) {
  if (mark_.empty() && is_space(byte)) {
    spaces_ += byte;
    return;
  }
  mark_ += byte;
  if (mark_ == open_) {
    state_ = State::thinking;
  } else if (open_.starts_with(mark_)) {
    return;
  } else {
    state_ = State::answer;
    show(false, spaces_ + mark_, parts);
  }
  spaces_.clear();
  mark_.clear();
}

void ReasoningSplitter::take_thinking(char byte, std::vector<TextPart>& parts) {
  mark_ += byte;
  if (close_.push(byte)) {
    state_ = State::after_close;
    spaces_.clear();
    mark_.clear();
    return;
  }
  const size_t n_free = mark_.size() - close_.matched();  // can no longer be part of the mark
  for (size_t offset = 0; offset < n_free; ++offset) show_thinking(mark_[offset], parts);
  mark_.erase(0, n_free);
}

void ReasoningSplitter::show_thinking(char byte, std::vector<TextPart>& parts) {
  if (is_space(byte)) {
    spaces_ += byte;
    return;
  }
  if (thought_) show(true, spaces_, parts);
  spaces_.clear();
  thought_ = true;
  show(true, {&byte, 1}, parts);
}

}  // namespace kvase
