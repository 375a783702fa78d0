// SPDX-License-Identifier: Apache-2.0
//
// dray alloc: allocation problems as JSON lines, one answer a line.
#include "alloc/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/index.h"
#include "api/api.h"
#include "base/clock.h"
#include "cmd/verb.h"
#include "lab/alloc_question.h"

#include "base/banned.h"

#define REPEAT_MAX 1000000

struct settings {
    enum alloc_policy policy;
    size_t repeat;
    bool explain;
    bool check;
    bool eager;
    bool cluster;
};

struct deadline {
    int64_t at_ns; // 0: none
};

static bool alloc_verb_is_expired(void *arg)
{
    const struct deadline *d = arg;
    return d->at_ns && clock_mono_ns(clock_system()) >= d->at_ns;
}

// --- Answering -----------------------------------------------------------------------------------

struct session {
    struct settings settings;
    struct alloc_solver *solver;
    struct deadline deadline;
};

// The first node that fits; else the answer of the last one. Returns its index.
static size_t alloc_verb_ask_nodes(struct session *s, const struct question *q,
                                   const struct prepared *p, struct alloc_answer *ret)
{
    size_t at = 0;
    for (size_t i = 0; i < q->nodes.n; i++) {
        at = i;
        assert(p->views);
        alloc_solve(s->solver, p->views[i], q->claims.p, q->claims.n, ret);
        if (ret->verdict != ALLOC_UNSATISFIABLE && ret->verdict != ALLOC_NODE_ERROR)
            break;
    }
    return at;
}

// The whole question as an index of its cluster.
struct indexed {
    struct index *index;
    struct index_user uses;
    struct index_user *claims;
};

static struct index_object as_object(const void *value)
{
    return (struct index_object){.value = value};
}

static void index_begin(struct indexed *x, const struct question *q)
{
    const struct index_object none = {0};
    *x = (struct indexed){0};
    x->index = index_new(&(struct index_options){.features = q->features, .policy = ALLOC_FIRST});
    for (size_t i = 0; i < q->nodes.n; i++)
        index_set_node(x->index, (uint32_t)i, q->nodes.p[i]->metadata.name,
                       as_object(q->nodes.p[i]));
    for (size_t i = 0; i < q->slices.n; i++)
        index_set_slice(x->index, none, as_object(q->slices.p[i]));
    for (size_t i = 0; i < q->classes.n; i++)
        index_set_class(x->index, none, as_object(q->classes.p[i]));
    for (size_t i = 0; i < q->rules.n; i++)
        index_set_rule(x->index, none, as_object(q->rules.p[i]));
    x->claims = xcalloc(q->allocated.n + 1, sizeof(*x->claims));
    for (size_t i = 0; i < q->allocated.n; i++)
        index_use(x->index, &x->claims[i], q->allocated.p[i]->status.allocation);
    index_use_list(x->index, &x->uses, q->uses.p, q->uses.n);
}

static void index_end(struct indexed *x, const struct question *q)
{
    for (size_t i = 0; x->claims && i < q->allocated.n; i++)
        vec_done(&x->claims[i].pools);
    vec_done(&x->uses.pools);
    index_free(x->index);
    free(x->claims);
}

// The same by the index. number makes the question a new one: what was found out before is not
// used.
static size_t ask_index(struct session *s, const struct question *q, struct index *x,
                        uint64_t number, struct alloc_answer *ret)
{
    struct index_answer a;
    index_best(
        x, s->solver,
        &(struct index_ask){.hash = number + 1, .claims = q->claims.p, .claims_len = q->claims.n},
        &a);
    *ret = a.best;
    ret->verdict = a.verdict;
    return a.node < q->nodes.n ? a.node : q->nodes.n - 1;
}

static size_t alloc_verb_solve_timed(struct session *s, const struct question *q,
                                     const struct prepared *p, struct alloc_answer *ret,
                                     int64_t *best_ns)
{
    struct indexed x = {0};
    if (s->settings.cluster)
        index_begin(&x, q);
    size_t at = 0;
    *best_ns = INT64_MAX;
    for (uint64_t i = 0; i < s->settings.repeat; i++) {
        int64_t from = clock_mono_ns(clock_system());
        s->deadline.at_ns = q->timeout_ms > 0 ? from + q->timeout_ms * CLOCK_NS_PER_MS : 0;
        at = x.index ? ask_index(s, q, x.index, i, ret) : alloc_verb_ask_nodes(s, q, p, ret);
        int64_t took = clock_mono_ns(clock_system()) - from;
        if (took < *best_ns)
            *best_ns = took;
    }
    index_end(&x, q);
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

static struct str alloc_verb_case_name(const struct question *q)
{
    const yyjson_val *v = q->doc.root ? json_get(q->doc.root, STR("name")) : NULL;
    return v && json_is_string(v) ? json_str(v) : (struct str){0};
}

static void alloc_verb_answer_line(struct session *s, struct str line, struct sbuf *out)
{
    struct question q = {0};
    struct prepared p = {0};
    struct err err = {0};
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    int r = alloc_question_read(&q, line, &err);
    struct str name = alloc_verb_case_name(&q);
    if (name.p) {
        json_write_key(&w, STR("name"));
        json_write_str(&w, name);
    }
    if (r == 0)
        r = alloc_question_prepare(&q, &p, &err);
    if (r < 0) {
        write_refused(&w, str_z(err.msg));
    } else {
        assert(p.views); // at least one node, if only an empty one
        struct alloc_answer a = {0};
        int64_t ns = 0;
        size_t at = alloc_verb_solve_timed(s, &q, &p, &a, &ns);
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
    alloc_question_end(&q, &p);
    alloc_question_done(&q);
}

static int alloc_run_jsonl(const struct settings *set)
{
    struct session s = {.settings = *set};
    struct rng_seeded shares; // share IDs must differ, not be secret
    rng_seeded_init(&shares, rng_u64(rng_system()));
    s.solver = alloc_solver_new(&(struct alloc_options){.policy = set->policy,
                                                        .eager_pruning = set->eager,
                                                        .rng = &shares.rng,
                                                        .expired = alloc_verb_is_expired,
                                                        .expired_arg = &s.deadline});
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    cleanup_sbuf struct sbuf out = {0};
    while ((n = getline(&line, &cap, stdin)) >= 0) {
        struct str text = str_trim(str_make(line, (size_t)n));
        if (text.n == 0)
            continue;
        alloc_verb_answer_line(&s, text, &out);
        (void)fwrite(out.p, 1, out.n, stdout);
        (void)fflush(stdout);
        sbuf_clear(&out);
    }
    free(line);
    alloc_solver_free(s.solver);
    return VERB_OK;
}

static struct settings settings = {.repeat = 1};
static const char *policy = "pack";
static bool jsonl;

static int verb_alloc(void);

static const struct cli_option alloc_options[] = {
    {"--jsonl", NULL, NULL, "read problems from standard input, one JSON object a line",
     .flag = &jsonl, .required = true},
    {"--policy", NULL, "POLICY", "choose among solutions; first is upstream's; default pack",
     .text = &policy, .choices = "pack spread first"},
    {"--repeat", NULL, "N", "solve N times and print the best time", .size = &settings.repeat,
     .least = 1, .most = REPEAT_MAX},
    {"--explain", NULL, NULL, "explain why a problem has no solution", .flag = &settings.explain},
    {"--check", NULL, NULL, "let the independent checker verify every answer",
     .flag = &settings.check},
    {"--cluster", NULL, NULL, "ask the index of the whole cluster instead of each node",
     .flag = &settings.cluster},
    {"--eager", NULL, NULL, "prune from the first device on, not only after dead ends; for tests",
     .flag = &settings.eager},
};
static const struct cli_group alloc_group = CLI_GROUP("Options", alloc_options);

const struct cli_verb alloc_verb = {
    .name = "alloc",
    .summary = "solve allocation problems given as JSON lines",
    .chapter = CLI_DEVELOPERS,
    .synopsis = "alloc --jsonl [OPTIONS]",
    .text = "Reads problems from standard input, one JSON object a line: claims, classes, slices, "
            "a node; prints one answer a "
            "line.",
    .examples = "dray alloc --jsonl --explain < problems.jsonl",
    .groups = {&alloc_group},
    .run = verb_alloc,
};

static int verb_alloc(void)
{
    (void)alloc_policy_parse(str_z(policy), &settings.policy);
    return alloc_run_jsonl(&settings);
}
