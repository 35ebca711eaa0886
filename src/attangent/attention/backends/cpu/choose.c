/* The functions that library.py calls: the passes of rows.c for this processor, on several threads.

   The threads belong to the caller: `parallel` is GOMP_parallel of the OpenMP library that torch has loaded. A second
   thread pool would compete with torch's for the same cores. */

#include <stddef.h>

#include "prefix.h"

Pass forward_plain, backward_plain;
#ifdef HAS_KINDS
Pass forward_fma, backward_fma, attend_fma, forward_wide, backward_wide, attend_wide;
#endif

typedef void Parallel(void (*work)(void *), void *tasks, unsigned threads, unsigned flags);

typedef struct {
    const Call *call;
    Pass *pass;
    int64_t next, failed;
} Tasks;

int attention_version(void) { return VERSION; }
size_t attention_call_size(void) { return sizeof(Call); }

/* Each thread takes the next task until none is left: heads differ in cost, so a fixed split would leave threads idle. */
static void work(void *shared)
{
    Tasks *tasks = shared;
    const Call *call = tasks->call;
    const int64_t heads = call->heads / call->sharing, count = heads * call->parts;
    for (int64_t i; (i = __atomic_fetch_add(&tasks->next, 1, __ATOMIC_RELAXED)) < count;)
        if (tasks->pass(call, i % heads, i / heads))
            __atomic_store_n(&tasks->failed, 1, __ATOMIC_RELAXED);
}

static int run(const Call *call, Parallel *parallel, Pass *pass)
{
    Tasks tasks = {call, pass, 0, 0};
    if (parallel && call->threads > 1)
        parallel(work, &tasks, (unsigned)call->threads, 0);
    else
        work(&tasks);
    return (int)tasks.failed;
}

/* 2: vectors of 64 bytes, 1: vectors of 32 bytes with fused multiply-add, 0: any processor. */
static int kind(void)
{
#ifdef HAS_KINDS
    static int known = -1;
    if (known < 0) {
        __builtin_cpu_init();
        const int fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        const int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
                         && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
        known = fma + (fma && wide);
    }
    return known;
#else
    return 0;
#endif
}

/* Whether token attention is faster here than in torch: not without fused multiply-add. */
int attention_takes_tokens(void) { return kind() > 0; }

/* Whether all weights of the prefix are 0. Any other prefix usually shows at its first number. */
static int is_nothing(const Call *call)
{
    const int64_t count = call->heads / call->sharing * call->size;
    for (int64_t i = 0; i < count; i++)
        if (call->mass[i] != 0.0f)
            return 0;
    for (int64_t i = 0; i < count * call->values; i++)
        if (call->Z[i] != 0.0f)
            return 0;
    return 1;
}

int attention_forward(const Call *call, Parallel *parallel)
{
#ifdef HAS_KINDS
    if (call->k && is_nothing(call))
        return NOTHING;
    if (kind() == 2)
        return run(call, parallel, call->k ? attend_wide : forward_wide);
    if (kind())
        return run(call, parallel, call->k ? attend_fma : forward_fma);
#endif
    return run(call, parallel, kind() ? NULL : forward_plain);
}

/* The forward pass of a call whose numbers were filled in before, without outputs for a backward pass. Passing addresses
   as arguments is quicker for Python than writing them into a struct. */
int attention_add(const Call *known, void *q, void *out, float *lse, float *Z, float *mass, float *weight, float *bias,
                  float *level, const float *k, const float *v, const float *added, Parallel *parallel)
{
    Call call = *known;
    call.q = q;
    call.out = out;
    call.lse = lse;
    call.Z = Z;
    call.mass = mass;
    call.weight = weight;
    call.bias = bias;
    call.level = level;
    call.k = k;
    call.v = v;
    call.added = added;
    return attention_forward(&call, parallel);
}

int attention_backward(const Call *call, Parallel *parallel)
{
#ifdef HAS_KINDS
    if (kind())
        return run(call, parallel, kind() == 2 ? backward_wide : backward_fma);
#endif
    return run(call, parallel, kind() ? NULL : backward_plain);
}
