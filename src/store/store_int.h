// SPDX-License-Identifier: Apache-2.0
//
// What the files of the store share: its state, the history, accepted writes on their way to disk.
#ifndef STORE_STORE_INT_H
#define STORE_STORE_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/exec.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "store/commit.h"
#include "store/index.h"
#include "store/store.h"

// Bounds of the history when the options name none: enough for watchers to come back after a
// restart of theirs under heavy load, little enough not to be noticed beside the objects.
#define STORE_HISTORY_EVENTS ((size_t)65536)
#define STORE_HISTORY_BYTES  ((size_t)64 * 1024 * 1024)

// Accepted writes that wait for the disk; beyond it the disk does not keep up and writes are
// refused.
#define STORE_PENDING_BYTES_MAX ((size_t)256 * 1024 * 1024)

// With little disk space the history gives most of its rows back.
#define STORE_HISTORY_BYTES_LOW ((size_t)1024 * 1024)

// Share of a namespace of what other namespaces leave, see room.h.
#define STORE_NAMESPACE_PERCENT 50

// One change within the history. object and before are referenced.
struct history_event {
    const struct object *object;
    const struct object *before;
    struct entry *entry;
    struct history_event *older; // of the same key; gone if older_revision <= history.oldest
    uint64_t older_revision;
    enum store_event_type type;
};

// A ring of events in order of revisions.
struct history {
    struct history_event **ring;
    size_t cap; // a power of two, or 0
    size_t first, n;
    size_t bytes; // of the versions that only the history holds
    size_t max_events, max_bytes;
    uint64_t oldest; // revision of the last event that was dropped
};

struct namespace_counts MAP(size_t); // keys are owned

struct kind_state {
    struct sorted index;
    struct list watches;
    size_t count;
    struct namespace_counts namespaces;
};

// Bytes of objects; see room.h.
struct room_bytes {
    size_t visible, accepted;
};
struct room_namespaces MAP(struct room_bytes); // keys are owned

struct room {
    size_t max; // 0: no bound
    size_t share_percent;
    struct room_bytes all;
    struct room_namespaces namespaces;
};

// A replay that store_watch_start is giving; stopping its watch clears it.
struct replay {
    const struct store_watch *watch;
    struct replay *outer;
};

struct store {
    struct exec *exec;
    struct committer *committer;
    struct kind_state **kinds; // by store_kind_number; NULL until used
    size_t kinds_len;
    struct custom_kinds *customs;
    struct entry_table entries;
    struct history history;
    struct revisions doomed; // rows that the next transaction deletes
    struct write *pending_first, *pending_last;
    size_t pending_bytes, pending_max;
    uint64_t visible;             // newest visible revision
    uint64_t next;                // revision of the next accepted write
    uint64_t epoch;               // counts failures: writes accepted before one are lost with it
    struct list_node *next_watch; // while an event is given: the watch after the current one
    struct replay *replays;
    size_t objects;
    struct room room;
    uint64_t writes, commits;
    bool failing;
    bool low; // of disk space: only urgent writes are accepted
    bool publishing;
};

// store_kind_find finds a kind's state, making it if need be; store_kind_get does not make it.
struct kind_state *store_kind_find(struct store *s, const struct api_kind *kind);
struct kind_state *store_kind_get(const struct store *s, const struct api_kind *kind);

// store_entry_drop frees an entry that has no version left but the one its key is read from.
void store_entry_drop(struct store *s, struct entry *e);

// store_entry_at is the version of a moment, NULL when there was none.
const struct object *store_entry_at(const struct store *s, const struct entry *e,
                                    uint64_t revision);

// history_add notes a change that has just become visible and returns it. Takes its own references.
const struct history_event *history_add(struct store *s, struct entry *e,
                                        const struct object *object, const struct object *before,
                                        bool deleted);

// history_trim drops events beyond the bounds; rows no longer needed become doomed.
void history_trim(struct store *s);

// history_find is the position of the first event after a revision.
size_t history_find(const struct history *h, uint64_t revision);
const struct history_event *history_at(const struct history *h, size_t i);
void history_done(struct store *s);

// room_accept and room_show count an accepted change and a visible one, from one version of a key
// to another; NULL: none. room_fall_back: what was accepted and is not visible is lost.
void room_accept(struct room *room, const struct object *from, const struct object *to);
void room_show(struct room *room, const struct object *from, const struct object *to);
void room_fall_back(struct room *room);
void room_done(struct room *room);

// room_is_urgent: the change from head (NULL: none) to o may use reserves.
bool room_is_urgent(const struct object *head, const struct object *o);

// watch_publish gives an event to the watches of its kind.
void watch_publish(struct store *s, const struct history_event *e);

#endif
