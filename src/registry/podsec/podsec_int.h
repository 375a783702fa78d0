// SPDX-License-Identifier: Apache-2.0
//
// Pod Security Admission: its configuration, its counters, scans of namespaces. Private to
// src/registry/podsec. Everything lives on the registry's exec.
#ifndef REGISTRY_PODSEC_PODSEC_INT_H
#define REGISTRY_PODSEC_PODSEC_INT_H

#include "api/podsec.h"
#include "registry/stage_int.h"

enum podsec_decision { PODSEC_ALLOW, PODSEC_DENY };
enum podsec_mode { PODSEC_ENFORCE, PODSEC_AUDIT, PODSEC_WARN };

// The request as metrics see it.
struct podsec_attributes {
    bool update;
    bool workload; // else a pod
    unsigned part; // enum podsec_part
};
enum podsec_part { PODSEC_WHOLE, PODSEC_RESIZE, PODSEC_DEBUGGERS };

#define PODSEC_ATTRIBUTES 12 // combinations of the three
// Versions of a label: v1.0 to the newest, newer ones, latest.
#define PODSEC_VERSIONS    (PODSEC_NEWEST + 3)
#define PODSEC_EVALUATIONS (2 * 3 * PODSEC_VERSIONS * 3 * PODSEC_ATTRIBUTES)

struct podsec {
    struct podsec_policy defaults;
    struct texts users, runtimes, namespaces; // exempt
    struct arena arena;
    struct list scans;           // struct podsec_scan
    struct exec_timer scan_turn; // of the first of them
    uint64_t *evaluations;       // PODSEC_EVALUATIONS counters
    uint64_t exemptions[PODSEC_ATTRIBUTES];
    uint64_t errors[PODSEC_ATTRIBUTES];
};

static inline bool podsec_exempts(const struct texts *list, struct str name)
{
    return list->n && name.n && str_listed(list->p, list->n, name);
}

// --- Counters (podsec_count.c) -------------------------------------------------------------------

void podsec_count_evaluation(struct podsec *p, enum podsec_decision decision,
                             const struct podsec_standard *s, enum podsec_mode mode,
                             struct podsec_attributes a);
size_t podsec_attributes_index(struct podsec_attributes a);

// --- Namespaces (podsec_namespace.c, podsec_scan.c) ----------------------------------------------

// podsec_admit_namespace refuses labels that cannot be read and warns of pods that exist and that
// the new level would refuse. old is NULL for a creation.
int podsec_admit_namespace(struct op *op, const struct api_object *object,
                           const struct api_object *old);

// podsec_scan_start checks the pods of a namespace some at a time; the answer to op waits and
// carries what was found as warnings. podsec_scans_stop ends all scans where they are.
void podsec_scan_start(struct op *op, struct str namespace, const struct podsec_standard *enforce);
void podsec_scans_stop(struct registry *reg);

#endif
