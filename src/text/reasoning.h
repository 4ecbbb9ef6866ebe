// SPDX-License-Identifier: MIT
// Tells thinking from answer in a stream of text, wherever the stream is cut.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvase/text.h"
#include "text/mark_matcher.h"

namespace kvase {

struct TextPart {
  bool thinking = false;
  std::string text;
};

// An answer is `[whitespace] open thinking close answer`, or just an answer. Marks are not shown, nor is
// whitespace around them: in front of the opening mark, at both ends of the thinking, at the start of what
// follows the closing mark. An opening mark counts only at the very start: text that mentions one later, also
// after the closing mark, is text. The sums of thinking and of answer do not depend on the cuts. Thinking
// that is cut off (no closing mark) is thinking to its end.
class ReasoningSplitter {
 public:
  // starts_inside: the prompt ended in the opening mark, so the stream begins with thinking.
  // Throws Error(invalid_argument) for a mark that is empty or begins with whitespace.
  ReasoningSplitter(ReasoningMarks marks, bool starts_inside);

  // What is certain now, in order; no two neighbours of one kind, none empty. What may still become a mark or
  // whitespace in front of one waits.
  std::vector<TextPart> push(std::string_view text);

  // The end of the text: what waited.
  std::vector<TextPart> flush();

  // Thinking has begun and its closing mark has not come.
  bool inside() const { return state_ == State::thinking; }

 private:
  enum class State {
    start,        // nothing but whitespace and a part of the opening mark so far
    thinking,     // up to the closing mark
    after_close,  // whitespace after the closing mark
    answer,
  };

  void take(char byte, std::vector<TextPart>& parts);
  void take_at_start(char byte, std::vector<TextPart>& parts);
  void take_thinking(char byte, std::vector<TextPart>& parts);
  void show_thinking(char byte, std::vector<TextPart>& parts);

  std::string open_;
  MarkMatcher close_;
  State state_ = State::start;
  std::string spaces_;    // whitespace that is shown only if something of the same kind follows
  std::string mark_;      // part of a mark, perhaps
  bool thought_ = false;  // some thinking was shown
};

}  // namespace kvase
