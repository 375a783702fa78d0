// SPDX-License-Identifier: Apache-2.0
//
// Why a node will not do, as data: filters say what refuses with what it is about, and two
// presenters make words of it, those of this scheduler and those of kube-scheduler. Private to
// src/sched.
#ifndef SCHED_EXPLAIN_REFUSAL_H
#define SCHED_EXPLAIN_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/vec.h"

struct attempt;
struct sched_node;

enum refusal_code {
    REFUSED_BY_NAME, // the pod's affinity names other nodes
    REFUSED_CORDONED,
    REFUSED_TAINT, // taint
    REFUSED_SELECTOR,
    REFUSED_PORT, // number
    REFUSED_PODS,
    REFUSED_RESOURCE,         // name
    REFUSED_VOLUME_SOLE_USER, // volume, pod
    REFUSED_VOLUME_COUNT,     // name is the driver's; number of limit are in use
    REFUSED_VOLUME_GONE,      // volume
    REFUSED_VOLUME_AFFINITY,  // volume
    REFUSED_VOLUME_NONE,      // volume
    REFUSED_VOLUME_SELECTED,  // volume
    REFUSED_VOLUME_ROOM,      // volume
    REFUSED_VOLUME_ZONE,      // volume
    REFUSED_SPREAD_LABEL,     // spread
    REFUSED_SPREAD,           // spread
    REFUSED_AFFINITY,
    REFUSED_ANTI_AFFINITY,
    REFUSED_OTHERS_ANTI_AFFINITY,
    REFUSED_CLAIMS,          // the allocator finds no devices
    REFUSED_CLAIM_ELSEWHERE, // detail: which and where; may be empty
    REFUSED_EXTENDED_CLAIM,
    REFUSED_EXTENDED,
    REFUSED_DEVICES, // detail is all there is to say
    REFUSAL_CODES,
};

struct refusal {
    enum refusal_code code;
    bool hopeless; // even if no other pod were there
    union {
        const struct api_taint *taint;
        const struct pod_volume *volume;
        const struct api_topology_spread_constraint *spread;
    };
    const struct sched_pod *pod;
    struct str name;
    struct str detail; // borrowed from the attempt's arena or what lives as long
    int64_t number, limit;
};

// Reasons of one plugin; the array lives in the attempt's arena.
struct refusals VEC(struct refusal);

// refusal_add remembers a reason; to may be NULL.
void refusal_add(struct attempt *a, struct refusals *to, struct refusal r);

// refusal_write adds the reasons in this scheduler's words, as what follows "3 nodes …".
void refusal_write(const struct attempt *a, const struct sched_node *n, const struct refusals *r,
                   struct sbuf *out);

// refusal_plugin, refusal_write_reason and refusal_hopeless are the plugin of kube-scheduler that
// gives a reason, its words for it, and whether it answers UnschedulableAndUnresolvable instead of
// Unschedulable. Static storage, but for the text added.
const char *refusal_plugin(enum refusal_code code);
void refusal_write_reason(const struct refusal *r, struct sbuf *out);
bool refusal_hopeless(const struct refusals *r);

#endif
