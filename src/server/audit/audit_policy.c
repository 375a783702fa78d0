// SPDX-License-Identifier: Apache-2.0
//
// Reading an audit policy, and finding the rule for a request. Unlike upstream, which warns and
// goes on, a field that is unknown is an error: a rule with a misspelt field would match more, or
// less, than its author meant.
#include "server/audit/audit_policy.h"

#include "api/names.h"
#include "codec/yaml.h"

#include "base/banned.h"

static const struct str level_names[AUDIT_LEVELS] = {
    STR_INIT("None"), STR_INIT("Metadata"), STR_INIT("Request"), STR_INIT("RequestResponse")};
static const struct {
    enum audit_stage stage;
    struct str name;
} stages[] = {{AUDIT_RECEIVED, STR_INIT("RequestReceived")},
              {AUDIT_STARTED, STR_INIT("ResponseStarted")},
              {AUDIT_COMPLETE, STR_INIT("ResponseComplete")},
              {AUDIT_PANIC, STR_INIT("Panic")}};

const char *audit_level_name(enum audit_level level)
{
    return level_names[level].p;
}

const char *audit_stage_name(enum audit_stage stage)
{
    for (size_t i = 0; i < array_len(stages); i++)
        if (stages[i].stage == stage)
            return stages[i].name.p;
    return "";
}

// --- Reading -------------------------------------------------------------------------------------

static int policy_wrong_type(const yyjson_val *v, const char *want, struct err *err)
{
    return err_set(err, ERR_INVALID, "is of type %s, not %s", json_type_name(v), want);
}

static int policy_read_text(const yyjson_val *v, struct arena *arena, struct str *ret,
                            struct err *err)
{
    if (!json_is_string(v))
        return policy_wrong_type(v, "string", err);
    *ret = arena_str(arena, json_str(v));
    return 0;
}

// null is an empty list, as for Go.
static int policy_check_list(const yyjson_val *v, struct err *err)
{
    return json_is_array(v) || json_is_null(v) ? 0 : policy_wrong_type(v, "array", err);
}

static int policy_read_texts(const yyjson_val *v, struct arena *arena, struct api_str_array *ret,
                             struct err *err)
{
    int r = policy_check_list(v, err);
    if (r < 0 || json_is_null(v))
        return r;
    *ret = (struct api_str_array){arena_array(arena, struct str, json_len(v) + 1), 0};
    json_arr_foreach(v, item) {
        r = policy_read_text(item, arena, &ret->p[ret->n], err);
        if (r < 0) {
            err_path_index(err, ret->n);
            return r;
        }
        ret->n++;
    }
    return 0;
}

static int policy_read_stages(const yyjson_val *v, struct arena *arena, unsigned *ret,
                              struct err *err)
{
    struct api_str_array names = {0};
    int r = policy_read_texts(v, arena, &names, err);
    for (size_t i = 0; r == 0 && i < names.n; i++) {
        unsigned bit = 0;
        for (size_t k = 0; k < array_len(stages); k++)
            if (str_eq(names.p[i], stages[k].name))
                bit = stages[k].stage;
        *ret |= bit;
        if (bit)
            continue;
        r = err_set(err, ERR_INVALID,
                    "\"%.*s\" is not a stage; stages are RequestReceived, ResponseStarted, "
                    "ResponseComplete and Panic",
                    STR_ARG(names.p[i]));
        err_path_index(err, i);
    }
    return r;
}

static int policy_read_level(const yyjson_val *v, struct arena *arena, enum audit_level *ret,
                             struct err *err)
{
    struct str name = {0};
    int r = policy_read_text(v, arena, &name, err);
    for (size_t i = 0; r == 0 && i < AUDIT_LEVELS; i++)
        if (str_eq(name, level_names[i])) {
            *ret = (enum audit_level)i;
            return 0;
        }
    return r < 0 ? r
                 : err_set(err, ERR_INVALID,
                           "\"%.*s\" is not a level; levels are None, Metadata, Request and "
                           "RequestResponse",
                           STR_ARG(name));
}

static int policy_unknown_field(struct err *err)
{
    return err_set(err, ERR_INVALID, "unknown field");
}

static int policy_check_group(struct str group, struct err *err)
{
    if (group.n == 0 || str_eqz(group, "*") || name_is_dns_subdomain(group))
        return 0;
    return err_set(err, ERR_INVALID,
                   "\"%.*s\" is not the name of an API group; write it without a version",
                   STR_ARG(group));
}

static int policy_read_resources(const yyjson_val *v, struct arena *arena,
                                 struct audit_resources *ret, struct err *err)
{
    if (!json_is_object(v))
        return policy_wrong_type(v, "object", err);
    json_obj_foreach(v, key, val) {
        struct str name = json_str(key);
        int r = str_eqz(name, "group")       ? policy_read_text(val, arena, &ret->group, err)
                : str_eqz(name, "resources") ? policy_read_texts(val, arena, &ret->resources, err)
                : str_eqz(name, "resourceNames") ? policy_read_texts(val, arena, &ret->names, err)
                                                 : policy_unknown_field(err);
        if (r == 0 && str_eqz(name, "group"))
            r = policy_check_group(ret->group, err);
        if (r < 0) {
            err_path_field(err, name.p, name.n);
            return r;
        }
    }
    if (ret->names.n == 0 || ret->resources.n)
        return 0;
    int r = err_set(err, ERR_INVALID, "using resourceNames requires at least one resource");
    err_path_field(err, "resourceNames", strlen("resourceNames"));
    return r;
}

static int policy_read_all_resources(const yyjson_val *v, struct arena *arena,
                                     struct audit_rule *rule, struct err *err)
{
    int r = policy_check_list(v, err);
    if (r < 0 || json_is_null(v))
        return r;
    json_arr_foreach(v, item) {
        struct audit_resources one = {0};
        r = policy_read_resources(item, arena, &one, err);
        if (r < 0) {
            err_path_index(err, rule->resources.n);
            return r;
        }
        vec_push_arena(arena, &rule->resources, one);
    }
    return 0;
}

static int policy_check_urls(const struct audit_rule *rule, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < rule->urls.n; i++) {
        struct str url = rule->urls.p[i];
        ptrdiff_t star = str_find_char(url, '*');
        if (str_eqz(url, "*"))
            continue;
        if (!str_starts(url, STR("/")))
            r = err_set(err, ERR_INVALID, "non-resource URL rules must begin with a '/' character");
        else if (star >= 0 && (size_t)star + 1 < url.n)
            r = err_set(err, ERR_INVALID,
                        "non-resource URL wildcards '*' must be the final character of the rule");
        if (r < 0)
            err_path_index(err, i);
    }
    if (r == 0 && rule->urls.n && (rule->resources.n || rule->namespaces.n))
        r = err_set(err, ERR_INVALID,
                    "rules cannot apply to both regular resources and non-resource URLs");
    if (r < 0)
        err_path_field(err, "nonResourceURLs", strlen("nonResourceURLs"));
    return r;
}

static int policy_read_rule_field(struct str name, const yyjson_val *v, struct arena *arena,
                                  struct audit_rule *rule, struct err *err)
{
    const struct {
        const char *name;
        struct api_str_array *list;
    } lists[] = {{"users", &rule->users},
                 {"userGroups", &rule->groups},
                 {"verbs", &rule->verbs},
                 {"namespaces", &rule->namespaces},
                 {"nonResourceURLs", &rule->urls}};
    for (size_t i = 0; i < array_len(lists); i++)
        if (str_eqz(name, lists[i].name))
            return policy_read_texts(v, arena, lists[i].list, err);
    if (str_eqz(name, "level"))
        return policy_read_level(v, arena, &rule->level, err);
    if (str_eqz(name, "resources"))
        return policy_read_all_resources(v, arena, rule, err);
    if (str_eqz(name, "omitStages"))
        return policy_read_stages(v, arena, &rule->omit_stages, err);
    if (str_eqz(name, "omitManagedFields"))
        return json_to_bool(v, &rule->omit_managed, err);
    return policy_unknown_field(err);
}

static int policy_read_rule(const yyjson_val *v, struct arena *arena, struct audit_rule *rule,
                            struct err *err)
{
    if (!json_is_object(v))
        return policy_wrong_type(v, "object", err);
    json_obj_foreach(v, key, val) {
        struct str name = json_str(key);
        int r = policy_read_rule_field(name, val, arena, rule, err);
        if (r < 0) {
            err_path_field(err, name.p, name.n);
            return r;
        }
    }
    if (!json_get(v, STR("level"))) {
        int r = err_set(err, ERR_INVALID, "is required");
        err_path_field(err, "level", strlen("level"));
        return r;
    }
    return policy_check_urls(rule, err);
}

// The stages that the policy omits are omitted by every rule.
static int policy_read_rules(const yyjson_val *v, struct audit_policy *p, struct err *err)
{
    int r = policy_check_list(v, err);
    if (r < 0 || json_is_null(v))
        return r;
    json_arr_foreach(v, item) {
        struct audit_rule rule = {.omit_stages = p->omit_stages, .omit_managed = p->omit_managed};
        r = policy_read_rule(item, &p->arena, &rule, err);
        if (r < 0) {
            err_path_index(err, p->rules.n);
            return r;
        }
        vec_push_arena(&p->arena, &p->rules, rule);
    }
    return 0;
}

static int policy_read_fields(const yyjson_val *v, struct audit_policy *p, bool rules,
                              struct err *err)
{
    json_obj_foreach(v, key, val) {
        struct str name = json_str(key);
        int r = 0;
        if (str_eqz(name, "rules"))
            r = rules ? policy_read_rules(val, p, err) : 0;
        else if (str_eqz(name, "omitStages"))
            r = policy_read_stages(val, &p->arena, &p->omit_stages, err);
        else if (str_eqz(name, "omitManagedFields"))
            r = json_to_bool(val, &p->omit_managed, err);
        else if (!str_eqz(name, "apiVersion") && !str_eqz(name, "kind") &&
                 !str_eqz(name, "metadata"))
            r = policy_unknown_field(err);
        if (r < 0) {
            err_path_field(err, name.p, name.n);
            return r;
        }
    }
    return 0;
}

static int policy_read(const yyjson_val *v, struct audit_policy *p, struct err *err)
{
    if (!v || !json_is_object(v) || !str_eqz(json_get_str(v, "kind"), "Policy") ||
        !str_eqz(json_get_str(v, "apiVersion"), "audit.k8s.io/v1"))
        return err_set(err, ERR_INVALID,
                       "not an audit policy; write apiVersion: audit.k8s.io/v1, kind: Policy");
    // What holds for all rules first, wherever it stands.
    int r = policy_read_fields(v, p, false, err);
    if (r == 0)
        r = policy_read_fields(v, p, true, err);
    if (r == 0 && p->rules.n == 0) {
        r = err_set(err, ERR_INVALID, "there are no rules, so nothing would be recorded");
        err_path_field(err, "rules", strlen("rules"));
    }
    return r;
}

int audit_policy_parse(struct str text, struct audit_policy *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    *ret = (struct audit_policy){0};
    int r = yaml_parse(text, NULL, &doc, err);
    if (r == 0)
        r = policy_read(doc.root, ret, err);
    if (r < 0)
        audit_policy_done(ret);
    return r;
}

void audit_policy_done(struct audit_policy *p)
{
    arena_done(&p->arena);
    *p = (struct audit_policy){0};
}

// --- Matching ------------------------------------------------------------------------------------

static bool policy_lists(const struct api_str_array *list, struct str s)
{
    return str_listed(list->p, list->n, s);
}

static bool policy_url_matches(struct str path, struct str spec)
{
    return str_eqz(spec, "*") || str_eq(spec, path) ||
           (str_ends(spec, STR("*")) && str_starts(path, str_upto(spec, spec.n - 1)));
}

// r, r/s, *, */s or r/*.
static bool policy_resource_matches(struct str spec, const struct access *q)
{
    struct str resource, sub;
    if (str_eqz(spec, "*"))
        return true;
    bool divided = str_cut(spec, '/', &resource, &sub);
    if (divided && str_eqz(sub, "*"))
        return str_eq(resource, q->resource);
    if (divided && str_eqz(resource, "*"))
        return q->subresource.n && str_eq(sub, q->subresource);
    return str_eq(resource, q->resource) && str_eq(divided ? sub : STR(""), q->subresource);
}

static bool policy_resources_match(const struct audit_rule *rule, const struct access *q)
{
    if (q->path.n || (rule->namespaces.n && !policy_lists(&rule->namespaces, q->namespace)))
        return false;
    for (size_t i = 0; i < rule->resources.n; i++) {
        const struct audit_resources *one = &rule->resources.p[i];
        if (!str_eqz(one->group, "*") && !str_eq(one->group, q->group))
            continue;
        if (one->resources.n == 0)
            return true;
        if (one->names.n && !policy_lists(&one->names, q->name))
            continue;
        for (size_t k = 0; k < one->resources.n; k++)
            if (policy_resource_matches(one->resources.p[k], q))
                return true;
    }
    return rule->resources.n == 0;
}

static bool policy_urls_match(const struct audit_rule *rule, const struct access *q)
{
    for (size_t i = 0; q->path.n && i < rule->urls.n; i++)
        if (policy_url_matches(q->path, rule->urls.p[i]))
            return true;
    return false;
}

static bool policy_groups_match(const struct audit_rule *rule, const struct registry_user *user)
{
    bool matches = rule->groups.n == 0;
    for (size_t i = 0; !matches && i < user->groups_len; i++)
        matches = policy_lists(&rule->groups, user->groups[i]);
    return matches;
}

static bool policy_rule_matches(const struct audit_rule *rule, const struct access *q)
{
    if ((rule->users.n && !policy_lists(&rule->users, q->user->name)) ||
        !policy_groups_match(rule, q->user) ||
        (rule->verbs.n && !policy_lists(&rule->verbs, q->verb)))
        return false;
    if (rule->namespaces.n || rule->resources.n)
        return policy_resources_match(rule, q);
    return rule->urls.n == 0 || policy_urls_match(rule, q);
}

struct audit_choice audit_policy_choose(const struct audit_policy *p, const struct access *q)
{
    for (size_t i = 0; i < p->rules.n; i++) {
        const struct audit_rule *rule = &p->rules.p[i];
        if (policy_rule_matches(rule, q))
            return (struct audit_choice){rule->level, rule->omit_stages, rule->omit_managed};
    }
    return (struct audit_choice){.level = AUDIT_NONE};
}
