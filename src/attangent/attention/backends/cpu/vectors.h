/* Arithmetic on vectors of LANES floats, with exponentials and logarithms accurate to a few units in the last place. */

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

enum { ADD = 1, PAIRS = 2 }; /* how to multiply matrices */

#define INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t whole __attribute__((vector_size(4 * LANES)));

#if LANES == 16
#define PLACES ((whole){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#elif LANES == 8
#define PLACES ((whole){0, 1, 2, 3, 4, 5, 6, 7})
#else
#define PLACES ((whole){0, 1, 2, 3})
#endif

INLINE lanes load(const float *from)
{
    lanes result;
    memcpy(&result, from, sizeof result);
    return result;
}

INLINE void store(float *to, lanes value) { memcpy(to, &value, sizeof value); }

INLINE void store_some(float *to, lanes value, int64_t count)
{
    memcpy(to, &value, (count < LANES ? count : LANES) * sizeof *to);
}

INLINE lanes all(float value) { return (lanes){0} + value; }

INLINE lanes where(whole chosen, lanes yes, lanes no)
{
    return (lanes)((chosen & (whole)yes) | (~chosen & (whole)no));
}

typedef uint16_t bfloats __attribute__((vector_size(2 * LANES)));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));

/* Load up to LANES floats or bfloats as floats, the rest as 0. */
INLINE lanes load_some(const void *from, int64_t count, int bfloat)
{
    if (!bfloat) {
        lanes result = {0};
        memcpy(&result, from, (count < LANES ? count : LANES) * sizeof(float));
        return result;
    }
    bfloats halves = {0};
    memcpy(&halves, from, (count < LANES ? count : LANES) * sizeof(uint16_t));
    return (lanes)(__builtin_convertvector(halves, words) << 16);
}

/* Both return the second argument if either is NaN, as the instructions do: callers put the value that must survive
   there. */
#if LANES == 16
INLINE lanes larger(lanes a, lanes b) { return (lanes)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE lanes smaller(lanes a, lanes b) { return (lanes)_mm512_min_ps((__m512)a, (__m512)b); }
#elif LANES == 8
INLINE lanes larger(lanes a, lanes b) { return (lanes)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE lanes smaller(lanes a, lanes b) { return (lanes)_mm256_min_ps((__m256)a, (__m256)b); }
#else
INLINE lanes larger(lanes a, lanes b) { return where(a > b, a, b); }
INLINE lanes smaller(lanes a, lanes b) { return where(a < b, a, b); }
#endif
INLINE lanes size_of(lanes x) { return (lanes)((whole)x & 0x7fffffff); }

/* Select from a and b by index: indices from LANES on name numbers of b. */
INLINE lanes shuffled(lanes a, lanes b, whole chosen)
{
#if defined(__GNUC__) && !defined(__clang__)
    return __builtin_shuffle(a, b, chosen);
#else
    lanes result;
    for (int l = 0; l < LANES; l++)
        result[l] = chosen[l] < LANES ? a[chosen[l]] : b[chosen[l] - LANES];
    return result;
#endif
}

/* Add halves to each other: one running sum would make each addition wait for the one before. */
INLINE float sum(lanes x)
{
    float part[LANES];
    store(part, x);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            part[i] += part[i + n];
    return part[0];
}

/* e^x for x up to 88; 0 below -87. With n the integer nearest to x log2 e, e^x = 2^n e^(x - n log 2). log 2 is split into
   two constants, so that n log 2 keeps the bits that one float would lose. */
INLINE lanes exponential(lanes x)
{
    const lanes magic = all(12582912.0f), bounded = smaller(larger(x, all(-87.0f)), all(88.0f));
    const lanes n = (bounded * 1.44269504f + magic) - magic;
    const lanes f = bounded - n * 0.693359375f - n * -2.12194440e-4f;
    const lanes p = 1.0f + f + f * f * (0.5f + f * (0.16666665f + f * (0.041665795f + f * (0.008333452f
                    + f * (0.0013981999f + f * 0.00019875691f)))));
    const whole power = (__builtin_convertvector(n, whole) + 127) << 23;
    return where(x < all(-87.0f), all(0.0f), p * (lanes)power);
}

/* log x for x from the smallest normal number on; -inf below. x = 2^n m with m in [sqrt 1/2, sqrt 2), where the polynomial
   around 1 is accurate. */
INLINE lanes logarithm(lanes x)
{
    const whole bits = (whole)x;
    whole n = (bits >> 23) - 126;
    lanes m = (lanes)((bits & 0x007fffff) | 0x3f000000);
    const whole low = m < all(0.707106781f);
    n += low;
    m = m + where(low, m, all(0.0f)) - 1.0f;
    const lanes z = m * m, scale = __builtin_convertvector(n, lanes);
    const lanes p = 3.3333331174e-1f + m * (-2.4999993993e-1f + m * (2.0000714765e-1f + m * (-1.6668057665e-1f
                    + m * (1.4249322787e-1f + m * (-1.2420140846e-1f + m * (1.1676998740e-1f
                    + m * (-1.1514610310e-1f + m * 7.0376836292e-2f)))))));
    const lanes result = m - 0.5f * z + m * z * p + scale * -2.12194440e-4f + scale * 0.693359375f;
    const lanes known = where(x >= all(INFINITY), x, result);
    return where(x < all(1.17549435e-38f), all(-INFINITY), known);
}

/* erf to 5e-7: x p(x^2) / q(x^2), a minimax fit of the relative error on [0, 3.92]; 1 in float32 beyond. */
INLINE lanes error_function(lanes x)
{
    const lanes near = smaller(larger(x, all(-3.92f)), all(3.92f)), z = near * near;
    const lanes p = 1.1283791f + z * (0.1904067f + z * (0.052748758f + z * (0.0037656277f
                    + z * (0.00028488314f + z * 2.0500879e-06f))));
    const lanes q = 1.0f + z * (0.50207627f + z * (0.11410921f + z * (0.014969238f
                    + z * (0.0011625384f + z * 3.8091741e-05f))));
    return near * p / q;
}

/* Exchange the off-diagonal blocks in every square of 2 half x 2 half numbers: one of the log2 LANES steps of a transpose. */
INLINE void exchange(lanes *rows, const int half)
{
    const whole place = PLACES, right = (place & half) != 0; /* -1 or 0 */
    const whole low = place + (right & (LANES - half)), high = place + half + (right & (LANES - half));
    for (int i = 0; i < LANES; i++) {
        if (i & half)
            continue;
        const lanes a = rows[i], b = rows[i + half];
        rows[i] = shuffled(a, b, low);
        rows[i + half] = shuffled(a, b, high);
    }
}

/* Transpose LANES x LANES numbers. */
INLINE void transpose(lanes *rows)
{
#if LANES == 16
    exchange(rows, 8);
#endif
#if LANES >= 8
    exchange(rows, 4);
#endif
    exchange(rows, 2);
    exchange(rows, 1);
}

/* to (columns, rows) = from' */
static void transpose_matrix(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t rows, int64_t columns)
{
    for (int64_t first = 0; first < rows; first += LANES)
        for (int64_t i = 0; i < columns; i += LANES) {
            lanes block[LANES];
            for (int64_t r = 0; r < LANES; r++)
                block[r] = first + r < rows ? load_some(from + (first + r) * from_step + i, columns - i, 0) : all(0.0f);
            transpose(block);
            for (int64_t j = 0; j < LANES && i + j < columns; j++)
                store(to + (i + j) * to_step + first, block[j]);
        }
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

/* sum + x w. Of PAIRS, x and every number of w are two bfloats, whose products are added. */
INLINE lanes plus_product(const int mode, lanes sum, float x, lanes w)
{
#ifdef __AVX512BF16__
    if (mode & PAIRS)
        return (lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(x), (__m512bh)w);
#else
    (void)mode;
#endif
    return sum + x * w;
}

/* y (AT_ONCE, vectors of LANES) = factor x W, or += in the mode ADD; W is (inner, the same columns). The sums stay in
   registers, and every loaded vector of W serves AT_ONCE rows: products, not loads, then take the time. */
INLINE void multiply_block(const int mode, float factor, float *y, int64_t y_step, const float *x, int64_t x_step,
                           int64_t x_inner, const float *W, int64_t W_step, int64_t inner, const int vectors)
{
    lanes sums[AT_ONCE][BESIDE];
    for (int r = 0; r < AT_ONCE; r++)
        for (int c = 0; c < vectors; c++)
            sums[r][c] = mode & ADD ? load(y + r * y_step + c * LANES) : all(0.0f);
    for (int64_t j = 0; j < inner; j++) {
        lanes w[BESIDE];
        for (int c = 0; c < vectors; c++)
            w[c] = load(W + j * W_step + c * LANES);
        for (int r = 0; r < AT_ONCE; r++)
            for (int c = 0; c < vectors; c++)
                sums[r][c] = plus_product(mode, sums[r][c], x[r * x_step + j * x_inner], w[c]);
    }
    for (int r = 0; r < AT_ONCE; r++)
        for (int c = 0; c < vectors; c++)
            store(y + r * y_step + c * LANES, mode & ADD ? sums[r][c] : factor * sums[r][c]);
}

/* The same for a multiple of AT_ONCE rows and a multiple of LANES columns: BESIDE vectors at a time, then single ones. */
INLINE void multiply(const int mode, float factor, float *y, int64_t y_step, const float *x, int64_t x_step,
                     int64_t x_inner, const float *W, int64_t W_step, int64_t rows, int64_t inner, int64_t columns)
{
    for (int64_t r = 0; r < rows; r += AT_ONCE) {
        float *to = y + r * y_step;
        const float *from = x + r * x_step;
        int64_t c = 0;
        for (; c + BESIDE * LANES <= columns; c += BESIDE * LANES)
            multiply_block(mode, factor, to + c, y_step, from, x_step, x_inner, W + c, W_step, inner, BESIDE);
        for (; c < columns; c += LANES)
            multiply_block(mode, factor, to + c, y_step, from, x_step, x_inner, W + c, W_step, inner, 1);
    }
}

/* y = factor x W */
INLINE void product(const int pairs, float factor, float *y, int64_t y_step, const float *x, int64_t x_step,
                    const float *W, int64_t W_step, int64_t rows, int64_t inner, int64_t columns)
{
    if (pairs)
        multiply(PAIRS, factor, y, y_step, x, x_step, 1, W, W_step, rows, inner, columns);
    else
        multiply(0, factor, y, y_step, x, x_step, 1, W, W_step, rows, inner, columns);
}

/* y += x W */
INLINE void add_product(float *y, int64_t y_step, const float *x, int64_t x_step, int64_t x_inner, const float *W,
                        int64_t W_step, int64_t rows, int64_t inner, int64_t columns)
{
    multiply(ADD, 1.0f, y, y_step, x, x_step, x_inner, W, W_step, rows, inner, columns);
}
