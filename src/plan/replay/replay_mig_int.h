// SPDX-License-Identifier: Apache-2.0
//
// Data of replays of partitions: the geometry of GPUs, and their objects.
#ifndef PLAN_REPLAY_REPLAY_MIG_INT_H
#define PLAN_REPLAY_REPLAY_MIG_INT_H

#include "plan/replay/replay_int.h"
#include "plan/replay_mig.h"

#define MIG_PROFILES 7
#define MIG_SLICES   8 // of memory
#define MIG_GPUS     8 // of a node
#define MIG_DEVICES  26

struct mig_profile {
    const char *name;   // as attributes have it
    const char *device; // as names of devices have it, with the profile's number
    int64_t mib, multiprocessors, copy, decoders, jpeg, ofa;
    uint8_t size;   // in memory slices
    uint8_t starts; // where it may begin, one bit each
};

// The last profile is the whole GPU.
struct mig_gpu {
    const char *name;
    const char *product;
    const char *architecture;
    struct mig_profile profiles[MIG_PROFILES];
};

struct mig_mix {
    const char *name;
    uint8_t percent[MIG_PROFILES];
};

// replay_mig_find_gpu and replay_mig_find_mix: NULL when there is none of that name.
const struct mig_gpu *replay_mig_find_gpu(struct str name);
const struct mig_mix *replay_mig_find_mix(struct str name);

// A device of a GPU, in the order in which they are published behind the whole GPU.
struct mig_place {
    uint8_t profile;
    uint8_t slices; // that it covers, one bit each
};

// replay_mig_list_places lists the partitions of a GPU; returns how many.
size_t replay_mig_list_places(const struct mig_gpu *g, struct mig_place ret[MIG_DEVICES]);

// replay_mig_new_world makes a world without nodes; replay_mig_add_node adds one with eight GPUs;
// replay_mig_make_claim makes the claim for a profile. Returns 0 or -ERR_INVALID.
struct replay_world *replay_mig_new_world(void);
int replay_mig_add_node(struct replay_world *w, const struct mig_gpu *g, struct err *err) MUST_USE;
struct api_resource_claim *replay_mig_make_claim(struct replay_world *w,
                                                 const struct mig_profile *p);

// replay_mig_parse_device finds GPU and partition that a device's name means. False: none of ours.
bool replay_mig_parse_device(const struct mig_gpu *g, struct str device, uint32_t *ret_gpu,
                             struct mig_place *ret);

#endif
