// SPDX-License-Identifier: Apache-2.0
//
// Preparing and unpreparing claims: the order of steps that makes a crash anywhere harmless. No
// network: it is given claims, calls the driver, writes files. One thread at a time, but for
// core_in_use.
//
// Invariants, whatever step the process dies at (docs/design/driver-sdk.md explains why):
//   1. A device is touched only while a journal on disk names the claim that has it.
//   2. No two claims hold a device, unless as shares of it or by admin access.
//   3. A CDI spec is offered only for claims whose journal holds it; none survives a reboot.
//   4. Calling again what was interrupted completes it, and answers as if it never was interrupted.
#ifndef DRIVER_SDK_CORE_H
#define DRIVER_SDK_CORE_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "dray/driver.h"
#include "driver/sdk/journal.h"

struct core_options {
    const char *driver;
    const char *cdi_class;
    const char *data_dir; // journals in its folder claims, metadata files, the lock
    const char *cdi_dir;
    const char *boot_id;
    bool metadata;
    struct dray_callbacks callbacks;
    void *arg;
    const struct clock *clock;
};

struct core;

// core_open makes folders and looks at what was prepared before: specs of claims that still are are
// made again, those of an earlier boot and of unknown claims removed. Texts are copied. Returns 0
// or -errno.
int core_open(const struct core_options *options, struct core **ret, struct err *err) MUST_USE;
void core_free(struct core *c);

// core_prepare prepares a claim or finds that it is. *ret, in arena, is what to tell kubelet.
int core_prepare(struct core *c, const struct dray_claim *claim, struct arena *arena,
                 struct journal_entry *ret, struct err *err) MUST_USE;

// core_unprepare undoes it; nothing to undo is fine.
int core_unprepare(struct core *c, const struct dray_claim *claim, struct err *err) MUST_USE;

// core_settle syncs the journals of claims that were prepared lately, so that their slots of
// intents are free again; core_unsettled reports whether there are any. On the thread that
// prepares, when it is idle.
bool core_unsettled(const struct core *c);
void core_settle(struct core *c);

// core_in_use reports how many claims hold a device; any thread.
size_t core_in_use(struct core *c, const char *pool, const char *device);

// What core_foreach gives of a claim.
struct core_held {
    const struct journal_entry *entry;
    bool rebooted; // it is of an earlier boot
    bool damaged;  // its journal has a bad end
};

// core_foreach visits all claims that something is held for; any thread, fn must not call back.
void core_foreach(struct core *c, void (*fn)(void *arg, const struct core_held *held), void *arg);

// core_boot_id reads the kernel's boot id into buf; "unknown" when there is none.
void core_boot_id(char buf[64]);

#endif
