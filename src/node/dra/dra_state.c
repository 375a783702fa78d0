// SPDX-License-Identifier: Apache-2.0
//
// The manager's state on disk: when the checkpoint is trusted, and when its older copy is used
// instead.
#include "node/checkpoint.h"
#include "node/dra/dra_int.h"
#include "os/fault.h"

#include "base/banned.h"

int dra_save(struct dra *d, struct err *err)
{
    if (!d->dirty)
        return 0;
    struct disk *disk = d->options.disk;
    cleanup_sbuf struct sbuf text = {0};
    checkpoint_write(&d->claims, &text);
    fault_point("save the state");
    // The version before stays as a second copy; without it things go on.
    struct err why = {0};
    int r = disk->copy(disk, DRA_STATE_FILE, DRA_STATE_OLD, &why);
    if (r < 0 && r != -ENOENT)
        LOG_WARN(&dra_log, "no second copy of the state is kept", log_z("why", why.msg));
    r = disk->replace(disk, DRA_STATE_FILE, sbuf_str(&text), err);
    if (r == 0)
        d->dirty = false;
    return r;
}

// Writes the state without touching the older copy.
static int dra_state_write_state(struct dra *d, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    checkpoint_write(&d->claims, &text);
    d->dirty = false;
    return d->options.disk->replace(d->options.disk, DRA_STATE_FILE, sbuf_str(&text), err);
}

static int dra_state_read_state(struct dra *d, const char *name, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    int r = d->options.disk->read(d->options.disk, name, &text, err);
    return r < 0 ? r : checkpoint_read(sbuf_str(&text), &d->claims, err);
}

// A state of this boot, and nothing is known to be missing in it, is believed.
static bool dra_state_is_same_boot(struct dra *d)
{
    cleanup_sbuf struct sbuf text = {0};
    struct err err;
    if (d->options.disk->read(d->options.disk, DRA_BOOT_ID_FILE, &text, &err) < 0)
        return false;
    return d->boot_id[0] != '\0' && str_eqz(str_trim(sbuf_str(&text)), d->boot_id);
}

static void dra_state_mark_stale(struct dra *d)
{
    map_foreach(&d->claims.by_key, i) {
        struct node_claim *c = *map_value(&d->claims.by_key, i);
        c->stale = true;
        vec_foreach(&c->drivers, part)
            node_claim_driver_set(part, NULL, 0);
    }
}

// The state file is damaged: the older copy, or nothing.
static int dra_state_recover(struct dra *d, const struct err *damage, struct err *err)
{
    struct disk *disk = d->options.disk;
    struct err why = {0};
    LOG_ERROR(&dra_log, "the state file is damaged, the older copy is used instead",
              log_z("file", DRA_STATE_FILE), log_z("why", damage->msg));
    (void)!disk->copy(disk, DRA_STATE_FILE, DRA_STATE_BAD, &why);
    int r = dra_state_read_state(d, DRA_STATE_OLD, &why);
    if (r < 0 && !d->options.rebuild)
        return err_set(err, ERR_INVALID,
                       "the state file %s is damaged (%s) and so is its older copy (%s): please "
                       "drain node and remove DRA state file",
                       DRA_STATE_FILE, damage->msg, why.msg);
    d->rebuilding = true;
    dra_state_mark_stale(d);
    return dra_state_write_state(d, err);
}

static int dra_state_start_empty(struct dra *d, struct err *err)
{
    int r = dra_state_write_state(d, err);
    // Removing the file is meant for the copy, too. Written, not linked: what damages one of
    // them must not damage both.
    cleanup_sbuf struct sbuf text = {0};
    checkpoint_write(&d->claims, &text);
    if (r == 0)
        r = d->options.disk->replace(d->options.disk, DRA_STATE_OLD, sbuf_str(&text), err);
    return r;
}

int dra_load(struct dra *d, struct err *err)
{
    struct err why = {0};
    int r = dra_state_read_state(d, DRA_STATE_FILE, &why);
    bool known = dra_state_is_same_boot(d);
    if (r == -ENOENT)
        r = dra_state_start_empty(d, err);
    else if (r == -ERR_INVALID || r == -ERR_BAD_REQUEST || r == -ERR_TOO_LARGE)
        r = dra_state_recover(d, &why, err);
    else if (r < 0)
        return err_set(err, -r, "%s", why.msg);
    if (r < 0 || known)
        return r;
    if (map_len(&d->claims.by_key) > 0) {
        LOG_WARN(&dra_log, "the state is of another boot: claims will be prepared again",
                 log_u64("claims", map_len(&d->claims.by_key)));
        dra_state_mark_stale(d);
        r = dra_state_write_state(d, err);
    }
    // Only now: a crash before this line does the same again.
    if (r == 0 && d->boot_id[0])
        r = d->options.disk->replace(d->options.disk, DRA_BOOT_ID_FILE, str_z(d->boot_id), err);
    return r;
}
