// SPDX-License-Identifier: MIT
// From messages and flags to what generate() needs.
#include "cli/chat_prompt.h"

#include <fmt/format.h>

#include "kvase/error.h"

namespace kvase::cli {

std::vector<ChatMessage> first_messages(const ChatFlags& flags) {
  if (!flags.system) return {};
  return {{.role = "system", .content = *flags.system}};
}

void set_chat_prompt(const Model& model, std::span<const ChatMessage> messages, const ChatFlags& flags,
                     GenerateRequest& request) {
  const ChatPrompt prompt = format_chat(model, messages, flags.options);
  request.prompt = tokenize_chat(model, prompt);
  request.starts_in_thinking = prompt.starts_in_thinking;
  if (prompt.may_think) request.reasoning = ReasoningMarks{};
  if (!flags.thinking_budget) return;
  if (!prompt.may_think) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "--think-budget {}: this model's chat template knows no thinking, allowed: to leave it out",
            *flags.thinking_budget));
  }
  request.thinking_budget = *flags.thinking_budget;
}

void set_prompt(const Model& model, const std::string& text, const ChatFlags* chat,
                GenerateRequest& request) {
  if (chat == nullptr) {
    request.prompt = model.tokenize(text, /*add_special=*/true, /*parse_special=*/true);
    return;
  }
  std::vector<ChatMessage> messages = first_messages(*chat);
  messages.push_back({.role = "user", .content = text});
  set_chat_prompt(model, messages, *chat, request);
}

}  // namespace kvase::cli
