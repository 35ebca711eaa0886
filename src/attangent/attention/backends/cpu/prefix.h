/* The arguments of both passes over many queries, shared by rows.c and choose.c. library.py fills in the struct. */

#ifndef ATTANGENT_PREFIX_H
#define ATTANGENT_PREFIX_H

#include <stdint.h>

#define VERSION 4
#ifndef LANES
#define LANES 4 /* floats in one vector register: the compiler would split wider vectors, which is far slower */
#endif

#define MOST_DIM 256 /* largest head size whose token attention is computed here */

enum { ELU, LEARNED_ELU, LEARNED_GELU, EXPONENTIAL };

typedef struct {
    int64_t batch, row, head; /* in floats or bfloats; the numbers of one row are contiguous */
} Strides;

/* `heads` are those of the queries; `sharing` consecutive ones share a head of the prefix. Z (heads, size, values), mass
   (heads, size) and weight (heads or 1, rows of the weight, dim) are contiguous; weight_step is 0 if all heads share one
   weight. The four gradients have room for `parts` copies, which the caller sums. */
typedef struct {
    int64_t kind, bfloat, positive;
    int64_t batch, heads, sharing, rows, dim, size, values;
    int64_t parts, threads, weight_step;
    int64_t keys, key_sharing, causal; /* of k and v */
    Strides q_step, out_step, lse_step, grad_step, grad_q_step, k_step, v_step, added_step,
        grad_k_step, grad_v_step;
    void *q, *out; /* float32 or bfloat16; the first of the addresses */
    float *lse, *total, *sign; /* the last two (batch, heads, rows) or null */
    float *Z, *mass, *weight, *bias, *level;
    void *grad, *grad_q; /* as q */
    float *grad_Z, *grad_mass, *grad_weight, *grad_bias;
    const void *k, *v; /* as q, (batch, heads / key_sharing, keys, dim or values); null for a pass without tokens */
    const float *added; /* bias of the logits (batch, heads, rows, keys), or null */
    void *grad_k, *grad_v; /* as k and v */
    double gain, cap, scale;
} Call;

/* Scratch space that every thread keeps: malloc and free in every call would cost more than a short sequence. The code of
   all kinds of processors shares it, so the sizes are those of the widest vectors. */
#define OWN 65536
#define MOST_QUERIES 64
#define KEYS 128 /* keys whose scores exist at once */

typedef struct {
    float q[MOST_DIM * MOST_QUERIES], scores[KEYS * MOST_QUERIES], out[MOST_QUERIES * MOST_DIM];
    float k[KEYS * MOST_DIM], v[KEYS * MOST_DIM];
    float top[MOST_QUERIES], mass[MOST_QUERIES], shrink[MOST_QUERIES];
} Tile;

typedef struct {
    float q[MOST_QUERIES * MOST_DIM], g[MOST_QUERIES * MOST_DIM], out[MOST_QUERIES * MOST_DIM];
    float gt[MOST_DIM * MOST_QUERIES], slopes[KEYS * MOST_QUERIES];
    float total[MOST_QUERIES], delta[MOST_QUERIES], sign[MOST_QUERIES];
} Slopes;

#define OF_THREAD _Thread_local __attribute__((visibility("hidden"), aligned(64)))
extern OF_THREAD float own[OWN];
extern OF_THREAD Tile tile;
extern OF_THREAD Slopes slope;

#define NOTHING 2 /* return code for tokens with a prefix of zeros: torch's attention then is the whole answer */

/* A pass over one head of the prefix and a part of its rows, or over one head of the keys and a member of the batch. It
   returns 0, or 1 if it ran out of memory and the results are undefined. */
typedef int Pass(const Call *call, int64_t head, int64_t part);

#endif
