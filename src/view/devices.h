// SPDX-License-Identifier: Apache-2.0
//
// Devices of a cluster as tables and texts, and the same as JSON for -o.
#ifndef VIEW_DEVICES_H
#define VIEW_DEVICES_H

#include "codec/json_writer.h"
#include "plan/doctor.h"
#include "plan/inventory.h"
#include "plan/past.h"
#include "plan/taint.h"
#include "plan/topo.h"
#include "view/table.h"

// One class with what is free of it.
struct view_free {
    struct str class_name; // empty: any device
    const struct inventory *inv;
    const struct free_answer *answer;
};

// view_free_classes makes a table with a line a class, view_free_nodes one with a line a node and
// their sum.
void view_free_classes(struct view_table *t, const struct view_free *all, size_t n);
void view_free_nodes(struct view_table *t, const struct view_free *f);

// view_who makes a table of devices and who holds them; a device without a holder has one line,
// too. Names of devices for which wholes (may be NULL) names another are indented.
void view_who(struct view_table *t, const struct inventory *inv, const uint32_t *devices, size_t n,
              const uint32_t *wholes, struct moment now);

// view_topo adds the matrix and its legend.
void view_topo(struct sbuf *out, const struct inventory *inv, const struct topo *topo,
               const struct view_layout *how);

// view_doctor adds the findings, a line each and a line for what to do; all: the good ones, too.
void view_doctor(struct sbuf *out, const struct doctor *d, const struct view_layout *how);

// view_history adds what is known, oldest first, and what is not.
void view_history(struct sbuf *out, const struct past *h, const struct view_layout *how);

// view_taint adds what a rule would do.
void view_taint(struct sbuf *out, const struct inventory *inv, const struct taint_effect *e);

// view_since adds how long ago; ≤ and ≥ where the time is a bound: at least, at most so long ago.
void view_since(struct sbuf *out, const struct inventory_claim *c, struct moment now);

// The same as JSON values.
void view_free_json(struct json_writer *w, const struct view_free *all, size_t n);
void view_who_json(struct json_writer *w, const struct inventory *inv, const uint32_t *devices,
                   size_t n);
void view_who_list_json(struct json_writer *w, const struct inventory *inv, const uint32_t *devices,
                        size_t n); // the list alone
void view_topo_json(struct json_writer *w, const struct inventory *inv, const struct topo *topo);
void view_doctor_json(struct json_writer *w, const struct doctor *d);
void view_history_json(struct json_writer *w, const struct past *h);

#endif
