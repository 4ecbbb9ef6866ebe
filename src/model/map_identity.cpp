// SPDX-License-Identifier: MIT
// Hashes names, types and shapes of all tensors, and the bytes of those behind K and V.
#include "model/map_identity.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/errors.h"

namespace kvase {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

// 64 bits, eight bytes a step, in the manner of FNV-1a with the high half folded back. It tells files apart
// that nobody made to be alike.
class Hash {
 public:
  void add(const void* data, size_t n_bytes) {
    const auto* bytes = static_cast<const char*>(data);
    while (n_bytes > 0) {
      uint64_t word = 0;
      const size_t n = std::min(n_bytes, sizeof(word));
      std::memcpy(&word, bytes, n);
      value_ = (value_ ^ word) * 0x100000001b3ULL;
      value_ ^= value_ >> 32;
      bytes += n;
      n_bytes -= n;
    }
  }
  void add(const std::string& text) { add(text.data(), text.size()); }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xcbf29ce484222325ULL;
};

// "blk.7.attn_k.weight", "blk.7.attn_v.bias", "blk.7.attn_k_norm.weight"
bool makes_keys_or_values(const std::string& name) {
  return name.find(".attn_k.") != std::string::npos || name.find(".attn_v.") != std::string::npos ||
         name.find(".attn_k_norm.") != std::string::npos;
}

class TensorReader {
 public:
  explicit TensorReader(const GgufFile& file) : path_(file.path()), stream_(path_, std::ios::binary) {}

  // Hands the tensor's bytes to `take` block by block.
  template <typename Take>
  void read(const GgufTensor& tensor, const Take& take) {
    stream_.seekg(static_cast<std::streamoff>(tensor.offset));
    for (size_t done = 0; done < tensor.bytes; done += block_.size()) {
      block_.resize(std::min(kBlockBytes, tensor.bytes - done));
      if (!stream_.read(block_.data(), static_cast<std::streamsize>(block_.size()))) {
        bad_file("{}: tensor \"{}\": cannot read its {} bytes, allowed: a file that does not change", path_,
                 tensor.name, tensor.bytes);
      }
      take(block_);
    }
  }

 private:
  std::string path_;
  std::ifstream stream_;
  std::vector<char> block_;
};

std::string hash_of(const GgufFile& file) {
  Hash hash;
  TensorReader reader(file);
  for (const GgufTensor& tensor : file.tensors()) {
    hash.add(tensor.name);
    hash.add(fmt::format("{} {}", ggml_type_name(tensor.type), shape_text(tensor)));
    if (makes_keys_or_values(tensor.name)) {
      reader.read(tensor, [&](const std::vector<char>& block) { hash.add(block.data(), block.size()); });
    }
  }
  return hash.text();
}

std::vector<float> angle_divisors(const GgufFile& file) {
  const GgufTensor* tensor = file.find_tensor("rope_freqs.weight");
  if (tensor == nullptr) return {};
  std::vector<char> bytes;
  TensorReader(file).read(*tensor, [&](const std::vector<char>& block) {
    bytes.insert(bytes.end(), block.begin(), block.end());
  });
  std::vector<float> divisors(bytes.size() / sizeof(float));
  std::memcpy(divisors.data(), bytes.data(), divisors.size() * sizeof(float));
  return divisors;
}

}  // namespace

MapIdentity map_identity(const GgufFile& file, const ModelHeader& header) {
  const HParams& params = header.params;
  const RopeParams& rope = params.rope;
  return {.architecture = params.architecture,
          .model_hash = hash_of(file),
          .n_layers = params.n_layers,
          .n_kv_heads = params.n_kv_heads,
          .head_dim = params.head_dim,
          .rope = {.n_rot = rope.n_rot,
                   .pairs = header.family->rope_pairing == RopePairing::neighbours ? RopePairs::adjacent
                                                                                   : RopePairs::half_split,
                   .freq_base = rope.freq_base,
                   .freq_scale = rope.freq_scale,
                   .ext_factor = rope.ext_factor,
                   .attn_factor = rope.attn_factor,
                   .beta_fast = rope.beta_fast,
                   .beta_slow = rope.beta_slow,
                   .n_ctx_orig = rope.n_ctx_orig,
                   .divisors = angle_divisors(file)}};
}

}  // namespace kvase
