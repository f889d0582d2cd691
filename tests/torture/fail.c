/* A library that goes in front of libc (LD_PRELOAD) and lets one call of a kind fail: the N-th in all processes of a command.

   Calls on files count if they are below a folder, or on pipes; allocations and threads, if our own C code or the
   interpreter asks for them: what fails within other libraries is theirs. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the order of KINDS in test_faults.py. */
enum { WRITE, SHORT, READ, OPEN, CLOSE, SYNC, RENAME, FOLDER, ROOM, CUT, LOCK, MODE, MAP, FORK, EXEC, THREAD, LOAD, MEMORY };

struct plan {
  int64_t kind, number, error, failed, counts[MEMORY + 1];
};

static struct plan *plan; /* in a file that all processes have mapped */
static const char *below;
static struct {
  uintptr_t start, stop;
} ours[64]; /* where our compiled C code is */
static int known;

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("FAIL_PLAN");
  int file = name ? open(name, O_RDWR) : -1;
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  below = getenv("FAIL_BELOW");
  if (mapped != MAP_FAILED && below) plan = mapped;
}

static int fails(int kind) {
  if (!plan) return 0;
  int64_t number = __atomic_add_fetch(&plan->counts[kind], 1, __ATOMIC_SEQ_CST);
  if (plan->kind != kind || plan->number != number) return 0;
  plan->failed = 1;
  errno = plan->error;
  return 1;
}

static int is_below(const char *path) { return plan && (path[0] != '/' || !strncmp(path, below, strlen(below))); }

static int counts(int file) {
  char link[64], path[4096];
  if (!plan || file < 3) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return !strncmp(path, "pipe:", 5) || is_below(path);
}

static int is_ours(uintptr_t caller) {
  for (int i = 0; i < known; i++)
    if (caller >= ours[i].start && caller < ours[i].stop) return 1;
  return 0;
}

ssize_t write(int file, const void *data, size_t size) {
  REAL(ssize_t, write, int, const void *, size_t);
  if (counts(file)) {
    if (fails(WRITE)) return -1;
    if (size > 1 && fails(SHORT)) size /= 2;
  }
  return real(file, data, size);
}

ssize_t read(int file, void *data, size_t size) {
  REAL(ssize_t, read, int, void *, size_t);
  return counts(file) && fails(READ) ? -1 : real(file, data, size);
}

static int opens(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
  return is_below(path) && fails(OPEN) ? -1 : real(path, flags, mode);
}

#define OPENS(name)                                                                                                    \
  int name(const char *path, int flags, ...) {                                                                         \
    REAL(int, name, const char *, int, ...);                                                                           \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode_t mode = va_arg(rest, mode_t);                                                                                \
    va_end(rest);                                                                                                      \
    return opens(real, path, flags, mode);                                                                             \
  }
OPENS(open)
OPENS(open64)

int close(int file) {
  REAL(int, close, int);
  if (!counts(file) || !fails(CLOSE)) return real(file);
  int error = errno;
  real(file); /* Linux closes the file in any case */
  errno = error;
  return -1;
}

int vfork(void) { return fails(FORK) ? -1 : fork(); } /* the child of fork() may return from here */

#define PASSES(type, name, kind, when, given, ...)                                                                     \
  type name given {                                                                                                    \
    static type(*real) given;                                                                                          \
    if (!real) real = dlsym(RTLD_NEXT, #name);                                                                         \
    return (when) && fails(kind) ? (type)-1 : real(__VA_ARGS__);                                                       \
  }
PASSES(int, fsync, SYNC, counts(file), (int file), file)
PASSES(int, rename, RENAME, is_below(to), (const char *from, const char *to), from, to)
PASSES(int, mkdir, FOLDER, is_below(path), (const char *path, mode_t mode), path, mode)
PASSES(int, ftruncate64, CUT, counts(file), (int file, off64_t size), file, size)
PASSES(int, flock, LOCK, counts(file), (int file, int what), file, what)
PASSES(int, fchmod, MODE, counts(file), (int file, mode_t mode), file, mode)
PASSES(pid_t, fork, FORK, 1, (void), )
PASSES(int, execve, EXEC, 1, (const char *path, char *const words[], char *const variables[]), path, words, variables)
PASSES(void *, mmap64, MAP, counts(file), (void *at, size_t size, int may, int how, int file, off64_t from), at, size, may,
       how, file, from)

int posix_fallocate64(int file, off64_t from, off64_t size) {
  REAL(int, posix_fallocate64, int, off64_t, off64_t);
  return counts(file) && fails(ROOM) ? errno : real(file, from, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
  REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  Dl_info caller;
  uintptr_t from = (uintptr_t)__builtin_return_address(0);
  int python = dladdr((void *)from, &caller) && strstr(caller.dli_fname, "python") && !strstr(caller.dli_fname, "site-packages");
  return (python || is_ours(from)) && fails(THREAD) ? EAGAIN : real(thread, how, run, argument);
}

void *dlopen(const char *path, int how) {
  REAL(void *, dlopen, const char *, int);
  int own = path && is_below(path);
  if (own && fails(LOAD)) path = "/nowhere/library.so"; /* so that dlerror() has a text */
  struct link_map *map = real(path, how);
  struct stat status;
  if (map && own && known < 64 && !stat(path, &status)) {
    ours[known].start = map->l_addr;
    ours[known++].stop = map->l_addr + status.st_size;
  }
  return map;
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

#define STARVES (known && is_ours((uintptr_t)__builtin_return_address(0)) && fails(MEMORY))
void *malloc(size_t size) { return STARVES ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return STARVES ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return STARVES ? NULL : __libc_realloc(old, size); }
void *aligned_alloc(size_t align, size_t size) { return STARVES ? NULL : __libc_memalign(align, size); }
