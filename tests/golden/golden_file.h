// SPDX-License-Identifier: MIT
// Reads the golden cases that tools/make_golden.py writes; its header says what is in them.
#pragma once

#include <gguf.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kvase/policy.h"
#include "kvase/score.h"

namespace kvase::golden {

class File {
 public:
  explicit File(const std::string& path)
      : gguf_(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}), gguf_free) {
    if (!gguf_) throw std::runtime_error("cannot read " + path);
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(gguf_get_data_offset(gguf_.get())));
    data_.assign(std::istreambuf_iterator<char>(file), {});
  }

  bool has(const std::string& tensor) const { return gguf_find_tensor(gguf_.get(), tensor.c_str()) >= 0; }

  // T: float, int32_t or double, as stored.
  template <typename T>
  std::vector<T> tensor(const std::string& name) const {
    const int64_t id = find(name);
    std::vector<T> values(gguf_get_tensor_size(gguf_.get(), id) / sizeof(T));
    std::memcpy(values.data(), data_.data() + gguf_get_tensor_offset(gguf_.get(), id),
                values.size() * sizeof(T));
    return values;
  }

  // Elements along dimension `axis`, fastest first.
  uint32_t size(const std::string& name, int axis) const {
    return static_cast<uint32_t>(gguf_get_tensor_ne(gguf_.get(), find(name))[axis]);
  }

  uint64_t number(const std::string& name) const { return gguf_get_val_u64(gguf_.get(), key(name)); }
  uint32_t small_number(const std::string& name) const { return static_cast<uint32_t>(number(name)); }
  std::string text(const std::string& name) const { return gguf_get_val_str(gguf_.get(), key(name)); }
  std::vector<std::string> texts(const std::string& name) const {
    std::vector<std::string> result(gguf_get_arr_n(gguf_.get(), key(name)));
    for (size_t index = 0; index < result.size(); ++index) {
      result[index] = gguf_get_arr_str(gguf_.get(), key(name), index);
    }
    return result;
  }

 private:
  int64_t find(const std::string& tensor) const {
    const int64_t id = gguf_find_tensor(gguf_.get(), tensor.c_str());
    if (id < 0) throw std::runtime_error("no tensor " + tensor);
    return id;
  }
  int64_t key(const std::string& name) const {
    const int64_t id = gguf_find_key(gguf_.get(), ("kvase.golden." + name).c_str());
    if (id < 0) throw std::runtime_error("no key " + name);
    return id;
  }

  std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf_;
  std::vector<char> data_;
};

// What the reference says of one policy. Vectors are laid out as in the file.
struct Expectation {
  std::string name;
  std::string policy;          // policy string
  std::vector<double> scores;  // empty if the reference has none
  std::vector<int32_t> keep;
  std::vector<int32_t> order;  // empty if the policy reports none
};

struct Case {
  std::string file, kind;  // kind: "event" or "run"
  ScoreInput input;
  uint32_t budget = 0, interval = 0, window = 0;
  EventContext event;  // n_sink is the method's
  std::vector<Expectation> expected;
};

inline std::string folder() { return std::string(KVASE_SOURCE_DIR) + "/tests/golden"; }

// Paths of the cases whose name starts with `prefix`: "event", "run" or "" for all.
inline std::vector<std::string> files(const std::string& prefix) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".gguf") && name.starts_with(prefix)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline Case read_case(const std::string& path) {
  const File file(path);
  Case result;
  result.file = std::filesystem::path(path).filename().string();
  result.kind = file.text("kind");
  result.input = {.head_dim = file.size("k", 0),
                  .n = file.size("k", 1),
                  .n_kv_heads = file.size("k", 2),
                  .n_heads = file.size("q", 2),
                  .w = file.size("q", 1),
                  .k = file.tensor<float>("k"),
                  .v = file.tensor<float>("v"),
                  .q = file.tensor<float>("q"),
                  .pos = file.tensor<int32_t>("pos")};
  result.budget = file.small_number("budget");
  result.interval = file.small_number("interval");
  result.window = file.small_number("window");
  result.event = {.seed = file.number("seed"),
                  .sequence = file.small_number("sequence"),
                  .layer = file.small_number("layer"),
                  .event = file.small_number("event"),
                  .n_seen = result.input.pos.back() + int64_t{1},
                  .window = result.window,
                  .n_sink = 0};
  const std::vector<std::string> names = file.texts("name"), policies = file.texts("policy");
  for (size_t index = 0; index < names.size(); ++index) {
    Expectation expected = {
        .name = names[index], .policy = policies[index], .scores = {}, .keep = {}, .order = {}};
    if (file.has("score." + names[index])) expected.scores = file.tensor<double>("score." + names[index]);
    expected.keep = file.tensor<int32_t>("keep." + names[index]);
    if (file.has("order." + names[index])) expected.order = file.tensor<int32_t>("order." + names[index]);
    result.expected.push_back(std::move(expected));
  }
  return result;
}

// How far a score of `method` may lie from the reference's, for f32 columns. Race keys are a logarithm:
// rounding of the mass moves them by an absolute amount. R-KV's scores are a difference of two probabilities,
// which may cancel.
inline double tolerance(const std::string& method, double reference) {
  const double relative = 1e-5 * std::abs(reference);
  if (method == "vase-attnv") return 1e-5;
  if (method == "rkv" || method == "rkv-vase") return relative + 1e-8;
  return relative;
}

}  // namespace kvase::golden
