// SPDX-License-Identifier: Apache-2.0
//
// dray sched-case --jsonl: scheduling questions from standard input, one JSON object a line, answered by the scheduler's own
// rules in kube-scheduler's words; to compare the two.
//
//     {"name", "pending": "NAMESPACE/NAME", "features": {GATE: bool}, "nodes": […], "pods": […], …}
//     -> {"name", "preEnqueue", "preFilter", "feasible": [NODE], "filtered": {NODE: [PLUGIN, [REASON], CODE]}}
//
// Every other member that is a list has objects of the API, as a server has stored them. A line that cannot be answered
// gets {"name", "error"}.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/exec.h"
#include "base/limits.h"
#include "base/vec.h"
#include "client/client.h"
#include "cmd/verb.h"
#include "codec/json.h"
#include "codec/json_writer.h"
#include "sched/sched.h"

#include "base/banned.h"

struct case_objects VEC(struct client_object *);

// A client that has the objects of a case and takes no writes.
struct case_client {
    struct client client; // first
    struct case_objects objects;
};

struct client_watch {
    struct case_client *owner;
    const struct api_kind *kind;
    client_event_fn event;
    void *arg;
    bool posted;
    bool stopped;
};

// --- The client ----------------------------------------------------------------------------------

static void case_deliver(void *arg)
{
    struct client_watch *watch = arg;
    uint64_t revision = watch->owner->objects.n + 1;
    watch->posted = false;
    for (size_t i = 0; i < watch->owner->objects.n && !watch->stopped; i++) {
        const struct client_object *o = watch->owner->objects.p[i];
        if (o->object.kind == watch->kind)
            watch->event(watch->arg, &(struct client_event){.type = CLIENT_ADDED,
                                                            .object = o,
                                                            .revision = o->revision});
    }
    if (watch->stopped)
        free(watch);
    else
        watch->event(watch->arg,
                     &(struct client_event){.type = CLIENT_SYNCED, .revision = revision});
}

static struct client_watch *case_watch(struct client *c, const struct api_kind *kind,
                                       const struct client_list_options *options, uint64_t since,
                                       client_event_fn event, void *arg)
{
    (void)options;
    (void)since;
    struct client_watch *watch = xcalloc(1, sizeof(*watch));
    *watch = (struct client_watch){
        .owner = (struct case_client *)c, .kind = kind, .event = event, .arg = arg, .posted = true};
    exec_post(c->exec, case_deliver, watch);
    return watch;
}

static void case_watch_stop(struct client_watch *watch)
{
    watch->stopped = true;
    if (!watch->posted || exec_unpost(watch->owner->client.exec, case_deliver, watch))
        free(watch);
}

// A scheduler that stands by writes nothing: no other call is made.
static const struct client_ops case_ops = {.watch = case_watch, .watch_stop = case_watch_stop};

static int case_add(struct case_client *c, const struct json_doc *doc, const yyjson_val *v,
                    struct err *err)
{
    struct client_object *o = client_object_new();
    int r = api_decode(doc, v, &o->arena, NULL, &o->object, err);
    if (r < 0) {
        client_object_unref(o);
        return r;
    }
    o->meta = api_object_meta(&o->object);
    o->revision = c->objects.n + 1;
    vec_push(&c->objects, o);
    return 0;
}

static int case_read_objects(struct case_client *c, const struct json_doc *doc, struct err *err)
{
    json_obj_foreach(doc->root, key, list) {
        if (!json_is_array(list))
            continue;
        json_arr_foreach(list, v) {
            int r = case_add(c, doc, v, err);
            if (r < 0)
                return err_wrap(err, "%.*s", STR_ARG(json_str(key)));
        }
    }
    return 0;
}

// --- A case --------------------------------------------------------------------------------------

static struct str case_text(const struct json_doc *doc, const char *key)
{
    const yyjson_val *v = json_get(doc->root, str_z(key));
    return v && json_is_string(v) ? json_str(v) : (struct str){0};
}

static int case_read_features(const struct json_doc *doc, struct features *ret, struct err *err)
{
    const yyjson_val *gates = json_get(doc->root, STR("features"));
    features_init(ret, FEATURES_MINOR);
    if (!gates || !json_is_object(gates))
        return 0;
    json_obj_foreach(gates, key, value) {
        enum feature which = feature_find(json_str(key));
        if (which == FEATURE_NONE)
            continue; // a gate that changes nothing here
        int r = json_to_bool(value, &ret->on[which], err);
        if (r < 0)
            return r;
    }
    return 0;
}

static struct str case_scheduler(const struct case_client *c, struct str namespace, struct str name)
{
    for (size_t i = 0; i < c->objects.n; i++) {
        const struct client_object *o = c->objects.p[i];
        if (str_eqz(o->object.kind->kind, "Pod") && str_eq(o->meta->name, name) &&
            str_eq(o->meta->namespace, namespace))
            return ((const struct api_pod *)o->object.value)->spec.scheduler_name;
    }
    return (struct str){0};
}

static int case_judge(struct case_client *c, const struct json_doc *doc, struct exec_sim *sim,
                      struct json_writer *w, struct err *err)
{
    struct features features;
    struct str namespace, name, pending = case_text(doc, "pending");
    int r = case_read_features(doc, &features, err);
    if (r == 0)
        r = case_read_objects(c, doc, err);
    if (r < 0)
        return r;
    if (!str_cut(pending, '/', &namespace, &name))
        return err_set(err, ERR_BAD_REQUEST, "pending: want NAMESPACE/NAME of a pod");
    struct str scheduler = case_scheduler(c, namespace, name);
    struct sched *s = sched_new(&(struct sched_options){.client = &c->client,
                                                        .names = &scheduler,
                                                        .names_len = scheduler.n ? 1 : 0,
                                                        .features = &features,
                                                        .policy = ALLOC_FIRST,
                                                        .standby = true});
    sched_start(s);
    while (exec_sim_step(sim) && !sched_synced(s))
        continue;
    while (exec_sim_step(sim))
        continue;
    r = sched_judge(s, namespace, name, w, err);
    sched_free(s);
    return r;
}

static void case_open_answer(struct json_writer *w, struct str name)
{
    json_write_object_begin(w);
    json_write_key(w, STR("name"));
    json_write_str(w, name);
}

static void case_answer(struct str line, struct sbuf *out)
{
    struct json_options options = {DRAY_FILE_BYTES_MAX, JSON_DUPLICATES_LAST};
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    struct clock_fake clock;
    struct rng_seeded rng;
    struct json_writer w = {.out = out};
    clock_fake_init(&clock, 0);
    rng_seeded_init(&rng, 1);
    struct exec_sim *sim = exec_sim_new(&clock, &rng.rng);
    struct case_client c = {.client = {.ops = &case_ops, .exec = exec_sim_exec(sim)}};
    int r = json_parse(line, &options, &doc, &err);
    struct str name = r == 0 ? case_text(&doc, "name") : (struct str){0};
    if (r == 0) {
        case_open_answer(&w, name);
        r = case_judge(&c, &doc, sim, &w, &err);
    }
    if (r < 0) {
        sbuf_clear(out);
        w = (struct json_writer){.out = out};
        case_open_answer(&w, name);
        json_write_key(&w, STR("error"));
        json_write_str(&w, str_z(err.msg));
    }
    json_write_object_end(&w);
    sbuf_addc(out, '\n');
    exec_sim_free(sim);
    vec_foreach(&c.objects, o)
        client_object_unref(*o);
    vec_done(&c.objects);
}

int verb_sched_case(int argc, char **argv)
{
    char *line = NULL;
    size_t cap = 0;
    cleanup_sbuf struct sbuf out = {0};
    if (argc != 2 || strcmp(argv[1], "--jsonl") != 0)
        return verb_usage_error("sched-case", argc > 1 ? verb_no_sense : "want --jsonl");
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        struct str text = str_trim(str_make(line, (size_t)n));
        if (text.n == 0)
            continue;
        sbuf_clear(&out);
        case_answer(text, &out);
        if (fwrite(out.p, 1, out.n, stdout) != out.n)
            break;
    }
    free(line);
    if (ferror(stdin) || fflush(stdout) != 0) {
        (void)fprintf(stderr, "dray sched-case: input or output failed\n");
        return VERB_NO;
    }
    return VERB_OK;
}

const char sched_case_usage[] =
    "dray sched-case: answer scheduling questions in kube-scheduler's words\n"
    "\n"
    "dray sched-case --jsonl\n"
    "\n"
    "Reads cases from standard input, a line of JSON each: objects of a cluster and the pod the\n"
    "question is about. Writes a line for each: which nodes would do, and for every other one the\n"
    "plugin that refuses it, its reasons and its code. Nothing is scheduled.";
