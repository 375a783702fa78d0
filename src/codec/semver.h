// SPDX-License-Identifier: Apache-2.0
//
// Semantic versions 2.0.0, strict: three numbers without leading zeroes, optional pre-release and
// build. Numbers are 64 bits unsigned. Parsing keeps slices of the text: nothing is allocated and
// the text must outlive the version.
#ifndef CODEC_SEMVER_H
#define CODEC_SEMVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct semver {
    uint64_t major;
    uint64_t minor;
    uint64_t patch;
    struct str pre;   // behind '-', without it; empty when absent
    struct str build; // behind '+', without it; ignored by comparison
};

// semver_parse reads the whole of text. Returns 0 or -ERR_INVALID with the message of upstream's
// semver package.
int semver_parse(struct str text, struct semver *ret, struct err *err) MUST_USE;

// semver_parse_tolerant reads as Kubernetes' CEL library does with normalize=true: one leading 'v'
// is dropped, so are leading zeroes of the three parts, and missing minor and patch become 0. *ret
// points into arena. Returns 0 or -ERR_INVALID.
int semver_parse_tolerant(struct str text, struct arena *arena, struct semver *ret,
                          struct err *err) MUST_USE;

// semver_cmp orders by precedence; build is ignored: <0, 0, >0.
int semver_cmp(const struct semver *a, const struct semver *b);

void semver_write(const struct semver *v, struct sbuf *out);

#endif
