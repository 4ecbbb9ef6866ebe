// SPDX-License-Identifier: MIT
// What to keep when the cache is full: the contract of an eviction policy, and the table of policies.
//
// A policy is a const object made from a string, `base[:key=value,...][+modifier[:key=value,...]]...`. At an
// event it gets plain host arrays, one per (KV head, slot), and answers which slots go. It knows neither the
// model nor the cache. In-tree policies use exactly what an outsider uses: see docs/adding-a-policy.md.
//
// Slots lie in no particular order. Nothing may read age or sink-ness from a slot number: `pos` is the truth.
// Thread-compatible: const methods may run concurrently on different layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvase/error.h"

namespace kvase {

// ---- what a policy may know of each slot
// ---------------------------------------------------------------------------

// One column per (KV head, slot). f32 unless said otherwise.
enum class Statistic : uint8_t {
  mass,      // attention probability that queries gave the slot. See MassSpec
  v_range,   // max_d v - min_d v                  } of the exact value row, before it is rounded to the
             // cache's type
  v_var,     // variance over channels, unbiased   }
  v_l2,      // |v|                                }
  v_absmax,  // max_d |v_d|                        }
  k_l2,      // |k| of the exact key row after RoPE
  k_sketch,  // |k G|^2 of the stored key after RoPE; G from SketchSpec. Candidates only, 0 in the window
  v_sketch,  // |v G|^2 of the stored value, same G. Candidates only, 0 in the window
  // mean_i cos(k_i, k_j) over the candidates i, j itself included. Candidates only, 0 in the window. A key of
  // length 0 has cosine 0 to all
  k_mean_cos,
  k_mean_cos_all,  // the same over all slots, and of all slots
  // x (X^T X + eps I)^-1 x of the stored row among the candidates X, eps = 1e-6 of the mean diagonal: how
  // much of its direction no other row has. Candidates only, 0 in the window
  k_leverage,
  v_leverage,
  k_redundancy,  // mean cosine to all slots less the exempted pairs, as released R-KV has it. All slots. See
                 // src/stats/redundancy.h
  // Standard deviation over channels of the row, each channel scaled by its range in the next partition. 0
  // where nothing is compared: sinks, the last whole partition, what follows it. See LagSpec
  k_lag,
  v_lag,
  residual,  // |v - W k - b|^2 of the exact row, k before RoPE, with the map of +vector; when appended
  // |v - m|^2 of the stored values, m the mean of what the head lost, before that of the candidates'.
  // Candidates with a value only, else 0
  mean_residual,
};
inline constexpr size_t kStatisticCount = 17;
const char* statistic_name(Statistic statistic) noexcept;

// How attention mass is taken. methods: VaSE and R-KV normalise over candidates, SnapKV and kvpress over all
// slots.
struct MassSpec {
  // window: the mean over the newest `window` queries; 0 in the window itself.
  // last: the newest query's; 0 in the window.
  // all: the sum over every query ever, those of the prompt too, carried from event to event with the slot.
  // All slots are candidates then, the window's too.
  enum class Queries : uint8_t { window, last, all };
  enum class Domain : uint8_t { candidates, all };           // the slots that a query's softmax runs over
  enum class Group : uint8_t { mean, per_head, max_logit };  // how the query heads of one KV head are joined
  Queries queries = Queries::window;
  Domain domain = Domain::candidates;
  // mean: probabilities averaged, one row. per_head: one row per query head. max_logit: logits' maximum, then
  // softmax.
  Group group = Group::mean;
  bool operator==(const MassSpec&) const = default;
};

// The Gaussian projection of CurDKV and VaSE-DKV: G [head_dim, rank], entries N(0, 1)/sqrt(rank), shared by
// keys and values and by all KV heads of a layer.
struct SketchSpec {
  uint32_t rank = 20;  // columns, 1..256
  bool redraw = true;  // a new G at every event (VaSE-DKV); false: one G per layer and sequence (CurDKV)
  bool operator==(const SketchSpec&) const = default;
};

// How LagKV cuts the text: the slots in order of pos, without the sinks, in partitions of `lag` slots.
struct LagSpec {
  uint32_t lag = 128;  // slots, 2..65536
  bool operator==(const LagSpec&) const = default;
};

struct Needs {
  std::vector<Statistic> statistics;
  MassSpec mass;      // read if statistics names mass
  SketchSpec sketch;  // read if statistics names k_sketch or v_sketch
  bool rank = false;  // HeadView::rank, kept from HeadVerdict::order
  LagSpec lag = {};   // read if statistics names k_lag or v_lag
};

// One KV head's slots in use. All spans have `length` elements, or none if the policy did not ask for the
// column; mass has length * n_mass_rows, slot fastest.
struct HeadView {
  std::span<const int32_t> pos;  // absolute position in the text, distinct, any order
  std::span<const int32_t>
      rank;  // place in the layout order of the published code: 0 = best kept, newest last
  std::span<const float> columns[kStatisticCount];
  uint32_t n_approximate = 0;  // slots below it are approximate: they hold their key and no value

  size_t length() const { return pos.size(); }
  std::span<const float> operator[](Statistic s) const { return columns[static_cast<size_t>(s)]; }
};

struct LayerView {
  std::span<const HeadView> heads;  // one per KV head; same length in all
  uint32_t budget = 0;              // slots to leave per KV head, sinks and window included
  // Approximate tier: slots to leave beyond the budget. budget + n_recruits stay, 2 n_recruits of them as
  // approximate ones, so that the bytes are those of `budget` exact slots. Asked of +zero and +vector alone.
  uint32_t n_recruits = 0;
  uint32_t n_mass_rows = 1;  // query heads per KV head if MassSpec::Group::per_head, else 1
};

struct EventContext {
  uint64_t seed = 0;
  uint32_t sequence = 0;  // the request's sample number, never a batch row
  uint32_t layer = 0;
  uint32_t event = 0;   // evictions that this sequence had before, in this layer
  int64_t n_seen = 0;   // tokens ever processed; the newest has pos n_seen - 1
  uint32_t window = 0;  // newest tokens that no event touches: pos >= n_seen - window
  uint32_t n_sink = 0;  // first tokens that the method protects, if it protects any: pos < n_sink
};

// ---- what a policy answers
// -----------------------------------------------------------------------------------------

struct HeadVerdict {
  std::vector<uint32_t> drop;  // slots to free, ascending, distinct
  std::vector<uint32_t>
      demote;  // slots to move to the approximate tier, ascending, distinct, none of them in drop
  std::vector<uint32_t> order;  // kept slots in the published layout order; empty unless Needs::rank
};

struct Verdict {
  std::vector<HeadVerdict> heads;
};

// One score per (KV head, slot); larger is kept. +inf must stay, -inf and NaN go first. f64 because race keys
// need it.
using Scores = std::vector<std::vector<double>>;

// The numbers that are fixed before the first token.
struct CacheShape {
  uint32_t budget = 0;    // slots left per KV head after an event
  uint32_t interval = 0;  // tokens between two events; capacity = budget + interval
  uint32_t window = 0;
  uint32_t n_sink = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;

  // False for `full`: the cache then holds the whole context and no event ever comes.
  virtual bool evicts() const { return true; }
  virtual Needs needs() const { return {}; }

  // Throws Error(invalid_argument) if the method's own options do not fit this shape.
  virtual void check(const CacheShape&) const {}

  // Most slots outside the window to which score() gives +inf. An approximate tier leaves room for their
  // values.
  virtual uint32_t n_protected(const CacheShape& shape) const { return shape.n_sink; }

  // REQUIRES: the columns of needs() are present; length > budget.
  virtual Scores score(const LayerView& layer, const EventContext& event) const = 0;

  // Keeps the `budget` best of score(), ties to the smaller pos. Override where a method chooses otherwise.
  virtual Verdict decide(const LayerView& layer, const EventContext& event) const;
};

// ---- the table
// -----------------------------------------------------------------------------------------------------

// One option of a method. Values are checked against it before the method sees them.
struct ParamInfo {
  enum class Kind : uint8_t { integer, choice, real, text };
  std::string name;
  Kind kind = Kind::integer;
  std::string default_value;  // as text; shown in help. Empty: the method derives it, and help says how
  int64_t min = 0, max = 0;   // for integers
  std::vector<std::string> choices;  // for choices
  std::string help;
  double real_min = 0, real_max = 0;  // for reals
};

// Checked option values: everything that ParamInfo names, defaults filled in where the user gave none.
class Params {
 public:
  explicit Params(std::map<std::string, std::string> values, std::set<std::string> given = {})
      : values_(std::move(values)), given_(std::move(given)) {}
  bool has(const std::string& name) const { return values_.contains(name); }
  // True if the user wrote the option, false if it is the default: for refusing an option that could have no
  // effect.
  bool given(const std::string& name) const { return given_.contains(name); }
  const std::string& text(const std::string& name) const { return values_.at(name); }
  int64_t integer(const std::string& name) const { return std::stoll(values_.at(name)); }
  double real(const std::string& name) const;

 private:
  std::map<std::string, std::string> values_;
  std::set<std::string> given_;
};

struct PolicyInfo {
  std::string name;
  std::string summary;        // one line
  std::string paper;          // authors, year, arXiv number; empty for a control of ours
  bool deterministic = true;  // false: depends on the seed
  uint32_t default_sinks = 0;
  std::vector<ParamInfo> params;
  std::vector<std::string> notes;  // deviations from the paper and pitfalls, one line each
  std::function<std::unique_ptr<Policy>(const Params&)> make;
};

// All methods, in-tree first, then registered ones.
std::vector<PolicyInfo> list_policies();

// Adds a method. Throws Error(invalid_argument) if the name is empty, malformed or taken. Call before
// creating engines; not safe against concurrent make_policy().
void register_policy(PolicyInfo info);

// What may follow a method's name after a `+`. Options are given as a method's are.
struct ModifierInfo {
  std::string name;
  std::string summary;  // one line
  std::string paper;
  std::vector<ParamInfo> params;
  std::vector<std::string> notes;
};

std::vector<ModifierInfo> list_modifiers();

// +pyramid: lower layers get more slots, higher layers fewer, the same in all.
struct PyramidOptions {
  uint32_t beta = 20;  // the last layer keeps 1/beta of the average outside the window; 1: all layers alike
  bool operator==(const PyramidOptions&) const = default;
};

// +zero, +vector: an approximate tier, whose slots hold a key and no value.
struct TierOptions {
  std::string map;  // +vector: file of the maps that rebuild values. Empty, +zero: the mean of dropped values
  bool operator==(const TierOptions&) const = default;
};

// A budget as the user gave it: slots per KV head, or bytes of K and V rows over all layers, heads and
// sequences.
struct Budget {
  enum class Unit : uint8_t { tokens, bytes };
  Unit unit = Unit::tokens;
  uint64_t amount = 2048;
  bool operator==(const Budget&) const = default;
};

// Reads "2048" or "512MiB". Throws Error(invalid_argument).
Budget parse_budget(std::string_view text);

// A policy string, read. The shape keys `budget`, `interval`, `window`, `sinks` are accepted by every method.
struct ParsedPolicy {
  PolicyInfo info;
  std::shared_ptr<const Policy> policy;
  std::string text;  // as given
  std::optional<Budget> budget;
  std::optional<uint32_t> interval, window, n_sink;
  std::optional<PyramidOptions> pyramid;
  std::optional<TierOptions> tier;
};

// Throws Error(invalid_argument): empty string, unknown name, unknown or repeated key, value out of range,
// unknown or repeated modifier, a modifier of a method that never evicts.
// The message names what was found and what is allowed.
ParsedPolicy parse_policy(std::string_view text);

}  // namespace kvase
