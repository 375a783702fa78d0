// SPDX-License-Identifier: Apache-2.0
//
// A parser of mail addresses as lenient and as strict as Go's net/mail, for the email format of
// custom resources.
#include "api/rules/mail.h"

#include "base/ip.h"

#include "base/banned.h"

// What is still to be read. Readers take what they understand off its beginning.
struct mail {
    struct str rest;
};

static bool is_printable(char c)
{
    return (c >= '!' && c <= '~') || (unsigned char)c >= 0x80;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

// Characters of an atom; callers check dots.
static bool is_atom_char(char c)
{
    return is_printable(c) && !strchr("()[];@\\,<>\":", c);
}

static bool next_is(const struct mail *m, char c)
{
    return m->rest.n > 0 && m->rest.p[0] == c;
}

static bool mail_skip_char(struct mail *m, char c)
{
    if (!next_is(m, c))
        return false;
    m->rest = str_from(m->rest, 1);
    return true;
}

static void skip_blanks(struct mail *m)
{
    while (m->rest.n > 0 && is_blank(m->rest.p[0]))
        m->rest = str_from(m->rest, 1);
}

// A comment, whose '(' was taken. Comments may be in comments.
static bool skip_comment(struct mail *m)
{
    size_t depth = 1;
    while (m->rest.n > 0 && depth > 0) {
        bool escaped = next_is(m, '\\') && m->rest.n > 1;
        if (!escaped)
            depth = next_is(m, '(') ? depth + 1 : next_is(m, ')') ? depth - 1 : depth;
        m->rest = str_from(m->rest, escaped ? 2 : 1);
    }
    return depth == 0;
}

static bool skip_comments(struct mail *m)
{
    skip_blanks(m);
    while (mail_skip_char(m, '(')) {
        if (!skip_comment(m))
            return false;
        skip_blanks(m);
    }
    return true;
}

// In addresses dots stand alone and between others, in names anywhere.
static bool skip_atom(struct mail *m, bool in_name)
{
    size_t n = 0;
    while (n < m->rest.n && is_atom_char(m->rest.p[n]))
        n++;
    struct str atom = str_upto(m->rest, n);
    m->rest = str_from(m->rest, n);
    return n > 0 && (in_name ||
                     (atom.p[0] != '.' && atom.p[n - 1] != '.' && !str_contains(atom, STR(".."))));
}

// *ret_n: how many characters stand between the quotes.
static bool skip_quoted(struct mail *m, size_t *ret_n)
{
    *ret_n = 0;
    if (!mail_skip_char(m, '"'))
        return false;
    while (m->rest.n > 0 && !next_is(m, '"')) {
        (void)mail_skip_char(m, '\\'); // behind it a quote may stand, too
        if (m->rest.n == 0 || !(is_printable(m->rest.p[0]) || is_blank(m->rest.p[0])))
            return false;
        m->rest = str_from(m->rest, 1);
        ++*ret_n;
    }
    return mail_skip_char(m, '"');
}

static bool skip_domain(struct mail *m)
{
    skip_blanks(m);
    if (!mail_skip_char(m, '['))
        return skip_atom(m, false);
    size_t n = 0;
    while (n < m->rest.n && is_printable(m->rest.p[n]) && !strchr("\\[]", m->rest.p[n]))
        n++;
    struct str literal = str_upto(m->rest, n);
    m->rest = str_from(m->rest, n);
    return mail_skip_char(m, ']') && ip_is(literal, AF_UNSPEC);
}

// local@domain. Nothing is taken if it is not that.
static bool skip_plain(struct mail *m)
{
    struct mail at = *m;
    size_t n = 0;
    skip_blanks(&at);
    bool local = next_is(&at, '"') ? skip_quoted(&at, &n) && n > 0 : skip_atom(&at, false);
    if (!local || !mail_skip_char(&at, '@') || !skip_domain(&at))
        return false;
    *m = at;
    return true;
}

// The words of a name. What is no word ends them, if there is one at all.
static bool mail_skip_name(struct mail *m)
{
    for (size_t words = 0;; words++) {
        if (words > 0 && !skip_comments(m))
            return false;
        skip_blanks(m);
        if (m->rest.n == 0)
            return true;
        size_t n;
        if (next_is(m, '"') ? !skip_quoted(m, &n) : !skip_atom(m, true))
            return words > 0;
    }
}

// An address, with a name or without, or what stands before a group's ':'.
static bool skip_address(struct mail *m, bool *ret_group)
{
    *ret_group = false;
    skip_blanks(m);
    if (m->rest.n == 0)
        return false;
    if (skip_plain(m)) {
        skip_blanks(m);
        return !mail_skip_char(m, '(') || skip_comment(m);
    }
    if (!next_is(m, '<') && !mail_skip_name(m))
        return false;
    skip_blanks(m);
    if (mail_skip_char(m, ':')) {
        *ret_group = true;
        return true;
    }
    return mail_skip_char(m, '<') && skip_plain(m) && mail_skip_char(m, '>');
}

// The rest of a group: exactly one address, which is no group.
static bool mail_skip_group(struct mail *m)
{
    bool group;
    return skip_address(m, &group) && !group && skip_comments(m) && mail_skip_char(m, ';');
}

bool mail_is_address(struct str text)
{
    struct mail m = {text};
    bool group;
    return skip_address(&m, &group) && (!group || mail_skip_group(&m)) && skip_comments(&m) &&
           m.rest.n == 0;
}
