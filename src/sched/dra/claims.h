// SPDX-License-Identifier: Apache-2.0
//
// Claims as the scheduler believes them to be: what the watch has shown, what its own writes have
// returned meanwhile (assumed), and allocations that are decided but not written yet (in flight).
// Private to src/sched.
//
// Rules: a version from the watch replaces another only if its revision, as an integer, is larger;
// an assumed one also if it is equal. An allocation leaves the in-flight state only when the
// assumed claim has it, so that its devices are never free in between.
#ifndef SCHED_DRA_CLAIMS_H
#define SCHED_DRA_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/vec.h"
#include "client/client.h"
#include "sched/core/cluster.h"
#include "sched/dra/devices.h"

// An allocation on its way to the API; counted by reference.
struct flight {
    uint32_t refs;
    uint32_t sharers; // bindings that bring it to the API
    uint64_t gang;    // the group cycle that may share it; 0: none
    const struct api_allocation_result *allocation;
    struct arena arena;
};

struct sched_claim {
    struct str key;                    // namespace/name; owned
    const struct typed_object *seen;   // by the watch; NULL: none
    const struct typed_object *latest; // seen, or assumed if that is newer; NULL: none
    struct flight *flight;
    struct index_user user;          // what it holds, by what is in force
    const struct typed_object *held; // what user.allocation lives in,
    struct flight *held_flight;      // one or the other
    bool ours;                       // the allocation in force was written by this scheduler
    bool lost;            // it collides with an earlier one, and only its group can clear it
    uint64_t unavailable; // the group cycle that found it out of reach
    uint64_t wanted;      // the attempt that has it among the pod's claims
    struct pod_vec pods;  // that name it
};

struct claims {
    struct claim_map MAP(struct sched_claim *) by_key;
    struct index *devices;
    struct key_vec VEC(
        char *) unseen; // keys of claims that were assumed before the watch showed them
    bool listing;       // what is being taken in comes from a list,
    bool assuming;      // from a write of ours
};

void claims_init(struct claims *c, struct index *devices);
void claims_done(struct claims *c);

// claims_find: NULL when nothing is known under the key. claims_get makes an entry.
struct sched_claim *claims_find(const struct claims *c, struct str namespace, struct str name);
struct sched_claim *claims_get(struct claims *c, struct str namespace, struct str name);

// claims_api is the claim as it is believed to be; NULL when there is none.
const struct api_resource_claim *claims_api(const struct sched_claim *k);

// claims_seen takes a change from the watch; listing: it is from a list, which shows the
// newest version only, so that it is not known when the allocation was stored. Returns the entry,
// or NULL when nothing is left of it.
struct sched_claim *claims_seen(struct claims *c, const struct typed_object *before,
                                const struct typed_object *after, bool listing);

// claims_assume takes what a write of ours returned. False: something newer is known.
bool claims_assume(struct claims *c, struct sched_claim *k, const struct typed_object *object);

// claims_learn takes a claim that was read, or that a write returned which did not allocate: when
// its allocation was stored is not known from it. Nothing happens when something newer is known.
void claims_learn(struct claims *c, struct sched_claim *k, const struct typed_object *object);

// claims_advance: the watch has come to a revision. A claim that was assumed, is not newer than
// that and was never shown came and went unseen: it is dropped, and gone (if not NULL) is called
// for its entry. True: there was one.
bool claims_advance(struct claims *c, uint64_t revision,
                    void (*gone)(void *arg, struct sched_claim *k), void *arg);

// claims_fly marks an allocation as in flight, copied; claims_share adds a pod of the same group
// cycle to it. Either returns a reference for claims_land, which ends that for one of them: the
// last lets the devices go, unless the claim has them by then. flight may be NULL.
struct flight *claims_fly(struct claims *c, struct sched_claim *k,
                          const struct api_allocation_result *allocation, uint64_t gang);
struct flight *claims_share(struct sched_claim *k);
void claims_land(struct claims *c, struct sched_claim *k, struct flight *flight);

// claims_pod_add and claims_pod_remove keep the index of pods by claim.
void claims_pod_add(struct claims *c, struct str key, struct sched_pod *p);
void claims_pod_remove(struct claims *c, struct str key, struct sched_pod *p);

// claims_only_for: no other than this pod has it reserved.
bool claims_only_for(const struct api_resource_claim *claim, const struct api_pod *pod);

bool claims_check(const struct claims *c, struct sbuf *problems);

#endif
