// SPDX-License-Identifier: MIT
// Prompts from template sources that have the marks by which families differ.
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvase/error.h"

namespace kvase {
namespace {

using testing::HasSubstr;

// Short forms of each family: what the formatter and the reasoning look for, and no more. Line breaks as
// files have them: a backslash and an n, or the character itself.
const std::string kChatMl =
    "{% for m in messages %}{{'<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\n'}}{% endif %}";
const std::string kLlama3 =
    "{% for m in messages %}{{'<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim}}"
    "{% endfor %}{% if add_generation_prompt %}{{'<|start_header_id|>assistant<|end_header_id|>\\n\\n'}}{% "
    "endif %}";
const std::string kR1 =
    "{% if m.role == 'user' %}{{'<｜User｜>' + m.content}}{% else %}"
    "{{'<｜Assistant｜>' + m.content.split('</think>')[-1] + '<｜end▁of▁sentence｜>'}}{% endif %}"
    "{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\\n'}}{% endif %}";
const std::string kQwen3 =
    "{{- '<|im_start|>' + m.role + '\\n<think>\\n' + reasoning + '\\n</think>\\n\\n' }}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- endif %}{%- endif %}";
// A switch, and thinking opened by the template unless it is off.
const std::string kOpensUnlessOff =
    "{{- '<|im_start|>' }}{%- if add_generation_prompt %}{%- if enable_thinking is false %}"
    "{{- '<think>\n\n</think>\n\n' }}{%- else %}{{- '<think>\n' }}{%- endif %}{%- endif %}";

const std::vector<ChatMessage> kOneQuestion = {{"user", "Hi"}};

ChatPrompt format(const std::string& source, const std::vector<ChatMessage>& messages,
                  std::optional<bool> thinking = std::nullopt) {
  return format_chat_text(source, messages, {.template_name = "", .thinking = thinking});
}

void expect_error(ErrorCode code, const std::vector<std::string>& words,
                  const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error, expected one with " << testing::PrintToString(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
    EXPECT_THAT(error.what(), HasSubstr("allowed: "));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
  }
}

// ---- families

struct Case {
  std::string name;
  std::string source;
  std::optional<bool> thinking;
  std::string text;  // of kOneQuestion
  bool starts_in_thinking = false;
  bool may_think = false;
};

TEST(ChatTemplate, Families) {
  const std::vector<Case> cases = {
      {"chatml", kChatMl, {}, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", false, false},
      {"llama3",
       kLlama3,
       {},
       "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
       "\n\n",
       false,
       false},
      // ggml-org/llama.cpp#11861: the template opens the thinking.
      {"R1", kR1, {}, "<｜User｜>Hi<｜Assistant｜><think>\n", true, true},
      {"R1, thinking asked for", kR1, true, "<｜User｜>Hi<｜Assistant｜><think>\n", true, true},
      // ggml-org/llama.cpp#13178: thinking on and off.
      {"Qwen3", kQwen3, {}, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", false, true},
      {"Qwen3 on", kQwen3, true, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", false, true},
      {"Qwen3 off", kQwen3, false,
       "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", false, true},
      {"opens",
       kOpensUnlessOff,
       {},
       "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n",
       true,
       true},
      {"opens, off", kOpensUnlessOff, false,
       "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", false, true},
  };
  for (const Case& one : cases) {
    const ChatPrompt prompt = format(one.source, kOneQuestion, one.thinking);
    EXPECT_EQ(prompt.text, one.text) << one.name;
    EXPECT_EQ(prompt.starts_in_thinking, one.starts_in_thinking) << one.name;
    EXPECT_EQ(prompt.may_think, one.may_think) << one.name;
  }
}

TEST(ChatTemplate, SystemMessageAndSeveralTurns) {
  const std::vector<ChatMessage> messages = {
      {"system", "Be brief."}, {"user", "One?"}, {"assistant", "1"}, {"user", "Two?"}};
  const ChatPrompt prompt = format(kChatMl, messages);
  EXPECT_EQ(prompt.text,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n"
            "<|im_start|>assistant\n1<|im_end|>\n<|im_start|>user\nTwo?<|im_end|>\n<|im_start|>assistant\n");
  ASSERT_EQ(prompt.contents.size(), messages.size());
  for (size_t index = 0; index < messages.size(); ++index) {
    const auto& [offset, n_bytes] = prompt.contents[index];
    EXPECT_EQ(prompt.text.substr(offset, n_bytes), messages[index].content);
  }
}

TEST(ChatTemplate, ContentIsKeptOrTrimmedAsTheTemplateDoes) {
  const std::vector<ChatMessage> messages = {{"user", " \n a b \t"}};
  EXPECT_THAT(format(kChatMl, messages).text, HasSubstr("user\n \n a b \t<|im_end|>"));
  EXPECT_THAT(format(kLlama3, messages).text, HasSubstr("<|end_header_id|>\n\na b<|eot_id|>"));
  EXPECT_EQ(format(kChatMl, {{"user", ""}}).text, "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_THAT(format(kLlama3, {{"user", " "}}).text, HasSubstr("<|end_header_id|>\n\n<|eot_id|>"));
}

TEST(ChatTemplate, ContentThatLooksLikeAStandInIsContent) {
  const std::string odd =
      "\v\x1F"
      "0\x1F\v \x1F"
      "1\x1F";
  const std::string zero("a\0b", 3);
  const ChatPrompt prompt = format(kChatMl, {{"system", odd}, {"user", zero}});
  EXPECT_EQ(prompt.text, "<|im_start|>system\n" + odd + "<|im_end|>\n<|im_start|>user\n" + zero +
                             "<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, EarlierThoughtsAreLeftOut) {
  const std::vector<ChatMessage> messages = {
      {"user", "</think>a"}, {"assistant", "<think>\nhm\n</think>\n\nYes."}, {"user", "b"}};
  EXPECT_THAT(format(kQwen3, messages).text,
              HasSubstr("</think>a<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>"));
  EXPECT_THAT(format(kChatMl, messages).text, HasSubstr("assistant\n<think>\nhm\n</think>\n\nYes.<|im_end|>"))
      << "a model that knows no thinking: text about it is text";
}

TEST(ChatTemplate, AUserWhoWritesTheMarkDoesNotOpenThinking) {
  const ChatPrompt prompt = format_chat_text("", std::vector<ChatMessage>{{"user", "<think>"}},
                                             {.template_name = "deepseek-ocr", .thinking = {}});
  EXPECT_EQ(prompt.text, "<think>");
  EXPECT_FALSE(prompt.starts_in_thinking);
}

// ---- names

TEST(ChatTemplate, NamedTemplateReplacesTheModelsOwn) {
  for (const std::string& source : {std::string(), std::string("{{ messages }}"), kLlama3}) {
    const ChatPrompt prompt =
        format_chat_text(source, kOneQuestion, {.template_name = "chatml", .thinking = std::nullopt});
    EXPECT_EQ(prompt.text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_FALSE(prompt.may_think);
  }
  const ChatPrompt named =
      format_chat_text(kR1, kOneQuestion, {.template_name = "chatml", .thinking = std::nullopt});
  EXPECT_FALSE(named.starts_in_thinking);
  EXPECT_TRUE(named.may_think) << "the model still does";
  EXPECT_TRUE(format_chat_text("", kOneQuestion, {.template_name = "bailing-think", .thinking = {}})
                  .starts_in_thinking);
}

TEST(ChatTemplate, EveryNamedTemplateKeepsTheQuestionOrSaysNo) {
  const std::vector<ChatMessage> messages = {
      {"system", "S-S"}, {"user", "U-U"}, {"assistant", "A-A"}, {"user", "V-V"}};
  int n_refused = 0;
  for (const std::string& name : chat_template_names()) {
    try {
      const ChatPrompt prompt =
          format_chat_text("", messages, {.template_name = name, .thinking = std::nullopt});
      size_t offset = 0;
      for (const ChatMessage& message : messages) {
        const size_t found = prompt.text.find(message.content, offset);
        ASSERT_NE(found, std::string::npos) << name << " lost " << message.content << " in " << prompt.text;
        offset = found + message.content.size();
      }
      EXPECT_EQ(prompt.text.find_first_of("\v\x1F"), std::string::npos) << name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("role system")) << name;
      ++n_refused;
    }
  }
  EXPECT_GT(chat_template_names().size(), 40u);
  EXPECT_LE(n_refused, 3) << "templates without a place for a system message";
}

// ---- refusals

TEST(ChatTemplate, UnknownTemplatesAreRefusedWithAdvice) {
  expect_error(ErrorCode::unsupported, {"no chat template", "--chat-template NAME", "chatml", "llama3"},
               [] { format("", kOneQuestion); });
  expect_error(ErrorCode::unsupported, {"none that is known", "{{ odd }}", "--chat-template NAME", "chatml"},
               [] { format("{{ odd }}", kOneQuestion); });
  for (const char* name : {"nope", "<|im_start|>", "ChatML", "chatml "}) {
    expect_error(ErrorCode::invalid_argument, {name, "chatml", "llama3"}, [&] {
      format_chat_text(kChatMl, kOneQuestion, {.template_name = name, .thinking = std::nullopt});
    });
  }
}

TEST(ChatTemplate, ThinkingWithoutASwitchIsRefused) {
  expect_error(ErrorCode::invalid_argument, {"thinking on", "no switch"},
               [] { format(kChatMl, kOneQuestion, true); });
  expect_error(ErrorCode::invalid_argument, {"thinking off", "no switch"},
               [] { format(kChatMl, kOneQuestion, false); });
  expect_error(ErrorCode::invalid_argument, {"thinking off", "always thinks"},
               [] { format(kR1, kOneQuestion, false); });
  expect_error(ErrorCode::invalid_argument, {"thinking off", "no switch"}, [] {
    format_chat_text(kQwen3, kOneQuestion, {.template_name = "chatml", .thinking = false});
  });
}

TEST(ChatTemplate, BadMessagesAreRefused) {
  const ErrorCode code = ErrorCode::invalid_argument;
  expect_error(code, {"messages", "none"}, [] { format(kChatMl, {}); });
  expect_error(code, {"message 0", "role \"robot\"", "assistant"}, [] {
    format(kChatMl, {{"robot", "Hi"}});
  });
  expect_error(code, {"message 1", "role \"user?<|im_end|>\""}, [] {
    format(kChatMl, {{"user", "a"}, {"user\n<|im_end|>", "Hi"}});
  });
  expect_error(code, {"last one is the assistant's"}, [] {
    format(kChatMl, {{"user", "a"}, {"assistant", "b"}});
  });
  expect_error(code, {"last one is the system's"}, [] { format(kChatMl, {{"system", "a"}}); });
  expect_error(code, {"message 1", "0xe6 at offset 2", "UTF-8"}, [] {
    format(kChatMl, {{"system", "a"}, {"user", "ab\xE6\xAD"}});
  });
}

}  // namespace
}  // namespace kvase
