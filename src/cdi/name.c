// SPDX-License-Identifier: Apache-2.0
//
// The naming rules of CDI: vendors, classes and device names, each checked character by character
// as upstream's library does.
#include "cdi/name.h"

#include "base/banned.h"

static bool cdi_name_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_alphanumeric(char c)
{
    return cdi_name_is_letter(c) || (c >= '0' && c <= '9');
}

// What a part is called, which characters it may have inside, and whether a digit may begin it.
struct part_rule {
    const char *what;
    const char *inside;
    bool digit_first;
};

static int cdi_name_check_part(struct str s, const struct part_rule *rule, struct err *err)
{
    if (s.n == 0)
        return err_set(err, ERR_INVALID, "the %s is missing", rule->what);
    if (!cdi_name_is_letter(s.p[0]) && !(rule->digit_first && is_alphanumeric(s.p[0])))
        return err_set(err, ERR_INVALID, "the %s \"%.*s\" must start with a letter%s", rule->what,
                       STR_ARG(str_upto(s, 200)), rule->digit_first ? " or digit" : "");
    for (size_t i = 1; i < s.n; i++) {
        if (is_alphanumeric(s.p[i]))
            continue;
        if (s.p[i] == '\0' || !strchr(rule->inside, s.p[i]))
            return err_set(err, ERR_INVALID,
                           "the %s \"%.*s\" may have letters, digits and the characters %s only",
                           rule->what, STR_ARG(str_upto(s, 200)), rule->inside);
        if (i == s.n - 1)
            return err_set(err, ERR_INVALID, "the %s \"%.*s\" must end with a letter or digit",
                           rule->what, STR_ARG(str_upto(s, 200)));
    }
    return 0;
}

int cdi_check_vendor(struct str vendor, struct err *err)
{
    return cdi_name_check_part(vendor, &(struct part_rule){"vendor", "_-.", false}, err);
}

int cdi_check_class(struct str class, struct err *err)
{
    return cdi_name_check_part(class, &(struct part_rule){"class", "_-.", false}, err);
}

int cdi_check_device(struct str device, struct err *err)
{
    return cdi_name_check_part(device, &(struct part_rule){"device name", "_-.:", true}, err);
}

bool cdi_kind_split(struct str kind, struct str *vendor, struct str *class)
{
    struct str head, tail;
    if (str_cut(kind, '/', &head, &tail) && head.n && tail.n) {
        *vendor = head;
        *class = tail;
        return true;
    }
    *vendor = STR("");
    *class = kind;
    return false;
}

void cdi_file_name(struct sbuf *out, struct str vendor, struct str class, struct str transient_id)
{
    sbuf_addf(out, "%.*s-%.*s", STR_ARG(vendor), STR_ARG(class));
    if (transient_id.n == 0)
        return;
    sbuf_addc(out, '_');
    for (size_t i = 0; i < transient_id.n; i++)
        sbuf_addc(out, transient_id.p[i] == '/' ? '_' : transient_id.p[i]);
}
