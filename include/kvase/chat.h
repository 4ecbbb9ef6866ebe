// SPDX-License-Identifier: MIT
// Conversations: from messages to a prompt in the form that a model was trained on.
//
// The forms are those that libllama knows; it finds the right one by looking at the model's own template and
// runs no Jinja. What a template adds of its own accord (a system message that nobody wrote, tools) is not
// added. What messages say is never taken for control tokens, whatever they contain.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvase/model.h"

namespace kvase {

struct ChatMessage {
  std::string role;     // system, user or assistant
  std::string content;  // UTF-8; of an assistant: the answer, thinking is left out
};

struct ChatOptions {
  std::string template_name;  // one of chat_template_names(); empty: the model's own template
  // Nothing: as the model's template does by default. false: no thinking, for models whose template has a
  // switch for it. true: thinking, for those and for models that always think.
  std::optional<bool> thinking;
};

struct ChatPrompt {
  // Bytes of `text` that a message said.
  struct Range {
    size_t offset = 0;
    size_t n_bytes = 0;
  };
  std::string text;
  std::vector<Range> contents;      // ascending, disjoint; everything between them is the template's
  bool starts_in_thinking = false;  // text ends behind an opening mark: the answer begins with thinking
  bool may_think = false;           // the answer may hold thinking between ReasoningMarks{}
};

// Everything up to where the assistant speaks. An assistant's content up to a closing mark of thinking is
// left out where the model's template knows thinking. Throws Error: invalid_argument (no messages, the last
// one not the user's, an unknown role or template name, text that is not UTF-8, a message or a choice of
// thinking that the template has no place for), unsupported (the model has no template, or one that libllama
// does not know).
ChatPrompt format_chat(const Model& model, std::span<const ChatMessage> messages,
                       const ChatOptions& options = {});

// Token ids, the vocabulary's own start token first. Control tokens come from the template alone:
// "<|im_end|>" in a message is ten letters. Throws Error(invalid_argument) if `contents` do not lie in
// `text`.
std::vector<Token> tokenize_chat(const Model& model, const ChatPrompt& prompt);

// What libllama knows, ascending.
std::vector<std::string> chat_template_names();

}  // namespace kvase
