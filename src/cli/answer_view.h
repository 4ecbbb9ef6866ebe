// SPDX-License-Identifier: MIT
// Shows an answer as it comes: the answer on stdout, thinking dimmed before it where stdout is a terminal,
// and how much of the prompt was read on stderr where that is one.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvase::cli {

class AnswerView {
 public:
  AnswerView();
  void show_progress(size_t done, size_t total);  // tokens of the prompt
  void show_thinking(std::string_view text);      // nothing where stdout is no terminal
  void show_text(std::string_view text);
  void finish();  // clears the progress, ends the line

 private:
  void clear_progress();

  const bool stdout_is_terminal_;
  const bool stderr_is_terminal_;
  bool progress_shown_ = false;
  bool thinking_shown_ = false;
};

// Throws Error(device) if some of the text could not be written.
void finish_stdout();

}  // namespace kvase::cli
