// SPDX-License-Identifier: Apache-2.0
//
// dray request: a claim, a template or a pod from words.
#include <stdio.h>

#include "cmd/devices/device_verb.h"
#include "codec/docs.h"
#include "plan/words.h"

#include "base/banned.h"

static const char *object_name, *image, *node;
static bool claim, template, pod, apply, every;
static struct words request_words; // in the order of the command line

static int verb_request(void);
static int request_take_word(const char *word, struct err *err);
static int request_take_device(const struct cli_option *o, const char *value, struct err *err);
static int request_take_condition(struct str name, const char *value, struct err *err);

static const struct cli_option device_options[] = {
    {"--count", NULL, "N", "request this many devices of the preceding word",
     .take = request_take_device, .repeats = true},
    {"--all", NULL, NULL, "request all devices of the preceding word on a node", .flag = &every,
     .take = request_take_device, .repeats = true},
    {"--with", NULL, "WORD", "request another device; options that follow are about it",
     .take = request_take_device, .repeats = true},
    {"--cel", NULL, "EXPR", "require that this CEL expression is true of the preceding word",
     .take = request_take_device, .repeats = true},
    {"--same", NULL, "ATTRIBUTE", "require the same value of all devices: --same pcieRoot",
     .take = request_take_device, .repeats = true},
    {"--distinct", NULL, "ATTRIBUTE", "require different values of all devices",
     .take = request_take_device, .repeats = true},
};

static const struct cli_option make_options[] = {
    {"--claim", NULL, NULL, "make a ResourceClaim (the default)", .flag = &claim,
     .excludes = "--template --pod"},
    {"--template", NULL, NULL, "make a ResourceClaimTemplate", .flag = &template,
     .excludes = "--claim --pod"},
    {"--pod", NULL, NULL, "make a template and a pod that uses it", .flag = &pod,
     .excludes = "--claim --template"},
    {"--apply", NULL, NULL, "create it in the cluster", .flag = &apply, .excludes = "--snapshot"},
    {"--name", NULL, "NAME", "name the object", .text = &object_name},
    {"--node", NULL, "NODE", "let the pod run on this node only", .text = &node, .names = "nodes",
     .needs = "--pod"},
    {"--image", NULL, "IMAGE", "use this image for the pod; default busybox", .text = &image},
    DEVICE_SNAPSHOT_OPTION,
};

static const struct cli_group device_group = CLI_GROUP("Devices", device_options);
static const struct cli_group make_group = CLI_GROUP("Options", make_options);

const struct cli_verb request_verb = {
    .name = "request",
    .summary = "write a claim, template or pod from a few words",
    .chapter = CLI_PLANNING,
    .everyday = true,
    .synopsis = "request WORD [--count N] [--CAPACITY AMOUNT] [--ATTRIBUTE VALUE] [--with WORD …] "
                "[--same ATTRIBUTE] [OPTIONS]",
    .text =
        "Prints YAML made from words, which are looked up in the cluster: classes, extended "
        "resources, drivers. Any --NAME "
        "VALUE that is no option is a capacity (at least) or an attribute (equal; or >=, <=, "
        "!=, <, > before VALUE) of "
        "devices of the class; amounts need a unit where devices have one. Standard error shows "
        "what was chosen and whether it fits now, quotas included.\n\n"
        "Exit status: 0 it fits now, 1 it does not, or something failed, 2 wrong usage. What does "
        "not fit is printed or created nevertheless.",
    .examples = "dray request gpu --memory 40Gi --count 2 --with nic --same pcieRoot\n"
                "dray request gpu --model A100 --pod --apply\n"
                "dray request gpu --cel 'device.attributes[\"gpu.example.com\"].index > 3' --pod "
                "--node n1\n"
                "dray request mig --profile 1g.10gb --template > template.yaml",
    .groups = {&device_group, &make_group, &common_cluster},
    .take_word = request_take_word,
    .take_unknown = request_take_condition,
    .word_names = "deviceclasses",
    .run = verb_request,
};

// --- Words in order ------------------------------------------------------------------------------

static int request_take_word(const char *word, struct err *err)
{
    (void)err;
    vec_push(&request_words.requests, (struct words_request){.word = str_z(word)});
    return 0;
}

// request_last gives the word that an option is about.
static struct words_request *request_last(const char *option, struct err *err)
{
    if (request_words.requests.n)
        return vec_last(&request_words.requests);
    (void)err_set(err, ERR_INVALID, "%s follows the word that it is about: dray request WORD %s",
                  option, option);
    return NULL;
}

static int request_take_device(const struct cli_option *o, const char *value, struct err *err)
{
    if (strcmp(o->name, "--with") == 0)
        return request_take_word(value, err);
    if (strcmp(o->name, "--same") == 0) {
        vec_push(&request_words.same, str_z(value));
        return 0;
    }
    if (strcmp(o->name, "--distinct") == 0) {
        vec_push(&request_words.distinct, str_z(value));
        return 0;
    }
    struct words_request *r = request_last(o->name, err);
    if (!r)
        return -ERR_INVALID;
    if (strcmp(o->name, "--cel") == 0)
        vec_push(&r->conditions, ((struct words_condition){.value = str_z(value)}));
    else if (strcmp(o->name, "--all") == 0)
        r->all = every;
    else if (str_to_i64(str_z(value), &r->count) < 0 || r->count < 1)
        return err_set(err, ERR_INVALID, "--count needs a number, at least 1, not '%s'", value);
    return 0;
}

static int request_take_condition(struct str name, const char *value, struct err *err)
{
    struct words_request *r = request_last(name.p, err);
    if (!r)
        return -ERR_INVALID;
    vec_push(&r->conditions, (struct words_condition){str_from(name, 2), str_z(value)});
    return 0;
}

// --- Making it -----------------------------------------------------------------------------------

// request_show_fit prints where it would land now. Returns whether it fits. The pods of a template
// stand for it.
static bool request_show_fit(struct device_source *s, const struct inventory *inv,
                             const struct words *w)
{
    cleanup_sbuf struct sbuf yaml = {0}, notes = {0}, text = {0}, name = {0};
    struct words asked = *w;
    struct plan *p = NULL;
    struct err err = {0};
    const struct plan_options o = {.features = &s->gates, .clock = clock_system(), .alone = true};
    if (asked.kind == WORDS_TEMPLATE)
        asked.kind = WORDS_POD;
    words_name(w, &name);
    struct str what = arena_strf(&s->arena, "%s/%.*s/%s", asked.kind == WORDS_POD ? "pod" : "claim",
                                 STR_ARG(s->namespace.n ? s->namespace : STR("default")), name.p);
    int r = words_make(inv, &asked, &yaml, &notes, &err);
    if (r == 0)
        r = plan_world_read(s->world, STR("request"), sbuf_str(&yaml), &err);
    if (r == 0)
        r = plan_why(s->world, what, &o, &p, &err);
    if (r < 0) {
        (void)fprintf(stderr, "whether it fits is not known: %s\n", err.msg);
        return false;
    }
    bool fits = plan_complete(p);
    plan_text(p, &text);
    (void)fprintf(stderr, "%s", text.p ? text.p : "");
    plan_free(p);
    return fits;
}

static int request_check_expressions(const struct device_source *s, const struct words *w,
                                     struct err *err)
{
    for (size_t i = 0; i < w->requests.n; i++)
        for (size_t k = 0; k < w->requests.p[i].conditions.n; k++) {
            const struct words_condition *c = &w->requests.p[i].conditions.p[k];
            int r = c->name.n ? 0 : inventory_check_cel(c->value, &s->features, err);
            if (r < 0)
                return err_wrap(err, "--cel %.*s", STR_ARG(c->value));
        }
    return 0;
}

static int request_create_objects(struct device_source *s, struct str yaml, struct err *err)
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
        r = device_verb_send(&s->cluster, "POST", target.p, sbuf_str(&body), NULL, err);
        if (r == 0)
            (void)fprintf(stderr, "%.*s created\n", STR_ARG(kind));
        json_doc_done(&doc);
        if (r < 0)
            break;
    }
    docs_reader_done(&docs);
    return r;
}

static int request_make_manifests(struct device_source *s, struct words *w, bool *ret_fits,
                                  struct err *err)
{
    cleanup_sbuf struct sbuf yaml = {0}, notes = {0};
    struct inventory *inv = NULL;
    int r = request_check_expressions(s, w, err);
    if (r == 0)
        r = device_verb_inventory(s, &inv, err);
    w->kind = pod ? WORDS_POD : template ? WORDS_TEMPLATE : WORDS_CLAIM;
    w->name = str_z(object_name);
    w->image = str_z(image);
    w->node = str_z(node);
    w->namespace = str_eqz(s->namespace, "default") ? (struct str){0} : s->namespace;
    if (r == 0)
        r = words_make(inv, w, &yaml, &notes, err);
    (void)fprintf(stderr, "%s", notes.n ? notes.p : "");
    if (r == 0)
        *ret_fits = request_show_fit(s, inv, w);
    inventory_free(inv);
    if (r == 0 && apply && !s->connected)
        return err_set(err, ERR_INVALID, "--apply needs a cluster, not a snapshot");
    if (r == 0 && apply)
        return request_create_objects(s, sbuf_str(&yaml), err);
    return r < 0 ? r : common_print(sbuf_str(&yaml), err);
}

static int verb_request(void)
{
    struct device_source s = {0};
    struct err err = {0};
    bool fits = false;
    int r = VERB_OK;
    if (!request_words.requests.n) {
        r = cli_usage_error("request", "WORD is missing, as in: dray request gpu --memory 40Gi");
    } else {
        r = device_verb_open(&s, DEVICE_WORLD_ALL, &err);
        if (r == 0)
            r = request_make_manifests(&s, &request_words, &fits, &err);
        device_verb_close(&s);
        r = r < 0 ? common_fail("request", &err) : fits ? VERB_OK : VERB_NO;
    }
    words_done(&request_words);
    return r;
}
