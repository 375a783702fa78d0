// SPDX-License-Identifier: Apache-2.0
//
// Known ways out of a container, tried for real: links in the image where mounts and devices go, sub paths that lead
// out, also while they change, CDI paths with dots or through links, /proc. Beside each container lies a secret that
// must not be read, and a folder that must not change. Skipped as runtime_test.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <sys/stat.h>

#include "runtime_kit.h"

#include "base/banned.h"

#define SECRET "the host's secret"

static struct kit_runtime kit;
static char evil[80];                            // id of an image full of links
static char secret[96], volume[96], outside[96]; // a file; a volume; a folder that stays empty

static void make_folder(const char *path)
{
    assert_int_equal(mkdir(path, 0755), 0);
}

// Every place that something is mounted to, or looked up in, leads to the host.
static void make_evil_image(void)
{
    cleanup_sbuf struct sbuf folder = {0};
    struct kit_tar t = {0};
    kit_tar_add(&t, '2', "link", 0777, STR(""), outside);
    kit_tar_add(&t, '2', "up", 0777, STR(""), "../../../../../../../../../../../../");
    kit_tar_add(&t, '2', "etc/hosts", 0777, STR(""), secret);
    kit_tar_add(&t, '2', "etc/resolv.conf", 0777, STR(""), secret);
    kit_tar_add(&t, '2', "etc/hostname", 0777, STR(""), secret);
    kit_tar_add(&t, '2', "etc/passwd", 0777, STR(""), secret);
    kit_tar_add(&t, '2', "etc/group", 0777, STR(""), secret);
    kit_tar_add(&t, '2', "cwd", 0777, STR(""), "/proc/self/fd/7");
    kit_tar_end(&t);
    sbuf_addf(&folder, "%s/images/evil", kit.dir);
    assert_true(kit_busybox_over(folder.p, "1", "{\"Cmd\":[\"/bin/sh\"]}", &t));
    sbuf_done(&t.bytes);
    if (kit_image(&kit, "evil:1", RUNTIME_PULL_NEVER) < 0)
        fail_msg("%s", kit.err.msg);
    memcpy(evil, kit.id, sizeof(evil));
}

static int setup(void **state)
{
    (void)state;
    kit_runtime_open(&kit);
    (void)snprintf(secret, sizeof(secret), "%s/secret", kit.dir);
    (void)snprintf(volume, sizeof(volume), "%s/volume", kit.dir);
    (void)snprintf(outside, sizeof(outside), "%s/outside", kit.dir);
    kit_write(secret, STR("root:x:0:0:" SECRET ":/:/bin/sh\nmallory:x:7:7:x:/:/bin/sh\n"));
    make_folder(volume);
    make_folder(outside);
    make_evil_image();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_runtime_close(&kit);
    return 0;
}

static void check_host(void)
{
    cleanup_sbuf struct sbuf text = {0};
    if (rmdir(outside) != 0)
        fail_msg("something was made outside");
    make_folder(outside);
    read_file(secret, &text);
    assert_non_null(strstr(text.p, SECRET));
    assert_null(strstr(text.p, "127.0.0.1"));
}

// Runs a script in a container of the evil image, which may also be refused. Returns whether it ran.
static bool try(const struct runtime_container *like, const char *script, struct sbuf *out)
{
    static unsigned number;
    char uid[32], pod[80], id[80];
    const struct str command[] = {STR("/bin/sh"), STR("-c"), str_z(script)};
    struct runtime_container c = *like;
    (void)snprintf(uid, sizeof(uid), "try-%u", number++);
    if (kit_pod(&kit, uid, pod) < 0)
        fail_msg("%s", kit.err.msg);
    c.name = str_z(uid);
    c.image = c.image.n ? c.image : str_z(evil);
    c.command = command;
    c.command_len = 3;
    int rc = kit_create(&kit, pod, &c, id);
    if (rc == 0)
        rc = kit_start(&kit, id);
    struct err err = kit.err;
    if (rc == 0) {
        (void)kit_wait(&kit, id);
        kit_log(&kit, uid, 0, out);
    }
    if (kit_pod_remove(&kit, pod) < 0)
        fail_msg("%s", kit.err.msg);
    kit.err = err;
    kit.code = rc;
    if (out->p && strstr(out->p, SECRET))
        fail_msg("the secret was read: %s", out->p);
    check_host();
    return rc == 0;
}

// --- Mounts --------------------------------------------------------------------------------------

static void links_in_the_image_do_not_carry_mounts_out(void **state)
{
    static const char *const targets[] = {"/link/deep/er", "/link", "/up/tmp/there", "/link/../x"};
    (void)state;
    for (size_t i = 0; i < array_len(targets); i++) {
        cleanup_sbuf struct sbuf out = {0};
        const struct runtime_mount m = {.host_path = volume, .container_path = targets[i]};
        const struct runtime_container like = {.mounts = &m, .mounts_len = 1};
        (void)try(&like, "echo ran; ls -laR /link /up/tmp 2>/dev/null", &out);
    }
}

static void files_for_etc_do_not_overwrite_the_host(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    const struct runtime_container like = {0};
    (void)state;
    // The image's links are followed inside it: what is mounted over their ends is the pod's.
    (void)try(&like, "cat /etc/hosts /etc/resolv.conf /etc/hostname; echo changed > /etc/hosts",
              &out);
}

static void users_are_not_looked_up_in_files_of_the_host(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    const struct runtime_container like = {.security = {.user_name = STR("mallory")}};
    (void)state;
    assert_false(try(&like, "id", &out));
    assert_int_equal(kit.code, -ERR_INVALID);
}

static void mounts_over_proc_are_refused_or_harmless(void **state)
{
    static const char *const targets[] = {"/proc", "/proc/self/exe", "/proc/sys/kernel", "/sys/fs"};
    (void)state;
    for (size_t i = 0; i < array_len(targets); i++) {
        cleanup_sbuf struct sbuf out = {0};
        const struct runtime_mount m = {.host_path = volume, .container_path = targets[i]};
        const struct runtime_container like = {.mounts = &m, .mounts_len = 1};
        (void)try(&like, "echo ran", &out);
    }
}

static void a_working_directory_is_no_way_out(void **state)
{
    (void)state;
    for (int fd = 3; fd < 12; fd++) {
        cleanup_sbuf struct sbuf out = {0};
        char folder[32];
        (void)snprintf(folder, sizeof(folder), "/proc/self/fd/%d", fd);
        const struct runtime_container direct = {.working_dir = str_z(folder)};
        assert_false(try(&direct, "true", &out));
    }
    cleanup_sbuf struct sbuf out = {0};
    char script[256];
    (void)snprintf(script, sizeof(script),
                   "cat ../../../../../..%s .%s 2>/dev/null; cat ../../../../etc/shadow", secret,
                   secret);
    const struct runtime_container linked = {.working_dir = STR("/cwd")};
    (void)try(&linked, script, &out);
}

// --- Sub paths -----------------------------------------------------------------------------------

static void put_link(const char *name, const char *target)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s", volume, name);
    (void)unlink(path);
    assert_int_equal(symlink(target, path), 0);
}

static void sub_paths_stay_in_their_volume(void **state)
{
    char top[160];
    static const struct {
        const char *sub;
        bool good;
    } rows[] = {
        {"fine", true},
        {"made/on/the/way", true},
        {"inner", true},
        {"out", false},
        {"out/deeper", false},
        {"dots", false},
        {"../secret", false},
        {"a/../../secret", false},
        {"/etc", false},
        {"absolute", false},
        {"file", true},
        {"loop", false},
        {"fine/../../outside", false},
        {"proc", false},
    };
    (void)state;
    (void)snprintf(top, sizeof(top), "%s/fine", volume);
    make_folder(top);
    (void)snprintf(top, sizeof(top), "%s/file", volume);
    kit_write(top, STR("a file"));
    put_link("inner", "fine");
    put_link("out", outside);
    put_link("dots", "..");
    put_link("absolute", secret);
    put_link("loop", "loop");
    put_link("proc", "/proc/self/root");
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf out = {0};
        const struct runtime_mount m = {
            .host_path = volume, .container_path = "/mnt", .sub_path = rows[i].sub};
        const struct runtime_container like = {
            .mounts = &m, .mounts_len = 1, .image = str_z(kit.image)};
        bool ran = try(&like, "ls -la /mnt; cat /mnt; cat /mnt/secret; touch /mnt/mark", &out);
        if (ran != rows[i].good)
            fail_msg("subPath %s: %s", rows[i].sub, ran ? "accepted" : kit.err.msg);
    }
    (void)snprintf(top, sizeof(top), "%s/fine/mark", volume);
    assert_int_equal(access(top, F_OK), 0);
}

static atomic_bool stop_flipping;

// A neighbour that swaps a folder for a link, over and over.
static void *flip(void *arg)
{
    char name[160], folder[160], link[160];
    (void)arg;
    (void)snprintf(name, sizeof(name), "%s/flip", volume);
    (void)snprintf(folder, sizeof(folder), "%s/flip-folder", volume);
    (void)snprintf(link, sizeof(link), "%s/flip-link", volume);
    (void)mkdir(folder, 0755);
    if (symlink(kit.dir, link) < 0)
        return NULL;
    while (!atomic_load(&stop_flipping)) {
        (void)rename(folder, name);
        (void)rename(name, folder);
        (void)rename(link, name);
        (void)rename(name, link);
    }
    return NULL;
}

static void a_sub_path_that_changes_meanwhile_is_no_way_out(void **state)
{
    pthread_t thread;
    size_t ran = 0;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, flip, NULL), 0);
    for (int i = 0; i < 25; i++) {
        cleanup_sbuf struct sbuf out = {0};
        const struct runtime_mount m = {
            .host_path = volume, .container_path = "/mnt", .sub_path = "flip"};
        const struct runtime_container like = {
            .mounts = &m, .mounts_len = 1, .image = str_z(kit.image)};
        ran += try(&like, "cat /mnt/secret /mnt/*/secret", &out);
    }
    atomic_store(&stop_flipping, true);
    (void)pthread_join(thread, NULL);
    printf("%zu of 25 containers ran\n", ran);
}

// --- Devices -------------------------------------------------------------------------------------

static void write_spec(const char *edits)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    sbuf_addf(&path, "%s/cdi/test.json", kit.dir);
    sbuf_addf(&text,
              "{\"cdiVersion\":\"0.6.0\",\"kind\":\"example.com/dev\",\"devices\":[{\"name\":\"d\","
              "\"containerEdits\":%s}]}",
              edits);
    kit_write(path.p, sbuf_str(&text));
}

static void devices_come_through_cdi(void **state)
{
    cleanup_sbuf struct sbuf out = {0}, none = {0};
    const struct str device = STR("example.com/dev=d");
    const struct runtime_container with = {
        .cdi_devices = &device, .cdi_devices_len = 1, .image = str_z(kit.image)};
    const struct runtime_container without = {.image = str_z(kit.image)};
    char edits[400];
    (void)state;
    (void)snprintf(edits, sizeof(edits),
                   "{\"env\":[\"DEVICE=yes\"],\"deviceNodes\":[{\"path\":\"/dev/"
                   "mine\",\"hostPath\":\"/dev/zero\","
                   "\"type\":\"c\",\"major\":1,\"minor\":5}],\"mounts\":[{\"hostPath\":\"%s\","
                   "\"containerPath\":"
                   "\"/opt/vol\",\"options\":[\"ro\",\"bind\"]}]}",
                   volume);
    write_spec(edits);
    assert_true(try(&with, "echo $DEVICE; head -c 3 /dev/mine | wc -c; ls /opt/vol", &out));
    assert_non_null(strstr(out.p, "yes\n3\n"));
    assert_non_null(strstr(out.p, "file"));
    assert_true(try(&without, "echo -$DEVICE-; ls /dev/mine /opt", &none));
    assert_non_null(strstr(none.p, "--\n"));
    assert_null(strstr(none.p, "vol"));
    // A device that nobody offers.
    const struct str absent = STR("example.com/dev=absent");
    const struct runtime_container wrong = {.cdi_devices = &absent, .cdi_devices_len = 1};
    assert_false(try(&wrong, "true", &out));
    assert_int_equal(kit.code, -ERR_NOT_FOUND);
}

static void paths_of_cdi_stay_in_the_container(void **state)
{
    static const char *const edits[] = {
        "{\"deviceNodes\":[{\"path\":\"/link/node\",\"type\":\"c\",\"major\":1,\"minor\":5}]}",
        "{\"deviceNodes\":[{\"path\":\"/dev/../link/"
        "node\",\"type\":\"c\",\"major\":1,\"minor\":5}]}",
        "{\"deviceNodes\":[{\"path\":\"/dev/../../../../../../tmp/"
        "node\",\"type\":\"c\",\"major\":1,\"minor\":5}]}",
        "{\"mounts\":[{\"hostPath\":\"/etc/hostname\",\"containerPath\":\"/link/"
        "file\",\"options\":[\"bind\"]}]}",
        "{\"mounts\":[{\"hostPath\":\"/etc/hostname\",\"containerPath\":\"/../../link/"
        "file\",\"options\":[\"bind\"]}]}",
        "{\"mounts\":[{\"hostPath\":\"/etc\",\"containerPath\":\"/up/x/"
        "y\",\"options\":[\"bind\",\"ro\"]}]}",
    };
    const struct str device = STR("example.com/dev=d");
    const struct runtime_container like = {.cdi_devices = &device, .cdi_devices_len = 1};
    (void)state;
    for (size_t i = 0; i < array_len(edits); i++) {
        cleanup_sbuf struct sbuf out = {0};
        write_spec(edits[i]);
        bool ran = try(&like, "echo ran", &out);
        if (strstr(edits[i], ".."))
            assert_false(ran);
        assert_int_not_equal(access("/tmp/node", F_OK), 0);
        assert_int_not_equal(access("/x/y", F_OK), 0);
    }
}

// --- The kernel ----------------------------------------------------------------------------------

static void files_of_the_kernel_are_masked_or_read_only(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    const struct runtime_container like = {.image = str_z(kit.image)};
    (void)state;
    assert_true(
        try(&like,
            "for f in /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug; do "
            "head -c 1 $f 2>/dev/null | grep -q . && echo bad: read $f; done; "
            "ls /sys/firmware /proc/acpi /proc/scsi 2>/dev/null | grep -v : | grep . && echo bad: "
            "seen; "
            "for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname "
            "/proc/irq/default_smp_affinity /sys/kernel/uevent_helper /sys/power/state; do "
            "(: < $f) 2>/dev/null || continue; (: >> $f) 2>/dev/null && echo bad: opened $f; done; "
            "(umount /proc/kcore || umount /proc/sys) 2>/dev/null && echo bad: unmasked; "
            "mount -o remount,rw /proc/sys 2>/dev/null && echo bad: remounted; echo end",
            &out));
    assert_non_null(strstr(out.p, "end\n"));
    if (strstr(out.p, "bad:"))
        fail_msg("%s", out.p);
}

static void nothing_can_be_mounted_and_no_namespace_be_made(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    const struct runtime_container like = {.image = str_z(kit.image)};
    (void)state;
    assert_true(try(&like,
                    "mkdir /tmp/m; mount -t tmpfs none /tmp/m 2>/dev/null && echo bad: tmpfs; "
                    "mount -t proc none /tmp/m 2>/dev/null && echo bad: proc; "
                    "mount -t cgroup none /tmp/m 2>/dev/null && echo bad: cgroup; "
                    "mount --bind / /tmp/m 2>/dev/null && echo bad: bind; "
                    "unshare -U true 2>/dev/null && echo bad: user namespace; "
                    "unshare -m true 2>/dev/null && echo bad: mount namespace; "
                    "nsenter -t 1 -m -n true 2>/dev/null && echo bad: nsenter; "
                    "ls /proc/1/root/etc/shadow /proc/self/root/../../etc/shadow 2>/dev/null && "
                    "echo bad: shadow; "
                    "echo end",
                    &out));
    assert_non_null(strstr(out.p, "end\n"));
    if (strstr(out.p, "bad:"))
        fail_msg("%s", out.p);
}

static bool restricts_devices(void)
{
    struct str version;
    const struct str *missing;
    size_t n;
    kit.runtime->ops->about(kit.runtime, &version, &missing, &n);
    for (size_t i = 0; i < n; i++)
        if (str_contains(missing[i], STR("device access is not restricted")))
            return false;
    return true;
}

static void device_nodes_that_a_container_makes_are_of_no_use(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    const struct runtime_container like = {.image = str_z(kit.image)};
    (void)state;
    if (!restricts_devices()) {
        printf("not tried: no devices controller here\n");
        return;
    }
    assert_true(try(
        &like,
        "cd /tmp; mknod mem c 1 1; mknod kmsg c 1 11; mknod sda b 8 0; mknod vda b 254 0; "
        "mknod fuse c 10 229; mknod loop b 7 0; "
        "for f in mem kmsg sda vda fuse loop; do (: < $f) 2>/dev/null && echo bad: $f; done; "
        "for f in null zero full random urandom tty; do [ -c /dev/$f ] || echo bad: no $f; done; "
        "head -c 2 /dev/zero | wc -c; echo end",
        &out));
    assert_non_null(strstr(out.p, "2\nend\n"));
    if (strstr(out.p, "bad:"))
        fail_msg("%s", out.p);
}

// A path of the host that is a link is what it leads to; a sub path below it stays there all the same.
static void a_path_of_the_host_through_a_link_stays_where_it_leads(void **state)
{
    char link[160], inner[200];
    (void)state;
    (void)snprintf(link, sizeof(link), "%s/to-volume", kit.dir);
    (void)unlink(link);
    assert_int_equal(symlink(volume, link), 0);
    (void)snprintf(inner, sizeof(inner), "%s/leads-out", volume);
    (void)unlink(inner);
    assert_int_equal(symlink(kit.dir, inner), 0);
    static const struct {
        const char *sub;
        bool good;
    } rows[] = {{"", true},
                {"plain", true},
                {"leads-out", false},
                {"leads-out/outside", false},
                {"../outside", false}};
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf out = {0};
        const struct runtime_mount m = {
            .host_path = link, .container_path = "/mnt", .sub_path = rows[i].sub};
        const struct runtime_container like = {
            .mounts = &m, .mounts_len = 1, .image = str_z(kit.image)};
        // Within, a link to a folder of the host leads to the container's own.
        bool ran = try(&like, "cat /mnt/leads-out/secret /mnt/secret; echo end", &out);
        if (ran != rows[i].good)
            fail_msg("subPath '%s': %s", rows[i].sub, ran ? "accepted" : kit.err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(links_in_the_image_do_not_carry_mounts_out),
        TEST_CASE(files_for_etc_do_not_overwrite_the_host),
        TEST_CASE(users_are_not_looked_up_in_files_of_the_host),
        TEST_CASE(mounts_over_proc_are_refused_or_harmless),
        TEST_CASE(a_working_directory_is_no_way_out),
        TEST_CASE(sub_paths_stay_in_their_volume),
        TEST_CASE(a_sub_path_that_changes_meanwhile_is_no_way_out),
        TEST_CASE(devices_come_through_cdi),
        TEST_CASE(paths_of_cdi_stay_in_the_container),
        TEST_CASE(files_of_the_kernel_are_masked_or_read_only),
        TEST_CASE(nothing_can_be_mounted_and_no_namespace_be_made),
        TEST_CASE(device_nodes_that_a_container_makes_are_of_no_use),
        TEST_CASE(a_path_of_the_host_through_a_link_stays_where_it_leads),
    };
    const char *why = kit_runtime_possible();
    if (why) {
        printf("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
