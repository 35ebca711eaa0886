/* The gradients of queries, keys and values of the tokens, from the saved logarithm t of the total mass:

       P = sign e^(s - t),  dv = P' g,  dS = P (g v' - g . out),  dq = scale dS k,  dk = scale dS' q

   A task is one head of the keys of one member of the batch: no other task then adds to its dk and dv. Scores lie as in
   tokens.h, which makes all five products ones that `multiply` knows. */

/* Read log2 of the total mass, g . out and the sign of `count` queries. */
INLINE void read_totals(const Call *c, Place p, int64_t count, Rows g)
{
    const Rows out = rows_from(c->out, c->out_step, p, count, c->values, c->bfloat, slope.out);
    for (int64_t r = 0; r < QUERIES; r++) {
        const int64_t at = flat(c, p) + r;
        const float total = r < count ? c->total[at] * 1.44269504f : 0.0f;
        slope.total[r] = total < -3.40282347e38f ? -3.40282347e38f : total;
        slope.delta[r] = r < count ? product_with(g.at + r * g.step, out.at + r * out.step, c->values) : 0.0f;
        slope.sign[r] = r < count && c->sign ? c->sign[at] : 1.0f;
    }
}

/* Turn scores into P, and g v' in `slopes` into dS. A signed mass may be smaller than that of a token: bound its weight. */
INLINE void weigh_slopes(Block b)
{
    for (int64_t v = 0; v < in_lanes(b.queries); v += LANES) {
        const lanes total = load(slope.total + v), delta = load(slope.delta + v), sign = load(slope.sign + v);
        for (int64_t j = 0; j < b.count; j++) {
            float *score = tile.scores + j * QUERIES + v, *slopes = slope.slopes + j * QUERIES + v;
            const lanes weight = sign * power_of_two(smaller(all(127.0f), load(score) - total));
            store(score, weight);
            store(slopes, weight * (load(slopes) - delta));
        }
    }
}

/* Write factor times `count` rows of `width` numbers. */
INLINE void write_rows(void *to, Strides s, Place p, const float *from, int64_t count, int64_t width, int bfloat,
                       float factor)
{
    for (int64_t r = 0; r < count; r++, p.row++) {
        void *row = (void *)row_of(to, s, p, bfloat);
        for (int64_t i = 0; i < width; i++)
            if (bfloat)
                ((uint16_t *)row)[i] = to_bfloat(factor * from[r * width + i]);
            else
                ((float *)row)[i] = factor * from[r * width + i];
    }
}

INLINE void differentiate_queries(const Call *c, Place p, int64_t count, float *grad_k, float *grad_v)
{
    const int64_t D = c->dim, V = c->values, end = keys_seen(c, p, count);
    const Rows q = rows_from(c->q, c->q_step, p, count, D, c->bfloat, slope.q);
    const Rows g = rows_from(c->grad, c->grad_step, p, count, V, c->bfloat, slope.g);
    transpose_matrix(tile.q, QUERIES, q.at, q.step, count, D);
    transpose_matrix(slope.gt, QUERIES, g.at, g.step, count, V);
    read_totals(c, p, count, g);
    memset(tile.out, 0, in_rows(count) * D * sizeof *tile.out);
    for (Block b = {0, 0, count, 0}; b.from < end; b.from += KEYS) {
        const Place key = {p.batch, p.head / c->key_sharing, b.from};
        b.count = end - b.from < KEYS ? end - b.from : KEYS;
        const int64_t rows = in_rows(b.count);
        const Rows k = rows_from(c->k, c->k_step, key, b.count, D, c->bfloat, tile.k);
        const Rows v = rows_from(c->v, c->v_step, key, b.count, V, c->bfloat, tile.v);
        score(c, p, b, k);
        product(0, 1.0f, slope.slopes, QUERIES, v.at, v.step, slope.gt, QUERIES, rows, V, in_lanes(count));
        weigh_slopes(b);
        add_product(grad_v + b.from * V, V, tile.scores, QUERIES, 1, g.at, g.step, rows, count, V);
        add_product(grad_k + b.from * D, D, slope.slopes, QUERIES, 1, q.at, q.step, rows, count, D);
        add_product(tile.out, D, slope.slopes, 1, QUERIES, k.at, k.step, in_rows(count), b.count, D);
    }
    write_rows(c->grad_q, c->grad_q_step, p, tile.out, count, D, c->bfloat, (float)c->scale);
}

int KIND(token_backward)(const Call *c, int64_t head, int64_t batch)
{
    const int64_t D = c->dim, V = c->values, size = in_rows(c->keys) * (D + V);
    float *memory = size <= OWN ? own : aligned_room(size), *grad_v = memory + in_rows(c->keys) * D;
    if (!memory)
        return 1;
    memset(memory, 0, size * sizeof *memory);
    for (Place p = {batch, head * c->key_sharing, 0}; p.head < (head + 1) * c->key_sharing; p.head++)
        for (p.row = 0; p.row < c->rows; p.row += QUERIES)
            differentiate_queries(c, p, c->rows - p.row < QUERIES ? c->rows - p.row : QUERIES, memory, grad_v);
    const Place first = {batch, head, 0};
    write_rows(c->grad_k, c->grad_k_step, first, memory, c->keys, D, c->bfloat, (float)c->scale);
    write_rows(c->grad_v, c->grad_v_step, first, grad_v, c->keys, V, c->bfloat, 1.0f);
    if (memory != own)
        free(memory);
    return 0;
}
