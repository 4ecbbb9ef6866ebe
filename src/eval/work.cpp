// SPDX-License-Identifier: MIT
// Shards, stores, and what identifies an input.
#include "eval/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>

#include "kvase/error.h"

namespace kvase::eval {
namespace {

constexpr uint32_t kMostShards = 100'000;
constexpr std::streamoff kHashedBytes = 1 << 20;  // of the file's beginning, and of its end

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

std::optional<uint32_t> read_number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string read_piece(std::ifstream& file, std::streamoff begin, std::streamoff size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  file.seekg(begin);
  file.read(bytes.data(), size);
  return bytes;
}

std::string file_fingerprint(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (size < 0) refuse("{}: found no file that can be read, allowed: a GGUF file", path);
  const std::streamoff piece = std::min(size, kHashedBytes);
  return fingerprint(read_piece(file, 0, piece) + read_piece(file, size - piece, piece));
}

}  // namespace

Shard parse_shard(std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto index = read_number(text.substr(0, slash));
  const auto count = read_number(text.substr(std::min(slash + 1, text.size())));
  if (!index || !count || *count < 1 || *count > kMostShards || *index < 1 || *index > *count)
    refuse("--shard \"{}\", allowed: i/n with 1 <= i <= n <= {}, as 2/8", text, kMostShards);
  return {.index = *index, .count = *count};
}

RowStore::RowStore(const std::optional<std::string>& folder, Json definition)
    : definition_(std::move(definition)) {
  if (folder) file_.emplace(rows_path(*folder), definition_);
}

void RowStore::append(const std::string& key, const Json& row) {
  if (file_) {
    file_->append(key, row);
    return;
  }
  rows_.push_back({{"key", key}});
  rows_.back().update(row);
}

JsonLines RowStore::lines() const { return {definition_, file_ ? file_->rows() : rows_}; }

JsonLines merge_rows(const std::vector<std::string>& folders) {
  JsonLines merged;
  std::set<std::string> keys;
  for (const std::string& folder : folders) {
    JsonLines lines = report::read_json_lines(rows_path(folder));
    if (merged.definition.is_null()) merged.definition = lines.definition;
    report::check_same_definition(rows_path(folder), lines.definition, merged.definition);
    for (Json& row : lines.rows) {
      if (keys.insert(row["key"].get<std::string>()).second) merged.rows.push_back(std::move(row));
    }
  }
  return merged;
}

std::string rows_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "rows.jsonl").string();
}

void check_keys(const std::vector<std::string>& keys) {
  std::set<std::string_view> seen;
  for (const std::string& key : keys) {
    if (!seen.insert(key).second) refuse("found \"{}\" twice, allowed: everything once", key);
  }
}

Json model_definition(const ModelInfo& info) {
  return {{"architecture", info.architecture},
          {"name", info.name},
          {"file", std::filesystem::path(info.path).filename().string()},
          {"weights_bytes", info.weights_bytes},
          {"fingerprint", file_fingerprint(info.path)}};
}

std::string fingerprint(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

}  // namespace kvase::eval
