// SPDX-License-Identifier: Apache-2.0
//
// The API in memory: what a client may rely on as on a server.
#include "base/exec.h"
#include "codec/json.h"
#include "inproc/memory.h"
#include "unit.h"

#include "base/banned.h"

struct kit {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *exec;
    struct memory *m;
    struct client *c;
    struct arena arena;
    int code; // of the last answer
    int answers;
    const struct typed_object *object; // of the last answer; referenced
    struct sbuf events;                // a word each
};

static void kit_start(struct kit *k)
{
    *k = (struct kit){0};
    clock_fake_init(&k->clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&k->rng, 1);
    k->exec = exec_sim_new(&k->clock, &k->rng.rng);
    k->m = memory_new(exec_sim_exec(k->exec), NULL);
    k->c = memory_client(k->m);
}

static void kit_run(struct kit *k)
{
    while (exec_sim_step(k->exec))
        ;
}

static void kit_end(struct kit *k)
{
    if (k->c)
        client_free(k->c);
    kit_run(k);
    typed_object_unref(k->object);
    memory_free(k->m);
    exec_sim_free(k->exec);
    sbuf_done(&k->events);
    arena_done(&k->arena);
}

static void on_answer(void *arg, const struct client_answer *a)
{
    struct kit *k = arg;
    k->code = a->code;
    k->answers++;
    assert_true((a->code < 0) == (a->err != NULL));
    typed_object_unref(k->object);
    k->object = typed_object_ref(a->object);
}

// JSON with single quotes for double ones.
static struct api_object object_of(struct kit *k, const char *text)
{
    char *json = xstrndup(text, strlen(text));
    struct json_doc doc = {0};
    struct api_object o = {0};
    struct err err = {0};
    for (char *p = json; *p; p++)
        if (*p == '\'')
            *p = '"';
    if (json_parse(str_z(json), NULL, &doc, &err) < 0 ||
        api_decode(&doc, doc.root, &k->arena, NULL, &o, &err) < 0)
        fail_msg("%s in %s", err.msg, json);
    json_doc_done(&doc);
    free(json);
    return o;
}

static int do_create(struct kit *k, const char *text)
{
    struct api_object o = object_of(k, text);
    int before = k->answers;
    client_create(k->c, &o, NULL, on_answer, k);
    assert_int_equal(k->answers, before); // never before the call has returned
    kit_run(k);
    assert_int_equal(k->answers, before + 1);
    return k->code;
}

static int do_update(struct kit *k, const struct api_object *o, const char *part)
{
    client_update(k->c, o, &(struct client_write){.subresource = str_z(part)}, on_answer, k);
    kit_run(k);
    return k->code;
}

static struct client_key pod_key(const char *name)
{
    return (struct client_key){api_kind_find(STR("v1"), STR("Pod")), STR("ns"), str_z(name)};
}

static const struct api_pod *pod_of(struct kit *k, const char *name)
{
    struct client_key key = pod_key(name);
    const struct typed_object *o = memory_find(k->m, &key);
    return o ? o->object.value : NULL;
}

static int do_patch(struct kit *k, const char *pod, enum client_patch type, const char *part,
                    const char *text)
{
    struct client_key key = pod_key(pod);
    client_patch(k->c, &key, type, str_z(text), &(struct client_write){.subresource = str_z(part)},
                 on_answer, k);
    kit_run(k);
    return k->code;
}

static int do_delete(struct kit *k, const char *pod, const char *uid)
{
    struct client_key key = pod_key(pod);
    struct api_preconditions same = {.uid = str_z(uid), .has_uid = uid != NULL};
    client_delete(k->c, &key, &(struct api_delete_options){.preconditions = &same}, on_answer, k);
    kit_run(k);
    return k->code;
}

#define A_POD(name, more)                                                                     \
    "{'apiVersion':'v1','kind':'Pod','metadata':{" name ",'namespace':'ns'" more "},'spec':{" \
    "'containers':[{'name':'c','image':'i'}]},'status':{'phase':'Running'}}"

static void creation_is_that_of_a_server(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    assert_int_equal(do_create(&k, A_POD("'name':'p'", "")), 0);
    assert_true(k.object->meta->uid.n > 0 && k.object->meta->creation_timestamp.set);
    assert_str(pod_of(&k, "p")->status.phase, "Pending"); // a status cannot be created
    assert_str(pod_of(&k, "p")->spec.restart_policy, "Always");
    assert_int_equal(do_create(&k, A_POD("'name':'p'", "")), -ERR_ALREADY_EXISTS);
    assert_int_equal(do_create(&k, A_POD("'generateName':'g-'", "")), 0);
    assert_str(k.object->meta->name, "g-1");
    assert_int_equal(do_create(&k, A_POD("'generateName':'g-'", "")), 0);
    assert_str(k.object->meta->name, "g-2");
    kit_end(&k);
}

static void an_old_version_is_a_conflict(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    assert_int_equal(do_create(&k, A_POD("'name':'p'", "")), 0);
    const struct typed_object *first = typed_object_ref(k.object);
    struct api_pod pod = *(const struct api_pod *)first->object.value;
    const struct api_object o = {first->object.kind, &pod};
    // One part at a time: the status does not come with the rest, nor the rest with the status.
    pod.status.message = STR("told");
    pod.spec.priority_class_name = STR("vip");
    assert_int_equal(do_update(&k, &o, "status"), 0);
    assert_str(pod_of(&k, "p")->status.message, "told");
    assert_str(pod_of(&k, "p")->spec.priority_class_name, "");
    assert_int_equal(do_update(&k, &o, "status"), -ERR_CONFLICT);
    pod.metadata.resource_version = STR("");
    pod.metadata.uid = STR("another");
    assert_int_equal(do_update(&k, &o, "status"), -ERR_CONFLICT);
    pod.metadata.name = STR("nobody");
    assert_int_equal(do_update(&k, &o, "status"), -ERR_NOT_FOUND);
    typed_object_unref(first);
    kit_end(&k);
}

static void patches_are_those_of_a_server(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    assert_int_equal(do_create(&k, A_POD("'name':'p'", "")), 0);
    // Conditions are merged by their type.
    static const char one[] =
        "{\"status\":{\"conditions\":[{\"type\":\"A\",\"status\":\"True\"}]}}";
    static const char two[] =
        "{\"status\":{\"conditions\":[{\"type\":\"B\",\"status\":\"True\"}]}}";
    assert_int_equal(do_patch(&k, "p", CLIENT_PATCH_STRATEGIC, "status", one), 0);
    assert_int_equal(do_patch(&k, "p", CLIENT_PATCH_STRATEGIC, "status", two), 0);
    assert_int_equal(pod_of(&k, "p")->status.conditions.n, 2);
    assert_int_equal(do_patch(&k, "p", CLIENT_PATCH_MERGE, "status", one), 0);
    assert_int_equal(pod_of(&k, "p")->status.conditions.n, 1);
    assert_int_equal(do_patch(&k, "p", CLIENT_PATCH_MERGE, "",
                              "{\"metadata\":{\"uid\":\"another\"}}"),
                     -ERR_CONFLICT);
    assert_int_equal(do_patch(&k, "p", CLIENT_PATCH_MERGE, "", "{"), -ERR_BAD_REQUEST);
    assert_int_equal(do_patch(&k, "p", CLIENT_PATCH_APPLY, "", "{}"), -ERR_UNSUPPORTED);
    assert_int_equal(do_patch(&k, "nobody", CLIENT_PATCH_MERGE, "", "{}"), -ERR_NOT_FOUND);
    kit_end(&k);
}

static void finalizers_hold_an_object(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    assert_int_equal(do_create(&k, A_POD("'name':'p'", ",'finalizers':['a.io/b']")), 0);
    assert_int_equal(do_delete(&k, "p", "another"), -ERR_CONFLICT);
    assert_int_equal(do_delete(&k, "p", NULL), 0);
    assert_true(pod_of(&k, "p")->metadata.deletion_timestamp.set);
    assert_int_equal(
        do_patch(&k, "p", CLIENT_PATCH_MERGE, "", "{\"metadata\":{\"finalizers\":null}}"), 0);
    assert_null(pod_of(&k, "p"));
    assert_int_equal(do_delete(&k, "p", NULL), -ERR_NOT_FOUND);
    kit_end(&k);
}

static void a_pod_is_bound_once(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    assert_int_equal(do_create(&k, A_POD("'name':'p'", "")), 0);
    struct api_object_meta pod = {.namespace = STR("ns"), .name = STR("p")};
    pod.resource_version = STR("77777");
    client_bind(k.c, &pod, STR("n"), on_answer, &k);
    kit_run(&k);
    assert_int_equal(k.code, -ERR_CONFLICT);
    pod.resource_version = STR("");
    client_bind(k.c, &pod, STR("n"), on_answer, &k);
    kit_run(&k);
    assert_int_equal(k.code, 0);
    assert_str(pod_of(&k, "p")->spec.node_name, "n");
    client_bind(k.c, &pod, STR("m"), on_answer, &k);
    kit_run(&k);
    assert_int_equal(k.code, -ERR_CONFLICT);
    kit_end(&k);
}

static void on_event(void *arg, const struct client_event *e)
{
    static const char *const words[] = {"added", "changed", "gone", "synced", "mark", "ended"};
    struct kit *k = arg;
    sbuf_addf(&k->events, "%s%s%.*s ", words[e->type], e->object ? ":" : "",
              e->object ? (int)e->object->meta->name.n : 0,
              e->object ? e->object->meta->name.p : "");
    if (e->type == CLIENT_ENDED)
        sbuf_addf(&k->events, "%d ", e->code);
}

static void watches_show_all_and_every_change(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    const struct api_kind *pods = api_kind_find(STR("v1"), STR("Pod"));
    assert_int_equal(do_create(&k, A_POD("'name':'p'", "")), 0);
    uint64_t then = memory_revision(k.m);
    struct client_watch *w = client_watch(k.c, pods, NULL, 0, on_event, &k);
    struct client_watch *other = client_watch(
        k.c, pods, &(struct client_list_options){.namespace = STR("other")}, 0, on_event, &k);
    assert_int_equal(k.events.n, 0);
    assert_int_equal(do_create(&k, A_POD("'name':'q'", "")), 0);
    assert_int_equal(do_delete(&k, "p", NULL), 0);
    assert_str(sbuf_str(&k.events), "added:p synced synced added:q gone:p ");
    client_watch_stop(k.c, w);
    client_watch_stop(k.c, other);
    sbuf_clear(&k.events);
    // What was missed is not kept; what is not there cannot be selected by.
    w = client_watch(k.c, pods, NULL, then, on_event, &k);
    other = client_watch(k.c, pods, &(struct client_list_options){.label_selector = STR("a=b")}, 0,
                         on_event, &k);
    kit_run(&k);
    char want[64];
    (void)snprintf(want, sizeof(want), "ended %d ended %d ", -ERR_EXPIRED, -ERR_UNSUPPORTED);
    assert_str(sbuf_str(&k.events), want);
    client_watch_stop(k.c, w);
    client_watch_stop(k.c, other);
    // A watch that is stopped is silent, whatever was on its way.
    sbuf_clear(&k.events);
    w = client_watch(k.c, pods, NULL, 0, on_event, &k);
    client_watch_stop(k.c, w);
    kit_run(&k);
    assert_int_equal(k.events.n, 0);
    kit_end(&k);
}

static int no_vips(void *arg, const struct api_object *object, const struct typed_object *old,
                   struct err *err)
{
    (void)arg;
    (void)old;
    return str_eqz(api_object_meta(object)->name, "vip") ? err_set(err, ERR_FORBIDDEN, "no") : 0;
}

static void a_guard_refuses(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    memory_set_guard(k.m, no_vips, NULL);
    assert_int_equal(do_create(&k, A_POD("'name':'vip'", "")), -ERR_FORBIDDEN);
    assert_null(pod_of(&k, "vip"));
    assert_int_equal(do_create(&k, A_POD("'name':'p'", "")), 0);
    kit_end(&k);
}

static void a_client_that_is_gone_is_still_answered(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    struct client_key key = pod_key("p");
    assert_int_equal(do_create(&k, A_POD("'name':'p'", "")), 0);
    client_get(k.c, &key, on_answer, &k);
    client_free(k.c);
    k.c = NULL;
    kit_run(&k);
    assert_int_equal(k.answers, 2);
    assert_int_equal(k.code, -ECANCELED);
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(creation_is_that_of_a_server), TEST_CASE(an_old_version_is_a_conflict),
          TEST_CASE(patches_are_those_of_a_server), TEST_CASE(finalizers_hold_an_object),
          TEST_CASE(a_pod_is_bound_once), TEST_CASE(watches_show_all_and_every_change),
          TEST_CASE(a_guard_refuses), TEST_CASE(a_client_that_is_gone_is_still_answered))
