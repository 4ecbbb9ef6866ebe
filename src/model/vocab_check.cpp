// SPDX-License-Identifier: MIT
// The rules that libllama's vocabulary (version 0.5.0) asserts, and those that keep tokenizing from failing
// later.
#include "model/vocab_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>
#include <vector>

#include "base/errors.h"

namespace kvase {

namespace {

constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";
constexpr const char* kTypesKey = "tokenizer.ggml.token_type";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";
constexpr const char* kBosKey = "tokenizer.ggml.bos_token_id";
constexpr const char* kEosKey = "tokenizer.ggml.eos_token_id";
constexpr int64_t kByteType = 6;  // a token that stands for one byte, written <0xHH>
constexpr int64_t kMaxType = 6;
constexpr uint32_t kDefaultBpeToken = 11;  // libllama's start and end token where a BPE file names none

class VocabChecker {
 public:
  VocabChecker(const GgufFile& file, uint32_t n_vocab) : file_(file), n_vocab_(n_vocab) {}

  VocabInfo check() {
    VocabInfo info;
    info.kind = kind();
    info.pre = file_.find_string("tokenizer.ggml.pre").value_or("");
    check_tokens();
    check_scores();
    check_types();
    if (info.kind == VocabKind::byte_pair) {
      check_byte_pair(info.pre);
    } else {
      check_byte_fallback();
    }
    check_special_ids();
    info.has_bos = file_.has(kBosKey);
    info.has_eos = file_.has(kEosKey);
    check_added("tokenizer.ggml.add_bos_token", kBosKey);
    check_added("tokenizer.ggml.add_eos_token", kEosKey);
    file_.find_string("tokenizer.chat_template");
    file_.find_string("general.name");
    return info;
  }

 private:
  template <typename... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    bad_file("{}: {}", file_.path(), fmt::format(format, std::forward<Args>(args)...));
  }

  VocabKind kind() const {
    const std::string model = file_.get_string("tokenizer.ggml.model");
    if (model == "gpt2") {
      return VocabKind::byte_pair;
    }
    if (model == "llama") {
      return VocabKind::sentence_piece;
    }
    fail(ErrorCode::unsupported, "{}: key \"tokenizer.ggml.model\": found \"{}\", allowed gpt2, llama",
         file_.path(), printable(model));
  }

  // Libllama names empty tokens [EMPTY_<id>], then asserts that all texts differ.
  void check_tokens() {
    auto tokens = file_.find_strings(kTokensKey);
    if (!tokens) {
      bad("key \"{}\" is missing, allowed an array of {} texts", kTokensKey, n_vocab_);
    }
    check_length(kTokensKey, tokens->size());
    tokens_ = *std::move(tokens);
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (tokens_[id].empty()) {
        tokens_[id] = fmt::format("[EMPTY_{}]", id);
      }
      if (!texts_.insert(tokens_[id]).second) {
        bad("key \"{}\": token {} \"{}\" is there twice, allowed once", kTokensKey, id,
            printable(tokens_[id]));
      }
    }
  }

  void check_length(const char* key, size_t found) const {
    if (found != n_vocab_) {
      bad("key \"{}\": found {} elements, allowed {}, one per row of token_embd.weight", key, found,
          n_vocab_);
    }
  }

  void check_scores() const {
    if (!file_.has(kScoresKey)) {
      return;
    }
    const std::string type = file_.type_text(kScoresKey);
    if (type != "array of f32" && type != "array of i32") {
      bad("key \"{}\": found {}, allowed an array of f32", kScoresKey, type);
    }
    const int64_t id = gguf_find_key(file_.gguf(), kScoresKey);
    const size_t n = gguf_get_arr_n(file_.gguf(), id);
    check_length(kScoresKey, n);
    if (type == "array of f32") {
      const auto* scores = static_cast<const float*>(gguf_get_arr_data(file_.gguf(), id));
      if (std::any_of(scores, scores + n, [](float score) { return std::isnan(score); })) {
        bad("key \"{}\": found a score that is no number, allowed numbers", kScoresKey);
      }
    }
  }

  void check_types() const {
    if (!file_.has(kTypesKey)) {
      return;
    }
    if (file_.type_text(kTypesKey) != "array of i32") {
      bad("key \"{}\": found {}, allowed an array of i32", kTypesKey, file_.type_text(kTypesKey));
    }
    const std::vector<int64_t> types = *file_.find_integers(kTypesKey);
    check_length(kTypesKey, types.size());
    for (size_t id = 0; id < types.size(); ++id) {
      if (types[id] < 0 || types[id] > kMaxType) {
        bad("key \"{}\": token {} has type {}, allowed 0..{}", kTypesKey, id, types[id], kMaxType);
      }
      if (types[id] == kByteType && !is_byte_text(tokens_[id])) {
        bad("token {} \"{}\" has the type of a byte, allowed <0x00>..<0xFF>", id, printable(tokens_[id]));
      }
    }
  }

  static bool is_byte_text(const std::string& text) {
    return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' &&
           std::strchr("0123456789ABCDEF", text[3]) && std::strchr("0123456789ABCDEF", text[4]);
  }

  void check_byte_pair(const std::string& pre) const {
    // These leave spaces in the words that they look up, and libllama asserts that there are none.
    for (const char* raw_text : {"gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace"}) {
      if (pre == raw_text) {
        fail(ErrorCode::unsupported,
             "{}: key \"tokenizer.ggml.pre\": found \"{}\", allowed a byte-level pre-tokenizer", file_.path(),
             pre);
      }
    }
    if (n_vocab_ <= kDefaultBpeToken) {
      bad("key \"{}\": found {} tokens, allowed at least {}", kTokensKey, n_vocab_, kDefaultBpeToken + 1);
    }
    const auto merges = file_.find_strings(kMergesKey);
    if (!merges) {
      bad("key \"{}\" is missing, allowed an array of texts", kMergesKey);
    }
    for (size_t rank = 0; rank < merges->size(); ++rank) {
      const std::string& merge = (*merges)[rank];
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos || space + 1 == merge.size()) {
        bad("key \"{}\": merge {} is \"{}\", allowed two texts with a space between", kMergesKey, rank,
            printable(merge));
      }
    }
  }

  // Text that no token covers is written byte by byte; libllama throws in the middle of tokenizing if a byte
  // has no token.
  void check_byte_fallback() const {
    for (int byte = 0; byte < 256; ++byte) {
      const std::string as_hex = fmt::format("<0x{:02X}>", byte);
      const std::string as_text(1, static_cast<char>(byte));
      if (!texts_.contains(as_hex) && (byte == 0 || !texts_.contains(as_text))) {
        bad("key \"{}\": no token for byte {}, allowed a vocabulary with all 256", kTokensKey, as_hex);
      }
    }
  }

  void check_special_ids() const {
    // Those that end an answer, start a prompt or appear in it must be there. An id that nothing uses may be
    // out of range in real files; libllama ignores it then.
    for (const char* name : {"bos", "eos", "eot", "eom", "unknown"}) {
      file_.find_u32(fmt::format("tokenizer.ggml.{}_token_id", name), 0, n_vocab_ - 1);
    }
  }

  // Libllama asserts that a token that it must add exists.
  void check_added(const char* flag, const char* id_key) const {
    if (file_.find_bool(flag).value_or(false) && !file_.has(id_key)) {
      bad("key \"{}\" is true, but \"{}\" is missing, allowed both or neither", flag, id_key);
    }
  }

  const GgufFile& file_;
  uint32_t n_vocab_;
  std::vector<std::string> tokens_;
  std::unordered_set<std::string> texts_;
};

}  // namespace

VocabInfo check_vocab(const GgufFile& file, uint32_t n_vocab) { return VocabChecker(file, n_vocab).check(); }

}  // namespace kvase
