// SPDX-License-Identifier: Apache-2.0
//
// A registry on a store in memory and a fake clock, requests as JSON, answers to look into.
#ifndef UNIT_REGISTRY_WORLD_H
#define UNIT_REGISTRY_WORLD_H

#include "api/cel_check.h"
#include "api/custom.h"
#include "base/exec.h"
#include "registry/registry.h"
#include "unit.h"

#define WORLD_START_NS (INT64_C(1800000000) * CLOCK_NS_PER_SEC) // 2027-01-15T08:00:00Z

struct reply {
    int answers; // how often done ran
    int code;
    int32_t http;
    bool created, deleted;
    bool has_status;
    char *reason, *message, *causes, *warnings; // "" when there is none
    struct json_doc doc;                        // of the object
    char *json;
    uint64_t revision;
    size_t objects;
};

struct world {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct store *store;
    struct features features;
    struct api_cel_engine *cel;
    struct registry *registry;
    struct arena arena;
    struct registry_user user;
    enum registry_field_validation fields;
    bool dry_run;
    bool fail_commits;
    bool hold; // answers are left to whoever runs the world
    struct reply reply;
};

// How much may wait for the disk; a test may say less before it includes this.
#ifndef WORLD_PENDING_BYTES
#    define WORLD_PENDING_BYTES ((size_t)0)
#endif

// The bound of the database; 0: none.
#ifndef WORLD_MAX_BYTES
#    define WORLD_MAX_BYTES ((size_t)0)
#endif

// How long work leaves the loop (struct registry_options); without it, it stays.
#ifndef WORLD_OFFLOAD
#    define WORLD_OFFLOAD \
        {                 \
            NULL, NULL    \
        }
#endif

static inline bool world_fails(void *arg, struct err *err)
{
    struct world *w = arg;
    if (w->fail_commits)
        (void)err_set(err, EIO, "the disk is broken");
    return w->fail_commits;
}

static inline void world_run(struct world *w)
{
    while (exec_sim_step(w->sim)) {}
}

static inline void world_pass(struct world *w, int64_t seconds)
{
    exec_sim_run(w->sim, w->clock.mono + seconds * CLOCK_NS_PER_SEC);
}

static inline void reply_done(struct reply *r)
{
    free(r->reason);
    free(r->message);
    free(r->causes);
    free(r->warnings);
    free(r->json);
    json_doc_done(&r->doc);
    *r = (struct reply){0};
}

// world_new_without makes a world whose server leaves these admission plugins out.
static inline struct world *world_new_without(struct str plugins)
{
    struct world *w = xcalloc(1, sizeof(*w));
    clock_fake_init(&w->clock, WORLD_START_NS);
    rng_seeded_init(&w->rng, 7);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    features_init(&w->features, FEATURES_MINOR);
    w->cel = api_cel_engine_new();
    struct err err = {0};
    const struct store_options so = {.exec = exec_sim_exec(w->sim),
                                     .pending_bytes = WORLD_PENDING_BYTES,
                                     .max_bytes = WORLD_MAX_BYTES,
                                     .commit_on_exec = true,
                                     .fail_commit = world_fails,
                                     .fail_commit_arg = w};
    assert_int_equal(store_open(&so, &w->store, &err), 0);
    const struct registry_options ro = {.store = w->store,
                                        .exec = exec_sim_exec(w->sim),
                                        .features = &w->features,
                                        .disable_admission = plugins,
                                        .cel = api_cel_engine_rules(w->cel),
                                        .offload = WORLD_OFFLOAD};
    assert_int_equal(registry_new(&ro, &w->registry, &err), 0);
    world_run(w);
    return w;
}

static inline struct world *world_new(void)
{
    return world_new_without(STR(""));
}

static inline void world_free(struct world *w)
{
    world_run(w);
    registry_free(w->registry);
    store_close(w->store);
    api_cel_engine_free(w->cel);
    exec_sim_free(w->sim);
    reply_done(&w->reply);
    arena_done(&w->arena);
    free(w);
}

static inline char *world_copy(struct str s)
{
    return xstrndup(s.p ? s.p : "", s.n);
}

static inline void world_answered(void *arg, const struct registry_answer *a)
{
    struct reply *r = arg;
    struct sbuf causes = {0}, warnings = {0};
    r->answers++;
    r->code = a->code;
    r->created = a->created;
    r->deleted = a->deleted;
    r->objects = a->objects_len;
    r->has_status = a->status != NULL;
    r->http = a->status ? a->status->code : 0;
    r->reason = world_copy(a->status ? a->status->reason : STR(""));
    r->message = world_copy(a->status ? a->status->message : STR(""));
    for (size_t i = 0; a->status && a->status->details && i < a->status->details->causes.n; i++) {
        const struct api_status_cause *c = &a->status->details->causes.p[i];
        sbuf_addf(&causes, "%.*s|%.*s|%.*s;", STR_ARG(c->reason), STR_ARG(c->field),
                  STR_ARG(c->message));
    }
    for (size_t i = 0; i < a->warnings_len; i++)
        sbuf_addf(&warnings, "%.*s;", STR_ARG(a->warnings[i]));
    r->causes = sbuf_take(&causes);
    r->warnings = sbuf_take(&warnings);
    r->json = world_copy(a->object ? a->object->json : STR(""));
    if (a->object) {
        struct err err = {0};
        const struct json_options any = {.max_bytes = SIZE_MAX};
        r->revision = a->object->revision;
        if (json_parse(str_z(r->json), &any, &r->doc, &err) < 0)
            fail_msg("the object is not JSON: %s in %s", err.msg, r->json);
    }
    if ((a->code < 0) != (a->status && str_eqz(a->status->status, "Failure")))
        fail_msg("code %d and status do not agree", a->code);
}

// Where a request goes: "resource.k8s.io/v1 ResourceClaim/status default/name".
struct target {
    const char *api_version;
    const char *kind;
    const char *sub;
    const char *namespace;
    const char *name;
};

static inline struct registry_request world_request(struct world *w, struct target t)
{
    const struct api_kind *kind = api_kind_find(str_z(t.api_version), str_z(t.kind));
    if (!kind)
        kind = custom_find(store_customs(w->store), str_z(t.api_version), str_z(t.kind));
    if (!kind)
        fail_msg("no kind %s %s", t.api_version, t.kind);
    return (struct registry_request){.kind = kind,
                                     .subresource = str_z(t.sub),
                                     .namespace = str_z(t.namespace),
                                     .name = str_z(t.name),
                                     .user = w->user.name.n ? &w->user : NULL,
                                     .dry_run = w->dry_run,
                                     .field_validation = w->fields};
}

static inline struct api_object world_body(struct world *w, const struct api_kind *kind,
                                           const char *json)
{
    struct err err = {0};
    struct json_doc doc = {0};
    struct api_object o = {0};
    if (json_parse(str_z(json), NULL, &doc, &err) < 0)
        fail_msg("not JSON: %s in %s", err.msg, json);
    const yyjson_val *named = json_get(doc.root, STR("kind"));
    int r = named ? api_decode(&doc, doc.root, &w->arena, NULL, &o, &err)
                  : api_decode_as(kind, &doc, doc.root, &w->arena, NULL, &o, &err);
    json_doc_done(&doc);
    if (r < 0)
        fail_msg("cannot decode: %s in %s", err.msg, json);
    return o;
}

// world_end waits for the answer, which must come exactly once.
static inline struct reply *world_end(struct world *w)
{
    if (w->hold)
        return &w->reply;
    world_run(w);
    assert_int_equal(w->reply.answers, 1);
    return &w->reply;
}

static inline struct reply *do_create(struct world *w, struct target t, const char *json)
{
    static struct registry_request request;
    request = world_request(w, t);
    struct api_object body = world_body(w, request.kind, json);
    reply_done(&w->reply);
    registry_create(w->registry, &request, &body, &w->arena, world_answered, &w->reply);
    return world_end(w);
}

static inline struct reply *do_update(struct world *w, struct target t, const char *json)
{
    static struct registry_request request;
    request = world_request(w, t);
    struct api_object body = world_body(w, request.kind, json);
    reply_done(&w->reply);
    registry_update(w->registry, &request, &body, &w->arena, world_answered, &w->reply);
    return world_end(w);
}

static inline struct reply *do_patch(struct world *w, struct target t,
                                     enum registry_patch_type type, const char *patch)
{
    static struct registry_request request;
    request = world_request(w, t);
    reply_done(&w->reply);
    registry_patch(w->registry, &request, type, str_z(patch), &w->arena, world_answered, &w->reply);
    return world_end(w);
}

static inline struct reply *do_delete(struct world *w, struct target t, const char *options)
{
    static struct registry_request request;
    request = world_request(w, t);
    const struct api_kind *kind = api_kind_find(STR("v1"), STR("DeleteOptions"));
    struct api_object body = {0};
    if (options)
        body = world_body(w, kind, options);
    reply_done(&w->reply);
    registry_delete(w->registry, &request, body.value, &w->arena, world_answered, &w->reply);
    return world_end(w);
}

// do_get looks at what is visible; a reply with an empty json when there is nothing.
static inline struct reply *do_get(struct world *w, struct target t)
{
    struct registry_request request = world_request(w, t);
    const struct store_key key = {registry_stored_kind(request.kind), request.namespace,
                                  request.name};
    const struct object *o = store_get(w->store, &key);
    reply_done(&w->reply);
    world_answered(&w->reply, &(struct registry_answer){.object = o});
    return &w->reply;
}

// reply_field is a field of the object as text: strings bare, everything else as JSON, "-" when it
// is not there.
static inline const char *reply_field(struct world *w, const char *path)
{
    bool whole = false;
    if (!w->reply.doc.root)
        return "-";
    const yyjson_val *v = json_at_path(w->reply.doc.root, str_z(path), &whole);
    if (!whole)
        return "-";
    if (json_is_string(v))
        return arena_str(&w->arena, json_str(v)).p;
    struct sbuf b = {0};
    struct json_writer jw = {.out = &b};
    json_write_value(&jw, v);
    const char *text = arena_str(&w->arena, sbuf_str(&b)).p;
    sbuf_done(&b);
    return text;
}

#define assert_field(w, path, want) assert_string_equal(reply_field((w), (path)), (want))

// assert_ok and assert_refused show what the registry said otherwise.
#define assert_ok(r)                                                                           \
    do {                                                                                       \
        struct reply *assert_ok_r = (r);                                                       \
        if (assert_ok_r->code != 0)                                                            \
            fail_msg("%s:%d: refused with %d: %s", __FILE__, __LINE__, (int)assert_ok_r->http, \
                     assert_ok_r->message);                                                    \
    } while (0)

#define assert_refused(r, want_http, want_message)                    \
    do {                                                              \
        struct reply *assert_refused_r = (r);                         \
        assert_string_equal(assert_refused_r->message, want_message); \
        assert_int_equal(assert_refused_r->http, want_http);          \
    } while (0)

#define TEST_IN_WORLD(name)                 \
    static void name##_in(struct world *w); \
    static void name(void **state)          \
    {                                       \
        (void)state;                        \
        struct world *w = world_new();      \
        name##_in(w);                       \
        world_free(w);                      \
    }                                       \
    static void name##_in(struct world *w)

#define CLAIM(name) ((struct target){"resource.k8s.io/v1", "ResourceClaim", "", "default", name})
#define CLAIM_STATUS(name) \
    ((struct target){"resource.k8s.io/v1", "ResourceClaim", "status", "default", name})
#define POD(name)    ((struct target){"v1", "Pod", "", "default", name})
#define NS(name)     ((struct target){"v1", "Namespace", "", "", name})
#define CONFIG(name) ((struct target){"v1", "ConfigMap", "", "default", name})

#endif
