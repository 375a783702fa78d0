// SPDX-License-Identifier: Apache-2.0
//
// Controllers on a registry in memory and a fake clock.
#ifndef UNIT_CTL_WORLD_H
#define UNIT_CTL_WORLD_H

#include "ctl/ctl.h"
#include "inproc/local.h"
#include "registry_world.h"

#define WITH(controller) (1U << (controller))

struct ctl_world {
    struct world *w;
    struct client *client;
    struct ctl *ctl;
    unsigned controllers; // WITH(CTL_…) of those that are off otherwise
};

// How many pods that are over may stay, and what signs the server's certificate.
#define WORLD_TERMINATED_PODS 3
#define WORLD_ROOT_CA         "the CA"

// ctl_world_make starts the controllers and lets nothing happen yet.
static inline void ctl_world_make(struct ctl_world *c)
{
    struct ctl_options o = {.client = c->client,
                            .exec = exec_sim_exec(c->w->sim),
                            .features = &c->w->features,
                            .terminated_pods = WORLD_TERMINATED_PODS,
                            .root_ca = STR(WORLD_ROOT_CA)};
    for (unsigned i = CTL_WORKLOADS; i < CTL_CONTROLLERS; i++)
        o.off[i] = !(c->controllers & WITH(i));
    c->ctl = ctl_new(&o);
    ctl_start(c->ctl);
}

static inline void ctl_world_lead(struct ctl_world *c)
{
    ctl_world_make(c);
    world_run(c->w);
}

static inline void ctl_world_start(struct ctl_world *c, const char *gates)
{
    struct err err = {0};
    c->w = world_new();
    assert_int_equal(features_parse(&c->w->features, str_z(gates), &err), 0);
    const struct registry_user user = {.name = STR("system:kube-controller-manager")};
    c->client = local_client_new(c->w->registry, exec_sim_exec(c->w->sim), &user);
    ctl_world_lead(c);
}

// ctl_world_restart is a crash and a new start of the controllers.
static inline void ctl_world_restart(struct ctl_world *c)
{
    ctl_free(c->ctl);
    world_run(c->w);
    ctl_world_lead(c);
}

static inline void ctl_world_end(struct ctl_world *c)
{
    ctl_free(c->ctl);
    world_run(c->w);
    client_free(c->client);
    world_free(c->w);
}

// settle lets everything happen that happens within a second.
static inline void settle(struct ctl_world *c)
{
    world_pass(c->w, 1);
}

// comes_to_rest runs what is due now; false: it goes on and on.
static inline bool comes_to_rest(struct ctl_world *c)
{
    enum { MANY = 100000 };
    int steps = 0;
    while (steps < MANY && exec_sim_step(c->w->sim))
        steps++;
    return steps < MANY;
}

#define TEST_WITH_CTLS(name, gates, which)           \
    static void name##_in(struct ctl_world *c);      \
    static void name(void **state)                   \
    {                                                \
        (void)state;                                 \
        struct ctl_world c = {.controllers = which}; \
        ctl_world_start(&c, gates);                  \
        name##_in(&c);                               \
        ctl_world_end(&c);                           \
    }                                                \
    static void name##_in(struct ctl_world *c)

#define TEST_WITH_CTL_GATES(name, gates) TEST_WITH_CTLS(name, gates, 0)
#define TEST_WITH_CTL(name)              TEST_WITH_CTLS(name, "", 0)

// find_one gives the name of the only object of a kind in the namespace default; NULL when there is
// none. It lives in the world's arena.
static inline const char *find_one(struct ctl_world *c, const char *api_version, const char *kind)
{
    struct err err = {0};
    struct store_walk walk = {.kind = api_kind_find(str_z(api_version), str_z(kind)),
                              .one_namespace = true,
                              .namespace = STR("default")};
    assert_int_equal(store_walk_start(c->w->store, &walk, &err), 0);
    const struct object *o = store_walk_next(c->w->store, &walk);
    const char *name = o ? arena_str(&c->w->arena, o->name).p : NULL;
    if (o && store_walk_next(c->w->store, &walk))
        fail_msg("more than one %s", kind);
    store_walk_done(&walk);
    return name;
}

static inline size_t count_of(struct ctl_world *c, const char *api_version, const char *kind)
{
    return store_count(c->w->store, api_kind_find(str_z(api_version), str_z(kind)), STR("default"));
}

static inline const char *the_claim(struct ctl_world *c)
{
    return find_one(c, "resource.k8s.io/v1", "ResourceClaim");
}

#define TEMPLATE(name) \
    ((struct target){"resource.k8s.io/v1", "ResourceClaimTemplate", "", "default", name})
#define POD_STATUS(name) ((struct target){"v1", "Pod", "status", "default", name})
#define SLICE(name)      ((struct target){"resource.k8s.io/v1", "ResourceSlice", "", "", name})
#define RULE(name)       ((struct target){"resource.k8s.io/v1", "DeviceTaintRule", "", "", name})
#define NODE(name)       ((struct target){"v1", "Node", "", "", name})

#define TEMPLATE_JSON                                                                      \
    "{\"metadata\":{\"name\":\"t\"},\"spec\":{\"metadata\":{\"labels\":{\"l\":\"1\"},"     \
    "\"annotations\":{\"a\":\"2\"}},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\"," \
    "\"exactly\":{\"deviceClassName\":\"gpu\"}}]}}}}"
#define CONTAINERS           "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]"
#define POD_JSON(name, rest) "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{" CONTAINERS rest "}}"
#define FROM_TEMPLATE        ",\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimTemplateName\":\"t\"}]"
#define FROM_CLAIM           ",\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimName\":\"shared\"}]"

#define CLAIM_JSON(name)                                                                          \
    "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\"," \
    "\"exactly\":{\"deviceClassName\":\"gpu\"}}]}}}"

// allocate does what a scheduler does: finalizer, then allocation and reservation (users is JSON).
static inline void allocate(struct ctl_world *c, const char *claim, const char *device,
                            const char *users)
{
    struct sbuf b = {0};
    assert_ok(do_patch(c->w, CLAIM(claim), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"finalizers\":[\"resource.kubernetes.io/"
                       "delete-protection\"]}}"));
    sbuf_addf(&b,
              "{\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\","
              "\"driver\":\"d.io\",\"pool\":\"p\",\"device\":\"%s\"}]}},\"reservedFor\":[%s]}}",
              device, users);
    assert_ok(do_patch(c->w, CLAIM_STATUS(claim), REGISTRY_PATCH_MERGE, b.p));
    sbuf_done(&b);
}

// consumer is a pod as an entry of reservedFor.
static inline const char *consumer(struct ctl_world *c, const char *pod)
{
    (void)do_get(c->w, POD(pod));
    const char *uid = reply_field(c->w, "metadata.uid");
    return arena_strf(&c->w->arena, "{\"resource\":\"pods\",\"name\":\"%s\",\"uid\":\"%s\"}", pod,
                      uid)
        .p;
}

static inline void bind_pod(struct ctl_world *c, const char *pod)
{
    const char *binding =
        arena_strf(&c->w->arena,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"%s\"},"
                   "\"target\":{\"kind\":\"Node\",\"name\":\"n1\"}}",
                   pod)
            .p;
    assert_ok(do_create(c->w, (struct target){"v1", "Pod", "binding", "default", pod}, binding));
}

#endif
