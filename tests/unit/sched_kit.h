// SPDX-License-Identifier: Apache-2.0
//
// A world with one scheduler, and short words for what the tests are made of.
#ifndef UNIT_SCHED_KIT_H
#define UNIT_SCHED_KIT_H

#include "sched_world.h"

struct kit {
    struct world w;
    struct client *client;
    struct sched *s;
};

#define CLASS(name, rest)                                                               \
    "{'apiVersion':'resource.k8s.io/v1','kind':'DeviceClass','metadata':{'name':'" name \
    "'},'spec':{" rest "}}"

static inline void kit_start_with(struct kit *k, struct sched_options options)
{
    world_start(&k->w);
    k->client = world_client(&k->w);
    options.client = k->client;
    world_put(&k->w,
              CLASS("gpu", "'selectors':[{'cel':{'expression':'device.driver == \\\"drv\\\"'}}]"));
    world_put(&k->w, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'ns'}}");
    k->s = sched_new(&options);
    sched_start(k->s);
    world_run(&k->w, 1);
}

static inline void kit_start(struct kit *k)
{
    kit_start_with(k, (struct sched_options){0});
}

// kit_end ends it all, and demands that the caches were right.
static inline void kit_end(struct kit *k)
{
    cleanup_sbuf struct sbuf problems = {0};
    if (!sched_check(k->s, &problems))
        fail_msg("%s", problems.p);
    world_sound(&k->w);
    sched_free(k->s);
    world_end(&k->w);
}

// rest: more of the node, such as ",'spec':{…}".
static inline void kit_node(struct kit *k, const char *name, const char *rest)
{
    world_putf(&k->w,
               "{'apiVersion':'v1','kind':'Node','metadata':{'name':'%s','labels':"
               "{'kubernetes.io/hostname':'%s'}}%s,'status':{'allocatable':"
               "{'cpu':'4','memory':'32Gi','pods':'110','ephemeral-storage':'100Gi'}}}",
               name, name, rest);
}

static inline void kit_gpus(struct kit *k, const char *node, int n)
{
    cleanup_sbuf struct sbuf devices = {0};
    for (int i = 0; i < n; i++)
        sbuf_addf(&devices, "%s{'name':'gpu-%d'}", i ? "," : "", i);
    world_putf(&k->w,
               "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':"
               "{'name':'slice-%s'},'spec':{'driver':'drv','nodeName':'%s','pool':{'name':'%s',"
               "'generation':1,'resourceSliceCount':1},'devices':[%s]}}",
               node, node, node, devices.p);
}

static inline void kit_claim(struct kit *k, const char *name, int count)
{
    world_putf(&k->w,
               "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'%s',"
               "'namespace':'ns'},'spec':{'devices':{'requests':[{'name':'r','exactly':"
               "{'deviceClassName':'gpu','allocationMode':'ExactCount','count':%d}}]}}}",
               name, count);
}

// spec: more of the pod's spec, without comma in front.
static inline void kit_pod_of(struct kit *k, const char *name, const char *meta, const char *spec)
{
    world_putf(&k->w,
               "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','namespace':'ns'%s},'spec':"
               "{'schedulerName':'dray'%s%s%s}}",
               name, meta, *spec ? "," : "", spec,
               strstr(spec, "'containers'") ? "" : ",'containers':[{'name':'c','image':'i'}]");
}

static inline void kit_pod(struct kit *k, const char *name, const char *spec)
{
    kit_pod_of(k, name, "", spec);
}

// kit_gpu_pod: a pod and its own claim for n devices.
static inline void kit_gpu_pod(struct kit *k, const char *name, int n)
{
    kit_claim(k, name, n);
    cleanup_sbuf struct sbuf spec = {0};
    sbuf_addf(&spec, "'resourceClaims':[{'name':'gpu','resourceClaimName':'%s'}]", name);
    kit_pod(k, name, spec.p);
}

// kit_holds says whether a text is part of another.
static inline bool kit_holds(struct str text, const char *part)
{
    return str_contains(text, str_z(part));
}

// kit_told demands that a pod is pending and its condition has this in it.
#define kit_told(k, key, part)                                                     \
    do {                                                                           \
        struct str kit_told_text = world_condition(&(k)->w, (key));                \
        assert_int_equal(world_node_of(&(k)->w, (key)).n, 0);                      \
        if (!kit_holds(kit_told_text, (part)))                                     \
            fail_msg("\"%s\" is not in \"%.*s\"", (part), STR_ARG(kit_told_text)); \
    } while (0)

#define kit_on(k, key, node) assert_str(world_node_of(&(k)->w, (key)), (node))

static inline struct sched_stats kit_stats(const struct kit *k)
{
    struct sched_stats st;
    sched_get_stats(k->s, &st);
    return st;
}

#endif
