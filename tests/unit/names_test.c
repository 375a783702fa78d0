// SPDX-License-Identifier: Apache-2.0
//
// The shapes of names and upstream's words about them; causes and field paths.
#include "api/cause.h"
#include "api/names.h"
#include "unit.h"

#include "base/banned.h"

static size_t messages(name_check check, struct str value, struct sbuf *all)
{
    cleanup_arena struct arena a = {0};
    struct name_msgs out = {.arena = &a};
    check(value, &out);
    for (size_t i = 0; i < out.n; i++) {
        sbuf_add(all, out.p[i]);
        sbuf_addc(all, '\n');
    }
    return out.n;
}

static void good(name_check check, const char *value)
{
    cleanup_sbuf struct sbuf all = {0};
    if (messages(check, str_z(value), &all) != 0)
        fail_msg("%s: %s", value, all.p);
}

static void bad(name_check check, const char *value, size_t count, const char *part)
{
    cleanup_sbuf struct sbuf all = {0};
    size_t n = messages(check, str_z(value), &all);
    if (n != count || !strstr(all.p ? all.p : "", part))
        fail_msg("%s: %zu messages, want %zu with \"%s\": %s", value, n, count, part, all.p);
}

#define X10 "xxxxxxxxxx"
#define X63 X10 X10 X10 X10 X10 X10 "xxx"

static void dns_names(void **state)
{
    (void)state;
    good(name_dns_label, "a");
    good(name_dns_label, "0-9");
    good(name_dns_label, X63);
    bad(name_dns_label, X63 "x", 1, "must be no more than 63 bytes");
    bad(name_dns_label, "a.b", 1, "must not contain dots");
    bad(name_dns_label, "", 1, "a lowercase RFC 1123 label must consist of");
    bad(name_dns_label, "A", 1, "(e.g. 'my-name',  or '123-abc', regex used for validation is");
    bad(name_dns_label, "-a", 1, "RFC 1123 label");
    bad(name_dns_label, "a-", 1, "RFC 1123 label");
    bad(name_dns_label, "a b", 1, "RFC 1123 label");
    good(name_dns_subdomain, "a.b-c.d0");
    bad(name_dns_subdomain, "a..b", 1, "a lowercase RFC 1123 subdomain must consist of");
    bad(name_dns_subdomain, ".a", 1, "(e.g. 'example.com', regex used for validation is");
    bad(name_dns_subdomain, "Example.com", 1, "lowercase RFC 1123 subdomain");
    good(name_dns_subdomain_caseless, "Example.com");
    bad(name_dns_subdomain_caseless, "_", 1, "an RFC 1123 subdomain must consist of");
    good(name_dns1035_label, "a-0");
    bad(name_dns1035_label, "0-a", 1, "DNS-1035 label");
    assert_true(name_is_dns_label(STR("gpu-0")));
    assert_false(name_is_dns_label(STR(X63 "x")));
    assert_true(name_is_dns_subdomain(STR("gpu.example.com")));
    assert_false(name_is_dns_subdomain(STR("gpu.Example.com")));
}

static void label_keys_and_values(void **state)
{
    (void)state;
    good(name_label_key, "MyName");
    good(name_label_key, "example.com/my.name_x");
    bad(name_label_key, "", 2, "name part must be non-empty");
    bad(name_label_key, "/a", 1, "prefix part must be non-empty");
    bad(name_label_key, "a/", 2, "name part must be non-empty");
    bad(name_label_key, "Example.com/a", 1, "prefix part a lowercase RFC 1123 subdomain");
    bad(name_label_key, "a/b/c", 1, "with an optional DNS subdomain prefix and '/'");
    bad(name_label_key, X63 "x", 1, "name part must be no more than 63 bytes");
    bad(name_label_key, "a b", 1, "name part must consist of alphanumeric characters");
    good(name_label_value, "");
    good(name_label_value, "v1.2_x-y");
    bad(name_label_value, "-x", 1, "a valid label must be an empty string or consist of");
    bad(name_label_value, X63 "x", 1, "must be no more than 63 bytes");
    assert_true(name_is_label_key(STR("example.com/x")));
    assert_false(name_is_label_key(STR("a/b/c")));
    assert_false(name_is_label_key(STR("/x")));
}

static void other_names(void **state)
{
    (void)state;
    good(name_c_identifier, "_a0");
    bad(name_c_identifier, "0a", 1, "a valid C identifier must start with");
    bad(name_c_identifier, "", 1, "'MY_NAME',  or 'MyName'");
    bad(name_c_identifier, "a-b", 1, "C identifier");
    good(name_path_segment, "a.b");
    bad(name_path_segment, ".", 1, "may not be '.'");
    bad(name_path_segment, "..", 1, "may not be '..'");
    bad(name_path_segment, "a/b%", 2, "may not contain '%'");
    good(name_extended_resource, "example.com/gpu");
    bad(name_extended_resource, "gpu", 1, "must be a domain-prefixed path");
    bad(name_extended_resource, "x.kubernetes.io/gpu", 1,
        "must not have \"kubernetes.io/\" domain");
    bad(name_extended_resource, "requests.example.com/gpu", 1,
        "must not have \"requests.\" prefix");
    assert_true(name_is_uuid(STR("11111111-2222-3333-4444-55555555abcd")));
    assert_false(name_is_uuid(STR("11111111-2222-3333-4444-55555555ABCD")));
    assert_false(name_is_uuid(STR("11111111-2222-3333-4444-55555555abc")));
}

static void semver_shape(void **state)
{
    (void)state;
    static const char *const yes[] = {
        "0.0.0",  "1.2.3-a.b.0+x.00", "1.2.3-0a", "1.2.3--", "99999999999999999999999.0.0",
        "1.2.3+-"};
    static const char *const no[] = {"",       "1.2",       "01.2.3",     "1.2.3-01",
                                     "1.2.3-", "1.2.3+",    "1.2.3-a..b", "v1.2.3",
                                     "1.2.3 ", "1.2.3+a+b", "1.2.3-ä"};
    for (size_t i = 0; i < array_len(yes); i++)
        assert_true(name_is_semver(str_z(yes[i])));
    for (size_t i = 0; i < array_len(no); i++)
        assert_false(name_is_semver(str_z(no[i])));
}

static void interface_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *in, *canonical; // NULL: refused
    } cases[] = {
        {"10.9.8.7/24", "10.9.8.7/24"},
        {"010.009.8.7/24", "10.9.8.7/24"},
        {"10.9.8.7/024", "10.9.8.7/24"},
        {"2001:db8::1/64", "2001:db8::1/64"},
        {"2001:DB8:0:0:0:0:0:1/64", "2001:db8::1/64"},
        {"::/0", "::/0"},
        {"::1/128", "::1/128"},
        {"1::/16", "1::/16"},
        {"1:0:0:2:0:0:0:3/64", "1:0:0:2::3/64"},
        {"1:0:2:3:4:5:6:7/64", "1:0:2:3:4:5:6:7/64"},
        {"::ffff:192.168.0.1/120", "192.168.0.1/24"},
        {"::ffff:c0a8:1/120", "192.168.0.1/24"},
        {"64:ff9b::1.2.3.4/96", "64:ff9b::102:304/96"},
        {"10.9.8.7", NULL},
        {"10.9.8.7/33", NULL},
        {"10.9.8/24", NULL},
        {"10.9.8.256/24", NULL},
        {"10.9.8.7.6/24", NULL},
        {"2001:db8::1/129", NULL},
        {"2001:db8::1::2/64", NULL},
        {"1:2:3:4:5:6:7/64", NULL},
        {"1:2:3:4:5:6:7:8:9/64", NULL},
        {"1:2:3:4:5:6:7:8::/64", NULL},
        {"12345::/16", NULL},
        {"::g/16", NULL},
        {"/24", NULL},
        {"10.9.8.7/", NULL},
        {"10.9.8.7/-1", NULL},
        {":1/64", NULL},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_sbuf struct sbuf out = {0};
        bool ok = name_canonical_interface_address(str_z(cases[i].in), &out);
        if (ok != (cases[i].canonical != NULL))
            fail_msg("%s: %s", cases[i].in, ok ? "accepted" : "refused");
        if (ok)
            assert_string_equal(out.p, cases[i].canonical);
    }
}

static void causes_read_as_upstreams(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct causes c = {.arena = &a};
    struct path spec = path_root(STR("spec")), devices = path_field(&spec, STR("devices"));
    struct path first = path_index(&devices, 3), attrs = path_field(&first, STR("attributes"));
    struct path key = path_key(&attrs, STR("a.b/c")), text = path_field(&key, STR("string"));
    cause_invalid(&c, &text, STR("a\"b"), STR("must be so"));
    cause_required(&c, &spec, STR(""));
    cause_too_many(&c, &devices, 129, 128);
    cause_too_long(&c, &text, 1);
    cause_duplicate(&c, &first, STR("x"));
    cause_invalid_bool(&c, &first, false, STR("must be either unset or set to true"));
    static const struct str known[] = {STR_INIT("Equal"), STR_INIT("Exists")};
    size_t last = cause_not_supported(&c, &first, STR("In"), known, 2);
    static const char *const want[][3] = {
        {"FieldValueInvalid", "spec.devices[3].attributes[a.b/c].string",
         "Invalid value: \"a\\\"b\": must be so"},
        {"FieldValueRequired", "spec", "Required value"},
        {"FieldValueTooMany", "spec.devices", "Too many: 129: must have at most 128 items"},
        {"FieldValueTooLong", "spec.devices[3].attributes[a.b/c].string",
         "Too long: may not be more than 1 byte"},
        {"FieldValueDuplicate", "spec.devices[3]", "Duplicate value: \"x\""},
        {"FieldValueInvalid", "spec.devices[3]",
         "Invalid value: false: must be either unset or set to true"},
        {"FieldValueNotSupported", "spec.devices[3]",
         "Unsupported value: \"In\": supported values: \"Equal\", \"Exists\""},
    };
    assert_int_equal(c.n, array_len(want));
    for (size_t i = 0; i < c.n; i++) {
        assert_string_equal(cause_reason(c.p[i].type), want[i][0]);
        assert_str(c.p[i].field, want[i][1]);
        assert_str(c.p[i].message, want[i][2]);
    }
    causes_mark(&c, last, "enum", true);
    assert_false(c.p[0].covered);
    assert_true(c.p[last].covered);
    assert_string_equal(c.p[last].origin, "enum");
}

RUN_TESTS(TEST_CASE(dns_names), TEST_CASE(label_keys_and_values), TEST_CASE(other_names),
          TEST_CASE(semver_shape), TEST_CASE(interface_addresses),
          TEST_CASE(causes_read_as_upstreams))
