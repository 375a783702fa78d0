// SPDX-License-Identifier: Apache-2.0
//
// dray top: nodes, devices and pods that wait, as they change. Objects come by watches; the picture
// is made again when one has changed, or a key was pressed, and only the lines that differ are
// painted.
#include "view/top.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include "client/informer.h"
#include "cmd/devices/device_verb.h"
#include "plan/parts.h"
#include "view/human.h"
#include "view/screen.h"

#include "base/banned.h"

#define TICK_NS    (50 * CLOCK_NS_PER_MS)
#define REDRAW_NS  (CLOCK_NS_PER_SEC / 2) // at the most so often for changes of the cluster
#define FILTER_MAX 64
#define AGES_NS    (5 * CLOCK_NS_PER_SEC) // ages are drawn again

static bool once, by_device, every_namespace;
static const char *sort_by;

static int verb_top(void);

static const struct cli_option top_options[] = {
    {"--once", NULL, NULL, "print once and exit, as without a terminal", .flag = &once},
    {"--devices", NULL, NULL, "show a line per device", .flag = &by_device},
    {"--all-namespaces", "-A", NULL, "show all namespaces; the default", .flag = &every_namespace,
     .excludes = "--namespace"},
    {"--sort", NULL, "ORDER", "sort by name, free or held devices", .text = &sort_by,
     .choices = "name free held"},
    DEVICE_SNAPSHOT_OPTION,
};
static const struct cli_group top_group = CLI_GROUP("Options", top_options);

const struct cli_verb top_verb = {
    .name = "top",
    .summary = "watch nodes, devices and pending pods",
    .chapter = CLI_DEVICES,
    .everyday = true,
    .synopsis =
        "top [--once] [--devices] [--sort name|free|held] [-n NAMESPACE] [-o json] [OPTIONS]",
    .text =
        "Shows nodes with a mark for each device, and pending pods with the reason, and follows "
        "changes. Marks: . free, + partly allocated, # allocated, ~ blocked by other partitions, "
        "! tainted, x lost, % in use and broken. A device of which partitions are in use is marked "
        "+; network devices have a line of their own. -n shows what claims and pods of one "
        "namespace have and want.\n\n"
        "Keys: j and k move the cursor, whose line is shown whole below; Tab moves it to the pods "
        "that wait; d switches between nodes and devices with their partitions, s changes the "
        "order, / filters by text, ? shows help, q quits.",
    .examples = "dray top\ndray top --once --devices\ndray top --sort free",
    .groups = {&top_group, &common_output, &common_cluster},
    .run = verb_top,
};

static void read_sort(enum top_sort *ret)
{
    static const char *const names[TOP_SORTS] = {"name", "free", "held"};
    for (int i = 0; sort_by && i < TOP_SORTS; i++)
        if (strcmp(sort_by, names[i]) == 0)
            *ret = (enum top_sort)i;
}

// --- Once ----------------------------------------------------------------------------------------

static int show_once(struct top_look *look, struct err *err)
{
    struct device_source s = {0};
    struct inventory *inv = NULL;
    cleanup_sbuf struct sbuf out = {0};
    int r = device_verb_open(&s, DEVICE_WORLD_DEVICES, err);
    if (r == 0)
        r = device_verb_inventory(&s, &inv, err);
    if (r == 0) {
        look->term = s.layout.term;
        look->term.rows = 0;
        look->now = view_now();
        struct json_writer w = {.out = &out};
        if (view_is_table(&s.format)) {
            (void)view_top(&out, inv, look);
            r = common_print(sbuf_str(&out), err);
        } else {
            view_top_json(&w, inv, look);
            r = device_verb_show_json(&s, &out, err);
        }
    }
    inventory_free(inv);
    device_verb_close(&s);
    return r;
}

// --- Live ----------------------------------------------------------------------------------------

static const struct {
    const char *version, *kind;
} watched[] = {
    {"v1", "Node"},
    {"v1", "Pod"},
    {"resource.k8s.io/v1", "ResourceSlice"},
    {"resource.k8s.io/v1", "ResourceClaim"},
    {"resource.k8s.io/v1", "DeviceTaintRule"}, // the last: not every server has them
};

struct live {
    struct cluster cluster;
    struct alloc_features features;
    bool rules; // the server has DeviceTaintRules
    struct informer *informers[sizeof(watched) / sizeof(watched[0])];
    struct inventory_parts *parts;
    struct VEC(
        const struct typed_object *) replaced; // since the last look, which may still show them
    const struct inventory *inv;               // of the parts
    struct screen screen;
    struct top_look look;
    struct exec_timer timer;
    struct top_seen seen; // in the last picture
    struct sbuf filter;   // look.filter is of it
    int64_t painted_ns;   // when
    bool changed;         // objects
    bool pressed;         // keys, or another size
    bool stop;
    int code;
    struct err *err;
};

static void top_verb_write(const struct sbuf *out)
{
    size_t done = 0;
    while (done < out->n) {
        ssize_t n = write(STDOUT_FILENO, out->p + done, out->n - done);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}

// Rebuilds the parts of the inventory that changes affect.
static int top_verb_refresh(struct live *l)
{
    int r = inventory_parts_update(l->parts, &l->inv, l->err);
    for (size_t i = 0; i < l->replaced.n; i++)
        typed_object_unref(l->replaced.p[i]);
    vec_clear(&l->replaced);
    return r;
}

// top_verb_keep_cursor keeps the cursor in the list and the list around the cursor. Returns whether
// something moved.
static bool top_verb_keep_cursor(struct live *l)
{
    size_t lines = l->look.pods ? l->seen.pods : l->seen.lines;
    size_t room = l->look.pods ? l->seen.pods_room : l->seen.lines_room;
    size_t *scroll = l->look.pods ? &l->look.pods_scroll : &l->look.scroll;
    size_t cursor = l->look.cursor, from = *scroll;
    if (l->look.cursor >= lines)
        l->look.cursor = lines ? lines - 1 : 0;
    if (l->look.cursor < *scroll)
        *scroll = l->look.cursor;
    else if (room && l->look.cursor - *scroll >= room)
        *scroll = l->look.cursor - room + 1;
    return cursor != l->look.cursor || from != *scroll;
}

static void top_verb_paint(struct live *l)
{
    cleanup_sbuf struct sbuf picture = {0}, out = {0};
    l->look.now = view_now();
    l->look.filter = sbuf_str(&l->filter);
    l->seen = view_top(&picture, l->inv, &l->look);
    if (top_verb_keep_cursor(l)) { // the list is shorter now
        sbuf_clear(&picture);
        l->seen = view_top(&picture, l->inv, &l->look);
    }
    screen_size(&l->screen, l->look.term.rows, l->look.term.columns);
    screen_text(&l->screen, sbuf_str(&picture));
    (void)screen_paint(&l->screen, &out);
    top_verb_write(&out);
}

static void top_verb_move(struct live *l, ptrdiff_t by)
{
    ptrdiff_t to = (ptrdiff_t)l->look.cursor + by;
    l->look.cursor = to < 0 ? 0 : (size_t)to; // the next picture knows how long its list is
}

// The filter is typed: letters, a backspace, Enter at the end, Esc to remove it.
static void top_verb_type(struct live *l, char key)
{
    if (key == '\r' || key == '\n' || key == 27)
        l->look.typing = false;
    else if (key == 127 || key == 8)
        sbuf_truncate(&l->filter, l->filter.n ? l->filter.n - 1 : 0);
    else if ((unsigned char)key >= ' ' && l->filter.n < FILTER_MAX)
        sbuf_addc(&l->filter, key);
    if (key == 27)
        sbuf_clear(&l->filter);
    l->look.cursor = l->look.scroll = l->look.pods_scroll = 0;
}

static void top_verb_handle_key(struct live *l, char key)
{
    ptrdiff_t page = (ptrdiff_t)(l->look.term.rows / 2);
    l->pressed = true;
    if (l->look.typing) {
        top_verb_type(l, key);
    } else if (key == 'q' || key == 3) {
        l->stop = true;
    } else if (key == '?') {
        l->look.help = !l->look.help;
    } else if (key == '/') {
        l->look.typing = true;
    } else if (key == 'd' || key == '\t') {
        l->look.devices ^= key == 'd';
        l->look.pods = key == '\t' && !l->look.pods;
        l->look.cursor = l->look.scroll = l->look.pods_scroll = 0;
    } else if (key == 's') {
        l->look.sort = (l->look.sort + 1) % TOP_SORTS;
    } else if (key == 'j' || key == 'k') {
        top_verb_move(l, key == 'j' ? 1 : -1);
    } else if (key == ' ' || key == 'b') {
        top_verb_move(l, key == ' ' ? page : -page);
    }
}

// top_verb_handle_keys takes arrows and page keys as the letters for them. Returns how many bytes
// were used.
static size_t top_verb_handle_keys(struct live *l, const char *keys, size_t n)
{
    static const struct {
        const char *sequence;
        char key;
    } known[] = {{"\033[A", 'k'}, {"\033OA", 'k'},  {"\033[B", 'j'},
                 {"\033OB", 'j'}, {"\033[5~", 'b'}, {"\033[6~", ' '}};
    for (size_t i = 0; i < array_len(known); i++)
        if (str_starts(str_make(keys, n), str_z(known[i].sequence))) {
            if (!l->look.typing)
                top_verb_handle_key(l, known[i].key);
            return strlen(known[i].sequence);
        }
    top_verb_handle_key(l, keys[0]);
    return 1;
}

static void read_keys(struct live *l)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char keys[64];
    while (poll(&in, 1, 0) > 0) {
        ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
        if (n <= 0) {
            l->stop = true; // the terminal is gone
            return;
        }
        for (size_t i = 0; i < (size_t)n;)
            i += top_verb_handle_keys(l, keys + i, (size_t)n - i);
    }
}

static void look_at_size(struct live *l)
{
    struct view_layout how;
    if (common_layout(&how, l->err) < 0)
        return;
    l->pressed |= how.term.rows != l->look.term.rows || how.term.columns != l->look.term.columns;
    l->look.term = how.term;
}

static bool all_synced(void *arg)
{
    const struct live *l = arg;
    for (size_t i = 0; i < array_len(l->informers); i++)
        if (l->informers[i] && !informer_synced(l->informers[i]))
            return false;
    return true;
}

static void top_verb_on_tick(void *arg)
{
    struct live *l = arg;
    struct exec *exec = loop_exec(l->cluster.loop);
    int64_t now = exec_now_ns(exec);
    read_keys(l);
    look_at_size(l);
    bool due = now - l->painted_ns > (l->changed ? REDRAW_NS : AGES_NS);
    if (l->changed && due) {
        l->changed = false;
        l->code = top_verb_refresh(l);
    }
    if (l->code == 0 && (due || l->pressed)) {
        l->painted_ns = now;
        l->pressed = false;
        top_verb_paint(l);
    }
    if (l->stop || l->code < 0)
        loop_stop(l->cluster.loop);
    else
        exec_timer_start(exec, &l->timer, TICK_NS);
}

static void on_change(void *arg, const struct typed_object *before,
                      const struct typed_object *after)
{
    struct live *l = arg;
    inventory_parts_change(l->parts, before ? &before->object : NULL,
                           after ? &after->object : NULL);
    if (before)
        vec_push(&l->replaced, typed_object_ref(before));
    l->changed = true;
}

static void top_verb_on_signal(void *arg)
{
    ((struct live *)arg)->stop = true;
}

static void top_verb_start_watches(struct live *l)
{
    for (size_t i = 0; i < array_len(l->informers) - !l->rules; i++) {
        const struct informer_options o = {.client = l->cluster.client,
                                           .kind = api_kind_find(str_z(watched[i].version),
                                                                 str_z(watched[i].kind))};
        const struct informer_handler h = {.changed = on_change, .arg = l};
        l->informers[i] = informer_new(&o);
        informer_add_handler(l->informers[i], &h);
        informer_start(l->informers[i]);
    }
}

static int connect_live(struct live *l, struct err *err)
{
    struct features f;
    int r = common_open(&l->cluster, err);
    if (r == 0)
        r = loop_on_signal(l->cluster.loop, SIGTERM, top_verb_on_signal, l, err);
    if (r == 0)
        r = loop_on_signal(l->cluster.loop, SIGINT, top_verb_on_signal, l, err);
    l->features = alloc_features_default();
    if (r == 0 && cluster_features(&l->cluster, &f, NULL) == 0) {
        l->features = alloc_features_of(&f);
        l->rules = f.on[FEATURE_DRA_DEVICE_TAINT_RULES];
    }
    if (r < 0)
        return r;
    l->parts = inventory_parts_new(&l->features);
    top_verb_start_watches(l);
    r = cluster_wait(&l->cluster, all_synced, l, err);
    return r < 0 ? r : top_verb_refresh(l);
}

static void live_done(struct live *l)
{
    inventory_parts_free(l->parts);
    for (size_t i = 0; i < l->replaced.n; i++)
        typed_object_unref(l->replaced.p[i]);
    vec_done(&l->replaced);
    for (size_t i = 0; i < array_len(l->informers); i++)
        if (l->informers[i])
            informer_free(l->informers[i]);
    sbuf_done(&l->filter);
    screen_done(&l->screen);
    cluster_close(&l->cluster);
}

// Paints until a key or a signal ends it.
static int run_live(struct live *l)
{
    struct termios before, raw;
    cleanup_sbuf struct sbuf out = {0};
    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return err_set(l->err, errno, "this is no terminal: use --once");
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    screen_enter(&l->screen, &out);
    top_verb_write(&out);
    l->pressed = true;
    l->timer = (struct exec_timer){.fn = top_verb_on_tick, .arg = l};
    exec_timer_start(loop_exec(l->cluster.loop), &l->timer, 0);
    loop_run(l->cluster.loop);
    sbuf_clear(&out);
    screen_leave(&out);
    top_verb_write(&out);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return l->code;
}

static int verb_top(void)
{
    struct err err = {0};
    struct live l = {.err = &err};
    int r;
    read_sort(&l.look.sort);
    l.look.devices = by_device;
    l.look.namespace = common.namespace ? str_z(common.namespace) : (struct str){0};
    if (once || common.output || device_snapshot || !isatty(STDOUT_FILENO) ||
        !isatty(STDIN_FILENO)) {
        r = show_once(&l.look, &err);
    } else {
        l.look.keys = true;
        r = connect_live(&l, &err);
        if (r == 0)
            r = run_live(&l);
        live_done(&l);
    }
    return r < 0 ? common_fail("top", &err) : VERB_OK;
}
