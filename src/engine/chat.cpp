// SPDX-License-Identifier: MIT
// Conversations for a loaded model.
#include "kvase/chat.h"

#include "engine/model.h"
#include "text/chat_template.h"

namespace kvase {

ChatPrompt format_chat(const Model& model, std::span<const ChatMessage> messages,
                       const ChatOptions& options) {
  return format_chat_text(model.impl().tokenizer.chat_template(), messages, options);
}

std::vector<Token> tokenize_chat(const Model& model, const ChatPrompt& prompt) {
  return tokenize_chat_text(model.impl().tokenizer, prompt);
}

}  // namespace kvase
