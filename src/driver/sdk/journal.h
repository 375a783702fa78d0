// SPDX-License-Identifier: Apache-2.0
//
// What a driver remembers about a claim: a file of lines, each with a checksum, the last good one
// counts. Appending a line is the whole of changing state, so a crash leaves the state before or
// the state after; a torn line is as if it had never been written.
//
//     preparing     the devices are the claim's; something may have been done to them
//     prepared      what was done, and the answer to kubelet
//     unpreparing   something may have been undone
//
// A file without a good line means that nothing has been done.
#ifndef DRIVER_SDK_JOURNAL_H
#define DRIVER_SDK_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "dray/driver.h"

#define JOURNAL_BYTES_MAX   ((size_t)4 << 20) // of a file
#define JOURNAL_DEVICES_MAX 256               // of a claim; the API allows 32

enum journal_step { JOURNAL_PREPARING, JOURNAL_PREPARED, JOURNAL_UNPREPARING };

struct journal_ids {
    struct str *p;
    size_t n;
};

// Texts live in an arena of the holder.
struct journal_entry {
    enum journal_step step;
    struct str boot;         // id of the boot it was written in
    struct dray_claim claim; // without rebooted
    struct journal_ids *ids; // CDI ids of each device; NULL before it is prepared
    struct str spec;         // the CDI spec's JSON; empty: none
    struct str status;       // JSON array for the claim's status.devices; empty: none
    struct str metadata;     // JSON array of {request, file}; empty: none
};

// journal_write adds an entry as a line.
void journal_write(const struct journal_entry *e, struct sbuf *out);

// journal_read finds the last good line of a file's text. Returns 0 with *ret filled from arena, or
// -ERR_NOT_FOUND. *ret_damaged means that something behind it, or all of it, is damaged.
int journal_read(struct str text, struct arena *arena, struct journal_entry *ret,
                 bool *ret_damaged) MUST_USE;

#endif
