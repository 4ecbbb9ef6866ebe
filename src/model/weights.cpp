// SPDX-License-Identifier: MIT
// Decides for each tensor whether it is mapped or read, and reads the largest first.
#include "model/weights.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <span>

#include "base/errors.h"

namespace kvase {
namespace {

constexpr size_t kAlignment = 32;  // of tensor data, as ggml's CPU kernels expect

class FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) invalid("{}: cannot open: {}", path, std::strerror(errno));
  }
  ~FileDescriptor() { ::close(fd_); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void read_exactly(int fd, size_t offset, std::span<std::byte> out, const std::string& path) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      bad_file("{}: found the end at byte {}, allowed {} at least", path, offset + done, offset + out.size());
    done += static_cast<size_t>(n);
  }
}

// The layouts that the CPU backend prefers to plain rows, best first; empty if it has none.
std::vector<ggml_backend_buffer_type_t> repack_types(ggml_backend_dev_t cpu) {
  std::vector<ggml_backend_buffer_type_t> types;
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(cpu);
  const auto get_types = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts"));
  if (get_types == nullptr) return types;
  for (ggml_backend_buffer_type_t* type = get_types(cpu); type != nullptr && *type != nullptr; ++type) {
    types.push_back(*type);
  }
  return types;
}

// Asks the device about a matmul whose left side lies in a buffer of this type.
bool multiplies_in(ggml_backend_dev_t cpu, ggml_backend_buffer_type_t buffer_type, ggml_type type,
                   int64_t n_in, int64_t n_out) {
  const GgmlContext context(
      ggml_init({.mem_size = 8 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
  const GgmlBuffer empty(ggml_backend_buft_alloc_buffer(buffer_type, 0));
  ggml_tensor* weight = ggml_new_tensor_2d(context.get(), type, n_in, n_out);
  weight->buffer = empty.get();
  ggml_tensor* activations = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, n_in, 512);
  return ggml_backend_dev_supports_op(cpu, ggml_mul_mat(context.get(), weight, activations));
}

}  // namespace

ggml_backend_buffer_type_t repack_layout(ggml_type type, int64_t n_in, int64_t n_out) {
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  for (ggml_backend_buffer_type_t layout : repack_types(cpu)) {
    if (multiplies_in(cpu, layout, type, n_in, n_out)) return layout;
  }
  return nullptr;
}

MappedFile::MappedFile(const std::string& path) {
  const FileDescriptor file(path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) invalid("{}: cannot read its size: {}", path, std::strerror(errno));
  size_ = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED)
    fail(ErrorCode::out_of_memory, "{}: cannot map {} bytes: {}", path, size_, std::strerror(errno));
  data_ = static_cast<std::byte*>(address);
}

MappedFile::~MappedFile() { ::munmap(data_, size_); }

Weights::Weights(const GgufFile& file, const HParams& params, bool repack)
    : layers(params.n_layers),
      mapping_(file.path()),
      context_(ggml_init({.mem_size = (file.tensors().size() + 1) * ggml_tensor_overhead(),
                          .mem_buffer = nullptr,
                          .no_alloc = true})),
      mapped_(ggml_backend_cpu_buffer_from_ptr(mapping_.data(), mapping_.size())) {
  if (!context_ || !mapped_)
    fail(ErrorCode::out_of_memory, "{}: cannot describe {} tensors", file.path(), file.tensors().size());
  if (mapping_.size() != file.file_bytes())
    bad_file("{}: found {} bytes, allowed {}: the file changed", file.path(), mapping_.size(),
             file.file_bytes());
  ggml_backend_buffer_set_usage(mapped_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);

  const auto vector = [&](const std::string& name) {
    const GgufTensor* tensor = file.find_tensor(name);
    return tensor == nullptr ? nullptr : map_or_read(*tensor);
  };
  const auto matrix = [&](const std::string& name) { return place_matrix(*file.find_tensor(name), repack); };

  const GgufTensor& embedding = *file.find_tensor("token_embd.weight");
  token_embd = map_or_read(embedding);  // rows are looked up, which no rearranged layout allows
  output_norm = vector("output_norm.weight");
  rope_freqs = vector("rope_freqs.weight");
  if (file.find_tensor("output.weight") != nullptr) {
    output = matrix("output.weight");
  } else if (repack && repack_layout(embedding.type, embedding.ne[0], embedding.ne[1]) != nullptr) {
    output = place_matrix(embedding, repack);
  } else {
    output = token_embd;
    count_matrix(embedding.type, /*repacked=*/false);
  }
  for (uint32_t layer = 0; layer < params.n_layers; ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    layers[layer] = {
        .attn_norm = vector(prefix + "attn_norm.weight"),
        .q = matrix(prefix + "attn_q.weight"),
        .k = matrix(prefix + "attn_k.weight"),
        .v = matrix(prefix + "attn_v.weight"),
        .o = matrix(prefix + "attn_output.weight"),
        .q_bias = vector(prefix + "attn_q.bias"),
        .k_bias = vector(prefix + "attn_k.bias"),
        .v_bias = vector(prefix + "attn_v.bias"),
        .o_bias = vector(prefix + "attn_output.bias"),
        .q_norm = vector(prefix + "attn_q_norm.weight"),
        .k_norm = vector(prefix + "attn_k_norm.weight"),
        .ffn_norm = vector(prefix + "ffn_norm.weight"),
        .gate = matrix(prefix + "ffn_gate.weight"),
        .up = matrix(prefix + "ffn_up.weight"),
        .down = matrix(prefix + "ffn_down.weight"),
        .gate_bias = vector(prefix + "ffn_gate.bias"),
        .up_bias = vector(prefix + "ffn_up.bias"),
        .down_bias = vector(prefix + "ffn_down.bias"),
    };
  }
  read_all(file.path());
}

ggml_tensor* Weights::describe(const GgufTensor& tensor, const char* suffix) {
  ggml_tensor* described =
      ggml_new_tensor(context_.get(), tensor.type, static_cast<int>(tensor.n_dims), tensor.ne.data());
  ggml_format_name(described, "%s%s", tensor.name.c_str(), suffix);
  return described;
}

ggml_tensor* Weights::map_or_read(const GgufTensor& tensor) {
  ggml_tensor* described = describe(tensor, "");
  if (tensor.offset % kAlignment != 0) {
    to_read_.push_back({described, tensor.offset, ggml_backend_cpu_buffer_type()});
    return described;
  }
  ggml_backend_tensor_alloc(mapped_.get(), described, mapping_.data() + tensor.offset);
  mapped_bytes_ += tensor.bytes;
  return described;
}

ggml_tensor* Weights::place_matrix(const GgufTensor& tensor, bool repack) {
  ggml_backend_buffer_type_t type = repack ? repack_layout(tensor.type, tensor.ne[0], tensor.ne[1]) : nullptr;
  count_matrix(tensor.type, type != nullptr);
  if (type == nullptr) return map_or_read(tensor);
  ggml_tensor* described = describe(tensor, " (repacked)");
  to_read_.push_back({described, tensor.offset, type});
  return described;
}

void Weights::count_matrix(ggml_type type, bool repacked) {
  const auto same = [&](const MatrixKind& kind) { return kind.type == type && kind.repacked == repacked; };
  auto kind = std::ranges::find_if(matrix_kinds_, same);
  if (kind == matrix_kinds_.end()) kind = matrix_kinds_.insert(kind, {type, repacked, 0});
  ++kind->count;
}

// The largest first: while it is rearranged it is in memory twice, and then nothing else is there yet.
void Weights::read_all(const std::string& path) {
  std::ranges::stable_sort(to_read_, std::greater{},
                           [](const Read& read) { return ggml_nbytes(read.tensor); });
  const FileDescriptor file(path);
  for (const Read& read : to_read_) {
    std::vector<std::byte> bytes(ggml_nbytes(read.tensor));
    read_exactly(file.get(), read.file_offset, bytes, path);
    GgmlBuffer buffer(
        ggml_backend_buft_alloc_buffer(read.type, ggml_backend_buft_get_alloc_size(read.type, read.tensor)));
    if (!buffer)
      fail(ErrorCode::out_of_memory, "{}: cannot allocate {} bytes for {}", path, bytes.size(),
           read.tensor->name);
    ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_alloc(buffer.get(), read.tensor, ggml_backend_buffer_get_base(buffer.get()));
    ggml_backend_tensor_set(read.tensor, bytes.data(), 0, bytes.size());
    read_bytes_ += ggml_backend_buffer_get_size(buffer.get());
    buffers_.push_back(std::move(buffer));
  }
  to_read_.clear();
}

}  // namespace kvase
