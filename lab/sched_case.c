// SPDX-License-Identifier: Apache-2.0
//
// dray sched-case --jsonl: scheduling questions from standard input, one JSON object a line,
// answered by the scheduler's own rules in kube-scheduler's words; to compare the two.
//
//     {"name", "pending": "NAMESPACE/NAME", "features": {GATE: bool}, "nodes": […], "pods": […], …}
//     -> {"name", "preEnqueue", "preFilter", "feasible": [NODE],
//         "filtered": {NODE: [PLUGIN, [REASON], CODE]},
//         "preemption": {"node", "victims", "violations", "best", "tie", "candidates", "refused",
//                        "message"}, "message"}        (the last two when no node is feasible)
//
// Every other member that is a list has objects of the API, as a server has stored them. A line
// that cannot be answered gets {"name", "error"}.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/exec.h"
#include "base/limits.h"
#include "cmd/verb.h"
#include "codec/json.h"
#include "codec/json_writer.h"
#include "inproc/memory.h"
#include "sched/sched.h"

#include "base/banned.h"

// --- The cluster ---------------------------------------------------------------------------------

// The API in memory lets go of what is marked for deletion and has no finalizer. A pod that ends is
// still there.
static void case_keep_ending(struct api_object_meta *meta, struct arena *arena)
{
    if (!meta || !meta->deletion_timestamp.set || meta->finalizers.n)
        return;
    struct str *held = arena_one(arena, struct str);
    *held = STR("dray.dev/sched-case");
    meta->finalizers = (struct api_str_array){held, 1};
}

static int case_add(struct memory *m, const struct json_doc *doc, const yyjson_val *v,
                    struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct api_object o;
    int r = api_decode(doc, v, &arena, NULL, &o, err);
    if (r < 0)
        return r;
    case_keep_ending(api_object_meta(&o), &arena);
    (void)memory_put(m, &o);
    return 0;
}

static int case_read_objects(struct memory *m, const struct json_doc *doc, struct err *err)
{
    json_obj_foreach(doc->root, key, list) {
        if (!json_is_array(list))
            continue;
        json_arr_foreach(list, v) {
            int r = case_add(m, doc, v, err);
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

static struct str case_scheduler(const struct memory *m, struct str namespace, struct str name)
{
    const struct client_key key = {api_kind_find(STR("v1"), STR("Pod")), namespace, name};
    const struct typed_object *o = memory_find(m, &key);
    return o ? ((const struct api_pod *)o->object.value)->spec.scheduler_name : (struct str){0};
}

// A scheduler that stands by knows everything and writes nothing.
static int case_judge(struct memory *m, const struct features *features, struct exec_sim *sim,
                      struct str pending, struct json_writer *w, struct err *err)
{
    struct str namespace, name;
    if (!str_cut(pending, '/', &namespace, &name))
        return err_set(err, ERR_BAD_REQUEST, "pending: want NAMESPACE/NAME of a pod");
    struct str scheduler = case_scheduler(m, namespace, name);
    struct client *client = memory_client(m);
    struct sched *s = sched_new(&(struct sched_options){.client = client,
                                                        .names = &scheduler,
                                                        .names_len = scheduler.n ? 1 : 0,
                                                        .features = features,
                                                        .policy = ALLOC_FIRST,
                                                        .standby = true});
    sched_start(s);
    while (exec_sim_step(sim))
        continue;
    int r = sched_judge(s, namespace, name, w, err);
    sched_free(s);
    client_free(client);
    while (exec_sim_step(sim))
        continue;
    return r;
}

static int case_read_and_judge(const struct json_doc *doc, struct exec_sim *sim,
                               struct json_writer *w, struct err *err)
{
    struct features features;
    int r = case_read_features(doc, &features, err);
    if (r < 0)
        return r;
    struct memory *m = memory_new(exec_sim_exec(sim), &features);
    r = case_read_objects(m, doc, err);
    if (r == 0)
        r = case_judge(m, &features, sim, case_text(doc, "pending"), w, err);
    memory_free(m);
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
    int r = json_parse(line, &options, &doc, &err);
    struct str name = r == 0 ? case_text(&doc, "name") : (struct str){0};
    if (r == 0) {
        case_open_answer(&w, name);
        r = case_read_and_judge(&doc, sim, &w, &err);
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
}

static bool jsonl;

static int verb_sched_case(void);

static const struct cli_option sched_case_options[] = {
    {"--jsonl", NULL, NULL, "read cases from standard input, one JSON object a line",
     .flag = &jsonl, .required = true},
};
static const struct cli_group sched_case_group = CLI_GROUP("Options", sched_case_options);

const struct cli_verb sched_case_verb = {
    .name = "sched-case",
    .summary = "answer scheduling questions in kube-scheduler's words",
    .chapter = CLI_DEVELOPERS,
    .synopsis = "sched-case --jsonl",
    .text = "Reads cases from standard input, one JSON object a line: the objects of a cluster and "
            "the pod in question. Prints one answer a line: the nodes that are feasible, and for "
            "every other node the plugin that refuses it, its reasons and its code; if no node is "
            "feasible, the pods that would be preempted. Nothing is scheduled.",
    .examples = "dray sched-case --jsonl < cases.jsonl",
    .groups = {&sched_case_group},
    .run = verb_sched_case,
};

static int verb_sched_case(void)
{
    char *line = NULL;
    size_t cap = 0;
    cleanup_sbuf struct sbuf out = {0};
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
