// SPDX-License-Identifier: MIT
// Gram matrix, Cholesky factor L, and |L^-1 x|^2 of every row.
#include "stats/leverage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/leverage.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvase {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::CappedTag<double, kLeveragePanel>;

// products[b / 8][a][b % 8] += sum over 4 rows of x[a] x[b], for b >= a (and some b < a, which nobody reads).
// One panel of 8 channels stays in the first-level cache.
//   x  f64 [dim, 4]   products  f64 [8, dim, dim / 8]
void add_products(const double* HWY_RESTRICT x, size_t dim, double* HWY_RESTRICT products) {
  const D64 d;
  for (size_t b = 0; b < dim; b += hn::Lanes(d)) {
    double* HWY_RESTRICT panel = products + b / kLeveragePanel * dim * kLeveragePanel + b % kLeveragePanel;
    const auto x0 = hn::LoadU(d, x + b), x1 = hn::LoadU(d, x + dim + b);
    const auto x2 = hn::LoadU(d, x + 2 * dim + b), x3 = hn::LoadU(d, x + 3 * dim + b);
    for (size_t a = 0; a < b + hn::Lanes(d); ++a) {
      double* HWY_RESTRICT entry = panel + a * kLeveragePanel;
      auto sum = hn::LoadU(d, entry);
      sum = hn::MulAdd(hn::Set(d, x[a]), x0, sum);
      sum = hn::MulAdd(hn::Set(d, x[dim + a]), x1, sum);
      sum = hn::MulAdd(hn::Set(d, x[2 * dim + a]), x2, sum);
      sum = hn::MulAdd(hn::Set(d, x[3 * dim + a]), x3, sum);
      hn::StoreU(sum, d, entry);
    }
  }
}

// x := L^-1 x for a block of rows in the lanes; norms[row] = |x|^2.
//   x  f64 [kLeverageBlock, n]   lower  f64 [stride, n], the diagonal inverted
void solve_block(const double* HWY_RESTRICT lower, size_t n, size_t stride, double* HWY_RESTRICT x,
                 double* HWY_RESTRICT norms) {
  const D64 d;
  const size_t lanes = hn::Lanes(d);
  for (size_t first = 0; first < kLeverageBlock; first += 4 * lanes) {
    auto n0 = hn::Zero(d), n1 = hn::Zero(d), n2 = hn::Zero(d), n3 = hn::Zero(d);
    for (size_t a = 0; a < n; ++a) {
      double* HWY_RESTRICT xa = x + a * kLeverageBlock + first;
      auto x0 = hn::LoadU(d, xa), x1 = hn::LoadU(d, xa + lanes);
      auto x2 = hn::LoadU(d, xa + 2 * lanes), x3 = hn::LoadU(d, xa + 3 * lanes);
      for (size_t b = 0; b < a; ++b) {
        const double* HWY_RESTRICT xb = x + b * kLeverageBlock + first;
        const auto factor = hn::Set(d, lower[a * stride + b]);
        x0 = hn::NegMulAdd(factor, hn::LoadU(d, xb), x0);
        x1 = hn::NegMulAdd(factor, hn::LoadU(d, xb + lanes), x1);
        x2 = hn::NegMulAdd(factor, hn::LoadU(d, xb + 2 * lanes), x2);
        x3 = hn::NegMulAdd(factor, hn::LoadU(d, xb + 3 * lanes), x3);
      }
      const auto inverse = hn::Set(d, lower[a * stride + a]);
      x0 = hn::Mul(x0, inverse);
      x1 = hn::Mul(x1, inverse);
      x2 = hn::Mul(x2, inverse);
      x3 = hn::Mul(x3, inverse);
      hn::StoreU(x0, d, xa);
      hn::StoreU(x1, d, xa + lanes);
      hn::StoreU(x2, d, xa + 2 * lanes);
      hn::StoreU(x3, d, xa + 3 * lanes);
      n0 = hn::MulAdd(x0, x0, n0);
      n1 = hn::MulAdd(x1, x1, n1);
      n2 = hn::MulAdd(x2, x2, n2);
      n3 = hn::MulAdd(x3, x3, n3);
    }
    hn::StoreU(n0, d, norms + first);
    hn::StoreU(n1, d, norms + first + lanes);
    hn::StoreU(n2, d, norms + first + 2 * lanes);
    hn::StoreU(n3, d, norms + first + 3 * lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvase
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

namespace kvase {
namespace {

constexpr size_t kRowsAtOnce = 4;  // of add_products()

HWY_EXPORT(add_products);
HWY_EXPORT(solve_block);

}  // namespace

Leverage::Leverage(uint32_t head_dim)
    : head_dim_(head_dim),
      stored_(kLeverageBlock * padded_dim(head_dim)),
      block_(kLeverageBlock * padded_dim(head_dim)),
      columns_(kLeverageBlock * padded_dim(head_dim)),
      products_(size_t{padded_dim(head_dim)} * padded_dim(head_dim)),
      lower_(products_.size()) {}

size_t Leverage::read_block(const StoredRows& rows, std::span<const uint32_t> slots) {
  const size_t n_rows = std::min(kLeverageBlock, slots.size());
  gather_rows(rows, slots.first(n_rows), stored_.data());
  std::copy(stored_.begin(), stored_.end(), block_.begin());
  std::fill(block_.begin() + static_cast<ptrdiff_t>(n_rows * padded_dim(head_dim_)), block_.end(), 0.0);
  return n_rows;
}

void Leverage::compute(const StoredRows& rows, std::span<const uint32_t> slots, std::span<float> out) {
  const size_t stride = padded_dim(head_dim_);
  std::ranges::fill(products_, 0.0);
  for (size_t first = 0; first < slots.size(); first += kLeverageBlock) {
    const size_t n_rows = read_block(rows, slots.subspan(first));
    for (size_t row = 0; row < n_rows; row += kRowsAtOnce)
      HWY_DYNAMIC_DISPATCH(add_products)(&block_[row * stride], stride, products_.data());
  }
  factorise();
  double norms[kLeverageBlock];
  for (size_t first = 0; first < slots.size(); first += kLeverageBlock) {
    const size_t n_rows = read_block(rows, slots.subspan(first));
    for (size_t row = 0; row < kLeverageBlock; ++row) {
      for (size_t channel = 0; channel < head_dim_; ++channel)
        columns_[channel * kLeverageBlock + row] = block_[row * stride + channel];
    }
    HWY_DYNAMIC_DISPATCH(solve_block)(lower_.data(), head_dim_, stride, columns_.data(), norms);
    for (size_t row = 0; row < n_rows; ++row) out[slots[first + row]] = static_cast<float>(norms[row]);
  }
}

void Leverage::factorise() {
  const size_t stride = padded_dim(head_dim_);
  // For b <= a.
  const auto product = [&](size_t b, size_t a) {
    return products_[(a / kLeveragePanel * stride + b) * kLeveragePanel + a % kLeveragePanel];
  };
  double trace = 0;
  for (size_t a = 0; a < head_dim_; ++a) trace += product(a, a);
  const double ridge = kLeverageRidge * trace / head_dim_;
  for (size_t a = 0; a < head_dim_; ++a) {
    double* lower_a = &lower_[a * stride];
    double diagonal = product(a, a) + ridge;
    for (size_t b = 0; b < a; ++b) {
      const double* lower_b = &lower_[b * stride];
      double sum = product(b, a);
      for (size_t c = 0; c < b; ++c) sum -= lower_a[c] * lower_b[c];
      lower_a[b] = sum * lower_b[b];
      diagonal -= lower_a[b] * lower_a[b];
    }
    lower_a[a] = trace == 0 ? 0 : 1 / std::sqrt(diagonal);
  }
}

}  // namespace kvase
#endif
