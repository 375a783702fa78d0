// SPDX-License-Identifier: Apache-2.0
//
// What a driver is about to prepare, on disk before it begins, with a single write that changes no
// more than data: a file of slots that is as large as it ever gets. A journal that was just made
// would need the file system's own journal twice, for its bytes and for its name, and wait for
// whatever else is being written. A slot is for a machine that stops, not for a process: the
// journal is read by everyone else.
#ifndef DRIVER_SDK_INTENTS_H
#define DRIVER_SDK_INTENTS_H

#include "base/err.h"
#include "base/str.h"

enum { INTENT_SLOTS = 32, INTENT_BYTES = 4096 };

struct intents;

// intents_open opens a file, or makes one. Returns 0 or -errno.
int intents_open(const char *path, struct intents **ret, struct err *err) MUST_USE;
void intents_close(struct intents *i);

// intents_put writes a line of a claim's journal into a slot that held does not say is needed, and
// syncs it. Returns 1; 0 when there is no room for it; -errno when it may not be on the disk.
typedef bool (*intents_held_fn)(void *arg, const char *uid);
int intents_put(struct intents *i, const char *uid, struct str line, intents_held_fn held,
                void *arg, struct err *err) MUST_USE;

// intents_each visits the slots in use, whose line may be torn. Within it, intents_clear is
// legal.
typedef void (*intents_fn)(void *arg, const char *uid, struct str line);
void intents_each(struct intents *i, intents_fn fn, void *arg);

// intents_clear empties the slots of a claim: its journal is on the disk, or it has none any more.
// Not synced.
void intents_clear(struct intents *i, const char *uid);

#endif
