// SPDX-License-Identifier: MIT
// A model's weights in memory: mapped from the file, or rearranged for the CPU's matmul kernels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/hparams.h"
#include "tensor/gguf_file.h"
#include "tensor/handles.h"

namespace kvase {

// Tensors of one layer; a pointer is null where the file has no such tensor. Shapes: tensor_list() in
// family.h.
struct LayerWeights {
  ggml_tensor* attn_norm = nullptr;
  ggml_tensor *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
  ggml_tensor *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *o_bias = nullptr;
  ggml_tensor *q_norm = nullptr, *k_norm = nullptr;
  ggml_tensor* ffn_norm = nullptr;
  ggml_tensor *gate = nullptr, *up = nullptr, *down = nullptr;
  ggml_tensor *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
};

// A file mapped read-only; unmapped by the destructor.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The layout into which the CPU backend rearranges a matrix [n_in, n_out] of this type, or null if it has
// none.
ggml_backend_buffer_type_t repack_layout(ggml_type type, int64_t n_in, int64_t n_out);

// Matrices of one type and layout, and what is known of their products.
struct MatrixKind {
  ggml_type type = GGML_TYPE_F32;
  bool repacked = false;
  uint32_t count = 0;
};

class Weights {
 public:
  // REQUIRES: check_tensors() passed. Throws Error: out_of_memory, invalid_argument (the file vanished).
  Weights(const GgufFile& file, const HParams& params, bool repack);
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  ggml_tensor* token_embd = nullptr;
  ggml_tensor* output_norm = nullptr;
  ggml_tensor* output = nullptr;      // token_embd, or a rearranged copy of it, if the file ties them
  ggml_tensor* rope_freqs = nullptr;  // f32 [n_rot / 2] or null
  std::vector<LayerWeights> layers;

  // All matrices that the graph multiplies by.
  std::vector<MatrixKind> matrix_kinds() const { return matrix_kinds_; }

  size_t mapped_bytes() const { return mapped_bytes_; }  // pages of the file, resident once used
  size_t read_bytes() const { return read_bytes_; }      // memory of our own

 private:
  // A tensor that is read into memory of its own instead of mapped.
  struct Read {
    ggml_tensor* tensor = nullptr;
    size_t file_offset = 0;
    ggml_backend_buffer_type_t type = nullptr;
  };

  ggml_tensor* describe(const GgufTensor& tensor, const char* suffix);
  ggml_tensor* map_or_read(const GgufTensor& tensor);
  ggml_tensor* place_matrix(const GgufTensor& tensor, bool repack);
  void count_matrix(ggml_type type, bool repacked);
  void read_all(const std::string& path);

  MappedFile mapping_;
  GgmlContext context_;  // descriptions of all tensors
  GgmlBuffer mapped_;
  std::vector<Read> to_read_;
  std::vector<MatrixKind> matrix_kinds_;
  std::vector<GgmlBuffer> buffers_;  // one per tensor read
  size_t mapped_bytes_ = 0;
  size_t read_bytes_ = 0;
};

}  // namespace kvase
