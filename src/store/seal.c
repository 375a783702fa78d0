// SPDX-License-Identifier: Apache-2.0
//
// A sealed row's blob is one byte of format, eight of checksum and the sealer's bytes. The checksum
// tells damage from a missing key. The columns of the row are authenticated with the bytes: a
// row that is copied to another name, or over a newer version, does not
// open.
#include "store/seal.h"

#include <errno.h>

#include "base/banned.h"

#define SEAL_FORMAT '\2' // a plain record begins with another number (record.c)

#define SEAL_HEAD_BYTES 9

static void seal_add_number(struct sbuf *out, uint64_t v)
{
    for (int i = 0; i < 8; i++, v >>= 8)
        sbuf_addc(out, (char)(unsigned char)v);
}

static void seal_add_text(struct sbuf *out, struct str s)
{
    seal_add_number(out, s.n);
    sbuf_add(out, s);
}

static void seal_write_context(const struct record_row *row, struct sbuf *out)
{
    seal_add_number(out, row->revision);
    seal_add_number(out, row->deleted);
    seal_add_text(out, row->kind);
    seal_add_text(out, row->namespace);
    seal_add_text(out, row->name);
}

static void seal_put_sum(const struct record_row *row, struct sbuf *blob)
{
    uint64_t sum = record_sum(row, str_from(sbuf_str(blob), SEAL_HEAD_BYTES));
    for (int i = 0; i < 8; i++, sum >>= 8)
        blob->p[1 + i] = (char)(unsigned char)sum;
}

static bool seal_is_sealed(struct str blob)
{
    return blob.n && blob.p[0] == SEAL_FORMAT;
}

int store_check_row(const struct record_row *row, struct str blob, struct err *err)
{
    if (!seal_is_sealed(blob))
        return record_check(row, blob, err);
    uint64_t sum = 0;
    for (size_t i = 8; blob.n >= SEAL_HEAD_BYTES && i > 0; i--)
        sum = sum << 8 | (unsigned char)blob.p[i];
    if (blob.n < SEAL_HEAD_BYTES || sum != record_sum(row, str_from(blob, SEAL_HEAD_BYTES)))
        return err_set(err, ERR_INVALID, "the row's checksum is wrong");
    return 0;
}

int store_seal_row(const struct store_sealer *sealer, const struct record_row *row,
                   const struct api_kind *kind, struct sbuf *blob, struct sbuf *scratch,
                   struct err *err)
{
    if (!sealer)
        return 0;
    cleanup_sbuf struct sbuf context = {0};
    seal_write_context(row, &context);
    sbuf_clear(scratch);
    sbuf_addc(scratch, SEAL_FORMAT);
    seal_add_number(scratch, 0); // the checksum
    int r = sealer->seal(sealer->arg, kind, sbuf_str(&context), sbuf_str(blob), scratch, err);
    if (r < 0 || scratch->n == SEAL_HEAD_BYTES)
        return r;
    seal_put_sum(row, scratch);
    struct sbuf sealed = *scratch;
    *scratch = *blob;
    *blob = sealed;
    return 0;
}

static int seal_open_bytes(const struct store_sealer *sealer, const struct record_row *row,
                           const struct api_kind *kind, struct str sealed, struct sbuf *scratch,
                           bool *ret_stale, struct err *err)
{
    if (!sealer)
        return err_set(err, ENOKEY, "it is encrypted and no key is given");
    cleanup_sbuf struct sbuf context = {0};
    seal_write_context(row, &context);
    sbuf_clear(scratch);
    return sealer->open(sealer->arg, kind, sbuf_str(&context), sealed, scratch, ret_stale, err);
}

int store_open_row(const struct store_sealer *sealer, const struct record_row *row,
                   const struct api_kind *kind, struct str *blob, struct sbuf *scratch,
                   bool *ret_stale, struct err *err)
{
    int r = 0;
    *ret_stale = false;
    if (seal_is_sealed(*blob)) {
        r = store_check_row(row, *blob, err);
        if (r < 0)
            return r;
        r = seal_open_bytes(sealer, row, kind, str_from(*blob, SEAL_HEAD_BYTES), scratch, ret_stale,
                            err);
        *blob = sbuf_str(scratch);
    } else if (sealer) {
        r = sealer->plain(sealer->arg, kind, ret_stale, err);
    }
    if (r < 0 && err)
        err->code = ENOKEY;
    return r < 0 ? -ENOKEY : 0;
}
