/* terminal.c - runs a program on a terminal, and prints what the terminal shows in the end.
 *
 *   terminal [-w COLUMNS] [-r COLUMNS=TEXT] [-k KEY=TEXT] [-l FILE] PROGRAM ARGUMENT...
 *
 *   -w  columns at first (80)
 *
 *   -r  once TEXT has come, the terminal gets another width; lines that no longer fit are wrapped
 *
 *   -k  once TEXT has come, the key is typed: ^C, or a character
 *
 *   -l  the file gets every byte as it came
 *
 * -r and -k may be repeated; each waits for its text after the one before.  The terminal knows
 * carriage return, end of line, backspace, CSI n A, CSI K, CSI J, and ignores colours.  Anything
 * else that begins with ESC is printed as "<ESC>".  The exit status is the program's, 128 + signal
 * if a signal ended it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { LONGEST = 1 << 16, MOST_ROWS = 1 << 14, MOST_ACTIONS = 16 };

/* ---- the screen: rows of cells; a cell is one character of UTF-8 --------------------------- */

typedef struct Cell {
  char bytes[5];
} Cell;

typedef struct Row {
  Cell *cell;
  int len;
  bool wrapped; /* it continues the row above */
} Row;

static Row rows[MOST_ROWS];
static int row_count = 1, row, column, columns = 80;
static bool at_edge; /* the next character begins a row */

static void die(const char *what) {
  perror(what);
  exit(99);
}

static void put_cell(Row *r, int at, const char *bytes) {
  if (at >= r->len) {
    r->cell = realloc(r->cell, sizeof *r->cell * (size_t)(at + 1));
    if (!r->cell) die("memory");
    for (int i = r->len; i <= at; i++) strcpy(r->cell[i].bytes, " ");
    r->len = at + 1;
  }
  snprintf(r->cell[at].bytes, sizeof r->cell[at].bytes, "%s", bytes);
}

static void next_row(bool wrapped) {
  if (++row >= MOST_ROWS) die("rows");
  if (row == row_count) rows[row_count++] = (Row){.wrapped = wrapped};
  rows[row].wrapped = wrapped;
}

static void put_character(const char *bytes) {
  if (at_edge) {
    next_row(true);
    column = 0;
  }
  put_cell(&rows[row], column, bytes);
  at_edge = column + 1 == columns;
  if (!at_edge) column++;
}

static void clear_rest(bool below) {
  if (rows[row].len > column) rows[row].len = column;
  for (int i = row + 1; below && i < row_count; i++) rows[i].len = 0;
}

/* Lays the rows out again, as terminals do whose lines are wrapped by themselves. */
static void lay_out_again(int width) {
  static Row old[MOST_ROWS];
  const int count = row_count, was_row = row, was_column = column + at_edge;
  bool new_edge = false;
  memcpy(old, rows, sizeof rows);
  memset(rows, 0, sizeof rows);
  int new_row = 0, new_column = 0;
  columns = width, row = -1, row_count = 0;
  for (int i = 0; i < count; i++) {
    if (!old[i].wrapped) {
      next_row(false);
      column = 0, at_edge = false;
    }
    for (int c = 0; c < old[i].len; c++) {
      put_character(old[i].cell[c].bytes);
      if (i == was_row && c < was_column) new_row = row, new_column = column, new_edge = at_edge;
    }
    if (i == was_row && was_column == 0) new_row = row, new_column = 0, new_edge = false;
    free(old[i].cell);
  }
  row = new_row, column = new_column, at_edge = new_edge;
}

/* ---- what comes ---------------------------------------------------------------------------- */

/* Takes a sequence that begins at ESC; returns how many bytes it has, 0: it is not whole yet. */
static size_t take_sequence(const char *s, size_t n) {
  if (n < 2) return 0;
  if (s[1] != '[') {
    put_character("<ESC>");
    return 1;
  }
  size_t i = 2;
  while (i < n && (s[i] == ';' || s[i] == '?' || (s[i] >= '0' && s[i] <= '9'))) i++;
  if (i == n) return 0;
  const int number = atoi(s + 2);
  switch (s[i]) {
  case 'm':
    break;
  case 'A':
    row -= number > 0 ? number : 1;
    break;
  case 'K':
    clear_rest(false);
    break;
  case 'J':
    clear_rest(true);
    break;
  default:
    put_character("<ESC>");
  }
  if (row < 0) row = 0;
  at_edge = false;
  return i + 1;
}

static size_t take_character(const char *s, size_t n) {
  const unsigned char first = (unsigned char)*s;
  const size_t len = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char bytes[5] = "";
  if (n < len) return 0;
  memcpy(bytes, s, len);
  put_character(bytes);
  return len;
}

/* Shows bytes; returns how many were whole. */
static size_t show(const char *s, size_t n) {
  size_t at = 0;
  while (at < n) {
    size_t taken = 1;
    if (s[at] == '\33') {
      taken = take_sequence(s + at, n - at);
    } else if (s[at] == '\r') {
      column = 0, at_edge = false;
    } else if (s[at] == '\n') {
      next_row(false);
      at_edge = false;
    } else if (s[at] == '\b') {
      if (column > 0) column--;
    } else {
      taken = take_character(s + at, n - at);
    }
    if (!taken) break;
    at += taken;
  }
  return at;
}

static void print_screen(void) {
  int last = row_count;
  while (last > 0 && rows[last - 1].len == 0) last--;
  for (int i = 0; i < last; i++) {
    for (int c = 0; c < rows[i].len; c++) fputs(rows[i].cell[c].bytes, stdout);
    putchar('\n');
  }
}

/* ---- the program --------------------------------------------------------------------------- */

typedef struct Action {
  int columns; /* 0: a key */
  char key;
  const char *text;
} Action;

static Action actions[MOST_ACTIONS];
static int action_count;

static void add_action(char kind, char *word) {
  char *text = strchr(word, '=');
  if (!text || action_count == MOST_ACTIONS) die("an action");
  actions[action_count++] = (Action){.columns = kind == 'r' ? atoi(word) : 0,
                                     .key = word[0] == '^' ? (char)(word[1] & 31) : word[0],
                                     .text = text + 1};
}

static int open_terminal(char **program, pid_t *child) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) || unlockpt(master)) die("a terminal");
  const struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
  ioctl(master, TIOCSWINSZ, &size);
  *child = fork();
  if (*child < 0) die("fork");
  if (*child > 0) return master;
  setsid();
  const int slave = open(ptsname(master), O_RDWR);
  if (slave < 0) die("its other side");
  ioctl(slave, TIOCSCTTY, 0);
  for (int fd = 0; fd < 3; fd++) dup2(slave, fd);
  if (slave > 2) close(slave);
  close(master);
  execvp(program[0], program);
  die(program[0]);
  return -1;
}

/* Does what waits for a text that has come; returns where the text ends. */
static size_t act(int master, const char *all, size_t seen, size_t *next) {
  while (*next < (size_t)action_count) {
    const Action *a = &actions[*next];
    const char *found = strstr(all + seen, a->text);
    if (!found) break;
    seen = (size_t)(found - all) + strlen(a->text);
    ++*next;
    if (a->columns) {
      const struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)a->columns};
      lay_out_again(a->columns);
      ioctl(master, TIOCSWINSZ, &size);
    } else if (write(master, &a->key, 1) != 1) {
      die("a key");
    }
  }
  return seen;
}

static void watch(int master, FILE *log) {
  static char all[1 << 22];
  size_t len = 0, shown = 0, seen = 0, next = 0;
  for (;;) {
    struct pollfd fd = {.fd = master, .events = POLLIN};
    if (poll(&fd, 1, 120000) <= 0) die("the program says nothing");
    const ssize_t n = read(master, all + len, sizeof all - 1 - len);
    if (n <= 0) return; /* EIO: the program has ended */
    if (log) fwrite(all + len, 1, (size_t)n, log);
    len += (size_t)n;
    all[len] = 0;
    shown += show(all + shown, len - shown);
    seen = act(master, all, seen, &next);
  }
}

int main(int argc, char **argv) {
  FILE *log = NULL;
  int option;
  while ((option = getopt(argc, argv, "+w:r:k:l:")) != -1) {
    if (option == 'w')
      columns = atoi(optarg);
    else if (option == 'l')
      log = fopen(optarg, "wb");
    else if (option == 'r' || option == 'k')
      add_action((char)option, optarg);
    else
      return 98;
  }
  pid_t child;
  const int master = open_terminal(argv + optind, &child);
  watch(master, log);
  int status = 0;
  waitpid(child, &status, 0);
  if (log) fclose(log);
  print_screen();
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
