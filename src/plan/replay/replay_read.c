// SPDX-License-Identifier: Apache-2.0
//
// Reading traces: CSV with names in the first line, and lines of numbers. Every message names the
// line. Amounts are bounded, so that sums of them fit.
#include "plan/replay/replay_int.h"

#include "base/banned.h"

#define ROWS_MAX     2000000
#define COLUMNS_MAX  64
#define AMOUNT_MAX   INT64_C(1000000000000)
#define ARRIVALS_MAX 20000000

struct replay_trace *replay_new(void)
{
    return xcalloc(1, sizeof(struct replay_trace));
}

void replay_free(struct replay_trace *t)
{
    if (!t)
        return;
    vec_done(&t->nodes);
    vec_done(&t->pods);
    vec_done(&t->history);
    vec_done(&t->models);
    vec_done(&t->specs);
    map_done(&t->model_ids);
    map_done(&t->spec_ids);
    vec_done(&t->arrivals.lines);
    vec_done(&t->arrivals.rows);
    vec_done(&t->order.lines);
    vec_done(&t->order.rows);
    arena_done(&t->arena);
    free(t);
}

// --- CSV -----------------------------------------------------------------------------------------

struct csv {
    struct str rest;
    size_t line;
    struct str fields[COLUMNS_MAX];
    size_t n;
};

static int at_line(struct err *err, size_t line)
{
    err_at(err, line, 1);
    return -err->code;
}

#define FAIL(err, line, ...) ((void)err_set((err), ERR_INVALID, __VA_ARGS__), at_line(err, line))

// The next field of a line; quotes may stand around it. Returns 1 when another follows, 0 for the
// last, -1 when the quotes do not end.
static int next_field(struct str *line, struct str *ret)
{
    if (line->n && line->p[0] == '"') {
        struct str inside = str_from(*line, 1);
        ptrdiff_t end = str_find_char(inside, '"');
        if (end < 0)
            return -1;
        *ret = str_upto(inside, (size_t)end);
        *line = str_from(inside, (size_t)end + 1);
        if (!line->n)
            return 0;
        bool comma = line->p[0] == ',';
        *line = str_from(*line, 1);
        return comma ? 1 : -1;
    }
    struct str field;
    int more = str_cut(*line, ',', &field, line);
    *ret = str_trim(field);
    return more;
}

// The next line that is not empty. Returns 1, 0 at the end, or -ERR_INVALID.
static int replay_read_next_line(struct csv *c, struct err *err)
{
    struct str line = {0};
    while (c->rest.n && !line.n) {
        (void)str_cut(c->rest, '\n', &line, &c->rest);
        c->line++;
        line = str_trim(line);
    }
    if (!line.n)
        return 0;
    c->n = 0;
    for (int more = 1; more > 0;) {
        if (c->n == COLUMNS_MAX)
            return FAIL(err, c->line, "more than %d columns", COLUMNS_MAX);
        more = next_field(&line, &c->fields[c->n++]);
        if (more < 0)
            return FAIL(err, c->line, "column %zu: quotes do not end where the column does", c->n);
    }
    return 1;
}

// Where each of the names is; SIZE_MAX: not there.
static int find_columns(struct csv *c, const char *const *names, size_t needed, size_t n,
                        size_t *ret, struct err *err)
{
    int r = replay_read_next_line(c, err);
    if (r <= 0)
        return r < 0 ? r : FAIL(err, 1, "the file is empty; its first line names the columns");
    if (str_starts(c->fields[0], STR("\xEF\xBB\xBF")))
        c->fields[0] = str_from(c->fields[0], 3);
    for (size_t i = 0; i < n; i++) {
        ret[i] = SIZE_MAX;
        for (size_t k = 0; k < c->n; k++)
            if (str_eqz(c->fields[k], names[i]))
                ret[i] = k;
        if (ret[i] == SIZE_MAX && i < needed)
            return FAIL(err, c->line, "no column is named %s; the first line names the columns",
                        names[i]);
    }
    return 0;
}

static struct str field_at(const struct csv *c, size_t column)
{
    return column < c->n ? c->fields[column] : (struct str){0};
}

static int replay_read_number(const struct csv *c, size_t column, const char *name, int64_t most,
                              int64_t *ret, struct err *err)
{
    struct str text = field_at(c, column);
    if (!text.n)
        return FAIL(err, c->line, "%s is missing", name);
    // Some lists have whole numbers written as 12.0.
    if (str_ends(text, STR(".0")))
        text.n -= 2;
    if (str_to_i64(text, ret) < 0 || *ret < 0 || *ret > most)
        return FAIL(err, c->line, "%s is \"%.*s\"; a whole number from 0 to %lld is wanted", name,
                    (int)(text.n < 40 ? text.n : 40), text.p, (long long)most);
    return 0;
}

// --- Models --------------------------------------------------------------------------------------

static int model_id(struct replay_trace *t, struct str name, uint32_t *ret)
{
    const uint32_t *known = map_get(&t->model_ids, name);
    if (known) {
        *ret = *known;
        return 0;
    }
    if (t->models.n == REPLAY_MODELS_MAX)
        return -ERR_TOO_LARGE;
    struct str own = arena_str(&t->arena, name);
    *ret = (uint32_t)t->models.n;
    vec_push(&t->models, own);
    *map_put(&t->model_ids, own) = *ret;
    return 0;
}

static int spec_id(struct replay_trace *t, struct str text, uint32_t *ret)
{
    const uint32_t *known = map_get(&t->spec_ids, text);
    if (known) {
        *ret = *known;
        return 0;
    }
    struct trace_spec s = {.text = arena_str(&t->arena, text)};
    struct str rest = s.text;
    while (rest.n) {
        struct str one;
        uint32_t id;
        (void)str_cut(rest, '|', &one, &rest);
        one = str_trim(one);
        if (!one.n)
            continue;
        if (model_id(t, one, &id) < 0)
            return -ERR_TOO_LARGE;
        s.models |= UINT64_C(1) << id;
    }
    if (!s.models)
        s.models = UINT64_MAX;
    *ret = (uint32_t)t->specs.n;
    vec_push(&t->specs, s);
    *map_put(&t->spec_ids, s.text) = *ret;
    return 0;
}

// --- Nodes and pods ------------------------------------------------------------------------------

static int replay_read_nodes(struct replay_trace *t, struct str text, struct err *err)
{
    static const char *const names[] = {"sn", "cpu_milli", "memory_mib", "gpu", "model"};
    size_t at[array_len(names)] = {0};
    struct csv c = {.rest = text};
    int r = find_columns(&c, names, array_len(names), array_len(names), at, err);
    while (r == 0 && (r = replay_read_next_line(&c, err)) == 1) {
        struct trace_node n = {.name = arena_str(&t->arena, field_at(&c, at[0]))};
        int64_t gpus = 0;
        if ((r = replay_read_number(&c, at[1], names[1], AMOUNT_MAX, &n.cpu, err)) < 0 ||
            (r = replay_read_number(&c, at[2], names[2], AMOUNT_MAX, &n.memory, err)) < 0 ||
            (r = replay_read_number(&c, at[3], names[3], REPLAY_GPUS_MAX, &gpus, err)) < 0)
            return r;
        n.gpus = (uint32_t)gpus;
        if (!n.name.n)
            return FAIL(err, c.line, "sn, the node's name, is missing");
        if (model_id(t, field_at(&c, at[4]), &n.model) < 0)
            return FAIL(err, c.line, "more than %d models of GPUs", REPLAY_MODELS_MAX);
        if (t->nodes.n == ROWS_MAX)
            return FAIL(err, c.line, "more than %d nodes", ROWS_MAX);
        vec_push(&t->nodes, n);
        r = 0;
    }
    if (r == 0 && !t->nodes.n)
        return FAIL(err, c.line, "no node follows the first line");
    return r;
}

static int read_pod(struct replay_trace *t, const struct csv *c, const size_t *at,
                    struct trace_pod *p, struct err *err)
{
    int64_t num = 0;
    int64_t milli = 0;
    int r;
    p->name = arena_str(&t->arena, field_at(c, at[0]));
    if ((r = replay_read_number(c, at[1], "cpu_milli", AMOUNT_MAX, &p->cpu, err)) < 0 ||
        (r = replay_read_number(c, at[2], "memory_mib", AMOUNT_MAX, &p->memory, err)) < 0 ||
        (r = replay_read_number(c, at[3], "num_gpu", REPLAY_GPUS_MAX, &num, err)) < 0 ||
        (r = replay_read_number(c, at[4], "gpu_milli", REPLAY_WHOLE_GPU, &milli, err)) < 0)
        return r;
    if (num && !milli)
        return FAIL(err, c->line, "num_gpu is %lld but gpu_milli is 0", (long long)num);
    p->num = (uint32_t)num;
    p->milli = num ? (uint32_t)milli : 0;
    if (spec_id(t, field_at(c, at[5]), &p->spec) < 0)
        return FAIL(err, c->line, "gpu_spec: more than %d models of GPUs", REPLAY_MODELS_MAX);
    return 0;
}

static int replay_read_pods(struct replay_trace *t, struct trace_pods *pods, struct str text,
                            struct err *err)
{
    static const char *const names[] = {"name",    "cpu_milli", "memory_mib",
                                        "num_gpu", "gpu_milli", "gpu_spec"};
    size_t at[array_len(names)] = {0};
    struct csv c = {.rest = text};
    int r = find_columns(&c, names, 5, array_len(names), at, err);
    while (r == 0 && (r = replay_read_next_line(&c, err)) == 1) {
        struct trace_pod p = {0};
        r = read_pod(t, &c, at, &p, err);
        if (r < 0)
            return r;
        if (pods->n == ROWS_MAX)
            return FAIL(err, c.line, "more than %d pods", ROWS_MAX);
        vec_push(pods, p);
    }
    if (r == 0 && !pods->n)
        return FAIL(err, c.line, "no pod follows the first line");
    return r;
}

// --- Lines of numbers ----------------------------------------------------------------------------

static bool next_number(struct str *rest, int64_t *ret)
{
    while (rest->n && (rest->p[0] == ' ' || rest->p[0] == '\t' || rest->p[0] == ','))
        *rest = str_from(*rest, 1);
    size_t n = 0;
    while (n < rest->n && rest->p[n] != ' ' && rest->p[n] != '\t' && rest->p[n] != ',')
        n++;
    bool good = str_to_i64(str_upto(*rest, n), ret) == 0;
    *rest = str_from(*rest, n);
    return good;
}

static int replay_read_rows(struct trace_lines *l, struct str rest, size_t line, size_t rows,
                            struct err *err)
{
    struct trace_line one = {.first = l->rows.n};
    int64_t count = 0;
    if (!next_number(&rest, &one.seed) || !next_number(&rest, &count) || count < 0)
        return FAIL(err, line, "a line begins with its seed and the count of its rows");
    for (int64_t i = 0; i < count; i++) {
        int64_t row;
        if (!next_number(&rest, &row))
            return FAIL(err, line, "%lld rows are announced, number %lld is missing or no number",
                        (long long)count, (long long)i + 1);
        if (row < 0 || (size_t)row >= rows)
            return FAIL(err, line, "row %lld (number %lld) does not exist; there are %zu",
                        (long long)row, (long long)i + 1, rows);
        if (l->rows.n == ARRIVALS_MAX)
            return FAIL(err, line, "more than %d numbers", ARRIVALS_MAX);
        vec_push(&l->rows, (uint32_t)row);
    }
    if (str_trim(rest).n)
        return FAIL(err, line, "%lld rows are announced, but more follow", (long long)count);
    for (size_t i = 0; i < l->lines.n; i++)
        if (l->lines.p[i].seed == one.seed)
            return FAIL(err, line, "seed %lld has a line already", (long long)one.seed);
    one.n = (size_t)count;
    vec_push(&l->lines, one);
    return 0;
}

static int read_lines(struct trace_lines *l, struct str text, size_t rows, struct err *err)
{
    for (size_t line = 1; text.n; line++) {
        struct str one = text;
        (void)str_cut(text, '\n', &one, &text);
        one = str_trim(one);
        int r = one.n ? replay_read_rows(l, one, line, rows, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int replay_read(struct replay_trace *t, enum replay_file what, struct str text, struct err *err)
{
    switch (what) {
    case REPLAY_NODES:
        return replay_read_nodes(t, text, err);
    case REPLAY_PODS:
        return replay_read_pods(t, &t->pods, text, err);
    case REPLAY_HISTORY:
        t->has_history = true;
        return replay_read_pods(t, &t->history, text, err);
    case REPLAY_ARRIVALS:
        return read_lines(&t->arrivals, text, t->pods.n, err);
    case REPLAY_ORDER:
        return read_lines(&t->order, text, t->nodes.n, err);
    }
    return -ERR_INVALID;
}

size_t replay_runs(const struct replay_trace *t)
{
    return t->arrivals.lines.n;
}

int64_t replay_seed(const struct replay_trace *t, size_t run)
{
    return t->arrivals.lines.p[run].seed;
}

int replay_ready(const struct replay_trace *t, struct err *err)
{
    uint64_t gpus = 0;
    vec_foreach(&t->nodes, n)
        gpus += n->gpus;
    if (!gpus)
        return err_set(err, ERR_INVALID, "the nodes have no GPU");
    if (!t->pods.n)
        return err_set(err, ERR_INVALID, "there are no pods");
    if (!t->arrivals.lines.n)
        return err_set(err, ERR_INVALID, "the arrivals have no line");
    return 0;
}
