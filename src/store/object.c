// SPDX-License-Identifier: Apache-2.0
//
// One block of memory: the struct, its tables, the JSON, then those texts that the JSON does not hold
// literally. Most names, labels and fields stand in the JSON's first part, so they cost nothing more.
#include "store/object.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

// How far into the JSON a text is looked for: metadata comes first, and a search must stay cheap.
#define SHARED_PREFIX_BYTES ((size_t)4096)

// Where the block's texts come to stand. First they are counted, then laid down.
struct layout {
    const char *json; // NULL while counting
    struct str source;
    char *next;
    size_t extra_bytes;
};

static struct str find_in_json(const struct layout *l, struct str s)
{
    size_t reach = l->source.n < SHARED_PREFIX_BYTES ? l->source.n : SHARED_PREFIX_BYTES;
    const char *at = memmem(l->source.p, reach, s.p, s.n);
    return at ? str_make(at, s.n) : (struct str){0};
}

// place gives a text its place in the block; while counting it only adds up what needs one.
static struct str place(struct layout *l, struct str s)
{
    if (s.n == 0)
        return (struct str){0};
    struct str in_json = find_in_json(l, s);
    if (in_json.p)
        return l->json ? str_make(l->json + (in_json.p - l->source.p), s.n) : in_json;
    l->extra_bytes += s.n;
    if (!l->json)
        return s;
    memcpy(l->next, s.p, s.n);
    struct str placed = str_make(l->next, s.n);
    l->next += s.n;
    return placed;
}

static void place_pairs(struct layout *l, const struct object_pair *in, size_t n,
                        struct object_pair *out)
{
    for (size_t i = 0; i < n; i++) {
        struct object_pair pair = {place(l, in[i].key), place(l, in[i].value)};
        if (out)
            out[i] = pair;
        assert(i == 0 || str_cmp(in[i - 1].key, in[i].key) <= 0);
    }
}

static size_t extra_bytes(const struct object_parts *parts)
{
    struct layout l = {.source = parts->json};
    (void)place(&l, parts->namespace);
    (void)place(&l, parts->name);
    (void)place(&l, parts->uid);
    place_pairs(&l, parts->labels, parts->labels_len, NULL);
    place_pairs(&l, parts->fields, parts->fields_len, NULL);
    for (size_t i = 0; i < parts->owners_len; i++)
        (void)place(&l, parts->owners[i]);
    return l.extra_bytes;
}

static bool skip(struct str *s, struct str what)
{
    if (!str_starts(*s, what))
        return false;
    *s = str_from(*s, what.n);
    return true;
}

// body_offset is where the members behind kind and apiVersion begin.
static uint32_t body_offset(const struct api_kind *kind, struct str json)
{
    struct str rest = json;
    bool known = skip(&rest, STR("{\"kind\":\"")) && skip(&rest, kind->kind) &&
                 skip(&rest, STR("\",\"apiVersion\":\"")) && skip(&rest, kind->api_version) &&
                 skip(&rest, STR("\""));
    if (!known)
        return json.n > 0 ? 1 : 0;
    (void)skip(&rest, STR(","));
    return (uint32_t)(json.n - rest.n);
}

struct object *object_new(const struct object_parts *parts)
{
    assert(parts->json.n < UINT32_MAX / 2 && parts->labels_len < UINT32_MAX / 64);
    size_t tables = (parts->labels_len + parts->fields_len) * sizeof(struct object_pair) +
                    parts->owners_len * sizeof(struct str);
    size_t size = sizeof(struct object) + tables + parts->json.n + extra_bytes(parts);
    struct object *o = xmalloc(size);
    char *at = (char *)(o + 1);
    struct object_pair *labels = (struct object_pair *)(void *)at;
    struct object_pair *fields = labels + parts->labels_len;
    struct str *owners = (struct str *)(void *)(fields + parts->fields_len);
    char *json = at + tables;
    if (parts->json.n)
        memcpy(json, parts->json.p, parts->json.n);
    struct layout l = {.json = json, .source = parts->json, .next = json + parts->json.n};
    *o = (struct object){
        .refs = 1,
        .body_offset = body_offset(parts->kind, parts->json),
        .kind = parts->kind,
        .revision = parts->revision,
        .namespace = place(&l, parts->namespace),
        .name = place(&l, parts->name),
        .uid = place(&l, parts->uid),
        .json = str_make(json, parts->json.n),
        .labels = labels,
        .fields = fields,
        .owners = owners,
        .labels_len = (uint32_t)parts->labels_len,
        .fields_len = (uint32_t)parts->fields_len,
        .owners_len = (uint32_t)parts->owners_len,
        .block_size = (uint32_t)size,
    };
    place_pairs(&l, parts->labels, parts->labels_len, labels);
    place_pairs(&l, parts->fields, parts->fields_len, fields);
    for (size_t i = 0; i < parts->owners_len; i++)
        owners[i] = place(&l, parts->owners[i]);
    assert(l.next == (char *)o + size);
    return o;
}

struct object *object_ref(const struct object *o)
{
    if (!o)
        return NULL;
    // Counting is the one thing that changes in an object that everyone shares.
    struct object *shared = (struct object *)(uintptr_t)o;
    uint32_t before = atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
    assert(before > 0 && before < UINT32_MAX);
    return shared;
}

void object_unref(const struct object *o)
{
    if (!o)
        return;
    struct object *shared = (struct object *)(uintptr_t)o;
    uint32_t before = atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1)
        free(shared);
}

static bool find_pair(const struct object_pair *pairs, size_t n, struct str key, struct str *ret)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = str_cmp(pairs[mid].key, key);
        if (order == 0) {
            *ret = pairs[mid].value;
            return true;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

bool object_label(const struct object *o, struct str key, struct str *ret)
{
    return find_pair(o->labels, o->labels_len, key, ret);
}

bool object_field(const struct object *o, struct str key, struct str *ret)
{
    return find_pair(o->fields, o->fields_len, key, ret);
}
