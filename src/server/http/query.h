// SPDX-License-Identifier: Apache-2.0
//
// The options that requests have in their queries: of lists and watches, of writes and deletions,
// read and judged as Kubernetes does.
#ifndef SERVER_HTTP_QUERY_H
#define SERVER_HTTP_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "api/cause.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "net/query.h"

// --- Lists and watches ---------------------------------------------------------------------------

enum query_match { QUERY_MATCH_NONE, QUERY_MATCH_EXACT, QUERY_MATCH_NOT_OLDER };

struct list_options {
    struct str label_selector;
    struct str field_selector;
    struct str continue_token;
    struct str resource_version; // as given
    uint64_t revision;           // the same as a number; 0 for none and for "0"
    enum query_match match;
    int64_t limit;
    int64_t timeout_seconds; // 0: none given
    bool watch;
    bool allow_bookmarks;
    enum query_flag send_initial; // after Kubernetes' defaults
};

// query_list_options reads the options of a list or watch. Returns 0; -ERR_BAD_REQUEST for what
// cannot be read; -ERR_INVALID with causes for contradictory options.
int query_list_options(const struct query *q, bool watch, struct list_options *ret,
                       struct causes *causes, struct err *err) MUST_USE;

// --- Writes --------------------------------------------------------------------------------------

enum query_validation { QUERY_FIELDS_WARN, QUERY_FIELDS_IGNORE, QUERY_FIELDS_STRICT };

struct write_options {
    bool dry_run;
    bool force;
    enum query_validation fields;
    struct str field_manager;
};

// query_write_options reads the options of a create, update or patch (apply: server-side apply).
// Returns as query_list_options.
int query_write_options(const struct query *q, bool patch, bool apply, struct write_options *ret,
                        struct causes *causes) MUST_USE;

// query_delete_options reads the options of a deletion without a body. one: it is of one object,
// whose UID and version may be named (of a collection resourceVersion means something else).
// Returns as query_list_options.
int query_delete_options(const struct query *q, bool one, struct arena *arena,
                         struct api_delete_options *ret, struct err *err) MUST_USE;

// query_check_delete_options judges options, wherever they came from.
int query_check_delete_options(const struct api_delete_options *options,
                               struct causes *causes) MUST_USE;

#endif
