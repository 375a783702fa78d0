// SPDX-License-Identifier: Apache-2.0
//
// Encryption of rows at rest: the store asks a sealer for the bytes that stand in a row. Which
// kinds are encrypted, with which keys, is the sealer's matter (server/seal.h).
#ifndef STORE_SEAL_H
#define STORE_SEAL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "store/record.h"

// The commit thread calls seal, the opening thread calls both: a sealer does not change.
struct store_sealer {
    // seal adds the sealed bytes to out; none: rows of this kind are written as they are. context
    // is authenticated, not written. Returns 0 or a negative code.
    int (*seal)(void *arg, const struct api_kind *kind, struct str context, struct str plain,
                struct sbuf *out, struct err *err);
    // open adds the bytes that were sealed. *ret_stale: seal would use another key now. Returns 0
    // or a negative code (no such key, another key, damaged).
    int (*open)(void *arg, const struct api_kind *kind, struct str context, struct str sealed,
                struct sbuf *out, bool *ret_stale, struct err *err);
    // plain: whether a row that is not sealed is read. *ret_stale: seal would encrypt it now.
    int (*plain)(void *arg, const struct api_kind *kind, bool *ret_stale, struct err *err);
    void *arg;
};

// store_seal_row replaces the blob of a row by its sealed form; scratch is overwritten. sealer may
// be NULL.
int store_seal_row(const struct store_sealer *sealer, const struct record_row *row,
                   const struct api_kind *kind, struct sbuf *blob, struct sbuf *scratch,
                   struct err *err) MUST_USE;

// store_check_row checks a row's blob, sealed or not, as far as that needs no key.
int store_check_row(const struct record_row *row, struct str blob, struct err *err) MUST_USE;

// store_open_row makes *blob the row's plain bytes: it stays as it is, or becomes the content of
// scratch. Returns 0, -ERR_INVALID when the row is damaged, or -ENOKEY when the sealer cannot or
// must not read it.
int store_open_row(const struct store_sealer *sealer, const struct record_row *row,
                   const struct api_kind *kind, struct str *blob, struct sbuf *scratch,
                   bool *ret_stale, struct err *err) MUST_USE;

#endif
