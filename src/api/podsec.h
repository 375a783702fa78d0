// SPDX-License-Identifier: Apache-2.0
//
// Pod Security Standards: what a pod may ask for at each level (privileged, baseline, restricted),
// in every version up to 1.37, and the namespace labels that choose levels. Pure functions with
// upstream's words; who is exempt and what follows is the registry's (registry/podsec/).
#ifndef API_PODSEC_H
#define API_PODSEC_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "api/cause.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/str.h"

enum podsec_level { PODSEC_PRIVILEGED, PODSEC_BASELINE, PODSEC_RESTRICTED };

// Versions are minor versions of 1.x; newer ones than PODSEC_NEWEST have its checks.
#define PODSEC_LATEST INT64_C(-1)
#define PODSEC_NEWEST 37

// A level in a version: restricted:latest, baseline:v1.25.
struct podsec_standard {
    enum podsec_level level;
    int64_t minor; // or PODSEC_LATEST
};

struct podsec_policy {
    struct podsec_standard enforce, audit, warn;
};

// What every namespace has that carries no labels: privileged:latest.
extern const struct podsec_policy podsec_unlabelled;

// podsec_policy_of reads a namespace's labels over defaults. *ret is always set: labels that cannot
// be read mean restricted:latest for enforce and privileged for audit and warn, and add a cause
// each; causes may be NULL.
void podsec_policy_of(const struct api_str_map *labels, const struct podsec_policy *defaults,
                      struct causes *causes, struct podsec_policy *ret);

// podsec_has_label: labels choose the level or the version of a mode (enforce, audit, warn).
bool podsec_has_label(const struct api_str_map *labels, const char *mode);

// podsec_standard_parse reads LEVEL or LEVEL:VERSION. Returns 0 or -ERR_INVALID.
int podsec_standard_parse(struct str text, struct podsec_standard *ret, struct err *err) MUST_USE;

static inline bool podsec_same(const struct podsec_standard *a, const struct podsec_standard *b)
{
    return a->level == b->level && a->minor == b->minor;
}

// podsec_equivalent: both privileged, or the same.
bool podsec_equivalent(const struct podsec_standard *a, const struct podsec_standard *b);

// podsec_write adds restricted:latest; podsec_text makes that in arena; podsec_level_name and
// podsec_write_version are its halves.
void podsec_write(const struct podsec_standard *s, struct sbuf *out);
struct str podsec_text(const struct podsec_standard *s, struct arena *arena);
struct str podsec_level_name(enum podsec_level level);
void podsec_write_version(int64_t minor, struct sbuf *out);

// What is against a pod; both texts are empty when nothing is.
struct podsec_verdict {
    bool allowed;
    struct str reasons; // "host namespaces, privileged"
    struct str details; // "host namespaces (hostPID=true), privileged (container \"a\" must …)"
};

// podsec_judge checks a pod, or the template of one, against a standard; texts are in arena.
struct podsec_verdict podsec_judge(const struct podsec_standard *s,
                                   const struct api_object_meta *meta,
                                   const struct api_pod_spec *spec, struct arena *arena);

// podsec_update_matters: whether the new form of a pod is to be checked: an image has changed, or
// containers have been added.
bool podsec_update_matters(const struct api_pod_spec *now, const struct api_pod_spec *old);

// podsec_template finds the metadata and the spec of the pods that an object of a workload kind
// makes. False: it makes none.
bool podsec_template(const struct api_object *object, const struct api_object_meta **ret_meta,
                     const struct api_pod_spec **ret_spec);

#endif
