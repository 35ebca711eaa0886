"""Triton kernels: token attention and the prefix in one pass, their gradients, and decoding.

Names in all kernels: M rows of queries, N keys, R rows of the prefix; a tile is BLOCK_M x BLOCK_N. `D` and
`DV` are the head sizes padded to powers of two, `d` and `dv` the real ones. Logits are kept in base 2
(multiplied by log2 e) because exp2 is one instruction and exp is two.

The prefix is one of
- TOKENS: virtual tokens with keys c, a ragged number per state head; token j adds e^(s_j + log size_j) times
  u_j = Z_j / size_j to the numerator and times share_j = mass_j / size_j to the denominator. Moving the size
  into the exponent keeps masses of 1e30 in range, and a token may have values without mass;
- FEATURES: phi(q) Z and phi(q) k with phi(q) = e^level [1, act(W q + b)]. Maps of single coordinates have
  W = I (`HAS_WEIGHT` false), whose tiles are made in registers; the 1 may be absent (`HAS_ONE` false).
"""

import triton
import triton.language as tl

NONE = tl.constexpr(0)
TOKENS = tl.constexpr(1)
FEATURES = tl.constexpr(2)
ELU = tl.constexpr(0)
GELU = tl.constexpr(1)
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    """Return the matrix product; Triton's interpreter would multiply the bits of bfloat16."""
    if PRECISION == "interpreted":
        return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    else:  # noqa: RET505, a branch that is chosen at compile time
        return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def tanh(x):
    """Return tanh(x); a series near 0, where the quotient of exponentials cancels."""
    e = tl.exp2(tl.abs(x) * (-2.0 * LOG2_E))
    quotient = tl.where(x < 0, -1.0, 1.0) * (1.0 - e) / (1.0 + e)
    s = x * x
    series = x * (1.0 + s * (-1.0 / 3.0 + s * (2.0 / 15.0 + s * (-17.0 / 315.0))))
    return tl.where(tl.abs(x) < 0.25, series, quotient)


@triton.jit
def capped(s, cap, SOFTCAP: tl.constexpr):
    """Return the logits after the soft cap, and the slope of the cap."""
    if SOFTCAP:
        t = tanh(s / cap)
        return cap * t, 1.0 - t * t
    return s, s * 0.0 + 1.0


@triton.jit
def activated(y, ACT: tl.constexpr):
    """Return act(y): elu(y) + 1, gelu(y) or y."""
    if ACT == ELU:
        return tl.where(y > 0, y + 1.0, tl.exp2(tl.minimum(y, 0.0) * LOG2_E))
    if ACT == GELU:
        return 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    return y


@triton.jit
def slope(y, ACT: tl.constexpr):
    """Return act'(y)."""
    if ACT == ELU:
        return tl.exp2(tl.minimum(y, 0.0) * LOG2_E)
    if ACT == GELU:
        density = 0.3989422804014327 * tl.exp2(y * y * (-0.5 * LOG2_E))
        return 0.5 * (1.0 + tl.erf(y * 0.7071067811865476)) + y * density
    return y * 0.0 + 1.0


@triton.jit
def tile(pointer, rows, columns, row_stride, row_end, column_end):
    """Load a tile with zeros outside of row_end x column_end."""
    inside = (rows[:, None] < row_end) & (columns[None, :] < column_end)
    return tl.load(pointer + rows[:, None] * row_stride + columns[None, :], mask=inside, other=0.0)


@triton.jit
def visible_logits(
    s, rows, cols, bias, stride_bias_m, stride_bias_n, q_length, k_length,
    CAUSAL: tl.constexpr, HAS_BIAS: tl.constexpr,
):  # fmt: skip
    """Return logits with the bias added and -inf where a query may not see a key."""
    seen = (rows[:, None] < q_length) & (cols[None, :] < k_length)
    if CAUSAL:  # the last query is aligned with the last key, as decoding with a cache needs it
        seen = seen & (cols[None, :] <= rows[:, None] + k_length - q_length)
    if HAS_BIAS:
        inside = (rows[:, None] < q_length) & (cols[None, :] < k_length)
        where = bias + rows[:, None] * stride_bias_m + cols[None, :] * stride_bias_n
        s = s + tl.load(where, mask=inside, other=0.0).to(tl.float32)
    return tl.where(seen, s, float("-inf"))


@triton.jit
def online(s2, v, share, acc, total, top, PRECISION: tl.constexpr):
    """Add a tile of logits in base 2, with values v and shares of the mass, to the running softmax."""
    new_top = tl.maximum(top, tl.max(s2, axis=1))
    # rows that have seen nothing keep top = -inf; subtracting it would give nan
    base = tl.where(new_top == float("-inf"), 0.0, new_top)
    p = tl.exp2(s2 - base[:, None])
    shrink = tl.exp2(top - base)
    acc = acc * shrink[:, None] + product(p.to(v.dtype), v, PRECISION)
    return acc, total * shrink + tl.sum(p * share, axis=1), new_top


@triton.jit
def affine(q, W, B, head, gain, r, R, d, cols, HAS_WEIGHT: tl.constexpr, PRECISION: tl.constexpr):
    """Return y = gain q W' + b of the features r, and the tile of W."""
    if HAS_WEIGHT:
        w = tile(W + head * R * d, r, cols, d, R, d)
        b = tl.load(B + head * R + r, mask=r < R, other=0.0)
        y = gain * product(q, tl.trans(w), PRECISION) + b[None, :]
    else:
        # a product with the identity picks columns of q: register tiles cannot be sliced
        w = (r[:, None] == cols[None, :]).to(tl.float32)
        y = gain * product(q, tl.trans(w), PRECISION)
    return y, w


@triton.jit
def forward_kernel(
    Q, K, V, OUT, LSE, SIGN, BIAS,
    C, U, SHARE, LOG_SIZE, START, LENGTH, W, B, Z, MASS, LEVEL,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_bias_b, stride_bias_h, stride_bias_m, stride_bias_n, stride_start_b,
    heads, token_heads, state_heads, q_length, k_length, R, d, dv, scale, cap, prefix_cap, gain,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr,
    CAUSAL: tl.constexpr, HAS_BIAS: tl.constexpr, SOFTCAP: tl.constexpr,
    PREFIX: tl.constexpr, PREFIX_SOFTCAP: tl.constexpr, ACT: tl.constexpr, HAS_WEIGHT: tl.constexpr,
    HAS_ONE: tl.constexpr, PRECISION: tl.constexpr, PREFIX_PRECISION: tl.constexpr,
):  # fmt: skip
    """OUT = (e^A v + prefix) / (e^A 1 + prefix mass) and LSE = log of the denominator, per row of queries."""
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    token_head = head // (heads // token_heads)
    state_head = head // (heads // state_heads)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, D)
    vcols = tl.arange(0, DV)
    q = tile(Q + batch * stride_qb + head * stride_qh, rows, cols, stride_qm, q_length, d)
    keys = K + batch * stride_kb + token_head * stride_kh
    values = V + batch * stride_vb + token_head * stride_vh
    bias = BIAS + batch * stride_bias_b + head * stride_bias_h
    acc = tl.zeros([BLOCK_M, DV], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)

    end = k_length
    if CAUSAL:  # keys after the last query of this tile are never seen
        end = tl.minimum(k_length, tl.maximum((tl.program_id(0) + 1) * BLOCK_M + k_length - q_length, 0))
    for n0 in range(0, end, BLOCK_N):
        n = n0 + tl.arange(0, BLOCK_N)
        k = tile(keys, n, cols, stride_kn, k_length, d)
        s, _ = capped(scale * product(q, tl.trans(k), PRECISION), cap, SOFTCAP)
        s = visible_logits(
            s, rows, n, bias, stride_bias_m, stride_bias_n, q_length, k_length, CAUSAL, HAS_BIAS
        )
        v = tile(values, n, vcols, stride_vn, k_length, dv)
        acc, total, top = online(s * LOG2_E, v, 1.0, acc, total, top, PRECISION)

    if PREFIX == TOKENS:
        start = tl.load(START + batch * stride_start_b + state_head)
        count = tl.load(LENGTH + batch * stride_start_b + state_head)
        q32 = q.to(tl.float32)
        for r0 in range(0, count, BLOCK_R):
            r = r0 + tl.arange(0, BLOCK_R)
            c = tile(C + start * d, r, cols, d, count, d)
            s, _ = capped(scale * product(q32, tl.trans(c), PREFIX_PRECISION), prefix_cap, PREFIX_SOFTCAP)
            s += tl.load(LOG_SIZE + start + r, mask=r < count, other=float("-inf"))[None, :]
            u = tile(U + start * dv, r, vcols, dv, count, dv)
            share = tl.load(SHARE + start + r, mask=r < count, other=0.0)
            acc, total, top = online(s * LOG2_E, u, share[None, :], acc, total, top, PREFIX_PRECISION)
    elif PREFIX == FEATURES:
        level = tl.load(LEVEL + state_head) * LOG2_E
        new_top = tl.maximum(top, level)
        shrink = tl.exp2(top - new_top)
        factor = tl.exp2(level - new_top)
        above = tl.zeros([BLOCK_M, DV], tl.float32)
        below = tl.zeros([BLOCK_M], tl.float32)
        q32 = q.to(tl.float32)
        one = 1 if HAS_ONE else 0
        z_rows = Z + state_head * (R + one) * dv
        masses = MASS + state_head * (R + one)
        if HAS_ONE:
            above += tl.load(z_rows + vcols, mask=vcols < dv, other=0.0)[None, :]
            below += tl.load(masses)
        for r0 in range(0, R, BLOCK_R):
            r = r0 + tl.arange(0, BLOCK_R)
            y, _ = affine(q32, W, B, state_head, gain, r, R, d, cols, HAS_WEIGHT, PREFIX_PRECISION)
            a = tl.where(r[None, :] < R, activated(y, ACT), 0.0)
            z = tile(z_rows + one * dv, r, vcols, dv, R, dv)
            mass = tl.load(masses + one + r, mask=r < R, other=0.0)
            above += product(a, z, PREFIX_PRECISION)
            below += tl.sum(a * mass[None, :], axis=1)
        acc = acc * shrink[:, None] + factor[:, None] * above
        total = total * shrink + factor * below
        top = new_top

    out = acc / tl.where(total == 0, 1.0, total)[:, None]
    # features of both signs may make the denominator negative: the logarithm is of its absolute value
    lse = tl.where(total == 0, float("-inf"), top * LN_2 + tl.log(tl.where(total == 0, 1.0, tl.abs(total))))
    inside = (rows[:, None] < q_length) & (vcols[None, :] < dv)
    row = (batch * heads + head) * q_length + rows
    tl.store(OUT + row[:, None] * dv + vcols[None, :], out.to(OUT.dtype.element_ty), mask=inside)
    tl.store(LSE + row, lse, mask=rows < q_length)
    tl.store(SIGN + row, tl.where(total < 0, -1.0, 1.0), mask=rows < q_length)


@triton.jit
def probabilities(s, lse, sign):
    """Return sign e^(s - lse), 0 for rows without mass, whose lse is -inf."""
    empty = lse == float("-inf")
    p = tl.exp2((s - tl.where(empty, 0.0, lse)[:, None]) * LOG2_E)
    return tl.where(empty[:, None], 0.0, p * sign[:, None])


@triton.jit
def row_inputs(Q, DO, LSE, SIGN, DELTA, batch, head, heads, rows, cols, vcols, stride_qb, stride_qh,
               stride_qm, q_length, d, dv):  # fmt: skip
    """Load q, the gradient of the output, lse and delta = sum(do * out) of a tile of rows."""
    q = tile(Q + batch * stride_qb + head * stride_qh, rows, cols, stride_qm, q_length, d)
    row = (batch * heads + head) * q_length
    do = tile(DO + row * dv, rows, vcols, dv, q_length, dv)
    lse = tl.load(LSE + row + rows, mask=rows < q_length, other=float("-inf"))
    delta = tl.load(DELTA + row + rows, mask=rows < q_length, other=0.0)
    sign = tl.load(SIGN + row + rows, mask=rows < q_length, other=1.0)
    return q, do, lse, sign, delta


@triton.jit
def query_gradient_kernel(
    Q, K, V, DO, LSE, SIGN, DELTA, DQ, BIAS,
    C, U, SHARE, LOG_SIZE, START, LENGTH, W, B, Z, MASS, LEVEL,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_bias_b, stride_bias_h, stride_bias_m, stride_bias_n, stride_start_b,
    heads, token_heads, state_heads, q_length, k_length, R, d, dv, scale, cap, prefix_cap, gain,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr,
    CAUSAL: tl.constexpr, HAS_BIAS: tl.constexpr, SOFTCAP: tl.constexpr,
    PREFIX: tl.constexpr, PREFIX_SOFTCAP: tl.constexpr, ACT: tl.constexpr, HAS_WEIGHT: tl.constexpr,
    HAS_ONE: tl.constexpr, PRECISION: tl.constexpr, PREFIX_PRECISION: tl.constexpr,
):  # fmt: skip
    """dL/dq, recomputing the probabilities from the logsumexp."""
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    token_head = head // (heads // token_heads)
    state_head = head // (heads // state_heads)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, D)
    vcols = tl.arange(0, DV)
    q, do, lse, sign, delta = row_inputs(
        Q, DO, LSE, SIGN, DELTA, batch, head, heads, rows, cols, vcols, stride_qb, stride_qh,
        stride_qm,
        q_length, d, dv,
    )  # fmt: skip
    keys = K + batch * stride_kb + token_head * stride_kh
    values = V + batch * stride_vb + token_head * stride_vh
    bias = BIAS + batch * stride_bias_b + head * stride_bias_h
    dq = tl.zeros([BLOCK_M, D], tl.float32)

    end = k_length
    if CAUSAL:
        end = tl.minimum(k_length, tl.maximum((tl.program_id(0) + 1) * BLOCK_M + k_length - q_length, 0))
    for n0 in range(0, end, BLOCK_N):
        n = n0 + tl.arange(0, BLOCK_N)
        k = tile(keys, n, cols, stride_kn, k_length, d)
        s, cap_slope = capped(scale * product(q, tl.trans(k), PRECISION), cap, SOFTCAP)
        s = visible_logits(
            s, rows, n, bias, stride_bias_m, stride_bias_n, q_length, k_length, CAUSAL, HAS_BIAS
        )
        v = tile(values, n, vcols, stride_vn, k_length, dv)
        dp = product(do.to(v.dtype), tl.trans(v), PRECISION)
        ds = probabilities(s, lse, sign) * (dp - delta[:, None]) * cap_slope
        dq += scale * product(ds.to(k.dtype), k, PRECISION)

    if PREFIX == TOKENS:
        start = tl.load(START + batch * stride_start_b + state_head)
        count = tl.load(LENGTH + batch * stride_start_b + state_head)
        q32 = q.to(tl.float32)
        do32 = do.to(tl.float32)
        for r0 in range(0, count, BLOCK_R):
            r = r0 + tl.arange(0, BLOCK_R)
            c = tile(C + start * d, r, cols, d, count, d)
            s, cap_slope = capped(
                scale * product(q32, tl.trans(c), PREFIX_PRECISION), prefix_cap, PREFIX_SOFTCAP
            )
            s += tl.load(LOG_SIZE + start + r, mask=r < count, other=float("-inf"))[None, :]
            u = tile(U + start * dv, r, vcols, dv, count, dv)
            share = tl.load(SHARE + start + r, mask=r < count, other=0.0)
            dp = product(do32, tl.trans(u), PREFIX_PRECISION)
            ds = probabilities(s, lse, sign) * (dp - delta[:, None] * share[None, :]) * cap_slope
            dq += scale * product(ds, c, PREFIX_PRECISION)
    elif PREFIX == FEATURES:
        level = tl.load(LEVEL + state_head)
        factor = tl.where(lse == float("-inf"), 0.0, sign * tl.exp2((level - lse) * LOG2_E))
        q32 = q.to(tl.float32)
        do32 = do.to(tl.float32)
        one = 1 if HAS_ONE else 0
        z_rows = Z + (state_head * (R + one) + one) * dv
        masses = MASS + state_head * (R + one) + one
        for r0 in range(0, R, BLOCK_R):
            r = r0 + tl.arange(0, BLOCK_R)
            y, w = affine(q32, W, B, state_head, gain, r, R, d, cols, HAS_WEIGHT, PREFIX_PRECISION)
            z = tile(z_rows, r, vcols, dv, R, dv)
            mass = tl.load(masses + r, mask=r < R, other=0.0)
            da = product(do32, tl.trans(z), PREFIX_PRECISION)
            da = factor[:, None] * (da - delta[:, None] * mass[None, :])
            dy = tl.where(r[None, :] < R, da * slope(y, ACT), 0.0)
            dq += gain * product(dy, w, PREFIX_PRECISION)

    inside = (rows[:, None] < q_length) & (cols[None, :] < d)
    row = (batch * heads + head) * q_length + rows
    tl.store(DQ + row[:, None] * d + cols[None, :], dq.to(DQ.dtype.element_ty), mask=inside)


@triton.jit
def key_gradient_kernel(
    Q, K, V, DO, LSE, SIGN, DELTA, DK, DVALUES, BIAS,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_bias_b, stride_bias_h, stride_bias_m, stride_bias_n,
    heads, token_heads, q_length, k_length, d, dv, scale, cap,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, HAS_BIAS: tl.constexpr, SOFTCAP: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """dL/dk and dL/dv of a tile of keys, summed over the query heads that share them: no atomics."""
    batch = tl.program_id(1) // token_heads
    token_head = tl.program_id(1) % token_heads
    group = heads // token_heads
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.arange(0, D)
    vcols = tl.arange(0, DV)
    k = tile(K + batch * stride_kb + token_head * stride_kh, n, cols, stride_kn, k_length, d)
    v = tile(V + batch * stride_vb + token_head * stride_vh, n, vcols, stride_vn, k_length, dv)
    dk = tl.zeros([BLOCK_N, D], tl.float32)
    dvalues = tl.zeros([BLOCK_N, DV], tl.float32)
    first = 0
    if CAUSAL:  # queries before this row see none of these keys
        first = tl.maximum(tl.program_id(0) * BLOCK_N - (k_length - q_length), 0) // BLOCK_M * BLOCK_M
    for member in range(group):
        head = token_head * group + member
        bias = BIAS + batch * stride_bias_b + head * stride_bias_h
        for m0 in range(first, q_length, BLOCK_M):
            rows = m0 + tl.arange(0, BLOCK_M)
            q, do, lse, sign, delta = row_inputs(
                Q, DO, LSE, SIGN, DELTA, batch, head, heads, rows, cols, vcols, stride_qb, stride_qh,
                stride_qm,
                q_length, d, dv,
            )  # fmt: skip
            s, cap_slope = capped(scale * product(q, tl.trans(k), PRECISION), cap, SOFTCAP)
            s = visible_logits(s, rows, n, bias, stride_bias_m, stride_bias_n, q_length, k_length, CAUSAL,
                               HAS_BIAS)  # fmt: skip
            p = probabilities(s, lse, sign)
            dvalues += product(tl.trans(p.to(do.dtype)), do, PRECISION)
            dp = product(do.to(v.dtype), tl.trans(v), PRECISION)
            ds = p * (dp - delta[:, None]) * cap_slope
            dk += scale * product(tl.trans(ds.to(q.dtype)), q, PRECISION)
    row = (batch * token_heads + token_head) * k_length + n
    tl.store(DK + row[:, None] * d + cols[None, :], dk.to(DK.dtype.element_ty),
             mask=(n[:, None] < k_length) & (cols[None, :] < d))  # fmt: skip
    tl.store(DVALUES + row[:, None] * dv + vcols[None, :], dvalues.to(DVALUES.dtype.element_ty),
             mask=(n[:, None] < k_length) & (vcols[None, :] < dv))  # fmt: skip


@triton.jit
def token_prefix_gradient_kernel(
    Q, DO, LSE, SIGN, DELTA, C, U, SHARE, LOG_SIZE, START, LENGTH, DC, DU, DSHARE,
    stride_qb, stride_qh, stride_qm, heads, state_heads, q_length, tokens, d, dv, scale, prefix_cap,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_R: tl.constexpr,
    PREFIX_SOFTCAP: tl.constexpr, PREFIX_PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of keys, values and shares of virtual tokens, one partial sum per batch row."""
    state_head = tl.program_id(1)
    batch = tl.program_id(2)
    group = heads // state_heads
    start = tl.load(START + state_head)
    count = tl.load(LENGTH + state_head)
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    cols = tl.arange(0, D)
    vcols = tl.arange(0, DV)
    c = tile(C + start * d, r, cols, d, count, d)
    u = tile(U + start * dv, r, vcols, dv, count, dv)
    log_size = tl.load(LOG_SIZE + start + r, mask=r < count, other=float("-inf"))
    share = tl.load(SHARE + start + r, mask=r < count, other=0.0)
    dc = tl.zeros([BLOCK_R, D], tl.float32)
    du = tl.zeros([BLOCK_R, DV], tl.float32)
    dshare = tl.zeros([BLOCK_R], tl.float32)
    for member in range(group):
        head = state_head * group + member
        for m0 in range(0, q_length, BLOCK_M):
            rows = m0 + tl.arange(0, BLOCK_M)
            q, do, lse, sign, delta = row_inputs(
                Q, DO, LSE, SIGN, DELTA, batch, head, heads, rows, cols, vcols, stride_qb, stride_qh,
                stride_qm,
                q_length, d, dv,
            )  # fmt: skip
            q32 = q.to(tl.float32)
            do32 = do.to(tl.float32)
            s, cap_slope = capped(
                scale * product(q32, tl.trans(c), PREFIX_PRECISION), prefix_cap, PREFIX_SOFTCAP
            )
            p = probabilities(s + log_size[None, :], lse, sign)
            du += product(tl.trans(p), do32, PREFIX_PRECISION)
            dp = product(do32, tl.trans(u), PREFIX_PRECISION)
            dshare -= tl.sum(p * delta[:, None], axis=0)
            ds = p * (dp - delta[:, None] * share[None, :])
            dc += scale * product(tl.trans(ds * cap_slope), q32, PREFIX_PRECISION)
    row = batch * tokens + start + r
    inside = r[:, None] < count
    tl.store(DC + row[:, None] * d + cols[None, :], dc, mask=inside & (cols[None, :] < d))
    tl.store(DU + row[:, None] * dv + vcols[None, :], du, mask=inside & (vcols[None, :] < dv))
    tl.store(DSHARE + row, dshare, mask=r < count)


@triton.jit
def feature_prefix_gradient_kernel(
    Q, DO, LSE, SIGN, DELTA, W, B, Z, MASS, LEVEL, DW, DB, DZ, DMASS,
    stride_qb, stride_qh, stride_qm, heads, state_heads, q_length, R, d, dv, gain,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_R: tl.constexpr, ACT: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, HAS_ONE: tl.constexpr, PREFIX_PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of Z, k and of the map's W and b, one partial sum per batch row."""
    state_head = tl.program_id(1)
    batch = tl.program_id(2)
    group = heads // state_heads
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    cols = tl.arange(0, D)
    vcols = tl.arange(0, DV)
    one = 1 if HAS_ONE else 0
    level = tl.load(LEVEL + state_head)
    z = tile(Z + (state_head * (R + one) + one) * dv, r, vcols, dv, R, dv)
    mass = tl.load(MASS + state_head * (R + one) + one + r, mask=r < R, other=0.0)
    dz = tl.zeros([BLOCK_R, DV], tl.float32)
    dmass = tl.zeros([BLOCK_R], tl.float32)
    dz_one = tl.zeros([DV], tl.float32)
    dmass_one = 0.0
    dw = tl.zeros([BLOCK_R, D], tl.float32)
    db = tl.zeros([BLOCK_R], tl.float32)
    for member in range(group):
        head = state_head * group + member
        for m0 in range(0, q_length, BLOCK_M):
            rows = m0 + tl.arange(0, BLOCK_M)
            q, do, lse, sign, delta = row_inputs(
                Q, DO, LSE, SIGN, DELTA, batch, head, heads, rows, cols, vcols, stride_qb, stride_qh,
                stride_qm,
                q_length, d, dv,
            )  # fmt: skip
            q32 = q.to(tl.float32)
            do32 = do.to(tl.float32)
            factor = tl.where(lse == float("-inf"), 0.0, sign * tl.exp2((level - lse) * LOG2_E))
            weighted = factor[:, None] * do32
            loss = factor * delta
            y, _ = affine(q32, W, B, state_head, gain, r, R, d, cols, HAS_WEIGHT, PREFIX_PRECISION)
            if HAS_WEIGHT:
                da = product(weighted, tl.trans(z), PREFIX_PRECISION)
                dy = (da - loss[:, None] * mass[None, :]) * slope(y, ACT)
                dy = tl.where(rows[:, None] < q_length, dy, 0.0)
                dw += gain * product(tl.trans(dy), q32, PREFIX_PRECISION)
                db += tl.sum(dy, axis=0)
            a = activated(y, ACT)
            dz += product(tl.trans(a), weighted, PREFIX_PRECISION)
            dmass -= tl.sum(a * loss[:, None], axis=0)
            if HAS_ONE:
                dz_one += tl.sum(weighted, axis=0)
                dmass_one -= tl.sum(loss)  # pyright: ignore[reportOperatorIssue]
    at = (batch * state_heads + state_head) * (R + one)
    inside = r[:, None] < R
    tl.store(DZ + (at + one + r)[:, None] * dv + vcols[None, :], dz, mask=inside & (vcols[None, :] < dv))
    tl.store(DMASS + at + one + r, dmass, mask=r < R)
    if HAS_ONE:  # noqa: SIM102, a constant and a run-time condition
        if tl.program_id(0) == 0:
            tl.store(DZ + at * dv + vcols, dz_one, mask=vcols < dv)
            tl.store(DMASS + at, dmass_one)
    if HAS_WEIGHT:
        weights = (batch * state_heads + state_head) * R
        tl.store(DW + (weights + r)[:, None] * d + cols[None, :], dw, mask=inside & (cols[None, :] < d))
        tl.store(DB + weights + r, db, mask=r < R)


@triton.jit
def decode_kernel(
    Q, K, V, PARTIAL, TOTAL, TOP, BIAS, C, U, SHARE, LOG_SIZE, START, LENGTH,
    stride_qb, stride_qh, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn, stride_bias_b,
    stride_bias_h, stride_bias_n, stride_start_b, heads, token_heads, k_length, per_split, splits,
    prefix_splits, d, dv, scale, cap, prefix_cap,
    D: tl.constexpr, DV: tl.constexpr, GROUP: tl.constexpr, BLOCK_N: tl.constexpr,
    HAS_BIAS: tl.constexpr, SOFTCAP: tl.constexpr, PREFIX: tl.constexpr, PREFIX_SOFTCAP: tl.constexpr,
    PRECISION: tl.constexpr, PREFIX_PRECISION: tl.constexpr,
):  # fmt: skip
    """One query per row: partial softmax sums over a share of the keys, or of the row's virtual tokens.

    The query heads that share a token head fill the rows of a tile, so that their product with the keys is a
    matrix product. Programs beyond `splits` share the prefix of their row, whatever its length.
    """
    batch = tl.program_id(0) // token_heads
    token_head = tl.program_id(0) % token_heads
    split = tl.program_id(1)
    members = heads // token_heads
    rows = tl.arange(0, GROUP)
    cols = tl.arange(0, D)
    vcols = tl.arange(0, DV)
    q = tile(Q + batch * stride_qb + token_head * members * stride_qh, rows, cols, stride_qh, members, d)
    acc = tl.zeros([GROUP, DV], tl.float32)
    total = tl.zeros([GROUP], tl.float32)
    top = tl.full([GROUP], float("-inf"), tl.float32)
    if split < splits:
        end = tl.minimum((split + 1) * per_split, k_length)
        for n0 in range(split * per_split, end, BLOCK_N):
            n = n0 + tl.arange(0, BLOCK_N)
            k = tile(K + batch * stride_kb + token_head * stride_kh, n, cols, stride_kn, end, d)
            s, _ = capped(scale * product(q, tl.trans(k), PRECISION), cap, SOFTCAP)
            if HAS_BIAS:
                head = token_head * members + rows
                at = BIAS + batch * stride_bias_b + head[:, None] * stride_bias_h + n[None, :] * stride_bias_n
                inside = (rows[:, None] < members) & (n[None, :] < end)
                s = s + tl.load(at, mask=inside, other=0.0).to(tl.float32)
            s = tl.where(n[None, :] < end, s, float("-inf"))
            v = tile(V + batch * stride_vb + token_head * stride_vh, n, vcols, stride_vn, end, dv)
            acc, total, top = online(s * LOG2_E, v, 1.0, acc, total, top, PRECISION)
    elif PREFIX == TOKENS:
        start = tl.load(START + batch * stride_start_b + token_head)
        count = tl.load(LENGTH + batch * stride_start_b + token_head)
        per_program = tl.cdiv(tl.cdiv(count, BLOCK_N), prefix_splits) * BLOCK_N
        first = (split - splits) * per_program
        q32 = q.to(tl.float32)
        for r0 in range(first, tl.minimum(first + per_program, count), BLOCK_N):
            r = r0 + tl.arange(0, BLOCK_N)
            c = tile(C + start * d, r, cols, d, count, d)
            s, _ = capped(scale * product(q32, tl.trans(c), PREFIX_PRECISION), prefix_cap, PREFIX_SOFTCAP)
            s += tl.load(LOG_SIZE + start + r, mask=r < count, other=float("-inf"))[None, :]
            u = tile(U + start * dv, r, vcols, dv, count, dv)
            share = tl.load(SHARE + start + r, mask=r < count, other=0.0)
            acc, total, top = online(s * LOG2_E, u, share[None, :], acc, total, top, PREFIX_PRECISION)
    row = ((batch * token_heads + token_head) * (splits + prefix_splits) + split) * members + rows
    tl.store(PARTIAL + row[:, None] * dv + vcols[None, :], acc,
             mask=(rows[:, None] < members) & (vcols[None, :] < dv))  # fmt: skip
    tl.store(TOTAL + row, total, mask=rows < members)
    tl.store(TOP + row, top, mask=rows < members)


@triton.jit
def combine_kernel(
    PARTIAL, TOTAL, TOP, OUT, LSE, heads, token_heads, parts, dv, DV: tl.constexpr, PARTS: tl.constexpr
):
    """Merge the partial sums of one query head."""
    batch = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    members = heads // token_heads
    part = tl.arange(0, PARTS)
    vcols = tl.arange(0, DV)
    row = ((batch * token_heads + head // members) * parts + part) * members + head % members
    top = tl.load(TOP + row, mask=part < parts, other=float("-inf"))
    total = tl.load(TOTAL + row, mask=part < parts, other=0.0)
    highest = tl.max(top, axis=0)
    base = tl.where(highest == float("-inf"), 0.0, highest)
    weight = tl.exp2(top - base)
    acc = tl.load(PARTIAL + row[:, None] * dv + vcols[None, :],
                  mask=(part[:, None] < parts) & (vcols[None, :] < dv), other=0.0)  # fmt: skip
    below = tl.sum(weight * total, axis=0)
    out = tl.sum(weight[:, None] * acc, axis=0) / tl.where(below == 0, 1.0, below)
    tl.store(OUT + tl.program_id(0) * dv + vcols, out.to(OUT.dtype.element_ty), mask=vcols < dv)
    lse = tl.where(below == 0, float("-inf"), base * LN_2 + tl.log(tl.where(below == 0, 1.0, below)))
    tl.store(LSE + tl.program_id(0), lse)
