// SPDX-License-Identifier: Apache-2.0
//
// Sets of a Job's indexes as sorted spans (job_set.h).
#include "ctl/workload/job_set.h"

#include <stdlib.h>

#include "base/banned.h"

struct job_set job_set_read(struct str text, uint64_t limit, struct arena *arena)
{
    struct job_set set = {0};
    while (text.n > 0) {
        struct str one, first, last;
        struct job_span span;
        str_cut(text, ',', &one, &text);
        bool range = str_cut(one, '-', &first, &last);
        if (str_to_u64(first, &span.first) < 0 ||
            str_to_u64(range ? last : first, &span.last) < 0 || span.first > span.last ||
            span.first >= limit)
            continue;
        span.last = span.last < limit ? span.last : limit - 1;
        vec_push_arena(arena, &set, span);
    }
    job_set_tidy(&set);
    return set;
}

struct str job_set_write(const struct job_set *set, struct arena *arena)
{
    cleanup_sbuf struct sbuf out = {0};
    vec_foreach(set, span) {
        sbuf_addf(&out, "%s%llu", out.n ? "," : "", (unsigned long long)span->first);
        if (span->last > span->first)
            sbuf_addf(&out, "%c%llu", span->last == span->first + 1 ? ',' : '-',
                      (unsigned long long)span->last);
    }
    return arena_str(arena, sbuf_str(&out));
}

void job_set_add(struct job_set *set, uint64_t index, struct arena *arena)
{
    const struct job_span span = {index, index};
    vec_push_arena(arena, set, span);
}

void job_set_add_all(struct job_set *set, const struct job_set *more, struct arena *arena)
{
    vec_foreach(more, span)
        vec_push_arena(arena, set, *span);
}

static int job_set_compare(const void *x, const void *y)
{
    const struct job_span *a = x, *b = y;
    return a->first != b->first ? (a->first > b->first) - (a->first < b->first)
                                : (a->last > b->last) - (a->last < b->last);
}

void job_set_tidy(struct job_set *set)
{
    size_t n = 0;
    if (set->n == 0)
        return;
    qsort(set->p, set->n, sizeof(*set->p), job_set_compare);
    for (size_t i = 1; i < set->n; i++) {
        struct job_span *top = &set->p[n];
        if (set->p[i].first > top->last && set->p[i].first - top->last > 1)
            set->p[++n] = set->p[i];
        else if (set->p[i].last > top->last)
            top->last = set->p[i].last;
    }
    set->n = n + 1;
}

bool job_set_has(const struct job_set *set, uint64_t index)
{
    size_t low = 0, high = set->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->p[middle].last < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->n && set->p[low].first <= index;
}

uint64_t job_set_count(const struct job_set *set)
{
    uint64_t count = 0;
    vec_foreach(set, span)
        count += span->last - span->first + 1;
    return count;
}

uint64_t job_set_count_both(const struct job_set *a, const struct job_set *b)
{
    uint64_t count = 0;
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        uint64_t first = a->p[i].first > b->p[k].first ? a->p[i].first : b->p[k].first;
        uint64_t last = a->p[i].last < b->p[k].last ? a->p[i].last : b->p[k].last;
        if (first <= last)
            count += last - first + 1;
        if (a->p[i].last < b->p[k].last)
            i++;
        else
            k++;
    }
    return count;
}

uint64_t job_set_gap(const struct job_set *set)
{
    return set->n > 0 && set->p[0].first == 0 ? set->p[0].last + 1 : 0;
}
