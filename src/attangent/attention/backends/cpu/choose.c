/* The functions that library.py calls: the passes of rows.c for this processor, on several threads.

   The threads belong to the caller: `parallel` is GOMP_parallel of the OpenMP library that torch has loaded. A second
   thread pool would compete with torch's for the same cores. */

#include <stddef.h>
#include <string.h>

#include "prefix.h"

typedef struct {
    Pass *forward, *attend, *backward, *token_backward;
} Passes;

#define PASSES(kind) {forward_##kind, attend_##kind, backward_##kind, token_backward_##kind}

/* The number of kinds that were compiled besides the plain one. */
#ifndef KINDS
#define KINDS 0
#endif

Pass forward_plain, attend_plain, backward_plain, token_backward_plain;
Pass forward_fma, attend_fma, backward_fma, token_backward_fma;
Pass forward_wide, attend_wide, backward_wide, token_backward_wide;
Pass forward_bfloat, attend_bfloat, backward_bfloat, token_backward_bfloat;
static const Passes kinds[] = {
    PASSES(plain),
#if KINDS > 0
    PASSES(fma),
#endif
#if KINDS > 1
    PASSES(wide), PASSES(bfloat),
#endif
};

OF_THREAD float own[OWN];
OF_THREAD Tile tile;
OF_THREAD Slopes slope;

typedef void Parallel(void (*work)(void *), void *tasks, unsigned threads, unsigned flags);

typedef struct {
    const Call *call;
    Pass *pass;
    int64_t heads, count, next, failed;
} Tasks;

int attention_version(void) { return VERSION; }
size_t attention_call_size(void) { return sizeof(Call); }

/* Each thread takes the next task until none is left: heads differ in cost, so a fixed split would leave threads idle. */
static void work(void *shared)
{
    Tasks *tasks = shared;
    for (int64_t i; (i = __atomic_fetch_add(&tasks->next, 1, __ATOMIC_RELAXED)) < tasks->count;)
        if (tasks->pass(tasks->call, i % tasks->heads, i / tasks->heads))
            __atomic_store_n(&tasks->failed, 1, __ATOMIC_RELAXED);
}

static int run(const Call *call, Parallel *parallel, Pass *pass, int64_t heads, int64_t parts)
{
    Tasks tasks = {call, pass, heads, heads * parts, 0, 0};
    if (parallel && call->threads > 1)
        parallel(work, &tasks, (unsigned)call->threads, 0);
    else
        work(&tasks);
    return (int)tasks.failed;
}

/* 3: vectors of 64 bytes and products of bfloats, 2: vectors of 64 bytes, 1: vectors of 32 bytes with fused multiply-add,
   0: any processor. */
static int kind(void)
{
#if KINDS
    static int known = -1;
    if (known < 0) {
        __builtin_cpu_init();
        const int fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        const int wide = fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
                         && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
        known = fma + wide + (wide && __builtin_cpu_supports("avx512bf16"));
        known = known > KINDS ? KINDS : known;
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

/* Complete a call. Addresses change from call to call and the rest seldom does: the caller keeps the rest. */
static Call completed(const Call *known, void *const *addresses)
{
    Call call = *known;
    memcpy(&call.q, addresses, offsetof(Call, gain) - offsetof(Call, q));
    return call;
}

int attention_forward(const Call *known, void *const *addresses, Parallel *parallel)
{
    const Call call = completed(known, addresses);
    if (call.k && is_nothing(&call))
        return NOTHING;
    const Passes *passes = &kinds[kind()];
    return run(&call, parallel, call.k ? passes->attend : passes->forward, call.heads / call.sharing, call.parts);
}

/* Both backward passes over one head of the prefix. The prefix adds to the gradient of the queries that the tokens write:
   it comes second. */
static int backward_of_head(const Call *call, int64_t head, int64_t part)
{
    const Passes *passes = &kinds[kind()];
    const int64_t count = call->sharing / call->key_sharing;
    for (int64_t batch = 0; batch < call->batch; batch++)
        for (int64_t i = 0; i < count; i++)
            if (passes->token_backward(call, head * count + i, batch))
                return 1;
    return passes->backward(call, head, part);
}

/* One task per head of the prefix if its rows are those of whole heads of keys, and if the threads then share the work
   evenly: waking them once costs less, and the rows are still in cache. */
int attention_backward(const Call *known, void *const *addresses, Parallel *parallel)
{
    const Call call = completed(known, addresses);
    const Passes *passes = &kinds[kind()];
    const int64_t heads = call.heads / call.sharing;
    const int even = heads % call.threads == 0 || heads >= 4 * call.threads;
    if (call.k && call.parts == 1 && call.sharing % call.key_sharing == 0 && even)
        return run(&call, parallel, backward_of_head, heads, 1);
    if (call.k && run(&call, parallel, passes->token_backward, call.heads / call.key_sharing, call.batch))
        return 1;
    return run(&call, parallel, passes->backward, heads, call.parts);
}
