// SPDX-License-Identifier: Apache-2.0
//
// The way of accepted writes to disk, private to the store. The owner of the store submits
// writes in order and gets their results in order, in groups; the database is touched by the commit
// thread alone (or by posted work, when the store has no thread of its own).
#ifndef STORE_COMMIT_H
#define STORE_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/exec.h"
#include "base/vec.h"
#include "store/store.h"

struct committer;
struct db;
struct entry;

struct revisions VEC(uint64_t);

// An accepted write. The commit thread reads object, deleted, urgent, epoch and queue_next; the
// rest is the owner's.
struct write {
    const struct object *object; // referenced
    struct write *queue_next;
    uint64_t epoch;
    bool deleted;
    bool urgent; // may use the reserve of disk space
    bool lost;   // its callback has run: an earlier write failed
    struct write *next;
    struct entry *entry;
    store_done_fn done;
    void *arg;
};

// How a group of writes, a backup or a look for disk space (no writes) ended. Groups come in the
// order of their writes.
struct commit_result {
    struct commit_result *next;
    size_t writes; // how many
    uint64_t epoch;
    int code;
    bool low; // of disk space
    struct err err;
    store_done_fn backup_done; // of a backup
    void *backup_arg;
};

struct commit_options {
    struct exec *exec;
    struct db *db; // owned from here on; NULL: in memory only
    bool on_exec;
    bool (*fail)(void *arg, struct err *err);
    void *fail_arg;
    // finished runs on the exec for each result, which is freed behind it.
    void (*finished)(void *arg, const struct commit_result *result);
    void *arg;
};

int committer_new(const struct commit_options *options, struct committer **ret,
                  struct err *err) MUST_USE;

// committer_close commits what was submitted, reports it, and ends thread and database.
void committer_close(struct committer *c);

// committer_submit hands over a write, which stays where it is until its result; committer_doom
// hands over revisions whose rows are to go with the next transaction, and the oldest revision that
// is then left. doomed is emptied.
void committer_submit(struct committer *c, struct write *w);
void committer_doom(struct committer *c, struct revisions *doomed, uint64_t oldest);

// committer_look_for_space has a result report whether there is disk space again.
void committer_look_for_space(struct committer *c);

// committer_backup copies the database to a new file.
void committer_backup(struct committer *c, const char *path, store_done_fn done, void *arg);

#endif
