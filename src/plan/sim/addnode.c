// SPDX-License-Identifier: Apache-2.0
//
// Nodes that are not there yet: copies of a node of the world with its slices, all free, or
// simulated hardware of a profile as `dray up --sim` makes it.
#include "driver/profile.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

#define ADD_NODES_MAX 1000
#define FROM_LINE     STR("(command line)")

// --- Like a node ---------------------------------------------------------------------------------

static void addition_rename_label(struct api_object_meta *m, struct str old, struct str name)
{
    for (size_t i = 0; i < m->labels.n; i++)
        if (str_eqz(m->labels.p[i].key, "kubernetes.io/hostname") ||
            str_eq(m->labels.p[i].value, old))
            m->labels.p[i].value = name;
}

static void addition_copy_node(struct plan_world *w, const struct plan_object *like,
                               struct str name)
{
    struct plan_object o = *like;
    struct api_node *node = whatif_copy_object(w, &o);
    addition_rename_label(&node->metadata, like->name, name);
    node->metadata.name = name;
    node->metadata.uid = STR("");
    node->spec.unschedulable = false;
    o.name = name;
    o.file = FROM_LINE;
    o.line = 0;
    (void)world_add(w, &o);
}

static void addition_copy_slice(struct plan_world *w, const struct plan_object *from,
                                struct str old, struct str name)
{
    struct plan_object o = *from;
    struct api_resource_slice *s = whatif_copy_object(w, &o);
    s->spec.node_name = name;
    s->spec.pool.name =
        str_eq(s->spec.pool.name, old)
            ? name
            : arena_strf(&w->arena, "%.*s-%.*s", STR_ARG(s->spec.pool.name), STR_ARG(name));
    s->metadata.name = arena_strf(&w->arena, "%.*s-%.*s", STR_ARG(s->metadata.name), STR_ARG(name));
    s->metadata.uid = STR("");
    for (size_t i = 0; i < s->spec.devices.n; i++)
        if (s->spec.devices.p[i].has_node_name && str_eq(s->spec.devices.p[i].node_name, old))
            s->spec.devices.p[i].node_name = name;
    o.name = s->metadata.name;
    o.file = FROM_LINE;
    o.line = 0;
    (void)world_add(w, &o);
}

static void addition_copy(struct plan_world *w, const struct addition *a, struct str name)
{
    addition_copy_node(w, &a->shape, name);
    for (size_t k = 0; k < a->known; k++) {
        struct plan_object from = w->objects.p[k];
        if (from.kind == PLAN_SLICE && !from.gone &&
            str_eq(((const struct api_resource_slice *)from.value)->spec.node_name, a->like))
            addition_copy_slice(w, &from, a->like, name);
    }
}

// --- Of a profile --------------------------------------------------------------------------------

static void addition_add_object(struct plan_world *w, enum plan_kind kind,
                                const struct api_type *type, void *value,
                                struct api_object_meta *meta)
{
    const struct plan_object o = {
        .kind = kind, .type = type, .value = value, .name = meta->name, .file = FROM_LINE};
    api_default(type, value, NULL, &w->arena);
    if (!world_find(w, kind, meta->name)) // classes, and pools that are there once
        (void)world_add(w, &o);
}

static void addition_add_objects(struct plan_world *w, const struct profile_objects *made)
{
    if (made->node)
        addition_add_object(w, PLAN_NODE, &api_node_type, made->node, &made->node->metadata);
    for (size_t i = 0; i < made->classes_len; i++)
        addition_add_object(w, PLAN_CLASS, &api_device_class_type, made->classes[i],
                            &made->classes[i]->metadata);
    for (size_t i = 0; i < made->slices_len; i++)
        addition_add_object(w, PLAN_SLICE, &api_resource_slice_type, made->slices[i],
                            &made->slices[i]->metadata);
}

static int addition_make(struct plan_world *w, const struct addition *a, struct str name,
                         struct err *err)
{
    struct profile_objects made = {0};
    int r = profile_node(a->profile, name, (size_t)a->number, &w->arena, &made, err);
    if (r == 0)
        addition_add_objects(w, &made);
    return r;
}

// What there is once of a profile comes with its first node.
static int addition_open_profile(struct plan_world *w, struct addition *a, struct str name,
                                 struct err *err)
{
    struct profile_objects made = {0};
    int r = profile_open(arena_str(&w->arena, name).p, &a->profile, err);
    if (r == 0)
        r = profile_shared(a->profile, &w->arena, &made, err);
    if (r == 0)
        addition_add_objects(w, &made);
    if (r == 0 && !a->prefix.n)
        a->prefix = profile_name(a->profile);
    return r;
}

// --- Both ----------------------------------------------------------------------------------------

static int addition_parse(struct addition *a, struct str *ret_profile, struct err *err)
{
    struct str rest = a->text;
    while (rest.n) {
        struct str one, key, value;
        (void)str_cut(rest, ',', &one, &rest);
        bool pair = str_cut(one, '=', &key, &value);
        if (pair && str_eqz(key, "like"))
            a->like = value;
        else if (pair && str_eqz(key, "profile"))
            *ret_profile = value;
        else if (pair && str_eqz(key, "name"))
            a->prefix = value;
        else if (!pair || !str_eqz(key, "count") || str_to_u64(value, &a->count) < 0 ||
                 a->count == 0 || a->count > ADD_NODES_MAX)
            return err_set(err, ERR_INVALID,
                           "--add-node %.*s: want like=NODE or profile=NAME, [,count=1…%d]"
                           "[,name=PREFIX]",
                           STR_ARG(a->text), ADD_NODES_MAX);
    }
    if ((a->like.n > 0) == (ret_profile->n > 0))
        return err_set(err, ERR_INVALID, "--add-node %.*s: like=NODE or profile=NAME is required",
                       STR_ARG(a->text));
    return 0;
}

int addnode_read(struct plan_world *w, struct str text, struct addition *a, struct err *err)
{
    struct str profile = {0};
    *a = (struct addition){.text = arena_str(&w->arena, text)};
    int r = addition_parse(a, &profile, err);
    if (r < 0)
        return r;
    // All that slices name become objects: a node that is added would hide them otherwise.
    const struct plan_object *like = whatif_find_node(w, a->like);
    if (a->like.n && !like)
        return whatif_no_such_object(w, PLAN_NODE, a->like, err);
    if (like)
        a->shape = *like;
    a->known = w->objects.n;
    if (!a->like.n)
        r = addition_open_profile(w, a, profile, err);
    return r < 0 ? err_wrap(err, "--add-node %.*s", STR_ARG(text)) : 0;
}

static int addition_one_more(struct plan_world *w, struct addition *a, struct err *err)
{
    struct str name;
    do
        name = arena_strf(&w->arena, "%.*s%s%llu", STR_ARG(a->prefix.n ? a->prefix : a->like),
                          a->prefix.n ? "-" : "-new-", (unsigned long long)++a->number);
    while (world_find(w, PLAN_NODE, name));
    size_t first = w->objects.n;
    int r = 0;
    if (a->profile)
        r = addition_make(w, a, name, err);
    else
        addition_copy(w, a, name);
    vec_push(&a->nodes, ((struct addition_node){first, w->objects.n}));
    return r;
}

int addnode_set_count(struct plan_world *w, struct addition *a, uint64_t n, struct err *err)
{
    int r = 0;
    while (r == 0 && a->nodes.n < n)
        r = addition_one_more(w, a, err);
    for (size_t i = 0; i < a->nodes.n; i++)
        for (size_t k = a->nodes.p[i].first; k < a->nodes.p[i].end; k++)
            w->objects.p[k].gone = i >= n;
    a->added = n;
    return r;
}

void addnode_free(struct addition *a)
{
    profile_free(a->profile);
    vec_done(&a->nodes);
}

int plan_add_node(struct plan_world *w, struct str text, struct err *err)
{
    struct addition a = {0};
    int r = addnode_read(w, text, &a, err);
    if (r == 0)
        r = addnode_set_count(w, &a, a.count ? a.count : 1, err);
    addnode_free(&a);
    return r;
}
