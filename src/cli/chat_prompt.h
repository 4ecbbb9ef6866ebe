// SPDX-License-Identifier: MIT
// From messages and flags to what generate() needs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "kvase/chat.h"
#include "kvase/generate.h"

namespace kvase::cli {

// The system message, if the flags give one.
std::vector<ChatMessage> first_messages(const ChatFlags& flags);

// Sets the prompt and everything about thinking. Throws as format_chat(), and Error(invalid_argument) for a
// thinking budget where the model does not think.
void set_chat_prompt(const Model& model, std::span<const ChatMessage> messages, const ChatFlags& flags,
                     GenerateRequest& request);

// The same for one text: a user's message, or where `chat` is null raw text without a template.
void set_prompt(const Model& model, const std::string& text, const ChatFlags* chat, GenerateRequest& request);

}  // namespace kvase::cli
