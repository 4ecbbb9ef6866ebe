// SPDX-License-Identifier: MIT
// Long measurements in pieces: work items with a stable key each, one row each, in any order, on any number
// of machines, stopped and taken up at will.
//
// The recipe, which every `kvase eval` follows:
//   1. a definition (Json): what all rows must share to be compared, "kind" first;
//   2. a list of items, the same whatever the shard, each with a `key` that says what it is;
//   3. remaining(items, shard, store): what is left to do here;
//   4. store.append(item.key, row) as items are done;
//   5. a report made of store.lines(), which does not depend on the order of the rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvase/model.h"
#include "report/json_lines.h"

namespace kvase::eval {

using report::Json;
using report::JsonLines;

// The part of a list that one process does: items index-1, index-1+count, ... of it.
struct Shard {
  uint32_t index = 1;  // 1..count
  uint32_t count = 1;
};

// Reads "2/8". Throws Error(invalid_argument).
Shard parse_shard(std::string_view text);

// Rows of a run: in FOLDER/rows.jsonl, taken up if it is there; in memory alone without a folder.
class RowStore {
 public:
  // Throws as JsonLinesFile.
  RowStore(const std::optional<std::string>& folder, Json definition);

  bool has(const std::string& key) const { return file_ && file_->has(key); }
  void append(const std::string& key, const Json& row);
  JsonLines lines() const;

 private:
  Json definition_;
  std::optional<report::JsonLinesFile> file_;
  std::vector<Json> rows_;  // without a file
};

// The rows of several folders as one run, each key once (the first found). Throws Error(invalid_argument): a
// folder without rows, or rows under different definitions.
JsonLines merge_rows(const std::vector<std::string>& folders);

// Where a run keeps its rows.
std::string rows_path(const std::string& folder);

// Throws Error(invalid_argument) if a key is there twice.
void check_keys(const std::vector<std::string>& keys);

// The items of this shard that have no row yet, in order. Item: anything with a std::string key.
template <typename Item>
std::vector<Item> remaining(const std::vector<Item>& items, Shard shard, const RowStore& store) {
  std::vector<std::string> keys;
  for (const Item& item : items) keys.push_back(item.key);
  check_keys(keys);
  std::vector<Item> left;
  for (size_t number = shard.index - 1; number < items.size(); number += shard.count) {
    if (!store.has(items[number].key)) left.push_back(items[number]);
  }
  return left;
}

// What identifies a model in a definition, without a path: architecture, name, sizes, and a hash of the
// file's beginning and end.
Json model_definition(const ModelInfo& info);

// 64-bit FNV-1a in hexadecimal: enough to notice that an input is another one.
std::string fingerprint(std::string_view bytes);

}  // namespace kvase::eval
