// SPDX-License-Identifier: Apache-2.0
//
// Manual pages in troff, made from the tables of verbs: dray.1 lists the verbs, dray-VERB.1
// explains one, with its subverbs.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/utf8.h"
#include "cmd/engine/cli.h"
#include "cmd/engine/text.h"

#include "base/banned.h"

// man_add adds text so that troff shows it as it is. Lines that begin with a control character are
// protected.
static void man_add(struct sbuf *out, struct str s)
{
    bool begins = out->n == 0 || out->p[out->n - 1] == '\n';
    while (s.n) {
        size_t n = 0;
        uint32_t c = utf8_decode(s, 0, &n);
        if (begins && (c == '.' || c == '\''))
            sbuf_addz(out, "\\&");
        if (c == '\\')
            sbuf_addz(out, "\\e");
        else if (c == '-')
            sbuf_addz(out, "\\-");
        else if (c == '\'')
            sbuf_addz(out, "\\(aq");
        else if (c == '`')
            sbuf_addz(out, "\\(ga");
        else if (c == '^')
            sbuf_addz(out, "\\(ha");
        else if (c == '~')
            sbuf_addz(out, "\\(ti");
        else if (c >= 0x80)
            sbuf_addf(out, "\\[u%04X]", c);
        else
            sbuf_addc(out, (char)c);
        begins = false;
        s = str_from(s, n);
    }
}

static void man_addz(struct sbuf *out, const char *text)
{
    man_add(out, str_z(text));
}

static void man_add_text(struct sbuf *out, const char *text)
{
    cleanup_sbuf struct sbuf one = {0};
    bool verbatim = false, before = false, first = true;
    for (struct str rest = str_z(text); cli_text_next(&rest, &one, &verbatim); before = verbatim) {
        if (before && !verbatim)
            sbuf_addz(out, ".fi\n");
        if (!first && !(before && verbatim))
            sbuf_addz(out, ".PP\n");
        if (verbatim && !before)
            sbuf_addz(out, ".nf\n");
        man_add(out, sbuf_str(&one));
        sbuf_addc(out, '\n');
        first = false;
    }
    if (before)
        sbuf_addz(out, ".fi\n");
}

// man_add_lines adds lines as they are, each behind a prefix.
static void man_add_lines(struct sbuf *out, const char *prefix, const char *lines)
{
    sbuf_addz(out, ".nf\n");
    for (struct str rest = str_z(lines), row; rest.n;) {
        (void)str_cut(rest, '\n', &row, &rest);
        man_addz(out, prefix);
        man_add(out, row);
        sbuf_addc(out, '\n');
    }
    sbuf_addz(out, ".fi\n");
}

static void man_add_group(struct sbuf *out, const struct cli_group *g)
{
    for (size_t k = 0; k < g->n; k++) {
        const struct cli_option *o = &g->options[k];
        cleanup_sbuf struct sbuf name = {0};
        if (!o->help)
            continue;
        if (o->letter)
            sbuf_addf(&name, "%s, ", o->letter);
        cli_text_add_option(&name, o);
        sbuf_addz(out, ".TP\n\\fB");
        man_add(out, sbuf_str(&name));
        sbuf_addz(out, "\\fR\n");
        man_add_text(out, o->help);
    }
}

static void man_add_groups(struct sbuf *out, const struct cli_verb *v, bool titles)
{
    const struct cli_group *g;
    for (size_t i = 0; (g = cli_group_at(v, i)); i++) {
        if (titles) {
            sbuf_addz(out, ".SS ");
            man_addz(out, g->title);
            sbuf_addc(out, '\n');
        }
        man_add_group(out, g);
    }
}

static void man_add_subverb(struct sbuf *out, const struct cli_verb *v, const struct cli_verb *sub)
{
    cleanup_sbuf struct sbuf prefix = {0};
    sbuf_addf(out, ".SS dray %s %s: ", v->name, sub->name);
    man_addz(out, sub->summary);
    sbuf_addc(out, '\n');
    sbuf_addf(&prefix, "dray %s ", v->name);
    man_add_lines(out, prefix.p, sub->synopsis);
    sbuf_addz(out, ".PP\n");
    man_add_text(out, sub->text);
    man_add_groups(out, sub, false);
}

static void man_add_head(struct sbuf *out, const struct cli_program *p, const char *name,
                         const char *summary)
{
    sbuf_addz(out, ".TH ");
    man_addz(out, name);
    sbuf_addf(out, " 1 \"\" \"dray %s\" \"User Commands\"\n.SH NAME\n", p->version);
    man_addz(out, name);
    sbuf_addz(out, " \\- ");
    man_addz(out, summary);
    sbuf_addc(out, '\n');
}

static void man_add_status(struct sbuf *out)
{
    sbuf_addz(out, ".SH EXIT STATUS\n"
                   "0: done. 1: the answer is no: not found, refused, timed out, invalid. "
                   "2: wrong command line or config file.\n");
}

static void man_add_program(const struct cli_program *p, struct sbuf *out)
{
    man_add_head(out, p, "dray", "Kubernetes Dynamic Resource Allocation");
    sbuf_addz(out, ".SH SYNOPSIS\n.B dray\n.I VERB\n[\\fIARGUMENTS\\fR]\n.br\n.B kubectl dray\n"
                   ".I VERB\n[\\fIARGUMENTS\\fR]\n.SH DESCRIPTION\n"
                   "Models devices, allocates them to claims, schedules pods with claims and "
                   "prepares the devices for containers. Each verb has a page of its own: "
                   "\\fBdray\\-VERB\\fR(1).\n");
    for (int i = 0; i < CLI_CHAPTERS; i++) {
        sbuf_addf(out, ".SS %s\n", cli_chapters[i]);
        for (size_t k = 0; k < p->n; k++) {
            if ((int)p->verbs[k]->chapter != i)
                continue;
            sbuf_addz(out, ".TP\n\\fBdray ");
            man_addz(out, p->verbs[k]->name);
            sbuf_addz(out, "\\fR\n");
            man_addz(out, p->verbs[k]->summary);
            sbuf_addc(out, '\n');
        }
    }
    man_add_status(out);
    sbuf_addz(out, ".SH FILES\n.TP\n.I \\(ti/.dray\ndata of\n.BR \"dray up\" ,\nwith\n"
                   ".I admin.kubeconfig\n.TP\n.I /etc/dray\n"
                   "kubeconfigs and flags of the systemd units\n.SH SEE ALSO\n"
                   ".BR kubectl (1),\n.BR crun (1)\n");
}

void cli_man_verb(const struct cli_program *p, const struct cli_verb *v, struct sbuf *out)
{
    cleanup_sbuf struct sbuf name = {0}, synopsis = {0};
    if (!v) {
        man_add_program(p, out);
        return;
    }
    sbuf_addf(&name, "dray-%s", v->name);
    man_add_head(out, p, name.p, v->summary);
    sbuf_addz(out, ".SH SYNOPSIS\n");
    cli_text_add_synopsis(&synopsis, v);
    man_add_lines(out, "dray ", synopsis.p);
    sbuf_addz(out, ".SH DESCRIPTION\n");
    man_add_text(out, v->text);
    for (size_t i = 0; v->subverbs && v->subverbs[i]; i++) {
        if (i == 0)
            sbuf_addz(out, ".SH COMMANDS\n");
        man_add_subverb(out, v, v->subverbs[i]);
    }
    if (cli_group_at(v, 0)) {
        sbuf_addz(out, ".SH OPTIONS\n");
        man_add_groups(out, v, true);
    }
    sbuf_addz(out, ".SH EXAMPLES\n");
    man_add_lines(out, "", v->examples);
    man_add_status(out);
    sbuf_addz(out, ".SH SEE ALSO\n.BR dray (1)\n");
}

// man_write_page writes one page; a new file, so that the directory's time shows it.
static int man_write_page(const struct cli_program *p, const struct cli_verb *v, const char *dir,
                          struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, page = {0};
    sbuf_addf(&path, "%s/dray%s%s.1", dir, v ? "-" : "", v ? v->name : "");
    cli_man_verb(p, v, &page);
    (void)unlink(path.p);
    FILE *f = fopen(path.p, "wxe");
    if (!f)
        return err_set(err, errno, "cannot write %s: %s", path.p, strerrordesc_np(errno));
    size_t n = fwrite(page.p, 1, page.n, f);
    if (fclose(f) != 0 || n != page.n)
        return err_set(err, EIO, "cannot write %s", path.p);
    return 0;
}

int cli_man_write(const struct cli_program *p, const char *dir, struct err *err)
{
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return err_set(err, errno, "cannot make %s: %s", dir, strerrordesc_np(errno));
    int r = man_write_page(p, NULL, dir, err);
    for (size_t i = 0; i < p->n && r == 0; i++)
        r = man_write_page(p, p->verbs[i], dir, err);
    return r;
}
