// SPDX-License-Identifier: MIT
// The file of a model's value maps: a GGUF that says which model and which RoPE it was fitted for.
//
// Keys and tensors: docs/value-map.md. A file is checked against the model before any of its data is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "value_map/value_map.h"

namespace kvase {

// What a map must have in common with the model that uses it.
struct MapIdentity {
  std::string architecture;
  std::string model_hash;  // of the tensors that make keys and values
  uint32_t n_layers = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  RopeSetting rope;
};

// How a map came about.
struct MapOrigin {
  std::string model_name;
  std::string dataset;       // name of the text
  std::string cache_type_k;  // of the keys during fitting
  float ridge = 0.0F;
  uint64_t n_tokens = 0;                // fitted and held out
  std::vector<float> r2_train = {};     // centred, [n_kv_heads, n_layers]
  std::vector<float> r2_held_out = {};  // likewise
};

// Weights are stored in f16. Throws Error(invalid_argument) if the file cannot be written.
void save_value_maps(const std::string& path, const ValueMaps& maps, const MapIdentity& model,
                     const MapOrigin& origin);

// Throws Error: invalid_argument (not readable), bad_model_file (not a map, damaged, of another model, with
// another RoPE).
ValueMaps load_value_maps(const std::string& path, const MapIdentity& model);

}  // namespace kvase
