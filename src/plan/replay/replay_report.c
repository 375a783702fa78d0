// SPDX-License-Identifier: Apache-2.0
//
// Results of replays as JSON and as a table, a row a seed and their mean. Both kinds of replay
// describe their figures as columns; this file knows nothing else about them.
#include "plan/replay/replay_int.h"

#include "base/banned.h"

static int64_t replay_report_seed(const struct replay_report *r, size_t i)
{
    return *(const int64_t *)(const void *)((const char *)r->results + i * r->size);
}

static double replay_report_value(const struct replay_report *r, size_t i, size_t column)
{
    const char *result = (const char *)r->results + i * r->size;
    return *(const double *)(const void *)(result + r->columns[column].offset);
}

static double replay_report_mean(const struct replay_report *r, size_t column)
{
    double sum = 0;
    for (size_t i = 0; i < r->n; i++)
        sum += replay_report_value(r, i, column) / (double)r->n;
    return sum;
}

// replay_report_figure is of one result, or with row = r->n the mean of all.
static double replay_report_figure(const struct replay_report *r, size_t row, size_t column)
{
    return row < r->n ? replay_report_value(r, row, column) : replay_report_mean(r, column);
}

static void replay_report_add_object(const struct replay_report *r, size_t row, struct sbuf *out)
{
    for (size_t k = 0; k < r->columns_len; k++) {
        const struct replay_column *c = &r->columns[k];
        double v = replay_report_figure(r, row, k);
        sbuf_addf(out, "%s\"%s\":", k ? "," : "", c->key);
        if (c->exact)
            sbuf_addf(out, "%.10g", v);
        else
            sbuf_addf(out, "%.*f", c->decimals ? 4 : 0, v);
    }
}

void replay_report_json(const struct replay_report *r, struct sbuf *out)
{
    replay_report_add_object(r, r->n, out);
    sbuf_addz(out, ",\"seeds\":[");
    for (size_t i = 0; i < r->n; i++) {
        sbuf_addf(out, "%s{\"seed\":%lld,", i ? "," : "", (long long)replay_report_seed(r, i));
        replay_report_add_object(r, i, out);
        sbuf_addc(out, '}');
    }
    sbuf_addz(out, "]}\n");
}

void replay_report_text(const struct replay_report *r, struct sbuf *out)
{
    sbuf_addf(out, "%-6s", "SEED");
    for (size_t k = 0; k < r->columns_len; k++)
        sbuf_addf(out, " %*s", r->columns[k].width, r->columns[k].title);
    sbuf_addc(out, '\n');
    for (size_t i = 0; i < r->n + (r->n > 1); i++) {
        if (i < r->n)
            sbuf_addf(out, "%-6lld", (long long)replay_report_seed(r, i));
        else
            sbuf_addf(out, "%-6s", "mean");
        for (size_t k = 0; k < r->columns_len; k++)
            sbuf_addf(out, " %*.*f", r->columns[k].width, r->columns[k].decimals,
                      replay_report_figure(r, i, k));
        sbuf_addc(out, '\n');
    }
}

bool replay_find_name(const char *const *names, size_t n, struct str name, size_t *ret)
{
    for (size_t i = 0; i < n; i++)
        if (str_eqz(name, names[i])) {
            *ret = i;
            return true;
        }
    return false;
}
