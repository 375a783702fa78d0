// SPDX-License-Identifier: Apache-2.0
//
// The registered drivers and their instances: chooses versions and the instance to call, keeps a
// connection to each, and follows their health streams.
#include "node/dra/plugins.h"

#include <stdlib.h>

#include <sys/un.h>

#include "api/names.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"

#include "base/banned.h"

#define HEALTH_RETRY_NS (5 * CLOCK_NS_PER_SEC)

struct plugin {
    struct plugins *owner;
    char *driver;
    char *endpoint;
    const char *service, *health_service; // as listed; NULL: none
    struct transport_link *link;
    bool connected;
    bool watching;  // a health stream is open
    bool no_health; // the driver does not implement it
    bool closing;
    struct exec_timer health_retry;
};

struct plugin_list VEC(struct plugin *);

struct driver {
    char *name;
    struct plugin_list instances;
};

struct driver_map MAP(struct driver);

struct plugins {
    struct plugins_options options;
    struct driver_map drivers;
};

// --- Versions ------------------------------------------------------------------------------------

static const char *const dra_services[] = {PLUGIN_ID_DRA_V1, PLUGIN_ID_DRA_V1BETA1};
static const char *const health_services[] = {PLUGIN_ID_HEALTH_V1, PLUGIN_ID_HEALTH_ALPHA};

// The first of the plugin's list that is known counts.
static const char *plugins_choose_service(const struct plugin_strs *offered)
{
    vec_foreach(offered, s)
        for (size_t i = 0; i < array_len(dra_services); i++)
            if (str_eqz(*s, dra_services[i]))
                return dra_services[i];
    return NULL;
}

// Here our own order counts.
static const char *plugins_choose_health(const struct plugin_strs *offered)
{
    for (size_t i = 0; i < array_len(health_services); i++)
        vec_foreach(offered, s)
            if (str_eqz(*s, health_services[i]))
                return health_services[i];
    return NULL;
}

static void plugins_add_list(struct sbuf *out, const struct str *texts, size_t n)
{
    sbuf_addc(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            sbuf_addc(out, ' ');
        sbuf_add_quoted(out, texts[i]);
    }
    sbuf_addc(out, ']');
}

// kubelet takes any text. The API takes no other driver names, and one like "=other.example.com"
// would be another driver's in a field selector.
static int plugins_check_name(const struct plugin_info *info, struct err *err)
{
    if (info->name.n == 0)
        return err_set(err, ERR_INVALID, "DRA driver name is empty");
    if (info->name.n > PLUGINS_NAME_MAX || !name_is_dns_subdomain(info->name))
        return err_set(err, ERR_INVALID,
                       "DRA driver name \"%.*s\" is not a DNS name of at most %d characters",
                       STR_ARG(str_upto(info->name, PLUGINS_NAME_MAX)), PLUGINS_NAME_MAX);
    if (info->endpoint.n >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return err_set(err, ERR_INVALID,
                       "the endpoint of DRA driver plugin %.*s is too long for a socket",
                       STR_ARG(info->name));
    return 0;
}

// plugins_check_info checks the name and the versions of a plugin. Returns 0 or -ERR_INVALID with
// kubelet's text where kubelet has one.
static int plugins_check_info(const struct plugin_info *info, struct err *err)
{
    int r = plugins_check_name(info, err);
    if (r < 0)
        return r;
    static const struct str ours[] = {STR_INIT(PLUGIN_ID_DRA_V1), STR_INIT(PLUGIN_ID_DRA_V1BETA1)};
    if (plugins_choose_service(&info->supported_versions))
        return 0;
    cleanup_sbuf struct sbuf why = {0};
    if (info->supported_versions.n == 0) {
        sbuf_addz(&why, "empty list of supported gRPC services (aka supported versions)");
    } else {
        sbuf_addz(&why, "none of services supported by the plugin (");
        plugins_add_list(&why, info->supported_versions.p, info->supported_versions.n);
        sbuf_addz(&why, ") are supported by the kubelet (");
        plugins_add_list(&why, ours, array_len(ours));
        sbuf_addc(&why, ')');
    }
    return err_set(err, ERR_INVALID,
                   "invalid supported gRPC versions of DRA driver plugin %.*s at endpoint %.*s: "
                   "%.*s",
                   STR_ARG(info->name), STR_ARG(info->endpoint), STR_ARG(sbuf_str(&why)));
}

// --- Health --------------------------------------------------------------------------------------

static void plugins_health_start(struct plugin *p);

static void plugins_on_health_retry(void *arg)
{
    plugins_health_start(arg);
}

static void plugins_on_health_message(void *arg, struct str message)
{
    struct plugin *p = arg;
    const struct plugins_options *o = &p->owner->options;
    if (!p->closing && o->health_message)
        o->health_message(o->arg, str_z(p->driver), message);
}

static void plugins_on_health_end(void *arg, const struct grpc_result *r)
{
    struct plugin *p = arg;
    const struct plugins_options *o = &p->owner->options;
    p->watching = false;
    if (o->health_end)
        o->health_end(o->arg, str_z(p->driver));
    if (p->closing)
        return;
    if (r->status == GRPC_UNIMPLEMENTED) {
        p->no_health = true; // one that gains it registers again
        return;
    }
    p->health_retry.fn = plugins_on_health_retry;
    p->health_retry.arg = p;
    exec_timer_start(o->exec, &p->health_retry,
                     o->health_retry_ns ? o->health_retry_ns : HEALTH_RETRY_NS);
}

static void plugins_health_start(struct plugin *p)
{
    const struct plugins_options *o = &p->owner->options;
    if (!o->health || !p->health_service || p->no_health || p->watching)
        return;
    bool v1 = strcmp(p->health_service, PLUGIN_ID_HEALTH_V1) == 0;
    const struct grpc_request q = {
        .method = v1 ? STR(PLUGIN_HEALTH_V1) : STR(PLUGIN_HEALTH_ALPHA),
        .received = plugins_on_health_message,
        .done = plugins_on_health_end,
        .arg = p,
    };
    p->watching = true;
    o->transport->call(p->link, &q);
}

// --- Instances -----------------------------------------------------------------------------------

bool plugins_usable(const struct plugins *p, struct str driver)
{
    const struct driver *d = map_get(&p->drivers, driver);
    if (!d)
        return false;
    vec_foreach(&d->instances, instance)
        if ((*instance)->connected)
            return true;
    return false;
}

static void plugins_notify_changed(struct plugins *p, struct str driver)
{
    if (p->options.changed)
        p->options.changed(p->options.arg, driver, plugins_usable(p, driver));
}

static void plugins_on_state(void *arg, bool connected)
{
    struct plugin *p = arg;
    p->connected = connected;
    plugins_notify_changed(p->owner, str_z(p->driver));
}

static struct driver *plugins_driver_put(struct plugins *p, struct str name)
{
    struct driver *d = map_get(&p->drivers, name);
    if (d)
        return d;
    char *copy = xstrndup(name.p, name.n);
    d = map_put(&p->drivers, str_make(copy, name.n));
    d->name = copy;
    return d;
}

static struct plugin *plugins_find_instance(const struct driver *d, struct str endpoint)
{
    vec_foreach(&d->instances, instance)
        if (str_eqz(endpoint, (*instance)->endpoint))
            return *instance;
    return NULL;
}

static int plugins_check_room(const struct plugins *p, const struct plugin_info *info,
                              struct err *err)
{
    const struct driver *d = map_get(&p->drivers, info->name);
    if (d && plugins_find_instance(d, info->endpoint))
        return err_set(err, ERR_ALREADY_EXISTS,
                       "endpoint %.*s already registered for DRA driver plugin %.*s",
                       STR_ARG(info->endpoint), STR_ARG(info->name));
    if ((d && d->instances.n >= PLUGINS_PER_DRIVER_MAX) ||
        (!d && map_len(&p->drivers) >= PLUGINS_DRIVERS_MAX))
        return err_set(err, ERR_TOO_MANY, "too many plugins are registered");
    return 0;
}

int plugins_add(struct plugins *p, const struct plugin_info *info, struct err *err)
{
    int r = plugins_check_info(info, err);
    if (r == 0)
        r = plugins_check_room(p, info, err);
    if (r < 0)
        return r;
    struct plugin *one = xcalloc(1, sizeof(*one));
    one->owner = p;
    one->driver = xstrndup(info->name.p, info->name.n);
    one->endpoint = xstrndup(info->endpoint.p, info->endpoint.n);
    one->service = plugins_choose_service(&info->supported_versions);
    one->health_service = plugins_choose_health(&info->supported_versions);
    struct driver *d = plugins_driver_put(p, info->name);
    vec_push(&d->instances, one);
    one->link =
        p->options.transport->open(p->options.transport, one->endpoint, plugins_on_state, one);
    plugins_health_start(one);
    plugins_notify_changed(p, info->name);
    return 0;
}

// Ends an instance that is in no list any more; its calls end before.
static void plugins_plugin_free(struct plugin *one)
{
    struct plugins *p = one->owner;
    one->closing = true;
    exec_timer_stop(p->options.exec, &one->health_retry);
    p->options.transport->close(one->link);
    free(one->driver);
    free(one->endpoint);
    free(one);
}

void plugins_remove(struct plugins *p, struct str driver, struct str endpoint)
{
    struct driver *d = map_get(&p->drivers, driver);
    struct plugin *one = d ? plugins_find_instance(d, endpoint) : NULL;
    if (!d || !one)
        return;
    size_t kept = 0;
    vec_foreach(&d->instances, instance)
        if (*instance != one)
            d->instances.p[kept++] = *instance;
    d->instances.n = kept;
    cleanup_free char *name = d->name;
    if (kept == 0) {
        struct driver gone = *d;
        (void)map_del(&p->drivers, str_z(name));
        vec_done(&gone.instances);
    } else {
        name = xstrndup(name, strlen(name));
    }
    plugins_plugin_free(one);
    plugins_notify_changed(p, str_z(name));
}

struct plugin *plugins_pick(const struct plugins *p, struct str driver, struct err *err)
{
    const struct driver *d = map_get(&p->drivers, driver);
    if (!d || d->instances.n == 0) {
        if (driver.n == 0)
            (void)err_set(err, ERR_NOT_FOUND, "DRA driver name is empty");
        else
            (void)err_set(err, ERR_NOT_FOUND, "DRA driver %.*s is not registered", STR_ARG(driver));
        return NULL;
    }
    for (size_t i = d->instances.n; i-- > 0;)
        if (d->instances.p[i]->connected)
            return d->instances.p[i];
    return d->instances.p[d->instances.n - 1];
}

const char *plugins_service(const struct plugin *p)
{
    return strcmp(p->service, PLUGIN_ID_DRA_V1) == 0 ? PLUGIN_DRA_V1 : PLUGIN_DRA_V1BETA1;
}

void plugins_call(struct plugin *p, struct str method, struct str message, int64_t timeout_ns,
                  void (*done)(void *arg, const struct grpc_result *result), void *arg)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addz(&path, plugins_service(p));
    sbuf_add(&path, method);
    // Waits while the connection is being made; fails at once where that failed.
    const struct grpc_request q = {
        .method = sbuf_str(&path),
        .message = message,
        .timeout_ns = timeout_ns,
        .done = done,
        .arg = arg,
    };
    p->owner->options.transport->call(p->link, &q);
}

void plugins_each(const struct plugins *p, void (*fn)(void *arg, const struct plugin_view *v),
                  void *arg)
{
    map_foreach(&p->drivers, i) {
        vec_foreach(&map_value(&p->drivers, i)->instances, instance) {
            const struct plugin *one = *instance;
            const struct plugin_view v = {
                .driver = str_z(one->driver),
                .endpoint = str_z(one->endpoint),
                .service = str_z(one->service),
                .health_service = str_z(one->health_service),
                .connected = one->connected,
            };
            fn(arg, &v);
        }
    }
}

// --- Construction --------------------------------------------------------------------------------

struct plugins *plugins_new(const struct plugins_options *options)
{
    struct plugins *p = xcalloc(1, sizeof(*p));
    p->options = *options;
    return p;
}

void plugins_free(struct plugins *p)
{
    if (!p)
        return;
    p->options.changed = NULL;
    p->options.health_end = NULL;
    map_foreach(&p->drivers, i) {
        struct driver *d = map_value(&p->drivers, i);
        vec_foreach(&d->instances, instance)
            plugins_plugin_free(*instance);
        vec_done(&d->instances);
        free(d->name);
    }
    map_done(&p->drivers);
    free(p);
}
