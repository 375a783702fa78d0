// SPDX-License-Identifier: Apache-2.0
//
// Checks CEL expressions of device selectors for validation: one environment for each set of
// features, made when the first expression needs it and kept by the engine.
#include "api/cel_check.h"

#include <stdlib.h>

#include "cel/cel.h"

#include "base/banned.h"

// Environments are numbered by three bits: derived attribute, consumable capacity, list types.
#define ENVIRONMENTS 8

struct api_cel_engine {
    struct api_cel cel;
    struct cel_env *environments[ENVIRONMENTS];
};

static size_t environment_index(const struct api_cel_question *q)
{
    return (size_t)q->derived_attribute | (size_t)q->consumable_capacity << 1 |
           (size_t)q->list_type_attributes << 2;
}

static void cel_check_expression(void *ctx, const struct api_cel_question *question,
                                 struct arena *arena, struct api_cel_answer *ret)
{
    const struct api_cel_engine *e = ctx;
    struct cel_program *program = NULL;
    cleanup_sbuf struct sbuf issues = {0};
    int r = cel_compile_within(e->environments[environment_index(question)], question->expression,
                               question->spending, &program, &issues, NULL);
    *ret = (struct api_cel_answer){.verdict = API_CEL_OK};
    if (r < 0) {
        ret->verdict = question->spending && question->spending->refused ? API_CEL_REFUSED
                       : r == -ERR_INVALID                               ? API_CEL_INVALID
                                                                         : API_CEL_INTERNAL;
        ret->detail = arena_str(arena, sbuf_str(&issues));
        return;
    }
    ret->max_cost = cel_program_max_cost(program);
    cel_program_free(program);
}

struct api_cel_engine *api_cel_engine_new(void)
{
    struct api_cel_engine *e = xcalloc(1, sizeof(*e));
    for (size_t i = 0; i < ENVIRONMENTS; i++) {
        const struct cel_env_options options = {
            .kind = i & 1 ? CEL_ENV_DERIVED : CEL_ENV_DRA,
            .new_expressions = true,
            .consumable_capacity = i & 2,
            .list_type_attributes = i & 4,
        };
        e->environments[i] = cel_env_new(&options);
    }
    e->cel = (struct api_cel){cel_check_expression, e};
    return e;
}

void api_cel_engine_free(struct api_cel_engine *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < ENVIRONMENTS; i++)
        cel_env_free(e->environments[i]);
    free(e);
}

const struct api_cel *api_cel_engine_rules(const struct api_cel_engine *e)
{
    return &e->cel;
}
