// SPDX-License-Identifier: Apache-2.0
//
// Conformance of a cluster: a list of checks, run one after the other, with evidence for each.
#ifndef LAB_CONFORM_CONFORM_H
#define LAB_CONFORM_CONFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/vec.h"
#include "codec/json.h"

enum conform_result { CONFORM_PASS, CONFORM_FAIL, CONFORM_SKIP };

struct conform_options {
    const char *kubeconfig; // NULL: as kubectl
    const char *context;
    const char *namespace;  // NULL: one of its own, which is removed
    const char *image;      // with a shell, ls, env, sort and find
    const char *class_name; // DeviceClass of accelerators; NULL: found
    struct str claim_spec;  // JSON of a ResourceClaimSpec instead of a class; may be empty
    struct str nic_spec;    // the same for a network device
    const char *metrics;    // path of metrics below the API server; NULL: not known
    const char *only;       // names of checks, separated by commas; may end in '*'; NULL: all
    int64_t timeout_s;      // for a pod to do something
    bool keep;              // leave what was created
    // progress is called when a check begins (result NULL) and ends. May be NULL.
    void (*progress)(void *arg, const char *id, const enum conform_result *result, const char *why);
    void *arg;
};

// A piece of evidence.
struct conform_evidence {
    int64_t at_ns;   // wall clock
    struct str type; // request, object, log, note
    struct str text;
};
struct conform_evidences VEC(struct conform_evidence);

struct conform_outcome {
    const char *id, *title, *requirement;
    bool must; // else should
    enum conform_result result;
    struct str why; // of failures and skips; may be empty
    int64_t started_ns, took_ns;
    struct conform_evidences evidence;
};
struct conform_outcomes VEC(struct conform_outcome);

struct conform_docs VEC(struct json_doc);

struct conform_report {
    struct arena arena;
    struct conform_docs docs;   // that answers point into
    struct str server, version; // of Kubernetes, as reported by the server
    struct str namespace;
    int64_t started_ns, took_ns;
    struct conform_outcomes outcomes;
    bool interrupted;
    struct str leftover; // what could not be removed; empty: nothing
};

// conform_run runs the checks. Returns 0 when they could be run, whatever they say, or a negative
// code: no API server. The report is freed by conform_report_done either way.
int conform_run(const struct conform_options *options, struct conform_report *ret,
                struct err *err) MUST_USE;
void conform_report_done(struct conform_report *r);

// conform_interrupt makes a run end soon: from a signal handler.
void conform_interrupt(void);

// conform_count returns how many outcomes are of a kind; must_only: among those that must be.
size_t conform_count(const struct conform_report *r, enum conform_result result, bool must_only);

// conform_write_*: the report for people, as JSON, as JUnit's XML.
void conform_write_table(const struct conform_report *r, bool evidence, struct sbuf *out);
void conform_write_json(const struct conform_report *r, struct sbuf *out);
void conform_write_junit(const struct conform_report *r, struct sbuf *out);

// conform_list names the checks, one a line.
void conform_list(struct sbuf *out);

#endif
