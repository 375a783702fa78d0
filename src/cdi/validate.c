// SPDX-License-Identifier: Apache-2.0
//
// The rules of a spec, those of upstream's library. A problem is kept with the path of its field.
#include <stdio.h>

#include "base/map.h"
#include "cdi/name.h"
#include "cdi/spec.h"

#include "base/banned.h"

struct checker {
    struct cdi_problems *out;
    size_t found;
    struct sbuf path; // of the value being judged
};

// Steps into a field, or an item of a list, and returns the way back.
static size_t cdi_validate_enter(struct checker *c, const char *field)
{
    size_t mark = c->path.n;
    sbuf_addf(&c->path, "%s%s", mark ? "." : "", field);
    return mark;
}

static size_t cdi_validate_enter_item(struct checker *c, const char *field, size_t index)
{
    size_t mark = cdi_validate_enter(c, field);
    sbuf_addf(&c->path, "[%zu]", index);
    return mark;
}

static void cdi_validate_leave(struct checker *c, size_t mark)
{
    sbuf_truncate(&c->path, mark);
}

static void cdi_validate_add_problem(struct checker *c, const struct err *err)
{
    if (c->found++ >= CDI_PROBLEMS_MAX)
        return;
    vec_push(c->out, *err);
    struct err *kept = vec_last(c->out);
    (void)snprintf(kept->path, sizeof(kept->path), "%s", c->path.n ? c->path.p : "");
}

// Keeps a problem of one field of the value being judged.
static void cdi_validate_problem(struct checker *c, const char *field, const char *fmt, ...)
    ERR_PRINTF(3, 4);

static void cdi_validate_problem(struct checker *c, const char *field, const char *fmt, ...)
{
    struct err err = {0};
    va_list ap;
    va_start(ap, fmt);
    (void)err_set_v(&err, ERR_INVALID, fmt, ap);
    va_end(ap);
    size_t mark = cdi_validate_enter(c, field);
    cdi_validate_add_problem(c, &err);
    cdi_validate_leave(c, mark);
}

static struct str cdi_validate_shorten(struct str s)
{
    return str_upto(s, 200);
}

static void cdi_validate_env(struct checker *c, const struct cdi_texts *env)
{
    for (size_t i = 0; i < env->n; i++) {
        if (str_find_char(env->p[i], '=') > 0)
            continue;
        struct err err = {0};
        (void)err_set(&err, ERR_INVALID, "\"%.*s\" is not of the form NAME=VALUE",
                      STR_ARG(cdi_validate_shorten(env->p[i])));
        size_t mark = cdi_validate_enter_item(c, "env", i);
        cdi_validate_add_problem(c, &err);
        cdi_validate_leave(c, mark);
    }
}

static void cdi_validate_node(struct checker *c, const struct cdi_device_node *n)
{
    if (n->path.n == 0)
        cdi_validate_problem(c, "path", "a device node needs a path");
    if (n->type.n && !(n->type.n == 1 && str_find_char(STR("bcup"), n->type.p[0]) >= 0))
        cdi_validate_problem(c, "type", "the type \"%.*s\" is none of b, c, u and p",
                             STR_ARG(cdi_validate_shorten(n->type)));
    if (str_eqz(n->permissions, CDI_NO_PERMISSIONS))
        return;
    for (size_t i = 0; i < n->permissions.n; i++) {
        if (str_find_char(STR("rwm"), n->permissions.p[i]) >= 0)
            continue;
        cdi_validate_problem(c, "permissions",
                             "permissions are made of r, w and m, or are \"none\"; not \"%.*s\"",
                             STR_ARG(cdi_validate_shorten(n->permissions)));
        return;
    }
}

static void check_hook(struct checker *c, const struct cdi_hook *h)
{
    static const char *const stages[] = {"prestart",       "createRuntime", "createContainer",
                                         "startContainer", "poststart",     "poststop"};
    bool known = false;
    for (size_t i = 0; i < array_len(stages); i++)
        known |= str_eqz(h->hook_name, stages[i]);
    if (!known)
        cdi_validate_problem(
            c, "hookName",
            "\"%.*s\" is no hook; there are: prestart, createRuntime, createContainer, "
            "startContainer, poststart, poststop",
            STR_ARG(cdi_validate_shorten(h->hook_name)));
    if (h->path.n == 0)
        cdi_validate_problem(c, "path", "a hook needs a path");
    cdi_validate_env(c, &h->env);
}

static void cdi_validate_mount(struct checker *c, const struct cdi_mount *m)
{
    if (m->host_path.n == 0)
        cdi_validate_problem(c, "hostPath", "a mount needs a path on the host");
    if (m->container_path.n == 0)
        cdi_validate_problem(c, "containerPath", "a mount needs a path in the container");
}

static void check_rdt(struct checker *c, const struct cdi_intel_rdt *rdt)
{
    struct str id = rdt->clos_id;
    if (str_eq(id, STR("/")))
        return;
    if (id.n >= 4096 || str_eq(id, STR(".")) || str_eq(id, STR("..")) ||
        str_find_char(id, '/') >= 0 || str_find_char(id, '\n') >= 0) {
        size_t mark = cdi_validate_enter(c, "intelRdt");
        cdi_validate_problem(c, "closID", "\"%.*s\" cannot be the name of a file, nor is it \"/\"",
                             STR_ARG(cdi_validate_shorten(id)));
        cdi_validate_leave(c, mark);
    }
}

struct seen MAP(bool);

static void check_net_devices(struct checker *c, const struct cdi_net_devices *devices)
{
    struct seen hosts = {0}, names = {0};
    for (size_t i = 0; i < devices->n; i++) {
        const struct cdi_net_device *d = &devices->p[i];
        size_t mark = cdi_validate_enter_item(c, "netDevices", i);
        bool is_new = true;
        if (d->host_interface_name.n == 0)
            cdi_validate_problem(c, "hostInterfaceName",
                                 "a net device needs the name of its interface");
        else if (map_put_new(&hosts, d->host_interface_name, &is_new), !is_new)
            cdi_validate_problem(c, "hostInterfaceName", "the interface \"%.*s\" is already moved",
                                 STR_ARG(cdi_validate_shorten(d->host_interface_name)));
        if (d->name.n == 0)
            cdi_validate_problem(c, "name", "a net device needs a name in the container");
        else if (map_put_new(&names, d->name, &is_new), !is_new)
            cdi_validate_problem(c, "name", "another net device is already called \"%.*s\"",
                                 STR_ARG(cdi_validate_shorten(d->name)));
        cdi_validate_leave(c, mark);
    }
    map_done(&hosts);
    map_done(&names);
}

// Judges each item of a list in its place.
#define check_each(c, edits, member, field, check)                       \
    do {                                                                 \
        for (size_t i = 0; i < (edits)->member.n; i++) {                 \
            size_t item_mark = cdi_validate_enter_item((c), (field), i); \
            check((c), &(edits)->member.p[i]);                           \
            cdi_validate_leave((c), item_mark);                          \
        }                                                                \
    } while (0)

static void cdi_validate_edits(struct checker *c, const struct cdi_edits *edits)
{
    cdi_validate_env(c, &edits->env);
    check_each(c, edits, device_nodes, "deviceNodes", cdi_validate_node);
    check_each(c, edits, hooks, "hooks", check_hook);
    check_each(c, edits, mounts, "mounts", cdi_validate_mount);
    if (edits->intel_rdt)
        check_rdt(c, edits->intel_rdt);
    check_net_devices(c, &edits->net_devices);
}

static void cdi_validate_devices(struct checker *c, const struct cdi_spec *spec)
{
    if (spec->devices.n == 0)
        cdi_validate_problem(c, "devices", "a spec needs at least one device");
    struct seen names = {0};
    for (size_t i = 0; i < spec->devices.n; i++) {
        const struct cdi_device *d = &spec->devices.p[i];
        size_t mark = cdi_validate_enter_item(c, "devices", i);
        struct err err = {0};
        bool is_new = true;
        if (cdi_check_device(d->name, &err) != 0)
            cdi_validate_problem(c, "name", "%s", err.msg);
        else if (map_put_new(&names, d->name, &is_new), !is_new)
            cdi_validate_problem(c, "name", "there is another device \"%.*s\"",
                                 STR_ARG(cdi_validate_shorten(d->name)));
        size_t edits_mark = cdi_validate_enter(c, "containerEdits");
        cdi_validate_edits(c, &d->edits);
        if (cdi_edits_are_empty(&d->edits)) {
            (void)err_set(&err, ERR_INVALID, "the device changes nothing in a container");
            cdi_validate_add_problem(c, &err);
        }
        cdi_validate_leave(c, edits_mark);
        cdi_validate_leave(c, mark);
    }
    map_done(&names);
}

// --- Versions ------------------------------------------------------------------------------------

static const char *const versions[] = {"0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0",
                                       "0.6.0", "0.7.0", "0.8.0", "1.0.0", CDI_VERSION};
enum { V030 = 2, V040, V050, V060, V070, V110 = 9 };

static size_t cdi_validate_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

// Position in versions of the oldest that knows these edits.
static size_t version_of_edits(const struct cdi_edits *e)
{
    const struct cdi_intel_rdt *rdt = e->intel_rdt;
    if (e->net_devices.n || (rdt && (rdt->schemata.p || rdt->enable_monitoring)))
        return V110;
    if (rdt || e->additional_gids.n)
        return V070;
    size_t v = V030;
    vec_foreach(&e->mounts, m)
        if (m->type.n)
            v = V040;
    vec_foreach(&e->device_nodes, n)
        if (n->host_path.n)
            v = V050;
    return v;
}

// Upstream means to ask every device for mount types and host paths, but asks only the last one.
// With `lenient` so do we: what every runtime takes must not be refused here.
static size_t version_of_device(const struct cdi_spec *spec, const struct cdi_device *d,
                                bool lenient)
{
    size_t v = version_of_edits(&d->edits);
    if (lenient && v < V060 && d != &spec->devices.p[spec->devices.n - 1])
        v = V030;
    if (d->annotations.n)
        v = cdi_validate_max(v, V060);
    if (d->name.n && d->name.p[0] >= '0' && d->name.p[0] <= '9')
        v = cdi_validate_max(v, V050);
    return v;
}

static size_t version_of_spec(const struct cdi_spec *spec, bool lenient)
{
    size_t v = version_of_edits(&spec->edits);
    struct str vendor, class;
    if (spec->annotations.n ||
        (str_cut(spec->kind, '/', &vendor, &class) && str_find_char(class, '.') >= 0))
        v = cdi_validate_max(v, V060);
    vec_foreach(&spec->devices, d)
        v = cdi_validate_max(v, version_of_device(spec, d, lenient));
    return v;
}

const char *cdi_spec_min_version(const struct cdi_spec *spec)
{
    return versions[version_of_spec(spec, false)];
}

static void cdi_validate_version(struct checker *c, const struct cdi_spec *spec)
{
    struct str said = spec->version;
    if (str_starts(said, STR("v")))
        said = str_from(said, 1);
    for (size_t i = 0; i < array_len(versions); i++) {
        if (!str_eqz(said, versions[i]))
            continue;
        if (i < version_of_spec(spec, true))
            cdi_validate_problem(c, "cdiVersion",
                                 "fields of this spec need version %s or newer; cdiVersion is %.*s",
                                 cdi_spec_min_version(spec), STR_ARG(spec->version));
        return;
    }
    cdi_validate_problem(c, "cdiVersion",
                         "\"%.*s\" is no version of CDI; versions go from 0.3.0 to %s",
                         STR_ARG(cdi_validate_shorten(spec->version)), CDI_VERSION);
}

static void cdi_validate_kind(struct checker *c, struct str kind)
{
    struct str vendor, class;
    struct err err = {0};
    if (!cdi_kind_split(kind, &vendor, &class))
        cdi_validate_problem(c, "kind", "\"%.*s\" is not of the form vendor/class",
                             STR_ARG(cdi_validate_shorten(kind)));
    else if (cdi_check_vendor(vendor, &err) != 0 || cdi_check_class(class, &err) != 0)
        cdi_validate_problem(c, "kind", "%s", err.msg);
}

size_t cdi_spec_validate(const struct cdi_spec *spec, struct cdi_problems *out)
{
    struct checker c = {.out = out};
    cdi_validate_version(&c, spec);
    cdi_validate_kind(&c, spec->kind);
    size_t mark = cdi_validate_enter(&c, "containerEdits");
    cdi_validate_edits(&c, &spec->edits);
    cdi_validate_leave(&c, mark);
    cdi_validate_devices(&c, spec);
    sbuf_done(&c.path);
    return c.found;
}

int cdi_spec_check(const struct cdi_spec *spec, struct err *err)
{
    struct cdi_problems problems = {0};
    size_t n = cdi_spec_validate(spec, &problems);
    if (n > 0 && err)
        *err = problems.p[0];
    vec_done(&problems);
    return n > 0 ? -ERR_INVALID : 0;
}
