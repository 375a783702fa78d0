// SPDX-License-Identifier: Apache-2.0
//
// dray delete: by file, by name, by label; and waits until it is gone.
#include <stdio.h>

#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/objects/manifests.h"
#include "cmd/objects/objects.h"
#include "cmd/objects/wait.h"
#include "codec/json_writer.h"

#include "base/banned.h"

static struct {
    struct cli_texts words, files;
    bool recursive, all, wait, force, ignore_not_found;
    const char *cascade;
    int64_t grace_s, timeout_ns;
} args = {.wait = true, .cascade = "background", .grace_s = -1};

static int verb_delete(void);

static const struct cli_option delete_options[] = {
    {"--filename", "-f", "FILE",
     "delete the objects that a file, a directory or - (standard input) names; repeatable",
     .many = &args.files},
    {"--recursive", "-R", NULL, "read directories recursively", .flag = &args.recursive},
    {"--all", NULL, NULL, "delete all objects of the kind", .flag = &args.all},
    {"--cascade", NULL, "HOW",
     "delete dependents in the background, in the foreground (before the object), or orphan them",
     .text = &args.cascade, .choices = "background foreground orphan"},
    {"--grace-period", NULL, "SECONDS", "give pods this time to end; default: the pod's own",
     .number = &args.grace_s, .least = -1, .most = CLI_MOST},
    {"--force", NULL, NULL, "delete at once without waiting for the node: --grace-period 0",
     .flag = &args.force},
    {"--wait", NULL, NULL, "wait until the objects are gone; default true", .flag = &args.wait},
    {"--timeout", NULL, "TIME", "stop waiting after this time; default: never",
     .duration_ns = &args.timeout_ns},
    {"--ignore-not-found", NULL, NULL, "do not fail if an object does not exist",
     .flag = &args.ignore_not_found},
    COMMON_DRY_RUN,
};
static const struct cli_group delete_group = CLI_GROUP("Options", delete_options);

const struct cli_verb delete_verb = {
    .name = "delete",
    .summary = "delete objects and wait until they are gone",
    .chapter = CLI_OBJECTS,
    .everyday = true,
    .synopsis = "delete KIND NAME… [OPTIONS]\ndelete KIND/NAME… [OPTIONS]\n"
                "delete KIND --all|-l LABELS [OPTIONS]\ndelete -f FILE… [OPTIONS]",
    .text = "Deletes objects by name, by label or from files, and waits until they are gone.",
    .examples = "dray delete pod trainer\n"
                "dray delete -f examples/claim.yaml\n"
                "dray delete pods -l app=web --grace-period 5\n"
                "dray delete resourceclaims --all --wait=false",
    .groups = {&delete_group, &common_list, &common_cluster},
    .words = &args.words,
    .kinds = true,
    .kubectl = "-k --kustomize --now --field-selector",
    .run = verb_delete,
};

// What was deleted and is not gone yet.
struct going {
    struct target target;
    struct str namespace, uid;
};

struct deleting {
    struct cluster *c;
    struct arena arena;
    struct VEC(struct going) going;
    bool failed;
};

static const char *delete_propagation_policy(void)
{
    static const char *const words[][2] = {
        {"background", "Background"}, {"foreground", "Foreground"}, {"orphan", "Orphan"}};
    for (size_t i = 0; i < array_len(words); i++)
        if (strcmp(args.cascade, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}

static void add_options(struct sbuf *body)
{
    struct json_writer w = {.out = body};
    int64_t grace_s = args.force && args.grace_s < 0 ? 0 : args.grace_s;
    json_write_object_begin(&w);
    json_write_key(&w, STR("kind"));
    json_write_str(&w, STR("DeleteOptions"));
    json_write_key(&w, STR("apiVersion"));
    json_write_str(&w, STR("v1"));
    json_write_key(&w, STR("propagationPolicy"));
    json_write_str(&w, str_z(delete_propagation_policy()));
    if (grace_s >= 0) {
        json_write_key(&w, STR("gracePeriodSeconds"));
        json_write_i64(&w, grace_s);
    }
    if (common.dry_run) {
        json_write_array_in(&w, "dryRun");
        json_write_str(&w, STR("All"));
        json_write_array_end(&w);
    }
    json_write_object_end(&w);
}

// uid_of finds it in what the server answered: the object as it goes, or a Status about one that is
// gone.
static struct str uid_of(struct arena *arena, struct str answer)
{
    cleanup_json_doc struct json_doc doc = {0};
    if (json_parse(answer, NULL, &doc, NULL) < 0)
        return (struct str){0};
    bool status = str_eqz(objects_text(doc.root, "kind"), "Status");
    return arena_str(arena, objects_text(doc.root, status ? "details.uid" : "metadata.uid"));
}

static int delete_one_object(struct deleting *d, const struct target *t, struct str namespace,
                             struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, body = {0}, answer = {0}, name = {0};
    objects_add_path(&path, t, namespace);
    add_options(&body);
    discovery_add_name(&name, t->kind, true);
    const struct client_raw_request q = {
        .method = "DELETE", .target = sbuf_str(&path), .body = sbuf_str(&body)};
    int r = cluster_request(d->c, q, &answer, err);
    if (r == -ERR_NOT_FOUND && args.ignore_not_found)
        return 0;
    if (r == -ERR_NOT_FOUND || r == -ERR_FORBIDDEN) {
        (void)common_fail("delete", err);
        d->failed = true;
        return 0;
    }
    if (r < 0)
        return r;
    printf("%s \"%.*s\" %s%s\n", name.p, STR_ARG(t->name), args.force ? "force deleted" : "deleted",
           common.dry_run ? " (dry run)" : "");
    (void)fflush(stdout);
    struct going g = {.target = *t};
    g.target.name = arena_str(&d->arena, t->name);
    g.namespace = arena_str(&d->arena, namespace);
    g.uid = uid_of(&d->arena, sbuf_str(&answer));
    vec_push_arena(&d->arena, &d->going, g);
    return 0;
}

static int delete_on_object(void *arg, const struct manifest *m, struct err *err)
{
    struct deleting *d = arg;
    struct target t = {0};
    struct str namespace = {0};
    int r = manifests_target(d->c, m->object, &t, &namespace, err);
    return r < 0 ? r : delete_one_object(d, &t, namespace, err);
}

static int delete_words(struct deleting *d, struct err *err)
{
    struct targets targets = {0}, all = {0};
    int r = objects_read(d->c, &args.words, &d->arena, &targets, err);
    for (size_t i = 0; i < targets.n && r == 0; i++) {
        if (targets.p[i].name.n)
            vec_push_arena(&d->arena, &all, targets.p[i]);
        else if (args.all || common.selector)
            r = objects_names(d->c, targets.p[i].kind, &d->arena, &all, err);
        else
            r = err_set(err, ERR_INVALID, "which ones? Names, --all or -l LABELS");
    }
    if (r == 0 && all.n == 0)
        (void)fprintf(stderr, "No resources found\n");
    for (size_t i = 0; i < all.n && r == 0; i++)
        r = delete_one_object(d, &all.p[i], common_namespace(d->c), err);
    return r;
}

static int wait_all(struct deleting *d, struct err *err)
{
    int64_t deadline_ns = 0;
    int r = 0;
    if (args.timeout_ns)
        deadline_ns = exec_now_ns(loop_exec(d->c->loop)) + args.timeout_ns;
    for (size_t i = 0; i < d->going.n && args.wait && !common.dry_run && r == 0; i++) {
        const struct going *g = &d->going.p[i];
        r = wait_gone(d->c, &g->target, g->namespace, g->uid, deadline_ns, err);
        if (r == -ERR_TIMEOUT)
            return err_set(err, ERR_TIMEOUT, "%.*s %.*s is not gone yet",
                           STR_ARG(g->target.kind->kind), STR_ARG(g->target.name));
    }
    return r;
}

static int delete_run_verb(struct deleting *d, struct err *err)
{
    if (!delete_propagation_policy())
        return err_set(err, ERR_INVALID, "--cascade is background, foreground or orphan, not '%s'",
                       args.cascade);
    if ((args.files.n == 0) == (args.words.n == 0))
        return err_set(err, ERR_INVALID, "what? KIND NAME, or -f FILE");
    if (common.all_namespaces)
        return err_set(err, ERR_INVALID, "delete works in one namespace: -n NAME");
    int r = common_open(d->c, err);
    if (r == 0)
        r = args.files.n ? manifests_each(&args.files, args.recursive, delete_on_object, d, err)
                         : delete_words(d, err);
    return r < 0 ? r : wait_all(d, err);
}

static int verb_delete(void)
{
    struct cluster c = {0};
    struct deleting d = {.c = &c};
    struct err err = {0};
    int r = VERB_OK;
    if (delete_run_verb(&d, &err) < 0)
        r = err.code == ERR_INVALID ? cli_usage_error("delete", err.msg)
                                    : common_fail("delete", &err);
    if (r == VERB_OK && d.failed)
        r = VERB_NO;
    cluster_close(&c);
    arena_done(&d.arena);
    return r;
}
