// SPDX-License-Identifier: Apache-2.0
//
// Why not: for every request the funnel from published to usable devices, each device in the first
// row that takes it away, in the order in which the search would find out.
#include "alloc/alloc_int.h"
#include "codec/json_writer.h"

#include "base/banned.h"

#define OWNERS_SHOWN 3

// --- Rows ----------------------------------------------------------------------------------------

static void add_owner(struct sbuf *out, size_t *n, const struct cl_device *d)
{
    struct str owner = d->owner ? d->owner->owner : (struct str){0};
    if (owner.n == 0 || *n > OWNERS_SHOWN || str_contains(sbuf_str(out), owner))
        return;
    if ((*n)++ == OWNERS_SHOWN) {
        sbuf_addz(out, ", …");
        return;
    }
    if (out->n)
        sbuf_addz(out, ", ");
    sbuf_add(out, owner);
}

static bool capacity_free(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    if (!s->view->cluster->features.consumable_capacity)
        return true;
    if (need_of(s, a, device) != NEED_OK)
        return false;
    for (uint32_t i = 0; i < d->caps_len; i++) {
        const struct vw_cap *c = &s->view->caps[d->first_cap + i];
        if (c->used + need_amount(s, a, d->first_cap + i) > c->value)
            return false;
    }
    return true;
}

static bool counters_free(const struct alloc_solver *s, const struct vw_device *d)
{
    const struct alloc_view *v = s->view;
    if (d->groups_len == 0 || (d->shared && d->shared_use))
        return true;
    if (v->pools[d->pool].overdrawn)
        return false;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        if (u->value > v->available[u->counter])
            return false;
    }
    return true;
}

static bool has_attributes(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    for (uint32_t j = 0; j < s->claims[a->claim].constraints_len; j++) {
        if (a->columns[j] == UINT32_MAX)
            continue;
        enum attr_state st = (enum attr_state)column_value(s, a->columns[j], device)->state;
        if (st == ATTR_MISSING || st == ATTR_ERROR)
            return false;
    }
    return true;
}

// The row that a device falls into.
static size_t *row_of(struct alloc_solver *s, const struct alternative *a, uint32_t device,
                      struct alloc_funnel *f)
{
    const struct vw_device *d = &s->view->devices[device];
    if (d->refused)
        return &f->not_supported;
    if (a->class_->match[d->cl_index] == MATCH_NO)
        return &f->class_refused;
    enum match_state m = select_selectors(s, a, device);
    if (m == MATCH_ERROR)
        return &f->selector_failed;
    if (m != MATCH_YES)
        return &f->selector_refused;
    if (d->node != NODE_YES)
        return &f->node_refused;
    if (!a->admin && d->exclusive_use)
        return &f->in_use;
    if (!capacity_free(s, a, device))
        return &f->capacity_short;
    if (d->unsupported)
        return &f->not_supported;
    if (!counters_free(s, d))
        return &f->counters_short;
    if (d->hard_taints && !taints_tolerated(d->cl, a->tolerations))
        return &f->tainted;
    return has_attributes(s, a, device) ? &f->usable : &f->attribute_missing;
}

// --- Conflicts -----------------------------------------------------------------------------------

static uint32_t with_number(struct alloc_solver *s, uint32_t column, const bool *usable,
                            uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < s->view->devices_len; d++) {
        const struct attr_value *v = &s->columns[column].values[d];
        bool has = false;
        for (uint16_t k = 0; usable[d] && k < v->n; k++)
            has |= v->ids[k] == id;
        n += has;
    }
    return n;
}

// Devices in the largest group of equal values; *kinds counts the groups.
static uint32_t largest_group(struct alloc_solver *s, uint32_t column, const bool *usable,
                              uint32_t *kinds)
{
    uint32_t largest = 0;
    *kinds = 0;
    for (uint32_t d = 0; d < s->view->devices_len; d++) {
        const struct attr_value *v = &s->columns[column].values[d];
        for (uint16_t k = 0; usable[d] && k < v->n; k++) {
            bool first = true;
            for (uint32_t e = 0; e < d && first; e++)
                for (uint16_t m = 0; usable[e] && m < s->columns[column].values[e].n; m++)
                    first &= s->columns[column].values[e].ids[m] != v->ids[k];
            if (!first)
                continue;
            uint32_t n = with_number(s, column, usable, v->ids[k]);
            (*kinds)++;
            if (n > largest)
                largest = n;
        }
    }
    return largest;
}

static void find_conflict(struct alloc_solver *s, const struct alternative *a, const bool *usable,
                          struct alloc_funnel *f)
{
    const struct claim *c = &s->claims[a->claim];
    for (uint32_t j = 0; j < c->constraints_len && !f->conflict.n; j++) {
        const struct constraint *k = &s->constraints[c->first_constraint + j];
        uint32_t kinds = 0;
        if (a->columns[j] == UINT32_MAX)
            continue;
        uint32_t largest = largest_group(s, a->columns[j], usable, &kinds);
        if (!k->distinct && largest < f->wanted)
            f->conflict = arena_strf(&s->arena,
                                     "at most %u usable devices have the same %.*s, %zu are wanted",
                                     largest, STR_ARG(k->attribute), f->wanted);
        if (k->distinct && kinds < f->wanted)
            f->conflict =
                arena_strf(&s->arena, "usable devices have %u values of %.*s, %zu are wanted",
                           kinds, STR_ARG(k->attribute), f->wanted);
    }
    if (!f->conflict.n && f->usable < f->wanted)
        f->conflict = arena_strf(&s->arena, "%zu wanted, %zu usable", f->wanted, f->usable);
}

static void fill_funnel(struct alloc_solver *s, const struct alternative *a, struct alloc_funnel *f)
{
    cleanup_sbuf struct sbuf name = {0};
    cleanup_sbuf struct sbuf owners = {0};
    size_t owners_n = 0;
    bool *usable = arena_array(&s->arena, bool, s->view->devices_len + 1);
    claim_name(&name, s->claims[a->claim].api);
    f->claim = arena_str(&s->arena, sbuf_str(&name));
    f->request = a->full_name;
    f->wanted = (size_t)a->count;
    f->published = s->view->devices_len;
    for (uint32_t d = 0; d < s->view->devices_len; d++) {
        size_t *row = row_of(s, a, d, f);
        (*row)++;
        usable[d] = row == &f->usable;
        if (row == &f->in_use || row == &f->capacity_short)
            add_owner(&owners, &owners_n, s->view->devices[d].cl);
    }
    f->owners = arena_str(&s->arena, sbuf_str(&owners));
    find_conflict(s, a, usable, f);
}

bool alloc_explain(struct alloc_solver *s, const struct alloc_view *view,
                   const struct api_resource_claim *const *claims, size_t claims_len,
                   struct alloc_explanation *ret)
{
    solver_begin(s, view);
    if (!problem_build(s, claims, claims_len))
        return false;
    struct alloc_funnel *fs = arena_array(&s->arena, struct alloc_funnel, s->alternatives_len + 1);
    *ret = (struct alloc_explanation){
        .funnels = fs, .funnels_len = s->alternatives_len, .nearest = SIZE_MAX};
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < s->alternatives_len; i++) {
        fill_funnel(s, &s->alternatives[i], &fs[i]);
        size_t missing = fs[i].wanted > fs[i].usable ? fs[i].wanted - fs[i].usable : 0;
        if (fs[i].conflict.n && missing < least) {
            least = missing;
            ret->nearest = i;
        }
    }
    ret->enough_each = ret->nearest == SIZE_MAX;
    return true;
}

// --- Writing -------------------------------------------------------------------------------------

struct row_name {
    size_t offset;
    const char *key;
    const char *text;
};

static const struct row_name rows[] = {
    {offsetof(struct alloc_funnel, class_refused), "classRefused", "not of the class"},
    {offsetof(struct alloc_funnel, selector_refused), "selectorRefused", "refused by a selector"},
    {offsetof(struct alloc_funnel, selector_failed), "selectorFailed", "a selector failed"},
    {offsetof(struct alloc_funnel, node_refused), "nodeRefused", "for other nodes"},
    {offsetof(struct alloc_funnel, in_use), "inUse", "in use"},
    {offsetof(struct alloc_funnel, capacity_short), "capacityShort", "too little capacity left"},
    {offsetof(struct alloc_funnel, not_supported), "notSupported", "need a feature not on here"},
    {offsetof(struct alloc_funnel, counters_short), "countersShort", "shared counters used up"},
    {offsetof(struct alloc_funnel, tainted), "tainted", "tainted"},
    {offsetof(struct alloc_funnel, attribute_missing), "attributeMissing",
     "lack an attribute of a constraint"},
};

static size_t row_value(const struct alloc_funnel *f, const struct row_name *r)
{
    return *(const size_t *)(const void *)((const char *)f + r->offset);
}

void alloc_explain_text(const struct alloc_explanation *e, struct sbuf *out)
{
    for (size_t i = 0; i < e->funnels_len; i++) {
        const struct alloc_funnel *f = &e->funnels[i];
        sbuf_addf(out, "claim %.*s, request %.*s: wants %zu, %zu of %zu usable", STR_ARG(f->claim),
                  STR_ARG(f->request), f->wanted, f->usable, f->published);
        for (size_t k = 0; k < array_len(rows); k++)
            if (row_value(f, &rows[k]))
                sbuf_addf(out, "; %zu %s", row_value(f, &rows[k]), rows[k].text);
        if (f->owners.n)
            sbuf_addf(out, " (by %.*s)", STR_ARG(f->owners));
        if (f->conflict.n)
            sbuf_addf(out, "\n    %.*s", STR_ARG(f->conflict));
        sbuf_addc(out, '\n');
    }
    if (e->enough_each && e->funnels_len)
        sbuf_addz(out, "Each request could be satisfied alone, but not all of them together.\n");
}

static void write_size(struct json_writer *w, const char *key, size_t v)
{
    json_write_key(w, str_z(key));
    json_write_u64(w, v);
}

static void write_text(struct json_writer *w, const char *key, struct str v)
{
    if (!v.n)
        return;
    json_write_key(w, str_z(key));
    json_write_str(w, v);
}

void alloc_explain_json(const struct alloc_explanation *e, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_key(&w, STR("requests"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < e->funnels_len; i++) {
        const struct alloc_funnel *f = &e->funnels[i];
        json_write_object_begin(&w);
        write_text(&w, "claim", f->claim);
        write_text(&w, "request", f->request);
        write_size(&w, "wanted", f->wanted);
        write_size(&w, "published", f->published);
        for (size_t k = 0; k < array_len(rows); k++)
            if (row_value(f, &rows[k]))
                write_size(&w, rows[k].key, row_value(f, &rows[k]));
        write_size(&w, "usable", f->usable);
        write_text(&w, "owners", f->owners);
        write_text(&w, "conflict", f->conflict);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    if (e->nearest != SIZE_MAX)
        write_size(&w, "nearest", e->nearest);
    json_write_key(&w, STR("enoughEach"));
    json_write_bool(&w, e->enough_each);
    json_write_object_end(&w);
}
