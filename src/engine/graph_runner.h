// SPDX-License-Identifier: MIT
// Runs the decoder's graph: built anew only when its shape changes, in memory that is allocated once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kvase/model.h"
#include "model/decoder.h"
#include "tensor/compute.h"

namespace kvase {

class GraphRunner {
 public:
  // Reserves for graphs of up to max_tokens and max_outputs. Throws Error(out_of_memory).
  GraphRunner(Compute& compute, const Decoder& decoder, CachedAttention& attention, uint32_t max_tokens,
              uint32_t max_outputs);

  // Runs one step and returns its logits [n_vocab, n_outputs], valid until the next call.
  //   tokens, pos  [n_tokens]; outputs  places in the batch, ascending, 1..max_outputs of them
  std::span<const float> run(std::span<const Token> tokens, std::span<const int32_t> pos,
                             std::span<const int32_t> outputs);

  size_t scratch_bytes() const;

 private:
  void build(uint32_t n_tokens, uint32_t n_outputs);
  void make_resident();

  Compute* compute_;
  const Decoder* decoder_;
  CachedAttention* attention_;
  std::vector<std::byte> metadata_;  // of the graph's tensors
  GgmlContext context_;              // lives in metadata_
  GgmlGraphAllocator allocator_;
  DecoderGraph graph_;
  uint32_t n_tokens_ = 0;
  uint32_t n_outputs_ = 0;
};

}  // namespace kvase
