// SPDX-License-Identifier: Apache-2.0
//
// The environment of a container: expansion of $(NAME), fields of the downward API, resources,
// config maps and secrets, and the variables of services. Sizes are bounded, since pods choose
// them.
#include "node/pods/env.h"

#include <assert.h>

#include "api/amounts.h"
#include "api/api.h"

#include "base/banned.h"

// Names to look through that cost as much as a byte.
#define NAMES_PER_BYTE 64

// One more than there may be is kept, for env_make to see.
static void env_set_pair(struct env_pairs *env, struct str name, struct str value,
                         struct arena *arena)
{
    if (env->n > DRAY_VARIABLES_MAX)
        return;
    for (size_t i = 0; i < env->n; i++)
        if (str_eq(env->p[i].name, name)) {
            env->p[i].value = value;
            return;
        }
    vec_push_arena(arena, env, ((struct runtime_pair){name, value}));
}

static const struct str *env_find_value(const struct env_pairs *env, struct str name)
{
    for (size_t i = 0; i < env->n; i++)
        if (str_eq(env->p[i].name, name))
            return &env->p[i].value;
    return NULL;
}

// --- $(NAME) -------------------------------------------------------------------------------------

// The reference NAME) that rest begins with. Returns how much of rest it takes.
static size_t env_expand_variable(struct str rest, const struct env_pairs *env, struct sbuf *out)
{
    ptrdiff_t end = str_find_char(rest, ')');
    assert(end >= 0);
    struct str name = str_upto(rest, (size_t)end);
    const struct str *value = env_find_value(env, name);
    if (value)
        sbuf_add(out, *value);
    else
        sbuf_addf(out, "$(%.*s)", STR_ARG(name));
    return (size_t)end + 1;
}

int env_expand(struct str text, const struct env_pairs *env, size_t *left, struct arena *arena,
               struct str *ret, struct err *err)
{
    cleanup_sbuf struct sbuf out = {0};
    ptrdiff_t last = str_rfind_char(text, ')');
    size_t looked = 0;
    if (str_find_char(text, '$') < 0) {
        *ret = text;
        return 0;
    }
    for (size_t i = 0; i < text.n && out.n + looked <= *left; i++) {
        if (text.p[i] != '$' || i + 1 == text.n) {
            sbuf_addc(&out, text.p[i]);
        } else if (text.p[++i] == '(' && (ptrdiff_t)i < last) {
            i += env_expand_variable(str_from(text, i + 1), env, &out);
            looked += env->n / NAMES_PER_BYTE;
        } else { // also "$(" that is not closed
            if (text.p[i] != '$')
                sbuf_addc(&out, '$');
            sbuf_addc(&out, text.p[i]);
        }
    }
    if (out.n + looked > *left)
        return err_set(err, ERR_TOO_LARGE,
                       "what $(NAME) stands for makes more than %zu bytes of the container's "
                       "variables, command or mounts",
                       DRAY_EXPANDED_BYTES_MAX);
    *left -= out.n + looked;
    *ret = arena_str(arena, sbuf_str(&out));
    return 0;
}

// --- Facts about the pod -------------------------------------------------------------------------

static struct str env_map_value(const struct api_str_map *m, struct str key)
{
    const struct str *value = api_map_find(m, key);
    return value ? *value : STR("");
}

// The form of labels and annotations as a file: key="value", one a line, sorted.
static struct str env_format_map(const struct api_str_map *m, struct arena *arena)
{
    struct sbuf out = {0};
    for (size_t i = 0; i < m->n; i++) {
        sbuf_add(&out, m->p[i].key);
        sbuf_addc(&out, '=');
        sbuf_add_quoted(&out, m->p[i].value);
        if (i + 1 < m->n)
            sbuf_addc(&out, '\n');
    }
    struct str made = arena_str(arena, sbuf_str(&out));
    sbuf_done(&out);
    return made;
}

// metadata.labels['KEY']: the key, or false.
static bool env_split_subscript(struct str path, struct str *ret_map, struct str *ret_key)
{
    ptrdiff_t open = str_find(path, STR("['"));
    if (open < 0 || !str_ends(path, STR("']")) || path.n < (size_t)open + 4)
        return false;
    *ret_map = str_upto(path, (size_t)open);
    *ret_key = str_upto(str_from(path, (size_t)open + 2), path.n - (size_t)open - 4);
    return true;
}

static struct str env_first_in_list(struct str list)
{
    struct str head, tail;
    (void)str_cut(list, ',', &head, &tail);
    return head;
}

int env_field(const struct env_facts *f, struct str path, struct arena *arena, struct str *ret,
              struct err *err)
{
    const struct api_pod *pod = f->pod;
    struct str map, key;
    const struct {
        const char *path;
        struct str value;
    } rows[] = {
        {"metadata.name", pod->metadata.name},
        {"metadata.namespace", pod->metadata.namespace},
        {"metadata.uid", pod->metadata.uid},
        {"spec.nodeName", pod->spec.node_name},
        {"spec.serviceAccountName", pod->spec.service_account_name},
        {"status.hostIP", env_first_in_list(f->host_ips)},
        {"status.hostIPs", f->host_ips},
        {"status.podIP", f->pod_ip},
        {"status.podIPs", f->pod_ip},
    };
    for (size_t i = 0; i < array_len(rows); i++)
        if (str_eqz(path, rows[i].path)) {
            *ret = rows[i].value;
            return 0;
        }
    if (str_eqz(path, "metadata.labels"))
        *ret = env_format_map(&pod->metadata.labels, arena);
    else if (str_eqz(path, "metadata.annotations"))
        *ret = env_format_map(&pod->metadata.annotations, arena);
    else if (env_split_subscript(path, &map, &key) && str_eqz(map, "metadata.labels"))
        *ret = env_map_value(&pod->metadata.labels, key);
    else if (env_split_subscript(path, &map, &key) && str_eqz(map, "metadata.annotations"))
        *ret = env_map_value(&pod->metadata.annotations, key);
    else
        return err_set(err, ERR_INVALID, "unsupported fieldPath: %.*s", STR_ARG(path));
    return 0;
}

static const struct api_container *env_find_container(const struct api_pod *pod, struct str name)
{
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        if (str_eq(pod->spec.containers.p[i].name, name))
            return &pod->spec.containers.p[i];
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        if (str_eq(pod->spec.init_containers.p[i].name, name))
            return &pod->spec.init_containers.p[i];
    return NULL;
}

// In units of the divisor, rounded up; CPUs count in thousandths when the divisor does.
static int64_t env_divide_quantity(const struct quantity *q, const struct quantity *divisor,
                                   bool cpu)
{
    int64_t unit = cpu ? quantity_milli(divisor) : quantity_value(divisor);
    int64_t have = cpu ? quantity_milli(q) : quantity_value(q);
    if (unit <= 0)
        unit = cpu ? 1000 : 1;
    return have / unit + (have % unit > 0);
}

int env_resource(const struct env_facts *f, const struct api_resource_field_selector *s,
                 const struct api_container *container, struct arena *arena, struct str *ret,
                 struct err *err)
{
    struct str which, resource;
    const struct api_container *c =
        s->container_name.n ? env_find_container(f->pod, s->container_name) : container;
    if (!c)
        return err_set(err, ERR_NOT_FOUND, "container %.*s not found", STR_ARG(s->container_name));
    bool limits = str_cut(s->resource, '.', &which, &resource) && str_eqz(which, "limits");
    if (!limits && !str_eqz(which, "requests"))
        return err_set(err, ERR_INVALID, "unsupported container resource : %.*s",
                       STR_ARG(s->resource));
    const struct quantity *q =
        amounts_get(limits ? &c->resources.limits : &c->resources.requests, resource);
    if (!q && limits && f->node) // no limit: all that pods of the node can have
        q = amounts_get(&f->node->status.allocatable, resource);
    struct quantity zero = {0};
    *ret = arena_strf(arena, "%lld",
                      (long long)env_divide_quantity(q ? q : &zero, &s->divisor,
                                                     str_eqz(resource, "cpu")));
    return 0;
}

// --- Variables -----------------------------------------------------------------------------------

static bool env_is_valid_name(struct str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] < 0x20 || name.p[i] > 0x7e || name.p[i] == '=')
            return false;
    return name.n > 0;
}

static void env_set_from_map(struct env_pairs *env, struct str prefix,
                             const struct api_str_map *data, struct arena *arena,
                             struct sbuf *skipped)
{
    for (size_t i = 0; i < data->n; i++) {
        struct str name = arena_strf(arena, "%.*s%.*s", STR_ARG(prefix), STR_ARG(data->p[i].key));
        if (env_is_valid_name(name))
            env_set_pair(env, name, data->p[i].value, arena);
        else if (skipped)
            sbuf_addf(skipped, "%s%.*s", skipped->n ? ", " : "", STR_ARG(data->p[i].key));
    }
}

static int env_set_from_source(const struct env_options *o, const struct api_env_from_source *f,
                               struct arena *arena, struct env_pairs *env, struct sbuf *skipped,
                               struct err *err)
{
    const struct api_str_map *data = NULL;
    bool optional = false;
    if (f->config_map_ref) {
        const struct api_config_map *m =
            pod_refs_config_map(o->refs, f->config_map_ref->local_object_reference.name, err);
        data = m ? &m->data : NULL;
        optional = f->config_map_ref->has_optional && f->config_map_ref->optional;
    } else if (f->secret_ref) {
        const struct api_secret *s =
            pod_refs_secret(o->refs, f->secret_ref->local_object_reference.name, err);
        data = s ? &s->data : NULL;
        optional = f->secret_ref->has_optional && f->secret_ref->optional;
    } else {
        return 0;
    }
    if (data)
        env_set_from_map(env, f->prefix, data, arena, skipped);
    return data || (optional && err->code == ERR_NOT_FOUND) ? 0 : -err->code;
}

struct keyed {
    const char *kind;
    const struct api_str_map *data; // NULL: the object is not there
    struct str name, key;
    bool optional;
};

// 1: there is nothing to set, and that is fine.
static int env_read_key(const struct env_options *o, const struct keyed *k, struct str *ret,
                        struct err *err)
{
    if (!k->data)
        return k->optional && err->code == ERR_NOT_FOUND ? 1 : -err->code;
    for (size_t i = 0; i < k->data->n; i++)
        if (str_eq(k->data->p[i].key, k->key)) {
            *ret = k->data->p[i].value;
            return 0;
        }
    if (k->optional)
        return 1;
    return err_set(err, ERR_NOT_FOUND, "couldn't find key %.*s in %s %.*s/%.*s", STR_ARG(k->key),
                   k->kind, STR_ARG(o->facts.pod->metadata.namespace), STR_ARG(k->name));
}

static int env_resolve_key(const struct env_options *o, const struct api_env_var_source *v,
                           struct str *ret, struct err *err)
{
    struct keyed k = {0};
    if (v->config_map_key_ref) {
        const struct api_config_map_key_selector *s = v->config_map_key_ref;
        const struct api_config_map *m =
            pod_refs_config_map(o->refs, s->local_object_reference.name, err);
        k = (struct keyed){"ConfigMap", m ? &m->data : NULL, s->local_object_reference.name, s->key,
                           s->has_optional && s->optional};
    } else {
        const struct api_secret_key_selector *s = v->secret_key_ref;
        const struct api_secret *m = pod_refs_secret(o->refs, s->local_object_reference.name, err);
        k = (struct keyed){"Secret", m ? &m->data : NULL, s->local_object_reference.name, s->key,
                           s->has_optional && s->optional};
    }
    return env_read_key(o, &k, ret, err);
}

static int env_add_entry(const struct env_options *o, const struct api_container *c,
                         const struct api_env_var *var, size_t *left, struct arena *arena,
                         struct env_pairs *env, struct err *err)
{
    const struct api_env_var_source *from = var->value_from;
    struct str value = {0};
    int r = 0;
    if (var->value.n > 0 || !from)
        r = env_expand(var->value, env, left, arena, &value, err);
    else if (from->field_ref)
        r = env_field(&o->facts, from->field_ref->field_path, arena, &value, err);
    else if (from->resource_field_ref)
        r = env_resource(&o->facts, from->resource_field_ref, c, arena, &value, err);
    else if (from->config_map_key_ref || from->secret_key_ref)
        r = env_resolve_key(o, from, &value, err);
    else
        r = err_set(err, ERR_UNSUPPORTED,
                    "variable %.*s takes its value from a file of a volume, which this node "
                    "does not offer; use a configMapKeyRef or a secretKeyRef",
                    STR_ARG(var->name));
    if (r == 0)
        env_set_pair(env, var->name, value, arena);
    return r < 0 ? r : 0;
}

// Many variables may take the same value.
static int env_check_size(const struct env_pairs *env, struct err *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < env->n; i++)
        bytes += env->p[i].name.n + env->p[i].value.n;
    if (env->n <= DRAY_VARIABLES_MAX && bytes <= DRAY_EXPANDED_BYTES_MAX)
        return 0;
    return err_set(err, ERR_TOO_LARGE,
                   "the container has more than %zu environment variables, or they have more than "
                   "%zu bytes",
                   DRAY_VARIABLES_MAX, DRAY_EXPANDED_BYTES_MAX);
}

int env_make(const struct env_options *o, const struct api_container *container,
             struct arena *arena, struct env_pairs *ret, struct sbuf *skipped, struct err *err)
{
    size_t left = DRAY_EXPANDED_BYTES_MAX;
    int r = 0;
    for (size_t i = 0; r == 0 && i < container->env_from.n; i++)
        r = env_set_from_source(o, &container->env_from.p[i], arena, ret, skipped, err);
    // Services come first in what a process sees but are overridden, and are not there for $(NAME)
    // before they are named: upstream resolves against both.
    struct env_pairs known = {0};
    for (size_t i = 0; i < o->services_len; i++)
        env_set_pair(&known, o->services[i].name, o->services[i].value, arena);
    for (size_t i = 0; i < ret->n; i++)
        env_set_pair(&known, ret->p[i].name, ret->p[i].value, arena);
    *ret = known;
    for (size_t i = 0; r == 0 && i < container->env.n; i++)
        r = env_add_entry(o, container, &container->env.p[i], &left, arena, ret, err);
    return r < 0 ? r : env_check_size(ret, err);
}

// --- Services ------------------------------------------------------------------------------------

static struct str env_service_variable(struct str name, struct arena *arena)
{
    char *p = arena_alloc(arena, name.n + 1, 1);
    for (size_t i = 0; i < name.n; i++)
        p[i] = (char)(name.p[i] == '-'                       ? '_'
                      : name.p[i] >= 'a' && name.p[i] <= 'z' ? name.p[i] - 'a' + 'A'
                                                             : name.p[i]);
    return str_make(p, name.n);
}

static struct str env_lowercase(struct str text, struct arena *arena)
{
    char *p = arena_alloc(arena, text.n + 1, 1);
    for (size_t i = 0; i < text.n; i++)
        p[i] = (char)(text.p[i] >= 'A' && text.p[i] <= 'Z' ? text.p[i] - 'A' + 'a' : text.p[i]);
    return str_make(p, text.n);
}

static void env_add_service_port(struct str name, struct str host,
                                 const struct api_service_port *port, struct arena *arena,
                                 struct env_pairs *out)
{
    struct str protocol = port->protocol.n ? port->protocol : STR("TCP");
    struct str base = arena_strf(arena, "%.*s_PORT_%d_%.*s", STR_ARG(name), port->port,
                                 STR_ARG(env_service_variable(protocol, arena)));
    struct str low = env_lowercase(protocol, arena);
    struct str url = arena_strf(arena, "%.*s://%.*s:%d", STR_ARG(low), STR_ARG(host), port->port);
    env_set_pair(out, base, url, arena);
    env_set_pair(out, arena_strf(arena, "%.*s_PROTO", STR_ARG(base)), low, arena);
    env_set_pair(out, arena_strf(arena, "%.*s_PORT", STR_ARG(base)),
                 arena_strf(arena, "%d", port->port), arena);
    env_set_pair(out, arena_strf(arena, "%.*s_ADDR", STR_ARG(base)), host, arena);
}

void env_service(const struct api_service *service, struct arena *arena, struct env_pairs *out)
{
    struct str host = service->spec.cluster_ip;
    if (host.n == 0 || str_eqz(host, "None") || service->spec.ports.n == 0)
        return;
    struct str name = env_service_variable(service->metadata.name, arena);
    const struct api_service_port *first = &service->spec.ports.p[0];
    struct str protocol = env_lowercase(first->protocol.n ? first->protocol : STR("TCP"), arena);
    env_set_pair(out, arena_strf(arena, "%.*s_SERVICE_HOST", STR_ARG(name)), host, arena);
    env_set_pair(out, arena_strf(arena, "%.*s_SERVICE_PORT", STR_ARG(name)),
                 arena_strf(arena, "%d", first->port), arena);
    for (size_t i = 0; i < service->spec.ports.n; i++) {
        const struct api_service_port *p = &service->spec.ports.p[i];
        if (p->name.n)
            env_set_pair(out,
                         arena_strf(arena, "%.*s_SERVICE_PORT_%.*s", STR_ARG(name),
                                    STR_ARG(env_service_variable(p->name, arena))),
                         arena_strf(arena, "%d", p->port), arena);
    }
    env_set_pair(out, arena_strf(arena, "%.*s_PORT", STR_ARG(name)),
                 arena_strf(arena, "%.*s://%.*s:%d", STR_ARG(protocol), STR_ARG(host), first->port),
                 arena);
    for (size_t i = 0; i < service->spec.ports.n; i++)
        env_add_service_port(name, host, &service->spec.ports.p[i], arena, out);
}
