// SPDX-License-Identifier: MIT
// Tests of whole model files: toy models load; truncated and damaged ones give an error and never an abort,
// here and in libllama.
#include "model/model_info.h"

#include <fcntl.h>
#include <unistd.h>

#include "llama.h"
#include "tensor/test_gguf.h"

namespace kvase {
namespace {

using test::Bytes;
using test::error_of;
using test::expect_error;
using test::TempDir;

TEST(ModelInfo, ToyModelsOfEveryFamilyAreWhatTheirSpecSays) {
  const TempDir dir;
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    SCOPED_TRACE(architecture);
    ToyModelSpec spec;
    spec.architecture = architecture;
    spec.n_heads = 6;
    spec.n_kv_heads = 2;
    spec.head_dim = 32;
    spec.n_embd = 128;  // not heads * head_dim
    spec.weight_type = GGML_TYPE_Q8_0;
    const std::string path = dir.file("toy.gguf");
    write_toy_model(path, spec);
    const ModelInfo info = read_model_info(path);
    EXPECT_EQ(info.architecture, architecture);
    EXPECT_EQ(info.name, "toy");
    EXPECT_EQ(info.path, path);
    EXPECT_EQ(info.n_layers, 2U);
    EXPECT_EQ(info.n_heads, 6U);
    EXPECT_EQ(info.n_kv_heads, 2U);
    EXPECT_EQ(info.head_dim, 32U);
    EXPECT_EQ(info.n_embd, 128U);
    EXPECT_EQ(info.n_ff, 256U);
    EXPECT_EQ(info.n_vocab, 512U);
    EXPECT_EQ(info.n_ctx_train, 4096U);
    EXPECT_GT(info.weights_bytes, 2U * 512U * 128U);
    EXPECT_TRUE(info.warnings.empty()) << info.warnings.front();
  }
}

TEST(ModelInfo, UnknownArchitecture) {
  const TempDir dir;
  write_toy_model(dir.file("toy.gguf"), test::tiny_spec());
  test::rewrite(dir.file("toy.gguf"), dir.file("other.gguf"),
                {.keys = [](gguf_context* gguf) { gguf_set_val_str(gguf, "general.architecture", "foo"); }});
  expect_error([&] { read_model_info(dir.file("other.gguf")); }, ErrorCode::unsupported,
               "architecture \"foo\" is not supported, allowed: llama, qwen2, qwen3");
}

TEST(ModelInfo, ArchitectureOfAnotherTypeOrMissing) {
  const TempDir dir;
  write_toy_model(dir.file("toy.gguf"), test::tiny_spec());
  test::rewrite(dir.file("toy.gguf"), dir.file("number.gguf"),
                {.keys = [](gguf_context* gguf) { gguf_set_val_u32(gguf, "general.architecture", 1); }});
  expect_error([&] { read_model_info(dir.file("number.gguf")); }, ErrorCode::bad_model_file,
               "found u32, allowed str");
  test::rewrite(dir.file("toy.gguf"), dir.file("none.gguf"),
                {.keys = [](gguf_context* gguf) { gguf_remove_key(gguf, "general.architecture"); }});
  expect_error([&] { read_model_info(dir.file("none.gguf")); }, ErrorCode::bad_model_file,
               "key \"general.architecture\" is missing");
}

TEST(ModelInfo, OnePartOfASplitModel) {
  const TempDir dir;
  write_toy_model(dir.file("toy.gguf"), test::tiny_spec());
  test::rewrite(dir.file("toy.gguf"), dir.file("part.gguf"),
                {.keys = [](gguf_context* gguf) { gguf_set_val_u16(gguf, "split.count", 3); }});
  expect_error([&] { read_model_info(dir.file("part.gguf")); }, ErrorCode::unsupported, "split into 3 files");
}

TEST(ModelInfo, UnknownKeysAndTensorsAreWarnings) {
  const TempDir dir;
  write_toy_model(dir.file("toy.gguf"), test::tiny_spec());
  test::rewrite(dir.file("toy.gguf"), dir.file("extra.gguf"),
                {.keys = [](gguf_context* gguf) { gguf_set_val_f32(gguf, "llama.logit_scale", 2.0F); },
                 .drop = {},
                 .add = {{"vision.weight", GGML_TYPE_F32, {4}}}});
  const ModelInfo info = read_model_info(dir.file("extra.gguf"));
  ASSERT_EQ(info.warnings.size(), 2U);
  EXPECT_NE(info.warnings[0].find("\"vision.weight\" [4] is not used"), std::string::npos);
  EXPECT_NE(info.warnings[1].find("\"llama.logit_scale\" is not known"), std::string::npos);
}

size_t header_bytes(const std::string& path) { return gguf_get_data_offset(GgufFile(path).gguf()); }

TEST(DamagedModel, TruncatedAtEveryByteOfTheHeader) {
  const TempDir dir;
  const std::string path = dir.file("toy.gguf");
  write_toy_model(path, test::tiny_spec("qwen3"));
  const auto n_header = static_cast<off_t>(header_bytes(path));
  for (off_t length = n_header; length >= 0; --length) {
    ASSERT_EQ(::truncate(path.c_str(), length), 0);
    const test::SeenError seen = error_of([&] { read_model_info(path); });
    ASSERT_TRUE(seen.thrown) << "loaded with " << length << " bytes";
    ASSERT_EQ(static_cast<int>(seen.code), static_cast<int>(ErrorCode::bad_model_file)) << seen.message;
  }
}

TEST(DamagedModel, TruncatedAnywhereInTheData) {
  const TempDir dir;
  const std::string path = dir.file("toy.gguf");
  write_toy_model(path, test::tiny_spec());
  const GgufTensor last = GgufFile(path).tensors().back();
  const size_t n_header = header_bytes(path);
  // The padding after the last tensor is not needed.
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(last.offset + last.bytes)), 0);
  EXPECT_FALSE(error_of([&] { read_model_info(path); }).thrown);
  for (size_t length = last.offset + last.bytes - 1; length > n_header;
       length -= std::min<size_t>(length - n_header, 101)) {
    ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(length)), 0);
    expect_error([&] { read_model_info(path); }, ErrorCode::bad_model_file, "truncated in tensor");
  }
}

// Loads a vocabulary as the engine does, and tokenizes. A null model and an exception are fine; an abort ends
// the test.
void use_vocabulary(const std::string& path, const VocabInfo& info) {
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = llama_model_load_from_file(path.c_str(), params);
  if (model == nullptr) {
    return;
  }
  const llama_vocab* vocab = llama_model_get_vocab(model);
  const std::string text = "the user and\n<|im_end|>\xe6\xad ing";
  std::vector<llama_token> tokens(256);
  try {
    const int32_t n =
        llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(), 256,
                       /*add_special=*/info.has_bos, /*parse_special=*/true);
    for (int32_t index = 0; index < n; ++index) {
      char piece[256];
      llama_token_to_piece(vocab, tokens[static_cast<size_t>(index)], piece, sizeof(piece), 0, true);
    }
  } catch (const std::exception&) {
    llama_model_free(model);
    throw;
  }
  llama_model_free(model);
}

// Overwrites single bytes of a file in place.
class BytePatcher {
 public:
  explicit BytePatcher(const std::string& path) : fd_(::open(path.c_str(), O_WRONLY)) {}
  ~BytePatcher() { ::close(fd_); }
  BytePatcher(const BytePatcher&) = delete;
  BytePatcher& operator=(const BytePatcher&) = delete;
  void put(size_t at, uint8_t value) const { ASSERT_EQ(::pwrite(fd_, &value, 1, static_cast<off_t>(at)), 1); }

 private:
  int fd_;
};

struct FlipCounts {
  size_t refused = 0;
  size_t loaded = 0;
};

// Changes every byte of the header in turn. What our checks let through must not abort libllama.
FlipCounts flip_every_header_byte(const std::string& path, const std::vector<uint8_t>& masks) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  const Bytes original = test::read_bytes(path);
  const size_t n_header = header_bytes(path);
  const BytePatcher patcher(path);
  FlipCounts counts;
  for (size_t at = 0; at < n_header; ++at) {
    for (const uint8_t mask : masks) {
      patcher.put(at, original[at] ^ mask);
      try {
        const ModelHeader header = check_model(GgufFile(path));
        ++counts.loaded;
        use_vocabulary(path, header.vocab);
      } catch (const Error&) {
        ++counts.refused;
      }
    }
    patcher.put(at, original[at]);
  }
  EXPECT_FALSE(error_of([&] { read_model_info(path); }).thrown);
  llama_log_set(nullptr, nullptr);
  return counts;
}

TEST(DamagedModel, AnyByteOfABytePairHeaderChanged) {
  const TempDir dir;
  write_toy_model(dir.file("toy.gguf"), test::tiny_spec("qwen2"));
  const FlipCounts counts = flip_every_header_byte(dir.file("toy.gguf"), {0x01, 0x80, 0xFF});
  EXPECT_GT(counts.refused, 5000U);
  EXPECT_GT(counts.loaded, 100U);
}

TEST(DamagedModel, AnyByteOfASentencePieceHeaderChanged) {
  const TempDir dir;
  ToyModelSpec spec = test::tiny_spec("llama");
  spec.vocab = ToyVocab::sentence_piece;
  write_toy_model(dir.file("toy.gguf"), spec);
  const FlipCounts counts = flip_every_header_byte(dir.file("toy.gguf"), {0x01, 0x80, 0xFF});
  EXPECT_GT(counts.refused, 5000U);
  EXPECT_GT(counts.loaded, 100U);
}

}  // namespace
}  // namespace kvase
