/* The forward and the backward pass of a prefix over many queries; library.py has the formulas.

   A task is one head of the prefix with a part of its rows. It copies the prefix into a padded layout for vectors, then
   processes TILE rows at a time. This file is compiled once per kind of processor, see choose.c. */

#include <stdlib.h>

#include "prefix.h"

#ifndef AT_ONCE
#define AT_ONCE 4 /* rows of a product whose sums fit into registers */
#define KIND(name) name##_plain
#endif
#define BESIDE 2 /* vectors of a row in such a product */
#define TILE 48 /* rows whose features exist at once, so that they stay in cache; a multiple of AT_ONCE */
_Static_assert(LANES % AT_ONCE == 0, "a size that is padded to LANES must be a multiple of AT_ONCE");

#include "vectors.h"

/* A learned map's constant feature comes last here, so that its weights start at a multiple of LANES. */
typedef struct {
    const Call *call;
    int64_t head, hidden; /* features with weights */
    int64_t features, dim, values; /* steps between rows: the sizes padded to LANES */
    float *memory, level, *Z, *mass, *sizes, *W, *bias; /* W is (dim, features) */
    float *x, *w, *terms, *share, *delta; /* a tile: inputs, features, w Z; then one number per row */
    float *Zt, *Wt, *g, *t, *inner, *grad_Z, *grad_mass, *grad_W, *grad_bias; /* for the backward pass */
} Task;

INLINE int64_t in_lanes(int64_t count) { return (count + LANES - 1) / LANES * LANES; }
INLINE int64_t in_rows(int64_t count) { return (count + AT_ONCE - 1) / AT_ONCE * AT_ONCE; }
INLINE int is_learned(const Call *c) { return c->kind == LEARNED_ELU || c->kind == LEARNED_GELU; }

/* Map the index of a feature here to its index in the caller's order. */
INLINE int64_t place(const Task *k, int64_t j) { return !is_learned(k->call) ? j : j == k->hidden ? 0 : j + 1; }

/* Vectors that cross a cache line cost two loads. */
static float *aligned_room(int64_t floats) { return aligned_alloc(64, (floats + 15) / 16 * 64); }

/* Buffers of a task live in `own` if they fit. */
static void free_task(Task *k)
{
    if (k->memory != own)
        free(k->memory);
}

/* Whether a buffer is always written before it is read: its padding then need not be zeroed. */
INLINE int is_written_whole(const Task *k, float **room)
{
    const Call *c = k->call;
    return ((room == &k->Z || room == &k->g) && k->values == c->values) || (room == &k->x && k->dim == c->dim)
           || room == &k->w || room == &k->terms || room == &k->t || room == &k->Zt;
}

static int make_rooms(Task *k, int backward)
{
    const int64_t F = k->features, D = k->dim, V = k->values, weights = k->call->weight ? F * D : 0;
    const int64_t inner = k->call->kind == LEARNED_GELU ? TILE * F : 0;
    const int64_t counts[] = {F * V, F, F, weights, F, TILE * D, TILE * F, TILE * V, TILE + LANES, TILE + LANES,
                              V * F, weights, TILE * V, TILE * F, inner, F * V, F, weights, F};
    float **rooms[] = {&k->Z, &k->mass, &k->sizes, &k->W, &k->bias, &k->x, &k->w, &k->terms, &k->share, &k->delta,
                       &k->Zt, &k->Wt, &k->g, &k->t, &k->inner, &k->grad_Z, &k->grad_mass, &k->grad_W, &k->grad_bias};
    const int used = backward ? 19 : 10;
    int64_t total = 0;
    for (int i = 0; i < used; i++)
        total += counts[i];
    k->memory = total <= OWN ? own : aligned_room(total);
    if (!k->memory)
        return 1;
    float *next = k->memory;
    for (int i = 0; i < used; next += counts[i++]) {
        *rooms[i] = next;
        if (!is_written_whole(k, rooms[i]))
            memset(next, 0, counts[i] * sizeof *next);
    }
    return 0;
}

/* Divide the rows of [Z | mass] by their sizes and add the log sizes to the bias: the largest term is then e^0 and no
   exponential overflows. Equal to `Exponential.row_sizes`. */
static void divide_rows(Task *k)
{
    const Call *c = k->call;
    float largest = 0.0f;
    for (int64_t j = 0; j < c->size; j++) {
        float most = k->mass[j];
        for (int64_t i = 0; i < c->values; i++) {
            const float own = fabsf(k->Z[j * k->values + i]);
            most = own > most ? own : most;
        }
        k->sizes[j] = most;
        largest = most > largest ? most : largest;
    }
    const float least = largest > 0.0f ? 1e-20f * largest : 1.0f;
    for (int64_t j = 0; j < c->size; j++) {
        const float size = k->sizes[j] > least ? k->sizes[j] : least;
        for (int64_t i = 0; i < c->values; i++)
            k->Z[j * k->values + i] /= size;
        k->mass[j] /= size;
        k->sizes[j] = size;
        k->bias[j] += logf(size);
    }
}

static int make_task(Task *k, const Call *c, int64_t head, int backward)
{
    *k = (Task){.call = c, .head = head, .hidden = c->size - is_learned(c), .features = in_lanes(c->size),
                .dim = in_lanes(c->dim), .values = in_lanes(c->values), .level = c->level ? c->level[head] : 0.0f};
    if (make_rooms(k, backward))
        return 1;
    for (int64_t j = 0; j < c->size; j++) {
        const int64_t from = head * c->size + place(k, j);
        k->mass[j] = c->positive ? fabsf(c->mass[from]) : c->mass[from];
        k->sizes[j] = 1.0f;
    }
    /* elu needs no division and no reordering: read Z in place if it needs no padding */
    if (c->kind == ELU && k->values == c->values)
        k->Z = c->Z + head * c->size * c->values;
    else
        for (int64_t j = 0; j < c->size; j++) {
            const int64_t from = head * c->size + place(k, j);
            memcpy(k->Z + j * k->values, c->Z + from * c->values, c->values * sizeof *k->Z);
        }
    const float *weight = c->weight + head * c->weight_step * k->hidden * c->dim;
    const float *bias = c->bias + head * c->weight_step * k->hidden;
    for (int64_t j = 0; c->weight && j < k->hidden; j++) {
        k->bias[j] = c->bias ? bias[j] : 0.0f;
        if (backward)
            memcpy(k->Wt + j * k->dim, weight + j * c->dim, c->dim * sizeof *k->Wt);
    }
    if (c->weight)
        transpose_matrix(k->W, k->features, weight, c->dim, k->hidden, c->dim);
    if (c->kind == EXPONENTIAL) {
        divide_rows(k);
        for (int64_t j = c->size; j < k->features; j++)
            k->bias[j] = -INFINITY;
    }
    if (backward)
        transpose_matrix(k->Zt, k->features, k->Z, k->values, c->size, c->values);
    return 0;
}

typedef struct {
    int64_t batch, head, row;
} Place;

INLINE Place place_of(const Task *k, int64_t i)
{
    const Call *c = k->call;
    const int64_t line = i / c->rows;
    return (Place){line / c->sharing, k->head * c->sharing + line % c->sharing, i % c->rows};
}

/* The row after p. */
INLINE Place next_place(const Task *k, Place p)
{
    const int64_t sharing = k->call->sharing;
    if (++p.row < k->call->rows)
        return p;
    p.row = 0;
    if (++p.head == (k->head + 1) * sharing) {
        p.head -= sharing;
        p.batch++;
    }
    return p;
}

INLINE int64_t offset(Strides s, Place p) { return p.batch * s.batch + p.head * s.head + p.row * s.row; }

INLINE int64_t flat(const Call *c, Place p) { return (p.batch * c->heads + p.head) * c->rows + p.row; }

#include "tokens.h"

INLINE void read_row(float *to, const void *from, int64_t at, int64_t count, int bfloat, float gain)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = gain * (bfloat ? from_bfloat(((const uint16_t *)from)[at + i]) : ((const float *)from)[at + i]);
}

/* Read the inputs of the rows from `first` on; the rest of the tile is 0. */
INLINE void read_inputs(const Task *k, int64_t first, int64_t count)
{
    const Call *c = k->call;
    Place p = place_of(k, first);
    for (int64_t r = 0; r < count; r++, p = next_place(k, p))
        read_row(k->x + r * k->dim, c->q, offset(c->q_step, p), c->dim, c->bfloat, c->gain);
    memset(k->x + count * k->dim, 0, (in_rows(count) - count) * k->dim * sizeof *k->x);
}

INLINE lanes elu_plus_one(lanes y) { return where(y < all(0.0f), power_of_two(y * 1.44269504f), 1.0f + y); }
INLINE lanes gelu(lanes y) { return 0.5f * y * (1.0f + error_function(y * 0.70710678f)); }

INLINE lanes gelu_slope(lanes y)
{
    return 0.5f + 0.5f * error_function(y * 0.70710678f) + y * exponential(-0.5f * y * y) * 0.39894228f;
}

/* w = exp(t - shift) in place; returns the shift, the maximum of t. Starting at the lowest finite number keeps a row of
   -inf from giving NaN. */
INLINE float exponentials(float *t, int64_t count)
{
    lanes top = all(-3.40282347e38f);
    for (int64_t j = 0; j < count; j += LANES)
        top = larger(load(t + j), top);
    float shift = top[0];
    for (int i = 1; i < LANES; i++)
        shift = top[i] > shift ? top[i] : shift;
    for (int64_t j = 0; j < count; j += LANES)
        store(t + j, exponential(load(t + j) - shift));
    return shift;
}

/* Compute the features w of a tile and their factor in log space, `shift`. If `inner` is not null, it receives the input
   of a gelu, which the backward pass needs. */
INLINE void features(const Task *k, int64_t rows, float *shift, float *inner)
{
    const Call *c = k->call;
    const int64_t F = k->features, wide = in_lanes(c->size);
    const float scale = 1.0f / sqrtf(sqrtf((float)c->dim));
    if (c->kind != ELU) {
        for (int64_t r = 0; r < rows; r++)
            memcpy(k->w + r * F, k->bias, wide * sizeof *k->w);
        add_product(k->w, F, k->x, k->dim, 1, k->W, F, rows, c->dim, wide);
    }
    for (int64_t r = 0; r < rows; r++) {
        float *w = k->w + r * F;
        shift[r] = k->level;
        if (c->kind == EXPONENTIAL) {
            shift[r] += exponentials(w, wide);
            continue;
        }
        if (inner && c->kind == LEARNED_GELU)
            memcpy(inner + r * F, w, wide * sizeof *w);
        for (int64_t j = 0; j < wide; j += LANES)
            store(w + j, c->kind == LEARNED_GELU ? gelu(load(w + j))
                       : elu_plus_one(c->kind == ELU ? load(k->x + r * k->dim + j) * scale : load(w + j)));
        if (is_learned(c))
            w[k->hidden] = 1.0f;
    }
}

INLINE float product_with(const float *a, const float *b, int64_t count)
{
    lanes total = {0};
    for (int64_t j = 0; j < count; j += LANES)
        total += load(a + j) * load(b + j);
    return sum(total);
}

#include "gradients.h"

/* For LANES rows: the factors of the tokens' output and of the prefix's terms, and the logarithm and sign of the total
   mass. Equal to `merge_weights` and `total_mass` in prefix_side.py. */
typedef struct {
    lanes keep, add, total, sign;
} Merged;

INLINE Merged merged(lanes lse, lanes mass, lanes shift, float cap, int positive)
{
    const lanes least = all(-3.40282347e38f), log_mass = logarithm(size_of(mass)) + shift;
    Merged result;
    if (positive) {
        /* log(e^a + e^b) by its larger part; tokens count at least e^(shift - cap), so that `add` cannot overflow */
        const lanes add = exponential(shift - larger(lse, shift - cap)), high = larger(lse, log_mass);
        const lanes low = smaller(lse, log_mass), apart = where(low < least, least, low) - high;
        result.keep = 1.0f / (mass * add + 1.0f);
        result.add = add * result.keep;
        result.total = larger(high + logarithm(1.0f + exponential(apart)), least);
        result.sign = all(1.0f);
        return result;
    }
    /* a signed mass may cancel the tokens: divide by the sum itself, relative to the larger of both */
    const lanes top = larger(larger(lse, log_mass), least);
    const lanes tokens = exponential(lse - top), prefix = exponential(smaller(shift - top, all(cap)));
    const lanes together = tokens + mass * prefix;
    const lanes size = where(together == all(0.0f), all(1.0f), together);
    result.keep = tokens / size;
    result.add = prefix / size;
    result.sign = where(together < all(0.0f), all(-1.0f), all(1.0f));
    result.total = top + logarithm(size_of(size));
    return result;
}

/* out = keep out + add terms; of tokens attended to here, `own` is the output so far. */
INLINE void blend(const Call *c, int64_t at, const float *own, const float *terms, float keep, float add)
{
    if (c->bfloat) {
        uint16_t *out = (uint16_t *)c->out + at;
        for (int64_t j = 0; j < c->values; j++)
            out[j] = to_bfloat(keep * (own ? own[j] : from_bfloat(out[j])) + add * terms[j]);
    } else {
        float *out = (float *)c->out + at;
        own = own ? own : out;
        for (int64_t j = 0; j < c->values; j++)
            out[j] = keep * own[j] + add * terms[j];
    }
}

/* Merge the prefix into the rows from `first` on; of tokens attended to here, they are those of the tile from `done` on. */
INLINE void merge_tile(const Task *k, int64_t first, int64_t count, int64_t done)
{
    const Call *c = k->call;
    float shift[TILE + LANES] = {0}, mass[TILE + LANES] = {0}, lse[TILE + LANES] = {0};
    const int64_t rows = in_rows(count);
    read_inputs(k, first, count);
    features(k, rows, shift, NULL);
    product(0, 1.0f, k->terms, k->values, k->w, k->features, k->Z, k->values, rows, c->size, in_lanes(c->values));
    Place p = place_of(k, first);
    for (int64_t r = 0; r < count; r++, p = next_place(k, p)) {
        mass[r] = product_with(k->w + r * k->features, k->mass, in_lanes(c->size));
        lse[r] = c->k ? tile.top[done + r] : c->lse[offset(c->lse_step, p)];
    }
    p = place_of(k, first);
    for (int64_t from = 0; from < count; from += LANES) {
        const Merged m = merged(load(lse + from), load(mass + from), load(shift + from), c->cap, c->positive);
        for (int64_t r = 0; r < LANES && from + r < count; r++, p = next_place(k, p)) {
            const float *own = c->k ? tile.out + (done + from + r) * k->values : NULL;
            blend(c, offset(c->out_step, p), own, k->terms + (from + r) * k->values, m.keep[r], m.add[r]);
            if (c->total)
                c->total[flat(c, p)] = m.total[r];
            if (c->sign)
                c->sign[flat(c, p)] = m.sign[r];
        }
    }
}

/* share = sign e^(shift - total), 0 without mass; delta = -grad . out; g holds the rows of grad. */
INLINE void read_gradients(const Task *k, int64_t first, int64_t count, const float *shift)
{
    const Call *c = k->call;
    const float lowest = -3.40282347e38f;
    Place p = place_of(k, first);
    for (int64_t r = 0; r < count; r++, p = next_place(k, p)) {
        const float total = c->total[flat(c, p)];
        read_row(k->g + r * k->values, c->grad, offset(c->grad_step, p), c->values, c->bfloat, 1.0f);
        read_row(k->terms + r * k->values, c->out, offset(c->out_step, p), c->values, c->bfloat, 1.0f);
        k->delta[r] = -product_with(k->g + r * k->values, k->terms + r * k->values, in_lanes(c->values));
        k->share[r] = total <= lowest ? -INFINITY : shift[r] - total;
    }
    for (int64_t r = 0; r < count; r += LANES)
        store(k->share + r, exponential(smaller(load(k->share + r), all(c->cap))));
    p = place_of(k, first);
    for (int64_t r = 0; c->sign && r < count; r++, p = next_place(k, p))
        k->share[r] *= c->sign[flat(c, p)];
    for (int64_t r = count; r < in_rows(count); r++) {
        k->share[r] = k->delta[r] = 0.0f;
        memset(k->g + r * k->values, 0, k->values * sizeof *k->g);
    }
}

/* t = share (g Z' + delta mass') is the gradient of w; multiply it by the slope of the map for the gradient of the input of
   the map, while w becomes share w. The slopes of elu and exp follow from w itself. */
INLINE void pull_back(const Task *k, int64_t rows)
{
    const Call *c = k->call;
    const int64_t F = k->features, wide = in_lanes(c->size);
    const float scale = 1.0f / sqrtf(sqrtf((float)c->dim));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < wide; j += LANES) {
            const lanes w = load(k->w + r * F + j), d = load(k->t + r * F + j) + k->delta[r] * load(k->mass + j);
            const lanes slope = c->kind == EXPONENTIAL ? w
                              : c->kind == LEARNED_GELU ? gelu_slope(load(k->inner + r * F + j))
                              : smaller(w, all(1.0f)) * (c->kind == ELU ? scale : 1.0f);
            store(k->t + r * F + j, d * k->share[r] * slope);
            store(k->w + r * F + j, w * k->share[r]);
        }
    if (is_learned(c))
        for (int64_t r = 0; r < rows; r++)
            k->t[r * F + k->hidden] = 0.0f;
}

INLINE void add_to_queries(const Task *k, int64_t first, int64_t count, const float *grad_x, int64_t step)
{
    const Call *c = k->call;
    Place p = place_of(k, first);
    for (int64_t r = 0; r < count; r++, p = next_place(k, p)) {
        const int64_t at = offset(c->grad_q_step, p);
        const float *from = grad_x + r * step, gain = c->gain;
        if (c->bfloat) {
            uint16_t *own = (uint16_t *)c->grad_q + at;
            for (int64_t i = 0; i < c->dim; i++)
                own[i] = to_bfloat(from_bfloat(own[i]) + gain * from[i]);
        } else {
            float *own = (float *)c->grad_q + at;
            for (int64_t i = 0; i < c->dim; i++)
                own[i] += gain * from[i];
        }
    }
}

INLINE void differentiate_tile(const Task *k, int64_t first, int64_t count)
{
    const Call *c = k->call;
    float shift[TILE];
    const int64_t rows = in_rows(count), F = k->features, D = k->dim, V = k->values, wide = in_lanes(c->size);
    read_inputs(k, first, count);
    features(k, rows, shift, k->inner);
    read_gradients(k, first, count, shift);
    /* g Z' for the whole tile as one product: this and w' g below take most of the time */
    product(0, 1.0f, k->t, F, k->g, V, k->Zt, F, rows, c->values, wide);
    pull_back(k, rows);
    add_product(k->grad_Z, V, k->w, 1, F, k->g, V, in_rows(c->size), rows, in_lanes(c->values));
    for (int64_t j = 0; j < wide; j += LANES) {
        lanes mass = load(k->grad_mass + j), bias = load(k->grad_bias + j);
        for (int64_t r = 0; r < rows; r++) {
            mass += k->delta[r] * load(k->w + r * F + j);
            bias += load(k->t + r * F + j);
        }
        store(k->grad_mass + j, mass);
        store(k->grad_bias + j, bias);
    }
    if (c->grad_weight)
        add_product(k->grad_W, D, k->t, 1, F, k->x, D, in_rows(k->hidden), rows, in_lanes(c->dim));
    if (!c->grad_q)
        return;
    if (c->kind == ELU) {
        add_to_queries(k, first, count, k->t, F);
        return;
    }
    product(0, 1.0f, k->x, D, k->t, F, k->Wt, D, rows, k->hidden, in_lanes(c->dim));
    add_to_queries(k, first, count, k->x, D);
}

static void write_gradients(const Task *k, int64_t part)
{
    const Call *c = k->call;
    const int64_t heads = c->heads / c->sharing, at = part * heads + k->head;
    for (int64_t j = 0; j < c->size; j++) {
        const int64_t to = at * c->size + place(k, j), at_mass = k->head * c->size + place(k, j);
        c->grad_mass[to] = k->grad_mass[j] / (c->positive && c->mass[at_mass] < 0.0f ? -k->sizes[j] : k->sizes[j]);
        const float inverse = 1.0f / k->sizes[j];
        for (int64_t i = 0; i < c->values; i++)
            c->grad_Z[to * c->values + i] = inverse * k->grad_Z[j * k->values + i];
    }
    for (int64_t j = 0; c->grad_weight && j < k->hidden; j++) {
        memcpy(c->grad_weight + (at * k->hidden + j) * c->dim, k->grad_W + j * k->dim, c->dim * sizeof *k->grad_W);
        if (c->grad_bias)
            c->grad_bias[at * k->hidden + j] = k->grad_bias[j];
    }
}

INLINE int64_t bound(const Call *c, int64_t part) { return c->batch * c->sharing * c->rows * part / c->parts; }

int KIND(forward)(const Call *c, int64_t head, int64_t part)
{
    Task k;
    if (make_task(&k, c, head, 0))
        return 1;
    for (int64_t first = bound(c, part), last = bound(c, part + 1); first < last; first += TILE)
        merge_tile(&k, first, last - first < TILE ? last - first : TILE, 0);
    free_task(&k);
    return 0;
}

/* The same after token attention: merge each tile while its output is still in cache. */
int KIND(attend)(const Call *c, int64_t head, int64_t part)
{
    Task k;
    if (make_task(&k, c, head, 0))
        return 1;
    for (int64_t first = bound(c, part), last = bound(c, part + 1), count; first < last; first += count) {
        const Place p = place_of(&k, first);
        count = last - first < QUERIES ? last - first : QUERIES;
        count = c->rows - p.row < count ? c->rows - p.row : count;
        if (takes_pairs(c))
            attend_tile(c, p, count, 1);
        else
            attend_tile(c, p, count, 0);
        for (int64_t done = 0; done < count; done += TILE)
            merge_tile(&k, first + done, count - done < TILE ? count - done : TILE, done);
    }
    free_task(&k);
    return 0;
}

int KIND(backward)(const Call *c, int64_t head, int64_t part)
{
    Task k;
    if (make_task(&k, c, head, 1))
        return 1;
    for (int64_t first = bound(c, part), last = bound(c, part + 1); first < last; first += TILE)
        differentiate_tile(&k, first, last - first < TILE ? last - first : TILE);
    write_gradients(&k, part);
    free_task(&k);
    return 0;
}
