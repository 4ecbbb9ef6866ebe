#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the golden cases of policies and value maps, tests/golden/*.gguf, from an independent numpy reference.

    make_golden.py --reference DIR --out tests/golden

DIR holds the reference, policies.py and vector.py. Files of events and runs have inputs as `kvase score` reads them:

    k, v  f32 [head_dim, n, n_kv_heads]     q  f32 [head_dim, w, n_heads]     pos  i32 [n]

and under kvase.golden.* : kind ("event" or "run"), budget, interval, window, seed, sequence, layer, event, and
the parallel arrays `name` and `policy` (a policy string). What is expected of `name`:

    kind "event":  score.NAME  f64 [n, n_kv_heads]       if the reference has scores
                   keep.NAME   i32 [n_kept, n_kv_heads]  slots, ascending
                   order.NAME  i32 [budget, n_kv_heads]  slots in the published layout order, if reported
    kind "run":    tokens come one by one, q has one query per token; events at budget + interval slots
                   keep.NAME   i32 [budget, n_kv_heads, n_events]  positions, ascending
                   order.NAME  i32 [budget, n_kv_heads, n_events]  positions in layout order

    kind "pyramid": budgets of layers. case_N  i32 [4 + n_layers]: budget, window, sinks, beta, then slots per layer

    kind "value_map": one map and one cache per RoPE variant, listed in `name`; of NAME
                   NAME.rope i32 [7]: n_rot, half-split pairs or not, original context, pool, exact, approximate, group
                   NAME.rope_numbers f32 [6]: base, scale, YaRN share, magnitude, fast turns, slow turns
                   NAME.divisors f32 [n_rot / 2], where the angles have some
                   NAME.k, k_pre, v f32 [head_dim, n, n_kv_heads] (keys with RoPE and without), q f32 [head_dim,
                   n_heads], pos i32 [n]
                   NAME.weight f32 [head_dim in, head_dim out, n_kv_heads], bias f32 [head_dim, n_kv_heads]
                   NAME.residual, score f64 [n, n_kv_heads]; slots 0..3 are protected
                   NAME.exact, approx i32 [.., n_kv_heads] slots by plain residual, weighted_exact and weighted_approx
                   by score^2 times residual; out, weighted_out f64 [head_dim, n_heads], attention over both tiers

Noise samples: noise.uniform and noise.gumbel f64 [n] (stream race, head 0, index pos), noise.gauss f64
[20, head_dim].
Inputs are rounded to f16 first, so that a cache of that type holds the same numbers.
"""
import argparse
import importlib.util
import os
import struct
import sys

import numpy as np

STREAM_RESERVE = 0x52455356
F32, I32, F64 = 0, 26, 28  # ggml types
ALIGNMENT = 32


# ---- a small GGUF writer ----
def packed_string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def packed_value(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + packed_string(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(packed_string(text) for text in value)
    return struct.pack("<IQ", 10, value)


def write_gguf(path, values, tensors):
    """values: str, [str] or unsigned int. tensors: numpy arrays, last axis fastest."""
    kinds = {np.dtype("<f4"): F32, np.dtype("<i4"): I32, np.dtype("<f8"): F64}
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values))
    for key, value in values.items():
        head += packed_string(key) + packed_value(value)
    data = b""
    for name, array in tensors.items():
        shape = array.shape[::-1]
        head += packed_string(name) + struct.pack("<I%dQ" % len(shape), len(shape), *shape)
        head += struct.pack("<IQ", kinds[array.dtype], len(data))
        data += array.tobytes() + b"\0" * (-array.nbytes % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGNMENT) + data)


# ---- inputs ----
def random_tokens(ref, seed, n_kv_heads, group, n, head_dim):
    """K, V [n_kv_heads, n, D], Q [n_heads, n, D] for every token, rotated, with a few large values."""
    rng = np.random.default_rng(seed)
    k = rng.standard_normal((n_kv_heads, n, head_dim)) * rng.uniform(0.5, 2.0, (n_kv_heads, n, 1))
    v = rng.standard_normal((n_kv_heads, n, head_dim)) * np.exp(rng.standard_normal((n_kv_heads, n, 1)) * 0.7)
    v[:, 7] *= 6.0
    v[:, n // 2] *= 9.0
    q = rng.standard_normal((n_kv_heads * group, n, head_dim)) * 1.5
    inv_freq = 1.0 / (10000.0 ** (np.arange(head_dim // 2) * 2.0 / head_dim))
    k, q = ref.rope(k, np.arange(n), inv_freq), ref.rope(q, np.arange(n), inv_freq)
    return tuple(ref.round_to(x, "f16") for x in (k, v, q))


def input_tensors(k, v, q, pos):
    tensors = {name: x.astype("<f4") for name, x in (("k", k), ("v", v), ("q", q))}
    return {**tensors, "pos": np.asarray(pos).astype("<i4")}


# ---- one event ----
class Event:
    """One event's inputs, and the expectations collected for it."""

    def __init__(self, ref, seed, n_kv_heads, group, n, w, head_dim, budget, pos=None):
        self.ref, self.w, self.n, self.budget, self.n_kv_heads = ref, w, n, budget, n_kv_heads
        self.k, self.v, q = random_tokens(ref, seed, n_kv_heads, group, n, head_dim)
        self.q = q[:, -w:]
        self.pos = np.arange(n) if pos is None else np.asarray(pos)
        self.key = dict(seed=(0xABCDEF << 32) + 1234 + seed, seq=3, layer=5, event=7)
        self.names, self.policies, self.expected = [], [], {}

    def add(self, name, policy, scores=None, keep=None, order=None):
        self.names.append(name)
        self.policies.append(policy)
        if scores is not None:
            self.expected["score." + name] = np.asarray(scores).astype("<f8")
        if keep is None:
            keep = self.ref.select(scores, self.budget)
        self.expected["keep." + name] = np.sort(keep, axis=-1).astype("<i4")
        if order is not None:
            self.expected["order." + name] = np.asarray(order).astype("<i4")

    def add_in_order(self, name, policy, scores):
        """The same scores by position and by slot, where the layout counts."""
        self.add(name, policy, scores)
        heads, m = self.n_kv_heads, self.n - self.w
        tail = np.broadcast_to(np.arange(m, self.n), (heads, self.w))
        self.add(name + "_slot", policy + ",axis=slot", None, self.ref.select(scores, self.budget), np.concatenate(
            [self.ref.select_ranked(scores[:, :m], self.budget - self.w), tail], axis=-1))

    def add_vase(self, name, options, n_large, order_too=False, **kw):
        ranked = self.ref.select_vase_ranked(
            self.k, self.v, self.q, self.budget, self.w, n_large, pos=self.pos, **self.key, **kw)
        self.add(name, "vase-attnv:n_large=%d%s" % (n_large, options), self.vase_scores(n_large, **kw), ranked)
        if order_too:
            slot_policy = "vase-attnv:n_large=%d%s,axis=slot" % (n_large, options)
            self.add(name + "_slot", slot_policy, None, ranked, ranked)

    def vase_scores(self, n_large, kind="range", n_sink=4, sample=True, smooth=True):
        ref, m = self.ref, self.n - self.w
        magnitude = ref.score_value_magnitude(self.v, kind, n_sink)[:, :m]
        mass = ref.score_snapkv_vase(self.k, self.q, self.w, smooth)[:, :m]
        return self.with_reserve(mass, magnitude, n_large, sample)

    def with_reserve(self, mass, magnitude, n_large, sample):
        """+inf for the reserve and the window; race keys or mass elsewhere."""
        rows = []
        for head in range(self.n_kv_heads):
            row = mass[head]
            if sample:
                u = self.ref.race_uniforms(head=head, pos=self.pos[:row.size], **self.key)
                row = self.ref.race_keys(row, u)
            row = row.copy()
            row[self.ref.rank_slots(magnitude[head])[:n_large]] = np.inf
            rows.append(row)
        return self.ref.with_tail(np.stack(rows), self.w)

    def values(self, kind="event"):
        values = {"general.architecture": "kvase-golden", "kvase.golden.kind": kind}
        numbers = dict(budget=self.budget, interval=64, window=self.w, seed=self.key["seed"],
                       sequence=self.key["seq"], layer=self.key["layer"], event=self.key["event"])
        for key, number in numbers.items():
            values["kvase.golden." + key] = int(number)
        values["kvase.golden.name"], values["kvase.golden.policy"] = self.names, self.policies
        return values

    def write(self, path):
        u = self.ref.race_uniforms(head=0, pos=self.pos, **self.key)
        noise = {
            "noise.uniform": u.astype("<f8"),
            "noise.gumbel": self.ref.race_keys(np.ones(u.size), u).astype("<f8"),
            "noise.gauss": self.ref.gaussian_matrix(d=self.k.shape[2], r=20, **self.key).astype("<f8"),
        }
        inputs = input_tensors(self.k, self.v, self.q, self.pos)
        write_gguf(path, self.values(), {**inputs, **self.expected, **noise})


def add_methods(event, n_large):
    """Every method and every published variant."""
    ref, w, n = event.ref, event.w, event.n
    k, v, q, pos, heads, m = event.k, event.v, event.q, event.pos, event.n_kv_heads, event.n - event.w
    tail = lambda scores: ref.with_tail(scores[:, :m], w)
    key = event.key

    event.add("full", "full", ref.score_full(k), np.broadcast_to(np.arange(n), (heads, n)))
    event.add("window", "window", tail(ref.score_window(heads, pos)))
    event.add("streaming", "streaming-llm", tail(ref.score_streaming_llm(heads, pos, 4)))
    event.add("random", "random", ref.score_random(heads, pos, n_recent=w, **key))

    smoothed = ref.score_snapkv_vase(k, q, w)
    event.add("snapkv_vase", "snapkv:smooth=avg", smoothed)
    event.add("snapkv_vase_slot", "snapkv:smooth=avg,axis=slot", smoothed, order=np.concatenate(
        [ref.select_ranked(smoothed[:, :m], event.budget - w),
         np.broadcast_to(np.arange(m, n), (heads, w))], axis=-1))
    event.add("snapkv_vase_raw", "snapkv", ref.score_snapkv_vase(k, q, w, smooth=False))
    event.add("snapkv_kvpress", "snapkv:domain=all,smooth=avg", ref.score_snapkv_kvpress(k, q))
    # The reference sums over the window, kvase takes the mean.
    event.add("snapkv_official_max", "snapkv:domain=all,smooth=max,kernel=7,smooth_on=group",
              ref.score_snapkv_official(k, q, 7, "max") / w)
    event.add("snapkv_head_max", "snapkv:smooth=max",
              ref.with_tail(ref.window_attention(q, k, w, pool="max", kernel=5, pool_first=True), w))
    event.add("snapkv_rkv", "snapkv:group=max-logit,smooth=max,kernel=7",
              ref.with_tail(ref.window_attention(q, k, w, gqa="max_logits", pool="max", kernel=7), w))

    for kind in ("range", "var", "l2", "absmax"):
        event.add_vase("vase_attnv_" + kind, ",smooth=avg,magnitude=" + kind, n_large, kind == "range", kind=kind)
    event.add_vase("vase_attnv_raw", "", n_large, smooth=False)
    event.add_vase("vase_attnv_nosink", ",smooth=avg,sinks=0", n_large, n_sink=0)
    event.add_vase("vase_attnv_topk", ",smooth=avg,fill=topk", n_large, sample=False)
    event.add_vase("vase_attnv_no_reserve", ",smooth=avg", 0)
    event.add_vase("vase_attnv_all_reserve", ",smooth=avg", event.budget - w)
    event.add("attn_sample", "vase-attnv:reserve=none,smooth=avg", None,
              ref.select_attn_sample(k, q, event.budget, w, pos=pos, **key))
    u = np.stack([ref.uniform53(ref.noise_words(head=h, index=pos[:m], stream=STREAM_RESERVE, **key))
                  for h in range(heads)])
    event.add("attn_random", "vase-attnv:reserve=random,n_large=%d,fill=topk,smooth=avg,sinks=0" % n_large,
              event.with_reserve(smoothed[:, :m], u, n_large, sample=False))
    event.add("evict_large", "evict-large", ref.score_value_magnitude(v, "range", 0, w, True))

    for name, policy, moment in (("vase_dkv", "vase-dkv", key["event"]), ("cur_fixed", "curdkv", 0)):
        sketch = ref.gaussian_matrix(key["seed"], key["seq"], key["layer"], moment, k.shape[2], 20)
        event.add(name, policy, ref.score_cur_gauss(k, v, sketch, w),
                  ref.select_vase_dkv(k, v, event.budget, w, **key, fixed=moment == 0))
    event.add("cur_norms", "cur-norms", ref.score_cur_norms(k, v, w))
    event.add("cur_exact", "cur-exact", ref.score_cur_exact(k, v, w))
    event.add("leverage", "leverage", tail(ref.leverage(k[:, :m])))
    event.add("knorm", "knorm", tail(ref.score_knorm(k)))
    event.add("keydiff", "keydiff", tail(ref.score_keydiff(k)))

    def lagkv(lag, cross):
        scores = tail(ref.score_lagkv(k, v, 4, lag, cross))
        scores[:, :4] = np.inf
        return scores

    event.add("lagkv_short", "lagkv:sinks=4", lagkv(128, False))
    event.add("lagkv", "lagkv:lag=16,sinks=4", lagkv(16, False))
    event.add("lagkv_cross", "lagkv:lag=9,cross=yes,sinks=4", lagkv(9, True))
    event.add("lagkv_no_sinks", "lagkv:lag=7", tail(ref.score_lagkv(k, v, 0, 7)))
    event.add_in_order("rkv", "rkv:kernel=7", ref.score_rkv(k, q))
    event.add("rkv_lambda", "rkv:lambda=0.75,kernel=3", ref.score_rkv(k, q, 0.75, 3))
    event.add("tova", "tova", tail(ref.score_tova(k, q[:, -1])))
    # Of the window's queries: those before are not in the file.
    mass = ref.h2o_accumulate(None, ref.attention_probs(q, k), heads, n, "mean")
    half = np.count_nonzero(pos > pos[-1] - event.budget // 2)
    event.add("h2o", "h2o", ref.score_h2o(mass, max(half, w)))
    event.add("h2o_recent", "h2o:recent=%d" % w, ref.score_h2o(mass, w))
    event.add("rkv_vase", "rkv-vase", ref.score_rkv_vase(k, q, w, smooth=False))
    event.add_in_order("rkv_vase_avg", "rkv-vase:smooth=avg", ref.score_rkv_vase(k, q, w))
    event.add("rkv_vase_lambda", "rkv-vase:lambda=0.9,smooth=avg", ref.score_rkv_vase(k, q, w, 0.9))


# ---- ten events in a row ----
def run_events(ref, tokens, budget, interval, w, key, select_ranked, by_rank):
    """Positions kept by every event, [n_events, n_kv_heads, budget], in layout order."""
    k, v, q = tokens
    n_kv_heads, n_tokens, _ = k.shape
    pos = np.broadcast_to(np.arange(budget + interval), (n_kv_heads, budget + interval))
    kept = []
    for event in range((n_tokens - budget) // interval):
        n_seen = budget + interval * (event + 1)
        gather = lambda x: np.stack([x[head, pos[head]] for head in range(n_kv_heads)])
        ranked = select_ranked(gather(k), gather(v), q[:, n_seen - w:n_seen], pos, dict(key, event=event))
        order = np.take_along_axis(pos, ranked if by_rank else np.sort(ranked, axis=-1), axis=-1)
        kept.append(order)
        new = np.arange(n_seen, n_seen + interval)
        pos = np.concatenate([order, np.broadcast_to(new, (n_kv_heads, interval))], axis=-1)
    return np.stack(kept)


def write_run(ref, path, seed, n_kv_heads, group, budget, interval, w, head_dim, n_large):
    tokens = random_tokens(ref, seed, n_kv_heads, group, budget + 10 * interval, head_dim)
    key = dict(seed=99 + seed, seq=1, layer=2)

    def vase(smooth):
        return lambda k, v, q, pos, key: ref.select_vase_ranked(
            k, v, q, budget, w, n_large, smooth=smooth, pos=pos, **key)

    def dkv(k, v, q, pos, key):
        return ref.select_vase_dkv(k, v, budget, w, **key)

    def snapkv(smooth):
        def select(k, v, q, pos, key):
            m = k.shape[1] - w
            best = ref.select_ranked(ref.score_snapkv_vase(k, q, w, smooth)[:, :m], budget - w)
            return np.concatenate([best, np.broadcast_to(np.arange(m, m + w), (best.shape[0], w))], axis=-1)
        return select

    def best(score):
        return lambda k, v, q, pos, key: ref.select(ref.with_tail(score(k)[:, :k.shape[1] - w], w), budget)

    def rkv_vase(smooth):
        def select(k, v, q, pos, key):
            m = k.shape[1] - w
            kept = ref.select_ranked(ref.score_rkv_vase(k, q, w, smooth=smooth)[:, :m], budget - w)
            return np.concatenate([kept, np.broadcast_to(np.arange(m, m + w), (kept.shape[0], w))], axis=-1)
        return select

    def rkv(k, v, q, pos, key):
        return ref.select(ref.score_rkv(k, q), budget)

    def lagkv(k, v, q, pos, key):
        return ref.select(ref.with_tail(ref.score_lagkv(k, v, 0, 6)[:, :k.shape[1] - w], w), budget)

    def tova(k, v, q, pos, key):
        return ref.select(ref.with_tail(ref.score_tova(k, q[:, -1])[:, :k.shape[1] - w], w), budget)

    class H2o:
        """Sums of all queries' probabilities, which stay with their slots."""

        def __init__(self, recent):
            self.recent, self.mass, self.n_seen = recent, None, 0

        def __call__(self, k, v, q, pos, key):
            n_new = pos.max() + 1 - self.n_seen
            self.n_seen += n_new
            new_queries = tokens[2][:, self.n_seen - n_new:self.n_seen]
            mass = ref.h2o_accumulate(self.mass, ref.attention_probs(new_queries, k), k.shape[0], n_new, "mean")
            kept = np.sort(ref.select(ref.score_h2o(mass, self.recent), budget), axis=-1)
            self.mass = np.take_along_axis(mass, kept, axis=-1)
            return kept

    def random(k, v, q, pos, key):
        return ref.select(ref.score_random(k.shape[0], pos, n_recent=w, **key), budget)

    cases = [
        ("vase_attnv", "vase-attnv:n_large=%d" % n_large, vase(False), False),
        ("vase_attnv_position", "vase-attnv:n_large=%d,smooth=avg" % n_large, vase(True), False),
        ("vase_attnv_slot", "vase-attnv:n_large=%d,smooth=avg,axis=slot" % n_large, vase(True), True),
        ("vase_dkv", "vase-dkv", dkv, False),
        ("snapkv", "snapkv", snapkv(False), False),
        ("snapkv_slot", "snapkv:smooth=avg,axis=slot", snapkv(True), True),
        ("random", "random", random, False),
        ("knorm", "knorm", best(ref.score_knorm), False),
        ("keydiff", "keydiff", best(ref.score_keydiff), False),
        ("lagkv", "lagkv:lag=6", lagkv, False),
        ("tova", "tova", tova, False),
        ("h2o", "h2o", H2o(budget // 2), False),
        ("h2o_recent", "h2o:recent=%d" % w, H2o(w), False),
        ("rkv", "rkv", rkv, False),
        ("rkv_vase", "rkv-vase", rkv_vase(False), False),
        ("rkv_vase_slot", "rkv-vase:smooth=avg,axis=slot", rkv_vase(True), True),
    ]
    values = {"general.architecture": "kvase-golden", "kvase.golden.kind": "run"}
    numbers = dict(budget=budget, interval=interval, window=w, seed=key["seed"], sequence=key["seq"],
                   layer=key["layer"], event=0)
    for name, number in numbers.items():
        values["kvase.golden." + name] = int(number)
    values["kvase.golden.name"] = [case[0] for case in cases]
    values["kvase.golden.policy"] = [case[1] for case in cases]
    tensors = input_tensors(*tokens, np.arange(tokens[0].shape[1]))
    for name, _, select, by_rank in cases:
        kept = run_events(ref, tokens, budget, interval, w, key, select, by_rank)
        tensors["keep." + name] = np.sort(kept, axis=-1).astype("<i4")
        if by_rank:
            tensors["order." + name] = kept.astype("<i4")
    write_gguf(path, values, tensors)


def write_pyramids(ref, path):
    tensors = {}
    for budget, window, beta, n_layers in ((512, 64, 20, 28), (2048, 64, 20, 36), (300, 7, 3, 5), (97, 0, 96, 30),
                                           (129, 64, 1, 8), (1000, 64, 20, 1), (4096, 64, 7, 61), (90, 9, 20, 2)):
        budgets = ref.pyramid_budgets(n_layers, budget, window, 10 ** 9, beta)
        tensors["case_%d" % len(tensors)] = np.array([budget, window, 0, beta] + budgets).astype("<i4")
    write_gguf(path, {"general.architecture": "kvase-golden", "kvase.golden.kind": "pyramid"}, tensors)


# ---- value maps ----
def f32(x):
    return np.asarray(x, "<f4")


def value_map_case(vec, rng, rope, n=16, n_kv_heads=2, group=2, head_dim=16):
    """A random cache whose keys predict the values in part, a fitted map, both routings and their attention."""
    draw, (k_pre, v) = vec.synth(rng, n, n_kv_heads, head_dim, 96)
    fitted = vec.Predictor.calibrate([draw(400) for _ in range(6)], n_kv_heads, head_dim, "head")
    map_ = vec.Predictor("head", fitted.W.astype("<f2").astype(float), f32(fitted.b).astype(float))
    pos = np.sort(rng.choice(5000, n, replace=False))
    k = f32(rope.apply(k_pre, pos)).astype(float)
    k_pre, v = rope.unapply(k, pos), f32(v).astype(float)
    q = rope.apply(rng.standard_normal((1, n_kv_heads * group, head_dim)) * 2.0, np.array([6000]))[0]
    q = f32(q).astype(float)
    plan = vec.plan(n, 0.5)
    residual, score = map_.residual(k_pre, v), f32(rng.random((n, n_kv_heads))).astype(float)
    protect = np.arange(n) < 4
    result = {
        "rope": np.array([rope.n_rot, rope.style == "neox", rope.n_ctx_orig, plan.pool, plan.exact, plan.approx,
                          group], "<i4"),
        "rope_numbers": f32([rope.base, rope.freq_scale, rope.ext_factor, rope.attn_factor, rope.beta_fast,
                             rope.beta_slow]),
        "k": f32(k.swapaxes(0, 1)), "k_pre": f32(k_pre.swapaxes(0, 1)), "v": f32(v.swapaxes(0, 1)), "q": f32(q),
        "pos": pos.astype("<i4"), "weight": f32(map_.W), "bias": f32(map_.b),
        "residual": residual.T.astype("<f8"), "score": score.T.astype("<f8"),
    }
    if rope.freq_factors is not None:
        result["divisors"] = f32(rope.freq_factors)
    for prefix, weights in (("", None), ("weighted_", score ** 2)):
        tiers = [vec.route(score[:, head], residual[:, head], plan, protect,
                           None if weights is None else weights[:, head])[:2] for head in range(n_kv_heads)]
        result[prefix + "exact"] = np.stack([exact for exact, _ in tiers]).astype("<i4")
        result[prefix + "approx"] = np.stack([approx for _, approx in tiers]).astype("<i4")
        result[prefix + "out"] = vec.attend_naive(q, k, v, tiers, pos, rope, map_).astype("<f8")
    return result


def write_value_maps(vec, path):
    rng = np.random.default_rng(11)
    tensors, names = {}, []
    for name, rope in vec._specs().items():
        if rope.freq_factors is not None:  # as a file holds them
            rope = vec.RopeSpec(**{**rope.__dict__, "freq_factors": tuple(f32(rope.freq_factors).astype(float))})
        names.append(name)
        for part, array in value_map_case(vec, rng, rope).items():
            tensors[name + "." + part] = np.ascontiguousarray(array)
    values = {"general.architecture": "kvase-golden", "kvase.golden.kind": "value_map", "kvase.golden.name": names}
    write_gguf(path, values, tensors)


def load_module(folder, name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", required=True, metavar="DIR", help="folder of policies.py and vector.py")
    parser.add_argument("--out", required=True, metavar="DIR")
    args = parser.parse_args()
    ref, vec = (load_module(args.reference, name) for name in ("policies", "vector"))
    os.makedirs(args.out, exist_ok=True)

    # Positions with gaps, as after earlier events; sinks and the window have none.
    gaps = np.concatenate([np.arange(4), 4 + np.cumsum(1 + np.arange(83 - 4) % 3 * (np.arange(83 - 4) < 60))])
    cases = {
        "event_group3.gguf": (Event(ref, 1, 2, 3, 97, 16, 16, 48), 12),
        "event_group4_one_over.gguf": (Event(ref, 2, 1, 4, 61, 13, 16, 60), 12),
        "event_group1_gaps.gguf": (Event(ref, 3, 3, 1, 83, 9, 8, 41, gaps), 12),
        "event_group2_window8.gguf": (Event(ref, 4, 2, 2, 71, 8, 24, 39), 7),
    }
    for file, (event, n_large) in cases.items():
        add_methods(event, n_large)
        event.write(os.path.join(args.out, file))
    write_run(ref, os.path.join(args.out, "run_group3.gguf"), seed=5, n_kv_heads=2, group=3, budget=40, interval=8,
              w=8, head_dim=16, n_large=10)
    write_run(ref, os.path.join(args.out, "run_group1.gguf"), seed=6, n_kv_heads=3, group=1, budget=37, interval=11,
              w=7, head_dim=8, n_large=9)
    write_pyramids(ref, os.path.join(args.out, "pyramid.gguf"))
    write_value_maps(vec, os.path.join(args.out, "value_map.gguf"))


if __name__ == "__main__":
    main()
