/* Preloaded into a node, between it and the C library: writes down what happens to the files of one
 * folder, and fails calls when it is told to. Built by disk/shim.rs; the layout of the records and of
 * the board is read there and in disk/journal.rs.
 *
 *   HELENUS_SHIM_FOLDER   the folder, absolute
 *   HELENUS_SHIM_JOURNAL  where to append records; none: nothing is recorded
 *   HELENUS_SHIM_BOARD    the faults to inject, a file that is mapped; none: no faults
 *
 * A record stands in the journal before the call returns, so whoever got an answer from the node finds
 * everything that led to it. A sync is written down twice: when it begins and when it has succeeded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#undef open
#undef open64

enum { FAULT_SYNC, FAULT_WRITE, FAULT_OPEN, FAULT_READ, FAULT_KINDS };

/* One kind of fault on the board. */
struct fault {
    volatile uint32_t countdown;  /* 0: none; n: the n-th call from now fails */
    volatile uint32_t error;      /* the errno; 0 with FAULT_READ: the call reads one byte less */
    volatile uint32_t stays;      /* 1: the calls after it fail as well */
    volatile uint32_t failed;     /* how many calls were failed */
    volatile uint32_t after;      /* how many calls of this kind came after the first failure */
    volatile uint32_t unused[3];
    volatile char part[96];       /* only paths with this in them */
};

struct record {
    uint32_t op, first, second, zero;
    uint64_t inode, number;
};

/* How clocks run: so much they were ahead when it began, and how many millionths they gain since. */
struct pace {
    volatile int64_t since_ns, ahead_ns, ppm;
};
struct paces {
    volatile uint64_t counts;
    struct pace either[2];
};

#define FDS_MAX 65536
/* Behind the faults: seconds by which the clock of the machine is wrong, two ways of its clocks to run (the one that counts is named
 * first), and by how many microseconds every sync takes longer. */
#define CLOCK_AT 1024
#define PACE_AT 1040
#define SLOW_AT 1104
#define BOARD_BYTES 4096
enum { UNKNOWN, OURS, OTHERS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static size_t folder_length;
static int journal = -1;
static struct fault *board;
static volatile int64_t *clock_shift;
static struct paces *paces;
static volatile int64_t *sync_us;
static unsigned char fds[FDS_MAX];
static uint64_t syncs;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("HELENUS_SHIM_FOLDER");
    if (name == NULL || strlen(name) >= sizeof folder) return;
    strcpy(folder, name);
    folder_length = strlen(folder);
    const char *file = getenv("HELENUS_SHIM_JOURNAL");
    if (file != NULL) {
        journal = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (journal < 0) _exit(97);
    }
    file = getenv("HELENUS_SHIM_BOARD");
    if (file != NULL) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC);
        if (fd < 0) _exit(97);
        void *mapped = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapped == MAP_FAILED) _exit(97);
        board = mapped;
        clock_shift = (volatile int64_t *)((char *)mapped + CLOCK_AT);
        paces = (struct paces *)((char *)mapped + PACE_AT);
        sync_us = (volatile int64_t *)((char *)mapped + SLOW_AT);
        syscall(SYS_close, fd);
    }
    syncs = (uint64_t)getpid() << 32;
}

/* The path as it is from the root; 0 if it is not in the folder. */
static int inside(int dirfd, const char *path, char *out) {
    if (folder_length == 0 || path == NULL) return 0;
    if (path[0] == '/') {
        if (strlen(path) >= PATH_MAX) return 0;
        strcpy(out, path);
    } else {
        char base[PATH_MAX];
        if (dirfd == AT_FDCWD) {
            if (getcwd(base, sizeof base) == NULL) return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
            ssize_t length = readlink(link, base, sizeof base - 1);
            if (length < 0) return 0;
            base[length] = 0;
        }
        if (strlen(base) + strlen(path) + 2 > PATH_MAX) return 0;
        strcpy(out, base);
        strcat(out, "/");
        strcat(out, path);
    }
    return strncmp(out, folder, folder_length) == 0 && (out[folder_length] == '/' || out[folder_length] == 0);
}

static int path_of(int fd, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    if (length < 0) return 0;
    out[length] = 0;
    return 1;
}

static int is_ours(int fd) {
    if (folder_length == 0 || fd < 0 || fd >= FDS_MAX || fd == journal) return 0;
    if (fds[fd] == UNKNOWN) {
        char path[PATH_MAX];
        int ours = path_of(fd, path) && strncmp(path, folder, folder_length) == 0 &&
                   (path[folder_length] == '/' || path[folder_length] == 0);
        fds[fd] = ours ? OURS : OTHERS;
    }
    return fds[fd] == OURS;
}

static void note(uint32_t op, uint64_t inode, uint64_t number, const void *a, size_t an, const void *b, size_t bn) {
    if (journal < 0) return;
    struct record head = {op, (uint32_t)an, (uint32_t)bn, 0, inode, number};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)a, an}, {(void *)b, bn}};
    size_t whole = sizeof head + an + bn;
    if ((size_t)syscall(SYS_writev, journal, parts, 3) != whole) _exit(98);
}

static void note_paths(uint32_t op, uint64_t inode, const char *a, const char *b) {
    note(op, inode, 0, a + folder_length, strlen(a) - folder_length, b == NULL ? "" : b + folder_length,
         b == NULL ? 0 : strlen(b) - folder_length);
}

static uint64_t inode_of(int fd, uint64_t *size) {
    struct stat64 seen;
    if (fstat64(fd, &seen) != 0) return 0;
    if (size != NULL) *size = (uint64_t)seen.st_size;
    return seen.st_ino;
}

/* A file that is written to while the clock is wrong has a time that is as wrong. */
static void touch(int fd) {
    if (clock_shift == NULL || *clock_shift == 0) return;
    struct timespec now[2];
    clock_gettime(CLOCK_REALTIME, &now[0]);
    now[1] = now[0];
    syscall(SYS_utimensat, fd, NULL, now, 0);
}

/* Whether this call is to fail. With the lock held. */
static int fails(int kind, const char *path) {
    if (board == NULL) return 0;
    struct fault *fault = &board[kind];
    if (strstr(path, (const char *)fault->part) == NULL) return 0;
    if (fault->failed > 0) fault->after++;
    if (fault->countdown == 0) return 0;
    if (fault->countdown > 1) {
        fault->countdown--;
        return 0;
    }
    if (!fault->stays) fault->countdown = 0;
    fault->failed++;
    return 1;
}

static int fails_fd(int kind, int fd) {
    char path[PATH_MAX];
    if (board == NULL || (board[kind].countdown == 0 && board[kind].failed == 0)) return 0;
    return path_of(fd, path) && fails(kind, path);
}

static int opened(int dirfd, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    if (!inside(dirfd, name, path)) {
        int fd = (int)syscall(SYS_openat, dirfd, name, flags, mode);
        if (fd >= 0 && fd < FDS_MAX) fds[fd] = UNKNOWN;
        return fd;
    }
    pthread_mutex_lock(&lock);
    struct stat64 seen;
    int was_there = fstatat64(dirfd, name, &seen, 0) == 0;
    int fd;
    if (fails(FAULT_OPEN, path)) {
        errno = (int)board[FAULT_OPEN].error;
        fd = -1;
    } else {
        fd = (int)syscall(SYS_openat, dirfd, name, flags, mode);
    }
    int saved = errno;
    if (fd >= 0) {
        if (fd < FDS_MAX) fds[fd] = OURS;
        if (!was_there && (flags & O_CREAT)) {
            note_paths('C', inode_of(fd, NULL), path, NULL);
        } else if (flags & O_TRUNC) {
            note('T', inode_of(fd, NULL), 0, "", 0, "", 0);
        }
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return fd;
}

#define OPEN_MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *name, int flags, ...) {
    OPEN_MODE(flags)
    return opened(AT_FDCWD, name, flags, mode);
}
int open64(const char *name, int flags, ...) {
    OPEN_MODE(flags)
    return opened(AT_FDCWD, name, flags | O_LARGEFILE, mode);
}
int openat(int dirfd, const char *name, int flags, ...) {
    OPEN_MODE(flags)
    return opened(dirfd, name, flags, mode);
}
int openat64(int dirfd, const char *name, int flags, ...) {
    OPEN_MODE(flags)
    return opened(dirfd, name, flags | O_LARGEFILE, mode);
}

int close(int fd) {
    if (fd >= 0 && fd < FDS_MAX) fds[fd] = UNKNOWN;
    return (int)syscall(SYS_close, fd);
}

static void note_write(int fd, uint64_t offset, const void *bytes, size_t count) {
    note('W', inode_of(fd, NULL), offset, bytes, count, "", 0);
}

/* A fault, or leave to go on with the lock held. */
static int begin_write(int fd) {
    pthread_mutex_lock(&lock);
    if (fails_fd(FAULT_WRITE, fd)) {
        pthread_mutex_unlock(&lock);
        errno = (int)board[FAULT_WRITE].error;
        return 0;
    }
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    if (!is_ours(fd)) return syscall(SYS_write, fd, bytes, count);
    if (!begin_write(fd)) return -1;
    ssize_t written = syscall(SYS_write, fd, bytes, count);
    int saved = errno;
    if (written > 0) {
        off64_t end = lseek64(fd, 0, SEEK_CUR);
        note_write(fd, (uint64_t)(end - written), bytes, (size_t)written);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return written;
}

static ssize_t written_at(int fd, const void *bytes, size_t count, off64_t offset) {
    if (!is_ours(fd)) return syscall(SYS_pwrite64, fd, bytes, count, offset);
    if (!begin_write(fd)) return -1;
    ssize_t written = syscall(SYS_pwrite64, fd, bytes, count, offset);
    touch(fd);
    int saved = errno;
    if (written > 0) note_write(fd, (uint64_t)offset, bytes, (size_t)written);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return written;
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) { return written_at(fd, bytes, count, offset); }
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) { return written_at(fd, bytes, count, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!is_ours(fd)) return syscall(SYS_writev, fd, parts, count);
    /* One part at a time is allowed, and simpler to write down. */
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len > 0) return write(fd, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

static int truncated(int fd, off64_t size) {
    if (!is_ours(fd)) return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_ftruncate, fd, size);
    int saved = errno;
    if (result == 0) note('T', inode_of(fd, NULL), (uint64_t)size, "", 0, "", 0);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int ftruncate(int fd, off_t size) { return truncated(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncated(fd, size); }

static int allocated(int fd, int mode, off64_t offset, off64_t length) {
    if (!is_ours(fd)) return (int)syscall(SYS_fallocate, fd, mode, offset, length);
    if (!begin_write(fd)) return -1;
    uint64_t before = 0, after = 0;
    inode_of(fd, &before);
    int result = (int)syscall(SYS_fallocate, fd, mode, offset, length);
    int saved = errno;
    uint64_t inode = inode_of(fd, &after);
    if (result == 0 && after != before) note('T', inode, after, "", 0, "", 0);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int fallocate(int fd, int mode, off_t offset, off_t length) { return allocated(fd, mode, offset, length); }
int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return allocated(fd, mode, offset, length); }

static int synced(int fd, long call) {
    if (!is_ours(fd)) return (int)syscall(call, fd);
    uint64_t size = 0;
    pthread_mutex_lock(&lock);
    if (fails_fd(FAULT_SYNC, fd)) {
        pthread_mutex_unlock(&lock);
        errno = (int)board[FAULT_SYNC].error;
        return -1;
    }
    uint64_t inode = inode_of(fd, &size);
    uint64_t ticket = ++syncs;
    /* The size tells of room that was taken without a call that is seen here. */
    note('f', inode, ticket, &size, sizeof size, "", 0);
    pthread_mutex_unlock(&lock);
    if (sync_us != NULL && *sync_us > 0) {
        struct timespec wait = {*sync_us / 1000000, *sync_us % 1000000 * 1000};
        while (nanosleep(&wait, &wait) != 0 && errno == EINTR) {}
    }
    int result = (int)syscall(call, fd);
    int saved = errno;
    if (result == 0) {
        pthread_mutex_lock(&lock);
        note('F', inode, ticket, "", 0, "", 0);
        pthread_mutex_unlock(&lock);
    }
    errno = saved;
    return result;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

static int renamed(int fromfd, const char *from, int tofd, const char *to, unsigned flags) {
    char a[PATH_MAX], b[PATH_MAX];
    int ours = inside(fromfd, from, a) & inside(tofd, to, b);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_renameat2, fromfd, from, tofd, to, flags);
    int saved = errno;
    if (result == 0 && ours) note_paths('R', 0, a, b);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int fromfd, const char *from, int tofd, const char *to) { return renamed(fromfd, from, tofd, to, 0); }
int renameat2(int fromfd, const char *from, int tofd, const char *to, unsigned flags) {
    return renamed(fromfd, from, tofd, to, flags);
}

static int linked(int fromfd, const char *from, int tofd, const char *to, int flags) {
    char a[PATH_MAX], b[PATH_MAX];
    int ours = inside(fromfd, from, a) & inside(tofd, to, b);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_linkat, fromfd, from, tofd, to, flags);
    int saved = errno;
    if (result == 0 && ours) note_paths('L', 0, a, b);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int link(const char *from, const char *to) { return linked(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int fromfd, const char *from, int tofd, const char *to, int flags) {
    return linked(fromfd, from, tofd, to, flags);
}

static int removed(int dirfd, const char *name, int flags) {
    char path[PATH_MAX];
    int ours = inside(dirfd, name, path);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_unlinkat, dirfd, name, flags);
    int saved = errno;
    if (result == 0 && ours) note_paths(flags & AT_REMOVEDIR ? 'D' : 'U', 0, path, NULL);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int unlinkat(int dirfd, const char *name, int flags) { return removed(dirfd, name, flags); }
int rmdir(const char *name) { return removed(AT_FDCWD, name, AT_REMOVEDIR); }

static int made(int dirfd, const char *name, mode_t mode) {
    char path[PATH_MAX];
    int ours = inside(dirfd, name, path);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_mkdirat, dirfd, name, mode);
    int saved = errno;
    if (result == 0 && ours) {
        struct stat64 seen = {0};
        fstatat64(dirfd, name, &seen, 0);
        note_paths('M', seen.st_ino, path, NULL);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int mkdir(const char *name, mode_t mode) { return made(AT_FDCWD, name, mode); }
int mkdirat(int dirfd, const char *name, mode_t mode) { return made(dirfd, name, mode); }

/* Copies inside the kernel are not seen here: the caller falls back to reading and writing. */
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t count, unsigned flags) {
    if (!is_ours(out)) return syscall(SYS_copy_file_range, in, from, out, to, count, flags);
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) {
    if (!is_ours(out)) return syscall(SYS_sendfile, out, in, offset, count);
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile(int out, int in, off_t *offset, size_t count) { return sendfile64(out, in, (off64_t *)offset, count); }

/* By how much the clocks of this machine are ahead by now, because they run too fast; behind, if it is less than nothing. */
static int64_t ahead_ns(void) {
    if (paces == NULL) return 0;
    struct pace *pace = &paces->either[paces->counts & 1];
    if (pace->ppm == 0 && pace->ahead_ns == 0) return 0;
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    int64_t since_us = (now.tv_sec * 1000000000LL + now.tv_nsec - pace->since_ns) / 1000;
    return pace->ahead_ns + since_us * pace->ppm / 1000;
}

static int runs_on(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result != 0) return result;
    if (clock == CLOCK_REALTIME && clock_shift != NULL) now->tv_sec += (time_t)*clock_shift;
    int64_t ahead = runs_on(clock) ? ahead_ns() : 0;
    if (ahead != 0) {
        int64_t whole = now->tv_sec * 1000000000LL + now->tv_nsec + ahead;
        now->tv_sec = (time_t)(whole / 1000000000LL);
        now->tv_nsec = (long)(whole % 1000000000LL);
    }
    return result;
}

/* How much of a read is wanted: all, less (1), or an error (-1). */
static int read_fault(int fd) {
    if (board == NULL || !is_ours(fd)) return 0;
    pthread_mutex_lock(&lock);
    int failed = fails_fd(FAULT_READ, fd);
    pthread_mutex_unlock(&lock);
    if (!failed) return 0;
    if (board[FAULT_READ].error == 0) return 1;
    errno = (int)board[FAULT_READ].error;
    return -1;
}
ssize_t read(int fd, void *bytes, size_t count) {
    int fault = read_fault(fd);
    if (fault < 0) return -1;
    return syscall(SYS_read, fd, bytes, fault && count > 1 ? count - 1 : count);
}
static ssize_t read_at(int fd, void *bytes, size_t count, off64_t offset) {
    int fault = read_fault(fd);
    if (fault < 0) return -1;
    return syscall(SYS_pread64, fd, bytes, fault && count > 1 ? count - 1 : count, offset);
}
ssize_t pread(int fd, void *bytes, size_t count, off_t offset) { return read_at(fd, bytes, count, offset); }
ssize_t pread64(int fd, void *bytes, size_t count, off64_t offset) { return read_at(fd, bytes, count, offset); }
