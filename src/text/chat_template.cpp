// SPDX-License-Identifier: MIT
// libllama formats messages whose contents are stand-ins; the real contents go in afterwards. So we know
// which bytes of the prompt are a message's, whatever the template does to them.
#include "text/chat_template.h"

#include <llama.h>

#include <algorithm>
#include <string_view>

#include "base/errors.h"
#include "base/printable.h"
#include "kvase/text.h"

namespace kvase {
namespace {

constexpr std::string_view kSpaces = " \t\n\v\f\r";  // what libllama's formatter trims
constexpr std::string_view kOpenMark = "<think>";
constexpr std::string_view kCloseMark = "</think>";
constexpr std::string_view kOpening = "<think>\n";  // as templates write it behind the assistant's header
constexpr std::string_view kEmptyThought = "<think>\n\n</think>\n\n";

// ---- how a model's template thinks
// ---------------------------------------------------------------------------------

struct ThinkingTraits {
  bool known = false;       // it mentions thinking at all
  bool opens = false;       // it opens the thinking itself, behind the assistant's header
  bool has_switch = false;  // asked for no thinking, it writes an empty thought
};

// Files hold a template's line breaks as such or as a backslash and an n.
std::string with_line_breaks(std::string source) {
  for (size_t at = source.find("\\n"); at != std::string::npos; at = source.find("\\n", at)) {
    source.replace(at, 2, 1, '\n');
  }
  return source;
}

// The opening mark and one line break end a literal, or a stretch of text, of the generation prompt.
bool opens_thinking(std::string_view source) {
  const size_t generation = source.rfind("add_generation_prompt");
  if (generation == std::string_view::npos) return false;
  for (size_t at = source.find(kOpening, generation); at != std::string_view::npos;
       at = source.find(kOpening, at + 1)) {
    const size_t next = at + kOpening.size();
    if (next < source.size() && std::string_view("'\"{").find(source[next]) != std::string_view::npos)
      return true;
  }
  return false;
}

ThinkingTraits traits_of(const std::string& template_source) {
  const std::string source = with_line_breaks(template_source);
  const auto mentions = [&source](std::string_view text) { return source.find(text) != std::string::npos; };
  return {.known = mentions(kOpenMark) || mentions(kCloseMark),
          .opens = opens_thinking(source),
          .has_switch = mentions("enable_thinking") && mentions(kEmptyThought)};
}

void check_thinking(const ThinkingTraits& traits, std::optional<bool> thinking) {
  if (!thinking || traits.has_switch || (*thinking && traits.opens)) return;
  invalid("thinking {}: this chat template has no switch for it, allowed: {}", *thinking ? "on" : "off",
          traits.opens ? "on, this model always thinks" : "to leave it to the model");
}

// ---- messages
// ------------------------------------------------------------------------------------------------------

void check_messages(std::span<const ChatMessage> messages) {
  if (messages.empty()) invalid("messages: found none, allowed: one or more");
  for (size_t index = 0; index < messages.size(); ++index) {
    const auto& [role, content] = messages[index];
    if (role != "system" && role != "user" && role != "assistant") {
      invalid("message {}: role \"{}\", allowed: system, user, assistant", index, printable(role));
    }
    if (const auto offset = find_invalid_utf8(content)) {
      invalid("message {}: byte 0x{:02x} at offset {} is not UTF-8, allowed: UTF-8 text", index,
              static_cast<unsigned char>(content[*offset]), *offset);
    }
  }
  if (messages.back().role != "user") {
    invalid("messages: the last one is the {}'s, allowed: user", messages.back().role);
  }
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// Earlier thoughts are not shown again to a model that thinks.
std::string_view said_by(const ChatMessage& message, bool thinks) {
  std::string_view content = message.content;
  const size_t mark =
      thinks && message.role == "assistant" ? content.rfind(kCloseMark) : std::string_view::npos;
  if (mark == std::string_view::npos) return content;
  content.remove_prefix(mark + kCloseMark.size());
  content.remove_prefix(std::min(content.find_first_not_of('\n'), content.size()));
  return content;
}

// ---- libllama's formatter
// ----------------------------------------------------------------------------------------

std::string names_text() { return fmt::format("{}", fmt::join(chat_template_names(), ", ")); }

// A vertical tab on each side tells whether the template trims contents; no template writes one itself.
constexpr char kEdge = '\v';

std::string stand_in_core(size_t index) { return fmt::format("\x1F{}\x1F", index); }

// What libllama makes of stand-ins. `form`: a name or a source.
std::string format_stand_ins(const std::string& form, std::span<const ChatMessage> messages) {
  std::vector<std::string> contents;
  for (size_t index = 0; index < messages.size(); ++index)
    contents.push_back(fmt::format("{0}{1}{0}", kEdge, stand_in_core(index)));
  std::vector<llama_chat_message> chat;
  for (size_t index = 0; index < messages.size(); ++index) {
    chat.push_back({messages[index].role.c_str(), contents[index].c_str()});
  }
  const auto apply = [&](char* buffer, int32_t n_bytes) {
    return llama_chat_apply_template(form.c_str(), chat.data(), chat.size(), /*add_ass=*/true, buffer,
                                     n_bytes);
  };
  const int32_t n_bytes = apply(nullptr, 0);
  if (n_bytes < 0) {
    fail(ErrorCode::unsupported,
         "this model's chat template is none that is known (it begins \"{}\"), allowed: --chat-template "
         "NAME, one "
         "of {}",
         printable(form), names_text());
  }
  std::string text(static_cast<size_t>(n_bytes), '\0');
  apply(text.data(), n_bytes);
  return text;
}

// The prompt with contents in the place of stand-ins.
ChatPrompt fill_in(const std::string& stand_ins, std::span<const ChatMessage> messages, bool thinks) {
  ChatPrompt prompt;
  size_t done = 0;  // bytes of stand_ins
  for (size_t index = 0; index < messages.size(); ++index) {
    const std::string core = stand_in_core(index);
    size_t begin = stand_ins.find(core, done);
    if (begin == std::string::npos) {
      invalid(
          "message {}: this chat template has no place for a message of role {} there, allowed: another "
          "order or "
          "template",
          index, messages[index].role);
    }
    size_t end = begin + core.size();
    std::string_view content = said_by(messages[index], thinks);
    const bool keeps_edges = begin > done && stand_ins[begin - 1] == kEdge;
    if (keeps_edges) {
      --begin;
      ++end;
    } else {
      content = trimmed(content);
    }
    prompt.text.append(stand_ins, done, begin - done);
    prompt.contents.push_back({prompt.text.size(), content.size()});
    prompt.text += content;
    done = end;
  }
  prompt.text.append(stand_ins, done);
  return prompt;
}

// What the template says after the last message, without the whitespace at its end.
std::string_view generation_prompt(const ChatPrompt& prompt) {
  const ChatPrompt::Range& last = prompt.contents.back();
  std::string_view tail = std::string_view(prompt.text).substr(last.offset + last.n_bytes);
  return tail.substr(0, tail.find_last_not_of(kSpaces) + 1);
}

// ---- token ids
// -----------------------------------------------------------------------------------------------------

struct Control {
  std::string text;
  Token token = 0;
};

std::vector<Control> control_tokens(const Tokenizer& tokenizer) {
  std::vector<Control> controls;
  for (Token token = 0; token < static_cast<Token>(tokenizer.n_vocab()); ++token) {
    if (!tokenizer.is_control(token)) continue;
    std::string text = tokenizer.piece(token, /*special=*/true);
    if (!text.empty()) controls.push_back({std::move(text), token});
  }
  return controls;
}

// The longest control token that `text` begins with, or nullptr.
const Control* find_control(const std::vector<Control>& controls, std::string_view text) {
  const Control* longest = nullptr;
  for (const Control& control : controls) {
    if (text.starts_with(control.text) &&
        (longest == nullptr || control.text.size() > longest->text.size())) {
      longest = &control;
    }
  }
  return longest;
}

void check_ranges(const ChatPrompt& prompt) {
  size_t done = 0;
  for (const auto& [offset, n_bytes] : prompt.contents) {
    if (offset < done || offset > prompt.text.size() || n_bytes > prompt.text.size() - offset) {
      invalid(
          "chat prompt: contents at byte {} with {} bytes, allowed: ascending, within the text of {} bytes",
          offset, n_bytes, prompt.text.size());
    }
    done = offset + n_bytes;
  }
}

}  // namespace

std::vector<std::string> chat_template_names() {
  std::vector<const char*> names(static_cast<size_t>(llama_chat_builtin_templates(nullptr, 0)));
  llama_chat_builtin_templates(names.data(), names.size());
  return {names.begin(), names.end()};
}

ChatPrompt format_chat_text(const std::string& source, std::span<const ChatMessage> messages,
                            const ChatOptions& options) {
  check_messages(messages);
  const std::string& name = options.template_name;
  if (name.empty() && source.empty()) {
    fail(ErrorCode::unsupported, "this model has no chat template, allowed: --chat-template NAME, one of {}",
         names_text());
  }
  const std::vector<std::string> names = chat_template_names();
  if (!name.empty() && std::ranges::find(names, name) == names.end()) {
    invalid("chat template \"{}\", allowed: {}", printable(name), names_text());
  }
  // A named form replaces all that the model's template does; only that the model may think stays true.
  const ThinkingTraits own = traits_of(source);
  const ThinkingTraits traits = name.empty() ? own : ThinkingTraits{};
  check_thinking(traits, options.thinking);

  ChatPrompt prompt = fill_in(format_stand_ins(name.empty() ? source : name, messages), messages, own.known);
  if (options.thinking == false) {
    prompt.text += kEmptyThought;
  } else if (generation_prompt(prompt).ends_with(kOpenMark)) {
    prompt.starts_in_thinking = true;
  } else if (traits.opens) {
    prompt.text += kOpening;
    prompt.starts_in_thinking = true;
  }
  prompt.may_think = own.known || prompt.starts_in_thinking;
  return prompt;
}

// libllama, too, cuts text at special tokens and tokenizes what lies between them piece by piece; here only
// those of the template count. So a prompt whose contents hold none gives libllama's own ids.
std::vector<Token> tokenize_chat_text(const Tokenizer& tokenizer, const ChatPrompt& prompt) {
  check_ranges(prompt);
  const std::vector<Control> controls = control_tokens(tokenizer);
  const std::string_view text = prompt.text;
  std::vector<Token> tokens;
  size_t plain_begin = 0;
  const auto append_plain = [&](size_t end) {
    const std::vector<Token> plain = tokenizer.tokenize(text.substr(plain_begin, end - plain_begin),
                                                        /*add_special=*/false, /*parse_special=*/false);
    tokens.insert(tokens.end(), plain.begin(), plain.end());
  };
  size_t offset = 0;
  for (size_t range = 0; range <= prompt.contents.size(); ++range) {
    const bool is_last = range == prompt.contents.size();
    const size_t end = is_last ? text.size() : prompt.contents[range].offset;
    while (offset < end) {
      const Control* control = find_control(controls, text.substr(offset, end - offset));
      if (control == nullptr) {
        ++offset;
        continue;
      }
      append_plain(offset);
      tokens.push_back(control->token);
      offset += control->text.size();
      plain_begin = offset;
    }
    if (!is_last) offset = end + prompt.contents[range].n_bytes;
  }
  append_plain(text.size());
  // Some templates write the start token themselves.
  const Token bos = tokenizer.bos();
  if (bos != Tokenizer::kNone && (tokens.empty() || tokens.front() != bos))
    tokens.insert(tokens.begin(), bos);
  return tokens;
}

}  // namespace kvase
