// SPDX-License-Identifier: MIT
// Helpers of the tests in this folder: temporary files, hand-made GGUF bytes, edited toy models, caught
// errors.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ggml.h"
#include "gguf.h"
#include "kvase/error.h"
#include "toy_model/toy_model.h"

namespace kvase::test {

using Bytes = std::vector<uint8_t>;

// A folder of its own per test, removed with its files.
class TempDir {
 public:
  TempDir() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() / ("kvase_" + std::to_string(::getpid())) /
            (std::string(test->test_suite_name()) + "_" + test->name());
    std::filesystem::create_directories(path_);
  }
  ~TempDir() {
    std::filesystem::remove_all(path_);
    std::error_code not_empty;  // another test of this process has its folder there
    std::filesystem::remove(path_.parent_path(), not_empty);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline Bytes read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// Appends GGUF's primitive values.
class RawGguf {
 public:
  RawGguf& raw(const std::string& text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  template <typename Number>
  RawGguf& number(Number value) {
    const auto* begin = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(value));
    return *this;
  }
  RawGguf& text(const std::string& value) { return number<uint64_t>(value.size()).raw(value); }
  RawGguf& header(uint64_t n_tensors, uint64_t n_keys, uint32_t version = 3) {
    return raw("GGUF").number(version).number(n_tensors).number(n_keys);
  }
  RawGguf& u32_key(const std::string& key, uint32_t value) {
    return text(key).number<uint32_t>(GGUF_TYPE_UINT32).number(value);
  }
  RawGguf& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type = GGML_TYPE_F32,
                  uint64_t offset = 0) {
    text(name).number(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) {
      number(dim);
    }
    return number(type).number(offset);
  }
  RawGguf& pad(size_t n_bytes) {
    bytes_.resize(bytes_.size() + n_bytes);
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

struct SeenError {
  bool thrown = false;
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

// Runs `action`; anything but kvase::Error passes through and fails the test.
inline SeenError error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "not one line: " << error.what();
    return {true, error.code(), error.what()};
  }
  return {};
}

inline void expect_error(const std::function<void()>& action, ErrorCode code, const std::string& part) {
  const SeenError seen = error_of(action);
  ASSERT_TRUE(seen.thrown) << "no error; wanted \"" << part << "\"";
  EXPECT_EQ(static_cast<int>(seen.code), static_cast<int>(code)) << seen.message;
  EXPECT_NE(seen.message.find(part), std::string::npos)
      << "\"" << seen.message << "\" lacks \"" << part << "\"";
}

// One layer, 300 tokens: about 10 kB of header.
inline ToyModelSpec tiny_spec(const std::string& architecture = "llama") {
  ToyModelSpec spec;
  spec.architecture = architecture;
  spec.n_layers = 1;
  spec.n_embd = 16;
  spec.n_heads = 2;
  spec.n_kv_heads = 1;
  spec.head_dim = 8;
  spec.n_ff = 16;
  spec.n_vocab = 300;
  spec.n_ctx_train = 256;
  return spec;
}

struct GgufDeleter {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
struct GgmlDeleter {
  void operator()(ggml_context* context) const { ggml_free(context); }
};

struct ExtraTensor {
  std::string name;
  ggml_type type = GGML_TYPE_F32;
  std::vector<int64_t> shape;
};

// How a copy of a model file differs from it.
struct Edit {
  std::function<void(gguf_context*)> keys = [](gguf_context*) {};
  std::set<std::string> drop{};
  std::vector<ExtraTensor> add{};  // filled with zeros
};

inline void rewrite(const std::string& from, const std::string& to, const Edit& edit) {
  ggml_context* tensors = nullptr;
  const std::unique_ptr<gguf_context, GgufDeleter> source(
      gguf_init_from_file(from.c_str(), {.no_alloc = false, .ctx = &tensors}));
  ASSERT_NE(source, nullptr);
  const std::unique_ptr<ggml_context, GgmlDeleter> source_tensors(tensors);
  const std::unique_ptr<gguf_context, GgufDeleter> target(gguf_init_empty());
  gguf_set_kv(target.get(), source.get());
  edit.keys(target.get());
  for (int64_t index = 0; index < gguf_get_n_tensors(source.get()); ++index) {
    const char* name = gguf_get_tensor_name(source.get(), index);
    if (!edit.drop.contains(name)) {
      gguf_add_tensor(target.get(), ggml_get_tensor(tensors, name));
    }
  }
  const std::unique_ptr<ggml_context, GgmlDeleter> extra(ggml_init({size_t{1} << 20, nullptr, false}));
  for (const ExtraTensor& spec : edit.add) {
    ggml_tensor* tensor =
        ggml_new_tensor(extra.get(), spec.type, static_cast<int>(spec.shape.size()), spec.shape.data());
    std::memset(tensor->data, 0, ggml_nbytes(tensor));
    ggml_set_name(tensor, spec.name.c_str());
    gguf_add_tensor(target.get(), tensor);
  }
  ASSERT_TRUE(gguf_write_to_file(target.get(), to.c_str(), false));
}

}  // namespace kvase::test
