// SPDX-License-Identifier: Apache-2.0
//
// What would help a pod, beside the changes of its claims that the allocator tries: a template to
// be created, a name to be corrected, a taint to be tolerated. One line each, only for a caller
// that asks why.
#ifndef SCHED_EXPLAIN_ADVICE_H
#define SCHED_EXPLAIN_ADVICE_H

#include "codec/json_writer.h"
#include "sched/core/sched_int.h"

struct cures;

struct advice {
    const struct cures *cures; // remedies that were found; NULL: none were looked for
    struct arena arena;
    struct advice_lines VEC(struct str) lines; // in arena
    struct advice_lines urgent;                // come before remedies
    uint32_t told;                             // bits of enum why: one node is enough for each
    size_t fits;                               // nodes that would do
    struct str
        note; // what the cause itself does not tell, in a few words; in arena; empty: nothing
};

void advice_done(struct advice *t);

// advice_add adds a line, unless it is there.
void advice_add(struct advice *t, const char *fmt, ...) ERR_PRINTF(2, 3);

// advice_first adds a line that comes before remedies: what is wrong is not the pod's.
void advice_first(struct advice *t, const char *fmt, ...) ERR_PRINTF(2, 3);

// advice_note adds what belongs to the cause; the first counts.
void advice_note(struct advice *t, const char *fmt, ...) ERR_PRINTF(2, 3);

// advice_gate: the pod is not tried. Adds the cause to cause and lines for what its gates, group,
// template or claim lack.
void advice_gate(struct advice *t, struct sched *s, const struct sched_pod *p, struct sbuf *cause);

// advice_group: adds what a PodGroup itself lacks, and lines for it: its object, pods.
void advice_group(struct advice *t, const struct sched_group *g, struct sbuf *cause);

// advice_pod: the pod as a whole cannot be placed. Adds lines for device classes that do not exist.
void advice_pod(struct advice *t, const struct attempt *a);

// advice_node: a node refuses the pod for w. Adds lines for storage and for claims that are
// allocated elsewhere; other obstacles are the matter of remedies (cure.h).
void advice_node(struct advice *t, struct attempt *a, const struct sched_node *n, enum why w);

// advice_crowded: a claim of the pod has as many users as it may. Adds the cause and lines, if so.
bool advice_crowded(struct advice *t, const struct attempt *a, struct sbuf *cause);

// advice_report: all nodes were asked. Adds lines for selectors with wrong names, rules that taint,
// drivers that are gone.
void advice_report(struct advice *t, const struct attempt *a, struct alloc_report *r);

// advice_missing_key: a selector's term failed with "no such key" on devices of a class. Adds which
// name or class may have been meant, by what is published. advice_refusing_term: a term refuses
// devices. Adds what the published ones have.
void advice_missing_key(struct advice *t, const struct sched *s, struct str class_name,
                        const struct alloc_reason *why);
void advice_refusing_term(struct advice *t, const struct sched *s, const struct alloc_reason *why);

// advice_stale_slices adds lines for slices that do not count since their pool has a newer
// generation, advice_pools for pools that do not; of drivers that a class speaks of.
void advice_stale_slices(struct advice *t, const struct sched *s, struct str class_name);
void advice_pools(struct advice *t, const struct sched *s, struct str class_name, struct str pools);

// advice_binding: a node is chosen, but devices have to be made ready. Adds the cause, if that is
// what it waits for.
void advice_binding(struct advice *t, const struct sched_pod *p, struct sbuf *cause);

// advice_missing: an object is named that does not exist. Adds which was meant, or that it has to
// be created.
void advice_missing(struct advice *t, const struct informer *all, const char *kind,
                    struct str namespace, struct str name);

// advice_volumes: adds lines for claims for storage that keep the pod from every node;
// advice_volume_node: from this one. advice_volume_binding: a node is chosen, but such a claim is
// not bound yet. Adds the cause, if so.
void advice_volumes(struct advice *t, const struct attempt *a);
void advice_volume_node(struct advice *t, struct attempt *a, const struct sched_node *n);
bool advice_volume_binding(struct advice *t, const struct sched_pod *p, struct sbuf *cause);

// advice_given_up: the pod has given devices back since they did not become ready. Adds that to the
// cause.
void advice_given_up(struct advice *t, const struct sched_pod *p, struct sbuf *cause);

void advice_write(const struct advice *t, struct json_writer *w);

#endif
