// SPDX-License-Identifier: Apache-2.0
//
// Revisioned objects: in memory for reading, in SQLite for keeping. One thread owns a store, that
// of its exec; a second thread, private to it, commits to the database in groups.
//
// A write is accepted at once (it has its revision and is what the next compare-and-swap sees: the
// head), and becomes visible to get, list and watch, in order of revisions, when its transaction is
// on disk; then its callback runs. If the disk fails, all writes that were not yet on disk fail
// together, the head falls back to what is visible, and reads go on.
//
// Revisions are one sequence over all kinds; they never go back and are never used twice.
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/exec.h"
#include "base/list.h"
#include "base/sorted.h"
#include "store/object.h"

struct store;
struct custom_kinds;

struct store_options {
    struct exec *exec;
    const char *path;      // of the database; NULL: in memory only, nothing survives
    const char *vfs;       // SQLite VFS to use, for tests of faults; NULL: the system's
    size_t history_events; // superseded versions kept for watches and old lists; 0: default
    size_t history_bytes;  // 0: default
    size_t log_pages;      // pages of SQLite's log before they move into the database; 0: default
    size_t pending_bytes;  // of writes that wait for the disk; beyond, more are refused; 0: default
    size_t max_bytes;      // of objects, see room.h; 0: no bound
    size_t namespace_percent; // share of a namespace; 0: default
    bool reserve;             // keep disk space for deletions, see reserve.h
    bool commit_on_exec;      // no thread of its own: commits run as posted work (simulation)
    // salvage NULL: a damaged database, or one that has less than it had, is refused. Otherwise
    // store_open keeps what can be read (salvage.h) and reports each finding.
    void (*salvage)(void *arg, const char *finding);
    void *salvage_arg;
    bool (*fail_commit)(void *arg, struct err *err); // asked before each commit; tests; may be NULL
    void *fail_commit_arg;
};

// store_open opens or makes a database, checks its integrity and loads it. Returns 0; or with what
// to do: -ERR_INVALID (not ours, a newer format, damaged), -EBUSY (another process has it), or an
// errno.
int store_open(const struct store_options *options, struct store **ret, struct err *err) MUST_USE;

// store_close waits for accepted writes, then frees everything. Their callbacks run before it
// returns. Watches must be stopped before.
void store_close(struct store *s);

// store_customs is the table of kinds that users added: the store must know them to read its
// objects. It lives as long as the store.
struct custom_kinds *store_customs(const struct store *s);

// store_exec is where the store lives.
struct exec *store_exec(const struct store *s);

// store_revision is the newest visible revision, store_oldest the oldest a watch may start from or
// a list may ask for.
uint64_t store_revision(const struct store *s);
uint64_t store_oldest(const struct store *s);

// --- Reading -------------------------------------------------------------------------------------

// What identifies an object. namespace is empty for cluster-scoped kinds.
struct store_key {
    const struct api_kind *kind; // in the version it is stored in
    struct str namespace;
    struct str name;
};

// store_get finds the visible version; NULL when there is none. Borrowed: take a reference to keep
// it beyond the next write.
const struct object *store_get(const struct store *s, const struct store_key *key);

// store_head finds the version that a write would replace: the newest accepted one.
const struct object *store_head(const struct store *s, const struct store_key *key);

// A walk over the objects of a kind in order of namespace and name, as they were at a revision.
// The walk may be interrupted by writes: it continues behind the last key it gave.
struct store_walk {
    const struct api_kind *kind;
    bool one_namespace;
    struct str namespace; // borrowed
    uint64_t revision;
    const struct object *last;              // referenced
    struct str after_namespace, after_name; // start behind this key; borrowed; empty: at the start
    bool expired; // the walk ended early: writes went on until its revision left the history
    // Private: the index of the kind, and the place of the next entry in it while changes is the
    // same.
    const struct sorted *index;
    struct sorted_place place;
    uint64_t changes;
};

// store_walk_start begins a walk at revision (0: what is visible now). Returns 0, -ERR_EXPIRED when
// the revision is older than store_oldest, -ERR_TIMEOUT when it is not visible yet. What
// store_walk_next gives is good until the next call on this walk; NULL at the end.
int store_walk_start(const struct store *s, struct store_walk *w, struct err *err) MUST_USE;
const struct object *store_walk_next(const struct store *s, struct store_walk *w);

// store_walk_some finds the next objects, up to STORE_WALK_SOME of them; fewer: there are no more,
// or the walk has expired. They are valid until the store changes.
#define STORE_WALK_SOME 64
size_t store_walk_some(const struct store *s, struct store_walk *w,
                       const struct object *ret[STORE_WALK_SOME]);
void store_walk_done(struct store_walk *w);

// store_count is the number of visible objects of a kind, in a namespace if that is not empty.
size_t store_count(const struct store *s, const struct api_kind *kind, struct str namespace);

// --- Writing -------------------------------------------------------------------------------------

// store_next_revision is the revision the next accepted write will have; the caller writes it into
// the object.
uint64_t store_next_revision(const struct store *s);

// done runs on the exec when the write is visible (code 0) or lost (negative; err has the reason).
typedef void (*store_done_fn)(void *arg, int code, const struct err *err);

// store_put accepts o (revision = store_next_revision) as the new head of its key. expect is the
// revision the head must have, 0: there must be none. The store takes its own reference. Returns 0;
// -ERR_CONFLICT when the head is another; -ERR_UNAVAILABLE when the disk refuses writes. done runs
// only after 0.
int store_put(struct store *s, const struct object *o, uint64_t expect, store_done_fn done,
              void *arg, struct err *err) MUST_USE;

// store_delete removes the head, which must have revision expect. last is what watchers see: the
// final state with revision = store_next_revision.
int store_delete(struct store *s, const struct object *last, uint64_t expect, store_done_fn done,
                 void *arg, struct err *err) MUST_USE;

// --- Watching ------------------------------------------------------------------------------------

enum store_event_type { STORE_ADDED, STORE_MODIFIED, STORE_DELETED };

struct store_event {
    enum store_event_type type;
    const struct object
        *object; // as it is; of a deletion: last state, with the deletion's revision
    const struct object *before; // as it was; NULL for an addition
};

// A watch on one kind. Events come on the exec, in order of revisions, as they become visible.
struct store_watch {
    struct list_node node;
    const struct api_kind *kind;
    struct str namespace; // empty: all; borrowed
    uint64_t seen;        // revision of the last event given
    void (*event)(void *arg, const struct store_event *e);
    void *arg;
};

// store_watch_start gives w->event every event after revision w->seen that is in the history,
// before it returns, then each new one. The callback may stop any watch, its own too. Returns 0 or
// -ERR_EXPIRED.
int store_watch_start(struct store *s, struct store_watch *w, struct err *err) MUST_USE;
void store_watch_stop(struct store *s, struct store_watch *w);

// --- Care ----------------------------------------------------------------------------------------

// store_backup copies the database, as it is on disk now, to a new file while writes go on; done
// runs on the exec. The file must not exist.
void store_backup(struct store *s, const char *path, store_done_fn done, void *arg);

struct store_stats {
    size_t objects;
    size_t object_bytes;
    size_t history_events;
    size_t history_bytes;
    uint64_t commits;
    uint64_t writes;
    bool failing; // the last commit failed
    bool low;     // there is little disk space: objects must not grow
};

void store_get_stats(const struct store *s, struct store_stats *ret);

#endif
