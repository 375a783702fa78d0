// SPDX-License-Identifier: Apache-2.0
//
// The roles every cluster has, read from schema/roles.policy and created or completed at the start,
// as kube-apiserver's bootstrap policy.
#include "server/auth/roles.h"

#include <stdlib.h>

#include "base/vec.h"

#include "base/banned.h"

#define GROUP "rbac.authorization.k8s.io"

static const struct str bootstrapping = STR_INIT("kubernetes.io/bootstrapping");
static const struct str defaults = STR_INIT("rbac-defaults");
static const struct str autoupdate = STR_INIT("rbac.authorization.kubernetes.io/autoupdate");

struct rules VEC(struct api_policy_rule);

struct reader {
    struct arena *arena;
    size_t line;
    void (*fn)(void *arg, const struct api_object *object);
    void *arg;
    const struct api_kind *kind; // of the object that is being read; NULL: none
    union {
        struct api_cluster_role *cluster_role;
        struct api_role *role;
        void *value;
    };
    struct rules rules;
};

// --- Words ---------------------------------------------------------------------------------------

static struct str roles_next_word(struct str *line)
{
    struct str word;
    *line = str_trim(*line);
    str_cut(*line, ' ', &word, line);
    return word;
}

static struct api_str_array roles_split_list(struct arena *arena, struct str text, char separator)
{
    struct VEC(struct str) list = {0};
    while (text.n) {
        struct str word;
        str_cut(text, separator, &word, &text);
        word = str_trim(word);
        if (word.n)
            vec_push_arena(arena, &list, word);
    }
    return (struct api_str_array){list.p, list.n};
}

static struct str roles_next_cell(struct str *line)
{
    struct str cell;
    str_cut(*line, '|', &cell, line);
    return str_trim(cell);
}

static int roles_fail(const struct reader *r, struct err *err, const char *what)
{
    return err_set(err, ERR_INVALID, "line %zu: %s", r->line, what);
}

// --- Objects -------------------------------------------------------------------------------------

// Maps are sorted by key.
static void roles_add_pair(struct arena *arena, struct api_str_map *map, struct str key,
                           struct str value)
{
    struct api_str_entry *p = arena_array(arena, struct api_str_entry, map->n + 1);
    size_t at = 0;
    while (at < map->n && str_cmp(map->p[at].key, key) < 0)
        at++;
    for (size_t i = 0; i < map->n; i++)
        p[i < at ? i : i + 1] = map->p[i];
    p[at] = (struct api_str_entry){key, value};
    *map = (struct api_str_map){p, map->n + 1};
}

static void roles_mark_object(const struct reader *r, struct api_object_meta *m)
{
    roles_add_pair(r->arena, &m->labels, bootstrapping, defaults);
    roles_add_pair(r->arena, &m->annotations, autoupdate, STR("true"));
}

static void roles_give_object(struct reader *r)
{
    if (!r->kind)
        return;
    struct api_policy_rule_array rules = {r->rules.p, r->rules.n};
    if (r->kind->type == &api_cluster_role_type)
        r->cluster_role->rules = rules;
    else if (r->kind->type == &api_role_type)
        r->role->rules = rules;
    struct api_object o = {.kind = r->kind, .value = r->value};
    r->fn(r->arg, &o);
    r->kind = NULL;
    r->rules = (struct rules){0};
}

static struct api_object_meta *roles_begin_object(struct reader *r, const char *kind,
                                                  const void *value)
{
    roles_give_object(r);
    r->kind = api_kind_find(STR(GROUP "/v1"), str_z(kind));
    r->value = (void *)(uintptr_t)value;
    struct api_object o = {.kind = r->kind, .value = r->value};
    struct api_object_meta *m = api_object_meta(&o);
    roles_mark_object(r, m);
    return m;
}

static struct str aggregation_label(struct arena *arena, struct str name)
{
    return arena_strf(arena, GROUP "/aggregate-to-%.*s", STR_ARG(name));
}

static void roles_add_aggregation(const struct reader *r, struct str name)
{
    struct api_label_selector *s = arena_one(r->arena, struct api_label_selector);
    struct api_aggregation_rule *rule = arena_one(r->arena, struct api_aggregation_rule);
    roles_add_pair(r->arena, &s->match_labels, aggregation_label(r->arena, name), STR("true"));
    rule->cluster_role_selectors.p = s;
    rule->cluster_role_selectors.n = 1;
    r->cluster_role->aggregation_rule = rule;
}

static int read_cluster_role(struct reader *r, struct str line, struct err *err)
{
    struct api_object_meta *m =
        roles_begin_object(r, "ClusterRole", arena_one(r->arena, struct api_cluster_role));
    m->name = roles_next_word(&line);
    while (str_trim(line).n) {
        struct str word = roles_next_word(&line), key, value;
        if (!str_cut(word, '=', &key, &value))
            return roles_fail(r, err, "a role has into=NAME and gathers=NAME behind its name");
        if (str_eqz(key, "into"))
            roles_add_pair(r->arena, &m->labels, aggregation_label(r->arena, value), STR("true"));
        else if (str_eqz(key, "gathers"))
            roles_add_aggregation(r, value);
        else
            return roles_fail(r, err, "a role has into=NAME and gathers=NAME behind its name");
    }
    return m->name.n ? 0 : roles_fail(r, err, "the role has no name");
}

static int read_subjects(struct reader *r, struct str line, struct api_subject_array *ret,
                         struct err *err)
{
    struct VEC(struct api_subject) list = {0};
    while (str_trim(line).n) {
        struct str word = roles_next_word(&line);
        struct api_subject s = {0};
        if (!str_cut(word, ':', &s.kind, &s.name))
            return roles_fail(r, err,
                              "a subject has the form User:NAME, Group:NAME or "
                              "ServiceAccount:NAMESPACE/NAME");
        if (str_eqz(s.kind, "ServiceAccount"))
            (void)str_cut(s.name, '/', &s.namespace, &s.name);
        else
            s.api_group = STR(GROUP);
        vec_push_arena(r->arena, &list, s);
    }
    ret->p = list.p;
    ret->n = list.n;
    return 0;
}

static int read_cluster_binding(struct reader *r, struct str line, struct err *err)
{
    struct api_cluster_role_binding *b = arena_one(r->arena, struct api_cluster_role_binding);
    roles_begin_object(r, "ClusterRoleBinding", b)->name = roles_next_word(&line);
    b->role_ref = (struct api_role_ref){STR(GROUP), STR("ClusterRole"), roles_next_word(&line)};
    if (!b->role_ref.name.n)
        return roles_fail(r, err, "the binding names no role");
    return read_subjects(r, line, &b->subjects, err);
}

static int read_binding(struct reader *r, struct str line, struct err *err)
{
    struct api_role_binding *b = arena_one(r->arena, struct api_role_binding);
    struct api_object_meta *m = roles_begin_object(r, "RoleBinding", b);
    m->namespace = roles_next_word(&line);
    m->name = roles_next_word(&line);
    b->role_ref.api_group = STR(GROUP);
    if (!str_cut(roles_next_word(&line), ':', &b->role_ref.kind, &b->role_ref.name))
        return roles_fail(r, err, "the binding names no role: Role:NAME or ClusterRole:NAME");
    return read_subjects(r, line, &b->subjects, err);
}

static int roles_read_rule(struct reader *r, struct str line, struct err *err)
{
    struct api_policy_rule rule = {0};
    if (!r->kind || (r->kind->type != &api_cluster_role_type && r->kind->type != &api_role_type))
        return roles_fail(r, err, "a rule stands below its role");
    rule.verbs = roles_split_list(r->arena, roles_next_cell(&line), ',');
    struct str where = roles_next_cell(&line), what = roles_next_cell(&line);
    if (!rule.verbs.n || !where.n)
        return roles_fail(r, err,
                          "a rule is verbs | groups | resources [| names], or verbs | paths");
    if (!what.n) {
        rule.non_resource_urls = roles_split_list(r->arena, where, ' ');
    } else {
        rule.api_groups = roles_split_list(r->arena, where, ',');
        for (size_t i = 0; i < rule.api_groups.n; i++)
            if (str_eqz(rule.api_groups.p[i], "core"))
                rule.api_groups.p[i] = STR("");
        rule.resources = roles_split_list(r->arena, what, ' ');
        rule.resource_names = roles_split_list(r->arena, roles_next_cell(&line), ' ');
    }
    vec_push_arena(r->arena, &r->rules, rule);
    return 0;
}

static int roles_read_line(struct reader *r, struct str line, struct err *err)
{
    bool rule = line.n && line.p[0] == ' ';
    line = str_trim(line);
    if (!line.n || line.p[0] == '#')
        return 0;
    if (rule)
        return roles_read_rule(r, line, err);
    struct str word = roles_next_word(&line);
    if (str_eqz(word, "clusterrole"))
        return read_cluster_role(r, line, err);
    if (str_eqz(word, "clusterbinding"))
        return read_cluster_binding(r, line, err);
    if (str_eqz(word, "binding"))
        return read_binding(r, line, err);
    if (!str_eqz(word, "role"))
        return roles_fail(r, err,
                          "a line begins with clusterrole, role, clusterbinding or binding");
    struct api_object_meta *m = roles_begin_object(r, "Role", arena_one(r->arena, struct api_role));
    m->namespace = roles_next_word(&line);
    m->name = roles_next_word(&line);
    return m->name.n ? 0 : roles_fail(r, err, "a role has a namespace and a name");
}

int roles_parse(struct str policy, struct arena *arena,
                void (*fn)(void *arg, const struct api_object *object), void *arg, struct err *err)
{
    struct reader reader = {.arena = arena, .fn = fn, .arg = arg};
    for (reader.line = 1; policy.n; reader.line++) {
        struct str line;
        str_cut(policy, '\n', &line, &policy);
        int r = roles_read_line(&reader, line, err);
        if (r < 0)
            return r;
    }
    roles_give_object(&reader);
    return 0;
}

// --- Making them ---------------------------------------------------------------------------------

struct making {
    struct client *client;
    void (*done)(void *arg, int code, const struct err *err);
    void *arg;
    size_t open;
    int code;
    struct err err;
};

static void roles_on_created(void *arg, const struct client_answer *a)
{
    struct making *m = arg;
    if (a->code < 0 && a->code != -ERR_ALREADY_EXISTS && m->code == 0) {
        m->code = a->code;
        m->err = *a->err;
    }
    if (--m->open)
        return;
    m->done(m->arg, m->code, &m->err);
    free(m);
}

static void roles_create_object(void *arg, const struct api_object *object)
{
    struct making *m = arg;
    m->open++;
    client_create(m->client, object, NULL, roles_on_created, m);
}

void roles_ensure(struct client *client, void (*done)(void *arg, int code, const struct err *err),
                  void *arg)
{
    cleanup_arena struct arena arena = {0};
    struct making *m = xcalloc(1, sizeof(*m));
    *m = (struct making){.client = client, .done = done, .arg = arg};
    struct err err = {0};
    int r = roles_parse(roles_policy, &arena, roles_create_object, m, &err);
    assert(r == 0 && m->open); // it comes with the program, and a test reads it
    (void)r;
}
