// SPDX-License-Identifier: MIT
// libllama's vocabulary, with what it would abort on or lose kept away from it.
#include "text/tokenizer.h"

#include <llama.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>

#include "base/errors.h"
#include "text/deep_stack.h"
#include "text/utf8.h"

namespace kvase {
namespace {

// Keeps libllama's log off the terminal while a file is read, and remembers its last error for our message.
// The log callback is global to the process, hence the lock, and what the host program had set is put back.
class QuietLog {
 public:
  QuietLog() : lock_(mutex()) {
    llama_log_get(&saved_callback_, &saved_data_);
    llama_log_set(&QuietLog::receive, this);
  }
  ~QuietLog() { llama_log_set(saved_callback_, saved_data_); }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

  const std::string& last_error() const { return last_error_; }

 private:
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }

  static void receive(ggml_log_level level, const char* text, void* data) {
    if (level != GGML_LOG_LEVEL_ERROR) return;
    std::string line = text;
    while (!line.empty() && line.back() == '\n') line.pop_back();
    std::replace(line.begin(), line.end(), '\n', ' ');
    std::string& last = static_cast<QuietLog*>(data)->last_error_;
    if (last.empty()) last = line;  // the first says why; later ones say that loading failed
  }

  std::lock_guard<std::mutex> lock_;
  ggml_log_callback saved_callback_ = nullptr;
  void* saved_data_ = nullptr;
  std::string last_error_;
};

llama_model* load_vocabulary(const std::string& path) {
  static ggml_backend_dev_t no_devices[] = {nullptr};
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  params.load_mode = LLAMA_LOAD_MODE_MMAP;
  params.devices = no_devices;  // do not wake GPUs for a list of words
  params.n_gpu_layers = 0;

  const QuietLog log;
  llama_model* model = nullptr;
  std::string reason;
  try {
    model = llama_model_load_from_file(path.c_str(), params);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  if (model == nullptr) {
    if (reason.empty()) reason = log.last_error();
    bad_file("{}: vocabulary cannot be read: {}", path, reason.empty() ? "no reason given" : reason);
  }
  return model;
}

// Some of libllama's pre-tokenizers are std::regex, which recurses once per character of a match: a run of
// 40,000 letters overflows a stack of 8 MiB (measured with deepseek-llm's: at most 420 bytes a letter).
constexpr size_t kMaxDirectRun = 4096;
constexpr size_t kStackBytesPerByte = 1024;

// The longest stretch of bytes that are all whitespace or all not: no pre-tokenizer's match is longer by more
// than a few.
size_t longest_run(std::string_view text) {
  size_t longest = 0;
  size_t run = 0;
  bool was_space = false;
  for (const char byte : text) {
    const bool is_space = byte == ' ' || (byte >= '\t' && byte <= '\r');
    run = is_space == was_space ? run + 1 : 1;
    was_space = is_space;
    longest = std::max(longest, run);
  }
  return longest;
}

}  // namespace

void Tokenizer::FreeModel::operator()(llama_model* model) const { llama_model_free(model); }

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer::Tokenizer(const std::string& path) : model_(load_vocabulary(path)) {
  vocab_ = llama_model_get_vocab(model_.get());
  const enum llama_vocab_type type = llama_vocab_type(vocab_);
  if (type != LLAMA_VOCAB_TYPE_BPE && type != LLAMA_VOCAB_TYPE_SPM) {
    fail(ErrorCode::unsupported,
         "{}: tokenizer of libllama's type {}, allowed: gpt2 (byte-level BPE), llama (SentencePiece)", path,
         static_cast<int>(type));
  }
  const int32_t n_vocab = llama_vocab_n_tokens(vocab_);
  if (n_vocab <= 0) bad_file("{}: vocabulary of {} tokens, allowed: 1 or more", path, n_vocab);
  n_vocab_ = static_cast<uint32_t>(n_vocab);

  find_special_tokens();
  find_byte_tokens();
  const bool all_bytes = std::find(byte_tokens_.begin(), byte_tokens_.end(), kNone) == byte_tokens_.end();
  keeps_bytes_ = type == LLAMA_VOCAB_TYPE_SPM && all_bytes;

  if (const char* source = llama_model_chat_template(model_.get(), nullptr)) chat_template_ = source;
}

// Where a file names no start or end token, libllama falls back on numbers that happen to be right for
// GPT-2's and Llama's vocabularies: in others an ordinary word would begin every prompt, or end every answer.
// Such a guess counts only if it is a control token. Where a file asks for a start token and has none,
// libllama would abort.
void Tokenizer::find_special_tokens() {
  const auto trusted = [this](Token token, const char* key) {
    if (token < 0 || static_cast<uint32_t>(token) >= n_vocab_) return false;
    char value[2];
    return llama_model_meta_val_str(model_.get(), key, value, sizeof(value)) >= 0 ||
           llama_vocab_is_control(vocab_, token);
  };
  const Token bos = llama_vocab_bos(vocab_);
  if (llama_vocab_get_add_bos(vocab_) && trusted(bos, "tokenizer.ggml.bos_token_id")) bos_ = bos;
  const Token eos = llama_vocab_eos(vocab_);
  if (!trusted(eos, "tokenizer.ggml.eos_token_id")) no_end_ = eos;
}

void Tokenizer::find_byte_tokens() {
  byte_tokens_.fill(kNone);
  for (Token token = 0; token < static_cast<Token>(n_vocab_); ++token) {
    const std::string bytes = piece(token);
    if (bytes.size() != 1) continue;
    Token& known = byte_tokens_[static_cast<uint8_t>(bytes[0])];
    // SentencePiece has both the letter "a" and the byte <0x61>; the letter's own text is never invalid, so
    // either will do.
    if (known == kNone) known = token;
  }
}

std::vector<Token> Tokenizer::tokenize(std::string_view text, bool add_special, bool parse_special) const {
  std::vector<Token> tokens;
  if (add_special && bos_ != kNone) tokens.push_back(bos_);
  if (keeps_bytes_) {
    append_valid(text, parse_special, tokens);
    return tokens;
  }
  // Byte-level BPE: libllama would turn bytes that are not UTF-8 into U+FFFD. Take them out one by one; what
  // lies between them is tokenized as if it stood alone.
  size_t begin = 0;
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Unit unit = utf8_unit(text, offset);
    if (unit.kind == Utf8Unit::Kind::valid) {
      offset += unit.n_bytes;
      continue;
    }
    append_valid(text.substr(begin, offset - begin), parse_special, tokens);
    for (const char byte : text.substr(offset, unit.n_bytes)) append_byte(static_cast<uint8_t>(byte), tokens);
    offset += unit.n_bytes;
    begin = offset;
  }
  append_valid(text.substr(begin), parse_special, tokens);
  return tokens;
}

void Tokenizer::append_byte(uint8_t byte, std::vector<Token>& tokens) const {
  if (byte_tokens_[byte] != kNone) {
    tokens.push_back(byte_tokens_[byte]);
  } else {
    append_valid(kReplacement, /*parse_special=*/false, tokens);
  }
}

void Tokenizer::append_valid(std::string_view text, bool parse_special, std::vector<Token>& tokens) const {
  if (text.empty()) return;
  constexpr size_t kMaxBytes = std::numeric_limits<int32_t>::max() / 2;
  if (text.size() > kMaxBytes) invalid("text of {} bytes, allowed: up to {} bytes", text.size(), kMaxBytes);
  const auto work = [&] { append_by_libllama(text, parse_special, tokens); };
  const size_t run = longest_run(text);
  if (run > kMaxDirectRun) {
    run_on_deep_stack(run * kStackBytesPerByte, work);
  } else {
    work();
  }
}

void Tokenizer::append_by_libllama(std::string_view text, bool parse_special,
                                   std::vector<Token>& tokens) const {
  const int32_t n_bytes = static_cast<int32_t>(text.size());
  const size_t n_before = tokens.size();
  try {
    // No vocabulary gives more tokens than bytes, plus the space that SentencePiece puts in front; the second
    // try is for those that expand text (normalisers).
    int32_t room = n_bytes + 16;
    tokens.resize(n_before + static_cast<size_t>(room));
    int32_t n =
        llama_tokenize(vocab_, text.data(), n_bytes, tokens.data() + n_before, room, false, parse_special);
    if (n < 0 && n != std::numeric_limits<int32_t>::min()) {
      room = -n;
      tokens.resize(n_before + static_cast<size_t>(room));
      n = llama_tokenize(vocab_, text.data(), n_bytes, tokens.data() + n_before, room, false, parse_special);
    }
    if (n < 0)
      invalid("text of {} bytes gives more tokens than can be counted, use a shorter one", text.size());
    tokens.resize(n_before + static_cast<size_t>(n));
  } catch (const std::out_of_range&) {
    // A SentencePiece vocabulary without byte tokens, and a character that it does not know.
    invalid("text has a character that this model's vocabulary can neither spell nor write as bytes");
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::out_of_memory, "text of {} bytes: no memory to tokenize it", text.size());
  }
}

std::string Tokenizer::piece(Token token, bool special) const {
  if (token < 0 || static_cast<uint32_t>(token) >= n_vocab_) {
    invalid("token {}, allowed: 0 to {}", token, n_vocab_ - 1);
  }
  std::string bytes(32, '\0');
  int32_t n =
      llama_token_to_piece(vocab_, token, bytes.data(), static_cast<int32_t>(bytes.size()), 0, special);
  if (n < 0) {
    bytes.resize(static_cast<size_t>(-n));
    n = llama_token_to_piece(vocab_, token, bytes.data(), static_cast<int32_t>(bytes.size()), 0, special);
  }
  bytes.resize(static_cast<size_t>(std::max(n, int32_t{0})));
  return bytes;
}

bool Tokenizer::is_end(Token token) const {
  return token >= 0 && static_cast<uint32_t>(token) < n_vocab_ && token != no_end_ &&
         llama_vocab_is_eog(vocab_, token);
}

bool Tokenizer::is_control(Token token) const {
  return token >= 0 && static_cast<uint32_t>(token) < n_vocab_ && llama_vocab_is_control(vocab_, token);
}

}  // namespace kvase
