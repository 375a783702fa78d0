// SPDX-License-Identifier: Apache-2.0
//
// dray alloc: allocation problems as JSON lines, one answer a line.
#include "dray/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/vec.h"
#include "cmd/verb.h"

#include "base/banned.h"

#define REPEAT_MAX 1000000

struct settings {
    enum alloc_policy policy;
    uint64_t repeat;
    bool explain;
    bool check;
};

struct slice_list VEC(const struct api_resource_slice *);
struct class_list VEC(const struct api_device_class *);
struct claim_list VEC(const struct api_resource_claim *);
struct rule_list VEC(const struct api_device_taint_rule *);
struct node_list VEC(const struct api_node *);
struct use_list VEC(struct alloc_use);

// One document. Everything lives in the arena.
struct question {
    struct arena arena;
    struct json_doc doc;
    struct alloc_features features;
    struct slice_list slices;
    struct class_list classes;
    struct claim_list claims;
    struct claim_list allocated;
    struct rule_list rules;
    struct node_list nodes;
    struct use_list uses;
    int64_t timeout_ms;
    bool sweep;
};

struct deadline {
    int64_t at_ns; // 0: none
};

static bool expired(void *arg)
{
    const struct deadline *d = arg;
    return d->at_ns && clock_mono_ns(clock_system()) >= d->at_ns;
}

// --- Reading -------------------------------------------------------------------------------------

static int read_object(struct question *q, const struct api_type *t, const yyjson_val *v,
                       size_t size, void **ret, struct err *err)
{
    *ret = arena_alloc(&q->arena, size, 16);
    return api_json_read(t, &q->doc, v, *ret, &q->arena, NULL, err);
}

// Reads the list under a key into a vector of pointers to objects.
#define READ_LIST(q, key, type, list, err)                                                     \
    ({                                                                                         \
        int read_list_r = 0;                                                                   \
        const yyjson_val *read_list_v = json_get((q)->doc.root, STR(key));                     \
        if (read_list_v && !json_is_null(read_list_v))                                         \
            read_list_r = json_want_array(read_list_v, (err));                                 \
        if (read_list_r == 0 && read_list_v && json_is_array(read_list_v)) {                   \
            json_arr_foreach(read_list_v, item) {                                              \
                void *read_list_o = NULL;                                                      \
                if (read_list_r == 0)                                                          \
                    read_list_r = read_object((q), &api_##type##_type, item,                   \
                                              sizeof(struct api_##type), &read_list_o, (err)); \
                vec_push_arena(&(q)->arena, (list), read_list_o);                              \
            }                                                                                  \
        }                                                                                      \
        read_list_r < 0 ? err_wrap((err), key) : 0;                                            \
    })

static struct str text_of(const yyjson_val *v, const char *key)
{
    const yyjson_val *x = json_get(v, str_z(key));
    return x && json_is_string(x) ? json_str(x) : (struct str){0};
}

static int read_use(struct question *q, const yyjson_val *v, struct alloc_use *u, struct err *err)
{
    const yyjson_val *caps = json_get(v, STR("capacity"));
    size_t n = caps && json_is_object(caps) ? json_len(caps) : 0;
    struct api_quantity_entry *p = arena_array(&q->arena, struct api_quantity_entry, n + 1);
    size_t i = 0;
    u->id =
        (struct alloc_device_id){text_of(v, "driver"), text_of(v, "pool"), text_of(v, "device")};
    if (n == 0)
        return 0;
    json_obj_foreach(caps, key, val) {
        struct str text = json_is_string(val) ? json_str(val) : (struct str){0};
        int64_t number;
        p[i].key = json_str(key);
        if (json_is_integral(val, &number))
            p[i++].value = quantity_from_i64(number, QUANTITY_DECIMAL_SI);
        else if (quantity_parse(text, &q->arena, &p[i++].value, err) < 0)
            return err_wrap(err, "capacity %.*s", STR_ARG(json_str(key)));
    }
    u->capacity = (struct api_quantity_map){p, n};
    return 0;
}

static int read_uses(struct question *q, const yyjson_val *allocated, const char *key,
                     struct alloc_use kind, struct err *err)
{
    const yyjson_val *list = allocated ? json_get(allocated, str_z(key)) : NULL;
    if (!list || !json_is_array(list))
        return 0;
    json_arr_foreach(list, item) {
        struct alloc_use u = kind;
        int r = read_use(q, item, &u, err);
        if (r < 0)
            return err_wrap(err, "allocated.%s", key);
        vec_push_arena(&q->arena, &q->uses, u);
    }
    return 0;
}

static int read_features(struct question *q, struct err *err)
{
    const yyjson_val *list = json_get(q->doc.root, STR("features"));
    if (!list || !json_is_array(list))
        return 0;
    json_arr_foreach(list, item) {
        struct str name = json_is_string(item) ? json_str(item) : (struct str){0};
        if (!alloc_features_add(&q->features, name))
            return err_set(err, ERR_INVALID, "unknown feature \"%.*s\"", STR_ARG(name));
    }
    return 0;
}

static int read_nodes(struct question *q, struct err *err)
{
    const yyjson_val *one = json_get(q->doc.root, STR("node"));
    int r = READ_LIST(q, "nodes", node, &q->nodes, err);
    q->sweep = q->nodes.n > 0;
    if (r < 0 || q->sweep)
        return r;
    void *node = arena_one(&q->arena, struct api_node);
    if (one && json_is_object(one) &&
        read_object(q, &api_node_type, one, sizeof(struct api_node), &node, err) < 0)
        return err_wrap(err, "node");
    vec_push_arena(&q->arena, &q->nodes, node);
    return 0;
}

static int read_question(struct question *q, struct str line, struct err *err)
{
    struct json_options options = {.max_bytes = DRAY_FILE_BYTES_MAX,
                                   .duplicates = JSON_DUPLICATES_KEEP};
    int r = json_parse(line, &options, &q->doc, err);
    if (r == 0 && !json_is_object(q->doc.root))
        r = err_set(err, ERR_BAD_REQUEST, "a problem must be a JSON object");
    if (r == 0)
        r = read_features(q, err);
    if (r == 0)
        r = READ_LIST(q, "deviceClasses", device_class, &q->classes, err);
    if (r == 0)
        r = READ_LIST(q, "classes", device_class, &q->classes, err);
    if (r == 0)
        r = READ_LIST(q, "resourceSlices", resource_slice, &q->slices, err);
    if (r == 0)
        r = READ_LIST(q, "slices", resource_slice, &q->slices, err);
    if (r == 0)
        r = READ_LIST(q, "claims", resource_claim, &q->claims, err);
    if (r == 0)
        r = READ_LIST(q, "allocatedClaims", resource_claim, &q->allocated, err);
    if (r == 0)
        r = READ_LIST(q, "deviceTaintRules", device_taint_rule, &q->rules, err);
    if (r == 0)
        r = read_nodes(q, err);
    const yyjson_val *allocated = r == 0 ? json_get(q->doc.root, STR("allocated")) : NULL;
    if (r == 0)
        r = read_uses(q, allocated, "devices", (struct alloc_use){.exclusive = true}, err);
    if (r == 0)
        r = read_uses(q, allocated, "sharedDevices", (struct alloc_use){.share = true}, err);
    if (r == 0)
        r = read_uses(q, allocated, "capacity", (struct alloc_use){.has_capacity = true}, err);
    const yyjson_val *timeout = r == 0 ? json_get(q->doc.root, STR("timeoutMs")) : NULL;
    if (timeout && !json_is_null(timeout))
        r = json_to_i64(timeout, &q->timeout_ms, err);
    return r;
}

static void question_done(struct question *q)
{
    json_doc_done(&q->doc);
    arena_done(&q->arena);
}

// --- Answering -----------------------------------------------------------------------------------

struct session {
    struct settings settings;
    struct alloc_solver *solver;
    struct deadline deadline;
};

struct prepared {
    struct alloc_cluster *cluster;
    struct alloc_view **views; // one a node
};

static int prepare(const struct question *q, struct prepared *p, struct err *err)
{
    struct alloc_input in = {.features = q->features,
                             .slices = q->slices.p,
                             .slices_len = q->slices.n,
                             .classes = q->classes.p,
                             .classes_len = q->classes.n,
                             .taint_rules = q->rules.p,
                             .taint_rules_len = q->rules.n,
                             .claims = q->allocated.p,
                             .claims_len = q->allocated.n,
                             .uses = q->uses.p,
                             .uses_len = q->uses.n};
    int r = alloc_cluster_new(&in, &p->cluster, err);
    p->views = xcalloc(q->nodes.n + 1, sizeof(*p->views));
    for (size_t i = 0; r == 0 && i < q->nodes.n; i++)
        r = alloc_view_new(p->cluster, q->nodes.p[i], &p->views[i], err);
    return r;
}

static void prepared_done(const struct question *q, struct prepared *p)
{
    for (size_t i = 0; p->views && i < q->nodes.n; i++)
        alloc_view_free(p->views[i]);
    free(p->views);
    alloc_cluster_free(p->cluster);
}

// The first node that fits; else what the last one said. Returns its index.
static size_t sweep(struct session *s, const struct question *q, const struct prepared *p,
                    struct alloc_answer *ret)
{
    size_t at = 0;
    for (size_t i = 0; i < q->nodes.n; i++) {
        at = i;
        alloc_solve(s->solver, p->views[i], q->claims.p, q->claims.n, ret);
        if (ret->verdict != ALLOC_UNSATISFIABLE && ret->verdict != ALLOC_NODE_ERROR)
            break;
    }
    return at;
}

static size_t solve(struct session *s, const struct question *q, const struct prepared *p,
                    struct alloc_answer *ret, int64_t *best_ns)
{
    size_t at = 0;
    *best_ns = INT64_MAX;
    for (uint64_t i = 0; i < s->settings.repeat; i++) {
        int64_t from = clock_mono_ns(clock_system());
        s->deadline.at_ns = q->timeout_ms > 0 ? from + q->timeout_ms * CLOCK_NS_PER_MS : 0;
        at = sweep(s, q, p, ret);
        int64_t took = clock_mono_ns(clock_system()) - from;
        if (took < *best_ns)
            *best_ns = took;
    }
    return at;
}

static void write_results(struct json_writer *w, const struct alloc_answer *a)
{
    json_write_key(w, STR("results"));
    if (a->verdict != ALLOC_ALLOCATED) {
        json_write_null(w);
        return;
    }
    json_write_array_begin(w);
    for (size_t i = 0; i < a->results_len; i++)
        if (api_json_write(&api_allocation_result_type, &a->results[i], w, NULL) < 0)
            json_write_null(w);
    json_write_array_end(w);
}

static void write_error(struct json_writer *w, struct str error)
{
    json_write_key(w, STR("error"));
    if (error.n)
        json_write_str(w, error);
    else
        json_write_null(w);
}

static void write_refused(struct json_writer *w, struct str why)
{
    json_write_key(w, STR("verdict"));
    json_write_str(w, STR("error"));
    write_error(w, why);
}

static void write_extras(struct session *s, const struct question *q, const struct alloc_view *view,
                         const struct alloc_answer *a, struct json_writer *w)
{
    cleanup_sbuf struct sbuf text = {0};
    if (s->settings.check && a->verdict == ALLOC_ALLOCATED) {
        bool valid = alloc_check(view, q->claims.p, q->claims.n, a->results, a->results_len, &text);
        json_write_key(w, STR("valid"));
        json_write_bool(w, valid);
        if (!valid) {
            json_write_key(w, STR("problems"));
            json_write_str(w, sbuf_str(&text));
        }
    }
    if (!s->settings.explain || a->verdict == ALLOC_ALLOCATED)
        return;
    struct alloc_explanation e;
    sbuf_clear(&text);
    if (!alloc_explain(s->solver, view, q->claims.p, q->claims.n, &e))
        return;
    alloc_explain_json(&e, &text);
    json_write_key(w, STR("explanation"));
    json_write_raw(w, sbuf_str(&text));
}

static void answer(struct session *s, struct str line, struct sbuf *out)
{
    struct question q = {0};
    struct prepared p = {0};
    struct err err = {0};
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    int r = read_question(&q, line, &err);
    struct str name = q.doc.root ? text_of(q.doc.root, "name") : (struct str){0};
    if (name.p) {
        json_write_key(&w, STR("name"));
        json_write_str(&w, name);
    }
    if (r == 0)
        r = prepare(&q, &p, &err);
    if (r < 0) {
        write_refused(&w, str_z(err.msg));
    } else {
        struct alloc_answer a;
        int64_t ns;
        size_t at = solve(s, &q, &p, &a, &ns);
        json_write_key(&w, STR("verdict"));
        json_write_str(&w, str_z(alloc_verdict_name(a.verdict)));
        write_results(&w, &a);
        write_error(&w, a.error);
        json_write_key(&w, STR("ns"));
        json_write_i64(&w, ns);
        if (q.sweep && a.verdict == ALLOC_ALLOCATED) {
            json_write_key(&w, STR("node"));
            json_write_str(&w, q.nodes.p[at]->metadata.name);
        }
        write_extras(s, &q, p.views[at], &a, &w);
    }
    json_write_object_end(&w);
    sbuf_addc(out, '\n');
    prepared_done(&q, &p);
    question_done(&q);
}

static int run_jsonl(const struct settings *settings)
{
    struct session s = {.settings = *settings};
    struct rng_seeded shares; // share IDs must differ, not be secret
    rng_seeded_init(&shares, rng_u64(rng_system()));
    s.solver = alloc_solver_new(&(struct alloc_options){.policy = settings->policy,
                                                        .rng = &shares.rng,
                                                        .expired = expired,
                                                        .expired_arg = &s.deadline});
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    cleanup_sbuf struct sbuf out = {0};
    while ((n = getline(&line, &cap, stdin)) >= 0) {
        struct str text = str_trim(str_make(line, (size_t)n));
        if (text.n == 0)
            continue;
        answer(&s, text, &out);
        (void)fwrite(out.p, 1, out.n, stdout);
        (void)fflush(stdout);
        sbuf_clear(&out);
    }
    free(line);
    alloc_solver_free(s.solver);
    return VERB_OK;
}

const char alloc_usage[] =
    "dray alloc --jsonl [--policy pack|spread|first] [--repeat N] [--explain] [--check]\n\n"
    "Problems come from standard input, a line of JSON each: claims, classes, slices, a node.\n"
    "--policy: which of the solutions; first is upstream's. --repeat: solve N times, tell the "
    "best.\n"
    "--explain: say why not. --check: let the independent checker look at every answer.";

int verb_alloc(int argc, char **argv)
{
    struct settings s = {.policy = ALLOC_PACK, .repeat = 1};
    bool jsonl = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--jsonl") == 0) {
            jsonl = true;
        } else if (strcmp(argv[i], "--explain") == 0) {
            s.explain = true;
        } else if (strcmp(argv[i], "--check") == 0) {
            s.check = true;
        } else if (strcmp(argv[i], "--policy") == 0 && i + 1 < argc) {
            if (!alloc_policy_parse(str_z(argv[++i]), &s.policy))
                return verb_usage_error("alloc", "--policy is one of pack, spread, first");
        } else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc) {
            if (str_to_u64(str_z(argv[++i]), &s.repeat) < 0 || s.repeat == 0 ||
                s.repeat > REPEAT_MAX)
                return verb_usage_error("alloc", "--repeat wants a number from 1 to 1000000");
        } else {
            return verb_usage_error("alloc", "these arguments make no sense");
        }
    }
    if (!jsonl)
        return verb_usage_error("alloc", "--jsonl is needed: problems come as JSON lines on "
                                         "standard input");
    return run_jsonl(&s);
}
