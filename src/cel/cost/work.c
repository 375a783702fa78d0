// SPDX-License-Identifier: Apache-2.0
//
// A bound on what an evaluation does. Upstream's cost is part of the API and stays what it is, but
// it is no measure of time or memory: comparing lists costs a tenth of their length, whatever is in
// them, lists are joined for 1, and a result's size is seldom counted. A list that has the last one
// ten times, ten times over, is 10^10 values to walk, for a cost of 200. So each call is charged
// for all that its arguments hold before it is made, and an evaluation that does too much ends as
// if its cost were too high.
#include "cel/cost/work.h"

#include "base/banned.h"

// Text is cheaper than values are: bytes that count as one.
#define TEXT_BYTES 4

// What is longer is not shown in an error text.
#define SHOWN_MAX 4096

static uint64_t work_text(struct cel_val v)
{
    return 1 + v.n / TEXT_BYTES;
}

static uint64_t work_times(uint64_t a, uint64_t b)
{
    uint64_t r;
    return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX / 4 : r;
}

static bool work_is_container(struct cel_val v)
{
    return v.kind == CEL_LIST || v.kind == CEL_MAP || (v.kind == CEL_OPTIONAL && v.opt);
}

// Constants are shared by threads; all threads store the same number.
static uint64_t work_note(uint32_t *to, uint64_t sum, bool open)
{
    if (sum > UINT32_MAX)
        sum = UINT32_MAX;
    if (!open)
        __atomic_store_n(to, (uint32_t)sum, __ATOMIC_RELAXED);
    return sum;
}

static uint64_t work_weigh_list(struct cel_list *l)
{
    uint64_t sum = __atomic_load_n(&l->weight, __ATOMIC_RELAXED);
    if (sum)
        return sum;
    sum = 1;
    for (uint32_t i = 0; i < l->n; i++)
        sum += 1 + cel_weight(l->items[i]);
    return work_note(&l->weight, sum, l->open);
}

static uint64_t work_weigh_map(struct cel_map *m)
{
    uint64_t sum = __atomic_load_n(&m->weight, __ATOMIC_RELAXED);
    if (sum)
        return sum;
    sum = 1;
    for (uint32_t i = 0; i < m->n; i++)
        sum += 1 + cel_weight(m->entries[i].key) + cel_weight(m->entries[i].value);
    return work_note(&m->weight, sum, m->open);
}

uint64_t cel_weight(struct cel_val v)
{
    switch (v.kind) {
    case CEL_STRING:
    case CEL_BYTES:
        return work_text(v);
    case CEL_LIST:
        return work_weigh_list(v.list);
    case CEL_MAP:
        return work_weigh_map(v.map);
    case CEL_OPTIONAL:
        return v.opt ? 1 + cel_weight(*v.opt) : 1;
    default:
        return 1;
    }
}

void cel_work_classify(struct cel_call *c)
{
    static const char *const light[] = {"size",     "_[_]",  "_[?_]",  "_?._",  "dyn",
                                        "type",     "first", "last",   "slice", "optional.of",
                                        "hasValue", "value", "orValue"};
    c->walked = 1U << CEL_LIST | 1U << CEL_MAP | 1U << CEL_OPTIONAL;
    c->work = str_eqz(c->name, "@in") ? CEL_WORK_LOOKUP : CEL_WORK_ARGS;
    for (size_t i = 0; i < array_len(light); i++) {
        if (str_eqz(c->name, light[i])) {
            c->walked = 0;
            c->work = CEL_WORK_LIGHT;
        }
    }
}

// What comes out of these is as large as a product.
static uint64_t work_product(const struct cel_call *c, const struct cel_val *args, uint64_t sum)
{
    uint64_t first = cel_size(args[0]), second = c->args > 1 ? cel_size(args[1]) : 0;
    switch (c->cost) {
    case CEL_COST_REPLACE: // each occurrence by the new text
        return c->args < 3 || args[2].kind != CEL_STRING
                   ? sum
                   : sum + work_times(first / (second ? second : 1) + 1, work_text(args[2]));
    case CEL_COST_JOIN: // a separator for each
        return c->args < 2 ? sum : sum + work_times(first, work_text(args[1]));
    case CEL_COST_DISTINCT: // each with each
        return work_times(sum, first);
    case CEL_COST_SETS:
    case CEL_COST_SETS_TWICE:
        return work_times(sum, first < second ? first : second);
    default:
        return sum;
    }
}

bool cel_work_call(struct cel_run *run, const struct cel_call *c, const struct cel_val *args)
{
    uint64_t sum = 0;
    bool light = c->work == CEL_WORK_LIGHT ||
                 (c->work == CEL_WORK_LOOKUP && args[c->args - 1].kind == CEL_MAP);
    for (unsigned i = 0; i < c->args; i++) {
        // What a comprehension builds is not walked through, but added to.
        bool open = (args[i].kind == CEL_LIST && args[i].list->open) ||
                    (args[i].kind == CEL_MAP && args[i].map->open);
        if (!open && !(light && (work_is_container(args[i]) || (args[i].flags & CEL_F_ASCII))))
            sum += cel_weight(args[i]);
    }
    return cel_work_add(run, light ? sum : work_product(c, args, sum));
}

bool cel_work_equal(struct cel_run *run, struct cel_val l, struct cel_val r)
{
    if (!work_is_container(l) || !work_is_container(r))
        return true;
    uint64_t a = cel_weight(l), b = cel_weight(r);
    return cel_work_add(run, a < b ? a : b);
}

void cel_work_write(struct cel_run *run, struct cel_val v, struct sbuf *out)
{
    uint64_t weight = cel_weight(v);
    if (weight > SHOWN_MAX) {
        (void)cel_work_add(run, 1);
        sbuf_add(out, cel_type_name(v));
        return;
    }
    if (cel_work_add(run, weight))
        cel_write(v, out);
}
