// SPDX-License-Identifier: MIT
// Declares tensors without data, then gives all of them one buffer.
#include "tensor/arena.h"

#include <array>

#include "base/check.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/sizes.h"

namespace kvase {

Arena::Arena(size_t max_tensors)
    : context_(ggml_init(
          {.mem_size = max_tensors * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true})) {
  if (!context_) fail(ErrorCode::out_of_memory, "cache: cannot allocate {} tensor descriptions", max_tensors);
}

ggml_tensor* Arena::add(ggml_type type, std::initializer_list<int64_t> shape, const std::string& name) {
  KVASE_CHECK(!buffer_, "tensor {} declared after allocation", name);
  std::array<int64_t, GGML_MAX_DIMS> extents = {1, 1, 1, 1};
  size_t dim = 0;
  for (const int64_t extent : shape) extents[dim++] = extent;
  const size_t tensor_bytes =
      checked_product({ggml_row_size(type, extents[0]), static_cast<size_t>(extents[1]),
                       static_cast<size_t>(extents[2]), static_cast<size_t>(extents[3])},
                      name.c_str());
  bytes_ = checked_sum(bytes_, tensor_bytes, name.c_str());
  ggml_tensor* tensor = ggml_new_tensor(context_.get(), type, GGML_MAX_DIMS, extents.data());
  ggml_set_name(tensor, name.c_str());
  return tensor;
}

void Arena::allocate(ggml_backend_t backend) {
  if (bytes_ == 0) return;
  // Asked first, because Linux grants more than there is and ends the process once the pages are written.
  const std::optional<size_t> available = available_memory_bytes();
  if (available && bytes_ > *available) {
    fail(ErrorCode::out_of_memory,
         "KV cache: {} bytes planned, {} bytes of memory available, use a smaller budget", bytes_,
         *available);
  }
  buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), backend));
  if (!buffer_)
    fail(ErrorCode::out_of_memory, "KV cache: cannot allocate {} bytes, use a smaller budget", bytes_);
  // A third more bandwidth when attention reads K and V; see docs/performance.md.
  if (ggml_backend_buffer_is_host(buffer_.get())) {
    advise_huge_pages(ggml_backend_buffer_get_base(buffer_.get()),
                      ggml_backend_buffer_get_size(buffer_.get()));
  }
  ggml_backend_buffer_clear(buffer_.get(), 0);
}

}  // namespace kvase
