// SPDX-License-Identifier: Apache-2.0
//
// CDI specs: reading, the rules one by one, versions, names, writing.
#include "cdi/name.h"
#include "cdi/spec.h"
#include "unit.h"

#include "base/banned.h"

#define HEAD  "cdiVersion: 1.1.0\nkind: vendor.com/gpu\n"
#define GOOD  HEAD "devices:\n- name: a\n  containerEdits: {env: [A=1]}\n"
#define EDITS HEAD "devices:\n- name: a\n  containerEdits:\n"

// Loads a spec; the first problem, if any, is in *err. Returns how many there were.
static size_t load(const char *text, struct arena *arena, struct cdi_spec **ret, struct err *err)
{
    struct cdi_problems problems = {0};
    *err = (struct err){0};
    int rc = cdi_spec_load(str_z(text), arena, ret, &problems);
    assert_int_equal(rc == 0, problems.n == 0);
    size_t n = problems.n;
    if (n)
        *err = problems.p[0];
    vec_done(&problems);
    return n;
}

static void good(const char *text)
{
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct err err;
    if (load(text, &arena, &spec, &err) != 0)
        fail_msg("%s\nrefused: %s: %s", text, err.path, err.msg);
    arena_done(&arena);
}

// The spec has exactly one problem, at this path and line, with these words in it.
static void bad(const char *text, size_t line, const char *path, const char *words)
{
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct err err;
    size_t n = load(text, &arena, &spec, &err);
    if (n != 1)
        fail_msg("%s\nhas %zu problems, the first: %s: %s", text, n, err.path, err.msg);
    if (!strstr(err.msg, words))
        fail_msg("%s\nis told as \"%s\", not \"%s\"", text, err.msg, words);
    assert_string_equal(err.path, path);
    assert_int_equal(err.line, line);
    assert_null(spec);
    arena_done(&arena);
}

static void reads_every_field(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct err err;
    const char text[] =
        "cdiVersion: v1.1.0\nkind: vendor.com/gpu\nannotations: {x: y, n: 5}\n"
        "containerEdits: {additionalGids: [0, 44]}\n"
        "devices:\n- name: gpu0\n  annotations: {a: b}\n  containerEdits:\n    env: [A=1, B=]\n"
        "    deviceNodes:\n    - {path: /dev/x, hostPath: /dev/y, type: c, major: 1, minor: -3,\n"
        "       fileMode: 0644, permissions: rw, uid: 0, gid: 4294967295}\n"
        "    mounts: [{hostPath: /h, containerPath: /c, options: [ro, rbind], type: bind}]\n"
        "    hooks: [{hookName: prestart, path: /p, args: [p, x], env: [E=1], timeout: 7}]\n"
        "    intelRdt: {closID: c, l3CacheSchema: l, memBwSchema: m, schemata: [s],\n"
        "      enableMonitoring: true}\n"
        "    netDevices: [{hostInterfaceName: eth1, name: net0}]\n";
    assert_int_equal(load(text, &arena, &spec, &err), 0);
    assert_str(spec->version, "v1.1.0");
    assert_str(spec->annotations.p[1].value, "5");
    assert_int_equal(spec->edits.additional_gids.p[1], 44);
    const struct cdi_device *d = &spec->devices.p[0];
    const struct cdi_device_node *n = &d->edits.device_nodes.p[0];
    assert_str(n->host_path, "/dev/y");
    assert_int_equal(n->minor, -3);
    assert_true(n->file_mode.set && n->file_mode.value == 0644);
    assert_true(n->uid.set && n->uid.value == 0);
    assert_true(n->gid.value == UINT32_MAX);
    assert_str(d->edits.mounts.p[0].options.p[1], "rbind");
    assert_int_equal(d->edits.hooks.p[0].timeout.value, 7);
    assert_true(d->edits.intel_rdt->enable_monitoring);
    assert_str(d->edits.net_devices.p[0].name, "net0");

    // What is written reads as the same.
    struct sbuf once = {0}, twice = {0};
    struct cdi_spec *again = NULL;
    struct json_writer w = {.out = &once};
    cdi_write_spec(&w, spec);
    assert_int_equal(load(once.p, &arena, &again, &err), 0);
    w = (struct json_writer){.out = &twice};
    cdi_write_spec(&w, again);
    assert_string_equal(once.p, twice.p);
    assert_non_null(
        strstr(once.p, "\"netDevices\":[{\"hostInterfaceName\":\"eth1\",\"name\":\"net0\"}]"));
    sbuf_done(&once);
    sbuf_done(&twice);
    arena_done(&arena);
}

// As go-yaml: where a text is meant, a bare number or truth is the text that stands there.
static void bare_scalars_are_texts(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct err err;
    const char yaml[] = HEAD "annotations: {ä: x, on: 0x1F, v: 1.10}\ndevices:\n- name: 007\n"
                             "  containerEdits: {env: [A=1], mounts: [{hostPath: yes, "
                             "containerPath: 1e3}]}\n";
    assert_int_equal(load(yaml, &arena, &spec, &err), 0);
    assert_str(spec->devices.p[0].name, "007");
    assert_str(spec->annotations.p[1].value, "0x1F");
    assert_str(spec->annotations.p[2].value, "1.10");
    assert_str(spec->devices.p[0].edits.mounts.p[0].host_path, "yes");
    assert_str(spec->devices.p[0].edits.mounts.p[0].container_path, "1e3");
    const char json[] = "{\"cdiVersion\":\"0.6.0\",\"kind\":\"v/c\",\"annotations\":{\"ä\":1.50},"
                        "\"devices\":[{\"name\":10,\"containerEdits\":{\"env\":[\"A=1\"]}}]}";
    assert_int_equal(load(json, &arena, &spec, &err), 0);
    assert_str(spec->devices.p[0].name, "10");
    assert_str(spec->annotations.p[0].value, "1.50");
    arena_done(&arena);
}

static void refuses_what_is_no_spec(void **state)
{
    (void)state;
    bad("", 0, "", "empty");
    bad("[]", 1, "", "an object");
    bad(HEAD "devices: 5\n", 3, "devices", "a list of objects");
    bad(HEAD "devices: [x]\n", 3, "devices[0]", "an object");
    bad(EDITS "    mounts: [null]\n", 6, "devices[0].containerEdits.mounts[0]", "an object");
    bad(HEAD "device: []\n", 3, "", "unknown field \"device\"");
    bad(EDITS "    env: [A=1]\n    mount: []\n", 7, "devices[0].containerEdits",
        "unknown field \"mount\"; there are: env, deviceNodes");
    bad(HEAD "kind: x/y\n", 3, "", "kind");
    bad(EDITS "    env: {A: 1}\n", 6, "devices[0].containerEdits.env", "a list of texts");
    bad(EDITS "    env: [[A]]\n", 6, "devices[0].containerEdits.env[0]", "a text");
    bad(EDITS "    additionalGids: [-1]\n", 6, "devices[0].containerEdits.additionalGids[0]",
        "0 to 4294967295");
    bad(EDITS "    deviceNodes: [{path: /x, major: 1.5}]\n", 6,
        "devices[0].containerEdits.deviceNodes[0].major", "a whole number");
    bad(EDITS "    deviceNodes: [{path: /x, major: \"1\"}]\n", 6,
        "devices[0].containerEdits.deviceNodes[0].major", "a whole number");
    bad(EDITS "    deviceNodes: [{path: /x, uid: 4294967296}]\n", 6,
        "devices[0].containerEdits.deviceNodes[0].uid", "0 to 4294967295");
    bad(EDITS "    intelRdt: {enableMonitoring: 1}\n", 6,
        "devices[0].containerEdits.intelRdt.enableMonitoring", "true or false");
}

static void follows_the_rules(void **state)
{
    (void)state;
    good(GOOD);
    bad(HEAD "devices: []\n", 3, "devices", "at least one device");
    bad(GOOD "- name: a\n  containerEdits: {env: [B=1]}\n", 6, "devices[1].name", "another device");
    bad(GOOD "- name: b\n", 6, "devices[1].containerEdits", "changes nothing");
    bad(GOOD "- name: b\n  containerEdits: {env: []}\n", 7, "devices[1].containerEdits",
        "changes nothing");
    bad(EDITS "    env: [A]\n", 6, "devices[0].containerEdits.env[0]", "NAME=VALUE");
    bad(EDITS "    env: [=A]\n", 6, "devices[0].containerEdits.env[0]", "NAME=VALUE");
    bad(EDITS "    deviceNodes: [{type: c}]\n", 6, "devices[0].containerEdits.deviceNodes[0].path",
        "needs a path");
    bad(EDITS "    deviceNodes: [{path: /x, type: d}]\n", 6,
        "devices[0].containerEdits.deviceNodes[0].type", "none of b, c, u and p");
    bad(EDITS "    deviceNodes: [{path: /x, permissions: rxw}]\n", 6,
        "devices[0].containerEdits.deviceNodes[0].permissions", "r, w and m");
    good(EDITS "    deviceNodes: [{path: /x, permissions: none}, {path: /y, permissions: mrrw}]\n");
    bad(EDITS "    hooks: [{hookName: before, path: /x}]\n", 6,
        "devices[0].containerEdits.hooks[0].hookName", "is no hook");
    bad(EDITS "    hooks: [{hookName: poststop}]\n", 6, "devices[0].containerEdits.hooks[0].path",
        "needs a path");
    bad(EDITS "    hooks: [{hookName: poststop, path: /x, env: [A=, B]}]\n", 6,
        "devices[0].containerEdits.hooks[0].env[1]", "NAME=VALUE");
    bad(EDITS "    mounts: [{containerPath: /x}]\n", 6,
        "devices[0].containerEdits.mounts[0].hostPath", "on the host");
    bad(EDITS "    mounts: [{hostPath: /x}]\n", 6,
        "devices[0].containerEdits.mounts[0].containerPath", "in the container");
    good(EDITS "    intelRdt: {closID: /}\n");
    good(EDITS "    intelRdt: {}\n");
    bad(EDITS "    intelRdt: {closID: ..}\n", 6, "devices[0].containerEdits.intelRdt.closID",
        "name of a file");
    bad(EDITS "    intelRdt: {closID: a/b}\n", 6, "devices[0].containerEdits.intelRdt.closID",
        "name of a file");
    bad(EDITS "    netDevices: [{name: a}]\n", 6,
        "devices[0].containerEdits.netDevices[0].hostInterfaceName", "name of its interface");
    bad(EDITS
        "    netDevices: [{hostInterfaceName: a, name: b}, {hostInterfaceName: a, name: c}]\n",
        6, "devices[0].containerEdits.netDevices[1].hostInterfaceName", "already moved");
    bad(EDITS
        "    netDevices: [{hostInterfaceName: a, name: b}, {hostInterfaceName: c, name: b}]\n",
        6, "devices[0].containerEdits.netDevices[1].name", "already called");
    bad(GOOD "containerEdits: {env: [X]}\n", 6, "containerEdits.env[0]", "NAME=VALUE");
}

// Entries that are null are left out; a path counts those that are there.
static void leaves_nulls_out(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct err err;
    const char text[] = HEAD "devices:\n- null\n- name: a\n  containerEdits: {env: [null, A=1, ~], "
                             "additionalGids: [null, 5], mounts: null}\n";
    assert_int_equal(load(text, &arena, &spec, &err), 0);
    assert_int_equal(spec->devices.n, 1);
    assert_int_equal(spec->devices.p[0].edits.env.n, 1);
    assert_int_equal(spec->devices.p[0].edits.additional_gids.n, 1);
    arena_done(&arena);
}

static void tells_every_problem(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct err err;
    assert_int_equal(load("cdiVersion: 9\nkind: x\ndevices: [{name: -}]\n", &arena, &spec, &err),
                     4);
    struct sbuf many = {0};
    sbuf_addz(&many, EDITS "    env: [");
    for (size_t i = 0; i < 3 * CDI_PROBLEMS_MAX; i++)
        sbuf_addz(&many, "x,");
    sbuf_addz(&many, "]\n");
    assert_int_equal(load(many.p, &arena, &spec, &err), CDI_PROBLEMS_MAX);
    sbuf_done(&many);
    arena_done(&arena);
}

static void knows_versions(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *extra, *name, *edits, *needs;
    } rows[] = {
        {"v/c", "", "a", "env: [A=1]", "0.3.0"},
        {"v/c", "", "a", "mounts: [{hostPath: a, containerPath: b}]", "0.3.0"},
        {"v/c", "", "a", "mounts: [{hostPath: a, containerPath: b, type: c}]", "0.4.0"},
        {"v/c", "", "0", "env: [A=1]", "0.5.0"},
        {"v/c", "", "a", "deviceNodes: [{path: a, hostPath: b}]", "0.5.0"},
        {"v/c.d", "", "a", "env: [A=1]", "0.6.0"},
        {"v/c", "annotations: {a: b}\n", "a", "env: [A=1]", "0.6.0"},
        {"v/c", "annotations: {}\n", "a", "env: [A=1]", "0.3.0"},
        {"v/c", "", "a", "additionalGids: [1]", "0.7.0"},
        {"v/c", "containerEdits: {intelRdt: {}}\n", "a", "env: [A=1]", "0.7.0"},
        {"v/c", "", "a", "intelRdt: {schemata: []}", "1.1.0"},
        {"v/c", "", "a", "intelRdt: {enableMonitoring: true}", "1.1.0"},
        {"v/c", "", "a", "netDevices: [{hostInterfaceName: a, name: b}]", "1.1.0"},
    };
    static const char *const versions[] = {"0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0",
                                           "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"};
    for (size_t i = 0; i < array_len(rows); i++) {
        for (size_t v = 0; v < array_len(versions); v++) {
            struct arena arena = {0};
            struct cdi_spec *spec = NULL;
            struct err err;
            struct str text = arena_strf(
                &arena, "cdiVersion: %s\nkind: %s\n%sdevices: [{name: %s, containerEdits: {%s}}]\n",
                versions[v], rows[i].kind, rows[i].extra, rows[i].name, rows[i].edits);
            bool enough = strcmp(versions[v], rows[i].needs) >= 0;
            assert_int_equal(load(text.p, &arena, &spec, &err), enough ? 0 : 1);
            if (enough)
                assert_string_equal(cdi_spec_min_version(spec), rows[i].needs);
            else
                assert_string_equal(err.path, "cdiVersion");
            arena_done(&arena);
        }
    }
    // As upstream, which asks only the last device for these two.
    good(
        "cdiVersion: 0.3.0\nkind: v/c\ndevices: [{name: a, containerEdits: {mounts: [{hostPath: a, "
        "containerPath: b, type: c}]}}, {name: b, containerEdits: {env: [A=1]}}]\n");
    bad("cdiVersion: 1.2.0\nkind: v/c\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n", 1,
        "cdiVersion", "no version of CDI");
}

// Whether vendor/class=device has parts that follow the rules.
static bool is_name(const char *text)
{
    struct str kind, device, vendor, class;
    return str_cut(str_z(text), '=', &kind, &device) && cdi_kind_split(kind, &vendor, &class) &&
           cdi_check_vendor(vendor, NULL) == 0 && cdi_check_class(class, NULL) == 0 &&
           cdi_check_device(device, NULL) == 0;
}

static void takes_names_apart(void **state)
{
    (void)state;
    static const char *const right[] = {"vendor.com/gpu=0", "v/c=a", "A_1/b-2.c=x:y.z",
                                        "v/c=0-a_b"};
    static const char *const not [] = {"",        "gpu",    "v/c",     "v/c=",    "/c=a",
                                       "v/=a",    "1v/c=a", "v/1c=a",  "v-/c=a",  "v/c.=a",
                                       "v/c=-",   "v/c=a-", "v/c/d=a", "v/c=a/b", "v/c=a=b",
                                       "v:w/c=a", "=a",     "/v/c=a",  "v /c=a",  "v/c=\xc3\xa4"};
    for (size_t i = 0; i < array_len(right); i++)
        assert_true(is_name(right[i]));
    for (size_t i = 0; i < array_len(not ); i++)
        if (is_name(not [i]))
            fail_msg("%s is taken", not [i]);
    struct sbuf file = {0};
    cdi_file_name(&file, STR("vendor.com"), STR("gpu"), STR(""));
    assert_string_equal(file.p, "vendor.com-gpu");
    sbuf_clear(&file);
    cdi_file_name(&file, STR("v"), STR("c"), STR("a/b/c"));
    assert_string_equal(file.p, "v-c_a_b_c");
    sbuf_done(&file);
}

RUN_TESTS(TEST_CASE(reads_every_field), TEST_CASE(bare_scalars_are_texts),
          TEST_CASE(refuses_what_is_no_spec), TEST_CASE(follows_the_rules),
          TEST_CASE(leaves_nulls_out), TEST_CASE(tells_every_problem), TEST_CASE(knows_versions),
          TEST_CASE(takes_names_apart))
