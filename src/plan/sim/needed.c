// SPDX-License-Identifier: Apache-2.0
//
// How many nodes more? The smallest number of nodes of given kinds with which everything has its
// place. More nodes hardly ever take room away, so the number is searched by halving; every mix of
// kinds of a number is tried before the number is given up. So the answer has its proof: the
// scheduler has placed everything with it, and with one node less it has not, whichever kind that
// was of.
#include "codec/json_writer.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

#define NEEDED_KINDS_MAX 4
#define NEEDED_NODES_MAX 1000
#define NEEDED_TRIES_MAX 2000 // plans; kinds that mix badly

struct needed {
    struct plan_world *w;
    struct plan_options options;
    struct addition kinds[NEEDED_KINDS_MAX];
    size_t kinds_len;
    uint64_t mix[NEEDED_KINDS_MAX];  // being tried
    uint64_t best[NEEDED_KINDS_MAX]; // that fits
    size_t tries;
};

// needed_try returns whether everything fits with the mix. Returns 1, 0 or a negative code.
static int needed_try(struct needed *n, struct err *err)
{
    struct plan *p = NULL;
    int r = 0;
    if (++n->tries > NEEDED_TRIES_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "the answer was not found in %d plans; give fewer kinds of nodes",
                       NEEDED_TRIES_MAX);
    for (size_t i = 0; r == 0 && i < n->kinds_len; i++)
        r = addnode_set_count(n->w, &n->kinds[i], n->mix[i], err);
    if (r == 0)
        r = plan_make(n->w, &n->options, &p, err);
    if (r < 0)
        return r;
    bool fits = plan_complete(p);
    plan_free(p);
    if (fits)
        memcpy(n->best, n->mix, sizeof(n->best));
    return fits;
}

// needed_mixes tries all ways to have so many nodes of the kinds from this one on, most of the
// first first.
// NOLINTNEXTLINE(misc-no-recursion): as deep as there are kinds
static int needed_mixes(struct needed *n, size_t kind, uint64_t total, struct err *err)
{
    if (kind + 1 == n->kinds_len) {
        n->mix[kind] = total;
        return needed_try(n, err);
    }
    int r = 0;
    for (uint64_t left = 0; r == 0 && left <= total; left++) {
        n->mix[kind] = total - left;
        r = needed_mixes(n, kind + 1, left, err);
    }
    return r;
}

// needed_search finds the smallest total: doubling up to one that fits, then halving. Returns it,
// or a negative code.
static int64_t needed_search(struct needed *n, struct err *err)
{
    uint64_t low = 0, high = 1; // all totals below low do not fit
    int r = needed_mixes(n, 0, 0, err);
    if (r != 0)
        return r < 0 ? r : 0;
    for (low = 1; (r = needed_mixes(n, 0, high, err)) == 0; high *= 2) {
        low = high + 1;
        if (high * 2 > NEEDED_NODES_MAX)
            return err_set(err, ERR_TOO_LARGE,
                           "something does not fit with %llu more nodes either; 'dray plan' "
                           "without --needed explains it",
                           (unsigned long long)high);
    }
    while (r > 0 && low < high) {
        uint64_t middle = low + (high - low) / 2;
        int fits = needed_mixes(n, 0, middle, err);
        if (fits < 0)
            return fits;
        if (fits)
            high = middle;
        else
            low = middle + 1;
    }
    return r < 0 ? r : (int64_t)high;
}

static void needed_tell(const struct needed *n, struct plan *p, uint64_t total)
{
    cleanup_sbuf struct sbuf text = {0}, json = {0};
    struct json_writer w = {.out = &json};
    sbuf_addf(&text, "Needed: %llu more node%s", (unsigned long long)total, total == 1 ? "" : "s");
    json_write_object_begin(&w);
    json_write_key(&w, STR("total"));
    json_write_u64(&w, total);
    json_write_key(&w, STR("nodes"));
    json_write_array_begin(&w);
    for (size_t i = 0, told = 0; i < n->kinds_len; i++) {
        struct str kind = n->kinds[i].text;
        if (n->best[i])
            sbuf_addf(&text, "%s%llu of %.*s", told++ ? ", " : ": ", (unsigned long long)n->best[i],
                      STR_ARG(kind));
        json_write_object_begin(&w);
        json_write_key(&w, STR("kind"));
        json_write_str(&w, kind);
        json_write_key(&w, STR("count"));
        json_write_u64(&w, n->best[i]);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
    if (total)
        sbuf_addf(&text, "; with %llu something does not fit\n\n", (unsigned long long)(total - 1));
    else
        sbuf_addz(&text, "; everything fits as it is\n\n");
    p->needed = arena_str(&p->arena, sbuf_str(&text));
    p->needed_json = arena_str(&p->arena, sbuf_str(&json));
}

static int needed_read(struct needed *n, const struct str *kinds, size_t len, struct err *err)
{
    if (len == 0 || len > NEEDED_KINDS_MAX)
        return err_set(
            err, ERR_INVALID,
            "--needed wants 1 to %d kinds of nodes: --add-node like=NODE or profile=NAME",
            NEEDED_KINDS_MAX);
    for (size_t i = 0; i < len; i++) {
        int r = addnode_read(n->w, kinds[i], &n->kinds[i], err);
        n->kinds_len = i + 1;
        if (r == 0 && n->kinds[i].count)
            r = err_set(err, ERR_INVALID, "--add-node %.*s: --needed finds the count",
                        STR_ARG(kinds[i]));
        if (r < 0)
            return r;
    }
    return 0;
}

int plan_needed(struct plan_world *w, const struct str *kinds, size_t kinds_len,
                const struct plan_options *options, struct plan **ret, struct err *err)
{
    struct needed n = {.w = w, .options = *options};
    n.options.only_verdict = true;
    int64_t total = needed_read(&n, kinds, kinds_len, err);
    if (total == 0)
        total = needed_search(&n, err);
    int r = total < 0 ? (int)total : 0;
    for (size_t i = 0; r == 0 && i < n.kinds_len; i++)
        r = addnode_set_count(w, &n.kinds[i], n.best[i], err);
    if (r == 0)
        r = plan_make(w, options, ret, err);
    if (r == 0)
        needed_tell(&n, *ret, (uint64_t)total);
    for (size_t i = 0; i < n.kinds_len; i++)
        addnode_free(&n.kinds[i]);
    return r;
}
