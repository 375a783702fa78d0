// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a custom resource before anything looks at it: fields the schema does not know go, nulls that
// may not stand go or get their default, defaults are set.
#include "api/crd_schema.h"

#include "base/banned.h"

struct pruning {
    struct json_strict *strict;
    size_t depth;
};

static bool is_meta(struct str key)
{
    return str_eqz(key, "apiVersion") || str_eqz(key, "kind") || str_eqz(key, "metadata");
}

static void prune(struct pruning *p, struct dyn *v, const struct crd_node *n, bool embedded);

static void prune_below(struct pruning *p, struct dyn *v, const struct crd_node *n, struct str key)
{
    size_t mark = json_strict_field(p->strict, key);
    p->depth++;
    prune(p, v, n, n && n->embedded);
    p->depth--;
    json_strict_back(p->strict, mark);
}

static void prune_items(struct pruning *p, struct dyn *v, const struct crd_node *n, bool keep)
{
    for (size_t i = 0; i < v->items_len; i++) {
        size_t mark = json_strict_index(p->strict, i);
        p->depth++;
        // Below a list whose unknown fields stay they stay only as far as its own schema says.
        if (!keep || n)
            prune(p, &v->items[i], n, n && n->embedded);
        p->depth--;
        json_strict_back(p->strict, mark);
    }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void prune(struct pruning *p, struct dyn *v, const struct crd_node *n, bool embedded)
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
        if (embedded && is_meta(m.key)) {
            stays = true;
        } else if (property || (n && n->has_additional)) {
            stays = true;
            prune_below(p, &m.value, property ? property : n->additional, m.key);
        } else if (!keep && (!is_meta(m.key) || p->depth > 0)) {
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
    prune(&p, v, n, root || (n && n->embedded));
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

static void set_default(struct dyn *v, const struct crd_node *n, struct arena *a)
{
    if (is_bad_null(v, n))
        *v = n->has_default ? dyn_copy(&n->default_value, a) : (struct dyn){.type = DYN_NULL};
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static void set_defaults(struct dyn *v, const struct crd_node *n, struct arena *a)
{
    if (!n)
        return;
    if (v->type == DYN_LIST) {
        for (size_t i = 0; i < v->items_len; i++) {
            set_default(&v->items[i], n->items, a);
            set_defaults(&v->items[i], n->items, a);
        }
        return;
    }
    if (v->type != DYN_OBJECT)
        return;
    for (size_t i = 0; i < n->properties_len; i++) {
        const struct crd_property *p = &n->properties[i];
        const struct dyn *have = p->node->has_default ? dyn_get(v, p->name) : NULL;
        if (p->node->has_default && (!have || is_bad_null(have, p->node)))
            dyn_set(v, p->name, dyn_copy(&p->node->default_value, a), a);
    }
    for (size_t i = 0; i < v->members_len; i++) {
        struct dyn *member = &v->members[i].value;
        const struct crd_node *property = crd_property(n, v->members[i].key);
        if (!property)
            set_default(member, n->additional, a);
        set_defaults(member, property ? property : n->additional, a);
    }
}

void crd_default(struct dyn *v, const struct crd_node *n, struct arena *a)
{
    drop_nulls(v, n);
    set_defaults(v, n, a);
}
