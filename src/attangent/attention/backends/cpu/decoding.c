/* One query per sequence and head: merge the attention over the tokens with the prefix, in place.

       out += share (u - out),  share = sigmoid(l - lse)

   decode.py has the formulas in torch; decoding.py calls this and checks its arguments. Weights and lse are float32,
   queries and out float32 or bfloat16. Every head of the prefix has its own number of features; these and the columns of
   values are padded to multiples of BLOCK. W lies in blocks of BLOCK features, each (dim, BLOCK), so that a query reads
   it from front to back. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define VERSION 4
#define BLOCK 16
#define MOST 1024 /* largest head size of queries, most columns of values */
#define AT_ONCE 256 /* features whose scores exist at once: 1 KB on the stack */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("fma", "default")))
#else
#define FOR_THIS_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))

typedef float eight __attribute__((vector_size(32)));

enum { LEARNED, ANCHORS, ELU };

typedef struct {
    int64_t kind;
    int64_t heads, sharing; /* heads of the queries; how many consecutive ones share a head of the prefix */
    int64_t dim, columns, values;
    const int64_t *starts; /* first feature of each head of the prefix, and the end of the last */
    const float *W, *bias, *Z, *first, *level; /* the last two for learned features only; ELU stores masses as the bias,
                                                  the factor of the query as the level, and no W */
} Prefix;

typedef struct {
    void *out;
    const float *lse;
    const void *q;
    int bfloat;
} Rows;

int decoding_version(void) { return VERSION; }

INLINE eight load(const float *from)
{
    eight result;
    memcpy(&result, from, sizeof result);
    return result;
}

INLINE void store(float *to, eight value) { memcpy(to, &value, sizeof value); }

/* y += x W for BLOCK columns of W with rows `stride` apart. Four independent sums hide the latency of the additions: a
   single one would wait for itself. */
INLINE void add_block(float *y, const float *x, const float *W, int64_t rows, int64_t stride)
{
    eight even_low = load(y), even_high = load(y + 8), odd_low = {0}, odd_high = {0};
    int64_t i = 0;
    for (; i + 1 < rows; i += 2, W += 2 * stride) {
        even_low += x[i] * load(W);
        even_high += x[i] * load(W + 8);
        odd_low += x[i + 1] * load(W + stride);
        odd_high += x[i + 1] * load(W + stride + 8);
    }
    if (i < rows) {
        even_low += x[i] * load(W);
        even_high += x[i] * load(W + 8);
    }
    store(y, even_low + odd_low);
    store(y + 8, even_high + odd_high);
}

/* t = bias + x W for `count` features from `from` on. */
INLINE void scores(float *t, const float *x, const Prefix *p, int64_t from, int64_t count)
{
    memcpy(t, p->bias + from, count * sizeof *t);
    for (int64_t j = 0; j < count; j += BLOCK)
        add_block(t + j, x, p->W + (from + j) * p->dim, p->dim, BLOCK);
}

/* u += t Z for these features. */
INLINE void add_values(float *u, const float *t, const Prefix *p, int64_t from, int64_t count)
{
    for (int64_t j = 0; j < p->columns; j += BLOCK)
        add_block(u + j, t, p->Z + from * p->columns + j, count, p->columns);
}

/* erf to 5e-7: x p(x^2) / q(x^2), a minimax fit of the relative error on [0, 3.92]; 1 in float32 beyond. Unlike erff it
   has no branch in the loop, so the compiler vectorises it. */
INLINE float fast_erf(float x)
{
    const float z = x * x;
    const float p = 1.1283791f + z * (0.1904067f + z * (0.052748758f + z * (0.0037656277f
                    + z * (0.00028488314f + z * 2.0500879e-06f))));
    const float q = 1.0f + z * (0.50207627f + z * (0.11410921f + z * (0.014969238f
                    + z * (0.0011625384f + z * 3.8091741e-05f))));
    const float near = x * p / q;
    return x > 3.92f ? 1.0f : x < -3.92f ? -1.0f : near;
}

INLINE float from_bfloat(uint16_t value)
{
    const uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* Round to nearest, ties to even, as torch does; NaN must not round to infinity. */
INLINE uint16_t to_bfloat(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Return a query as float32, converted into `room` if it is bfloat16. */
INLINE const float *query(const Rows *rows, int64_t at, int64_t dim, float *room)
{
    if (!rows->bfloat)
        return (const float *)rows->q + at * dim;
    for (int64_t i = 0; i < dim; i++)
        room[i] = from_bfloat(((const uint16_t *)rows->q)[at * dim + i]);
    return room;
}

INLINE void blend(const Rows *rows, int64_t at, int64_t values, const float *u, float level)
{
    const float share = 1.0f / (1.0f + expf(rows->lse[at] - level));
    if (rows->bfloat) {
        uint16_t *own = (uint16_t *)rows->out + at * values;
        for (int64_t j = 0; j < values; j++)
            own[j] = to_bfloat(from_bfloat(own[j]) + share * (u[j] - from_bfloat(own[j])));
    } else {
        float *own = (float *)rows->out + at * values;
        for (int64_t j = 0; j < values; j++)
            own[j] += share * (u[j] - own[j]);
    }
}

INLINE int64_t at_most(int64_t count) { return count < AT_ONCE ? count : AT_ONCE; }

/* u = first + (t + t erf t) Z with t = bias + q W; returns l = level. */
INLINE float attend_learned(float *u, const float *x, const Prefix *p, int64_t head)
{
    float t[AT_ONCE];
    memcpy(u, p->first + head * p->columns, p->columns * sizeof *u);
    for (int64_t from = p->starts[head], end = p->starts[head + 1]; from < end; from += AT_ONCE) {
        const int64_t count = at_most(end - from);
        scores(t, x, p, from, count);
        for (int64_t j = 0; j < count; j++)
            t[j] += t[j] * fast_erf(t[j]);
        add_values(u, t, p, from, count);
    }
    return p->level[head];
}

/* u = softmax(t) Z with t = bias + q W; returns l = logsumexp(t). Padding has bias -inf. Scores come in pieces of AT_ONCE
   (online softmax): u and mass shrink whenever a later piece has a larger score. */
INLINE float attend_anchors(float *u, const float *x, const Prefix *p, int64_t head)
{
    float t[AT_ONCE], top = -INFINITY, mass = 0.0f;
    memset(u, 0, p->columns * sizeof *u);
    for (int64_t from = p->starts[head], end = p->starts[head + 1]; from < end; from += AT_ONCE) {
        const int64_t count = at_most(end - from);
        float higher = top;
        scores(t, x, p, from, count);
        for (int64_t j = 0; j < count; j++)
            higher = t[j] > higher ? t[j] : higher;
        if (higher > top) {
            const float shrink = expf(top - higher);
            mass *= shrink;
            for (int64_t j = 0; j < p->columns; j++)
                u[j] *= shrink;
            top = higher;
        }
        const float shift = top == -INFINITY ? 0.0f : top; /* -inf - -inf would be NaN */
        for (int64_t j = 0; j < count; j++)
            mass += t[j] = expf(t[j] - shift);
        add_values(u, t, p, from, count);
    }
    for (int64_t j = 0; j < p->columns; j++)
        u[j] /= mass;
    return top + logf(mass);
}

/* u = phi Z / phi k with phi = elu(factor q) + 1; returns l = log(phi k). Without mass u is 0 and l is -inf. */
INLINE float attend_elu(float *u, const float *x, const Prefix *p, int64_t head)
{
    float t[AT_ONCE], mass = 0.0f;
    const float factor = p->level[0];
    const int64_t start = p->starts[head], end = p->starts[head + 1];
    memset(u, 0, p->columns * sizeof *u);
    for (int64_t from = start; from < end; from += AT_ONCE) {
        const int64_t count = at_most(end - from);
        for (int64_t j = 0; j < count; j++) {
            const int64_t i = from - start + j;
            const float y = i < p->dim ? factor * x[i] : 0.0f;
            t[j] = y > 0.0f ? y + 1.0f : expf(y);
            mass += t[j] * p->bias[from + j];
        }
        add_values(u, t, p, from, count);
    }
    for (int64_t j = 0; j < p->columns; j++)
        u[j] = mass > 0.0f ? u[j] / mass : 0.0f;
    return mass > 0.0f ? logf(mass) : -INFINITY;
}

INLINE float attend(float *u, const float *x, const Prefix *p, int64_t head)
{
    return p->kind == ANCHORS ? attend_anchors(u, x, p, head)
         : p->kind == ELU     ? attend_elu(u, x, p, head)
                              : attend_learned(u, x, p, head);
}

/* Merge the prefix p into sequences `first` to `last` - 1, head by head, so that the weights of a head stay in cache. */
INLINE void merge_run(const Rows *rows, int64_t first, int64_t last, const Prefix *p)
{
    float x[MOST], u[MOST];
    for (int64_t h = 0; h < p->heads; h++)
        for (int64_t b = first; b < last; b++) {
            const int64_t at = b * p->heads + h, head = h / p->sharing;
            const float *q = query(rows, at, p->dim, x);
            blend(rows, at, p->values, u, attend(u, q, p, head));
        }
}

/* Sequence b has the prefix prefixes[b], or none if that is null. Runs of sequences with one prefix are merged together. */
FOR_THIS_PROCESSOR
void merge(void *out, const float *lse, const void *q, int64_t batch, int bfloat, const Prefix *const *prefixes)
{
    const Rows rows = {out, lse, q, bfloat};
    for (int64_t first = 0, last; first < batch; first = last) {
        for (last = first + 1; last < batch && prefixes[last] == prefixes[first]; last++)
            ;
        if (prefixes[first])
            merge_run(&rows, first, last, prefixes[first]);
    }
}
