// SPDX-License-Identifier: Apache-2.0
//
// Devices as CEL values. Devices with the same attribute names share a shape, so that a path of
// a program resolves to a slot once for all of them.
#include "cel/code/device.h"

#include <assert.h>
#include <stdlib.h>

#include "cel/code/run.h"

#include "base/banned.h"

#define BUCKETS 1024

// Texts that devices share are kept once, up to a bound: equal texts are then mostly the same
// bytes, which comparisons notice first and caches like.
#define TEXTS_MAX      65536
#define TEXT_BYTES_MAX 128
#define DEPTH_MAX      64 // of a bucket: texts may be chosen to collide

struct text {
    struct text *next;
    uint64_t hash;
    struct str s;
};

struct cel_shapes {
    struct arena arena;
    struct cel_shape *buckets[BUCKETS];
    struct text **texts; // buckets
    size_t texts_len;    // of these; a power of two, or 0
    size_t text_count;
};

struct cel_shapes *cel_shapes_new(void)
{
    return xcalloc(1, sizeof(struct cel_shapes));
}

void cel_shapes_free(struct cel_shapes *s)
{
    if (!s)
        return;
    arena_done(&s->arena);
    free(s->texts);
    free(s);
}

static uint64_t hash_bytes(uint64_t h, struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3u;
    return h;
}

uint64_t cel_path_hash(struct str domain, struct str name)
{
    uint64_t h = hash_bytes(0xcbf29ce484222325u, domain);
    h = hash_bytes((h ^ 0xff) * 0x100000001b3u, name);
    h ^= h >> 29;
    return h ? h : 1;
}

static uint64_t device_mix_hash(uint64_t hash, bool capacity)
{
    return capacity ? hash * 0x9e3779b97f4a7c15u + 1 : hash;
}

uint32_t cel_shape_find(const struct cel_shape *s, const struct cel_path_ref *path, bool domain)
{
    uint64_t hash = device_mix_hash(domain ? path->domain_hash : path->hash, path->capacity);
    for (uint32_t at = (uint32_t)hash & s->mask; s->keys[at].hash; at = (at + 1) & s->mask) {
        const struct cel_shape_key *k = &s->keys[at];
        if (k->hash == hash && k->capacity == path->capacity && k->is_domain == domain &&
            str_eq(k->domain, path->domain) && (domain || str_eq(k->name, path->name)))
            return k->slot;
    }
    return CEL_SLOT_NONE;
}

// One attribute or capacity of the device being made.
struct item {
    struct str domain, name;
    bool capacity;
    struct cel_val value;
};

struct items VEC(struct item);

static void shape_add(struct cel_shape *s, struct cel_shape_key key)
{
    uint32_t at = (uint32_t)key.hash & s->mask;
    while (s->keys[at].hash)
        at = (at + 1) & s->mask;
    s->keys[at] = key;
}

static struct cel_shape *shape_make(struct cel_shapes *reg, const struct items *items,
                                    struct str text, uint64_t hash)
{
    struct arena *a = &reg->arena;
    struct cel_shape *s = arena_one(a, struct cel_shape);
    s->text = arena_str(a, text);
    s->text_hash = hash;
    uint32_t size = 16;
    while (size < items->n * 4)
        size *= 2;
    s->keys = arena_array(a, struct cel_shape_key, size);
    s->mask = size - 1;
    for (size_t i = 0; i < items->n; i++) {
        const struct item *it = &items->p[i];
        struct cel_shape_key key = {.domain = arena_str(a, it->domain),
                                    .name = arena_str(a, it->name),
                                    .capacity = it->capacity,
                                    .slot = s->values++};
        key.hash = device_mix_hash(cel_path_hash(key.domain, key.name), key.capacity);
        shape_add(s, key);
        struct cel_path_ref domain = {.capacity = it->capacity,
                                      .domain = key.domain,
                                      .domain_hash = cel_path_hash(key.domain, (struct str){0})};
        if (cel_shape_find(s, &domain, true) != CEL_SLOT_NONE)
            continue;
        key.name = (struct str){0};
        key.is_domain = true;
        key.hash = device_mix_hash(domain.domain_hash, key.capacity);
        key.slot = s->maps++;
        shape_add(s, key);
    }
    return s;
}

static const struct cel_shape *shape_for(struct cel_shapes *reg, const struct items *items)
{
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < items->n; i++) {
        sbuf_addc(&text, items->p[i].capacity ? 'c' : 'a');
        sbuf_add(&text, items->p[i].domain);
        sbuf_addc(&text, '/');
        sbuf_add(&text, items->p[i].name);
        sbuf_addc(&text, '\n');
    }
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, sbuf_str(&text));
    struct cel_shape **bucket = &reg->buckets[(hash ^ hash >> 32) % BUCKETS];
    for (const struct cel_shape *s = *bucket; s; s = s->next)
        if (s->text_hash == hash && str_eq(s->text, sbuf_str(&text)))
            return s;
    struct cel_shape *s = shape_make(reg, items, sbuf_str(&text), hash);
    s->next = *bucket;
    *bucket = s;
    return s;
}

static struct text **text_bucket(const struct cel_shapes *reg, uint64_t hash)
{
    return &reg->texts[(hash ^ hash >> 32) & (reg->texts_len - 1)];
}

// Twice as many buckets, so that a look costs the same however many texts there are.
static void more_buckets(struct cel_shapes *reg)
{
    struct text **old = reg->texts;
    size_t n = reg->texts_len;
    reg->texts_len = n ? 2 * n : BUCKETS;
    reg->texts = xcalloc(reg->texts_len, sizeof(struct text *));
    for (size_t i = 0; i < n; i++)
        for (struct text *t = old[i], *next; t; t = next) {
            struct text **bucket = text_bucket(reg, t->hash);
            next = t->next;
            t->next = *bucket;
            *bucket = t;
        }
    free(old);
}

// The shared copy of a text, or one in the device's own arena.
static struct str device_intern_string(struct cel_shapes *reg, struct arena *own, struct str s)
{
    if (s.n > TEXT_BYTES_MAX)
        return arena_str(own, s);
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, s);
    if (reg->text_count >= reg->texts_len)
        more_buckets(reg);
    struct text **bucket = text_bucket(reg, hash);
    size_t depth = 0;
    for (const struct text *t = *bucket; t && depth < DEPTH_MAX; t = t->next, depth++)
        if (t->hash == hash && str_eq(t->s, s))
            return t->s;
    if (reg->text_count >= TEXTS_MAX || depth == DEPTH_MAX)
        return arena_str(own, s);
    struct text *t = arena_one(&reg->arena, struct text);
    *t = (struct text){.next = *bucket, .hash = hash, .s = arena_str(&reg->arena, s)};
    *bucket = t;
    reg->text_count++;
    return t->s;
}

static void split_name(struct str name, struct str driver, struct item *ret)
{
    ptrdiff_t slash = str_find_char(name, '/');
    ret->domain = slash < 0 ? driver : str_upto(name, (size_t)slash);
    ret->name = slash < 0 ? name : str_from(name, (size_t)slash + 1);
}

// The value of one element of an attribute; an error value when it is no version.
static struct cel_val device_list_element(struct cel_shapes *reg, struct arena *a,
                                          const struct cel_attr_input *in, size_t i)
{
    switch (in->kind) {
    case CEL_ATTR_INT:
        return cel_int(in->ints[i]);
    case CEL_ATTR_BOOL:
        return cel_bool(in->bools[i]);
    case CEL_ATTR_STRING:
        return cel_string(device_intern_string(reg, a, in->strings[i]));
    case CEL_ATTR_VERSION: {
        struct semver v;
        struct err err = {0};
        if (semver_parse(arena_str(a, in->strings[i]), &v, &err) != 0)
            return cel_errorf(a, "attribute %.*s: parse semantic version: %s", STR_ARG(in->name),
                              err.msg);
        return cel_semver(a, &v);
    }
    case CEL_ATTR_NONE:
        break;
    }
    return cel_errorf(a, "attribute %.*s: unsupported attribute value", STR_ARG(in->name));
}

static struct cel_val device_attribute_value(struct cel_shapes *reg, struct arena *a,
                                             const struct cel_attr_input *in)
{
    if (!in->list || in->kind == CEL_ATTR_NONE)
        return device_list_element(reg, a, in, 0);
    struct cel_list *l = cel_list_new(a, in->count);
    for (size_t i = 0; i < in->count; i++) {
        struct cel_val v = device_list_element(reg, a, in, i);
        if (cel_is_error(v))
            return v;
        cel_list_push(a, l, v);
    }
    return cel_list_value(l);
}

// Builds the map of maps that generic code sees, and the array of inner maps that paths use.
static void build_maps(struct cel_device *d, const struct items *items, struct cel_map *outer[2])
{
    struct arena *a = &d->arena;
    struct cel_val *maps = arena_array(a, struct cel_val, d->shape->maps + 1);
    for (size_t i = 0; i < items->n; i++) {
        const struct item *it = &items->p[i];
        struct cel_path_ref ref = {.capacity = it->capacity,
                                   .domain = it->domain,
                                   .domain_hash = cel_path_hash(it->domain, (struct str){0})};
        uint32_t slot = cel_shape_find(d->shape, &ref, true);
        assert(slot != CEL_SLOT_NONE);
        if (maps[slot].kind != CEL_MAP) {
            maps[slot] = cel_map_value(cel_map_new(a, 8));
            (void)cel_map_set(a, outer[it->capacity], cel_string(it->domain), maps[slot]);
        }
        (void)cel_map_set(a, maps[slot].map, cel_string(it->name), it->value);
    }
    d->maps = maps;
}

static void device_build_view(struct cel_device *d, const struct items *items)
{
    struct arena *a = &d->arena;
    struct cel_val *values = (struct cel_val *)(void *)(d + 1);
    for (size_t i = 0; i < items->n; i++)
        values[i] = items->p[i].value;
    d->values = values;
    struct cel_map *outer[2] = {cel_map_new(a, 4), cel_map_new(a, 4)};
    build_maps(d, items, outer);
    outer[0]->always = outer[1]->always = true;
    struct cel_map *root = cel_map_new(a, 4);
    (void)cel_map_set(a, root, cel_string(STR("driver")), d->driver);
    (void)cel_map_set(a, root, cel_string(STR("allowMultipleAllocations")), d->multi);
    (void)cel_map_set(a, root, cel_string(STR("attributes")), cel_map_value(outer[0]));
    (void)cel_map_set(a, root, cel_string(STR("capacity")), cel_map_value(outer[1]));
    d->root = cel_map_value(root);
}

static int add_capacities(struct cel_device *d, const struct cel_device_input *in,
                          struct items *items, struct err *err)
{
    for (size_t i = 0; i < in->capacity_count; i++) {
        struct item it = {.capacity = true};
        struct quantity q;
        int r = quantity_parse(in->capacities[i].quantity, &d->arena, &q, err);
        if (r < 0)
            return err_wrap(err, "capacity %.*s", STR_ARG(in->capacities[i].name));
        split_name(arena_str(&d->arena, in->capacities[i].name), cel_str(d->driver), &it);
        it.value = cel_quantity(&d->arena, &q);
        vec_push_arena(&d->arena, items, it);
    }
    return 0;
}

int cel_device_new(struct cel_shapes *shapes, const struct cel_device_input *in,
                   struct cel_device **ret, struct err *err)
{
    size_t count = in->attribute_count + in->capacity_count;
    struct cel_device *d = xcalloc(1, sizeof(*d) + count * sizeof(struct cel_val));
    struct items items = {0};
    d->driver = cel_string(device_intern_string(shapes, &d->arena, in->driver));
    d->multi = cel_bool(in->allow_multiple_allocations);
    d->failure = cel_null;
    for (size_t i = 0; i < in->attribute_count; i++) {
        struct item it = {0};
        split_name(arena_str(&d->arena, in->attributes[i].name), cel_str(d->driver), &it);
        it.value = device_attribute_value(shapes, &d->arena, &in->attributes[i]);
        if (cel_is_error(it.value) && !cel_is_error(d->failure))
            d->failure = it.value;
        vec_push_arena(&d->arena, &items, it);
    }
    int r = add_capacities(d, in, &items, err);
    if (r < 0) {
        cel_device_free(d);
        return r;
    }
    d->shape = shape_for(shapes, &items);
    device_build_view(d, &items);
    *ret = d;
    return 0;
}

void cel_device_free(struct cel_device *d)
{
    if (!d)
        return;
    arena_done(&d->arena);
    free(d);
}
