// SPDX-License-Identifier: MIT
// Shows an answer as it comes.
#include "cli/answer_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "kvase/error.h"

namespace kvase::cli {
namespace {

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

AnswerView::AnswerView()
    : stdout_is_terminal_(isatty(STDOUT_FILENO) == 1), stderr_is_terminal_(isatty(STDERR_FILENO) == 1) {}

void AnswerView::show_progress(size_t done, size_t total) {
  if (!stderr_is_terminal_) return;
  fmt::print(stderr, "\rreading the prompt: {} of {} tokens", done, total);
  progress_shown_ = true;
}

void AnswerView::clear_progress() {
  if (std::exchange(progress_shown_, false)) fmt::print(stderr, "\r\033[K");
}

void AnswerView::show_thinking(std::string_view text) {
  if (!stdout_is_terminal_) return;
  clear_progress();
  // Each piece by itself, so that a killed process does not leave a dim terminal.
  write(fmt::format("\033[2m{}\033[0m", text));
  thinking_shown_ = true;
}

void AnswerView::show_text(std::string_view text) {
  clear_progress();
  if (std::exchange(thinking_shown_, false)) write("\n\n");
  write(text);
}

void AnswerView::finish() {
  clear_progress();
  write("\n");
}

void finish_stdout() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error(ErrorCode::device, "stdout: the text could not be written, allowed: a place with room");
  }
}

}  // namespace kvase::cli
