// SPDX-License-Identifier: Apache-2.0
//
// Extended resources in the status of a Node: what device plugins offer.
#include <stdio.h>

#include "api/names.h"
#include "node/machine/node.h"

#include "base/banned.h"

static int64_t node_extended_amount_in(const struct api_quantity_map *m, struct str key)
{
    for (size_t i = 0; i < m->n; i++)
        if (str_eq(m->p[i].key, key))
            return quantity_value(&m->p[i].value);
    return -1;
}

struct writing {
    struct json_writer *w;
    bool allocatable;
};

static void node_extended_write_resource(void *ctx, struct str resource, int64_t capacity,
                                         int64_t allocatable)
{
    const struct writing *x = ctx;
    char number[24];
    (void)snprintf(number, sizeof(number), "%lld",
                   (long long)(x->allocatable ? allocatable : capacity));
    json_write_key(x->w, resource);
    json_write_str(x->w, str_z(number));
}

struct looking {
    const struct api_node_status *status;
    struct str name; // looked for
    bool found, other;
};

static void node_extended_find(void *ctx, struct str resource, int64_t capacity,
                               int64_t allocatable)
{
    struct looking *l = ctx;
    l->found |= str_eq(resource, l->name);
    if (l->status)
        l->other |= node_extended_amount_in(&l->status->capacity, resource) != capacity ||
                    node_extended_amount_in(&l->status->allocatable, resource) != allocatable;
}

// Resources of an earlier life of the node are 0 until a plugin offers them.
static void node_extended_write_reset(const struct node_options *o, const struct api_node *old,
                                      struct writing *x)
{
    for (size_t i = 0; i < old->status.capacity.n; i++) {
        struct str name = old->status.capacity.p[i].key;
        cleanup_arena struct arena a = {0};
        struct name_msgs wrong = {.arena = &a};
        struct looking l = {.name = name};
        name_extended_resource(name, &wrong);
        o->extended(o->arg, node_extended_find, &l);
        if (wrong.n == 0 && !l.found)
            node_extended_write_resource(x, name, 0, 0);
    }
}

void node_extended_write(const struct node_options *o, const struct api_node *reset,
                         bool allocatable, struct json_writer *w)
{
    struct writing x = {w, allocatable};
    if (!o->extended)
        return;
    o->extended(o->arg, node_extended_write_resource, &x);
    if (reset)
        node_extended_write_reset(o, reset, &x);
}

bool node_extended_is_current(const struct node_options *o, const struct api_node *node)
{
    struct looking l = {.status = &node->status};
    if (o->extended)
        o->extended(o->arg, node_extended_find, &l);
    return !l.other;
}

// --- Runtime handlers ----------------------------------------------------------------------------

static void node_extended_write_handler(struct json_writer *w, const struct runtime_features *f,
                                        const struct runtime_handler *h, struct str name)
{
    json_write_object_begin(w);
    json_write_text(w, "name", name);
    json_write_object_in(w, "features");
    json_write_flag(w, "recursiveReadOnlyMounts", f->recursive_read_only);
    json_write_flag(w, "userNamespaces", !f->no_users && h->users);
    json_write_object_end(w);
    json_write_object_end(w);
}

void node_handlers_write(const struct node_options *o, struct json_writer *w)
{
    const struct runtime_features *f = o->features;
    if (!f || f->handlers_len == 0)
        return;
    json_write_array_in(w, "runtimeHandlers");
    node_extended_write_handler(w, f, &f->handlers[0], STR("")); // the default has no name
    for (size_t i = 0; i < f->handlers_len; i++)
        node_extended_write_handler(w, f, &f->handlers[i], f->handlers[i].name);
    json_write_array_end(w);
}
