// SPDX-License-Identifier: Apache-2.0
//
// Runs image garbage collection every five minutes and after a pull without space, and reports the
// result as kubelet does.
#include "node/image_keeper.h"

#include <stdlib.h>

#include "base/mem.h"
#include "node/image/image.h"

#include "base/banned.h"

#define MIN_AGE_NS (2 * 60 * CLOCK_NS_PER_SEC)
#define PERIOD_NS  (5 * 60 * CLOCK_NS_PER_SEC)

// What the runtime was asked; it may outlive the keeper.
struct look {
    struct image_keeper *keeper; // NULL: gone
    bool all;                    // every unused image
};

struct image_keeper {
    struct image_keeper_options options;
    char *node;
    struct exec_timer timer;
    struct look *look; // under way; NULL: none
    bool full;         // the next collection follows a pull without space, or a full disk
    exec_fn reclaimed; // to be called after that one; NULL: no caller waits
    void *reclaimed_arg;
    bool quiet;
    bool short_told;   // that there is too little to remove: once, until it is better
    unsigned failures; // in a row
};

static void image_keeper_write_event(struct image_keeper *k, const char *reason, const char *text)
{
    const struct api_object_reference about = {.kind = STR("Node"),
                                               .api_version = STR("v1"),
                                               .name = str_z(k->node),
                                               .uid = str_z(k->node)}; // as kubelet does
    if (k->options.events)
        events_record_ref(k->options.events, &about, EVENT_WARNING, str_z(reason), str_z(text));
}

static void image_keeper_log(struct image_keeper *k, const char *text)
{
    if (k->options.say)
        k->options.say(k->options.arg, text);
}

static void image_keeper_add_bytes(struct sbuf *out, uint64_t n)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double d = (double)n;
    size_t u = 0;
    for (; d >= 1024 && u + 1 < array_len(units); u++)
        d /= 1024;
    sbuf_addf(out, u ? "%.1f %s" : "%.0f %s", d, units[u]);
}

// --- Reports -------------------------------------------------------------------------------------

static void image_keeper_report_freed(struct image_keeper *k, const struct image_freed *f)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "removed %zu unused image%s, ", f->removed, f->removed == 1 ? "" : "s");
    image_keeper_add_bytes(&text, f->freed);
    sbuf_addf(&text, ": their disk was %u %% full, now it is %u %%", f->percent_before,
              image_used_percent(f));
    image_keeper_log(k, text.p);
}

// Mostly the disk is full of something else than images.
static void image_keeper_report_short(struct image_keeper *k, const struct image_freed *f)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text, "the disk of the images has ");
    image_keeper_add_bytes(&text, f->capacity);
    sbuf_addf(&text, ", %u %% of it in use: ", image_used_percent(f));
    image_keeper_add_bytes(&text, f->wanted);
    sbuf_addz(&text, " should be freed, unused images had ");
    image_keeper_add_bytes(&text, f->freed);
    sbuf_addz(&text, ". Remove something else, or give it more room");
    image_keeper_write_event(k, "FreeDiskSpaceFailed", text.p);
    if (!k->short_told)
        image_keeper_log(k, text.p);
    k->short_told = true;
}

// As kubelet, people are bothered with what fails again.
static void image_keeper_report_failed(struct image_keeper *k, const struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "cannot remove images: %s", err->msg);
    if (k->failures++ > 0)
        image_keeper_write_event(k, "ImageGCFailed", text.p);
    else
        image_keeper_log(k, text.p);
}

static void image_keeper_begin(struct image_keeper *k);

static void image_keeper_on_freed(void *arg, int code, const struct image_freed *f,
                                  const struct err *err)
{
    struct look *l = arg;
    struct image_keeper *k = l->keeper;
    bool all = l->all;
    free(l);
    if (!k)
        return;
    k->look = NULL;
    if (f->removed)
        image_keeper_report_freed(k, f);
    if (code < 0) {
        image_keeper_report_failed(k, err);
    } else {
        k->failures = 0;
        if (!f->enough)
            image_keeper_report_short(k, f);
        else
            k->short_told = false;
    }
    if (k->full)
        image_keeper_begin(k);
    if (!k->look && k->reclaimed && (all || k->quiet)) // a quiet one begins nothing
        take_ptr(k->reclaimed)(k->reclaimed_arg);
}

// --- Schedule ------------------------------------------------------------------------------------

static void image_keeper_begin(struct image_keeper *k)
{
    const struct image_keeper_options *o = &k->options;
    if (k->look || k->quiet || !o->runtime->ops->image_gc)
        return;
    const struct runtime_image_gc how = {
        .high_percent = (unsigned)o->high_percent,
        .low_percent = (unsigned)o->low_percent,
        .min_age_ns = o->min_age_ns,
        .all = k->full,
    };
    k->look = xcalloc(1, sizeof(*k->look));
    *k->look = (struct look){k, k->full};
    k->full = false;
    o->runtime->ops->image_gc(o->runtime, &how, image_keeper_on_freed, k->look);
}

static void image_keeper_on_time(void *arg)
{
    struct image_keeper *k = arg;
    exec_timer_start(k->options.exec, &k->timer, k->options.period_ns);
    image_keeper_begin(k);
}

struct image_keeper *image_keeper_new(const struct image_keeper_options *options)
{
    struct image_keeper *k = xcalloc(1, sizeof(*k));
    k->options = *options;
    k->node = xstrndup(options->node.n ? options->node.p : "", options->node.n);
    if (!k->options.high_percent)
        k->options.high_percent = IMAGE_KEEPER_HIGH_PERCENT;
    if (!k->options.low_percent)
        k->options.low_percent = IMAGE_KEEPER_LOW_PERCENT;
    if (!k->options.min_age_ns)
        k->options.min_age_ns = MIN_AGE_NS;
    if (!k->options.period_ns)
        k->options.period_ns = PERIOD_NS;
    k->timer = (struct exec_timer){.fn = image_keeper_on_time, .arg = k};
    return k;
}

void image_keeper_start(struct image_keeper *k)
{
    exec_timer_start(k->options.exec, &k->timer, 0);
}

void image_keeper_disk_full(struct image_keeper *k)
{
    k->full = true;
    image_keeper_begin(k);
}

void image_keeper_reclaim(struct image_keeper *k, exec_fn done, void *arg)
{
    k->reclaimed = done;
    k->reclaimed_arg = arg;
    image_keeper_disk_full(k);
    if (!k->look && k->reclaimed) // there is nothing to remove, or it must not begin
        exec_post(k->options.exec, take_ptr(k->reclaimed), arg);
}

void image_keeper_quiet(struct image_keeper *k)
{
    k->quiet = true;
    exec_timer_stop(k->options.exec, &k->timer);
}

bool image_keeper_busy(const struct image_keeper *k)
{
    return k->look;
}

void image_keeper_free(struct image_keeper *k)
{
    if (!k)
        return;
    exec_timer_stop(k->options.exec, &k->timer);
    if (k->look)
        k->look->keeper = NULL;
    free(k->node);
    free(k);
}
