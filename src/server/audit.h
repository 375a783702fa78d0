// SPDX-License-Identifier: Apache-2.0
//
// The audit log of the API: events of audit.k8s.io/v1 as lines of JSON, by a policy.
#ifndef SERVER_AUDIT_H
#define SERVER_AUDIT_H

#include <stdint.h>

#include "base/err.h"

struct audit;

struct audit_options {
    const char *policy_file;
    const char *log_path;                           // "-": standard output
    int64_t max_age_days, max_backups, max_size_mb; // 0: no limit; size: 100
};

// audit_new reads the policy and opens the log. Returns 0, or a negative code with an error that
// names the file and the line or field. audit_free writes what waits, behind the server's end.
int audit_new(const struct audit_options *options, struct audit **ret, struct err *err) MUST_USE;
void audit_free(struct audit *a);

#endif
