// SPDX-License-Identifier: Apache-2.0
//
// What a driver's prepare has made of a claim, until it is turned into a CDI spec, the claim's
// device status and metadata files. Belongs to the thread that prepares.
#ifndef DRIVER_SDK_OUTCOME_H
#define DRIVER_SDK_OUTCOME_H

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "cdi/spec.h"
#include "dray/driver.h"
#include "driver/sdk/journal.h"

struct outcome_condition {
    struct str type, reason, message;
    bool yes;
};

struct outcome_network {
    struct str interface, hardware_address;
    struct cdi_texts ips;
};

struct outcome_device {
    struct cdi_edits edits;
    struct cdi_texts ids; // CDI devices of others
    struct VEC(struct outcome_condition) conditions;
    struct str data;
    struct outcome_network *network;
    struct cdi_pairs attributes; // of the metadata file
};

struct dray_outcome {
    struct arena *arena;
    const struct dray_claim *claim;
    struct cdi_edits all;
    struct outcome_device *devices; // as many as the claim has
    struct err mistake;             // the first misuse; code 0: none
};

struct outcome_names {
    struct str driver;
    struct str class;
    struct str metadata_dir; // of this claim; empty: no metadata files
};

// outcome_init makes o ready for a claim; everything lives in arena.
void outcome_init(struct dray_outcome *o, const struct dray_claim *claim, struct arena *arena);

// outcome_finish fills spec, ids, status and metadata of an entry. now is RFC 3339. Returns 0 or
// -ERR_INVALID: what the driver gave makes no CDI spec.
int outcome_finish(const struct dray_outcome *o, const struct outcome_names *names, struct str now,
                   struct journal_entry *ret, struct err *err) MUST_USE;

#endif
