// SPDX-License-Identifier: Apache-2.0
//
// The options of requests in their queries. Causes and messages are those of Kubernetes.
#include "server/http/query.h"

#include "base/banned.h"

// --- Lists and watches ---------------------------------------------------------------------------

#define ROOT(text) (&(struct path){.name = STR_INIT(text), .kind = PATH_FIELD})

static const struct str match_exact = STR_INIT("Exact");
static const struct str match_not_older = STR_INIT("NotOlderThan");

static void query_check_list(const struct list_options *o, struct str match, struct causes *causes)
{
    const struct path *at = ROOT("resourceVersionMatch");
    if (match.n) {
        if (o->resource_version.n == 0)
            cause_forbidden(
                causes, at,
                STR("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        if (o->continue_token.n)
            cause_forbidden(causes, at,
                            STR("resourceVersionMatch is forbidden when continue is provided"));
        if (!str_eq(match, match_exact) && !str_eq(match, match_not_older))
            cause_not_supported(causes, at, match,
                                (const struct str[]){match_exact, match_not_older, STR("")}, 3);
        if (str_eq(match, match_exact) && str_eq(o->resource_version, STR("0")))
            cause_forbidden(
                causes, at,
                STR("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
    }
    if (o->send_initial != QUERY_ABSENT)
        cause_forbidden(causes, ROOT("sendInitialEvents"),
                        STR("sendInitialEvents is forbidden for list"));
}

static void check_watch(const struct list_options *o, struct str match, struct causes *causes)
{
    const struct path *at = ROOT("resourceVersionMatch");
    if (o->send_initial != QUERY_ABSENT && !str_eq(match, match_not_older))
        cause_forbidden(
            causes, at,
            STR("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    if (match.n == 0)
        return;
    if (o->send_initial == QUERY_ABSENT)
        cause_forbidden(causes, at,
                        STR("resourceVersionMatch is forbidden for watch unless sendInitialEvents "
                            "is provided"));
    if (!str_eq(match, match_not_older))
        cause_not_supported(causes, at, match, &match_not_older, 1);
    if (o->continue_token.n)
        cause_forbidden(causes, at,
                        STR("resourceVersionMatch is forbidden when continue is provided"));
}

static int read_revision(struct list_options *o, struct err *err)
{
    if (o->resource_version.n == 0)
        return 0;
    int r = str_to_u64(o->resource_version, &o->revision);
    if (r == 0)
        return 0;
    cleanup_sbuf struct sbuf shown = {0};
    sbuf_add_quoted(&shown, str_upto(o->resource_version, 100));
    return err_set(err, ERR_BAD_REQUEST,
                   "invalid resource version: resourceVersion: Invalid value: %s: "
                   "strconv.ParseUint: parsing %s: %s",
                   shown.p, shown.p, r == -ERANGE ? "value out of range" : "invalid syntax");
}

int query_list_options(const struct query *q, bool watch, struct list_options *ret,
                       struct causes *causes, struct err *err)
{
    struct list_options o = {
        .label_selector = query_str(q, STR("labelSelector")),
        .field_selector = query_str(q, STR("fieldSelector")),
        .continue_token = query_str(q, STR("continue")),
        .resource_version = query_str(q, STR("resourceVersion")),
        .watch = watch || query_bool(q, STR("watch")),
        .allow_bookmarks = query_bool(q, STR("allowWatchBookmarks")),
        .send_initial = query_flag(q, STR("sendInitialEvents")),
    };
    int r = query_i64(q, STR("limit"), &o.limit, err);
    if (r >= 0)
        r = query_i64(q, STR("timeoutSeconds"), &o.timeout_seconds, err);
    if (r < 0)
        return r;
    struct str match = query_str(q, STR("resourceVersionMatch"));
    // A watch without a revision begins with the present objects.
    bool from_start = o.resource_version.n == 0 || str_eq(o.resource_version, STR("0"));
    if (o.watch && from_start && match.n == 0 && o.send_initial == QUERY_ABSENT) {
        o.send_initial = QUERY_TRUE;
        match = match_not_older;
    }
    if (o.watch)
        check_watch(&o, match, causes);
    else
        query_check_list(&o, match, causes);
    if (causes->n)
        return -ERR_INVALID;
    o.match = match.n == 0                 ? QUERY_MATCH_NONE
              : str_eq(match, match_exact) ? QUERY_MATCH_EXACT
                                           : QUERY_MATCH_NOT_OLDER;
    r = read_revision(&o, err);
    if (r == 0)
        *ret = o;
    return r;
}

// --- Writes --------------------------------------------------------------------------------------

static void query_check_dry_run(const struct query *q, bool *ret, struct causes *causes)
{
    vec_foreach(q, pair) {
        if (!str_eq(pair->name, STR("dryRun")))
            continue;
        *ret = true;
        if (!str_eq(pair->value, STR("All"))) {
            const struct str all = STR("All");
            cause_not_supported(causes, ROOT("dryRun"), pair->value, &all, 1);
            return;
        }
    }
}

static void query_check_manager(struct str manager, struct causes *causes)
{
    if (manager.n > 128)
        cause_too_long(causes, ROOT("fieldManager"), 128);
    for (size_t i = 0; i < manager.n && i < 1024; i++) {
        unsigned char c = (unsigned char)manager.p[i];
        if (c < 0x20 || c == 0x7f)
            cause_invalid(causes, ROOT("fieldManager"), manager,
                          arena_strf(causes->arena, "invalid character U+%04X (at position %zu)",
                                     (unsigned)c, i));
    }
}

static enum query_validation check_fields(const struct query *q, struct causes *causes)
{
    struct str v = query_str(q, STR("fieldValidation"));
    if (v.n == 0 || str_eq(v, STR("Warn")))
        return QUERY_FIELDS_WARN;
    if (str_eq(v, STR("Strict")))
        return QUERY_FIELDS_STRICT;
    if (!str_eq(v, STR("Ignore")))
        cause_not_supported(
            causes, ROOT("fieldValidation"), v,
            (const struct str[]){STR(""), STR("Ignore"), STR("Strict"), STR("Warn")}, 4);
    return QUERY_FIELDS_IGNORE;
}

int query_write_options(const struct query *q, bool patch, bool apply, struct write_options *ret,
                        struct causes *causes)
{
    *ret = (struct write_options){.field_manager = query_str(q, STR("fieldManager"))};
    enum query_flag force = query_flag(q, STR("force"));
    ret->force = force == QUERY_TRUE;
    if (apply && ret->field_manager.n == 0)
        cause_required(causes, ROOT("fieldManager"), STR("is required for apply patch"));
    if (patch && !apply && force != QUERY_ABSENT)
        cause_forbidden(causes, ROOT("force"), STR("may not be specified for non-apply patch"));
    query_check_manager(ret->field_manager, causes);
    query_check_dry_run(q, &ret->dry_run, causes);
    ret->fields = check_fields(q, causes);
    return causes->n ? -ERR_INVALID : 0;
}

static void add_dry_run(const struct query *q, struct arena *arena, struct api_delete_options *o)
{
    size_t n = 0;
    vec_foreach(q, pair)
        n += str_eq(pair->name, STR("dryRun"));
    if (n == 0)
        return;
    o->dry_run.p = arena_array(arena, struct str, n);
    vec_foreach(q, pair) {
        if (str_eq(pair->name, STR("dryRun")))
            o->dry_run.p[o->dry_run.n++] = pair->value;
    }
}

int query_delete_options(const struct query *q, bool one, struct arena *arena,
                         struct api_delete_options *ret, struct err *err)
{
    int64_t grace = 0;
    int r = query_i64(q, STR("gracePeriodSeconds"), &grace, err);
    if (r < 0)
        return r;
    ret->has_grace_period_seconds = r > 0;
    ret->grace_period_seconds = grace;
    enum query_flag orphan = query_flag(q, STR("orphanDependents"));
    ret->has_orphan_dependents = orphan != QUERY_ABSENT;
    ret->orphan_dependents = orphan == QUERY_TRUE;
    struct str policy = query_str(q, STR("propagationPolicy"));
    ret->has_propagation_policy = policy.n > 0;
    ret->propagation_policy = policy;
    struct str uid = {0}, version = {0};
    bool has_uid = one && query_get(q, STR("uid"), &uid);
    bool has_version = one && query_get(q, STR("resourceVersion"), &version);
    if (has_uid || has_version) {
        ret->preconditions = arena_one(arena, struct api_preconditions);
        ret->preconditions->has_uid = has_uid;
        ret->preconditions->uid = uid;
        ret->preconditions->has_resource_version = has_version;
        ret->preconditions->resource_version = version;
    }
    add_dry_run(q, arena, ret);
    return 0;
}

int query_check_delete_options(const struct api_delete_options *o, struct causes *causes)
{
    struct str policy = o->propagation_policy;
    if (o->has_orphan_dependents && o->has_propagation_policy)
        cause_invalid(causes, ROOT("propagationPolicy"), policy,
                      STR("orphanDependents and deletionPropagation cannot be both set"));
    if (o->has_propagation_policy && !str_eq(policy, STR("Foreground")) &&
        !str_eq(policy, STR("Background")) && !str_eq(policy, STR("Orphan")))
        cause_not_supported(causes, ROOT("propagationPolicy"), policy,
                            (const struct str[]){STR("Foreground"), STR("Background"),
                                                 STR("Orphan"), STR("nil")},
                            4);
    for (size_t i = 0; i < o->dry_run.n; i++) {
        const struct str all = STR("All");
        if (!str_eq(o->dry_run.p[i], all)) {
            cause_not_supported(causes, ROOT("dryRun"), o->dry_run.p[i], &all, 1);
            break;
        }
    }
    return causes->n ? -ERR_INVALID : 0;
}
