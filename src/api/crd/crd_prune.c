// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a custom resource before anything looks at it: fields the schema does not know
// go, nulls that may not stand go or get their default, defaults are set.
#include "api/crd/crd_schema.h"

#include "base/banned.h"

struct pruning {
    struct json_strict *strict;
    size_t depth;
};

static bool crd_prune_is_metadata(struct str key)
{
    return str_eqz(key, "apiVersion") || str_eqz(key, "kind") || str_eqz(key, "metadata");
}

static void crd_prune_value(struct pruning *p, struct dyn *v, const struct crd_node *n,
                            bool embedded);

static void prune_below(struct pruning *p, struct dyn *v, const struct crd_node *n, struct str key)
{
    size_t mark = json_strict_field(p->strict, key);
    p->depth++;
    crd_prune_value(p, v, n, n && n->embedded);
    p->depth--;
    json_strict_back(p->strict, mark);
}

static void prune_items(struct pruning *p, struct dyn *v, const struct crd_node *n, bool keep)
{
    for (size_t i = 0; i < v->items_len; i++) {
        size_t mark = json_strict_index(p->strict, i);
        p->depth++;
        // Below a list whose unknown fields stay they stay only where its own schema lets them.
        if (!keep || n)
            crd_prune_value(p, &v->items[i], n, n && n->embedded);
        p->depth--;
        json_strict_back(p->strict, mark);
    }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void crd_prune_value(struct pruning *p, struct dyn *v, const struct crd_node *n,
                            bool embedded)
{
    bool keep = n && n->preserve;
    if (v->type == DYN_LIST) {
        prune_items(p, v, n ? n->items : NULL, keep);
        return;
    }
    if (v->type != DYN_OBJECT)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < v->members_len; i++) {
        struct dyn_member m = v->members[i];
        const struct crd_node *property = crd_property(n, m.key);
        bool stays = keep;
        if (embedded && crd_prune_is_metadata(m.key)) {
            stays = true;
        } else if (property || (n && n->has_additional)) {
            stays = true;
            prune_below(p, &m.value, property ? property : n->additional, m.key);
        } else if (!keep && (!crd_prune_is_metadata(m.key) || p->depth > 0)) {
            json_strict_unknown(p->strict, m.key);
        }
        if (stays)
            v->members[kept++] = m;
    }
    v->members_len = kept;
}

void crd_prune(struct dyn *v, const struct crd_node *n, bool root, struct json_strict *strict)
{
    struct pruning p = {.strict = strict};
    crd_prune_value(&p, v, n, root || (n && n->embedded));
}

// --- Defaults ------------------------------------------------------------------------------------

static bool is_bad_null(const struct dyn *v, const struct crd_node *n)
{
    return v->type == DYN_NULL && n && !n->nullable;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void drop_nulls(struct dyn *v, const struct crd_node *n)
{
    if (v->type == DYN_LIST)
        for (size_t i = 0; i < v->items_len; i++)
            drop_nulls(&v->items[i], n ? n->items : NULL);
    if (v->type != DYN_OBJECT)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < v->members_len; i++) {
        const struct crd_node *below = crd_node_below(n, v->members[i].key);
        if (is_bad_null(&v->members[i].value, below) && !below->has_default)
            continue;
        drop_nulls(&v->members[i].value, below);
        v->members[kept++] = v->members[i];
    }
    v->members_len = kept;
}

struct defaulting {
    struct arena *arena;
    size_t most; // of what the arena has handed out
};

static bool is_full(const struct defaulting *d)
{
    return d->arena->used_bytes > d->most;
}

static void crd_prune_set_default(struct defaulting *d, struct dyn *v, const struct crd_node *n)
{
    if (is_bad_null(v, n))
        *v =
            n->has_default ? dyn_copy(&n->default_value, d->arena) : (struct dyn){.type = DYN_NULL};
}

// Whether a property has a default and no value.
static bool is_absent(const struct dyn *v, const struct crd_property *p)
{
    const struct dyn *have = p->node->has_default ? dyn_get(v, p->name) : NULL;
    return p->node->has_default && (!have || is_bad_null(have, p->node));
}

// add_absent sets the properties that are absent: members and properties are both sorted, so one
// pass does.
static void add_absent(struct defaulting *d, struct dyn *v, const struct crd_node *n)
{
    size_t absent = 0, len = 0;
    for (size_t i = 0; i < n->properties_len; i++)
        absent += is_absent(v, &n->properties[i]);
    if (absent == 0)
        return;
    struct dyn_member *all = arena_array(d->arena, struct dyn_member, v->members_len + absent);
    for (size_t i = 0, k = 0; i < v->members_len || k < n->properties_len;) {
        if (k < n->properties_len && !is_absent(v, &n->properties[k])) {
            k++;
            continue;
        }
        const struct crd_property *p = k < n->properties_len ? &n->properties[k] : NULL;
        int c = !p ? -1 : i == v->members_len ? 1 : str_cmp(v->members[i].key, p->name);
        all[len++] =
            c < 0 ? v->members[i]
                  : (struct dyn_member){p->name, dyn_copy(&p->node->default_value, d->arena)};
        i += c <= 0;
        k += c >= 0;
    }
    v->members = all;
    v->members_len = len;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void set_defaults(struct defaulting *d, struct dyn *v, const struct crd_node *n)
{
    if (!n || is_full(d))
        return;
    if (v->type == DYN_LIST) {
        for (size_t i = 0; i < v->items_len && !is_full(d); i++) {
            crd_prune_set_default(d, &v->items[i], n->items);
            set_defaults(d, &v->items[i], n->items);
        }
        return;
    }
    if (v->type != DYN_OBJECT)
        return;
    add_absent(d, v, n);
    for (size_t i = 0; i < v->members_len && !is_full(d); i++) {
        struct dyn *member = &v->members[i].value;
        const struct crd_node *property = crd_property(n, v->members[i].key);
        if (!property)
            crd_prune_set_default(d, member, n->additional);
        set_defaults(d, member, property ? property : n->additional);
    }
}

bool crd_default(struct dyn *v, const struct crd_node *n, struct arena *a)
{
    struct defaulting d = {a, a->used_bytes + DRAY_OBJECT_STORED_BYTES_MAX};
    drop_nulls(v, n);
    set_defaults(&d, v, n);
    return !is_full(&d);
}
