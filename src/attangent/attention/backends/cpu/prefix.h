/* What a prefix adds to the attention of many queries: shared by rows.c and choose.c. call.py fills the struct in. */

#ifndef ATTANGENT_PREFIX_H
#define ATTANGENT_PREFIX_H

#include <stdint.h>

#define VERSION 3
#ifndef LANES
#define LANES 4 /* numbers that one vector of the processor holds: wider ones are taken apart, which is far slower */
#endif

#define MOST_DIM 256 /* of queries and values whose attention to tokens is computed here */

enum { ELU, LEARNED_ELU, LEARNED_GELU, EXPONENTIAL };

typedef struct {
    int64_t batch, row, head; /* how far apart neighbours lie; the numbers of one row are beside each other */
} Strides;

/* Heads of the queries: `sharing` neighbours have one head of the prefix. Z (heads, size, values), mass (heads, size)
   and weight (heads or 1, rows of the weight, dim) lie without gaps; weight_step is 0 where all heads have one weight.
   The four gradients have room for `parts` of each, which the caller sums. */
typedef struct {
    int64_t kind, bfloat, positive;
    int64_t batch, heads, sharing, rows, dim, size, values;
    int64_t parts, threads, weight_step;
    int64_t keys, key_sharing, causal; /* of k and v */
    Strides q_step, out_step, lse_step, grad_step, grad_q_step, k_step, v_step, added_step;
    void *q, *out; /* float32 or bfloat16 */
    float *lse, *total, *sign; /* the last two (batch, heads, rows) or null */
    float *Z, *mass, *weight, *bias, *level;
    void *grad, *grad_q; /* as q */
    float *grad_Z, *grad_mass, *grad_weight, *grad_bias;
    const float *k, *v; /* (batch, heads / key_sharing, keys, dim and values); null where out and lse are of the tokens */
    const float *added; /* (batch, heads, rows, keys), to the logits, or null */
    double gain, cap, scale;
} Call;

#define NOTHING 2 /* what is given back for k and v behind a prefix that is nothing: torch's attention then says all */

/* Passes give 0, or 1 where there was no memory and nothing can be said of the results. */
typedef int Pass(const Call *call, int64_t head, int64_t part);

#endif
