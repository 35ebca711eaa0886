/* One query for each sequence and head: what attention over the tokens gave is merged with the prefix, in place.

       out += share (u - out),  share = sigmoid(l - lse)

   decoding.py has the formulas and the same in torch, native.py calls this. Weights and lse are float32, queries and
   out float32 or bfloat16. The numbers of features and of columns of values are padded with zeros to multiples of
   BLOCK; a head's weights lie together. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define VERSION 2
#define BLOCK 16
#define MOST 1024 /* directions of queries, features, columns of values */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("fma", "default")))
#else
#define FOR_THIS_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))

typedef float eight __attribute__((vector_size(32)));

typedef struct {
    int64_t heads, dim, features, columns, values;
    const float *W, *bias, *Z, *first, *level; /* the last two for learned features only */
} Prefix;

int decoding_version(void) { return VERSION; }

INLINE eight load(const float *from)
{
    eight found;
    memcpy(&found, from, sizeof found);
    return found;
}

INLINE void store(float *to, eight given) { memcpy(to, &given, sizeof given); }

/* y += x W, W of `rows` times `columns`; four sums run beside each other, as one waits for itself. */
INLINE void add_product(float *y, const float *x, const float *W, int64_t rows, int64_t columns)
{
    for (int64_t j = 0; j < columns; j += BLOCK) {
        const float *row = W + j;
        eight even_low = load(y + j), even_high = load(y + j + 8), odd_low = {0}, odd_high = {0};
        int64_t i = 0;
        for (; i + 1 < rows; i += 2, row += 2 * columns) {
            even_low += x[i] * load(row);
            even_high += x[i] * load(row + 8);
            odd_low += x[i + 1] * load(row + columns);
            odd_high += x[i + 1] * load(row + columns + 8);
        }
        if (i < rows) {
            even_low += x[i] * load(row);
            even_high += x[i] * load(row + 8);
        }
        store(y + j, even_low + odd_low);
        store(y + j + 8, even_high + odd_high);
    }
}

/* erf to 5e-7: x p(x^2) / q(x^2), fitted to the least relative error on [0, 3.92]; 1 in float32 beyond. */
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

INLINE float from_bfloat(uint16_t given)
{
    const uint32_t bits = (uint32_t)given << 16;
    float found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

/* The nearest, of two as near the even one. */
INLINE uint16_t to_bfloat(float given)
{
    uint32_t bits;
    memcpy(&bits, &given, sizeof bits);
    return given != given ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* The query at this place as float32, in `room` where it has to be converted. */
INLINE const float *query(const void *q, int64_t at, int64_t dim, int bfloat, float *room)
{
    if (!bfloat)
        return (const float *)q + at * dim;
    for (int64_t i = 0; i < dim; i++)
        room[i] = from_bfloat(((const uint16_t *)q)[at * dim + i]);
    return room;
}

INLINE void blend(void *out, int64_t at, int64_t values, int bfloat, const float *u, float difference)
{
    const float share = 1.0f / (1.0f + expf(difference));
    if (bfloat) {
        uint16_t *own = (uint16_t *)out + at * values;
        for (int64_t j = 0; j < values; j++)
            own[j] = to_bfloat(from_bfloat(own[j]) + share * (u[j] - from_bfloat(own[j])));
    } else {
        float *own = (float *)out + at * values;
        for (int64_t j = 0; j < values; j++)
            own[j] += share * (u[j] - own[j]);
    }
}

/* u = first + (t + t erf t) Z with t = bias + q W, l = level. */
FOR_THIS_PROCESSOR
void merge_learned(void *out, const float *lse, const void *q, int64_t batch, int bfloat, const Prefix *p)
{
    float x[MOST], t[MOST], u[MOST];
    for (int64_t h = 0; h < p->heads; h++)
        for (int64_t b = 0; b < batch; b++) {
            const int64_t at = b * p->heads + h;
            memcpy(t, p->bias + h * p->features, p->features * sizeof *t);
            memcpy(u, p->first + h * p->columns, p->columns * sizeof *u);
            add_product(t, query(q, at, p->dim, bfloat, x), p->W + h * p->dim * p->features, p->dim, p->features);
            for (int64_t j = 0; j < p->features; j++)
                t[j] += t[j] * fast_erf(t[j]);
            add_product(u, t, p->Z + h * p->features * p->columns, p->features, p->columns);
            blend(out, at, p->values, bfloat, u, lse[at] - p->level[h]);
        }
}

/* u = softmax(t) Z and l = logsumexp(t) with t = bias + q W; features of the padding have bias -inf. */
FOR_THIS_PROCESSOR
void merge_anchors(void *out, const float *lse, const void *q, int64_t batch, int bfloat, const Prefix *p)
{
    float x[MOST], t[MOST], u[MOST];
    for (int64_t h = 0; h < p->heads; h++)
        for (int64_t b = 0; b < batch; b++) {
            const int64_t at = b * p->heads + h;
            float top = -INFINITY, mass = 0.0f;
            memcpy(t, p->bias + h * p->features, p->features * sizeof *t);
            memset(u, 0, p->columns * sizeof *u);
            add_product(t, query(q, at, p->dim, bfloat, x), p->W + h * p->dim * p->features, p->dim, p->features);
            for (int64_t j = 0; j < p->features; j++)
                top = t[j] > top ? t[j] : top;
            for (int64_t j = 0; j < p->features; j++)
                mass += t[j] = expf(t[j] - top);
            add_product(u, t, p->Z + h * p->features * p->columns, p->features, p->columns);
            for (int64_t j = 0; j < p->columns; j++)
                u[j] /= mass;
            blend(out, at, p->values, bfloat, u, lse[at] - top - logf(mass));
        }
}
