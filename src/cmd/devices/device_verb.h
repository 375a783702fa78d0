// SPDX-License-Identifier: Apache-2.0
//
// What the verbs on devices have in common: where the objects come from (a cluster, a snapshot),
// and how answers are shown.
#ifndef CMD_DEVICES_DEVICE_VERB_H
#define CMD_DEVICES_DEVICE_VERB_H

#include "cmd/common.h"
#include "cmd/verb.h"
#include "plan/inventory.h"
#include "view/devices.h"

extern const char *device_snapshot; // of --snapshot

#define DEVICE_SNAPSHOT_OPTION                                                         \
    {                                                                                  \
        "--snapshot", NULL, "FILE",                                                    \
            "read a file of 'dray snapshot save', or manifests, instead of a cluster", \
            .text = &device_snapshot                                                   \
    }

// What a verb works on. Zeroed, it is closed.
struct device_source {
    struct plan_world *world;
    struct cluster cluster;
    bool connected;
    struct str namespace; // of -n or the context
    struct features gates;
    struct alloc_features features; // what they mean to devices
    struct view_output format;
    struct view_layout layout;
    struct arena arena;
};

// device_verb_open reads what matters, of enum device_world. device_verb_close in any case. Kinds
// that may not be listed are read in the own namespace, or else left out, and reported on standard
// error; -ERR_FORBIDDEN: slices and classes are among them.
int device_verb_open(struct device_source *s, unsigned what, struct err *err) MUST_USE;
void device_verb_close(struct device_source *s);

// device_verb_read_world adds what matters of a cluster to a world: what devices are about, with
// events, or with all that the scheduler looks at. namespace is the one to fall back to.
enum device_world {
    DEVICE_WORLD_DEVICES = 0,
    DEVICE_WORLD_EVENTS = 1,
    DEVICE_WORLD_ALL = 2,
};
int device_verb_read_world(struct cluster *c, struct plan_world *w, unsigned what,
                           struct str namespace, struct err *err) MUST_USE;

// device_verb_send sends a request with a JSON body and adds the answer's body, if out is not NULL.
// Returns 0 or the server's error.
int device_verb_send(struct cluster *c, const char *method, const char *target, struct str body,
                     struct sbuf *out, struct err *err) MUST_USE;

// device_verb_rules_target is where the server has DeviceTaintRules. Returns 0 or -ERR_NOT_FOUND
// when it has none.
int device_verb_rules_target(struct cluster *c, const char **ret, struct err *err) MUST_USE;

// device_verb_inventory makes the inventory of what was read.
int device_verb_inventory(struct device_source *s, struct inventory **ret,
                          struct err *err) MUST_USE;

// device_verb_run opens a source, has fn answer from its inventory, and closes it. Returns one of
// VERB_*.
typedef int (*device_fn)(struct device_source *s, const struct inventory *inv, struct err *err);
int device_verb_run(const char *verb, unsigned what, device_fn fn);

// device_verb_show_json prints a JSON text in the requested format; device_verb_show_table a table.
int device_verb_show_json(struct device_source *s, const struct sbuf *json,
                          struct err *err) MUST_USE;
int device_verb_show_table(struct device_source *s, struct view_table *t, struct err *err) MUST_USE;

#endif
