/* Attention of queries to the tokens themselves: out and the logarithm of its mass, in float32.

   A tile of queries lies across the lanes and the keys run down: scores are (keys, QUERIES). The maximum and the sum of
   each query are then elementwise and need no horizontal reduction. Scores are in units of log 2, because 2^x is cheaper
   than e^x. Keys come in blocks of KEYS (online softmax): the output shrinks whenever a later block has a larger score.
   A query that sees no key gets output 0 and mass 0.

   Bfloats become floats when they are read. A processor that multiplies pairs of them leaves them as they are and rounds
   the weights to bfloats. */

#define QUERIES (4 * LANES)

/* 2^x; 0 below -126; NaN stays NaN. Adding 1.5 * 2^23 rounds to an integer in the low bits, which then shift into the
   exponent; a polynomial gives the fractional rest. */
INLINE lanes power_of_two(lanes x)
{
    const lanes magic = all(12582912.0f), bounded = larger(all(-126.0f), x), shifted = bounded + magic;
    const lanes f = bounded - (shifted - magic);
    const lanes p = 1.0f + f * (0.69314718f + f * (0.24022651f + f * (0.055503264f + f * (0.0096179253f
                    + f * (0.0013400431f + f * 0.00015469732f)))));
    return where(x < all(-126.0f), all(0.0f), (lanes)((words)p + ((words)shifted << 23)));
}

/* Rows that a product can read. */
typedef struct {
    const float *at;
    int64_t step;
} Rows;

INLINE const void *row_of(const void *from, Strides s, Place p, int bfloat)
{
    return (const char *)from + offset(s, p) * (bfloat ? 2 : 4);
}

/* Return `count` rows of `width` numbers from `p` on: in place if possible, else as floats in `room`, with zeros up to a
   multiple of AT_ONCE rows. */
INLINE Rows rows_from(const void *from, Strides s, Place p, int64_t count, int64_t width, int bfloat, float *room)
{
    if (!bfloat && count % AT_ONCE == 0)
        return (Rows){row_of(from, s, p, 0), s.row};
    for (int64_t r = 0; r < count; r++, p.row++)
        for (int64_t i = 0; i < width; i += LANES)
            store_some(room + r * width + i, load_some((const char *)row_of(from, s, p, bfloat) + i * (bfloat ? 2 : 4),
                                                       width - i, bfloat), width - i);
    memset(room + count * width, 0, (in_rows(count) - count) * width * sizeof *room);
    return (Rows){room, width};
}

/* Whether to multiply pairs of bfloats. */
INLINE int takes_pairs(const Call *c)
{
#ifdef __AVX512BF16__
    return c->bfloat && c->dim % 2 == 0 && c->q_step.row % 2 == 0 && c->k_step.row % 2 == 0;
#else
    (void)c;
    return 0;
#endif
}

/* Return rows of bfloats as rows of half as many pairs. */
INLINE Rows pairs_from(const void *from, Strides s, Place p, int64_t count, int64_t width, float *room)
{
    const Rows rows = {row_of(from, s, p, 1), s.row / 2};
    if (count % AT_ONCE == 0)
        return rows;
    memset(room, 0, in_rows(count) * width / 2 * sizeof *room);
    for (int64_t r = 0; r < count; r++)
        memcpy(room + r * (width / 2), rows.at + r * rows.step, width / 2 * sizeof *room);
    return (Rows){room, width / 2};
}

INLINE lanes as_pairs(lanes low, lanes high)
{
    const words half = (words){0} + 0x8000u; /* round to nearest */
    return (lanes)((((words)low + half) >> 16) | (((words)high + half) & 0xffff0000u));
}

/* Return pairs of rows: number i of row j holds number i of rows 2 j and 2 j + 1. */
INLINE Rows paired_rows(const void *from, Strides s, Place p, int64_t count, int64_t width, float *room)
{
    for (int64_t r = 0; r < count; r += 2, p.row += 2)
        for (int64_t i = 0; i < width; i += LANES) {
            const uint16_t *low = (const uint16_t *)row_of(from, s, p, 1) + i;
            const lanes high = r + 1 < count ? load_some(low + s.row, width - i, 1) : all(0.0f);
            store(room + r / 2 * width + i, (lanes)((words)high | (words)load_some(low, width - i, 1) >> 16));
        }
    return (Rows){room, width};
}

/* Add the bias of `count` keys from `from` on, in units of log 2. Scaling the lowest finite number, a common "not visible",
   would overflow to -inf: clamp it, but let a true -inf through. */
INLINE void add_to_scores(const Call *c, Place p, int64_t from, int64_t count, int64_t rows)
{
    const lanes least = all(-3.40282347e38f);
    for (int64_t first = 0; first < rows; first += LANES)
        for (int64_t j = 0; j < count; j += LANES) {
            lanes block[LANES];
            for (int64_t r = 0; r < LANES; r++) {
                const Place row = {p.batch, p.head, p.row + (first + r < rows ? first + r : first)};
                block[r] = load_some(c->added + offset(c->added_step, row) + from + j, count - j, 0);
            }
            transpose(block);
            for (int64_t i = 0; i < LANES && j + i < count; i++) {
                float *scores = tile.scores + (j + i) * QUERIES + first;
                const lanes bias = block[i], scaled = larger(least, bias * 1.44269504f);
                store(scores, load(scores) + where(bias < least, bias, scaled));
            }
        }
}

/* Hide later keys of a causal mask: query r of the tile sees the keys of the block up to seen + r. */
INLINE void hide(int64_t seen, int64_t count)
{
    for (int64_t j = seen + 1 > 0 ? seen + 1 : 0; j < count; j++)
        for (int64_t r = 0; r < QUERIES && r < j - seen; r++)
            tile.scores[j * QUERIES + r] = -INFINITY;
}

/* A block of keys for a tile of queries. */
typedef struct {
    int64_t from, count, queries;
    int pairs;
} Block;

/* Compute the scores of a block of keys, with bias and causal mask. */
INLINE void score(const Call *c, Place p, Block b, Rows keys)
{
    const float factor = (float)(c->scale * 1.4426950408889634);
    product(b.pairs, factor, tile.scores, QUERIES, keys.at, keys.step, tile.q, QUERIES, in_rows(b.count),
            b.pairs ? c->dim / 2 : c->dim, in_lanes(b.queries));
    if (c->added)
        add_to_scores(c, p, b.from, b.count, b.queries);
    if (c->causal)
        hide(p.row + c->keys - c->rows - b.from, b.count);
}

/* Turn scores into weights relative to the largest so far, and update mass and shrink. Pairs of weights take the places of
   the first half of them. */
INLINE void weigh(Block b)
{
    for (int64_t v = 0; v < in_lanes(b.queries); v += LANES) {
        float *scores = tile.scores + v;
        const lanes before = load(tile.top + v);
        lanes top = before, mass = {0};
        for (int64_t j = 0; j < b.count; j++)
            top = larger(load(scores + j * QUERIES), top);
        top = larger(top, all(-3.40282347e38f)); /* -inf - -inf would be NaN if no key was visible yet */
        for (int64_t j = 0; j < b.count; j++) {
            lanes weight = power_of_two(load(scores + j * QUERIES) - top);
            mass += weight;
            if (b.pairs) {
                const lanes next = ++j < b.count ? power_of_two(load(scores + j * QUERIES) - top) : all(0.0f);
                mass += next;
                store(scores + j / 2 * QUERIES, as_pairs(weight, next));
            } else
                store(scores + j * QUERIES, weight);
        }
        const lanes shrink = power_of_two(before - top);
        store(tile.top + v, top);
        store(tile.shrink + v, shrink);
        store(tile.mass + v, load(tile.mass + v) * shrink + mass);
    }
}

INLINE void scale_rows(const float *factors, int64_t rows, int64_t step)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < step; i += LANES)
            store(tile.out + r * step + i, factors[r] * load(tile.out + r * step + i));
}

/* Divide by the mass; `top` becomes the logarithm of the mass. */
INLINE void normalise(int64_t rows, int64_t step)
{
    for (int64_t v = 0; v < QUERIES; v += LANES) {
        const lanes mass = load(tile.mass + v);
        store(tile.top + v, load(tile.top + v) * 0.69314718f + logarithm(mass));
        store(tile.shrink + v, where(mass == all(0.0f), all(0.0f), 1.0f / mass));
    }
    scale_rows(tile.shrink, rows, step);
}

INLINE void add_values(Block b, Rows values, int64_t step)
{
    const int64_t rows = in_rows(b.queries);
    if (b.pairs)
        multiply(ADD | PAIRS, 1.0f, tile.out, step, tile.scores, 1, QUERIES, values.at, values.step, rows,
                 (b.count + 1) / 2, step);
    else
        add_product(tile.out, step, tile.scores, 1, QUERIES, values.at, values.step, rows, b.count, step);
}

INLINE int64_t keys_seen(const Call *c, Place p, int64_t count)
{
    return c->causal ? p.row + c->keys - c->rows + count : c->keys;
}

/* Leave the outputs of `count` queries from `p` on, all of one head, in tile.out, and their logsumexps in tile.top. */
INLINE void attend_tile(const Call *c, Place p, int64_t count, const int pairs)
{
    const int64_t step = in_lanes(c->values), end = keys_seen(c, p, count);
    const Rows q = pairs ? pairs_from(c->q, c->q_step, p, count, c->dim, tile.k)
                         : rows_from(c->q, c->q_step, p, count, c->dim, c->bfloat, tile.k);
    transpose_matrix(tile.q, QUERIES, q.at, q.step, count, pairs ? c->dim / 2 : c->dim);
    for (int64_t r = 0; r < QUERIES; r++) {
        tile.top[r] = -INFINITY;
        tile.mass[r] = 0.0f;
    }
    memset(tile.out, 0, in_rows(count) * step * sizeof *tile.out);
    for (Block b = {0, 0, count, pairs}; b.from < end; b.from += KEYS) {
        const Place key = {p.batch, p.head / c->key_sharing, b.from};
        b.count = end - b.from < KEYS ? end - b.from : KEYS;
        score(c, p, b, pairs ? pairs_from(c->k, c->k_step, key, b.count, c->dim, tile.k)
                             : rows_from(c->k, c->k_step, key, b.count, c->dim, c->bfloat, tile.k));
        weigh(b);
        if (b.from) /* the first block has nothing to shrink */
            scale_rows(tile.shrink, in_rows(count), step);
        add_values(b, pairs ? paired_rows(c->v, c->v_step, key, b.count, c->values, tile.v)
                            : rows_from(c->v, c->v_step, key, b.count, c->values, c->bfloat, tile.v), step);
    }
    normalise(in_rows(count), step);
}
