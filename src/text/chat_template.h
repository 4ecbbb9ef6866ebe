// SPDX-License-Identifier: MIT
// Chat templates without a model: from messages and a template's source to a prompt, and to token ids.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kvase/chat.h"
#include "text/tokenizer.h"

namespace kvase {

// source: the model's own template in Jinja, empty if it has none. Throws as format_chat().
ChatPrompt format_chat_text(const std::string& source, std::span<const ChatMessage> messages,
                            const ChatOptions& options);

// As tokenize_chat().
std::vector<Token> tokenize_chat_text(const Tokenizer& tokenizer, const ChatPrompt& prompt);

}  // namespace kvase
