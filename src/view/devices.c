// SPDX-License-Identifier: Apache-2.0
//
// Answers of an inventory as tables and texts for people.
#include "view/devices.h"

#include "view/human.h"

#include "base/banned.h"

#define NAMES_SHOWN  6 // of free devices, in a cell
#define DEVICES_TOLD 10

#define DOCTOR_COLUMN 20 // where a finding starts

// Columns of a matrix with the gap behind them, at the least.
#define TOPO_NUMBER       5U
#define TOPO_CELL         6U
#define TOPO_PLACES       18U // NUMA node and PCIe root
#define TOPO_SOCKET_WIDTH 8U

static void devices_add_node(struct view_table *t, struct str node, bool simulated)
{
    view_table_cellf(t, VIEW_PLAIN, "%.*s%s", STR_ARG(node), simulated ? INVENTORY_SIMULATED : "");
}

// --- Free ----------------------------------------------------------------------------------------

static void devices_add_count(struct view_table *t, size_t n, enum view_style style)
{
    view_table_cellf(t, n ? style : VIEW_DIM, "%zu", n);
}

static const char *const devices_state_heads[INVENTORY_STATES] = {
    "FREE", "PART", "HELD", "BLOCKED", "TAINTED", "LOST", "BROKEN"};
static const enum view_style devices_state_styles[INVENTORY_STATES] = {
    VIEW_GOOD, VIEW_GOOD, VIEW_PLAIN, VIEW_WARN, VIEW_WARN, VIEW_BAD, VIEW_BAD};

// Columns that are there only when they say something.
struct state_shown {
    bool broken, tolerant;
};

static struct state_shown state_shown_of(const struct view_free *all, size_t n)
{
    struct state_shown s = {0};
    for (size_t i = 0; i < n; i++) {
        s.broken |= all[i].answer->total.states[INVENTORY_BROKEN] > 0;
        s.tolerant |= all[i].answer->total.fits_tolerant > all[i].answer->total.fits;
    }
    return s;
}

// States that no device is in can be left out where there is no room.
static struct state_shown state_columns(struct view_table *t, const struct view_free *all, size_t n)
{
    struct state_shown shown = state_shown_of(all, n);
    view_table_column(t, STR("DEVICES"), VIEW_COLUMN_RIGHT);
    for (size_t i = 0; i < INVENTORY_STATES; i++) {
        size_t devices = 0;
        for (size_t k = 0; k < n; k++)
            devices += all[k].answer->total.states[i];
        bool spare = devices == 0 && i != INVENTORY_FREE && i != INVENTORY_HELD;
        if (i != INVENTORY_BROKEN || shown.broken)
            view_table_column(t, str_z(devices_state_heads[i]),
                              VIEW_COLUMN_RIGHT | (spare ? VIEW_COLUMN_SPARE : 0));
    }
    view_table_column(t, STR("FITS"), VIEW_COLUMN_RIGHT);
    if (shown.tolerant)
        view_table_column(t, STR("TOLERANT"), VIEW_COLUMN_RIGHT);
    return shown;
}

static void state_cells(struct view_table *t, const struct free_row *r, struct state_shown shown)
{
    devices_add_count(t, r->devices, VIEW_PLAIN);
    for (size_t i = 0; i < INVENTORY_STATES; i++)
        if (i != INVENTORY_BROKEN || shown.broken)
            devices_add_count(t, r->states[i], devices_state_styles[i]);
    view_table_cellf(t, r->fits ? VIEW_GOOD : VIEW_BAD, "%zu%s", r->fits, r->more ? "+" : "");
    if (shown.tolerant)
        devices_add_count(t, r->fits_tolerant, VIEW_PLAIN);
}

void view_free_classes(struct view_table *t, const struct view_free *all, size_t n)
{
    view_table_column(t, STR("CLASS"), VIEW_COLUMN_WHOLE);
    struct state_shown shown = state_columns(t, all, n);
    view_table_column(t, STR("NODES"), VIEW_COLUMN_RIGHT | VIEW_COLUMN_SPARE);
    for (size_t i = 0; i < n; i++) {
        size_t places = 0;
        for (size_t k = 0; k < all[i].answer->rows_len; k++)
            places += all[i].answer->rows[k].fits > 0;
        view_table_cell(t, all[i].class_name.n ? all[i].class_name : STR("(any)"), VIEW_PLAIN);
        state_cells(t, &all[i].answer->total, shown);
        devices_add_count(t, places, VIEW_PLAIN);
    }
}

// The first free devices of a place by name.
static void names_cell(struct view_table *t, const struct view_free *f, struct str node)
{
    cleanup_sbuf struct sbuf b = {0};
    size_t n = 0;
    for (size_t i = 0; i < f->answer->devices_len; i++) {
        const struct inventory_device *d = &f->inv->devices[f->answer->devices[i]];
        if (str_eq(d->node, node) && n++ < NAMES_SHOWN)
            sbuf_addf(&b, "%s%.*s", n > 1 ? "," : "", STR_ARG(d->id.device));
    }
    if (n > NAMES_SHOWN)
        sbuf_addf(&b, ",… %zu more", n - NAMES_SHOWN);
    view_table_cell(t, sbuf_str(&b), VIEW_PLAIN);
}

void view_free_nodes(struct view_table *t, const struct view_free *f)
{
    view_table_column(t, STR("NODE"), VIEW_COLUMN_WHOLE);
    struct state_shown shown = state_columns(t, f, 1);
    view_table_column(t, STR("FREE NOW"), 0);
    for (size_t i = 0; i < f->answer->rows_len; i++) {
        const struct free_row *r = &f->answer->rows[i];
        devices_add_node(t, r->node.n ? r->node : STR("(network)"),
                         inventory_simulated(f->inv, r->node));
        state_cells(t, r, shown);
        names_cell(t, f, r->node);
    }
    if (f->answer->rows_len == 1)
        return;
    view_table_cell(t, STR("(all)"), VIEW_HEAD);
    state_cells(t, &f->answer->total, shown);
    view_table_cell(t, (struct str){0}, VIEW_PLAIN);
}

// --- Who -----------------------------------------------------------------------------------------

void view_since(struct sbuf *out, const struct inventory_claim *c, struct moment now)
{
    if (c->since_how == INVENTORY_SINCE_UNKNOWN) {
        sbuf_addz(out, "?");
        return;
    }
    // The last write was then: the allocation is at least as old. Created then: at most as old.
    if (c->since_how == INVENTORY_SINCE_FIELDS)
        sbuf_addz(out, "≥");
    if (c->since_how == INVENTORY_SINCE_CREATION)
        sbuf_addz(out, "≤");
    view_add_duration(out, now.sec > c->since.at.sec ? now.sec - c->since.at.sec : 0);
}

static void share_text(struct sbuf *out, const struct api_device_request_allocation_result *r)
{
    for (size_t i = 0; i < r->consumed_capacity.n; i++) {
        sbuf_addf(out, "%s%.*s ", i ? ", " : "", STR_ARG(r->consumed_capacity.p[i].key));
        quantity_write(&r->consumed_capacity.p[i].value, out);
    }
    if (r->has_admin_access && r->admin_access)
        sbuf_addz(out, "admin access");
}

static void holder_cells(struct view_table *t, const struct inventory *inv,
                         const struct inventory_hold *h, struct str node, struct moment now)
{
    const struct inventory_claim *c = &inv->claims[h->claim];
    cleanup_sbuf struct sbuf since = {0}, share = {0};
    struct str namespace = c->claim->metadata.namespace;
    view_since(&since, c, now);
    share_text(&share, h->result);
    view_table_cell(t, namespace, VIEW_PLAIN);
    view_table_cell(t, c->claim->metadata.name, VIEW_PLAIN);
    view_table_cell(t, c->pods.n ? c->pods : STR("-"), c->pods.n ? VIEW_PLAIN : VIEW_WARN);
    devices_add_node(t, node.n ? node : c->node, inventory_simulated(inv, node.n ? node : c->node));
    view_table_cell(t, sbuf_str(&since), VIEW_PLAIN);
    view_table_cell(t, sbuf_str(&share), VIEW_PLAIN);
}

static enum view_style state_style(const struct inventory_device *d)
{
    return d->unhealthy ? VIEW_BAD : devices_state_styles[d->state];
}

static void device_cells(struct view_table *t, const struct inventory_device *d, bool inside)
{
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addz(&name, inside ? "  " : "");
    inventory_name(&d->id, &name);
    view_table_cell(t, sbuf_str(&name), VIEW_PLAIN);
    view_table_cellf(t, state_style(d), "%s%s", inventory_state_name(d->state),
                     d->unhealthy ? ", unhealthy" : "");
}

void view_who(struct view_table *t, const struct inventory *inv, const uint32_t *devices, size_t n,
              const uint32_t *wholes, struct moment now)
{
    view_table_column(t, STR("DEVICE"), VIEW_COLUMN_WHOLE);
    view_table_column(t, STR("STATE"), 0);
    view_table_column(t, STR("NAMESPACE"), 0);
    view_table_column(t, STR("CLAIM"), 0);
    view_table_column(t, STR("POD"), 0);
    view_table_column(t, STR("NODE"), VIEW_COLUMN_SPARE);
    view_table_column(t, STR("FOR"), VIEW_COLUMN_WHOLE);
    view_table_column(t, STR("SHARE"), VIEW_COLUMN_WIDE);
    for (size_t i = 0; i < n; i++) {
        const struct inventory_device *d = &inv->devices[devices[i]];
        bool inside = wholes && wholes[devices[i]] != devices[i];
        for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len; k++) {
            device_cells(t, d, inside);
            holder_cells(t, inv, &inv->holds[k], d->node, now);
        }
        if (d->holds_len)
            continue;
        device_cells(t, d, inside);
        for (size_t k = 0; k < 3; k++)
            view_table_cell(t, k == 0 && d->why.n ? d->why : STR("-"), VIEW_DIM);
        devices_add_node(t, d->node, d->simulated);
        view_table_cell(t, STR("-"), VIEW_DIM);
        view_table_cell(t, (struct str){0}, VIEW_PLAIN);
    }
}

// --- Topology ------------------------------------------------------------------------------------

static bool any_text(const struct str *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].n)
            return true;
    return false;
}

// The part of a matrix that fits beside the names: columns from..to, and behind the last of them
// where the devices are.
struct topo_part {
    size_t from, to;
    bool last, socket;
};

static void topo_row(struct view_table *t, const struct inventory *inv, const struct topo *topo,
                     size_t row, const struct topo_part *part)
{
    const struct inventory_device *d = &inv->devices[topo->devices[row]];
    static const enum view_style styles[TOPO_LEVELS] = {
        VIEW_DIM, VIEW_GOOD, VIEW_GOOD, VIEW_GOOD, VIEW_PLAIN, VIEW_PLAIN, VIEW_WARN, VIEW_DIM};
    view_table_cellf(t, VIEW_HEAD, "%zu", row);
    if (topo->folded[row])
        view_table_cellf(t, VIEW_PLAIN, "%.*s (+%u parts)", STR_ARG(d->id.device),
                         topo->folded[row]);
    else
        view_table_cell(t, d->id.device, VIEW_PLAIN);
    for (size_t k = part->from; k < part->to; k++) {
        enum topo_near near = topo->near[row * topo->n + k];
        view_table_cell(t, str_z(topo_word(near)), styles[near]);
    }
    if (!part->last)
        return;
    view_table_cell(t, topo->numa[row].n ? topo->numa[row] : STR("-"), VIEW_PLAIN);
    if (part->socket)
        view_table_cell(t, topo->socket[row].n ? topo->socket[row] : STR("-"), VIEW_PLAIN);
    view_table_cell(t, topo->pcie[row].n ? topo->pcie[row] : STR("-"), VIEW_PLAIN);
    view_table_cell(t, d->id.driver, VIEW_DIM);
}

static void topo_table(struct sbuf *out, const struct inventory *inv, const struct topo *topo,
                       const struct topo_part *part, const struct view_layout *how)
{
    cleanup_view_table struct view_table t = {0};
    view_table_column(&t, STR("#"), VIEW_COLUMN_RIGHT);
    view_table_column(&t, STR("DEVICE"), VIEW_COLUMN_WHOLE);
    for (size_t i = part->from; i < part->to; i++) {
        char number[24];
        (void)snprintf(number, sizeof(number), "%zu", i);
        view_table_column(&t, str_z(number), VIEW_COLUMN_WHOLE);
    }
    if (part->last) {
        view_table_column(&t, STR("NUMA"), VIEW_COLUMN_WHOLE);
        if (part->socket)
            view_table_column(&t, STR("SOCKET"), VIEW_COLUMN_WHOLE);
        view_table_column(&t, STR("PCIE ROOT"), VIEW_COLUMN_WHOLE);
        view_table_column(&t, STR("DRIVER"), VIEW_COLUMN_SPARE);
    }
    for (size_t i = 0; i < topo->n; i++)
        topo_row(&t, inv, topo, i, part);
    view_table_write(&t, how, out);
}

// How many columns of the matrix fit beside the names of its lines; those of the last part leave
// room for where the devices are.
static size_t topo_room(const struct inventory *inv, const struct topo *topo, size_t columns,
                        bool last, bool socket)
{
    size_t names = 0;
    for (size_t i = 0; i < topo->n; i++) {
        size_t n = view_width(inv->devices[topo->devices[i]].id.device) +
                   (topo->folded[i] ? strlen(" (+000 parts)") : 0);
        names = n > names ? n : names;
    }
    size_t used = TOPO_NUMBER + names + 2;
    used += last ? TOPO_PLACES : 0U;
    used += last && socket ? TOPO_SOCKET_WIDTH : 0U;
    size_t room = columns > used ? (columns - used) / TOPO_CELL : 0;
    return room ? room : 1;
}

void view_topo(struct sbuf *out, const struct inventory *inv, const struct topo *topo,
               const struct view_layout *how)
{
    bool used[TOPO_LEVELS] = {0};
    struct topo_part part = {.socket = any_text(topo->socket, topo->n)};
    while (part.to < topo->n) {
        size_t left = topo->n - part.to;
        size_t room =
            how->term.columns ? topo_room(inv, topo, how->term.columns, true, part.socket) : left;
        part.last = left <= room;
        if (!part.last)
            room = topo_room(inv, topo, how->term.columns, false, part.socket);
        part.from = part.to;
        part.to += part.last ? left : room < left ? room : left - 1;
        topo_table(out, inv, topo, &part, how);
        sbuf_addc(out, '\n');
    }
    for (size_t i = 0; i < topo->n * topo->n; i++)
        used[topo->near[i]] = true;
    sbuf_addz(out, "Legend:\n");
    for (int i = 0; i < TOPO_LEVELS; i++)
        if (used[i])
            sbuf_addf(out, "  %-5s %s\n", topo_word((enum topo_near)i),
                      topo_meaning((enum topo_near)i));
}

// --- Doctor, history, taints ---------------------------------------------------------------------

static void devices_add_styled(struct sbuf *out, enum view_style style, bool color,
                               const char *text)
{
    view_style_begin(out, style, color);
    sbuf_addz(out, text);
    view_style_end(out, style, color);
}

void view_doctor(struct sbuf *out, const struct doctor *d, const struct view_layout *how)
{
    static const char *const words[] = {"ok  ", "look", "BAD "};
    static const enum view_style styles[] = {VIEW_GOOD, VIEW_WARN, VIEW_BAD};
    size_t n[3] = {0};
    for (size_t i = 0; i < d->findings.n; i++) {
        const struct doctor_finding *f = &d->findings.p[i];
        n[f->level]++;
        devices_add_styled(out, styles[f->level], how->term.color, words[f->level]);
        sbuf_addf(out, "  %-14s", f->check);
        view_add_behind(out, f->what, DOCTOR_COLUMN, how->term.columns);
        if (f->remedy.n) {
            sbuf_add_repeat(out, ' ', DOCTOR_COLUMN);
            sbuf_addz(out, "→ ");
            view_add_behind(out, f->remedy, DOCTOR_COLUMN + 2, how->term.columns);
        }
    }
    sbuf_addf(out, "\n%zu good, %zu to look at, %zu bad\n", n[DOCTOR_GOOD], n[DOCTOR_WARN],
              n[DOCTOR_BAD]);
}

void view_history(struct sbuf *out, const struct past *h, const struct view_layout *how)
{
    cleanup_view_table struct view_table t = {0};
    view_table_column(&t, STR("WHEN"), VIEW_COLUMN_WHOLE);
    view_table_column(&t, STR("WHAT"), 0);
    view_table_column(&t, STR("KNOWN FROM"), VIEW_COLUMN_WHOLE | VIEW_COLUMN_SPARE);
    sbuf_addf(out, "%.*s\n", STR_ARG(h->subject));
    for (size_t i = 0; i < h->entries.n; i++) {
        cleanup_sbuf struct sbuf at = {0};
        rfc3339_write_seconds(h->entries.p[i].at, &at);
        view_table_cell(&t, sbuf_str(&at), VIEW_PLAIN);
        view_table_cell(&t, h->entries.p[i].what, VIEW_PLAIN);
        view_table_cell(&t, h->entries.p[i].source, VIEW_DIM);
    }
    view_table_write(&t, how, out);
    if (h->unknown.n)
        sbuf_addz(out, "\nNot known:\n");
    for (size_t i = 0; i < h->unknown.n; i++) {
        sbuf_addz(out, "  - ");
        view_add_behind(out, h->unknown.p[i], 4, how->term.columns);
    }
}

void view_taint(struct sbuf *out, const struct inventory *inv, const struct taint_effect *e)
{
    const struct api_device_taint *t = &e->rule->spec.taint;
    size_t evicted = 0;
    sbuf_addf(out, "taint %.*s%s%.*s:%.*s for %zu device%s", STR_ARG(t->key), t->value.n ? "=" : "",
              STR_ARG(t->value), STR_ARG(t->effect), e->devices_len,
              e->devices_len == 1 ? "" : "s");
    for (size_t i = 0; i < e->devices_len && i < DEVICES_TOLD; i++) {
        sbuf_addz(out, i ? ", " : ": ");
        inventory_name(&inv->devices[e->devices[i]].id, out);
    }
    sbuf_addz(out, e->devices_len > DEVICES_TOLD ? ", …\n" : "\n");
    for (size_t i = 0; i < e->hits_len; i++) {
        const struct taint_hit *h = &e->hits[i];
        const struct inventory_claim *c = &inv->claims[inv->holds[h->hold].claim];
        bool goes = e->evicts && (!h->tolerates || h->for_a_while);
        sbuf_addf(out, "  %s %.*s, claim %.*s%s",
                  goes                       ? "evicts"
                  : !e->evicts || !c->pods.n ? "stays:"
                                             : "tolerates it:",
                  STR_ARG(c->pods.n ? c->pods : STR("(no pod)")), STR_ARG(c->name),
                  h->for_a_while && e->evicts ? "" : "\n");
        if (h->for_a_while && e->evicts)
            sbuf_addf(out, ", after %lld s\n", (long long)h->seconds);
        evicted += goes;
    }
    if (e->evicts)
        sbuf_addf(out, "  pods of %zu claim%s would be evicted\n", evicted,
                  evicted == 1 ? "" : "s");
}
