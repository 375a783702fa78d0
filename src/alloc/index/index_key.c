// SPDX-License-Identifier: Apache-2.0
//
// Hashes of what questions can see of devices. Two devices of one kind match the same selectors,
// have equal taints, capacities and counters: names, and attributes that nothing reads, make no
// difference.
#include "alloc/index/index_int.h"
#include "alloc/model/answer.h"
#include "api/api.h"
#include "api/match/device_taint.h"
#include "base/hash.h"

#include "base/banned.h"

#define SALT_TAINT     UINT64_C(0x7A1B)
#define SALT_ATTRIBUTE UINT64_C(0xA77B)
#define SALT_TWICE     UINT64_C(0x2B1C)
#define SALT_LOST      UINT64_C(0x2B1D)

static uint64_t hash_buffer(const struct sbuf *b)
{
    return hash_str(sbuf_str(b));
}

// --- Taints --------------------------------------------------------------------------------------

static uint64_t taint_hash(const struct api_device_taint *t)
{
    uint64_t h = index_mix(SALT_TAINT, hash_str(t->key));
    return index_mix(index_mix(h, hash_str(t->value)), hash_str(t->effect));
}

static uint64_t rule_taints(const struct index *x, const struct api_resource_slice_spec *spec,
                            struct str device)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < x->rules.n; i++) {
        const struct api_device_taint_rule *r = x->rules.p[i].value;
        if (device_taint_selects(r->spec.device_selector, spec->driver, spec->pool.name, &device))
            sum += taint_hash(&r->spec.taint);
    }
    return sum;
}

// --- Attributes ----------------------------------------------------------------------------------

static bool is_read(const struct index *x, struct str driver, struct str key)
{
    struct str domain = driver;
    struct str name = key;
    (void)(memchr(key.p, '/', key.n) && str_cut(key, '/', &domain, &name));
    if (x->read.list.n > READS_FEW)
        return index_reads_has(x, domain, name) || index_reads_has(x, domain, (struct str){0});
    for (size_t i = 0; i < x->read.list.n; i++)
        if (str_eq(x->read.list.p[i].domain, domain) &&
            (!x->read.list.p[i].name.n || str_eq(x->read.list.p[i].name, name)))
            return true;
    return false;
}

// A version that cannot be read, or no value at all, makes every selector fail on the device: such
// attributes count whether they are read or not.
static bool always_counts(const struct api_device_attribute *a)
{
    return a->has_version_value || a->version_values.p ||
           !(a->has_int_value || a->has_bool_value || a->has_string_value || a->int_values.p ||
             a->bool_values.p || a->string_values.p);
}

static uint64_t index_key_attribute_hash(const struct api_device_attribute_entry *e)
{
    const struct api_device_attribute *a = &e->value;
    uint64_t h = index_mix(SALT_ATTRIBUTE, hash_str(e->key));
    if (a->has_string_value)
        return index_mix(h + 1, hash_str(a->string_value));
    if (a->has_int_value)
        return index_mix(h + 2, (uint64_t)a->int_value);
    if (a->has_bool_value)
        return index_mix(h + 3, a->bool_value);
    cleanup_sbuf struct sbuf b = {0};
    api_proto_write(&api_device_attribute_type, a, &b);
    return index_mix(h + 4, hash_buffer(&b));
}

static uint64_t attributes_hash(const struct index *x, struct str driver,
                                const struct api_device_attribute_map *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n; i++)
        if (x->read.all || always_counts(&m->p[i].value) || is_read(x, driver, m->p[i].key))
            sum += index_key_attribute_hash(&m->p[i]);
    return sum;
}

// --- Devices and slices --------------------------------------------------------------------------

// All of a device but its name and attributes; of those what packing distinguishes devices by.
static uint64_t rest_of(const struct api_device *d, const struct api_resource_slice_spec *spec,
                        struct sbuf *b)
{
    struct api_device bare = *d;
    bare.name = bare.node_name = (struct str){0};
    bare.node_selector = NULL; // whom it is for is known of sets
    bare.attributes.n = 0;
    bare.taints.n = 0;
    sbuf_clear(b);
    api_proto_write(&api_device_type, &bare, b);
    uint64_t h = index_mix(hash_buffer(b), fleet_device_kind(d, spec));
    h = index_mix(h, fleet_device_sign(d));
    for (size_t i = 0; i < d->taints.n; i++)
        h += taint_hash(&d->taints.p[i]);
    return h;
}

void index_key_devices(const struct index *x, struct index_slice *s)
{
    const struct api_resource_slice_spec *spec = &s->api->spec;
    for (size_t i = 0; i < spec->devices.n; i++)
        s->devices[i].kind = s->devices[i].rest +
                             attributes_hash(x, spec->driver, &spec->devices.p[i].attributes) +
                             rule_taints(x, spec, spec->devices.p[i].name);
    s->reads = (uint32_t)x->read.list.n;
    s->read_all = x->read.all;
}

static bool any_qualified(const struct api_device *d)
{
    for (size_t i = 0; i < d->attributes.n; i++)
        if (memchr(d->attributes.p[i].key.p, '/', d->attributes.p[i].key.n))
            return true;
    return false;
}

void index_key_slice(const struct index *x, struct index_slice *s)
{
    cleanup_sbuf struct sbuf b = {0};
    struct api_resource_slice_spec bare = s->api->spec;
    bare.devices.n = 0;
    bare.node_name = bare.pool.name = (struct str){0};
    bare.node_selector = NULL; // whom it is for is known of sets
    bare.pool.generation = 0;
    api_proto_write(&api_resource_slice_spec_type, &bare, &b);
    s->head = hash_buffer(&b);
    for (size_t i = 0; i < s->api->spec.devices.n; i++) {
        s->devices[i].rest = rest_of(&s->api->spec.devices.p[i], &s->api->spec, &b);
        s->qualified |= any_qualified(&s->api->spec.devices.p[i]);
    }
    index_key_devices(x, s);
}

// --- Pools and nodes -----------------------------------------------------------------------------

static uint64_t use_hash(const struct index_device *d)
{
    return index_mix(d->consumed, (uint64_t)(d->exclusive > 0) << 1 | (d->shares > 0));
}

// Does no slice of this generation say that the pool has so many?
static bool index_key_is_incomplete(const struct index_pool *p, int64_t generation, int64_t slices)
{
    for (size_t i = 0; i < p->slices.n; i++) {
        const struct api_resource_pool *pool = &p->slices.p[i]->api->spec.pool;
        if (pool->generation == generation && pool->resource_slice_count == slices)
            return false;
    }
    return true;
}

void index_key_pool(struct index_pool *p)
{
    uint64_t h = hash_str(p->driver) + (p->twice ? SALT_TWICE : 0);
    int64_t newest = INT64_MIN;
    for (size_t i = 0; i < p->slices.n; i++) {
        int64_t g = p->slices.p[i]->api->spec.pool.generation;
        newest = g > newest ? g : newest;
    }
    p->taken = p->idle = 0;
    int64_t parts = 0, lost = p->uses; // devices in use that the newest generation lacks
    for (size_t i = 0; i < p->slices.n; i++) {
        const struct index_slice *s = p->slices.p[i];
        bool current = s->api->spec.pool.generation == newest;
        parts += current;
        h = index_mix(h, s->head);
        h = index_mix(h, (uint64_t)newest - (uint64_t)s->api->spec.pool.generation);
        for (size_t k = 0; k < s->api->spec.devices.n; k++) {
            const struct index_device *d = &s->devices[k];
            bool taken = d->exclusive || d->shares;
            p->taken += taken;
            lost -= current ? (int64_t)d->exclusive + d->shares : 0;
            p->idle += !taken && (current || p->shared);
            h = index_mix(h, d->kind);
            if (taken)
                h = index_mix(h, use_hash(d));
        }
    }
    if (lost > 0)
        h = index_mix(h, SALT_LOST);
    // Of a shared pool a node may see an older generation only, and all of that.
    if (!p->grouped && !p->shared && index_key_is_incomplete(p, newest, parts))
        p->idle = 0;
    p->state = h;
}

static bool offers_more(const struct api_quantity_entry *e)
{
    return memchr(e->key.p, '/', e->key.n) && quantity_sign(&e->value) != 0;
}

// What a node offers beside devices decides which claims a pod's extended resources become there.
static uint64_t node_hash(const struct api_node *node)
{
    uint64_t h = 1;
    for (size_t i = 0; i < node->status.declared_features.n; i++)
        h += hash_str(node->status.declared_features.p[i]);
    for (size_t i = 0; i < node->status.allocatable.n; i++)
        if (offers_more(&node->status.allocatable.p[i]))
            h += index_mix(2, hash_str(node->status.allocatable.p[i].key));
    return h;
}

uint64_t index_key_node(const struct index_node *n, uint32_t *ret_idle, bool *ret_loose)
{
    uint64_t h = node_hash(n->object.value);
    *ret_idle = 0;
    *ret_loose = false;
    for (size_t i = 0; i < n->pools.n; i++) {
        const struct index_pool *p = n->pools.p[i];
        h = index_mix(h, p->state);
        *ret_idle += p->idle;
        *ret_loose |= p->shareable;
    }
    return h;
}
