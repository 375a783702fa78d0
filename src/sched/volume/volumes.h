// SPDX-License-Identifier: Apache-2.0
//
// Volumes that outlive pods: whether a pod's PersistentVolumeClaims are there, from which nodes
// their volumes can be reached, and which volumes its unbound claims shall get. Kube-scheduler's
// VolumeBinding, VolumeRestrictions, VolumeZone and NodeVolumeLimits. Nothing is read before a pod
// with such a claim comes. Private to src/sched.
#ifndef SCHED_VOLUME_VOLUMES_H
#define SCHED_VOLUME_VOLUMES_H

#include "api/storage.h"
#include "base/list.h"
#include "base/map.h"
#include "client/informer.h"

struct sched;
struct sched_pod;

enum volume_kind {
    VOLUME_CLAIMS,
    VOLUME_VOLUMES,
    VOLUME_CLASSES,
    VOLUME_NEEDED,                // without those above volumes are not looked at
    VOLUME_NODES = VOLUME_NEEDED, // CSINode
    VOLUME_DRIVERS,
    VOLUME_CAPACITIES,
    VOLUME_KINDS,
};

// absent: the server has no such kind. forbidden: it has, and does not show us.
enum volume_listed { VOLUME_UNKNOWN, VOLUME_LISTED, VOLUME_ABSENT, VOLUME_FORBIDDEN };

struct bind_volume;

// Receivers of the news that a kind has been listed.
struct volume_listener {
    struct sched *s;
    enum volume_kind kind;
};

struct volumes {
    struct informer *informers[VOLUME_KINDS]; // NULL: not watched yet
    enum volume_listed listed[VOLUME_KINDS];
    struct volume_listener listeners[VOLUME_KINDS];
    size_t by_class;      // index of volumes
    size_t room_by_class; // index of capacities
    // What pods on their way have been given and the watch does not show yet; keys are the values'
    // own.
    struct bind_volume_map MAP(struct bind_volume *) by_volume; // by the volume's name
    struct bind_volume_map by_claim;                            // by the claim's namespace/name
    struct list sharing; // bindings that wait for what another pod's writes: binding.volume_wait
};

// A claim that a pod names among its volumes.
struct volume_ref {
    struct str name;
    struct str
        made_for; // a volume of the pod that the claim is made for; empty: it is the user's own
};

// volumes_next gives the claims of a pod, one a call; *at starts as 0. False: there is none any
// more. Claims made for a volume get their names in arena.
bool volumes_next(const struct api_pod *pod, size_t *at, struct arena *arena,
                  struct volume_ref *ret);

// volumes_used: the pod names at least one claim. volumes_uses: it names this one.
bool volumes_used(const struct api_pod *pod);
bool volumes_uses(const struct api_pod *pod, struct str name);

void volumes_init(struct sched *s);
void volumes_done(struct sched *s);

// volumes_watch begins to watch, if that has not begun.
void volumes_watch(struct sched *s);

// volumes_known: it is clear for every kind whether it can be listed. volumes_on: volumes are
// looked at.
bool volumes_known(const struct sched *s);
bool volumes_on(const struct sched *s);

// volumes_forbidden is a kind that the server does not let us list; NULL: there is none. To place a
// pod that has volumes without a look at them could put it where it cannot reach them.
const struct api_kind *volumes_forbidden(const struct sched *s);

const struct api_kind *volumes_kind(enum volume_kind k);

// volumes_get finds an object; NULL: there is none.
const struct typed_object *volumes_get(const struct sched *s, enum volume_kind kind,
                                       struct str namespace, struct str name);

// volume_reaches: the volume can be had from the node.
bool volume_reaches(const struct api_persistent_volume *volume, const struct api_node *node);

// volume_in_zone: the volume's labels of zone and region admit the node.
bool volume_in_zone(const struct api_persistent_volume *volume, const struct api_node *node);

#endif
