// SPDX-License-Identifier: Apache-2.0
//
// System calls that a container may make by default: the same in effect as containerd's default
// profile. Everything else is refused with EPERM, clone3 with ENOSYS so that libraries fall back to
// clone.
#include <string.h>

#include <linux/sched.h>

#include "node/oci/oci_int.h"

#include "base/banned.h"

// Words in one text: a table of pointers would be relocated at every start.
static const char always[] =
    "_llseek _newselect accept accept4 access adjtimex alarm bind brk cachestat capget capset "
    "chdir chmod chown chown32 clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 "
    "clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range "
    "connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl "
    "epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve "
    "execveat exit exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate "
    "fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 "
    "fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstat64 fstatat64 "
    "fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64 "
    "futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu "
    "getcwd getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups "
    "getgroups32 getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom "
    "getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid getsockname "
    "getsockopt gettid gettimeofday getuid getuid32 getxattr inotify_add_watch inotify_init "
    "inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents "
    "io_pgetevents_time64 io_setup io_submit ioctl ioprio_get ioprio_set ipc kill "
    "landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lchown32 "
    "lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr lstat "
    "lstat64 madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mkdir "
    "mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 mprotect mq_getsetattr mq_notify "
    "mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 "
    "mq_unlink mremap msgctl msgget msgrcv msgsnd msync munlock munlockall munmap "
    "name_to_handle_at nanosleep newfstatat open openat openat2 pause pidfd_open "
    "pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 "
    "prctl pread64 preadv preadv2 prlimit64 process_mrelease process_vm_readv "
    "process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2 read "
    "readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg "
    "remap_file_pages removexattr rename renameat renameat2 restart_syscall rmdir rseq "
    "rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend "
    "rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_get_priority_max "
    "sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler "
    "sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr "
    "sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop "
    "semtimedop semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto "
    "set_robust_list set_thread_area set_tid_address setfsgid setfsgid32 setfsuid setfsuid32 "
    "setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 "
    "setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid "
    "setsockopt setuid setuid32 setxattr shmat shmctl shmdt shmget shutdown sigaltstack "
    "signalfd signalfd4 sigprocmask sigreturn socketcall socketpair splice stat stat64 statfs "
    "statfs64 statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time "
    "timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime "
    "timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime "
    "timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat "
    "utime utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write writev ";

// Additional system calls by capability.
static const struct {
    const char *capability, *calls;
} by_capability[] = {
    {"CAP_DAC_READ_SEARCH", "open_by_handle_at"},
    {"CAP_SYS_ADMIN", "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick "
                      "lookup_dcookie mount mount_setattr move_mount open_tree "
                      "perf_event_open quotactl quotactl_fd setdomainname sethostname setns "
                      "syslog umount umount2 unshare"},
    {"CAP_SYS_BOOT", "reboot"},
    {"CAP_SYS_CHROOT", "chroot"},
    {"CAP_SYS_MODULE", "delete_module init_module finit_module"},
    {"CAP_SYS_PACCT", "acct"},
    {"CAP_SYS_PTRACE", "kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev "
                       "ptrace"},
    {"CAP_SYS_RAWIO", "iopl ioperm"},
    {"CAP_SYS_TIME", "settimeofday stime clock_settime clock_settime64"},
    {"CAP_SYS_TTY_CONFIG", "vhangup"},
    {"CAP_SYS_NICE", "get_mempolicy mbind set_mempolicy set_mempolicy_home_node"},
    {"CAP_SYSLOG", "syslog"},
    {"CAP_BPF", "bpf"},
    {"CAP_PERFMON", "perf_event_open"},
};

#if defined(__x86_64__)
static const char *const architectures[] = {"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"};
static const char of_architecture[] = "arch_prctl modify_ldt";
#elif defined(__aarch64__)
static const char *const architectures[] = {"SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"};
static const char of_architecture[] =
    "arm_fadvise64_64 arm_sync_file_range sync_file_range2 breakpoint cacheflush set_tls";
#elif defined(__riscv)
static const char *const architectures[] = {"SCMP_ARCH_RISCV64"};
static const char of_architecture[] = "riscv_flush_icache";
#elif defined(__powerpc64__)
static const char *const architectures[] = {"SCMP_ARCH_PPC64LE"};
static const char of_architecture[] = "sync_file_range2 swapcontext";
#elif defined(__s390x__)
static const char *const architectures[] = {"SCMP_ARCH_S390X", "SCMP_ARCH_S390"};
static const char of_architecture[] = "s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr";
#else
#    error "which architecture's system calls may containers make?"
#endif

static void write_words(struct json_writer *w, const char *words)
{
    struct str rest = str_z(words), word;
    while (rest.n > 0) {
        (void)str_cut(rest, ' ', &word, &rest);
        if (word.n)
            json_write_str(w, word);
    }
}

static void begin_rule(struct json_writer *w, const char *words, const char *action)
{
    json_write_object_begin(w);
    json_write_array_in(w, "names");
    write_words(w, words);
    json_write_array_end(w);
    json_write_text(w, "action", str_z(action));
}

static void write_rule(struct json_writer *w, const char *words)
{
    begin_rule(w, words, "SCMP_ACT_ALLOW");
    json_write_object_end(w);
}

// A rule on one argument.
static void write_argument_rule(struct json_writer *w, const char *words, uint64_t index,
                                uint64_t value, const char *op)
{
    begin_rule(w, words, "SCMP_ACT_ALLOW");
    json_write_array_in(w, "args");
    json_write_object_begin(w);
    json_write_number(w, "index", (int64_t)index);
    json_write_number(w, "value", (int64_t)value);
    if (strcmp(op, "SCMP_CMP_MASKED_EQ") == 0)
        json_write_number(w, "valueTwo", 0);
    json_write_text(w, "op", str_z(op));
    json_write_object_end(w);
    json_write_array_end(w);
    json_write_object_end(w);
}

// Without CAP_SYS_ADMIN no clone that makes namespaces, and no clone3, whose flags cannot be seen.
static void write_clone(struct json_writer *w)
{
    uint64_t namespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                          CLONE_NEWNET | CLONE_NEWCGROUP;
#if defined(__s390x__)
    write_argument_rule(w, "clone", 1, namespaces, "SCMP_CMP_MASKED_EQ");
#else
    write_argument_rule(w, "clone", 0, namespaces, "SCMP_CMP_MASKED_EQ");
#endif
    begin_rule(w, "clone3", "SCMP_ACT_ERRNO");
    json_write_number(w, "errnoRet", 38); // ENOSYS
    json_write_object_end(w);
}

void oci_write_seccomp(struct json_writer *w, const struct oci_caps *caps)
{
    static const uint64_t personalities[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
    json_write_object_begin(w);
    json_write_text(w, "defaultAction", STR("SCMP_ACT_ERRNO"));
    json_write_array_in(w, "architectures");
    for (size_t i = 0; i < array_len(architectures); i++)
        json_write_str(w, str_z(architectures[i]));
    json_write_array_end(w);
    json_write_array_in(w, "syscalls");
    write_rule(w, always);
    write_rule(w, of_architecture);
    write_argument_rule(w, "socket", 0, 40, "SCMP_CMP_NE"); // AF_VSOCK reaches the hypervisor
    for (size_t i = 0; i < array_len(personalities); i++)
        write_argument_rule(w, "personality", 0, personalities[i], "SCMP_CMP_EQ");
    for (size_t i = 0; i < array_len(by_capability); i++)
        if (oci_caps_have(caps, str_z(by_capability[i].capability)))
            write_rule(w, by_capability[i].calls);
    if (!oci_caps_have(caps, STR("CAP_SYS_ADMIN")))
        write_clone(w);
    json_write_array_end(w);
    json_write_object_end(w);
}
