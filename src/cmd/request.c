// SPDX-License-Identifier: Apache-2.0
//
// dray request: a claim, a template or a pod from words.
#include <stdio.h>

#include "cmd/device_verb.h"
#include "codec/docs.h"
#include "plan/words.h"

#include "base/banned.h"

static const char *object_name, *image;
static bool claim, template, pod, apply;
static int64_t shown_count; // read in order, with the words; here for the help and the completion
static bool shown_all;
static struct option_texts shown_words;

static const struct option own_options[] = {
    {.name = "--count",
     .value_name = "N",
     .number = &shown_count,
     .least = 1,
     .help = "so many devices of the word before it"},
    {.name = "--all", .flag = &shown_all, .value = true, .help = "all devices of it on a node"},
    {.name = "--with",
     .value_name = "WORD",
     .many = &shown_words,
     .help = "and a device of this kind; options behind it are about it"},
    {.name = "--same",
     .value_name = "ATTRIBUTE",
     .many = &shown_words,
     .help = "all devices with the same value: --same pcieRoot"},
    {.name = "--distinct",
     .value_name = "ATTRIBUTE",
     .many = &shown_words,
     .help = "all devices with different values"},
};

static const struct option make_options[] = {
    {.name = "--claim",
     .flag = &claim,
     .value = true,
     .help = "make a ResourceClaim (the default)"},
    {.name = "--template",
     .flag = &template,
     .value = true,
     .help = "make a ResourceClaimTemplate"},
    {.name = "--pod",
     .flag = &pod,
     .value = true,
     .help = "make a template and a pod that uses it"},
    {.name = "--apply", .flag = &apply, .value = true, .help = "create it in the cluster"},
    {.name = "--name", .value_name = "NAME", .text = &object_name, .help = "of what is made"},
    {.name = "--image", .value_name = "IMAGE", .text = &image, .help = "of the pod; busybox"},
    DEVICE_SNAPSHOT_OPTION,
};

static const struct option_group own =
    OPTION_GROUP("What is asked for; any other --NAME VALUE is a capacity (at least) or an "
                 "attribute (equal; or >=, <=, !=, <, > before VALUE)",
                 own_options);
static const struct option_group make_group = OPTION_GROUP("What is made", make_options);
static struct option_texts words;

const struct grammar request_grammar = {
    .synopsis = "request WORD [--count N] [--CAPACITY AMOUNT] [--ATTRIBUTE VALUE] [--with WORD …] "
                "[--same ATTRIBUTE]",
    .text = "Makes YAML from words. Words are looked up in the cluster: classes, extended "
            "resources, drivers;\n"
            "the names behind -- among the attributes and capacities of devices of the class. What "
            "was chosen,\n"
            "and whether it fits now, is told on standard error.",
    .examples = "dray request gpu --memory 40Gi --count 2 --with nic --same pcieRoot\n"
                "dray request gpu --model A100 --pod --apply\n"
                "dray request mig --profile 1g.10gb --template > template.yaml",
    .groups = {&own, &make_group, &common_cluster},
    .words = &words,
};

// --- Words in order ------------------------------------------------------------------------------

static bool in_group(const struct option_group *g, const char *word, const struct option **ret)
{
    struct str name, value;
    (void)str_cut(str_z(word), '=', &name, &value);
    for (size_t i = 0; i < g->n; i++)
        if (str_eqz(name, g->options[i].name) ||
            (g->options[i].letter && str_eqz(name, g->options[i].letter))) {
            *ret = &g->options[i];
            return true;
        }
    return false;
}

// The value of an option: behind its = or the next word.
static const char *value_of(int argc, char **argv, int *i)
{
    const char *equal = strchr(argv[*i], '=');
    if (equal)
        return equal + 1;
    return *i + 1 < argc ? argv[++*i] : NULL;
}

static struct words_request *last_request(struct words *w)
{
    return w->requests.n ? vec_last(&w->requests) : NULL;
}

// One option about devices. Returns what is wrong, or NULL.
static const char *take(struct words *w, struct str name, const char *value)
{
    struct words_request *r = last_request(w);
    if (str_eqz(name, "--all") && r) {
        r->all = true;
        return NULL;
    }
    if (!value)
        return "the last option has no value";
    if (str_eqz(name, "--with"))
        vec_push(&w->requests, (struct words_request){.word = str_z(value)});
    else if (str_eqz(name, "--same"))
        vec_push(&w->same, str_z(value));
    else if (str_eqz(name, "--distinct"))
        vec_push(&w->distinct, str_z(value));
    else if (!r)
        return "say first what: dray request WORD …";
    else if (str_eqz(name, "--count"))
        return str_to_i64(str_z(value), &r->count) < 0 || r->count < 1 ? "--count needs a number"
                                                                       : NULL;
    else
        vec_push(&r->conditions, (struct words_condition){str_from(name, 2), str_z(value)});
    return NULL;
}

// Takes words and options about devices out; the others are read as those of any verb.
static int read_line(struct words *w, int argc, char **argv)
{
    struct option_texts rest = {0};
    const char *wrong = NULL;
    vec_push(&rest, argv[0]);
    for (int i = 1; i < argc && !wrong; i++) {
        const struct option *o = NULL;
        struct str name, value;
        (void)str_cut(str_z(argv[i]), '=', &name, &value);
        if (in_group(&make_group, argv[i], &o) || in_group(&common_cluster, argv[i], &o)) {
            vec_push(&rest, argv[i]);
            if (option_needs_value(o) && !strchr(argv[i], '=') && i + 1 < argc)
                vec_push(&rest, argv[++i]);
        } else if (str_starts(name, STR("--")) && name.n > 2) {
            wrong = take(w, name, str_eqz(name, "--all") ? NULL : value_of(argc, argv, &i));
        } else if (argv[i][0] == '-') {
            vec_push(&rest, argv[i]); // grammar_read knows what to say
        } else {
            vec_push(&w->requests, (struct words_request){.word = str_z(argv[i])});
        }
    }
    int r =
        wrong ? verb_usage_error("request", wrong)
              : grammar_read("request", &request_grammar, (int)rest.n, (char **)(uintptr_t)rest.p);
    vec_done(&rest);
    return r;
}

// --- Making it -----------------------------------------------------------------------------------

// Says where it would land now.
static void tell_fit(struct device_source *s, struct str yaml, struct str name)
{
    struct plan *p = NULL;
    cleanup_sbuf struct sbuf text = {0};
    const struct plan_options o = {.features = s->features, .clock = clock_system(), .alone = true};
    struct str what =
        arena_strf(&s->arena, "%s/%.*s/%.*s", pod ? "pod" : "claim",
                   STR_ARG(s->namespace.n ? s->namespace : STR("default")), STR_ARG(name));
    if (template || plan_world_read(s->world, STR("made"), yaml, NULL) < 0 ||
        plan_why(s->world, what, &o, &p, NULL) < 0)
        return;
    plan_text(p, &text);
    (void)fprintf(stderr, "%s", text.p ? text.p : "");
    plan_free(p);
}

static int send_all(struct device_source *s, struct str yaml, struct err *err)
{
    struct docs_reader docs;
    struct json_doc doc = {0};
    int r;
    docs_reader_init(&docs, yaml, NULL);
    while ((r = docs_next(&docs, &doc, err)) > 0) {
        cleanup_sbuf struct sbuf body = {0}, target = {0};
        struct json_writer w = {.out = &body};
        struct str kind = json_str(json_get(doc.root, STR("kind")));
        bool is_pod = str_eqz(kind, "Pod");
        json_write_value(&w, doc.root);
        sbuf_addf(&target, "%s/namespaces/%.*s/%s", is_pod ? "/api/v1" : "/apis/resource.k8s.io/v1",
                  STR_ARG(s->namespace.n ? s->namespace : STR("default")),
                  is_pod                           ? "pods"
                  : str_eqz(kind, "ResourceClaim") ? "resourceclaims"
                                                   : "resourceclaimtemplates");
        r = device_send(&s->cluster, "POST", target.p, sbuf_str(&body), NULL, err);
        if (r == 0)
            (void)fprintf(stderr, "%.*s created\n", STR_ARG(kind));
        json_doc_done(&doc);
        if (r < 0)
            break;
    }
    docs_reader_done(&docs);
    return r;
}

static int make(struct device_source *s, struct words *w, struct err *err)
{
    cleanup_sbuf struct sbuf yaml = {0}, notes = {0}, name = {0};
    struct inventory *inv = NULL;
    int r = device_inventory(s, &inv, err);
    w->kind = pod ? WORDS_POD : template ? WORDS_TEMPLATE : WORDS_CLAIM;
    w->name = str_z(object_name);
    w->image = str_z(image);
    w->namespace = str_eqz(s->namespace, "default") ? (struct str){0} : s->namespace;
    words_name(w, &name);
    if (r == 0)
        r = words_make(inv, w, &yaml, &notes, err);
    inventory_free(inv);
    (void)fprintf(stderr, "%s", notes.n ? notes.p : "");
    if (r == 0)
        tell_fit(s, sbuf_str(&yaml), sbuf_str(&name));
    if (r == 0 && apply && !s->connected)
        return err_set(err, ERR_INVALID, "--apply needs a cluster, not a snapshot");
    if (r == 0 && apply)
        return send_all(s, sbuf_str(&yaml), err);
    return r < 0 ? r : common_print(sbuf_str(&yaml), err);
}

int verb_request(int argc, char **argv)
{
    struct device_source s = {0};
    struct words w = {0};
    struct err err = {0};
    int r = read_line(&w, argc, argv);
    if (r == VERB_OK && !w.requests.n)
        r = verb_usage_error("request", "what? such as: dray request gpu --memory 40Gi");
    if (r == VERB_OK && claim + template + pod > 1)
        r = verb_usage_error("request", "one of --claim, --template and --pod");
    if (r == VERB_OK) {
        r = device_open(&s, false, &err);
        if (r == 0)
            r = make(&s, &w, &err);
        device_close(&s);
        r = r < 0 ? common_fail("request", &err) : VERB_OK;
    }
    words_done(&w);
    return r;
}
