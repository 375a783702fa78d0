// SPDX-License-Identifier: Apache-2.0
//
// Lists and sets: ext.Lists, ext.Sets and Kubernetes' list functions; and the insertion into maps
// that the two-variable macros use.
#include "cel/cost/work.h"
#include "cel/lib/lib.h"

#include "base/banned.h"

static bool lib_lists_is_list(struct cel_val v)
{
    return v.kind == CEL_LIST;
}

static bool lib_lists_is_comparable(struct cel_val v)
{
    switch (v.kind) {
    case CEL_BOOL:
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
    case CEL_STRING:
    case CEL_BYTES:
    case CEL_DURATION:
    case CEL_TIMESTAMP:
        return true;
    default:
        return false;
    }
}

static struct cel_val fn_slice(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 3 || !lib_lists_is_list(args[0]) || args[1].kind != CEL_INT || args[2].kind != CEL_INT)
        return cel_run_mismatch(run, "slice", args, n);
    long long from = (long long)args[1].i;
    long long to = (long long)args[2].i;
    long long size = args[0].list->n;
    if (from < 0 || to < 0)
        return cel_errorf(&run->arena, "cannot slice(%lld, %lld), negative indexes not supported",
                          from, to);
    if (from > to)
        return cel_errorf(&run->arena,
                          "cannot slice(%lld, %lld), start index must be less than or equal to end "
                          "index",
                          from, to);
    if (to > size)
        return cel_errorf(&run->arena, "cannot slice(%lld, %lld), list is length %lld", from, to,
                          size);
    struct cel_list *l = cel_list_new(&run->arena, 0);
    l->items = args[0].list->items + from;
    l->n = l->cap = (uint32_t)(to - from);
    return cel_list_value(l);
}

static void lib_lists_flatten_into(struct cel_run *run, const struct cel_list *l, int64_t depth,
                                   struct cel_list *out)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (lib_lists_is_list(l->items[i]) && depth > 0)
            lib_lists_flatten_into(run, l->items[i].list, depth - 1, out);
        else
            cel_list_push(&run->arena, out, l->items[i]);
    }
}

static struct cel_val fn_flatten(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n > 2 || !lib_lists_is_list(args[0]) || (n == 2 && args[1].kind != CEL_INT))
        return cel_run_mismatch(run, "flatten", args, n);
    int64_t depth = n == 2 ? args[1].i : 1;
    if (depth < 0)
        return cel_errorf(&run->arena, "level must be non-negative");
    struct cel_list *out = cel_list_new(&run->arena, args[0].list->n);
    lib_lists_flatten_into(run, args[0].list, depth, out);
    return cel_list_value(out);
}

static struct cel_val fn_range(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_INT)
        return cel_run_mismatch(run, "lists.range", args, n);
    int64_t size = args[0].i;
    if (size < 0)
        return cel_errorf(&run->arena, "lists.range: size must be non-negative, got %lld",
                          (long long)size);
    // What exceeds the cost limit is not built: the call's cost ends the evaluation anyway.
    if (size > 0 && (uint64_t)size > run->limit)
        size = run->limit < 10000000 ? (int64_t)run->limit + 1 : 10000000;
    struct cel_list *l = cel_list_new(&run->arena, (size_t)size);
    for (int64_t i = 0; i < size; i++)
        l->items[l->n++] = cel_int(i);
    return cel_list_value(l);
}

static struct cel_val fn_reverse(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !lib_lists_is_list(args[0]))
        return cel_run_mismatch(run, "reverse", args, n);
    struct cel_list *l = cel_list_new(&run->arena, args[0].list->n);
    for (uint32_t i = args[0].list->n; i > 0; i--)
        l->items[l->n++] = args[0].list->items[i - 1];
    return cel_list_value(l);
}

static struct cel_val fn_distinct(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !lib_lists_is_list(args[0]))
        return cel_run_mismatch(run, "distinct", args, n);
    const struct cel_list *in = args[0].list;
    // Quadratic, like its cost; a list that would exceed the limit is not looked at.
    if ((uint64_t)in->n * in->n * 2 > run->limit)
        return args[0];
    struct cel_list *l = cel_list_new(&run->arena, in->n);
    for (uint32_t i = 0; i < in->n; i++) {
        bool seen = false;
        for (uint32_t k = 0; k < l->n && !seen; k++)
            seen = cel_same(in->items[i], l->items[k]);
        if (!seen)
            cel_list_push(&run->arena, l, in->items[i]);
    }
    return cel_list_value(l);
}

// Merge sort of positions by their keys: stable.
static void sort_indexes(const struct cel_val *keys, uint32_t *index, uint32_t *spare, uint32_t n)
{
    if (n < 2)
        return;
    uint32_t half = n / 2;
    sort_indexes(keys, index, spare, half);
    sort_indexes(keys, index + half, spare + half, n - half);
    uint32_t l = 0;
    uint32_t r = half;
    for (uint32_t i = 0; i < n; i++) {
        bool take_right = l == half;
        if (!take_right && r < n) {
            struct cel_val c = cel_compare(keys[index[r]], keys[index[l]]);
            take_right = c.kind == CEL_INT && c.i < 0;
        }
        spare[i] = take_right ? index[r++] : index[l++];
    }
    memcpy(index, spare, n * sizeof(*index));
}

static struct cel_val lib_lists_sort_by(struct cel_run *run, const struct cel_list *list,
                                        const struct cel_list *keys)
{
    if (list->n != keys->n)
        return cel_errorf(&run->arena,
                          "@sortByAssociatedKeys() expected a list of the same size as the "
                          "associated keys list, but got %u and %u elements respectively",
                          list->n, keys->n);
    struct cel_list *out = cel_list_new(&run->arena, list->n);
    if (list->n == 0)
        return cel_list_value(out);
    if (!lib_lists_is_comparable(keys->items[0]))
        return cel_errorf(&run->arena, "list elements must be comparable");
    uint32_t *index = arena_array(&run->arena, uint32_t, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        index[i] = i;
        if (keys->items[i].kind != keys->items[0].kind)
            return cel_errorf(&run->arena, "list elements must have the same type");
    }
    sort_indexes(keys->items, index, arena_array(&run->arena, uint32_t, list->n), list->n);
    for (uint32_t i = 0; i < list->n; i++)
        cel_list_push(&run->arena, out, list->items[index[i]]);
    return cel_list_value(out);
}

static struct cel_val fn_sort(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !lib_lists_is_list(args[0]))
        return cel_run_mismatch(run, "sort", args, n);
    return lib_lists_sort_by(run, args[0].list, args[0].list);
}

static struct cel_val fn_sort_by(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 2 || !lib_lists_is_list(args[0]) || !lib_lists_is_list(args[1]))
        return cel_run_mismatch(run, "@sortByAssociatedKeys", args, n);
    return lib_lists_sort_by(run, args[0].list, args[1].list);
}

static bool lib_lists_contains_all(const struct cel_list *l, const struct cel_list *part)
{
    for (uint32_t i = 0; i < part->n; i++)
        if (!cel_is_true(cel_list_contains(l, part->items[i])))
            return false;
    return true;
}

static bool two_lists(const struct cel_val *args, unsigned n)
{
    return n == 2 && lib_lists_is_list(args[0]) && lib_lists_is_list(args[1]);
}

static struct cel_val fn_sets_contains(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (!two_lists(args, n))
        return cel_run_mismatch(run, "sets.contains", args, n);
    return cel_bool(lib_lists_contains_all(args[0].list, args[1].list));
}

static struct cel_val fn_sets_equivalent(struct cel_run *run, const struct cel_val *args,
                                         unsigned n)
{
    if (!two_lists(args, n))
        return cel_run_mismatch(run, "sets.equivalent", args, n);
    return cel_bool(lib_lists_contains_all(args[0].list, args[1].list) &&
                    lib_lists_contains_all(args[1].list, args[0].list));
}

static struct cel_val fn_sets_intersects(struct cel_run *run, const struct cel_val *args,
                                         unsigned n)
{
    if (!two_lists(args, n))
        return cel_run_mismatch(run, "sets.intersects", args, n);
    for (uint32_t i = 0; i < args[0].list->n; i++)
        if (cel_is_true(cel_list_contains(args[1].list, args[0].list->items[i])))
            return cel_true;
    return cel_false;
}

static struct cel_val fn_is_sorted(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !lib_lists_is_list(args[0]))
        return cel_run_mismatch(run, "isSorted", args, n);
    const struct cel_list *l = args[0].list;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!lib_lists_is_comparable(l->items[i]))
            return cel_no_such_overload();
        struct cel_val c = i ? cel_compare(l->items[i - 1], l->items[i]) : cel_int(0);
        if (c.kind == CEL_INT && c.i > 0)
            return cel_false;
    }
    return cel_true;
}

static struct cel_val fn_sum(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !lib_lists_is_list(args[0]))
        return cel_run_mismatch(run, "sum", args, n);
    const struct cel_list *l = args[0].list;
    if (l->n == 0)
        return (struct cel_val){.kind = run->call ? run->call->zero_kind : CEL_INT};
    struct cel_val sum = l->items[0];
    if (sum.kind == CEL_DOUBLE)
        sum.d += 0.0;
    if (sum.kind != CEL_INT && sum.kind != CEL_UINT && sum.kind != CEL_DOUBLE &&
        sum.kind != CEL_DURATION)
        return cel_run_mismatch(run, "sum", args, n);
    for (uint32_t i = 1; i < l->n && !cel_is_error(sum); i++)
        sum = cel_add(run, sum, l->items[i]);
    return sum;
}

static struct cel_val lib_lists_find_extreme(struct cel_run *run, const char *name,
                                             const struct cel_val *args, unsigned n,
                                             int64_t replace_when)
{
    if (n != 1 || !lib_lists_is_list(args[0]))
        return cel_run_mismatch(run, name, args, n);
    const struct cel_list *l = args[0].list;
    if (l->n == 0)
        return cel_errorf(&run->arena, "%s called on empty list", name);
    struct cel_val best = l->items[0];
    for (uint32_t i = 0; i < l->n; i++) {
        if (!lib_lists_is_comparable(l->items[i]))
            return cel_no_such_overload();
        struct cel_val c = cel_compare(best, l->items[i]);
        if (c.kind == CEL_INT && c.i == replace_when)
            best = l->items[i];
    }
    return best;
}

static struct cel_val fn_max(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    return lib_lists_find_extreme(run, "max", args, n, -1);
}

static struct cel_val fn_min(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    return lib_lists_find_extreme(run, "min", args, n, 1);
}

static struct cel_val fn_includes(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 2)
        return cel_run_mismatch(run, "includes", args, n);
    if (!lib_lists_is_list(args[0]))
        return cel_bool(cel_same(args[0], args[1]));
    for (uint32_t i = 0; i < args[0].list->n; i++)
        if (cel_same(args[0].list->items[i], args[1]))
            return cel_true;
    return cel_false;
}

static struct cel_val insert_one(struct cel_run *run, struct cel_map *m, struct cel_val key,
                                 struct cel_val value)
{
    if (cel_map_get(m, key)) {
        cleanup_sbuf struct sbuf b = {0};
        cel_work_write(run, key, &b);
        return cel_errorf(&run->arena, "insert failed: key %.*s already exists",
                          STR_ARG(sbuf_str(&b)));
    }
    (void)cel_map_set(&run->arena, m, key, value);
    return cel_map_value(m);
}

// A map that the insertion may change: the one that grows, or a copy.
static struct cel_map *lib_lists_writable_map(struct cel_run *run, struct cel_map *m)
{
    if (m->open)
        return m;
    struct cel_map *copy = cel_map_new(&run->arena, m->n + 1);
    for (uint32_t i = 0; i < m->n; i++)
        (void)cel_map_set(&run->arena, copy, m->entries[i].key, m->entries[i].value);
    return copy;
}

static struct cel_val fn_map_insert(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (args[0].kind != CEL_MAP || (n == 2 && args[1].kind != CEL_MAP))
        return cel_run_mismatch(run, "cel.@mapInsert", args, n);
    struct cel_map *m = lib_lists_writable_map(run, args[0].map);
    if (n == 3)
        return insert_one(run, m, args[1], args[2]);
    struct cel_val r = cel_map_value(m);
    for (uint32_t i = 0; i < args[1].map->n && !cel_is_error(r); i++)
        r = insert_one(run, m, args[1].map->entries[i].key, args[1].map->entries[i].value);
    return r;
}

static const struct cel_impl table[] = {
    {"slice", fn_slice},
    {"flatten", fn_flatten},
    {"lists.range", fn_range},
    {"reverse", fn_reverse},
    {"distinct", fn_distinct},
    {"sort", fn_sort},
    {"@sortByAssociatedKeys", fn_sort_by},
    {"sets.contains", fn_sets_contains},
    {"sets.equivalent", fn_sets_equivalent},
    {"sets.intersects", fn_sets_intersects},
    {"isSorted", fn_is_sorted},
    {"sum", fn_sum},
    {"max", fn_max},
    {"min", fn_min},
    {"includes", fn_includes},
    {"cel.@mapInsert", fn_map_insert},
};

CEL_IMPLS(lists, table);
