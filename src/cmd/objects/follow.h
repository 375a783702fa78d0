// SPDX-License-Identifier: Apache-2.0
//
// The objects of a kind, page by page, and then what changes: for verbs that show, wait and delete.
// A watch that the server ends is taken up again; one that is too old starts with a list again.
#ifndef CMD_OBJECTS_FOLLOW_H
#define CMD_OBJECTS_FOLLOW_H

#include "cmd/cluster.h"
#include "codec/json.h"

struct follow {
    struct str path;     // of the kind's objects
    struct str query;    // selectors, escaped, without '?'; may be empty
    bool table;          // as tables
    int64_t deadline_ns; // on the loop's clock; 0: none
    // page gets every page of the list, a list or a table; event every change, its object or a
    // table with a row. Return 0 to go on, 1 when there is nothing more to wait for, or a negative
    // code.
    int (*page)(void *arg, const yyjson_val *page, struct err *err);
    int (*event)(void *arg, struct str type, const yyjson_val *object, struct err *err);
    void *arg;
};

#define FOLLOW_TABLE "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// follow_list gives the pages; *ret_revision (may be NULL) is where a watch goes on from. Returns
// 0, what page returned, or a negative code.
int follow_list(struct cluster *c, const struct follow *f, struct sbuf *ret_revision,
                struct err *err) MUST_USE;

// follow_run gives the pages and then the changes until page or event return something. Returns
// that, or -ERR_TIMEOUT.
int follow_run(struct cluster *c, const struct follow *f, struct err *err) MUST_USE;

// follow_add_query adds a parameter to a query.
void follow_add_query(struct sbuf *query, const char *name, struct str value);

#endif
