// SPDX-License-Identifier: MIT
// Scans a GGUF header with bounds on everything, then hands the file to ggml.
#include "tensor/gguf_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <unordered_set>

#include "base/errors.h"

namespace kvase {

namespace {

constexpr uint64_t kMaxKeyBytes = 65535;  // GGUF specification
constexpr uint64_t kMaxStringBytes = uint64_t{256}
                                     << 20;  // no known value comes near; ggml refuses above 1 GiB
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 30;  // as ggml
constexpr uint32_t kMinAlignment = 8;                      // GGUF specification: a multiple of 8
constexpr uint32_t kMaxAlignment = 65536;
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;  // key length, key, type, one byte
constexpr uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8;  // name length, name, n_dims, one dimension, type, offset

size_t gguf_type_bytes(uint32_t type) {
  switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL:
      return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16:
      return 2;
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32:
      return 4;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

std::string read_error(const std::string& path) {
  return fmt::format("cannot read \"{}\": {}", path, std::strerror(errno));
}

// What the scan finds.
struct Header {
  uint64_t n_keys = 0;
  std::vector<std::string> keys;
  std::vector<GgufTensor> tensors;
};

class HeaderScanner {
 public:
  HeaderScanner(const std::string& path, size_t file_bytes) : path_(path), file_bytes_(file_bytes) {
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (file_ == nullptr) {
      throw Error(ErrorCode::invalid_argument, read_error(path));
    }
  }

  Header scan() {
    Header header;
    scan_magic();
    const uint64_t n_tensors = count("number of tensors", kMinTensorBytes);
    const uint64_t n_keys = count("number of keys", kMinKeyValueBytes);
    // Both counts were checked against the bytes that follow them, so these loops end.
    std::unordered_set<std::string> seen_keys;
    for (uint64_t index = 0; index < n_keys; ++index) {
      header.keys.push_back(scan_key(seen_keys));
    }
    header.n_keys = n_keys;
    std::unordered_set<std::string> seen_names;
    std::vector<uint64_t> offsets;
    for (uint64_t index = 0; index < n_tensors; ++index) {
      header.tensors.push_back(scan_tensor(seen_names, offsets));
    }
    place_tensors(header.tensors, offsets);
    return header;
  }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  template <typename... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    bad_file("{}: {}", path_, fmt::format(format, std::forward<Args>(args)...));
  }

  uint64_t remaining() const { return file_bytes_ - pos_; }

  void read(void* out, uint64_t n_bytes, std::string_view what) {
    if (n_bytes > remaining()) {
      bad("file is truncated in {}: {} bytes needed at byte {}, {} left", what, n_bytes, pos_, remaining());
    }
    if (std::fread(out, 1, n_bytes, file_.get()) != n_bytes) {
      throw Error(ErrorCode::invalid_argument, read_error(path_));
    }
    pos_ += n_bytes;
  }

  // Reads a little-endian number; ggml supports files of the host's byte order only, and so do we.
  template <typename Number>
  Number number(std::string_view what) {
    Number value{};
    read(&value, sizeof(value), what);
    return value;
  }

  std::string text(std::string_view what, uint64_t max_bytes) {
    const auto length = number<uint64_t>(what);
    if (length > max_bytes || length > remaining()) {
      bad("length of {}: found {}, allowed 0..{}", what, length, std::min(max_bytes, remaining()));
    }
    std::string value(length, '\0');
    read(value.data(), length, what);
    return value;
  }

  // A name that is not empty and can stand in a message and in a C string.
  std::string name(std::string_view what, uint64_t max_bytes) {
    std::string value = text(what, max_bytes);
    const bool plain = std::none_of(value.begin(), value.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
    });
    if (value.empty() || !plain) {
      bad("{}: found \"{}\", allowed 1..{} bytes without control characters", what, printable(value),
          max_bytes);
    }
    return value;
  }

  void scan_magic() {
    char magic[4] = {};
    read(magic, sizeof(magic), "the magic bytes");
    if (std::memcmp(magic, GGUF_MAGIC, sizeof(magic)) != 0) {
      bad("not a GGUF file: found first bytes \"{}\", allowed \"GGUF\"", printable({magic, sizeof(magic)}));
    }
    const auto version = number<uint32_t>("the version");
    if (version != 2 && version != 3) {
      bad("GGUF version: found {}, allowed 2 or 3", version);
    }
  }

  uint64_t count(const char* what, uint64_t min_bytes_each) {
    const auto value = number<uint64_t>(what);
    if (value > remaining() / min_bytes_each) {
      bad("{}: found {}, allowed 0..{} in the {} bytes that follow", what, value,
          remaining() / min_bytes_each, remaining());
    }
    return value;
  }

  std::string scan_key(std::unordered_set<std::string>& seen) {
    std::string key = name("a key", kMaxKeyBytes);
    if (!seen.insert(key).second) {
      bad("key \"{}\" is there twice, allowed once", printable(key));
    }
    const auto type = number<uint32_t>("the type of a value");
    if (key == GGUF_KEY_GENERAL_ALIGNMENT) {
      scan_alignment(type);
    } else if (type == GGUF_TYPE_ARRAY) {
      scan_array(key);
    } else {
      scan_values(key, type, 1);
    }
    return key;
  }

  void scan_alignment(uint32_t type) {
    if (type != GGUF_TYPE_UINT32) {
      bad("{}: found value type {}, allowed u32", GGUF_KEY_GENERAL_ALIGNMENT, type);
    }
    alignment_ = number<uint32_t>(GGUF_KEY_GENERAL_ALIGNMENT);
    if (alignment_ < kMinAlignment || alignment_ > kMaxAlignment || (alignment_ & (alignment_ - 1)) != 0) {
      bad("{}: found {}, allowed a power of two in {}..{}", GGUF_KEY_GENERAL_ALIGNMENT, alignment_,
          kMinAlignment, kMaxAlignment);
    }
  }

  void scan_array(const std::string& key) {
    const auto type = number<uint32_t>("the element type of an array");
    const auto n = number<uint64_t>("the length of an array");
    const uint64_t min_bytes =
        type == GGUF_TYPE_STRING ? sizeof(uint64_t) : std::max<size_t>(gguf_type_bytes(type), 1);
    if (n > kMaxArrayElements || n > remaining() / min_bytes) {
      bad("key \"{}\": found an array of {} elements, allowed 0..{} in the {} bytes that follow",
          printable(key), n, std::min(kMaxArrayElements, remaining() / min_bytes), remaining());
    }
    scan_values(key, type, n);
  }

  void scan_values(const std::string& key, uint32_t type, uint64_t n) {
    if (type == GGUF_TYPE_STRING) {
      for (uint64_t index = 0; index < n; ++index) {
        text("a string value", kMaxStringBytes);
      }
    } else if (type == GGUF_TYPE_BOOL) {
      for (uint64_t index = 0; index < n; ++index) {
        const auto value = number<uint8_t>("a bool");
        if (value > 1) {
          bad("key \"{}\": found bool {}, allowed 0 or 1", printable(key), value);
        }
      }
    } else if (gguf_type_bytes(type) > 0) {
      skip(n * gguf_type_bytes(type));
    } else {
      bad("key \"{}\": found value type {}, allowed 0..{}, and no array in an array", printable(key), type,
          static_cast<int>(GGUF_TYPE_COUNT) - 1);
    }
  }

  // n_bytes came from n <= 2^30 elements of at most 8 bytes: no overflow.
  void skip(uint64_t n_bytes) {
    if (n_bytes > remaining()) {
      bad("file is truncated in a value: {} bytes needed at byte {}, {} left", n_bytes, pos_, remaining());
    }
    if (fseeko(file_.get(), static_cast<off_t>(n_bytes), SEEK_CUR) != 0) {
      throw Error(ErrorCode::invalid_argument, read_error(path_));
    }
    pos_ += n_bytes;
  }

  GgufTensor scan_tensor(std::unordered_set<std::string>& seen, std::vector<uint64_t>& offsets) {
    GgufTensor tensor;
    tensor.name = name("a tensor name", GGML_MAX_NAME - 1);
    if (!seen.insert(tensor.name).second) {
      bad("tensor \"{}\" is there twice, allowed once", printable(tensor.name));
    }
    scan_shape(tensor);
    scan_type(tensor);
    offsets.push_back(number<uint64_t>("a tensor offset"));
    return tensor;
  }

  void scan_shape(GgufTensor& tensor) {
    tensor.n_dims = number<uint32_t>("the number of dimensions of a tensor");
    if (tensor.n_dims < 1 || tensor.n_dims > GGML_MAX_DIMS) {
      bad("tensor \"{}\": found {} dimensions, allowed 1..{}", printable(tensor.name), tensor.n_dims,
          GGML_MAX_DIMS);
    }
    int64_t n_elements = 1;
    for (uint32_t dim = 0; dim < tensor.n_dims; ++dim) {
      const auto length = number<uint64_t>("a dimension of a tensor");
      if (length < 1 || length > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        bad("tensor \"{}\": found dimension {} of length {}, allowed 1..2^63-1", printable(tensor.name), dim,
            length);
      }
      tensor.ne[dim] = static_cast<int64_t>(length);
      if (__builtin_mul_overflow(n_elements, tensor.ne[dim], &n_elements)) {
        bad("tensor \"{}\": found shape {}, allowed less than 2^63 elements", printable(tensor.name),
            shape_text(tensor));
      }
    }
  }

  void scan_type(GgufTensor& tensor) {
    const auto type = number<uint32_t>("the type of a tensor");
    // A type that ggml removed keeps its number with a block size of zero.
    const int64_t block = type < GGML_TYPE_COUNT ? ggml_blck_size(static_cast<ggml_type>(type)) : 0;
    if (block <= 0) {
      bad("tensor \"{}\": found type {}, allowed a type that ggml computes", printable(tensor.name), type);
    }
    tensor.type = static_cast<ggml_type>(type);
    if (tensor.ne[0] % block != 0) {
      bad("tensor \"{}\": found rows of {} elements, allowed multiples of {} for type {}",
          printable(tensor.name), tensor.ne[0], block, ggml_type_name(tensor.type));
    }
    size_t bytes = ggml_type_size(tensor.type);
    bool overflow = __builtin_mul_overflow(bytes, static_cast<size_t>(tensor.ne[0] / block), &bytes);
    for (uint32_t dim = 1; dim < tensor.n_dims; ++dim) {
      overflow = overflow || __builtin_mul_overflow(bytes, static_cast<size_t>(tensor.ne[dim]), &bytes);
    }
    if (overflow) {
      bad("tensor \"{}\": found shape {} of type {}, allowed less than 2^64 bytes", printable(tensor.name),
          shape_text(tensor), ggml_type_name(tensor.type));
    }
    tensor.bytes = bytes;
  }

  // Tensors must follow one another in file order, each at the next aligned offset: ggml reads no other
  // layout, and so none can overlap.
  void place_tensors(std::vector<GgufTensor>& tensors, const std::vector<uint64_t>& offsets) const {
    const uint64_t data_start = align(pos_);
    uint64_t expected = 0;  // relative to data_start
    for (size_t index = 0; index < tensors.size(); ++index) {
      GgufTensor& tensor = tensors[index];
      if (offsets[index] != expected) {
        bad("tensor \"{}\": found offset {}, allowed {}, the end of the tensor before it",
            printable(tensor.name), offsets[index], expected);
      }
      const uint64_t start = data_start + expected;
      if (start > file_bytes_ || tensor.bytes > file_bytes_ - start) {
        bad("file is truncated in tensor \"{}\": shape {} of type {} needs {} bytes at byte {}, the file has "
            "{}",
            printable(tensor.name), shape_text(tensor), ggml_type_name(tensor.type), tensor.bytes, start,
            file_bytes_);
      }
      tensor.offset = data_start + expected;
      expected = align(expected + tensor.bytes);
    }
  }

  uint64_t align(uint64_t value) const { return (value + alignment_ - 1) / alignment_ * alignment_; }

  std::string path_;
  uint64_t file_bytes_ = 0;
  uint64_t pos_ = 0;
  uint32_t alignment_ = GGUF_DEFAULT_ALIGNMENT;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

size_t regular_file_bytes(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error) {  // set too if there is no such file
    invalid("cannot read \"{}\": {}", path, error.message());
  }
  if (!std::filesystem::is_regular_file(status)) {
    invalid("cannot read \"{}\": found {}, allowed a regular file", path,
            std::filesystem::is_directory(status) ? "a directory" : "a special file");
  }
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) {
    invalid("cannot read \"{}\": {}", path, error.message());
  }
  return bytes;
}

// One element of an integer array or a scalar, from ggml's copy of the value.
std::optional<int64_t> integer_at(gguf_type type, const void* data, size_t index) {
  const auto element = [&](auto zero) {
    auto value = zero;
    std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(value), sizeof(value));
    return value;
  };
  switch (type) {
    case GGUF_TYPE_UINT8:
      return element(uint8_t{});
    case GGUF_TYPE_INT8:
      return element(int8_t{});
    case GGUF_TYPE_UINT16:
      return element(uint16_t{});
    case GGUF_TYPE_INT16:
      return element(int16_t{});
    case GGUF_TYPE_UINT32:
      return element(uint32_t{});
    case GGUF_TYPE_INT32:
      return element(int32_t{});
    case GGUF_TYPE_INT64:
      return element(int64_t{});
    case GGUF_TYPE_UINT64: {
      const auto value = element(uint64_t{});  // no number of a model is larger
      return static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max()));
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string shape_text(const GgufTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims, ", "));
}

GgufFile::GgufFile(const std::string& path) : path_(path), file_bytes_(regular_file_bytes(path)) {
  Header header = HeaderScanner(path, file_bytes_).scan();
  tensors_ = std::move(header.tensors);
  keys_ = std::move(header.keys);
  for (size_t index = 0; index < tensors_.size(); ++index) {
    tensor_index_.emplace(tensors_[index].name, index);
  }

  ggml_context* tensors = nullptr;
  gguf_.reset(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = &tensors}));
  ggml_.reset(tensors);
  if (gguf_ == nullptr || ggml_ == nullptr) {
    bad_file(
        "{}: ggml cannot read the header, found damage that was not diagnosed, allowed a valid GGUF file",
        path);
  }
  for (int64_t index = 0; index < gguf_get_n_kv(gguf_.get()); ++index) {
    key_index_.emplace(gguf_get_key(gguf_.get(), index), index);
  }
}

const GgufTensor* GgufFile::find_tensor(const std::string& name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

int64_t GgufFile::id(const std::string& key) const {
  const auto found = key_index_.find(key);
  return found == key_index_.end() ? -1 : found->second;
}

bool GgufFile::has(const std::string& key) const { return id(key) >= 0; }

bool GgufFile::is_array(const std::string& key) const {
  return has(key) && gguf_get_kv_type(gguf_.get(), id(key)) == GGUF_TYPE_ARRAY;
}

std::string GgufFile::type_text(const std::string& key) const {
  if (!has(key)) {
    return "nothing";
  }
  if (is_array(key)) {
    return fmt::format("array of {}", gguf_type_name(gguf_get_arr_type(gguf_.get(), id(key))));
  }
  return gguf_type_name(gguf_get_kv_type(gguf_.get(), id(key)));
}

void GgufFile::wrong_type(const std::string& key, const char* allowed) const {
  bad_file("{}: key \"{}\": found {}, allowed {}", path_, printable(key), type_text(key), allowed);
}

void GgufFile::missing(const std::string& key, const char* allowed) const {
  bad_file("{}: key \"{}\" is missing, allowed {}", path_, printable(key), allowed);
}

std::optional<uint32_t> GgufFile::find_u32(const std::string& key, uint32_t min, uint32_t max) const {
  if (!has(key)) {
    return std::nullopt;
  }
  const gguf_type type = gguf_get_kv_type(gguf_.get(), id(key));
  const bool scalar = gguf_type_bytes(type) > 0;
  const auto value = scalar ? integer_at(type, gguf_get_val_data(gguf_.get(), id(key)), 0) : std::nullopt;
  if (!value) {
    wrong_type(key, "an integer");
  }
  if (*value < int64_t{min} || *value > int64_t{max}) {
    bad_file("{}: key \"{}\": found {}, allowed {}..{}", path_, printable(key), *value, min, max);
  }
  return static_cast<uint32_t>(*value);
}

uint32_t GgufFile::get_u32(const std::string& key, uint32_t min, uint32_t max) const {
  const auto value = find_u32(key, min, max);
  if (!value) {
    missing(key, "an integer");
  }
  return *value;
}

std::optional<float> GgufFile::find_f32(const std::string& key) const {
  if (!has(key)) {
    return std::nullopt;
  }
  const gguf_type type = gguf_get_kv_type(gguf_.get(), id(key));
  if (type != GGUF_TYPE_FLOAT32 && type != GGUF_TYPE_FLOAT64) {
    wrong_type(key, "f32");
  }
  const double value = type == GGUF_TYPE_FLOAT32 ? double{gguf_get_val_f32(gguf_.get(), id(key))}
                                                 : gguf_get_val_f64(gguf_.get(), id(key));
  // Written so that NaN fails too.
  if (!(std::abs(value) <= double{std::numeric_limits<float>::max()})) {
    bad_file("{}: key \"{}\": found {}, allowed a finite number", path_, printable(key), value);
  }
  return static_cast<float>(value);
}

float GgufFile::get_f32(const std::string& key) const {
  const auto value = find_f32(key);
  if (!value) {
    missing(key, "f32");
  }
  return *value;
}

std::optional<bool> GgufFile::find_bool(const std::string& key) const {
  if (!has(key)) {
    return std::nullopt;
  }
  if (gguf_get_kv_type(gguf_.get(), id(key)) != GGUF_TYPE_BOOL) {
    wrong_type(key, "bool");
  }
  return gguf_get_val_bool(gguf_.get(), id(key));
}

std::optional<std::string> GgufFile::find_string(const std::string& key) const {
  if (!has(key)) {
    return std::nullopt;
  }
  if (gguf_get_kv_type(gguf_.get(), id(key)) != GGUF_TYPE_STRING) {
    wrong_type(key, "str");
  }
  return gguf_get_val_str(gguf_.get(), id(key));
}

std::string GgufFile::get_string(const std::string& key) const {
  auto value = find_string(key);
  if (!value) {
    missing(key, "str");
  }
  return *std::move(value);
}

std::optional<std::vector<int64_t>> GgufFile::find_integers(const std::string& key) const {
  if (!has(key)) {
    return std::nullopt;
  }
  const gguf_type type = is_array(key) ? gguf_get_arr_type(gguf_.get(), id(key)) : GGUF_TYPE_STRING;
  if (gguf_type_bytes(type) == 0 || type == GGUF_TYPE_BOOL || type == GGUF_TYPE_FLOAT32 ||
      type == GGUF_TYPE_FLOAT64) {
    wrong_type(key, "an array of integers");
  }
  std::vector<int64_t> values(gguf_get_arr_n(gguf_.get(), id(key)));
  const void* data = gguf_get_arr_data(gguf_.get(), id(key));
  for (size_t index = 0; index < values.size(); ++index) {
    values[index] = *integer_at(type, data, index);
  }
  return values;
}

std::optional<std::vector<float>> GgufFile::find_floats(const std::string& key) const {
  if (!has(key)) {
    return std::nullopt;
  }
  if (!is_array(key) || gguf_get_arr_type(gguf_.get(), id(key)) != GGUF_TYPE_FLOAT32) {
    wrong_type(key, "an array of f32");
  }
  const auto* data = static_cast<const float*>(gguf_get_arr_data(gguf_.get(), id(key)));
  std::vector<float> values(data, data + gguf_get_arr_n(gguf_.get(), id(key)));
  for (const float value : values) {
    if (!std::isfinite(value)) {
      bad_file("{}: key \"{}\": found {}, allowed finite numbers", path_, printable(key), value);
    }
  }
  return values;
}

std::optional<std::vector<std::string>> GgufFile::find_strings(const std::string& key) const {
  if (!has(key)) {
    return std::nullopt;
  }
  if (!is_array(key) || gguf_get_arr_type(gguf_.get(), id(key)) != GGUF_TYPE_STRING) {
    wrong_type(key, "an array of str");
  }
  std::vector<std::string> values(gguf_get_arr_n(gguf_.get(), id(key)));
  for (size_t index = 0; index < values.size(); ++index) {
    values[index] = gguf_get_arr_str(gguf_.get(), id(key), index);
  }
  return values;
}

}  // namespace kvase
