// SPDX-License-Identifier: Apache-2.0
//
// Files on disks that fail and in processes that die. Every fault point of a replacement is failed and is
// killed at; write, fsync and renameat are also failed themselves (they are wrapped at link time), written in
// short pieces, and interrupted. Afterwards the file has the old content or the new, and nothing else is left.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "os/fault.h"
#include "os/file.h"
#include "unit.h"

#include "base/banned.h"

enum { POINTS_MAX = 20 };

static char dir[64], path[80];

static const char old_text[] = "the old content";
static const char new_text[] = "the new content, which is longer than the old one";

// --- The disk ------------------------------------------------------------------------------------

static struct {
    int write_code, fsync_code, rename_code; // errno of the next call; 0: it works
    size_t write_most;                       // bytes that one write takes; 0: all
    int interrupts;                          // calls of write that a signal interrupts first
    int fsyncs;
} disk;

ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new);

ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
    if (disk.interrupts > 0) {
        disk.interrupts--;
        errno = EINTR;
        return -1;
    }
    if (disk.write_most && n > disk.write_most)
        return __real_write(fd, buf, disk.write_most);
    if (disk.write_code) {
        errno = disk.write_code;
        return -1;
    }
    return __real_write(fd, buf, n);
}

int __wrap_fsync(int fd)
{
    disk.fsyncs++;
    if (!disk.fsync_code)
        return __real_fsync(fd);
    errno = disk.fsync_code;
    return -1;
}

int __wrap_renameat(int from, const char *old, int to, const char *new)
{
    if (!disk.rename_code)
        return __real_renameat(from, old, to, new);
    errno = disk.rename_code;
    return -1;
}

// --- The world -----------------------------------------------------------------------------------

static struct {
    int points, die_at, fail_at;
    int code;
} plan;

static int on_point(void *arg, const char *point)
{
    (void)arg;
    (void)point;
    plan.points++;
    if (plan.points == plan.die_at)
        (void)raise(SIGKILL);
    return plan.points == plan.fail_at ? plan.code : 0;
}

static const struct fault_hook hook = {on_point, NULL};

static int set_up(void **state)
{
    (void)state;
    memset(&disk, 0, sizeof(disk));
    memset(&plan, 0, sizeof(plan));
    (void)snprintf(dir, sizeof(dir), "/tmp/dray-os-XXXXXX");
    (void)snprintf(path, sizeof(path), "%s/file", mkdtemp(dir));
    return file_replace_atomic(AT_FDCWD, path, str_z(old_text), 0640, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    fault_hook_set(NULL);
    memset(&disk, 0, sizeof(disk));
    return file_remove_tree(dir, NULL);
}

static size_t entries(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (file_next_entry(d))
        n++;
    (void)closedir(d);
    return n;
}

static bool has(const char *text)
{
    struct sbuf now = {0};
    assert_int_equal(file_read(path, 1000, &now, NULL), 0);
    bool same = str_eq(sbuf_str(&now), str_z(text));
    sbuf_done(&now);
    return same;
}

static void has_old_alone(void)
{
    assert_true(has(old_text));
    assert_int_equal(entries(), 1);
}

static int replace(bool durable, struct err *err)
{
    return durable ? file_replace_durable(AT_FDCWD, path, str_z(new_text), 0640, err)
                   : file_replace_atomic(AT_FDCWD, path, str_z(new_text), 0640, err);
}

// --- Replacing -----------------------------------------------------------------------------------

static void replaces_with_the_mode_whatever_the_umask(void **state)
{
    (void)state;
    struct stat st;
    (void)umask(077);
    assert_int_equal(file_replace_durable(AT_FDCWD, path, str_z(new_text), 0644, NULL), 0);
    (void)umask(022);
    assert_true(has(new_text));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(disk.fsyncs, 2); // the file and its directory
    assert_int_equal(replace(false, NULL), 0);
    assert_int_equal(disk.fsyncs, 2);
    assert_int_equal(entries(), 1);
}

static void replaces_below_a_descriptor(void **state)
{
    (void)state;
    cleanup_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_replace_durable(fd, "file", str_z(new_text), 0600, NULL), 0);
    assert_true(has(new_text));
    char longest[256] = {0};
    memset(longest, 'x', 255); // NAME_MAX: the temporary name must fit, too
    assert_int_equal(file_replace_durable(fd, longest, str_z(new_text), 0600, NULL), 0);
    assert_int_equal(file_replace_durable(fd, "no/such", str_z(new_text), 0600, NULL), -ENOENT);
    assert_int_equal(entries(), 2);
}

static void a_failing_call_leaves_the_old_file(void **state)
{
    (void)state;
    static const int codes[] = {EIO, ENOSPC, EDQUOT, EROFS};
    for (size_t i = 0; i < array_len(codes); i++) {
        struct err err = {0};
        disk.write_code = codes[i];
        assert_int_equal(replace(true, &err), -codes[i]);
        assert_non_null(strstr(err.msg, path));
        has_old_alone();
        disk.write_code = 0;
        disk.rename_code = codes[i];
        assert_int_equal(replace(false, NULL), -codes[i]);
        has_old_alone();
        disk.rename_code = 0;
    }
    disk.fsync_code = EIO;
    assert_int_equal(replace(true, NULL), -EIO);
    has_old_alone();
    assert_int_equal(replace(false, NULL), 0); // promises no sync
    assert_true(has(new_text));
}

static void a_full_disk_in_the_middle_leaves_the_old_file(void **state)
{
    (void)state;
    disk.write_most = 20; // two writes are short, the rest does not fit
    disk.write_code = ENOSPC;
    assert_int_equal(replace(true, NULL), -ENOSPC);
    has_old_alone();
    cleanup_fd int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_copy_durable(from, AT_FDCWD, "/dev/shm/no/such", 0600, NULL), -ENOENT);
}

static void short_and_interrupted_writes_are_continued(void **state)
{
    (void)state;
    disk.write_most = 3;
    disk.interrupts = 4;
    assert_int_equal(replace(true, NULL), 0);
    assert_true(has(new_text));
    assert_int_equal(file_append_durable(path, STR("and more"), NULL), 0);
    assert_int_equal(entries(), 1);
}

// A directory that cannot be synced: the failure is told, the content is whole.
static void a_failing_directory_is_told(void **state)
{
    (void)state;
    fault_hook_set(&hook);
    plan.code = -EIO;
    for (plan.fail_at = 1; !has(new_text); plan.fail_at++) {
        plan.points = 0;
        int r = replace(true, NULL);
        assert_true(plan.points >= plan.fail_at);
        assert_int_equal(r, -EIO);
        assert_int_equal(entries(), 1);
    }
    assert_int_equal(plan.fail_at, 6); // create, write, sync, rename, sync directory
}

static void every_point_fails(void **state)
{
    (void)state;
    fault_hook_set(&hook);
    plan.code = -ENOSPC;
    int failed = 0;
    for (plan.fail_at = 1; plan.fail_at < POINTS_MAX; plan.fail_at++) {
        plan.points = 0;
        if (replace(false, NULL) == 0)
            break;
        has_old_alone();
        failed++;
    }
    assert_int_equal(failed, 3); // create, write, rename
    assert_true(has(new_text));
}

// Returns whether the process died.
static bool dies_at(int point, bool durable)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        plan.points = 0;
        plan.die_at = point;
        fault_hook_set(&hook);
        _exit(replace(durable, NULL) == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void a_death_leaves_the_old_file_or_the_new(void **state)
{
    (void)state;
    for (int durable = 0; durable < 2; durable++) {
        int deaths = 0, stale = 0;
        assert_int_equal(file_replace_atomic(AT_FDCWD, path, str_z(old_text), 0640, NULL), 0);
        while (deaths < POINTS_MAX && dies_at(deaths + 1, durable)) {
            deaths++;
            bool is_new = has(new_text); // after the rename only
            assert_true(is_new ? durable && deaths == 5 : has(old_text));
            stale += entries() > 1;
            file_remove_temporaries(dir, STR("other"));
            assert_int_equal(entries() > 1, deaths > 1 && !is_new);
            file_remove_temporaries(dir, STR("fi"));
            assert_int_equal(entries(), 1);
        }
        assert_int_equal(deaths, durable ? 5 : 3);
        assert_int_equal(stale, durable ? 3 : 2);
        assert_true(has(new_text)); // by the one that lived
    }
}

static void only_own_temporary_files_go(void **state)
{
    (void)state;
    static const char *const others[] = {".file.tmp", "file.12345678.tmp", ".file.12345678.tmpx",
                                         ".tmp"};
    for (size_t i = 0; i < array_len(others); i++) {
        char other[128];
        (void)snprintf(other, sizeof(other), "%s/%s", dir, others[i]);
        assert_int_equal(file_append(other, STR(""), NULL), 0);
    }
    file_remove_temporaries(dir, STR(""));
    assert_int_equal(entries(), 1 + array_len(others));
    file_remove_temporaries("/no/such", STR(""));
}

static void *replace_often(void *arg)
{
    struct str text = str_make(arg, 4000);
    for (int i = 0; i < 100; i++)
        if (file_replace_atomic(AT_FDCWD, path, text, 0600, NULL) != 0)
            return arg;
    return NULL;
}

// Writers of one file do not mix their content.
static void writers_do_not_mix(void **state)
{
    (void)state;
    static char a[4001], b[4001];
    memset(a, 'a', 4000);
    memset(b, 'b', 4000);
    disk.write_most = 512;
    pthread_t threads[2];
    void *failed;
    assert_int_equal(replace(false, NULL), 0);
    assert_int_equal(pthread_create(&threads[0], NULL, replace_often, a), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, replace_often, b), 0);
    for (int i = 0; i < 200; i++) {
        struct sbuf now = {0};
        assert_int_equal(file_read(path, 5000, &now, NULL), 0);
        bool whole = str_eq(sbuf_str(&now), str_z(a)) || str_eq(sbuf_str(&now), str_z(b)) ||
                     str_eq(sbuf_str(&now), str_z(new_text));
        sbuf_done(&now);
        assert_true(whole);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(entries(), 1);
}

static void an_equal_file_is_left_alone(void **state)
{
    (void)state;
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(file_ensure_atomic(AT_FDCWD, path, str_z(old_text), 0640, NULL), 0);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_int_equal(file_ensure_atomic(AT_FDCWD, path, str_z(new_text), 0640, NULL), 0);
    assert_true(has(new_text));
    assert_int_equal(file_ensure_atomic(AT_FDCWD, path, STR("the"), 0640, NULL), 0);
    assert_true(has("the"));
}

// --- Reading, directories ------------------------------------------------------------------------

static void reading_has_a_bound(void **state)
{
    (void)state;
    struct sbuf out = {0};
    struct err err = {0};
    char link[96];
    size_t n = strlen(old_text);
    assert_int_equal(file_read(path, n, &out, NULL), 0);
    assert_int_equal(file_read(path, n - 1, &out, &err), -ERR_TOO_LARGE);
    assert_non_null(strstr(err.msg, "larger than"));
    assert_int_equal(file_read_at(AT_FDCWD, path, n - 1, &out), -ERR_TOO_LARGE);
    sbuf_clear(&out);
    (void)snprintf(link, sizeof(link), "%s/link", dir);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(file_read(link, 100, &out, NULL), 0);
    assert_str(sbuf_str(&out), old_text);
    assert_int_equal(file_read_at(AT_FDCWD, link, 100, &out), -ELOOP);
    assert_int_equal(file_read(dir, 100, &out, &err), -EISDIR);
    sbuf_done(&out);
}

static void directories_are_made(void **state)
{
    (void)state;
    char deep[128];
    struct stat st;
    (void)snprintf(deep, sizeof(deep), "%s/a/b", dir);
    (void)umask(077); // must not show
    assert_int_equal(file_make_dirs(deep, 0755, NULL), 0);
    (void)umask(022);
    assert_int_equal(stat(deep, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    (void)snprintf(deep, sizeof(deep), "%s/a/b/c", dir);
    assert_int_equal(file_make_dirs(deep, 0700, NULL), 0);
    assert_int_equal(file_make_dirs(deep, 0755, NULL), 0); // stays as it is
    assert_int_equal(stat(deep, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(file_make_dirs(path, 0700, NULL), -ENOTDIR);
    (void)snprintf(deep, sizeof(deep), "%s/file/x", dir);
    assert_int_equal(file_make_dirs(deep, 0700, NULL), -ENOTDIR);
}

static void trees_go_links_stay_inside(void **state)
{
    (void)state;
    char a[128], inside[160];
    (void)snprintf(a, sizeof(a), "%s/tree/a", dir);
    assert_int_equal(file_make_dirs(a, 0700, NULL), 0);
    (void)snprintf(inside, sizeof(inside), "%s/link", a);
    assert_int_equal(symlink(path, inside), 0);
    (void)snprintf(a, sizeof(a), "%s/tree", dir);
    fault_hook_set(&hook);
    plan.code = -EIO;
    plan.fail_at = 2; // the content is gone, the directory stays
    assert_int_equal(file_remove_tree(a, NULL), -EIO);
    plan.fail_at = 0;
    assert_int_equal(file_remove_tree(a, NULL), 0);
    assert_int_equal(file_remove_tree(a, NULL), 0);
    has_old_alone();
}

// --- Hooks ---------------------------------------------------------------------------------------

static int fail_always(void *arg, const char *point)
{
    (void)point;
    *(int *)arg += 1;
    assert_int_equal(fault_point("of the hook itself"), 0);
    return -EPERM;
}

static void a_thread_has_its_own_hook(void **state)
{
    (void)state;
    int mine = 0;
    const struct fault_hook own = {fail_always, &mine};
    struct err err = {0};
    fault_hook_set(&hook);
    {
        FAULT_SCOPE(&own);
        assert_int_equal(fault_check("a point", &err), -EPERM);
        assert_non_null(strstr(err.msg, "a point"));
        assert_int_equal(fault_point("another"), -EPERM);
    }
    assert_int_equal(mine, 2);
    assert_int_equal(fault_point("of the process"), 0);
    assert_int_equal(plan.points, 1);
    fault_hook_set(NULL);
    assert_false(fault_armed());
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

RUN_TESTS(WITH_FILE(replaces_with_the_mode_whatever_the_umask),
          WITH_FILE(replaces_below_a_descriptor), WITH_FILE(a_failing_call_leaves_the_old_file),
          WITH_FILE(a_full_disk_in_the_middle_leaves_the_old_file),
          WITH_FILE(short_and_interrupted_writes_are_continued),
          WITH_FILE(a_failing_directory_is_told), WITH_FILE(every_point_fails),
          WITH_FILE(a_death_leaves_the_old_file_or_the_new), WITH_FILE(only_own_temporary_files_go),
          WITH_FILE(writers_do_not_mix), WITH_FILE(an_equal_file_is_left_alone),
          WITH_FILE(reading_has_a_bound), WITH_FILE(directories_are_made),
          WITH_FILE(trees_go_links_stay_inside), WITH_FILE(a_thread_has_its_own_hook))
