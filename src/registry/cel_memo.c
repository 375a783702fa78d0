// SPDX-License-Identifier: Apache-2.0
//
// Compiling a CEL expression costs more than everything else about a claim, and the claims of a
// workload repeat their selectors: verdicts are kept by expression. What does not fit any more
// makes room by starting over, which costs a compilation each and needs no bookkeeping.
#include "registry/stage_int.h"

#include "base/banned.h"

#define VERDICTS_MAX      4096
#define VERDICT_BYTES_MAX ((size_t)8 * 1024 * 1024)

static void cel_memo_drop_all(struct cel_memo *m)
{
    for (size_t i = 0; i < array_len(m->verdicts); i++)
        map_done(&m->verdicts[i]);
    memset(m->verdicts, 0, sizeof(m->verdicts));
    arena_done(&m->arena);
    m->count = 0;
}

static void cel_memo_check_expression(void *ctx, const struct api_cel_question *q,
                                      struct arena *arena, struct api_cel_answer *ret)
{
    struct cel_memo *m = ctx;
    struct cel_verdicts *verdicts =
        &m->verdicts[(size_t)q->derived_attribute | (size_t)q->consumable_capacity << 1 |
                     (size_t)q->list_type_attributes << 2];
    const struct api_cel_answer *known = map_get(verdicts, q->expression);
    if (known) {
        *ret = *known;
        ret->detail = arena_str(arena, known->detail);
        return;
    }
    m->engine->check(m->engine->ctx, q, arena, ret);
    if (ret->verdict == API_CEL_INTERNAL || ret->verdict == API_CEL_REFUSED)
        return;
    if (m->count >= VERDICTS_MAX || m->arena.used_bytes > VERDICT_BYTES_MAX)
        cel_memo_drop_all(m);
    m->count++;
    struct api_cel_answer *kept = map_put(verdicts, arena_str(&m->arena, q->expression));
    *kept = *ret;
    kept->detail = arena_str(&m->arena, ret->detail);
}

void cel_memo_init(struct cel_memo *m, const struct api_cel *engine)
{
    *m = (struct cel_memo){.cel = {cel_memo_check_expression, m}, .engine = engine};
}

void cel_memo_done(struct cel_memo *m)
{
    cel_memo_drop_all(m);
}
