// SPDX-License-Identifier: Apache-2.0
//
// What a pod refers to: config maps, secrets, tokens of its service account, claims for storage
// with their volumes. Fetched from the API before they are needed, kept by reference while the pod
// runs, fetched again for volumes that follow changes.
#ifndef NODE_PODS_POD_REFS_H
#define NODE_PODS_POD_REFS_H

#include <stdbool.h>
#include <stddef.h>

#include "api/types.h"
#include "base/exec.h"
#include "base/list.h"
#include "base/vec.h"
#include "client/client.h"

enum pod_ref_kind { REF_CONFIG_MAP, REF_SECRET, REF_TOKEN, REF_VOLUME_CLAIM };

struct pod_ref {
    enum pod_ref_kind kind;
    char *name;                  // of the service account for tokens
    char *audience;              // of tokens
    int64_t expiration_s;        // of tokens
    struct typed_object *object; // NULL: not there; of tokens a TokenRequest
    struct typed_object *volume; // of claims: the PersistentVolume; NULL: not bound, or not there
    int64_t renew_ns;            // of tokens: when another one is due, monotonic
    struct err err;              // why it is not there; code 0: it is
};

struct pod_refs {
    struct VEC(struct pod_ref) all;
    size_t waiting;
    struct list calls;
};

// pod_refs_gather lists what a pod refers to; nothing is fetched yet.
void pod_refs_gather(struct pod_refs *r, const struct api_pod *pod);
void pod_refs_done(struct pod_refs *r);

// pod_refs_fetch fetches everything (tokens only when they are due, claims until their volumes are
// known); done runs once, after the call has returned. What could not be fetched has its err set:
// that may be legal (optional).
void pod_refs_fetch(struct pod_refs *r, struct client *client, const struct typed_object *pod,
                    void (*done)(void *arg), void *arg);

// pod_refs_cancel: done does not come.
void pod_refs_cancel(struct pod_refs *r);

const struct pod_ref *pod_refs_token(const struct pod_refs *r, struct str audience,
                                     int64_t expiration_s);

// pod_refs_config_map and pod_refs_secret: the object, or NULL with kubelet's text in err
// (configmap "x" not found).
const struct api_config_map *pod_refs_config_map(const struct pod_refs *r, struct str name,
                                                 struct err *err);
const struct api_secret *pod_refs_secret(const struct pod_refs *r, struct str name,
                                         struct err *err);

// pod_refs_volume is the volume of a claim for storage, or NULL with kubelet's text in err (error
// processing PVC …).
const struct api_persistent_volume *pod_refs_volume(const struct pod_refs *r, struct str claim,
                                                    struct err *err);

#endif
