// SPDX-License-Identifier: Apache-2.0
//
// dray apply: makes objects what files say, by server-side apply.
#include <errno.h>
#include <stdio.h>

#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/objects/manifests.h"
#include "cmd/objects/objects.h"
#include "codec/json_writer.h"
#include "net/tls.h"

#include "base/banned.h"

static struct {
    struct cli_texts files;
    bool recursive, force;
    const char *manager;
} args = {.manager = "dray"};

static int verb_apply(void);

static const struct cli_option apply_options[] = {
    {"--filename", "-f", "FILE", "read a file, a directory, or - for standard input; repeatable",
     .many = &args.files, .required = true},
    {"--recursive", "-R", NULL, "read directories recursively", .flag = &args.recursive},
    {"--force-conflicts", NULL, NULL, "take over fields that another manager owns",
     .flag = &args.force},
    {"--field-manager", NULL, "NAME", "set the name of the field manager; default dray",
     .text = &args.manager},
    COMMON_DRY_RUN,
};
static const struct cli_group apply_group = CLI_GROUP("Options", apply_options);

const struct cli_verb apply_verb = {
    .name = "apply",
    .summary = "create or update objects from files",
    .chapter = CLI_OBJECTS,
    .everyday = true,
    .synopsis = "apply -f FILE… [OPTIONS]",
    .text = "Creates or updates the objects of files by server-side apply. Prints created, "
            "configured or unchanged for each, or "
            "the field manager that owns a conflicting field.",
    .examples = "dray apply -f examples/claim.yaml\n"
                "dray apply -f manifests/ -R -n team-a\n"
                "dray get pod a -o yaml | dray apply -f - --force-conflicts",
    .groups = {&apply_group, &common_cluster},
    .kubectl = "-k --kustomize --prune -l --selector --server-side --validate",
    .run = verb_apply,
};

struct applying {
    struct cluster *c;
    size_t applied;
    bool failed;
};

// apply_read_response reads an object as people see it: without managedFields.
static int apply_read_response(struct str body, struct json_doc *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_json_builder struct json_builder b = {0};
    int r = json_parse(body, NULL, &doc, err);
    if (r == 0)
        r = objects_build(&b, doc.root, NULL, err);
    if (r == 0)
        json_build_finish(&b, ret);
    return r;
}

// read_before reads an object as it is; ret stays empty when there is none.
static int read_before(struct cluster *c, const char *path, struct json_doc *ret, struct err *err)
{
    cleanup_sbuf struct sbuf body = {0};
    int r = cluster_get(c, path, &body, err);
    if (r == -ERR_NOT_FOUND)
        return 0;
    return r < 0 ? r : apply_read_response(sbuf_str(&body), ret, err);
}

static void add_apply_query(struct sbuf *target)
{
    sbuf_addz(target, "?fieldManager=");
    client_escape(target, str_z(args.manager));
    if (args.force)
        sbuf_addz(target, "&force=true");
    if (common.dry_run)
        sbuf_addz(target, "&dryRun=All");
}

static int apply_patch_object(struct cluster *c, const yyjson_val *object, const struct sbuf *path,
                              struct json_doc *ret, struct err *err)
{
    cleanup_sbuf struct sbuf target = {0}, body = {0}, answer = {0};
    struct json_writer w = {.out = &body};
    sbuf_add(&target, sbuf_str(path));
    add_apply_query(&target);
    json_write_value(&w, object);
    const struct client_raw_request q = {.method = "PATCH",
                                         .target = sbuf_str(&target),
                                         .content_type = STR("application/apply-patch+yaml"),
                                         .body = sbuf_str(&body)};
    int r = cluster_request(c, q, &answer, err);
    return r < 0 ? r : apply_read_response(sbuf_str(&answer), ret, err);
}

static int apply_one_object(struct applying *a, const yyjson_val *object, struct err *err)
{
    struct target t = {0};
    struct str namespace = {0};
    cleanup_sbuf struct sbuf path = {0}, name = {0};
    cleanup_json_doc struct json_doc before = {0}, after = {0};
    int r = manifests_target(a->c, object, &t, &namespace, err);
    if (r < 0)
        return r;
    objects_add_path(&path, &t, namespace);
    discovery_add_name(&name, t.kind, true);
    r = read_before(a->c, path.p, &before, err);
    if (r == 0)
        r = apply_patch_object(a->c, object, &path, &after, err);
    if (r < 0)
        return err_wrap(err, "%s/%.*s", name.p, STR_ARG(t.name));
    const char *what = "configured";
    if (!before.root)
        what = "created";
    else if (json_equal(before.root, after.root))
        what = "unchanged";
    printf("%s/%.*s %s%s\n", name.p, STR_ARG(t.name), what, common.dry_run ? " (dry run)" : "");
    a->applied++;
    return 0;
}

// name_mistake explains a common compiler message: an amount compared with a text.
static int name_mistake(struct err *err)
{
    struct str source, rest, msg = str_z(err->msg);
    ptrdiff_t at = str_find(msg, STR("'(kubernetes.Quantity, string)'"));
    ptrdiff_t line = at < 0 ? -1 : str_find(str_from(msg, (size_t)at), STR("| "));
    if (line < 0)
        return -err->code;
    (void)str_cut(str_from(msg, (size_t)(at + line) + 2), '|', &source, &rest);
    for (struct str text; str_cut(source, '"', &text, &source);) {
        if (!str_cut(source, '"', &text, &source) || str_find(source, STR("\"")) >= 0)
            continue; // the last text of the line
        return err_wrap(err, "amounts are compared with quantity(\"%.*s\")", STR_ARG(text));
    }
    return -err->code;
}

// apply_on_object goes on after a failure: the others may be good.
static int apply_on_object(void *arg, const struct manifest *m, struct err *err)
{
    struct applying *a = arg;
    int r = apply_one_object(a, m->object, err);
    if (r == 0)
        return 0;
    (void)name_mistake(err);
    (void)err_wrap(err, "%s:%zu", strcmp(m->file, "-") == 0 ? "<stdin>" : m->file,
                   manifest_find_line(m, str_z(err->msg)));
    (void)common_fail("apply", err);
    a->failed = true;
    return r == -ERR_UNAVAILABLE || r == -TLS_WRONG_NAME || r == -ERR_UNAUTHORIZED ? 1 : 0;
}

static int verb_apply(void)
{
    struct cluster c = {0};
    struct applying a = {.c = &c};
    struct err err = {0};
    int r = VERB_OK;
    if (common_open(&c, &err) < 0 ||
        manifests_each(&args.files, args.recursive, apply_on_object, &a, &err) < 0)
        r = common_fail("apply", &err);
    else if (a.failed)
        r = VERB_NO;
    else if (a.applied == 0)
        (void)fprintf(stderr, "dray apply: there are no objects in the files\n");
    cluster_close(&c);
    return r;
}
