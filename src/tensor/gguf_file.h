// SPDX-License-Identifier: MIT
// A GGUF file whose header was checked byte by byte before ggml saw it: what it says about itself holds.
//
// ggml's reader and getters assert on some malformed files, and libllama reads the same file later; so
// everything that either relies on is checked here first. Weights' values are not read. Immutable after
// construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ggml.h"
#include "gguf.h"

#include "base/printable.h"

namespace kvase {

struct GgufTensor {
  std::string name;
  ggml_type type = GGML_TYPE_F32;
  uint32_t n_dims = 1;                    // 1..4, as the file says
  std::array<int64_t, 4> ne{1, 1, 1, 1};  // [fastest, ...], each >= 1
  size_t offset = 0;                      // from the start of the file, bytes; offset + bytes <= file_bytes()
  size_t bytes = 0;
};

// "[64, 512]", without trailing ones beyond n_dims.
std::string shape_text(const GgufTensor& tensor);

class GgufFile {
 public:
  // Throws Error: invalid_argument (no such file, not a regular file, not readable), bad_model_file (what,
  // found, allowed).
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return path_; }
  size_t file_bytes() const { return file_bytes_; }
  const gguf_context* gguf() const { return gguf_.get(); }
  // One tensor without data per tensor of the file, in file order.
  ggml_context* ggml() const { return ggml_.get(); }

  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in file order
  const GgufTensor* find_tensor(const std::string& name) const;        // nullptr if there is none
  const std::vector<std::string>& keys() const { return keys_; }       // in file order

  // Values by key. find_*: nothing if the key is missing. Throws Error(bad_model_file) if the value is of
  // another kind or out of range; get_*: also if the key is missing.
  bool has(const std::string& key) const;
  std::optional<uint32_t> find_u32(const std::string& key, uint32_t min,
                                   uint32_t max) const;  // any integer type
  uint32_t get_u32(const std::string& key, uint32_t min, uint32_t max) const;
  std::optional<float> find_f32(const std::string& key) const;  // f32 or f64, finite
  float get_f32(const std::string& key) const;
  std::optional<bool> find_bool(const std::string& key) const;
  std::optional<std::string> find_string(const std::string& key) const;  // up to the first zero byte
  std::string get_string(const std::string& key) const;
  std::optional<std::vector<int64_t>> find_integers(
      const std::string& key) const;                                            // array of any integer type
  std::optional<std::vector<float>> find_floats(const std::string& key) const;  // array of f32, finite
  std::optional<std::vector<std::string>> find_strings(
      const std::string& key) const;  // each up to its first zero byte
  bool is_array(const std::string& key) const;

  // "u32", "f32", "array of str"; "nothing" if the key is missing.
  std::string type_text(const std::string& key) const;

 private:
  struct FreeGguf {
    void operator()(gguf_context* context) const { gguf_free(context); }
  };
  struct FreeGgml {
    void operator()(ggml_context* context) const { ggml_free(context); }
  };

  int64_t id(const std::string& key) const;  // -1 if missing
  [[noreturn]] void wrong_type(const std::string& key, const char* allowed) const;
  [[noreturn]] void missing(const std::string& key, const char* allowed) const;

  std::string path_;
  size_t file_bytes_ = 0;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, size_t> tensor_index_;
  std::vector<std::string> keys_;
  std::unordered_map<std::string, int64_t> key_index_;
  std::unique_ptr<gguf_context, FreeGguf> gguf_;
  std::unique_ptr<ggml_context, FreeGgml> ggml_;
};

}  // namespace kvase
