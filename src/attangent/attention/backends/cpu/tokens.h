/* Attention of queries to the tokens themselves: out and the logarithm of its mass, in float32.

   A tile of queries lies across the lanes and the keys run down: scores are (keys, QUERIES). The maximum and the sum of
   each query are then elementwise and need no horizontal reduction. Scores are in units of log 2, because 2^x is cheaper
   than e^x. Keys come in blocks of KEYS (online softmax): the output shrinks whenever a later block has a larger score.
   A query that sees no key gets output 0 and mass 0. */

#define QUERIES (4 * LANES)
#define KEYS 128

typedef struct {
    float q[MOST_DIM * QUERIES], scores[KEYS * QUERIES], out[QUERIES * MOST_DIM], last[AT_ONCE * MOST_DIM];
    float top[QUERIES], mass[QUERIES], shrink[QUERIES];
} Tile;

static _Thread_local Tile tile;

/* 2^x for x <= 0; 0 below -126; NaN stays NaN. Adding 1.5 * 2^23 rounds to an integer in the low bits, which then shift
   into the exponent; a polynomial gives the fractional rest. */
INLINE lanes power_of_two(lanes x)
{
    const lanes magic = all(12582912.0f), bounded = larger(all(-126.0f), x), shifted = bounded + magic;
    const lanes f = bounded - (shifted - magic);
    const lanes p = 1.0f + f * (0.69314718f + f * (0.24022651f + f * (0.055503264f + f * (0.0096179253f
                    + f * (0.0013400431f + f * 0.00015469732f)))));
    return where(x < all(-126.0f), all(0.0f), (lanes)((whole)p + ((whole)shifted << 23)));
}

INLINE lanes load_some(const float *from, int64_t count)
{
    if (count >= LANES)
        return load(from);
    lanes result = {0};
    memcpy(&result, from, count * sizeof *from);
    return result;
}

INLINE const float *row_of(const float *from, Strides s, int64_t batch, int64_t head, int64_t row)
{
    return from + batch * s.batch + head * s.head + row * s.row;
}

/* Load the queries times scale log2 e, transposed; pad with zeros to whole vectors. The factor here saves one product
   per score later. */
INLINE void read_queries(const Call *c, Place p, int64_t count)
{
    const float factor = (float)(c->scale * 1.4426950408889634);
    for (int64_t from = 0; from < count; from += LANES)
        for (int64_t i = 0; i < c->dim; i += LANES) {
            lanes block[LANES];
            for (int64_t r = 0; r < LANES; r++) {
                const float *row = row_of(c->q, c->q_step, p.batch, p.head, p.row + from + r);
                block[r] = from + r < count ? factor * load_some(row + i, c->dim - i) : all(0.0f);
            }
            transpose(block);
            for (int64_t j = 0; j < LANES && i + j < c->dim; j++)
                store(tile.q + (i + j) * QUERIES + from, block[j]);
        }
}

/* Compute the scores of `count` keys. `product` reads AT_ONCE rows at a time: copy the last few, so that it never reads
   beyond the keys. */
INLINE void score(const Call *c, const float *keys, int64_t count, int64_t across)
{
    const int64_t step = c->k_step.row, whole_rows = count / AT_ONCE * AT_ONCE;
    product(tile.scores, QUERIES, keys, step, 1, tile.q, QUERIES, whole_rows, c->dim, across);
    if (whole_rows == count)
        return;
    memset(tile.last, 0, AT_ONCE * c->dim * sizeof *tile.last);
    for (int64_t j = whole_rows; j < count; j++)
        memcpy(tile.last + (j - whole_rows) * c->dim, keys + j * step, c->dim * sizeof *tile.last);
    product(tile.scores + whole_rows * QUERIES, QUERIES, tile.last, c->dim, 1, tile.q, QUERIES, AT_ONCE, c->dim, across);
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
                const int64_t row = p.row + (first + r < rows ? first + r : first);
                const float *added = row_of(c->added, c->added_step, p.batch, p.head, row) + from + j;
                block[r] = load_some(added, count - j);
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

/* Turn scores into weights relative to the largest so far, and update mass and shrink. */
INLINE void weigh(int64_t count, int64_t across)
{
    for (int64_t v = 0; v < across; v += LANES) {
        const lanes before = load(tile.top + v);
        lanes top = before, mass = {0};
        for (int64_t j = 0; j < count; j++)
            top = larger(load(tile.scores + j * QUERIES + v), top);
        top = larger(top, all(-3.40282347e38f)); /* -inf - -inf would be NaN if no key was visible yet */
        for (int64_t j = 0; j < count; j++) {
            const lanes weight = power_of_two(load(tile.scores + j * QUERIES + v) - top);
            store(tile.scores + j * QUERIES + v, weight);
            mass += weight;
        }
        const lanes shrink = power_of_two(before - top);
        store(tile.top + v, top);
        store(tile.shrink + v, shrink);
        store(tile.mass + v, load(tile.mass + v) * shrink + mass);
    }
}

INLINE void shrink_rows(int64_t rows, int64_t step)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < step; i += LANES)
            store(tile.out + r * step + i, tile.shrink[r] * load(tile.out + r * step + i));
}

INLINE void write_tile(const Call *c, Place p, int64_t count, int64_t step)
{
    for (int64_t v = 0; v < QUERIES; v += LANES)
        store(tile.top + v, load(tile.top + v) * 0.69314718f + logarithm(load(tile.mass + v)));
    for (int64_t r = 0; r < count; r++) {
        float *to = (float *)row_of(c->out, c->out_step, p.batch, p.head, p.row + r);
        const float part = tile.mass[r] == 0.0f ? 0.0f : 1.0f / tile.mass[r];
        for (int64_t i = 0; i < c->values; i++)
            to[i] = part * tile.out[r * step + i];
        *(float *)row_of(c->lse, c->lse_step, p.batch, p.head, p.row + r) = tile.top[r];
    }
}

/* Write out and lse of `count` queries from `p` on, all of one head. */
INLINE void attend_tile(const Call *c, Place p, int64_t count)
{
    const int64_t head = p.head / c->key_sharing, step = in_lanes(c->values), rows = in_rows(count), across = in_lanes(count);
    const int64_t last = p.row + c->keys - c->rows, end = c->causal ? last + count : c->keys;
    read_queries(c, p, count);
    for (int64_t r = 0; r < QUERIES; r++) {
        tile.top[r] = -INFINITY;
        tile.mass[r] = 0.0f;
    }
    memset(tile.out, 0, rows * step * sizeof *tile.out);
    for (int64_t from = 0; from < end; from += KEYS) {
        const int64_t block = end - from < KEYS ? end - from : KEYS, seen = c->causal ? last - from : KEYS;
        score(c, row_of(c->k, c->k_step, p.batch, head, from), block, across);
        if (c->added)
            add_to_scores(c, p, from, block, count);
        hide(seen, block);
        weigh(block, across);
        if (from) /* the first block has nothing to shrink */
            shrink_rows(rows, step);
        add_product(tile.out, step, tile.scores, 1, QUERIES, row_of(c->v, c->v_step, p.batch, head, from),
                    c->v_step.row, rows, block, step);
    }
    write_tile(c, p, count, step);
}
