// SPDX-License-Identifier: Apache-2.0
//
// The Lease by which the controllers see that a driver lives. Without it, slices of a driver that
// is gone would be offered for ever.
#include "driver/sdk/alive.h"

#include <stdlib.h>

#include "api/meta.h"
#include "base/arena.h"
#include "base/list.h"
#include "codec/rfc3339.h"

#include "base/banned.h"

// Names of objects have at most 253 bytes; what is longer ends in a hash.
enum { NAME_MAX_LEN = 200, RENEWALS = 4 };

struct alive {
    struct alive_options o;
    struct arena arena;
    struct str name, reference;
    struct exec_timer timer;
    struct list calls;
    bool busy;
    bool held;    // the server has it
    bool refused; // the server does not want it
};

struct call {
    struct list_node node;
    struct alive *owner;
};

static const struct api_kind *alive_lease_kind(void)
{
    return api_kind_find(STR("coordination.k8s.io/v1"), STR("Lease"));
}

static struct call *alive_call_new(struct alive *a)
{
    struct call *c = xcalloc(1, sizeof(*c));
    c->owner = a;
    list_push_back(&a->calls, &c->node);
    return c;
}

// alive_call_take ends a call; NULL when who asked is gone.
static struct alive *alive_call_take(struct call *c)
{
    struct alive *a = list_linked(&c->node) ? c->owner : NULL;
    list_remove(&c->node);
    free(c);
    return a;
}

static struct api_time now_micros(const struct alive *a)
{
    struct api_time t = {.at = moment_from_ns(exec_wall_ns(a->o.client->exec)), .set = true};
    t.at.nsec -= t.at.nsec % 1000;
    return t;
}

static void alive_settle_write(struct alive *a, const struct client_answer *answer)
{
    bool known = alive_known(a), held = a->held;
    a->busy = false;
    if (answer->code == 0)
        a->held = true;
    else if (answer->code == -ERR_FORBIDDEN || answer->code == -ERR_NOT_FOUND)
        a->refused = true;
    if (answer->code != 0 && !known && answer->err && a->o.trouble)
        a->o.trouble(a->o.arg, answer->err);
    if (known != alive_known(a) || held != a->held)
        a->o.changed(a->o.arg);
}

static void alive_on_created(void *arg, const struct client_answer *answer)
{
    struct alive *a = alive_call_take(arg);
    if (a)
        alive_settle_write(a, answer);
}

static void alive_create_lease(struct alive *a)
{
    struct api_owner_reference owner = {
        .api_version = STR("v1"), .kind = STR("Node"), .name = a->o.node, .uid = a->o.node_uid};
    struct api_lease lease = {
        .metadata = {.name = a->name, .namespace = a->o.namespace},
        .spec = {.holder_identity = a->o.holder,
                 .has_holder_identity = true,
                 .lease_duration_seconds = (int32_t)a->o.seconds,
                 .has_lease_duration_seconds = true,
                 .renew_time = now_micros(a)},
    };
    if (a->o.node_uid.n)
        lease.metadata.owner_references = (struct api_owner_reference_array){&owner, 1};
    const struct api_object object = {alive_lease_kind(), &lease};
    api_set_type_meta(&object);
    client_create(a->o.client, &object, NULL, alive_on_created, alive_call_new(a));
}

static void alive_on_renewed(void *arg, const struct client_answer *answer)
{
    struct alive *a = alive_call_take(arg);
    if (a && answer->code == -ERR_NOT_FOUND)
        alive_create_lease(a);
    else if (a)
        alive_settle_write(a, answer);
}

static void alive_renew_lease(void *arg)
{
    struct alive *a = arg;
    exec_timer_start(a->o.client->exec, &a->timer, a->o.seconds * CLOCK_NS_PER_SEC / RENEWALS);
    if (a->busy)
        return;
    cleanup_sbuf struct sbuf patch = {0}, now = {0};
    rfc3339_write_micros(now_micros(a).at, &now);
    sbuf_addf(&patch,
              "{\"spec\":{\"holderIdentity\":\"%.*s\",\"leaseDurationSeconds\":%lld,"
              "\"renewTime\":\"%s\"}}",
              STR_ARG(a->o.holder), (long long)a->o.seconds, now.p);
    const struct client_key at = {alive_lease_kind(), a->o.namespace, a->name};
    a->busy = true;
    client_patch(a->o.client, &at, CLIENT_PATCH_MERGE, sbuf_str(&patch), NULL, alive_on_renewed,
                 alive_call_new(a));
}

// lease_name is DRIVER-POOL; pools may have slashes in their names.
static struct str lease_name(const struct alive_options *o, struct arena *arena)
{
    struct str whole = arena_strf(arena, "%.*s-%.*s", STR_ARG(o->driver), STR_ARG(o->pool));
    char *at = arena_dup(arena, whole.p, whole.n, 1);
    for (size_t i = 0; i < whole.n; i++)
        if (at[i] == '/')
            at[i] = '.';
    if (whole.n <= NAME_MAX_LEN)
        return str_make(at, whole.n);
    char letters[12];
    meta_hash_letters(meta_hash(META_HASH_START, whole), letters, sizeof(letters));
    return arena_strf(arena, "%.*s-%.*s", NAME_MAX_LEN, at, (int)sizeof(letters), letters);
}

struct alive *alive_new(const struct alive_options *options)
{
    struct alive *a = xcalloc(1, sizeof(*a));
    a->o = *options;
    a->o.namespace = arena_str(&a->arena, options->namespace);
    a->o.holder = arena_str(&a->arena, options->holder);
    a->o.node = arena_str(&a->arena, options->node);
    a->o.node_uid = arena_str(&a->arena, options->node_uid);
    a->o.seconds = options->seconds > 0 ? options->seconds : ALIVE_SECONDS;
    a->name = lease_name(options, &a->arena);
    a->reference =
        arena_strf(&a->arena, "%.*s/%.*s", STR_ARG(options->namespace), STR_ARG(a->name));
    list_init(&a->calls);
    a->timer = (struct exec_timer){.fn = alive_renew_lease, .arg = a};
    exec_timer_start(a->o.client->exec, &a->timer, 0);
    return a;
}

void alive_free(struct alive *a)
{
    if (!a)
        return;
    exec_timer_stop(a->o.client->exec, &a->timer);
    while (list_pop_front(&a->calls))
        ;
    arena_done(&a->arena);
    free(a);
}

bool alive_known(const struct alive *a)
{
    return a->held || a->refused;
}

struct str alive_lease(const struct alive *a)
{
    return a->held ? a->reference : STR("");
}
