// SPDX-License-Identifier: Apache-2.0
//
// Questions of `dray plan` and `dray why` about files and clusters: reads them, changes the world
// as asked, prints the answer.
#include "cmd/devices/plan_args.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "cmd/devices/device_verb.h"
#include "cmd/input.h"
#include "cmd/verb.h"
#include "cmd/why/why_show.h"
#include "view/text.h"

#include "base/banned.h"

#define FOLDERS_DEEP 32

struct plan_args plan_args;
static struct arena plan_args_arena;
static struct features plan_args_gates;

static int plan_args_change(const struct cli_option *o, const char *value, struct err *err)
{
    (void)err;
    vec_push(&plan_args.changes, (struct plan_change){o, value});
    return 0;
}

static const struct cli_option plan_file_options[] = {
    {"--filename", "-f", "FILE…",
     "read objects in YAML, JSON or protobuf from files, directories (.yaml, .yml, .json) or - for "
     "standard input",
     .many = &plan_args.files, .greedy = true},
    {"--recursive", "-R", NULL, "read directories recursively", .flag = &plan_args.recursive,
     .needs = "--filename"},
    {"--offline", NULL, NULL, "use the files alone, without a cluster", .flag = &plan_args.offline,
     .needs = "--filename"},
    {"--policy", NULL, "POLICY", "choose nodes and devices by this policy; default pack",
     .text = &plan_args.policy, .choices = "pack spread first"},
    {"--node", NULL, "NODE", "use this node only", .text = &plan_args.node, .names = "nodes"},
    {"--features", NULL, "A,B", "enable more features: names, gates, or all",
     .text = &plan_args.features},
};
static const struct cli_option plan_change_options[] = {
    {"--drain", NULL, "NODE", "evict the pods of a node, as far as their disruption budgets allow",
     .take = plan_args_change, .repeats = true},
    {"--taint", NULL, "DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT",
     "taint devices; or driver=D,pool=P,device=X,key=K,value=V,effect=E with any of the selectors "
     "left out",
     .take = plan_args_change, .repeats = true},
    {"--without", NULL, "[NAMESPACE/]CLAIM", "remove a claim and its pods",
     .take = plan_args_change, .repeats = true},
    {"--add-node", NULL, "like=NODE|profile=NAME[,count=N][,name=PREFIX]",
     "add nodes like an existing one, or of a simulated profile", .take = plan_args_change,
     .repeats = true},
};
const struct cli_group plan_file_group = CLI_GROUP("Files and placement", plan_file_options);
const struct cli_group plan_change_group = CLI_GROUP("What if; repeatable", plan_change_options);

// --- Files ---------------------------------------------------------------------------------------

static int plan_args_fail(const struct plan_args *a, const char *file, const struct err *err)
{
    struct input named = {.name = file};
    input_error(&named, a->verb, err);
    return VERB_NO;
}

static int plan_args_read_file(const struct plan_args *a, struct plan_world *w, const char *path)
{
    struct err err = {0};
    cleanup_input struct input in = {0};
    int r = input_open(&in, path, &err);
    if (r == 0 && input_is_proto(&in))
        r = plan_world_read_proto(w, str_z(in.name), sbuf_str(&in.bytes), &err);
    else if (r == 0)
        r = plan_world_read(w, str_z(in.name), sbuf_str(&in.bytes), &err);
    return r < 0 ? plan_args_fail(a, in.name ? in.name : path, &err) : VERB_OK;
}

static bool plan_args_is_manifest(const char *name)
{
    struct str s = str_z(name);
    return str_ends(s, STR(".yaml")) || str_ends(s, STR(".yml")) || str_ends(s, STR(".json"));
}

static bool is_folder(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int plan_args_read_path(const struct plan_args *a, struct plan_world *w, const char *path,
                               unsigned depth);

static int read_folder(const struct plan_args *a, struct plan_world *w, const char *path,
                       unsigned depth)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, NULL, alphasort);
    int r = VERB_OK;
    if (n < 0) {
        struct err err = {0};
        (void)err_set(&err, errno, "cannot read the directory: %s", strerrordesc_np(errno));
        return plan_args_fail(a, path, &err);
    }
    for (int i = 0; i < n; i++) {
        cleanup_sbuf struct sbuf full = {0};
        const char *name = entries[i]->d_name;
        sbuf_addf(&full, "%s/%s", path, name);
        bool below = name[0] != '.' && depth < FOLDERS_DEEP && a->recursive && is_folder(full.p);
        if (r == VERB_OK && (below || (plan_args_is_manifest(name) && !is_folder(full.p))))
            r = plan_args_read_path(a, w, full.p, depth + 1);
        free(entries[i]);
    }
    free((void *)entries);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion): bounded by FOLDERS_DEEP
static int plan_args_read_path(const struct plan_args *a, struct plan_world *w, const char *path,
                               unsigned depth)
{
    return is_folder(path) ? read_folder(a, w, path, depth) : plan_args_read_file(a, w, path);
}

// --- A cluster -----------------------------------------------------------------------------------

// plan_read_cluster adds everything that matters of a cluster. What it offers is what counts, and
// what --features gives.
static int plan_read_cluster(const struct plan_args *a, struct plan_world *w)
{
    struct cluster c = {0};
    struct features offered;
    struct err err = {0};
    int r = common_open(&c, &err);
    if (r == 0)
        r = device_verb_read_world(&c, w, DEVICE_WORLD_ALL, common_namespace(&c), &err);
    if (r == 0 && cluster_features(&c, &offered, NULL) == 0)
        plan_args_gates = offered;
    cluster_close(&c);
    if (r >= 0)
        return VERB_OK;
    if (!a->files.n)
        return common_fail(a->verb, &err);
    (void)fprintf(stderr,
                  "dray %s: the cluster cannot be read: %s; --offline plans on the files alone\n",
                  a->verb, err.msg);
    return VERB_NO;
}

// --- What if -------------------------------------------------------------------------------------

static const struct {
    const char *option;
    int (*change)(struct plan_world *w, struct str text, struct err *err);
} changes[] = {
    {"--drain", plan_drain},
    {"--taint", plan_taint},
    {"--without", plan_without},
    {"--add-node", plan_add_node},
};

// With --needed, nodes to add are candidates, not there.
static bool plan_is_candidate(const struct plan_args *a, size_t change)
{
    return a->needed && strcmp(a->changes.p[change].o->name, "--add-node") == 0;
}

static int change_world(const struct plan_args *a, struct plan_world *w)
{
    for (size_t i = 0; i < a->changes.n; i++)
        for (size_t k = 0; k < array_len(changes); k++) {
            struct err err = {0};
            if (strcmp(a->changes.p[i].o->name, changes[k].option) == 0 &&
                !plan_is_candidate(a, i) &&
                changes[k].change(w, str_z(a->changes.p[i].value), &err) < 0)
                return cli_usage_error(a->verb, err.msg);
        }
    return VERB_OK;
}

// --- The command line ----------------------------------------------------------------------------

int plan_args_format(struct err *err)
{
    const char *o = common.output;
    return view_output_parse(o && strcmp(o, "text") == 0 ? "table" : o,
                             VIEW_FORMATS_DATA | 1U << VIEW_TABLE, &plan_args_arena,
                             &plan_args.format, err);
}

// plan_args_add_gates turns on what --features names.
static int plan_args_add_gates(const struct plan_args *a, struct err *err)
{
    struct str list = str_z(a->features);
    for (struct str one; list.n;) {
        (void)str_cut(list, ',', &one, &list);
        if (!alloc_gates_add(&plan_args_gates, str_trim(one)))
            return err_set(err, ERR_INVALID, "--features: '%.*s' is no feature or gate",
                           STR_ARG(one));
    }
    return 0;
}

static int plan_args_read_options(struct plan_args *a, struct err *err)
{
    features_init(&plan_args_gates, FEATURES_MINOR);
    a->options.features = &plan_args_gates;
    a->options.clock = clock_system();
    a->options.node = str_z(a->node);
    if (a->policy)
        (void)alloc_policy_parse(str_z(a->policy), &a->options.policy);
    bool named = common.kubeconfig || common.context;
    if (a->offline && named)
        return err_set(err, ERR_INVALID, "--offline reads no cluster, and one is named");
    if (strcmp(a->verb, "why") == 0 && !named)
        a->offline = true; // a pod of a cluster is asked about without -f
    return plan_args_add_gates(a, err);
}

// --- The answer ----------------------------------------------------------------------------------

// plan_waits: a pod or claim that waits is shown as by `dray why` on a cluster; else as a
// plan.
static bool plan_waits(const struct plan_args *a, const struct plan *p, struct sbuf *out)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options whole = {.max_bytes = SIZE_MAX};
    struct str why = strcmp(a->verb, "why") == 0 ? plan_step_at(p, 0).why : (struct str){0};
    if (!plan_complete(p) && why.n && json_parse(why, &whole, &doc, NULL) == 0) {
        (void)!why_show(doc.root, false, out);
        return true;
    }
    plan_text(p, out);
    return false;
}

static int plan_args_print_plan(const struct plan_args *a, struct plan *p, struct err *err)
{
    cleanup_sbuf struct sbuf answer = {0}, out = {0}, notes = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct view_layout how = {0};
    const struct json_options o = {.max_bytes = SIZE_MAX};
    int r = common_layout(&how, err);
    if (r == 0 && !view_is_table(&a->format)) {
        plan_json(p, &answer);
        r = json_parse(sbuf_str(&answer), &o, &doc, err);
        if (r == 0 && a->format.format == VIEW_JSON)
            return common_print(sbuf_str(&answer), err);
        if (r == 0)
            r = view_output_write(&a->format, doc.root, &out, err);
        return r < 0 ? r : common_print(sbuf_str(&out), err);
    }
    plan_notes(p, &notes);
    if (notes.n)
        (void)fprintf(stderr, "%s", notes.p);
    if (plan_waits(a, p, &answer))
        view_add_wrapped(&out, sbuf_str(&answer), how.term.tty ? how.term.columns : 0);
    else
        view_add_hanging(&out, sbuf_str(&answer), how.term.columns);
    return r < 0 ? r : common_print(sbuf_str(&out), err);
}

// plan_find_needed finds how many nodes are needed, and makes the plan with them.
static int plan_find_needed(const struct plan_args *a, struct plan_world *w, struct plan **ret,
                            struct err *err)
{
    struct VEC(struct str) kinds = {0};
    for (size_t i = 0; i < a->changes.n; i++)
        if (plan_is_candidate(a, i))
            vec_push_arena(&plan_args_arena, &kinds, str_z(a->changes.p[i].value));
    return plan_needed(w, kinds.p, kinds.n, &a->options, ret, err);
}

static int plan_args_ask_plan(struct plan_args *a, const char *target, struct plan_world *w)
{
    struct plan *p = NULL;
    struct err err = {0};
    int r = target      ? plan_why(w, str_z(target), &a->options, &p, &err)
            : a->needed ? plan_find_needed(a, w, &p, &err)
                        : plan_make(w, &a->options, &p, &err);
    if (r < 0) {
        (void)common_fail(a->verb, &err);
        return r == -ERR_NOT_FOUND || r == -ERR_INVALID ? VERB_USAGE : VERB_NO;
    }
    r = plan_args_print_plan(a, p, &err);
    bool complete = plan_complete(p);
    plan_free(p);
    return r < 0 ? common_fail(a->verb, &err) : complete ? VERB_OK : VERB_NO;
}

int plan_args_answer(const char *verb, const char *target)
{
    struct plan_args *a = &plan_args;
    struct err err = {0};
    a->verb = verb;
    if (plan_args_read_options(a, &err) < 0)
        return cli_usage_error(verb, err.msg);
    struct plan_world *w = plan_world_new();
    int r = a->offline ? VERB_OK : plan_read_cluster(a, w);
    if (r == VERB_OK)
        (void)!plan_args_add_gates(a, NULL); // on top of what the cluster offers
    for (size_t i = 0; r == VERB_OK && i < a->files.n; i++)
        r = plan_args_read_path(a, w, a->files.p[i], 0);
    if (r == VERB_OK)
        r = change_world(a, w);
    if (r == VERB_OK)
        r = plan_args_ask_plan(a, target, w);
    plan_world_free(w);
    vec_done(&a->changes);
    arena_done(&plan_args_arena);
    return r;
}
