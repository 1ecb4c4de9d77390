/* burning.h - programs that use processor time in ways that may be counted nowhere: attacks of
 * test_jail.c. */
#ifndef GRPO_EXT_JAIL_TESTS_BURNING_H
#define GRPO_EXT_JAIL_TESTS_BURNING_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Each process stays below the limit of one. */
static void attack_relay(void) {
  for (int i = 0; i < 4; i++) {
    if (fork() == 0) {
      while (clock() < CLOCKS_PER_SEC / 2) continue;
      _exit(0);
    }
    wait(NULL);
  }
}

/* Uses 0.3 s. */
static void burn(void) {
  while (clock() < 3 * CLOCKS_PER_SEC / 10) continue;
}

static void burn_in_children(int n) {
  for (int i = 0; i < n; i++) {
    if (fork() == 0) {
      burn();
      _exit(0);
    }
    while (wait(NULL) < 0 && errno == EINTR) continue;
  }
}

/* The kernel reaps the children, and adds their time to nobody's. */
static void attack_deaf(void) {
  signal(SIGCHLD, SIG_IGN);
  burn_in_children(4);
}

static void attack_nowait(void) {
  const struct sigaction a = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
  sigaction(SIGCHLD, &a, NULL);
  burn_in_children(4);
}

/* Many short processes, whose parent has ended. */
static void attack_orphans(void) {
  signal(SIGCHLD, SIG_IGN);
  if (fork() == 0) {
    for (int i = 0; i < 100; i++) {
      if (fork() == 0) {
        while (clock() < CLOCKS_PER_SEC / 80) continue;
        _exit(0);
      }
      wait(NULL);
    }
    _exit(0);
  }
  wait(NULL);
}

static void *burn_in_thread(void *unused) {
  burn_in_children(2);
  return unused;
}

static void attack_threads(void) {
  pthread_t t[2];
  signal(SIGCHLD, SIG_IGN);
  for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, burn_in_thread, NULL);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
}

/* Three generations, of which each waits for the next or leaves it to the jail: 1.2 s. */
static void attack_honest(void) {
  int held[2];
  char byte;
  if (pipe(held)) return;
  burn();
  if (fork() == 0) {
    if (fork() == 0) {
      burn_in_children(1);
      _exit(0);
    }
    burn();
    wait(NULL);
    if (fork() == 0) { /* nobody waits for it */
      burn();
      _exit(0);
    }
    _exit(0);
  }
  close(held[1]);
  wait(NULL);
  while (read(held[0], &byte, 1) < 0 && errno == EINTR) continue; /* until all have ended */
}

#endif
