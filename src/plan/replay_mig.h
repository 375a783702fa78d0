// SPDX-License-Identifier: Apache-2.0
//
// Replays of partitions: claims for MIG profiles come and go on nodes with eight GPUs, published as
// NVIDIA's driver publishes them (every profile in every place, shared counters). No public trace
// has such claims, so they are made by a seeded generator: claims come at random moments
// (exponential gaps), ask for a profile by a mix, and stay for a random time (exponential).
// docs/measurements/utilization.md.
#ifndef PLAN_REPLAY_MIG_H
#define PLAN_REPLAY_MIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

enum mig_policy {
    MIG_PACK,  // dray's
    MIG_FIRST, // the first node and the first partition that fit
    MIG_MFI,   // minimum growth of fragmentation, as published (arXiv 2511.18906)
};

struct mig_options {
    enum mig_policy policy;
    struct str gpu;            // a100, h100
    struct str mix;            // uniform, small, large, bimodal
    uint32_t gpus;             // a multiple of eight
    double load;               // slices requested at a time, in % of all
    uint32_t claims;           // that come; the first fifth is not measured
    const struct clock *clock; // for the decisions a second
    bool check;                // let the independent checker see every allocation
    bool no_buying;            // gpus_needed is not wanted: 0
};

struct mig_result {
    int64_t seed;
    double first_rejection; // % of memory slices in use when the first claim was turned away
    double acceptance;      // % of claims
    double accepted_demand; // % of the slices requested
    double allocated;       // % of slices in use, over time
    double gpus_needed;     // until no claim is turned away, bought eight at a time
    double decisions_per_second;
};

// replay_mig_check_options returns what is wrong with options; NULL: nothing.
const char *replay_mig_check_options(const struct mig_options *o);

// replay_mig_parse_policy reads a name: pack, first, mfi.
bool replay_mig_parse_policy(struct str name, enum mig_policy *ret);

// replay_mig_run replays the claims of one seed. Returns 0, -ERR_INVALID when an object is refused
// or -ERR_INTERNAL when the checker refuses an allocation.
int replay_mig_run(const struct mig_options *o, int64_t seed, struct mig_result *ret,
                   struct err *err) MUST_USE;

// replay_mig_write_json and replay_mig_write_text write results with their mean.
void replay_mig_write_json(const struct mig_options *o, const struct mig_result *results, size_t n,
                           struct sbuf *out);
void replay_mig_write_text(const struct mig_options *o, const struct mig_result *results, size_t n,
                           struct sbuf *out);

#endif
