// SPDX-License-Identifier: Apache-2.0
//
// Random operations on a few objects, several at a time, with commits that fail now and then. A model
// of what must be there is kept beside; laws that always hold are checked as watchers see events.
#include "registry_world.h"

#define NAMES     4
#define ROUNDS    40
#define STEPS     150
#define IN_FLIGHT 6

// What a watcher knows of an object.
struct seen {
    bool exists, marked;
    uint64_t revision;
    char uid[40];
    size_t finalizers;
    char spec[512];
};

struct model {
    struct world *w;
    struct seen claims[NAMES];
    struct store_watch watch;
    uint64_t last; // revision of the last event
    int open;      // requests that are not answered
    size_t events, refused;
};

struct call {
    struct model *m;
    struct registry_request request;
    struct arena arena;
    char name[16];
};

static size_t number_of(const struct object *o)
{
    return (size_t)(o->name.p[o->name.n - 1] - '0');
}

static void copy_text(char *to, size_t size, struct str s)
{
    assert_true(s.n < size);
    memcpy(to, s.p ? s.p : "", s.n);
    to[s.n] = 0;
}

// Finalizers but the one that a deletion itself may set, then as before.
static size_t own_finalizers(const struct api_object_meta *meta)
{
    size_t n = 0;
    for (size_t i = 0; i < meta->finalizers.n; i++)
        n += !str_eqz(meta->finalizers.p[i], "foregroundDeletion");
    return n;
}

// The laws: revisions grow; a UID belongs to one life; deletionTimestamp and spec stay; finalizers do
// not grow once it is set; an object that is marked and has none is not there.
static void event(void *arg, const struct store_event *e)
{
    struct model *m = arg;
    struct seen *s = &m->claims[number_of(e->object)];
    struct api_object object;
    struct err err;
    assert_true(e->object->revision > m->last);
    m->last = e->object->revision;
    m->events++;
    assert_int_equal(registry_decode(e->object, e->object->kind, &m->w->arena, &object, &err), 0);
    const struct api_resource_claim *claim = object.value;
    char version[32];
    copy_text(version, sizeof(version), claim->metadata.resource_version);
    assert_int_equal(strtoull(version, NULL, 10), e->object->revision);
    struct sbuf spec = {0};
    struct json_writer jw = {.out = &spec};
    assert_int_equal(api_json_write(&api_resource_claim_spec_type, &claim->spec, &jw, &err), 0);
    switch (e->type) {
    case STORE_ADDED:
        assert_false(s->exists);
        assert_true(!str_eq(str_z(s->uid), claim->metadata.uid));
        assert_false(claim->metadata.deletion_timestamp.set);
        copy_text(s->uid, sizeof(s->uid), claim->metadata.uid);
        copy_text(s->spec, sizeof(s->spec), sbuf_str(&spec));
        break;
    case STORE_MODIFIED:
    case STORE_DELETED:
        assert_true(s->exists);
        assert_str(claim->metadata.uid, s->uid);
        assert_str(sbuf_str(&spec), s->spec);
        assert_true(!s->marked || claim->metadata.deletion_timestamp.set);
        assert_true(!s->marked || own_finalizers(&claim->metadata) <= s->finalizers);
        break;
    }
    s->exists = e->type != STORE_DELETED;
    s->marked = s->exists && claim->metadata.deletion_timestamp.set;
    s->finalizers = own_finalizers(&claim->metadata);
    s->revision = e->object->revision;
    assert_true(!s->marked || claim->metadata.finalizers.n > 0);
    assert_true(!claim->status.reserved_for.n || claim->status.allocation);
    sbuf_done(&spec);
}

static void call_done(void *arg, const struct registry_answer *a)
{
    struct call *c = arg;
    struct model *m = c->m;
    m->open--;
    if (a->code < 0) {
        assert_non_null(a->status);
        // The only ways to be refused here.
        int32_t http = a->status->code;
        assert_true(http == 404 || http == 409 || http == 422 || http == 500);
        m->refused++;
    } else if (a->object && !a->deleted && !c->request.dry_run) {
        // An answer is never ahead of what readers see.
        assert_true(a->object->revision <= store_revision(m->w->store));
    }
    arena_done(&c->arena);
    free(c);
}

static struct call *call_new(struct model *m, const char *sub)
{
    struct call *c = xcalloc(1, sizeof(*c));
    c->m = m;
    (void)snprintf(c->name, sizeof(c->name), "claim-%d", (int)rng_below(&m->w->rng.rng, NAMES));
    c->request = (struct registry_request){.kind = api_kind_find(STR("resource.k8s.io/v1"),
                                                                 STR("ResourceClaim")),
                                           .namespace = STR("default"),
                                           .name = str_z(c->name),
                                           .subresource = str_z(sub)};
    m->open++;
    return c;
}

static struct api_object body(struct call *c, uint64_t dice)
{
    static const char *const finalizers[] = {"[]", "[\"a.io/a\"]", "[\"a.io/a\",\"b.io/b\"]"};
    static const char *const statuses[] = {
        "{}",
        "{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"d.io\","
        "\"pool\":\"p\",\"device\":\"x\"}]}}}",
        "{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"d.io\","
        "\"pool\":\"p\",\"device\":\"x\"}]}},\"reservedFor\":[{\"resource\":\"pods\",\"name\":"
        "\"p\","
        "\"uid\":\"u\"}]}"};
    struct str version = STR("");
    if (dice % 4 == 1) {
        const struct store_key key = {c->request.kind, STR("default"), c->request.name};
        const struct object *o = store_get(c->m->w->store, &key);
        version = arena_strf(&c->arena, ",\"resourceVersion\":\"%llu\"",
                             (unsigned long long)(o ? o->revision : 1));
    }
    struct str json = arena_strf(
        &c->arena,
        "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"l\":\"%d\"},\"finalizers\":%s%.*s},\"spec\":{"
        "\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}]}},"
        "\"status\":%s}",
        c->name, (int)(dice / 4 % 3), finalizers[dice / 12 % 3], STR_ARG(version),
        statuses[dice / 36 % 3]);
    struct json_doc doc = {0};
    struct api_object o;
    struct err err;
    assert_int_equal(json_parse(json, NULL, &doc, &err), 0);
    assert_int_equal(api_decode_as(c->request.kind, &doc, doc.root, &c->arena, NULL, &o, &err), 0);
    json_doc_done(&doc);
    return o;
}

static void do_something(struct model *m)
{
    static const struct api_delete_options options[] = {
        {.has_propagation_policy = false},
        {.has_propagation_policy = true, .propagation_policy = STR_INIT("Foreground")},
        {.has_propagation_policy = true, .propagation_policy = STR_INIT("Background")},
    };
    struct registry *r = m->w->registry;
    uint64_t dice = rng_u64(&m->w->rng.rng);
    uint64_t what = dice % 8;
    dice /= 8;
    struct call *c = call_new(m, what == 3 || what == 6 ? "status" : "");
    c->request.dry_run = dice / 200 % 16 == 0;
    struct api_object o = body(c, dice);
    if (what < 2) {
        c->request.name = STR("");
        api_object_meta(&o)->resource_version = STR("");
        registry_create(r, &c->request, &o, &c->arena, call_done, c);
    } else if (what < 4) {
        registry_update(r, &c->request, &o, &c->arena, call_done, c);
    } else if (what == 4) {
        registry_delete(r, &c->request, &options[dice % 3], &c->arena, call_done, c);
    } else if (what == 5) {
        registry_patch(r, &c->request, REGISTRY_PATCH_MERGE,
                       STR("{\"metadata\":{\"finalizers\":null}}"), &c->arena, call_done, c);
    } else if (what == 6) {
        registry_patch(
            r, &c->request, REGISTRY_PATCH_STRATEGIC,
            STR("{\"status\":{\"reservedFor\":[{\"$patch\":\"delete\",\"uid\":\"u\"}]}}"),
            &c->arena, call_done, c);
    } else {
        registry_delete_collection(r, &c->request, &options[dice % 3], NULL, &c->arena, call_done,
                                   c);
    }
}

static void check_end(struct model *m)
{
    size_t there = 0;
    for (size_t i = 0; i < NAMES; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "claim-%zu", i);
        do_get(m->w, CLAIM(name));
        assert_int_equal(m->w->reply.doc.root != NULL, m->claims[i].exists);
        if (m->claims[i].exists)
            assert_int_equal(m->w->reply.revision, m->claims[i].revision);
        there += m->claims[i].exists;
    }
    assert_int_equal(store_count(m->w->store, m->watch.kind, STR("default")), there);
}

TEST_IN_WORLD(test_random_operations)
{
    struct model m = {.w = w};
    struct err err;
    m.watch =
        (struct store_watch){.kind = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim")),
                             .seen = store_revision(w->store),
                             .event = event,
                             .arg = &m};
    assert_int_equal(store_watch_start(w->store, &m.watch, &err), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int step = 0; step < STEPS; step++) {
            do_something(&m);
            w->fail_commits = rng_below(&w->rng.rng, 20) == 0;
            for (uint64_t n = rng_below(&w->rng.rng, 4); m.open > IN_FLIGHT || n > 0; n--)
                if (!exec_sim_step(w->sim))
                    break;
        }
        w->fail_commits = false;
        world_run(w);
        assert_int_equal(m.open, 0);
        check_end(&m);
    }
    assert_true(m.events > 500);
    assert_true(m.refused > 100);
    store_watch_stop(w->store, &m.watch);
}

RUN_TESTS(TEST_CASE(test_random_operations))
