// SPDX-License-Identifier: Apache-2.0
//
// What a container's config.json says of labels, profiles and user namespaces, and that a command in the
// container has the same.
#include "codec/json.h"
#include "node/oci/oci.h"
#include "unit.h"

#include "base/banned.h"

#define LABEL "system_u:system_r:container_t:s0:c1,c2"
#define FILES "system_u:object_r:container_file_t:s0:c1,c2"

static const struct str command[] = {STR_INIT("run")};

static void write_config(const struct runtime_security *security, const struct oci_pod *pod,
                         struct arena *arena, struct sbuf *out)
{
    const struct runtime_mount mounts[] = {
        {.host_path = "/src", .container_path = "/dst", .read_only = true, .recursive = true}};
    const struct runtime_container c = {.command = command,
                                        .command_len = 1,
                                        .security = *security,
                                        .mounts = mounts,
                                        .mounts_len = 1};
    const struct image_info image = {.rootfs = STR("/")};
    struct oci_binds binds = {0};
    struct err err = {0};
    const struct oci_options o = {.container = &c,
                                  .image = &image,
                                  .pod = pod,
                                  .folder = "/folder",
                                  .binds = &binds,
                                  .no_seccomp = true};
    if (oci_config_write(&o, arena, out, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(binds.n, pod->userns ? 1 : 0);
}

static void has(const struct sbuf *text, const char *what, bool wanted)
{
    if (!!strstr(text->p, what) != wanted)
        fail_msg("%s is %s in %s", what, wanted ? "not" : "", text->p);
}

static void labels_are_written(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf config = {0}, process = {0};
    const struct runtime_security s = {
        .apparmor = STR("tight"), .selinux_label = STR(LABEL), .mount_label = STR(FILES)};
    const struct oci_pod pod = {0};
    write_config(&s, &pod, &arena, &config);
    has(&config, "\"apparmorProfile\":\"tight\"", true);
    has(&config, "\"selinuxLabel\":\"" LABEL "\"", true);
    has(&config, "\"mountLabel\":\"" FILES "\"", true);
    has(&config, "\"rro\"", true);
    has(&config, "\"uidMappings\"", false);
    // A command in the container is confined as well.
    assert_int_equal(
        oci_process_write(sbuf_str(&config), command, 1, false, STR("M=1"), &process, NULL), 0);
    has(&process, "\"apparmorProfile\":\"tight\"", true);
    has(&process, "\"selinuxLabel\":\"" LABEL "\"", true);
}

static void user_namespaces_are_written(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf config = {0};
    const struct oci_pod pod = {.userns = "/pod/ns/user", .users = {131072, 65536}};
    write_config(&(struct runtime_security){0}, &pod, &arena, &config);
    has(&config, "{\"type\":\"user\",\"path\":\"/pod/ns/user\"}", true);
    has(&config, "\"uidMappings\":[{\"containerID\":0,\"hostID\":131072,\"size\":65536}]", true);
    has(&config, "\"gidMappings\":[{\"containerID\":0,\"hostID\":131072,\"size\":65536}]", true);
    has(&config, "\"source\":\"/folder/mounts/0\"", true);
    has(&config, "apparmorProfile", false);
    has(&config, "selinuxLabel", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_written),
        cmocka_unit_test(user_namespaces_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
