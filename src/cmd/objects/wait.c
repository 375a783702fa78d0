// SPDX-License-Identifier: Apache-2.0
//
// dray wait: until objects are what one waits for, or gone.
#include "cmd/objects/wait.h"

#include <stdio.h>

#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/objects/follow.h"
#include "cmd/objects/objects.h"
#include "codec/json_writer.h"
#include "view/jsonpath.h"

#include "base/banned.h"

static struct {
    struct cli_texts words;
    const char *until;
    int64_t timeout_ns;
    bool all;
} args = {.timeout_ns = 30 * CLOCK_NS_PER_SEC};

static int verb_wait(void);

static const struct cli_option wait_options[] = {
    {"--for", NULL, "CONDITION",
     "wait for condition=NAME[=STATUS], delete, create or jsonpath='{.status.phase}'=Running",
     .text = &args.until, .suggest = "delete create condition= jsonpath="},
    {"--timeout", NULL, "TIME", "stop waiting after this time; default 30s, 0s checks once",
     .duration_ns = &args.timeout_ns},
    {"--all", NULL, NULL, "wait for all objects of the kind", .flag = &args.all},
};
static const struct cli_group wait_group = CLI_GROUP("Options", wait_options);

const struct cli_verb wait_verb = {
    .name = "wait",
    .summary = "wait for a condition",
    .chapter = CLI_OBJECTS,
    .synopsis =
        "wait KIND/NAME… --for=CONDITION [OPTIONS]\nwait KIND NAME… --for=CONDITION [OPTIONS]\n"
        "wait KIND --all|-l LABELS --for=CONDITION [OPTIONS]",
    .text = "Waits until every object meets the condition. Exit status 1 on timeout or if an "
            "object does not exist.",
    .examples = "dray wait pod/trainer --for=condition=Ready --timeout=60s\n"
                "dray wait pods -l app=web --for=jsonpath='{.status.phase}'=Running\n"
                "dray wait resourceclaim/my-claim --for=delete",
    .groups = {&wait_group, &common_list, &common_cluster},
    .words = &args.words,
    .kinds = true,
    .run = verb_wait,
};

// --- What one waits for --------------------------------------------------------------------------

enum goal { GOAL_CONDITION, GOAL_DELETE, GOAL_CREATE, GOAL_JSONPATH };

struct goal_spec {
    enum goal goal;
    struct str condition, status; // CONDITION
    const struct jsonpath *path;  // JSONPATH
    struct str value;             // empty: any
};

// split_path cuts jsonpath={…}=value at the '=' behind the brace.
static void split_path(struct str text, struct str *path, struct str *value)
{
    ptrdiff_t brace = str_rfind_char(text, '}');
    if (brace < 0) {
        (void)str_cut(text, '=', path, value);
        return;
    }
    *path = str_upto(text, (size_t)brace + 1);
    *value = str_from(text, (size_t)brace + 1);
    if (value->n && value->p[0] == '=')
        *value = str_from(*value, 1);
}

static int read_goal(const char *text, struct arena *arena, struct goal_spec *ret, struct err *err)
{
    struct str kind, rest, path;
    if (!text)
        return err_set(err, ERR_INVALID,
                       "for what? --for=condition=Ready, --for=delete, --for=jsonpath=…");
    str_cut(str_z(text), '=', &kind, &rest);
    if (str_eqz(kind, "delete") || str_eqz(kind, "create")) {
        ret->goal = str_eqz(kind, "delete") ? GOAL_DELETE : GOAL_CREATE;
        return 0;
    }
    if (str_eqz(kind, "condition") && rest.n) {
        ret->goal = GOAL_CONDITION;
        if (!str_cut(rest, '=', &ret->condition, &ret->status))
            ret->status = STR("True");
        return 0;
    }
    if (str_eqz(kind, "jsonpath") && rest.n) {
        ret->goal = GOAL_JSONPATH;
        split_path(rest, &path, &ret->value);
        return jsonpath_parse_relaxed(path, arena, &ret->path, err);
    }
    return err_set(err, ERR_INVALID,
                   "--for is condition=NAME, delete, create or jsonpath=PATH=VALUE, not '%s'",
                   text);
}

static bool wait_equals_ignoring_case(struct str a, struct str b)
{
    return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

static bool has_condition(const struct goal_spec *g, const yyjson_val *object)
{
    const yyjson_val *conditions = objects_list(object, "status.conditions");
    if (!conditions)
        return false;
    json_arr_foreach(conditions, c) {
        if (wait_equals_ignoring_case(objects_text(c, "type"), g->condition))
            return wait_equals_ignoring_case(objects_text(c, "status"), g->status);
    }
    return false;
}

// wait_has_value returns whether a path finds one value, which is the wanted one: 1, 0 or a
// negative code.
static int wait_has_value(const struct goal_spec *g, const yyjson_val *object, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    struct jsonpath_values found = {0};
    int r = jsonpath_find(g->path, object, &arena, &found, err);
    if (r < 0)
        return r;
    if (found.n != 1 || !g->value.n)
        return found.n >= 1 && !g->value.n;
    if (json_is_container(found.p[0]))
        return err_set(err, ERR_INVALID, "the path finds a %s, which is no single value",
                       json_type_name(found.p[0]));
    if (json_is_string(found.p[0]))
        sbuf_add(&text, json_str(found.p[0]));
    else
        json_write_value(&w, found.p[0]);
    return str_eq(sbuf_str(&text), g->value);
}

static int is_met(const struct goal_spec *g, const yyjson_val *object, struct err *err)
{
    switch (g->goal) {
    case GOAL_CONDITION:
        return has_condition(g, object);
    case GOAL_JSONPATH:
        return wait_has_value(g, object, err);
    case GOAL_CREATE:
        return 1;
    case GOAL_DELETE:
        break;
    }
    return 0;
}

// --- Waiting for one object ----------------------------------------------------------------------

struct waiting {
    const struct goal_spec *goal;
    struct str uid; // of what is to go; empty: whatever has the name
    bool seen;
};

static bool is_other(const struct waiting *w, const yyjson_val *object)
{
    return w->uid.n && !str_eq(objects_text(object, "metadata.uid"), w->uid);
}

static int wait_on_page(void *arg, const yyjson_val *page, struct err *err)
{
    struct waiting *w = arg;
    const yyjson_val *items = objects_list(page, "items");
    const yyjson_val *object = items ? json_at(items, 0) : NULL;
    w->seen = object && !is_other(w, object);
    if (w->goal->goal == GOAL_DELETE)
        return !w->seen;
    if (!object && w->goal->goal != GOAL_CREATE)
        return err_set(err, ERR_NOT_FOUND, "it is not there");
    return object ? is_met(w->goal, object, err) : 0;
}

static int wait_on_event(void *arg, struct str type, const yyjson_val *object, struct err *err)
{
    struct waiting *w = arg;
    bool deleted = str_eqz(type, "DELETED");
    if (w->goal->goal == GOAL_DELETE)
        return deleted || is_other(w, object);
    return deleted ? 0 : is_met(w->goal, object, err);
}

static int wait_one(struct cluster *c, const struct target *t, struct str namespace,
                    struct waiting *w, int64_t deadline_ns, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, query = {0}, name = {0};
    const struct target all = {.kind = t->kind};
    objects_add_path(&path, &all, namespace);
    sbuf_addf(&name, "metadata.name=%.*s", STR_ARG(t->name));
    follow_add_query(&query, "fieldSelector", sbuf_str(&name));
    const struct follow f = {.path = sbuf_str(&path),
                             .query = sbuf_str(&query),
                             .deadline_ns = deadline_ns,
                             .page = wait_on_page,
                             .event = wait_on_event,
                             .arg = w};
    int r = follow_run(c, &f, err);
    return r > 0 ? 0 : r;
}

int wait_gone(struct cluster *c, const struct target *t, struct str namespace, struct str uid,
              int64_t deadline_ns, struct err *err)
{
    static const struct goal_spec gone = {.goal = GOAL_DELETE};
    struct waiting w = {.goal = &gone, .uid = uid};
    return wait_one(c, t, namespace, &w, deadline_ns, err);
}

// --- The verb ------------------------------------------------------------------------------------

static int64_t wait_deadline_ns(const struct cluster *c)
{
    return exec_now_ns(loop_exec(c->loop)) + args.timeout_ns + 1;
}

static int wait_for_target(struct cluster *c, const struct target *t, const struct goal_spec *goal,
                           int64_t deadline_ns, struct err *err)
{
    cleanup_sbuf struct sbuf name = {0};
    struct waiting w = {.goal = goal};
    discovery_add_name(&name, t->kind, true);
    int r = wait_one(c, t, common_namespace(c), &w, deadline_ns, err);
    if (r == -ERR_TIMEOUT)
        return err_set(err, ERR_TIMEOUT, "timed out waiting for %s of %s/%.*s", args.until, name.p,
                       STR_ARG(t->name));
    if (r < 0)
        return err_wrap(err, "%s/%.*s", name.p, STR_ARG(t->name));
    printf("%s/%.*s condition met\n", name.p, STR_ARG(t->name));
    (void)fflush(stdout);
    return 0;
}

static int wait_run_verb(struct cluster *c, struct arena *arena, const struct goal_spec *goal,
                         struct err *err)
{
    struct targets targets = {0}, all = {0};
    int r = common_open(c, err);
    if (r == 0)
        r = objects_read(c, &args.words, arena, &targets, err);
    if (r < 0)
        return r;
    if (common.all_namespaces)
        return err_set(err, ERR_INVALID, "wait works in one namespace: -n NAME");
    int64_t until = wait_deadline_ns(c);
    for (size_t i = 0; i < targets.n && r == 0; i++) {
        if (targets.p[i].name.n)
            vec_push_arena(arena, &all, targets.p[i]);
        else if (args.all || common.selector)
            r = objects_names(c, targets.p[i].kind, arena, &all, err);
        else
            r = err_set(err, ERR_INVALID, "which ones? Names, --all or -l LABELS");
    }
    if (r == 0 && all.n == 0 && goal->goal != GOAL_DELETE)
        r = err_set(err, ERR_NOT_FOUND, "there are no such objects");
    for (size_t i = 0; i < all.n && r == 0; i++)
        r = wait_for_target(c, &all.p[i], goal, until, err);
    return r;
}

static int verb_wait(void)
{
    struct cluster c = {0};
    cleanup_arena struct arena arena = {0};
    struct goal_spec goal = {0};
    struct err err = {0};
    int r = VERB_OK;
    if (read_goal(args.until, &arena, &goal, &err) < 0)
        r = cli_usage_error("wait", err.msg);
    if (r == VERB_OK && wait_run_verb(&c, &arena, &goal, &err) < 0)
        r = err.code == ERR_INVALID ? cli_usage_error("wait", err.msg) : common_fail("wait", &err);
    cluster_close(&c);
    return r;
}
