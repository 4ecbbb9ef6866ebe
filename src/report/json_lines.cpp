// SPDX-License-Identifier: MIT
// Whole lines in, whole lines out.
#include "report/json_lines.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "kvase/error.h"

namespace kvase::report {
namespace {

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

std::string read_whole_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("{}: {}, allowed: a file of rows", path, std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  return text;
}

Json parse_line(const std::string& path, std::string_view line, size_t number) {
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const char* const field = number == 1 ? "definition" : "key";
  const bool good = json.is_object() && json.contains(field) &&
                    (number == 1 ? json[field].is_object() : json[field].is_string());
  if (!good) {
    refuse("{}: line {}: found no JSON object with a {}, allowed: a file that such a run wrote", path, number,
           field);
  }
  return json;
}

JsonLines parse_lines(const std::string& path, std::string_view text) {
  JsonLines lines;
  size_t number = 0;
  std::set<std::string> keys;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    Json json = parse_line(path, text.substr(0, end), ++number);
    text.remove_prefix(end + 1);
    if (number == 1) {
      lines.definition = std::move(json["definition"]);
      continue;
    }
    if (!keys.insert(json["key"].get<std::string>()).second)
      refuse("{}: line {}: found key {} a second time, allowed: each once", path, number, json["key"].dump());
    lines.rows.push_back(std::move(json));
  }
  return lines;
}

std::string shown(const Json& json, const std::string& field) {
  if (!json.contains(field)) return "none";
  const std::string text = json[field].dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 120 ? text : text.substr(0, 117) + "...";
}

}  // namespace

JsonLines read_json_lines(const std::string& path) {
  const std::string text = read_whole_lines(path);
  if (text.empty()) refuse("{}: found no definition, allowed: a file that such a run wrote", path);
  return parse_lines(path, text);
}

void check_same_definition(const std::string& path, const Json& found, const Json& wanted) {
  std::set<std::string> fields;
  for (const auto& [field, value] : found.items()) fields.insert(field);
  for (const auto& [field, value] : wanted.items()) fields.insert(field);
  for (const std::string& field : fields) {
    if (found.value(field, Json()) == wanted.value(field, Json())) continue;
    refuse("{}: found rows with {} {}, this run has {}, allowed: the same, or another folder", path, field,
           shown(found, field), shown(wanted, field));
  }
}

JsonLinesFile::JsonLinesFile(const std::string& path, const Json& definition) : path_(path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) refuse("{}: {}, allowed: a folder that can be written", folder.string(), error.message());
  file_.reset(std::fopen(path.c_str(), "abe"));
  if (!file_) refuse("{}: {}, allowed: a file that can be written", path, std::strerror(errno));
  if (::flock(fileno(file_.get()), LOCK_EX | LOCK_NB) != 0)
    refuse("{}: another process writes to it, allowed: one at a time, or another folder", path);

  const std::string text = read_whole_lines(path);
  if (::ftruncate(fileno(file_.get()), static_cast<off_t>(text.size())) != 0)
    refuse("{}: {}, allowed: a file that can be written", path, std::strerror(errno));
  if (text.empty()) {
    write_line({{"definition", definition}});
    return;
  }
  JsonLines lines = parse_lines(path, text);
  check_same_definition(path, lines.definition, definition);
  rows_ = std::move(lines.rows);
  for (const Json& row : rows_) keys_.insert(row["key"].get<std::string>());
}

void JsonLinesFile::append(const std::string& key, const Json& row) {
  if (has(key)) throw Error(ErrorCode::internal, fmt::format("{}: row \"{}\" written twice", path_, key));
  Json line = {{"key", key}};
  line.update(row);
  write_line(line);
  keys_.insert(key);
  rows_.push_back(std::move(line));
}

void JsonLinesFile::write_line(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0)
    throw Error(ErrorCode::device, fmt::format("{}: {}, a row was not written", path_, std::strerror(errno)));
}

}  // namespace kvase::report
