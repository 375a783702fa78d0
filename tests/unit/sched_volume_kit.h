// SPDX-License-Identifier: Apache-2.0
//
// Short words for tests about volumes that outlive pods.
#ifndef UNIT_SCHED_VOLUME_KIT_H
#define UNIT_SCHED_VOLUME_KIT_H

#include "sched_kit.h"

#define DATA  "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'data'}}]"
#define BOUND "pv.kubernetes.io/bind-completed"
#define ON_NODE(n)                                                                    \
    ",'nodeAffinity':{'required':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'" \
    "kubernetes.io/hostname','operator':'In','values':['" n "']}]}]}}"

static inline void class_put(struct kit *k, const char *name, const char *provisioner,
                             const char *mode, const char *rest)
{
    world_putf(&k->w,
               "{'apiVersion':'storage.k8s.io/v1','kind':'StorageClass','metadata':{'name':'%s'},"
               "'provisioner':'%s','volumeBindingMode':'%s'%s}",
               name, provisioner, mode, rest);
}

static inline void local_class(struct kit *k)
{
    class_put(k, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", "");
}

// meta, spec: more of each, with a comma in front.
static inline void claim_put(struct kit *k, const char *name, const char *class, const char *size,
                             const char *meta, const char *spec)
{
    world_putf(&k->w,
               "{'apiVersion':'v1','kind':'PersistentVolumeClaim','metadata':{'name':'%s',"
               "'namespace':'ns'%s},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':"
               "'%s','resources':{'requests':{'storage':'%s'}}%s},'status':{'phase':'Pending'}}",
               name, meta, class, size, spec);
}

static inline void claim_bound(struct kit *k, const char *name, const char *volume,
                               const char *mode)
{
    world_putf(&k->w,
               "{'apiVersion':'v1','kind':'PersistentVolumeClaim','metadata':{'name':'%s',"
               "'namespace':'ns','annotations':{'" BOUND "':'yes'}},'spec':{'accessModes':['%s'],"
               "'volumeName':'%s'},'status':{'phase':'Bound'}}",
               name, mode, volume);
}

static inline void volume_put(struct kit *k, const char *name, const char *class, const char *size,
                              const char *meta, const char *spec)
{
    world_putf(&k->w,
               "{'apiVersion':'v1','kind':'PersistentVolume','metadata':{'name':'%s'%s},'spec':"
               "{'capacity':{'storage':'%s'},'accessModes':['ReadWriteOnce'],'storageClassName':"
               "'%s'%s},'status':{'phase':'Available'}}",
               name, meta, size, class, spec);
}

// What the PersistentVolume controller does once a volume is given to a claim.
static inline void controller_binds(struct kit *k, const char *claim, const char *class,
                                    const char *volume)
{
    cleanup_sbuf struct sbuf spec = {0};
    sbuf_addf(&spec, ",'volumeName':'%s'", volume);
    claim_put(k, claim, class, "1Gi", ",'annotations':{'" BOUND "':'yes'}", spec.p);
}

#endif
