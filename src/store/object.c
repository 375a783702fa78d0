// SPDX-License-Identifier: Apache-2.0
//
// One block of memory: the struct, its tables, the JSON, then those texts that the JSON does not
// hold literally. Most names, labels and fields stand in the JSON's first part, so they cost
// nothing more.
#include "store/object.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"

#include "base/banned.h"

// How far into the JSON a text is looked for: metadata comes first, and a search must stay cheap.
#define SHARED_PREFIX_BYTES ((size_t)4096)

// Names of fields that many objects have; they need no place in any block.
static const struct str common_keys[] = {
    STR_INIT("metadata.name"), STR_INIT("metadata.namespace"), STR_INIT("spec.nodeName"),
    STR_INIT("status.phase"),  STR_INIT("spec.driver"),        STR_INIT("spec.pool.name"),
};

// Where a text comes to stand: within the JSON, among the common ones, or (p NULL) behind the JSON.
struct text {
    struct str source;
    const char *shared; // outside the block
    size_t in_json;     // offset, SIZE_MAX: not there
};

struct texts VEC(struct text);

struct layout {
    struct str json;
    struct texts texts; // in the order in which they are placed again
    size_t extra_bytes;
};

static void find_in_json(const struct layout *l, struct text *t)
{
    size_t reach = l->json.n < SHARED_PREFIX_BYTES ? l->json.n : SHARED_PREFIX_BYTES;
    const char *at = memmem(l->json.p, reach, t->source.p, t->source.n);
    if (at)
        t->in_json = (size_t)(at - l->json.p);
}

// object_find_text decides where a text will stand. look: it may well be in the JSON.
static void object_find_text(struct layout *l, struct str s, bool look)
{
    struct text t = {.source = s, .in_json = SIZE_MAX};
    // Name and namespace come first and are often repeated.
    for (size_t i = 0; i < l->texts.n && i < 2; i++)
        if (s.n && str_eq(s, l->texts.p[i].source))
            t.in_json = l->texts.p[i].in_json;
    for (size_t i = 0; !look && !t.shared && i < array_len(common_keys); i++)
        if (str_eq(s, common_keys[i]))
            t.shared = common_keys[i].p;
    if (look && s.n && t.in_json == SIZE_MAX)
        find_in_json(l, &t);
    if (!t.shared && t.in_json == SIZE_MAX)
        l->extra_bytes += s.n;
    vec_push(&l->texts, t);
}

static void object_find_texts(struct layout *l, const struct object_parts *parts)
{
    vec_reserve(&l->texts, 3 + 2 * (parts->labels_len + parts->fields_len));
    object_find_text(l, parts->namespace, true);
    object_find_text(l, parts->name, true);
    object_find_text(l, parts->uid, true);
    for (size_t i = 0; i < parts->labels_len; i++) {
        assert(i == 0 || str_cmp(parts->labels[i - 1].key, parts->labels[i].key) <= 0);
        object_find_text(l, parts->labels[i].key, true);
        object_find_text(l, parts->labels[i].value, true);
    }
    for (size_t i = 0; i < parts->fields_len; i++) {
        assert(i == 0 || str_cmp(parts->fields[i - 1].key, parts->fields[i].key) <= 0);
        object_find_text(l, parts->fields[i].key, false);
        object_find_text(l, parts->fields[i].value, true);
    }
}

// Places texts in the order in which they were found.
struct placing {
    const struct text *next;
    const char *json; // in the block
    char *extra;      // behind it
};

static struct str object_place_text(struct placing *p)
{
    const struct text *t = p->next++;
    if (t->source.n == 0)
        return (struct str){0};
    if (t->shared)
        return str_make(t->shared, t->source.n);
    if (t->in_json != SIZE_MAX)
        return str_make(p->json + t->in_json, t->source.n);
    memcpy(p->extra, t->source.p, t->source.n);
    struct str placed = str_make(p->extra, t->source.n);
    p->extra += t->source.n;
    return placed;
}

static void place_pairs(struct placing *p, struct object_pair *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i].key = object_place_text(p);
        out[i].value = object_place_text(p);
    }
}

static bool object_skip_text(struct str *s, struct str what)
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
    bool known = object_skip_text(&rest, STR("{\"kind\":\"")) &&
                 object_skip_text(&rest, kind->kind) &&
                 object_skip_text(&rest, STR("\",\"apiVersion\":\"")) &&
                 object_skip_text(&rest, kind->api_version) && object_skip_text(&rest, STR("\""));
    if (!known)
        return json.n > 0 ? 1 : 0;
    (void)object_skip_text(&rest, STR(","));
    return (uint32_t)(json.n - rest.n);
}

struct object *object_new(const struct object_parts *parts)
{
    assert(parts->json.n < UINT32_MAX / 2 && parts->labels_len < UINT32_MAX / 64);
    size_t tables = (parts->labels_len + parts->fields_len) * sizeof(struct object_pair);
    struct layout l = {.json = parts->json};
    object_find_texts(&l, parts);
    size_t size = sizeof(struct object) + tables + parts->json.n + l.extra_bytes;
    struct object *o = xmalloc(size);
    char *at = (char *)(o + 1);
    struct object_pair *labels = (struct object_pair *)(void *)at;
    struct object_pair *fields = labels + parts->labels_len;
    char *json = at + tables;
    if (parts->json.n)
        memcpy(json, parts->json.p, parts->json.n);
    *o = (struct object){
        .refs = 1,
        .body_offset = body_offset(parts->kind, parts->json),
        .kind = parts->kind,
        .revision = parts->revision,
        .json = str_make(json, parts->json.n),
        .labels = labels,
        .fields = fields,
        .labels_len = (uint32_t)parts->labels_len,
        .fields_len = (uint32_t)parts->fields_len,
        .block_size = (uint32_t)size,
    };
    struct placing p = {l.texts.p, json, json + parts->json.n};
    o->namespace = object_place_text(&p);
    o->name = object_place_text(&p);
    o->uid = object_place_text(&p);
    place_pairs(&p, labels, parts->labels_len);
    place_pairs(&p, fields, parts->fields_len);
    assert(p.next == l.texts.p + l.texts.n && p.extra == (char *)o + size);
    vec_done(&l.texts);
    return o;
}

// --- Notes ---------------------------------------------------------------------------------------

struct object_note {
    size_t n;
    char bytes[];
};

static _Atomic size_t notes_bytes; // of all objects

static void note_free(struct object_note *note)
{
    if (!note)
        return;
    (void)atomic_fetch_sub_explicit(&notes_bytes, sizeof(*note) + note->n, memory_order_relaxed);
    free(note);
}

struct str object_note(const struct object *o)
{
    const struct object_note *note = atomic_load_explicit(&o->note, memory_order_acquire);
    return note ? str_make(note->bytes, note->n) : (struct str){0};
}

void object_set_note(const struct object *o, struct str bytes)
{
    struct object *shared =
        (struct object *)(uintptr_t)o; // like counting: readers do not see it change
    struct object_note *none = NULL;
    size_t size = sizeof(*none) + bytes.n;
    size_t before = atomic_fetch_add_explicit(&notes_bytes, size, memory_order_relaxed);
    if (before + size > OBJECT_NOTES_MAX) {
        (void)atomic_fetch_sub_explicit(&notes_bytes, size, memory_order_relaxed);
        return;
    }
    struct object_note *note = xmalloc(size);
    note->n = bytes.n;
    memcpy(note->bytes, bytes.p, bytes.n);
    if (!atomic_compare_exchange_strong_explicit(&shared->note, &none, note, memory_order_acq_rel,
                                                 memory_order_relaxed))
        note_free(note);
}

size_t object_notes_bytes(void)
{
    return atomic_load_explicit(&notes_bytes, memory_order_relaxed);
}

void object_free(struct object *o)
{
    note_free(atomic_load_explicit(&o->note, memory_order_acquire));
    free(o);
}

// --- Labels and fields ---------------------------------------------------------------------------

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
