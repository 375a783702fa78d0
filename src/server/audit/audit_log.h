// SPDX-License-Identifier: Apache-2.0
//
// The audit log's file: lines are queued by the API's thread and written by another one, which
// rotates the file by size and removes old ones by number and age.
#ifndef SERVER_AUDIT_AUDIT_LOG_H
#define SERVER_AUDIT_AUDIT_LOG_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

// What may wait for the disk; events beyond that are dropped and counted.
#define AUDIT_QUEUE_EVENTS 10000
#define AUDIT_QUEUE_BYTES  ((size_t)64 * 1024 * 1024)

struct audit_log;

struct audit_log_options {
    const char *path;     // "-": standard output
    int64_t max_age_days; // of rotated files; 0: no limit
    int64_t max_backups;  // rotated files; 0: no limit
    uint64_t max_bytes;   // of the file before it is rotated
};

struct audit_log_stats {
    uint64_t written, dropped, failed;
};

// audit_log_open opens the file and starts the writer. Returns 0 or -errno. audit_log_close writes
// what waits and ends it.
int audit_log_open(const struct audit_log_options *options, struct audit_log **ret,
                   struct err *err) MUST_USE;
void audit_log_close(struct audit_log *log);

// audit_log_is_filling: half of the bytes that may wait do. Events should then be short.
bool audit_log_is_filling(struct audit_log *log);

// audit_log_put queues a line, which ends with a newline; takes over its text. Never waits.
void audit_log_put(struct audit_log *log, struct sbuf *line);

struct audit_log_stats audit_log_get_stats(struct audit_log *log);

#endif
